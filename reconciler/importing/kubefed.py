"""KubeFed: federated ReplicaSets and Deployments with their ReplicaSchedulingPreferences -> FederatedReplicaSets.

Source: kubernetes-retired/kubefed, pkg/apis/scheduling/v1alpha1 and docs/userguide.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.backends.patched_values import value_below
from reconciler.importing.manifests import (
    LEFT_TO_OTHERS,
    Imported,
    Loss,
    Manifest,
    PlacementImport,
    exactly,
    mappings,
    replicas_of,
)

_CORE, _TYPES, _SCHEDULING = "core.kubefed.io", "types.kubefed.io", "scheduling.kubefed.io"
_TARGETS = {"FederatedDeployment": "Deployment", "FederatedReplicaSet": "ReplicaSet"}
_REPLICAS = "/spec/replicas"


def import_kubefed(manifests: Iterable[Manifest]) -> Imported:
    """Return a FederatedReplicaSet for each federated workload; clusters are those that are registered or named."""
    return _KubeFedImport(list(manifests)).imported()


class _KubeFedImport(PlacementImport):
    def __init__(self, manifests: Sequence[Manifest]) -> None:
        super().__init__(manifests, _CORE, "KubeFedCluster")
        self._federated = {
            (manifest.kind, manifest.namespace, manifest.name): manifest
            for manifest in manifests
            if manifest.group == _TYPES and manifest.kind in _TARGETS
        }
        self._preferences = {
            (str(manifest.at("spec", "targetKind")), manifest.namespace, manifest.name): manifest
            for manifest in manifests
            if (manifest.group, manifest.kind) == (_SCHEDULING, "ReplicaSchedulingPreference")
        }
        self._others = [one for one in manifests if one.group == _TYPES and one.kind not in _TARGETS]

    def imported(self) -> Imported:
        for other in self._others:
            self.gathering.lose(other, "spec", f"a {other.kind} {LEFT_TO_OTHERS}")
        # A policy with a template has to have the name of its ReplicaSets: others with the same name get another one.
        for key, manifest in sorted(self._federated.items(), key=lambda item: item[0][0] != "FederatedReplicaSet"):
            self._add(manifest, self._preferences.get(key))
        for key, manifest in self._preferences.items():
            if key in self._federated:
                continue
            if key[0] in _TARGETS:
                self._add(manifest, manifest)
            else:
                self.gathering.lose(manifest, "spec.targetKind", f'"{key[0]}" has no counterpart')
        return self.gathering

    def _add(self, manifest: Manifest, preference: Manifest | None) -> None:
        lost = list(self._without_counterpart(manifest, preference))
        clusters = self._clusters_of(manifest) if preference is None else self._scheduled(manifest, preference, lost)
        for name in (*clusters, *self._placed(manifest)):  # where it is: a preference has "*" for the others
            if name != "*":
                self.gathering.clusters.setdefault(name, {})
        if not clusters:
            self.lose_clusters(manifest)
            return
        total = sum(value["minReplicas"] for value in clusters.values()) if preference is None else None
        if preference is not None:
            total = replicas_of(preference, "spec", "totalReplicas")
        kind = _TARGETS.get(manifest.kind) or _TARGETS[str(manifest.at("spec", "targetKind"))]
        rebalance = preference is not None and bool(preference.at("spec", "rebalance"))
        workload = self._workload(manifest, kind)
        spec = {
            "replicas": total,
            "rounding": "KubeFed",
            "preferences": {"rebalance": rebalance, "clusters": clusters},
            **workload,
        }
        fields = ("labels", "annotations") if "template" in workload else ()
        of_replica_sets = {
            key: found for key in fields if (found := manifest.texts("spec", "template", "metadata", key))
        }
        self.gathering.add("FederatedReplicaSet", manifest.name, spec, lost, manifest.namespace, **of_replica_sets)

    @staticmethod
    def _workload(manifest: Manifest, kind: str) -> Mapping[str, Any]:
        """Return what a FederatedReplicaSet says of its pods: those of a ReplicaSet are ours to create."""
        inner = manifest.at("spec", "template", "spec") if manifest.kind == "FederatedReplicaSet" else None
        if inner and inner.get("template"):
            selector = inner.get("selector") or {"matchLabels": value_below(inner, ("template", "metadata", "labels"))}
            stated = {key: inner[key] for key in ("minReadySeconds",) if inner.get(key)}
            return {**stated, "selector": selector, "template": inner["template"]}
        return {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": manifest.name}}

    def _without_counterpart(self, manifest: Manifest, preference: Manifest | None) -> Iterator[Loss]:
        for number, override in enumerate(mappings(manifest.at("spec", "overrides"))):
            for change in mappings(override.get("clusterOverrides")):
                path = str(change.get("path"))
                if path != _REPLICAS:
                    yield self.gathering.lose(manifest, f"spec.overrides[{number}]", f"{path} {LEFT_TO_OTHERS}")
                elif preference is not None:
                    words = "replicas follow the ReplicaSchedulingPreference"
                    yield self.gathering.lose(manifest, f"spec.overrides[{number}]", words)

    # Without a ReplicaSchedulingPreference every cluster has the replicas of the template.

    def _clusters_of(self, manifest: Manifest) -> dict[str, dict[str, int]]:
        count = replicas_of(manifest, "spec", "template", "spec", "replicas") or 0
        overridden = {
            str(override.get("clusterName")): change["value"]
            for override in mappings(manifest.at("spec", "overrides"))
            for change in mappings(override.get("clusterOverrides"))
            if change.get("path") == _REPLICAS and type(change.get("value")) is int
        }
        return {name: exactly(overridden.get(name, count)) for name in self._placed(manifest)}

    def _placed(self, manifest: Manifest) -> list[str]:
        listed = manifest.at("spec", "placement", "clusters")
        if listed is not None:
            return [str(cluster.get("name")) for cluster in listed]
        selector = manifest.at("spec", "placement", "clusterSelector")
        return [] if selector is None else self.selected(selector)

    def _scheduled(self, manifest: Manifest, preference: Manifest, lost: list[Loss]) -> dict[str, dict[str, int]]:
        stated = preference.at("spec", "clusters") or {"*": {"weight": 1}}
        clusters = {name: _numbers(value) for name, value in stated.items()}
        for name, numbers in clusters.items():
            if "maxReplicas" in numbers and numbers.get("minReplicas", 0) > numbers["maxReplicas"]:
                numbers["minReplicas"] = numbers["maxReplicas"]
                words = "is above maxReplicas, which counts"
                lost.append(self.gathering.lose(preference, f"spec.clusters.{name}.minReplicas", words))
        if not preference.at("spec", "intersectWithClusterSelector"):
            if "*" in clusters and not self.known:
                words = "no KubeFedCluster is among the manifests, so those that it stands for are not all known; "
                lost.append(self.gathering.lose(preference, "spec.clusters.*", f"{words}name them in the Fleet"))
            return clusters
        selector = manifest.at("spec", "placement", "clusterSelector")
        if selector is None or not self.known:
            words = "the clusters are not known; take out of the policy those that the clusterSelector does not select"
            lost.append(self.gathering.lose(preference, "spec.intersectWithClusterSelector", words))
            return clusters
        names = self.selected(selector)
        return {
            name: clusters.get(name, clusters.get("*", {})) for name in names if name in clusters or "*" in clusters
        }


def _numbers(value: Any) -> dict[str, int]:
    keys = ("weight", "minReplicas", "maxReplicas")
    return {key: value[key] for key in keys if type(value.get(key)) is int}
