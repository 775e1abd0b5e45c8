"""A cluster that refuses a local ReplicaSet three times in a row: its replicas go elsewhere, and come back (E1)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.errors import RefusedError
from tests.way.calls import Folder

FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: two}
spec: {home: east, clusters: [{name: east}, {name: west}]}
"""
WEB = """\
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 8
  preferences: {rebalance: true, clusters: {"*": {weight: 1}}}
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "registry.example/web:1"}]}}
"""
START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def at(minutes: int) -> str:
    return (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def two(tmp_path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", f"{FLEET}---\n{WEB}")
    for cluster in ("east", "west"):
        folder.write(
            f"snapshot/{cluster}/cluster.yaml",
            f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: kube-system, uid: {cluster}-uid}}\n",
        )
    return folder


def test_refused_three_times_then_elsewhere_and_back_once_it_works(two, monkeypatch):
    original = SnapshotCluster.write
    quota = {"west"}

    def write(self, request):
        if self.name in quota and request.ref.kind == "ReplicaSet":
            raise RefusedError(f"{request.ref}: exceeded quota: replicasets")
        original(self, request)

    monkeypatch.setattr(SnapshotCluster, "write", write)
    for run in range(3):
        said = two.apply(at(run))
        assert said.code == 6
        assert "exceeded quota: replicasets" in said.out
        assert two.replicas("east", "shop", "ReplicaSet", "web") == 4
    memory = two.objects()["east", "reconciler", "ConfigMap", "reconciler-memory"]["data"]
    [refusal] = [json.loads(text) for text in memory.values() if "count" in text]
    assert (refusal["count"], refusal["retryAfter"]) == (3, at(7))

    assert two.apply(at(3)).code == 0
    assert two.replicas("east", "shop", "ReplicaSet", "web") == 8
    assert two.plan(at(4), "--detailed-exitcode").code == 0

    quota.clear()
    for run in range(8, 14):
        assert two.apply(at(run)).code == 0
    assert [two.replicas(name, "shop", "ReplicaSet", "web") for name in ("east", "west")] == [4, 4]
    assert two.plan(at(15), "--detailed-exitcode").code == 0
