"""Whoever is killed in the middle of a write leaves each object as it was or as it should be, and never loses one."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
import yaml

from reconciler.backends.protocols import CONFIG_MAPS, PODS
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from tests.backends.crashes import DIED, WRITES, main
from tests.backends.folders import BUILT_IN, a_folder, last_names_first

pytestmark = pytest.mark.laws

OWNER = "{apiVersion: apps/v1, kind: %s, name: %s, uid: %s, controller: true}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: web-%s, namespace: shop, ownerReferences: [%s]}}"
FILES = {
    "web.yaml": """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, namespace: shop, uid: u-1}
        spec: {replicas: 3}
        status: {replicas: 3, readyReplicas: 3}
        """,
    "sets/web.yaml": f"""
        apiVersion: apps/v1
        kind: ReplicaSet
        metadata: {{name: web-1, namespace: shop, uid: u-2, ownerReferences: [{OWNER % ("Deployment", "web", "u-1")}]}}
        spec: {{replicas: 3}}
        """,
    **{f"pods/{n}.yaml": POD % (n, OWNER % ("ReplicaSet", "web-1", "u-2")) for n in "123"},
}


def a_list(*manifests: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(one) for one in manifests]})


LISTS = {
    "web.yaml": a_list(FILES["web.yaml"], FILES["pods/3.yaml"]),
    "sets/web.yaml": a_list(FILES["sets/web.yaml"], FILES["pods/1.yaml"], FILES["pods/2.yaml"]),
}


CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["tests.backends.crashes"])


def opened(directory: Path) -> SnapshotCluster:
    return SnapshotCluster(Store(directory, "east"), victim_order=last_names_first)


def seen(directory: Path) -> tuple[object, ...]:
    """All that a reader sees of the folder."""
    cluster = opened(directory)
    return (
        cluster.list(BUILT_IN["Deployment"]),
        cluster.list(BUILT_IN["ReplicaSet"]),
        cluster.list(PODS),
        cluster.list(CONFIG_MAPS),
    )


def die(directory: Path, step: int, write: str) -> bool:
    """Have a process make the write and die at its Nth step; False where it was done before."""
    process = CHILDREN.Process(target=main, args=(str(directory), step, write))
    process.start()
    process.join(60)
    assert process.exitcode in (0, DIED)
    return process.exitcode == DIED


@pytest.mark.parametrize(
    ("files", "write"),
    [*(pytest.param(FILES, write, id=write) for write in sorted(WRITES)), pytest.param(LISTS, "scale", id="Lists")],
)
def test_killed_at_every_step(tmp_path, files, write):
    old = seen(a_folder(tmp_path / "old", files))
    opened(tmp_path / "old").write(WRITES[write])
    new = seen(tmp_path / "old")
    assert old != new
    outcomes = []
    step = 1
    while die(a_folder(tmp_path / f"{step:02}", files), step, write):
        found = seen(tmp_path / f"{step:02}")
        assert found == old or found[0] == new[0], "the object itself is written first"
        outcomes.append(found[0] == new[0])
        if found[0] == old[0] and found[3] == old[3]:
            opened(tmp_path / f"{step:02}").write(WRITES[write])
            assert seen(tmp_path / f"{step:02}") == new
            assert list((tmp_path / f"{step:02}").rglob(".*")) == []
        step += 1
    assert step > 3
    assert outcomes == sorted(outcomes)
    assert seen(tmp_path / f"{step:02}") == new
