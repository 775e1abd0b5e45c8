"""Writers side by side lose nothing: threads of one process, and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.backends.snapshot import manifest_store
from reconciler.backends.snapshot.files import scan
from reconciler.errors import NotFoundError, StaleError
from tests.backends.folders import a_folder, a_snapshot_cluster, patch
from tests.backends.racers import COUNTER

FILES = {
    "all.yaml": """
        # One file for all.
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: counter, namespace: shop}
        data: {count: "0"}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, namespace: shop}  # left alone
        """,
    "tally.txt": "0",
}


def test_two_processes_lose_no_write(tmp_path):
    count = 10
    a_folder(tmp_path, FILES)
    root = Path(__file__).resolve().parents[2]
    racers = [
        subprocess.Popen([sys.executable, "-m", "tests.backends.racers", str(tmp_path), name, str(count)], cwd=root)
        for name in ("a", "b")
    ]
    assert [racer.wait(timeout=240) for racer in racers] == [0, 0]
    cluster = a_snapshot_cluster(tmp_path, {})
    data = cluster.get(CONFIG_MAPS, "shop", "counter").data
    assert data["count"] == str(2 * count)
    assert len(data) == 1 + 2 * count
    assert (tmp_path / "tally.txt").read_text() == str(2 * count)
    files = ["shop-configmap-counter.yaml", "shop-deployment-web.yaml", "tally.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_threads_of_one_cluster_lose_no_write(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, FILES)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cluster.write(patch(COUNTER, ("add", f"/data/{n}", "x"), version="v1")), range(24)))
    assert len(cluster.get(CONFIG_MAPS, "shop", "counter").data) == 25


def test_a_file_that_an_editor_changed_is_read_before_it_is_written(tmp_path):
    """The change keeps time, size and inode, so only the bytes tell."""
    annotated = "{apiVersion: v1, kind: ConfigMap, metadata: {name: counter, namespace: shop, annotations: {by: a}}}"
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": annotated})
    assert cluster.get(CONFIG_MAPS, "shop", "counter").annotations == {"by": "a"}
    path = tmp_path / "a.yaml"
    before = path.stat()
    path.write_text(annotated.replace("by: a", "by: b"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    cluster.write(patch(COUNTER, ("add", "/metadata/annotations/new", "x"), version="v1"))
    assert cluster.get(CONFIG_MAPS, "shop", "counter").annotations == {"by": "b", "new": "x"}


def test_a_run_that_writes_looks_at_its_folder_once_and_again_when_somebody_else_writes(tmp_path, monkeypatch):
    """Each scale down of a snapshot reads between its writes: its cost must not grow with the files of the folder."""
    annotated = "{apiVersion: v1, kind: ConfigMap, metadata: {name: counter, namespace: shop, annotations: {by: a}}}"
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": annotated})
    cluster.list(CONFIG_MAPS)
    looks = []
    monkeypatch.setattr(manifest_store, "scan", lambda folder, root: looks.append(folder) or scan(folder, root))
    for number in range(10):
        cluster.write(patch(COUNTER, ("add", "/metadata/annotations/new", str(number)), version="v1"))
        assert cluster.get(CONFIG_MAPS, "shop", "counter").annotations == {"by": "a", "new": str(number)}
    assert looks == []
    path = tmp_path / "a.yaml"
    path.write_text(path.read_text().replace("by: a", "by: b"))
    test = patch(
        COUNTER, ("test", "/metadata/annotations/by", "a"), ("remove", "/metadata/annotations/by"), version="v1"
    )
    with pytest.raises(StaleError):
        cluster.write(test)
    path.write_text(path.read_text().replace("by: b", "by: c"))
    assert cluster.get(CONFIG_MAPS, "shop", "counter").annotations == {"by": "c", "new": "9"}
    cluster.write(patch(COUNTER, ("remove", "/metadata/annotations/new"), version="v1"))
    with pytest.raises(NotFoundError):
        cluster.write(patch(replace(COUNTER, name="gone"), ("remove", "/metadata/annotations/new"), version="v1"))
    path.write_text(path.read_text().replace("by: c", "by: d"))
    assert cluster.get(CONFIG_MAPS, "shop", "counter").annotations == {"by": "d"}
