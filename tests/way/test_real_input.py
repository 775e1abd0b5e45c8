"""Manifests that others wrote, as snapshot clusters: idle them, place them, wake them; nothing is left to do after."""

from __future__ import annotations

import shutil

import pytest

from tests.way.calls import Folder
from tests.way.manifests import UNLIMITED, fleet, idling, placed, target_ref

FLEET = fleet(["boutique", "guestbook", "cassandra"], UNLIMITED, name="real")
NIGHT = idling(
    "namespaces: {include: [default]}, services: {}, "
    "workloads: {kinds: [Deployment, StatefulSet, ReplicationController]}",
    downtime='"22:00-06:00"',
)
SPREAD = placed(
    7,
    "rebalance: true, clusters: {boutique: {weight: 2}, guestbook: {weight: 1, minReplicas: 2}}",
    target_ref(name="frontend"),
    name="frontend",
    namespace="default",
)
FILES = {
    "boutique": ["online-boutique/kubernetes-manifests.yaml"],
    "guestbook": [
        "guestbook/guestbook-all-in-one.yaml",
        "guestbook/redis-master-controller.yaml",
        "guestbook/redis-replica-controller.yaml",
    ],
    "cassandra": ["cassandra/cassandra-service.yaml", "cassandra/cassandra-statefulset.yaml"],
}
NIGHT_TIME = "2026-11-20T23:00:00Z"
MORNING = "2026-11-21T06:00:00Z"


@pytest.fixture
def real(shared, tmp_path):
    folder = Folder(tmp_path)
    for cluster, files in FILES.items():
        target = folder.path / "snapshot" / cluster
        target.mkdir(parents=True)
        for file in files:
            shutil.copyfile(shared / "real-input" / file, target / file.rpartition("/")[2])
    folder.write("policies/fleet.yaml", FLEET)
    return folder


def scales(folder):
    """Return the replicas of everything with a scale; 1 where the manifest says nothing."""
    kinds = ("Deployment", "StatefulSet", "ReplicationController")
    return {key: one["spec"].get("replicas", 1) for key, one in folder.objects().items() if key[2] in kinds}


def settled(folder, now):
    assert folder.apply(now).code == 0
    said = folder.plan(now, "--detailed-exitcode")
    assert said.code == 0, said.out


def test_a_night_and_a_morning(real):
    real.write("policies/night.yaml", NIGHT)
    before = scales(real)
    assert len(before) == 18
    settled(real, NIGHT_TIME)
    dark = {key for key, replicas in scales(real).items() if replicas == 0}
    assert len(dark) == 18
    settled(real, MORNING)
    assert scales(real) == before


def test_placement_over_deployments_of_others(real):
    real.write("policies/spread.yaml", SPREAD)
    for _ in range(4):
        assert real.apply(NIGHT_TIME).code == 0
    settled(real, NIGHT_TIME)
    frontends = {key[0]: replicas for key, replicas in scales(real).items() if key[3] == "frontend"}
    assert sum(frontends.values()) == 7
    assert frontends == {"boutique": 3, "guestbook": 4}  # two first, then the other five by weight


def test_idling_and_placement_together(real):
    real.write("policies/night.yaml", NIGHT)
    real.write("policies/spread.yaml", SPREAD)
    for _ in range(4):
        assert real.apply("2026-11-20T12:00:00Z").code == 0
    placed = scales(real)
    settled(real, NIGHT_TIME)
    assert set(scales(real).values()) == {0}
    settled(real, MORNING)
    assert scales(real) == placed
