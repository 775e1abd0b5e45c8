"""Whoever is killed in the middle of a write leaves the old objects or the new ones, never something between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.backends.protocols import CONFIG_MAPS, PODS
from reconciler.backends.snapshot.cluster import SnapshotCluster, finish_changes, open_snapshot
from reconciler.backends.snapshot.folder import PENDING, finish, locked
from reconciler.errors import SnapshotError
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


def a_list(*manifests: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(one) for one in manifests]})


LISTS = {
    "web.yaml": a_list(FILES["web.yaml"], FILES["pods/3.yaml"]),
    "sets/web.yaml": a_list(FILES["sets/web.yaml"], FILES["pods/1.yaml"], FILES["pods/2.yaml"]),
}


def opened(directory: Path) -> SnapshotCluster:
    return SnapshotCluster(directory, "east", victim_order=last_names_first)


def seen(directory: Path) -> tuple[object, ...]:
    """All that a reader sees of the folder, once the next writer has finished what was interrupted."""
    if (directory / PENDING).exists():
        with pytest.raises(SnapshotError, match="a change of several files was interrupted"):
            opened(directory).list(CONFIG_MAPS)
        with locked(directory, exclusive=True):
            finish(directory)
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


@pytest.mark.parametrize(
    ("files", "write"),
    [*(pytest.param(FILES, write, id=write) for write in sorted(WRITES)), pytest.param(LISTS, "scale", id="Lists")],
)
def test_killed_at_every_step(tmp_path: Path, files: dict[str, str], write: str) -> None:
    old = seen(a_folder(tmp_path / "old", files))
    opened(tmp_path / "old").write(WRITES[write])
    new = seen(tmp_path / "old")
    assert old != new
    outcomes = []
    step = 1
    while die(a_folder(tmp_path / f"{step:02}", files), step, write):
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


NEW = "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}"
OLD = {"east/a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}", "east/b.yaml": ""}


def interrupted(snapshot: Path, steps: str) -> Path:
    """A snapshot whose folder east says that `steps` were begun and not finished."""
    return a_folder(snapshot, {**OLD, "east/.a.yaml.reconciler-new": NEW, f"east/{PENDING}": steps})


def files_of(snapshot: Path) -> dict[str, bytes]:
    return {str(path.relative_to(snapshot)): path.read_bytes() for path in snapshot.rglob("*") if path.is_file()}


def test_c1_a_reader_leaves_an_interrupted_change_alone_and_says_who_finishes_it(tmp_path: Path) -> None:
    interrupted(tmp_path, '[[".a.yaml.reconciler-new", "a.yaml"], [null, "b.yaml"]]')
    before = files_of(tmp_path)
    for _ in range(2):
        with pytest.raises(SnapshotError, match="the next `reconciler apply`, `wake` or `restore` with this snapshot"):
            open_snapshot(tmp_path, ["east"], last_names_first)
    assert files_of(tmp_path) == before
    finish_changes(tmp_path)
    assert [found.ref.name for found in opened(tmp_path / "east").list(CONFIG_MAPS)] == ["new"]
    assert os.listdir(tmp_path / "east") == ["a.yaml"]


def test_c1_the_next_write_finishes_an_interrupted_change_first(tmp_path: Path) -> None:
    interrupted(tmp_path, '[[".a.yaml.reconciler-new", "a.yaml"], [null, "b.yaml"]]')
    opened(tmp_path / "east").write(WRITES["create"])
    assert {found.ref.name for found in opened(tmp_path / "east").list(CONFIG_MAPS)} == {"new"}
    assert (tmp_path / "east/a.yaml").read_text() == NEW


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param('[[".a.yaml.reconciler-new", "../../hooks/post-checkout"]]', id="C1 a target outside"),
        pytest.param('[["../outside.yaml", "a.yaml"]]', id="C1 a source outside"),
        pytest.param('[[null, "../outside.yaml"]]', id="C1 removal outside"),
        pytest.param('[[null, "/etc/x.yaml"]]', id="C1 removal of an absolute path"),
        pytest.param('[["x", "/missing/x"]]', id="C1 a folder that is not there"),
        pytest.param('[[null, "out/outside.yaml"]]', id="C1 behind a link"),
        pytest.param('[["hook", "a.yaml"]]', id="C1 another source than ours"),
        pytest.param('[[".a.yaml.reconciler-new", "sub/a.yaml"]]', id="C1 a source elsewhere"),
        pytest.param('[[null, ".git/config.yaml"]]', id="C1 a hidden folder"),
        pytest.param('[[null, "hook"]]', id="C1 no manifest"),
        pytest.param('[[null, "sub/../a.yaml"]]', id="C1 a roundabout name"),
        pytest.param('[[null, "a\\u0000.yaml"]]', id="C1 NUL"),
        pytest.param('[[null, "\\ud800.yaml"]]', id="C1 half a character"),
        pytest.param('[[".l.yaml.reconciler-new", "l.yaml"]]', id="C1 a source that is a link"),
        pytest.param("[" * 100_000, id="C1 nested"),
        pytest.param("{", id="no JSON"),
        pytest.param("[1]", id="no step"),
        pytest.param("7", id="no list"),
    ],
)
def test_c1_nobody_carries_out_what_is_no_change_of_ours(tmp_path: Path, steps: str) -> None:
    snapshot = interrupted(tmp_path / "snapshot", steps)
    a_folder(tmp_path, {"snapshot/outside.yaml": "x", "snapshot/east/hook": "x", "snapshot/east/.git/config.yaml": "x"})
    (snapshot / "east/out").symlink_to("..")
    (snapshot / "east/.l.yaml.reconciler-new").symlink_to("../outside.yaml")
    before = files_of(tmp_path)
    for act in (lambda: finish_changes(snapshot), lambda: opened(snapshot / "east").write(WRITES["create"])):
        with pytest.raises(SnapshotError, match=r"an interrupted change cannot be finished: .*remove the file"):
            act()
    assert files_of(tmp_path) == before


def test_c1_what_is_missing_is_done_already(tmp_path: Path) -> None:
    interrupted(tmp_path, '[[".z.yaml.reconciler-new", "z.yaml"], [null, "y.yaml"], [null, "gone/y.yaml"]]')
    finish_changes(tmp_path)
    assert sorted(os.listdir(tmp_path / "east")) == [".a.yaml.reconciler-new", "a.yaml", "b.yaml"]
