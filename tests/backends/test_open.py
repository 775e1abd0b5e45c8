"""A Fleet's clusters over a snapshot."""

from __future__ import annotations

import pytest

from reconciler.backends.protocols import CONFIG_MAPS, SERVICES
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.errors import SnapshotError
from reconciler.model import JOURNAL
from reconciler.world import open_world
from tests.backends.folders import a_folder, last_names_first
from tests.builders import NOW, a_fleet

SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: web}}"


def test_every_cluster_of_the_fleet_is_there_in_its_order(tmp_path):
    a_folder(
        tmp_path, {"west/a.yaml": SERVICE, "east/a.yaml": SERVICE, "metrics.yaml": "clusters: {east: [{query: q}]}"}
    )
    opened = open_snapshot(tmp_path, ["west", "north", "east"], last_names_first)
    assert list(opened.backends) == ["west", "north", "east"]
    west, north, east = opened.backends.values()
    assert opened.warnings() == ()
    assert (north.cluster, north.error) == (None, f"no folder {tmp_path}/north in the snapshot")
    assert [found.ref.cluster for found in west.cluster.list(SERVICES)] == ["west"]
    assert (east.metrics.query("q").error, west.metrics.query("q").error) == ("", "not recorded in the snapshot")


def test_what_belongs_to_nobody_is_told(tmp_path):
    files = {"east/a.yaml": SERVICE, "old/a.yaml": "broken: [", "a.yaml": SERVICE, "README.md": "", ".git/x.yaml": "["}
    a_folder(tmp_path, files | {"metrics.yaml": "clusters: {far: []}\nresults: [{query: q, cluster: older}]"})
    assert open_snapshot(tmp_path, ["east"], last_names_first).warnings() == (
        f"{tmp_path}/old: no cluster of the Fleet is called old, the folder is ignored",
        f"{tmp_path}: metrics are recorded for older, which is no cluster of the Fleet; they are ignored",
        f"{tmp_path}/a.yaml: stands in no cluster's folder and is ignored",
    )


def test_the_problems_of_all_clusters_come_at_once(tmp_path):
    a_folder(
        tmp_path,
        {"east/a.yaml": "- 1", "west/b.yaml": "a: [", "west/metrics.yaml": "result: []", "metrics.yaml": "results: 1"},
    )
    with pytest.raises(SnapshotError) as raised:
        open_snapshot(tmp_path, ["east", "west"], last_names_first)
    lines = [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in str(raised.value).splitlines()]
    assert lines == ["east/a.yaml:1:1", "metrics.yaml:1:10", "west/b.yaml:2:1", "west/metrics.yaml:1:1"]


def test_the_journal_is_a_config_map_in_our_namespace(tmp_path):
    fleet = a_fleet("east", namespace="ours")
    access = open_world(fleet, str(a_folder(tmp_path, {"east/a.yaml": SERVICE})), NOW).access("east")
    access.store.write("key", "value", None)
    assert dict(access.cluster.get(CONFIG_MAPS, "ours", JOURNAL).data) == {"key": "value"}


@pytest.mark.parametrize("content", ["", "---\n", "{apiVersion: v1, kind: List, items: []}"])
def test_files_without_any_object_are_no_empty_cluster(tmp_path, content):
    a_folder(tmp_path, {"west/all.yaml": content, "east/a.yaml": SERVICE})
    west, east = open_snapshot(tmp_path, ["west", "east"], last_names_first).backends.values()
    assert west.error == f"the files in {tmp_path}/west hold no object, expected what kubectl get prints"
    assert (west.cluster, east.error) == (None, "")
