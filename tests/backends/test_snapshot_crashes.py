"""Whoever is killed in the middle of a write leaves the old objects or the new ones, never something between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.backends.base import CONFIG_MAPS, PODS
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.folder import PENDING
from reconciler.errors import ClusterError
from tests.backends.crashes import DIED, WRITES
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


def opened(directory: Path) -> SnapshotCluster:
    return SnapshotCluster(directory, "east", victim_order=last_names_first)


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
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.backends.crashes", str(directory), str(step), write]
    code = subprocess.run(command, cwd=root, check=False, capture_output=True, timeout=60).returncode
    assert code in (0, DIED)
    return code == DIED


@pytest.mark.parametrize("write", sorted(WRITES))
def test_killed_at_every_step(tmp_path: Path, write: str) -> None:
    old = seen(a_folder(tmp_path / "old", FILES))
    opened(tmp_path / "old").write(WRITES[write])
    new = seen(tmp_path / "old")
    assert old != new
    outcomes = []
    step = 1
    while die(a_folder(tmp_path / f"{step:02}", FILES), step, write):
        found = seen(tmp_path / f"{step:02}")
        assert found in (old, new)
        outcomes.append(found == new)
        if found == old:
            opened(tmp_path / f"{step:02}").write(WRITES[write])
            assert seen(tmp_path / f"{step:02}") == new
        leftovers = [path.name for path in (tmp_path / f"{step:02}").rglob(".*")]
        assert leftovers == [] or found == new
        step += 1
    assert step > 3
    assert outcomes == sorted(outcomes)
    assert seen(tmp_path / f"{step:02}") == new


def test_an_interrupted_change_is_finished_before_anything_is_read(tmp_path: Path) -> None:
    directory = a_folder(tmp_path, {"a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}"})
    a_folder(directory, {".a.yaml.reconciler-new": "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}"})
    a_folder(directory, {PENDING: '[[".a.yaml.reconciler-new", "a.yaml"], [null, "b.yaml"]]'})
    assert [found.ref.name for found in opened(directory).list(CONFIG_MAPS)] == ["new"]
    assert os.listdir(directory) == ["a.yaml"]


@pytest.mark.parametrize("content", ["{", "[1]", "7"])
def test_an_interrupted_change_that_nobody_can_read_is_told(tmp_path: Path, content: str) -> None:
    directory = a_folder(tmp_path, {PENDING: content})
    with pytest.raises(ClusterError, match="an interrupted change cannot be finished"):
        opened(directory).list(CONFIG_MAPS)
