"""`freeze` and `unfreeze` on a snapshot folder: runs before, during and after; a week of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.calls import Folder
from tests.pipeline.week import a_week, at, rfc3339, run, state


@pytest.fixture
def week(tmp_path: Path) -> Folder:
    folder = a_week(tmp_path)
    folder.write("snapshot/dev/namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: dev-1}\n")
    return folder


def brake(folder: Folder, moment: str, verb: str = "freeze", *arguments: str):
    length = ("--for", "4d", "--reason", "load test", "--by", "alice") if verb == "freeze" else ()
    return folder.call(verb, *arguments, *length, "--snapshot", "snapshot", "--now", rfc3339(at(moment)))


def test_a_week_with_a_freeze_has_no_decrease_and_every_wake_on_time(week: Folder) -> None:
    seen = {}
    run(week, at("2026-11-16 20:05"))
    assert state(week) == "dark"
    said = brake(week, "2026-11-16 22:00")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "Fleet week: frozen by alice until Fri 2026-11-20 21:00 UTC: load test\nWritten to 1 cluster: dev.\n"
    )
    for moment in (
        "2026-11-17 06:55",
        "2026-11-17 07:00",
        *(f"2026-11-{day} {hour}:05" for day in (17, 18, 19) for hour in ("20", "23")),
        "2026-11-20 21:55",
        "2026-11-20 22:00",
        "2026-11-23 07:00",
    ):
        run(week, at(moment))
        seen[moment] = state(week)
    dark = [moment for moment, found in seen.items() if found == "dark"]
    assert dark == ["2026-11-17 06:55", "2026-11-20 22:00"]
    assert set(seen.values()) == {"awake", "dark"}


def test_a_plan_says_who_froze_until_when_and_why(week: Folder) -> None:
    brake(week, "2026-11-16 19:00")
    night = rfc3339(at("2026-11-16 20:05"))
    words = "frozen by alice until Fri 2026-11-20 19:00: load test; wakes go on, nothing is idled"
    assert words in week.plan(night).out
    assert words in week.plan(night, "--summary").out
    (notice,) = json.loads(week.plan(night, "-o", "json").out)["notices"]
    assert notice["kind"] == "frozen"
    assert notice["reasons"][0] == {
        "code": "Frozen",
        "values": {"by": "alice", "reason": "load test", "until": "2026-11-20T18:00:00Z"},
    }
    explained = week.call("explain", "dev/dev-1/Deployment/web", "--snapshot", "snapshot", "--now", night).out
    assert "frozen by alice until Fri 2026-11-20 19:00: load test" in explained


def test_a_run_in_the_dark_wakes_what_is_asked_for_while_frozen(week: Folder) -> None:
    run(week, at("2026-11-16 20:05"))
    brake(week, "2026-11-16 22:00")
    said = week.call("wake", "dev/dev-1", "--snapshot", "snapshot", "--now", rfc3339(at("2026-11-16 23:00")), "--quiet")
    assert said.code == 0
    assert state(week) == "awake"


def test_unfreeze_ends_one_scope_and_says_what_else_is_frozen(week: Folder) -> None:
    brake(week, "2026-11-16 19:00", "freeze", "dev-1")
    refused = brake(week, "2026-11-16 19:10", "unfreeze")
    assert refused.code == 64
    assert "the Fleet is not frozen; dev-1 is" in refused.err
    assert brake(week, "2026-11-16 19:10", "unfreeze", "dev-1").out == (
        "dev-1: no longer frozen by alice until Fri 2026-11-20 18:00 UTC: load test\n"
    )
    run(week, at("2026-11-16 20:05"))
    assert state(week) == "dark"


def test_a_freeze_that_another_one_replaces_is_said(week: Folder) -> None:
    brake(week, "2026-11-16 19:00")
    words = "was frozen by alice until Fri 2026-11-20 18:00 UTC: load test; this one takes its place"
    assert brake(week, "2026-11-16 19:10").err == f"notice: Fleet week: {words}\n"


def test_a_slash_at_the_end_changes_nothing(week: Folder) -> None:
    for scope in ("dev/", "dev-1/", "dev/dev-1/"):
        assert brake(week, "2026-11-16 19:00", "freeze", scope).code == 0
    for scope, named in (("dev/", "dev"), ("dev-1", "dev-1"), ("dev/dev-1/", "dev/dev-1")):
        assert brake(week, "2026-11-16 19:10", "unfreeze", scope).out.startswith(f"{named}: no longer frozen by alice")


def test_only_unfreeze_all_ends_what_cannot_be_read(week: Folder) -> None:
    data = 'metadata: {name: freeze, namespace: reconciler}\ndata: {freezes: "{"}\n'
    week.write("snapshot/dev/freeze.yaml", f"apiVersion: v1\nkind: ConfigMap\n{data}")
    why = 'the ConfigMap freeze cannot be read: freeze/freezes is "{", expected JSON'
    for scope in ((), ("dev-1",)):
        said = brake(week, "2026-11-16 19:10", "unfreeze", *scope)
        assert (said.code, said.out) == (1, ""), "nothing says that nothing is frozen"
        assert said.err == f"error: dev: {why}; unfreeze --all ends whatever it says\n"
    frozen = brake(week, "2026-11-16 19:10")
    assert (frozen.code, frozen.out) == (1, ""), "nothing says that anything is frozen"
    ended = brake(week, "2026-11-16 19:10", "unfreeze", "--all")
    assert (ended.code, ended.out) == (0, f"Fleet week: no longer frozen: {why}\n")


def test_a_freeze_that_cannot_be_written_is_not_said_to_be_over(week: Folder) -> None:
    brake(week, "2026-11-16 19:00")
    [file] = [path for path in (week.path / "snapshot/dev").rglob("*.yaml") if "load test" in path.read_text()]
    (week.path / "snapshot/shared").mkdir()
    file.rename(week.path / "snapshot/shared/freeze.yaml")
    file.symlink_to("../shared/freeze.yaml")
    said = brake(week, "2026-11-16 19:10", "unfreeze")
    assert (said.code, said.out) == (1, "")
    assert "only what is inside is written" in said.err


def test_unfreeze_all_ends_every_scope(week: Folder) -> None:
    for scope in ("dev", "dev/dev-1"):
        assert brake(week, "2026-11-16 19:00", "freeze", scope).code == 0
    ended = json.loads(brake(week, "2026-11-16 19:10", "unfreeze", "--all", "-o", "json").out)
    assert [(one["cluster"], one["namespace"]) for one in ended["ended"]] == [("dev", ""), ("dev", "dev-1")]
    again = brake(week, "2026-11-16 19:10", "unfreeze", "--all")
    assert (again.code, again.out) == (0, "Nothing is frozen.\n"), "a script may call it twice"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dve",), 'neither a cluster nor a namespace is called so, did you mean "dev"?'),
        (("dve/dev-1",), '"dve" is not a cluster of the Fleet, did you mean "dev"?'),
        (("dev/dev-2",), 'did you mean "dev-1"?'),
        (
            ("dev/dev-1/Deployment/web",),
            "names more than a namespace, expected CLUSTER, NAMESPACE or CLUSTER/NAMESPACE",
        ),
        pytest.param(("",), '"" does not name an object', id="an empty variable, not the whole Fleet"),
        (("--reason", " "), "--reason: expected 1 to 500 characters that say why"),
        (("--for", "soon"), '"soon" is not a duration, expected something like 90s, 30m, 1h30m or 2d, from 1m to 999d'),
        (("--for", "0s"), '"0s" is out of range, expected something like 90s, 30m, 1h30m or 2d, from 1m to 999d'),
    ],
)
def test_what_freeze_refuses(week: Folder, arguments: tuple[str, ...], words: str) -> None:
    length = ("--for", "4h", "--reason", "x")
    said = week.call("freeze", *length, *arguments, "--snapshot", "snapshot")
    assert said.code == 64
    assert words in said.err
