"""`freeze` and `unfreeze` on a snapshot folder: runs before, during and after; a week of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

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


def counts(folder: Folder) -> dict[str, int]:
    """Return what each workload, local ReplicaSets included, is scaled to; of a CronJob 1 runs, 0 is suspended."""
    return {
        "/".join(key): int(not one["spec"]["suspend"]) if key[2] == "CronJob" else one["spec"]["replicas"]
        for key, one in folder.objects().items()
        if key[2] in ("Deployment", "StatefulSet", "ReplicaSet", "CronJob")
    }


def make_unschedulable(folder: Folder, cluster: str) -> None:
    """Let no pod find a node any more that the federated ReplicaSet shop/web has on `cluster`."""
    file = folder.path / "snapshot" / cluster / "shop.yaml"
    documents = [one for one in yaml.safe_load_all(file.read_text()) if one]
    pods = [
        one
        for document in documents
        for one in document.get("items", [document])
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("web")
    ]
    assert pods
    for pod in pods:
        since = {"reason": "Unschedulable", "lastTransitionTime": "2026-11-21T01:00:00Z"}
        pod["status"] = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", **since}],
        }
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))


def test_a_week_with_a_freeze_moves_and_scales_down_nothing_either_whatever_pods_do(
    repository: Path, tmp_path: Path
) -> None:
    """What idling, placement and downscale would take away stays until the freeze ends; wakes come on time."""
    folder = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    friday, monday = "2026-11-20T22:00:00Z", "2026-11-23T06:00:00Z"
    folder.apply(friday, "--policy", "idle-runners")
    asleep = {"eu-west/ci/StatefulSet/runner": 2, "eu-west/ci/CronJob/nightly": 1}
    assert {name: counts(folder)[name] for name in asleep} == dict.fromkeys(asleep, 0)
    pending = json.loads(folder.plan(friday, "-o", "json").out)["actions"]
    assert {"idling", "placement", "downscale"} <= {one["job"] for one in pending}, "there is something to hold back"
    frozen = ("--for", "7d", "--reason", "load test", "--by", "alice")
    assert folder.call("freeze", *frozen, "--snapshot", "snapshot", "--now", friday).code == 0
    shown = folder.call("status", "--snapshot", "snapshot", "--now", friday).out
    assert "shop/web: 12 desired, 9 placed: eu-west 5, ap-south 4" in shown, "9 are not 12"
    before = counts(folder)
    for moment in (friday, "2026-11-21T02:00:00Z", "2026-11-23T05:50:00Z"):
        if moment != friday:
            make_unschedulable(folder, "ap-south")
        folder.apply(moment)
        assert counts(folder) == {**before, "us-east/dev-b/Deployment/reports": 2}, moment
    for moment in (monday, "2026-11-24T22:00:00Z", "2026-11-27T21:59:00Z"):
        folder.apply(moment)
        assert counts(folder) == {**before, "us-east/dev-b/Deployment/reports": 2, **asleep}, moment
    folder.apply("2026-11-27T22:00:00Z")
    after = counts(folder)
    assert after["eu-west/batch/Deployment/worker"] < before["eu-west/batch/Deployment/worker"]
    assert after["us-east/shop/ReplicaSet/web"] > before.get("us-east/shop/ReplicaSet/web", 0)
