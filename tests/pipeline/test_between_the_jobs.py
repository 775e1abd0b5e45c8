"""Federated ReplicaSets that go idle and wake: what one job leaves to the next, over several runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.errors import RefusedError
from reconciler.model import Write
from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import an_object, fleet, idling, placed, template, weights

EVENING, NIGHT, MORNING = "2026-11-23T19:00:00Z", "2026-11-23T21:00:00Z", "2026-11-24T07:30:00Z"
NIGHTS = idling(
    "namespaces: {include: [shop]}, workloads: {kinds: [ReplicaSet]}", "minAge: 0s", downtime='"20:00-07:00"'
)
SPACE = an_object("Namespace", "shop")
BOTH = ("east", "west")


def limited(share: str) -> str:
    return fleet(BOTH, f"limits: {{default: {{perCluster: {share}, fleet: {{share: 100%}}}}}}")


class TwoClusters(Folder):
    """Two clusters; `lose` and `find` take west away and give it back."""

    def web(self, replicas: int = 6, clusters: tuple[str, ...] = BOTH, app: str = "web", image: str = "web:1") -> None:
        made = placed(replicas, weights(*clusters), template(app, image), "clusterGracePeriod: 5m")
        self.write("policies/web.yaml", made)

    def run(self, now: str, *codes: int) -> str:
        said = self.apply(now)
        assert said.code in (codes or (0,)), said
        return said.out + said.err

    def counts(self) -> dict[str, int | None]:
        found = self.objects()
        keys = {name: (name, "shop", "ReplicaSet", "web") for name in BOTH}
        return {name: found[key]["spec"]["replicas"] if key in found else None for name, key in keys.items()}

    def local(self, cluster: str) -> Any:
        return self.objects()[cluster, "shop", "ReplicaSet", "web"]

    def status(self) -> dict[str, Any]:
        found = self.objects()["east", "reconciler", "ConfigMap", "reconciler-status-shop.web"]
        return dict(json.loads(found["metadata"]["annotations"]["reconciler/status"])["clusters"])

    def asked(self) -> dict[str, int]:
        return {name: entry["asked"] for name, entry in self.status().items()}

    def lose(self) -> None:
        shutil.move(self.path / "snapshot" / "west", self.path / "west")

    def find(self) -> None:
        shutil.move(self.path / "west", self.path / "snapshot" / "west")


@pytest.fixture
def clusters(tmp_path: Path) -> TwoClusters:
    made = TwoClusters(tmp_path)
    made.write("policies/fleet.yaml", limited("{share: 100%}"))
    made.write("policies/nights.yaml", NIGHTS)
    for name in BOTH:
        made.write(f"snapshot/{name}/shop.yaml", SPACE)
    return made


def test_a_cluster_that_is_lost_at_night_is_replaced_when_it_should_wake(clusters):
    clusters.web(2, ("west", "east"))
    clusters.web(1, ("west",))
    clusters.run(EVENING)
    clusters.run(NIGHT)
    clusters.run(NIGHT)
    assert clusters.counts() == {"east": None, "west": 0}
    assert (clusters.status()["west"]["idle"], clusters.status()["west"]["until"]) == ("nights", "2026-11-24T07:00:00Z")
    clusters.web(1)
    clusters.lose()
    for now in ("2026-11-23T23:00:00Z", "2026-11-23T23:10:00Z", "2026-11-24T06:50:00Z"):
        clusters.run(now, 6)
        assert clusters.counts()["east"] is None, "asleep in the night, wherever it is"
    clusters.run(MORNING, 6)
    assert clusters.counts()["east"] == 1


def test_explain_says_what_the_plan_does_with_what_a_limit_keeps_from_going_idle(clusters):
    clusters.write("policies/fleet.yaml", limited("{share: 0%, atLeast: 0}"))
    clusters.web(6)
    clusters.run(EVENING)
    clusters.web(10)
    assert "west/shop/ReplicaSet/web  replicas  3 -> 5" in clusters.plan(NIGHT).out
    said = clusters.explain("west/shop/ReplicaSet/web", NIGHT, "--policies", "policies")
    assert "Current 3, desired 5" in said.out


@cases(
    "change field",
    ("template", {"image": "web:2"}, ("template", "spec", "containers")),
    ("selector", {"app": "other"}, ("selector", "matchLabels")),
)
@cases("when", ("in the night", (NIGHT, MORNING)), ("in the run that wakes", (MORNING, MORNING)))
def test_what_the_policy_states_now_is_written_before_the_wake(clusters, change, field, when):
    """Pods of the old template would be orphans a few minutes after they were started."""
    clusters.web(6)
    clusters.run(EVENING)
    clusters.run(NIGHT)
    clusters.web(6, **change)
    expected = {"image": [{"name": "main", "image": "web:2"}], "app": {"app": "other"}}
    for now in when:
        clusters.run(now)
        for name in BOTH:
            local = clusters.local(name)["spec"]
            value = local
            for step in field:
                value = value[step]
            assert value == expected[next(iter(change))]
    assert clusters.counts() == {"east": 3, "west": 3}
    clusters.run("2026-11-24T07:35:00Z")
    assert clusters.counts() == {"east": 3, "west": 3}
    marks = clusters.local("west")["metadata"]["annotations"]
    assert not [key for key in marks if key.startswith("idling.")]
    assert "No changes." in clusters.plan("2026-11-24T07:40:00Z").out


@cases("image", ("as it was", "web:1"), ("after a change of its template", "web:2"))
def test_a_saved_plan_wakes_what_is_placed_and_writes_its_status_after_that(clusters, image):
    clusters.web(6)
    clusters.run(EVENING)
    assert clusters.plan(NIGHT, "--out", "plan.json").code == 0
    options = ("--snapshot", "snapshot", "--auto-approve", "--quiet", "--now")
    assert clusters.call("apply", "plan.json", *options, NIGHT).code == 0
    assert (clusters.counts(), clusters.status()["west"]["idle"]) == ({"east": 0, "west": 0}, "nights")
    clusters.web(6, image=image)
    assert clusters.plan(MORNING, "--out", "plan.json").code == 0
    said = clusters.call("apply", "plan.json", *options, MORNING)
    assert said.code == 0, said
    assert clusters.counts() == clusters.asked() == {"east": 3, "west": 3}
    assert clusters.local("west")["spec"]["template"]["spec"]["containers"] == [{"name": "main", "image": image}]


def test_a_wake_goes_on_where_the_change_of_the_template_is_filtered_out(clusters):
    clusters.web(6)
    clusters.run(EVENING)
    clusters.run(NIGHT)
    clusters.web(6, image="web:2")
    said = clusters.apply(MORNING, "--policy", "nights")
    assert said.code == 0, said
    assert clusters.counts() == {"east": 3, "west": 3}
    assert clusters.local("west")["spec"]["template"]["spec"]["containers"] == [{"name": "main", "image": "web:1"}]
    clusters.run("2026-11-24T07:35:00Z")
    assert clusters.local("west")["spec"]["template"]["spec"]["containers"] == [{"name": "main", "image": "web:2"}]


def test_a_wake_goes_on_after_the_change_of_the_template_was_refused(clusters, monkeypatch):
    """A policy engine that refuses the new template must not keep the old one dark."""
    clusters.web(6)
    clusters.run(EVENING)
    clusters.run(NIGHT)
    clusters.web(6, image="web:2")
    refused: list[str] = []
    write = SnapshotCluster.write

    def unless_template(cluster: SnapshotCluster, change: Write) -> None:
        if change.ref.kind == "ReplicaSet" and any("template" in one.path for one in change.patch):
            refused.append(change.ref.cluster)
            raise RefusedError(f"{change.ref}: denied by a policy")
        write(cluster, change)

    monkeypatch.setattr(SnapshotCluster, "write", unless_template)
    clusters.run(MORNING, 6)
    assert clusters.counts() == {"east": 0, "west": 0}
    clusters.run("2026-11-24T07:35:00Z", 0, 6)
    assert clusters.counts() == {"east": 3, "west": 3}
    assert sorted(set(refused)) == ["east", "west"]
