"""What an exit code means is one line on stderr; nothing where all is well."""

from __future__ import annotations

import pytest

from tests.way.calls import Folder

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)


def limited(folder: Folder) -> None:
    fleet = folder.path / "policies" / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("{share: 10%, atLeast: 10}", "{share: 0%, atLeast: 0}"))


def without_metrics(folder: Folder) -> None:
    (folder.path / "snapshot" / "eu-west" / "metrics.yaml").unlink()


@pytest.mark.parametrize("verb", ["plan", "diff"])
def test_all_is_well(quickstart, verb):
    assert quickstart.call(verb, "policies", *LOOK).err == ""


@pytest.mark.parametrize(
    ("before", "arguments", "code", "words"),
    [
        (None, ("plan", "policies", "--detailed-exitcode"), 2, "7 changes and 7 metadata updates pending"),
        (None, ("diff", "policies", "--detailed-exitcode"), 2, "7 changes and 7 metadata updates pending"),
        (limited, ("plan", "policies"), 4, "limits hold back 3 changes and 1 metadata update"),
        (without_metrics, ("plan", "policies"), 6, "incomplete: 1 query unknown"),
        (limited, ("apply", "policies", "--auto-approve"), 4, "limits hold back 3 changes and 1 metadata update"),
        (None, ("apply", "policies", "--auto-approve", "--timeout", "0"), 1, "nothing was done"),
    ],
)
def test_a_code_says_what_it_means(quickstart, before, arguments, code, words):
    if before is not None:
        before(quickstart)
    said = quickstart.call(*arguments, *LOOK)
    assert (said.code, said.err.splitlines()[-1]) == (code, f"exit code {code}: {words}")
    assert quickstart.call(*arguments, *LOOK, "-q").err == ""
