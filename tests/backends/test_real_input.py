"""Manifests that others wrote, read as snapshot clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.protocols import NAMESPACES, SERVICES, workloads_of
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.object_store import Store
from reconciler.model import Workload


@pytest.fixture
def real_input(shared: Path) -> Path:
    return shared / "real-input"


def workloads_in(cluster: SnapshotCluster) -> list[Workload]:
    return [found for scale in cluster.scale_kinds() for found in cluster.list(workloads_of(scale))]


@pytest.mark.parametrize(
    ("folder", "kinds", "wanted", "services"),
    [
        pytest.param("online-boutique", {"Deployment": 12}, 12, 12, id="twelve Deployments without replicas"),
        pytest.param(
            "guestbook", {"Deployment": 3, "ReplicationController": 3}, 12, 3, id="old ReplicationControllers"
        ),
        pytest.param("cassandra", {"StatefulSet": 1}, 3, 1, id="a StatefulSet with a headless Service"),
    ],
)
def test_what_others_wrote(real_input: Path, folder: str, kinds: dict[str, int], wanted: int, services: int) -> None:
    cluster = SnapshotCluster(Store(real_input / folder, folder), victim_order=lambda pods, count, _: pods[:count])
    assert cluster.problems() == []
    found = workloads_in(cluster)
    assert {kind: sum(one.ref.kind == kind for one in found) for kind in kinds} == kinds
    assert len(found) == sum(kinds.values())
    assert sum(one.spec_replicas for one in found) == wanted
    assert all(one.ready_replicas == one.spec_replicas for one in found)
    assert all(one.selector is not None and one.selector.matches(one.template_labels) for one in found)
    assert len(cluster.list(SERVICES)) == services
    assert [one.ref.name for one in cluster.list(NAMESPACES)] == ["default"]
    assert cluster.identity() == folder
