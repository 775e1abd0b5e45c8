"""What a start costs: counted in modules, not in seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reconciler.cli.verbs import help_text
from tests.way.calls import Folder

HEAVY = ("kubernetes", "urllib3", "jinja2", "rich", "jsonschema")


def modules_after(*arguments: str) -> set[str]:
    code = (
        "import sys\n"
        f"sys.argv = ['reconciler', *{arguments!r}]\n"
        "from reconciler.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('MODULES', *sorted(sys.modules))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(said.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_loads_nothing_but_words(arguments):
    loaded = modules_after(*arguments)
    assert not loaded & {*HEAVY, "click", "yaml", "json", "msgspec", "dataclasses", "reconciler.errors"}


@pytest.mark.parametrize("verb", ["validate", "plan", "diff", "apply", "show", "calendar"])
def test_the_help_of_a_verb_loads_no_heavy_library(verb):
    assert not modules_after(verb, "--help") & set(HEAVY)


def test_a_run_over_a_snapshot_loads_nothing_that_only_live_clusters_need(repository):
    example = repository / "examples" / "quickstart"
    loaded = modules_after("plan", str(example / "policies"), "--snapshot", str(example / "snapshot"), "-o", "json")
    assert "reconciler.backends.snapshot.cluster" in loaded
    assert not loaded & {"kubernetes", "urllib3", "rich"}


def test_the_help_is_the_same_on_both_ways(tmp_path):
    assert Folder(tmp_path).call("--help").out == help_text()
