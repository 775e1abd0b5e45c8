"""A cluster that refuses a local ReplicaSet three times in a row: its replicas move elsewhere, and come back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.errors import (
    ClusterError,
    ForbiddenError,
    MalformedAnswerError,
    NotFoundError,
    RefusedError,
    UnreachableError,
)
from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, identity, placed, template, weights

FLEET = fleet(["east", "west"], name="two")


def web(replicas: int = 8, *more: str, of: str = FLEET) -> str:
    """The Fleet and what it places."""
    return documents(of, placed(replicas, weights("*"), template(), *more))


START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def at(minutes: int) -> str:
    return (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def refuse(monkeypatch, cluster: str, what: str, error: type[ClusterError] = RefusedError) -> set[str]:
    """Let `cluster` refuse writes of ReplicaSets of that verb, until it is taken out of the set that comes back."""
    original = SnapshotCluster.write
    refusing = {cluster}

    def write(self, request):
        if self.name in refusing and request.ref.kind == "ReplicaSet" and request.verb == what:
            raise error(f"{request.ref}: exceeded quota: replicasets")
        original(self, request)

    monkeypatch.setattr(SnapshotCluster, "write", write)
    return refusing


def refusals(folder: Folder) -> list[str]:
    """What the home cluster remembers of refused writes."""
    memory = folder.objects().get(("east", "reconciler", "ConfigMap", "reconciler-memory"), {})
    return [text for text in memory.get("data", {}).values() if "count" in text]


@pytest.fixture
def two(tmp_path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", web())
    for cluster in ("east", "west"):
        folder.write(f"snapshot/{cluster}/cluster.yaml", identity(cluster))
    return folder


@cases(
    "error",
    ("quota or admission", RefusedError),
    ("its namespace is not there", NotFoundError),
)
def test_refused_three_times_then_elsewhere_and_back_once_it_works(two, monkeypatch, error):
    quota = refuse(monkeypatch, "west", "create", error)
    for run in range(3):
        said = two.apply(at(run))
        assert said.code == 6
        assert "exceeded quota: replicasets" in said.out
        assert two.replicas("east", "shop", "ReplicaSet", "web") == 4
    [refusal] = map(json.loads, refusals(two))
    assert (refusal["count"], refusal["retryAfter"]) == (3, at(7))

    assert two.apply(at(3)).code == 0
    assert two.replicas("east", "shop", "ReplicaSet", "web") == 8
    assert two.plan(at(4), "--detailed-exitcode").code == 0

    quota.clear()
    for run in range(8, 14):
        assert two.apply(at(run)).code == 0
    memory = two.objects()["east", "reconciler", "ConfigMap", "reconciler-memory"]
    assert memory["data"] == {"unreachable-since": "{}"}
    assert [two.replicas(name, "shop", "ReplicaSet", "web") for name in ("east", "west")] == [4, 4]
    assert two.plan(at(15), "--detailed-exitcode").code == 0


def grows(two: Folder) -> None:
    """One replica set of two is to have one more, and is not let."""
    assert two.apply(at(0)).code == 0
    two.write("policies/all.yaml", web(10))


@cases(
    "error reason words",
    ("refused", RefusedError, "Refused", "scale was refused: "),
    ("a right is missing", ForbiddenError, "Failed", "scale failed: "),
    ("an answer that is none", MalformedAnswerError, "Failed", "scale failed: "),
)
def test_what_fails_in_each_run_has_one_event_whose_count_is_raised(two, monkeypatch, error, reason, words):
    grows(two)
    refusing = refuse(monkeypatch, "west", "patch", error)
    for run in (1, 2):
        assert two.apply(at(run)).code == 6
    [event] = [found for found in events(two, "west") if found["type"] == "Warning"]
    assert (event["reason"], event["count"]) == (reason, 2)
    assert (event["firstTimestamp"], event["lastTimestamp"]) == (at(1), at(2))
    assert event["message"].startswith(words)
    refusing.clear()
    assert two.apply(at(3)).code == 0
    assert len([found for found in events(two, "west") if found["type"] == "Warning"]) == 1


def test_what_nobody_took_has_no_event(two, monkeypatch):
    grows(two)
    refuse(monkeypatch, "west", "patch", UnreachableError)
    assert two.apply(at(1)).code == 6
    assert [found for found in events(two, "west") if found["type"] == "Warning"] == []


def refuse_events(monkeypatch) -> None:
    original = SnapshotCluster.write

    def write(self, request):
        if request.verb == "event":
            raise ForbiddenError(f"{self.name}: create events: forbidden")
        original(self, request)

    monkeypatch.setattr(SnapshotCluster, "write", write)


def test_what_is_kept_of_a_refusal_is_what_the_cluster_said(two, monkeypatch):
    refuse(monkeypatch, "west", "create")
    refuse_events(monkeypatch)
    said = two.apply(at(0))
    assert (said.code, "no Event was written: west: create events: forbidden" in said.out) == (6, True)
    [refusal] = map(json.loads, refusals(two))
    assert refusal["why"] == "west/shop/ReplicaSet/web: exceeded quota: replicasets"


def test_without_the_right_to_tell_events_nothing_else_fails(two, monkeypatch):
    refuse_events(monkeypatch)
    said = two.apply(at(0))
    assert (said.code, "no Event was written: west: create events: forbidden" in said.out) == (0, True)
    assert [two.replicas(name, "shop", "ReplicaSet", "web") for name in ("east", "west")] == [4, 4]


def events(folder: Folder, cluster: str) -> list[dict]:
    files = (folder.path / "snapshot" / cluster).rglob("*.yaml")
    found = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
    return [one for one in found if one["kind"] == "Event"]


def test_a_refused_delete_is_no_want_of_room(two, monkeypatch):
    two.write("policies/all.yaml", web(8, "onDelete: Delete"))
    assert two.apply(at(0)).code == 0
    two.write("policies/all.yaml", FLEET)
    held = refuse(monkeypatch, "west", "delete")
    said = two.apply(at(1))
    assert (said.code, "exceeded quota" in said.out, refusals(two)) == (6, True, [])
    held.clear()
    assert two.apply(at(2)).code == 0
    assert two.plan(at(3), "--detailed-exitcode").code == 0


def test_a_home_that_is_read_only_is_not_written_to(two, monkeypatch):
    two.write("policies/all.yaml", web(of=fleet(["{name: east, state: ReadOnly}", "west"], home="east", name="two")))
    refuse(monkeypatch, "west", "create")
    said = two.apply(at(0))
    assert said.code == 6
    assert "its refusal was not recorded" in said.out + said.err
    assert {kind for cluster, _, kind, _ in two.objects() if cluster == "east"} == {"Namespace"}


def test_what_a_cluster_does_not_let_go_of_says_nothing_about_its_room(two, monkeypatch):
    assert two.apply(at(0)).code == 0
    two.write("policies/all.yaml", web(4))
    refuse(monkeypatch, "west", "patch")
    assert two.apply(at(1)).code == 6
    assert refusals(two) == []
