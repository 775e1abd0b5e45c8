"""What both Karmada and KubeFed say: clusters with labels, and replicas of one workload in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.importing.manifests import Manifest, inside, mappings
from reconciler.labels import LabelRequirement, LabelSelector

WORKLOADS = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}

Clusters = Mapping[str, Mapping[str, str]]
"""The labels of each cluster."""


def clusters_in(manifests: Iterable[Manifest], group: str, kind: str) -> dict[str, dict[str, str]]:
    """Return the clusters that are objects of `kind` among `manifests`."""
    return {one.name: dict(one.labels) for one in manifests if (one.group, one.kind) == (group, kind)}


def selected(clusters: Clusters, selector: Any) -> list[str]:
    """Return the clusters whose labels a label selector of Kubernetes matches."""
    wanted = label_selector(selector)
    return [name for name, labels in clusters.items() if wanted.matches(labels)]


def label_selector(selector: Any) -> LabelSelector:
    """Return a label selector as manifests write it."""
    found = selector if isinstance(selector, Mapping) else {}
    labels = found.get("matchLabels") or {}
    expressions = mappings(found.get("matchExpressions"))
    return LabelSelector(
        tuple((str(key), str(value)) for key, value in labels.items()),
        tuple(
            LabelRequirement(str(one.get("key")), one.get("operator", "In"), tuple(map(str, one.get("values") or ())))
            for one in expressions
        ),
    )


def replicas_of(manifest: Manifest | None, *path: str) -> int | None:
    """Return the replicas that stand at `path`, 1 where none are named; None without a manifest."""
    if manifest is None:
        return None
    found = inside(manifest.value, *path)
    return found if type(found) is int else 1


def exactly(count: int) -> dict[str, int]:
    """Return the preference of a cluster that has `count` replicas, whatever the others have."""
    return {"minReplicas": count, "maxReplicas": count}
