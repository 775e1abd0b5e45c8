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
        "import atexit, sys\n"
        f"sys.argv = ['reconciler', *{arguments!r}]\n"
        "from reconciler.__main__ import main\n"
        "atexit.register(lambda: print('MODULES', *sorted(sys.modules)))\n"
        "main()\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return set(said.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_loads_nothing_but_words(arguments):
    loaded = modules_after(*arguments)
    assert not loaded & {*HEAVY, "click", "yaml", "json", "msgspec", "dataclasses", "reconciler.errors"}


@pytest.mark.parametrize("verb", ["validate", "plan", "diff", "apply", "show", "calendar"])
def test_the_help_of_a_verb_loads_no_heavy_library(verb):
    assert not modules_after(verb, "--help") & set(HEAVY)


def test_a_plan_of_live_clusters_loads_nothing_that_only_others_need():
    loaded = modules_after("plan", "--help")
    assert not {name for name in loaded if name.startswith("reconciler.backends.snapshot.")}
    assert not loaded & {"importlib.metadata", "zipfile"}


def test_a_run_over_a_snapshot_loads_nothing_that_only_live_clusters_need(repository):
    example = repository / "examples" / "quickstart"
    loaded = modules_after("plan", str(example / "policies"), "--snapshot", str(example / "snapshot"), "-o", "json")
    assert "reconciler.backends.snapshot.cluster" in loaded
    assert not loaded & {"kubernetes", "urllib3", "rich", "ssl", "http.client", "email"}
    assert not {
        name for name in loaded if name.startswith(("reconciler.backends.kubernetes", "reconciler.backends.http"))
    }


def test_a_plan_as_text_loads_neither_what_apply_needs_nor_what_json_needs(repository):
    example = repository / "examples" / "quickstart"
    loaded = modules_after("plan", str(example / "policies"), "--snapshot", str(example / "snapshot"))
    assert "reconciler.report.text" in loaded
    of_json = {"reconciler.plan.documents", "reconciler.plan.json", "reconciler.report.json"}
    assert not loaded & {*of_json, "difflib", "html", "queue", "secrets", "socket"}
    assert not loaded & {"getpass", "random", "statistics"}
    assert {one for one in loaded if one.startswith("reconciler.apply.")} == {
        "reconciler.apply.access",
        "reconciler.apply.outcomes",
    }


LEAVING = """
import atexit, sys

class Last:
    def __del__(self):
        print("taken apart")

last = Last()
atexit.register(print, "said at exit")
sys.argv = ["reconciler", "plan", "nowhere"]
from reconciler.__main__ import main
main()
"""


def test_a_run_ends_without_taking_apart_what_it_read():
    """That takes as long as an eighth of a plan; what was registered for the end is done, and all is written out."""
    command = [sys.executable, "-c", LEAVING]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (said.stdout, said.returncode) == ("said at exit\n", 3)
    assert said.stderr.startswith("error: nowhere")


def test_the_help_is_the_same_on_both_ways(tmp_path):
    assert Folder(tmp_path).call("--help").out == help_text()
