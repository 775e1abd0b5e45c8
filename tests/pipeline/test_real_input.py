"""Manifests that others wrote, as snapshot clusters: idle them, place them, wake them; nothing is left to do after."""

from __future__ import annotations

import shutil

import pytest

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, fleet, idling

FLEET = fleet(["boutique", "guestbook", "cassandra"], UNLIMITED, name="real")
NIGHT = idling(
    "namespaces: {include: [default]}, services: {}, "
    "workloads: {kinds: [Deployment, StatefulSet, ReplicationController]}",
    downtime='"22:00-06:00"',
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
