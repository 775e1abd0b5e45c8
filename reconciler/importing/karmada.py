"""Karmada: PropagationPolicies, and OverridePolicies of replicas -> FederatedReplicaSets.

Source: karmada-io/karmada, pkg/apis/policy/v1alpha1/propagation_types.go and override_types.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.backends.patched_values import value_below
from reconciler.decide.placement.replicas_per_cluster import allocate_replicas
from reconciler.importing.manifests import (
    LEFT_TO_OTHERS,
    WORKLOADS,
    Imported,
    Loss,
    Manifest,
    PlacementImport,
    exactly,
    label_selector,
    mappings,
    replicas_of,
)

_POLICY_GROUP, _CLUSTER_GROUP = "policy.karmada.io", "cluster.karmada.io"
_PROPAGATION = ("PropagationPolicy", "ClusterPropagationPolicy")
_OVERRIDE = ("OverridePolicy", "ClusterOverridePolicy")
_SEE_STATE = "has no counterpart; see `state` of a cluster"
_WITHOUT_COUNTERPART = {
    ("dependentOverrides",): LEFT_TO_OTHERS,
    ("failover", "application"): "has no counterpart; see progressDeadline and unschedulableAfter",
    ("failover", "cluster"): "has no counterpart; see clusterGracePeriod",
    ("placement", "clusterAffinities"): "only the first group is carried over",
    ("placement", "clusterTolerations"): _SEE_STATE,
    ("placement", "spreadConstraints"): "has no counterpart; see minReplicas and maxReplicas",
    ("placement", "workloadAffinity"): "has no counterpart",
    ("propagateDeps",): LEFT_TO_OTHERS,
    ("suspension", "dispatchingOnClusters"): _SEE_STATE,
}


def import_karmada(manifests: Iterable[Manifest]) -> Imported:
    """Return a FederatedReplicaSet for each workload that a policy propagates; clusters are those that are named."""
    return _KarmadaImport(list(manifests)).imported()


class _Target(Struct, frozen=True):
    """A workload that a policy propagates; `workload` None: it is not among the manifests."""

    kind: str
    namespace: str
    name: str
    workload: Manifest | None

    def is_selected_by(self, selector: Mapping[str, Any]) -> bool:
        """Return whether a resource selector selects it."""
        if selector.get("kind") != self.kind or (selector.get("namespace") or self.namespace) != self.namespace:
            return False
        if selector.get("name"):
            return bool(selector["name"] == self.name)
        labels = label_selector(selector.get("labelSelector"))
        return self.workload is not None and labels.matches(self.workload.labels)


class _KarmadaImport(PlacementImport):
    def __init__(self, manifests: Sequence[Manifest]) -> None:
        super().__init__(manifests, _CLUSTER_GROUP, "Cluster")
        self._fields = {}
        for one in manifests:
            if (one.group, one.kind) == (_CLUSTER_GROUP, "Cluster"):
                self._fields[one.name] = {
                    "provider": _texts(one.at("spec", "provider")),
                    "region": _texts(one.at("spec", "region")),
                    "zone": _texts(one.at("spec", "zones") or one.at("spec", "zone")),
                }
                if one.at("spec", "taints"):
                    self.gathering.lose(one, "spec.taints", _SEE_STATE)
        self._workloads: defaultdict[tuple[str, str], list[_Target]] = defaultdict(list)  # by kind, and name or ""
        for one in manifests:
            if one.kind in WORKLOADS and not one.owned:
                target = _Target(one.kind, one.namespace, one.name, one)
                for name in {one.name, ""}:
                    self._workloads[one.kind, name].append(target)
        in_group = [manifest for manifest in manifests if manifest.group == _POLICY_GROUP]
        self._policies = [manifest for manifest in in_group if manifest.kind in _PROPAGATION]
        self._overrides = [manifest for manifest in in_group if manifest.kind in _OVERRIDE]

    def imported(self) -> Imported:
        self._check_overrides()
        # A policy of a namespace wins over one of all, then the higher priority, a name over a label, and that over
        # nothing; then the first by name.
        ranked = []
        for policy in self._policies:
            losses = list(self._without_counterpart(policy))
            for target, selector in self._targets(policy):
                priority = policy.at("spec", "priority") or 0
                rank = (policy.kind != _PROPAGATION[0], -priority, _vagueness(selector), policy.name)
                ranked.append((rank, policy, target, losses))
        done = set[tuple[str, str, str]]()
        for _, policy, target, losses in sorted(ranked, key=lambda one: one[0]):
            key = (target.kind, target.namespace, target.name)
            if key not in done:
                done.add(key)
                self._add(policy, target, losses)
        return self.gathering

    def _without_counterpart(self, policy: Manifest) -> Iterator[Loss]:
        for path, words in _WITHOUT_COUNTERPART.items():
            if policy.at("spec", *path):
                yield self.gathering.lose(policy, f"spec.{'.'.join(path)}", words)

    def _targets(self, policy: Manifest) -> Iterator[tuple[_Target, Mapping[str, Any]]]:
        for number, selector in enumerate(mappings(policy.at("spec", "resourceSelectors"))):
            kind, name = str(selector.get("kind", "")), str(selector.get("name") or "")
            field = f"spec.resourceSelectors[{number}]"
            if kind not in WORKLOADS:
                self.gathering.lose(policy, field, f"{kind} {LEFT_TO_OTHERS}")
                continue
            namespace = policy.namespace if policy.kind == _PROPAGATION[0] else str(selector.get("namespace") or "")
            found = [
                target
                for target in self._workloads.get((kind, name), ())
                if target.namespace == (namespace or target.namespace) and target.is_selected_by(selector)
            ]
            yield from ((target, selector) for target in found)
            if not found and name and namespace:
                yield _Target(kind, namespace, name, None), selector
            elif not found:
                self.gathering.lose(policy, field, f"no {kind} that it selects is among the manifests")

    def _add(self, policy: Manifest, target: _Target, losses: Iterable[Loss]) -> None:
        replicas = replicas_of(target.workload, "spec", "replicas")
        if replicas is None:
            name = f"{target.kind} {target.namespace}/{target.name}"
            words = f"{name} is not among the manifests, so its replicas are not known"
            self.gathering.lose(policy, "spec.resourceSelectors", words)
            return
        names = self._clusters(policy)
        if not names:
            self.lose_clusters(policy)
            return
        lost = [*losses]
        key = f"{target.namespace}/{target.name}"
        preferences, shares = self._preferences(policy, names, replicas, key, lost)
        overridden = dict(self._overridden(target, names))
        preferences |= {name: exactly(count) for name, count in overridden.items()}
        spec = {
            "replicas": sum({**shares, **overridden}.values()),
            **({"paused": True} if policy.at("spec", "suspension", "dispatching") else {}),
            **({} if policy.at("spec", "conflictResolution") == "Overwrite" else {"onConflict": "Abort"}),
            "preferences": {"rebalance": True, "clusters": preferences},
            "targetRef": {"apiVersion": WORKLOADS[target.kind], "kind": target.kind, "name": target.name},
        }
        self.gathering.add("FederatedReplicaSet", target.name, spec, lost, target.namespace)

    def _clusters(self, policy: Manifest) -> list[str]:
        placement = policy.at("spec", "placement") or {}
        groups = mappings(placement.get("clusterAffinities"))
        names = self._affine(groups[0] if groups else placement.get("clusterAffinity"), self.known)
        for name in names:
            self.gathering.clusters.setdefault(name, {})
        return names

    def _affine(self, affinity: Any, clusters: Iterable[str]) -> list[str]:
        """Return the clusters of an affinity; without names it is for all of `clusters`."""
        found = affinity or {}
        names = [str(name) for name in found.get("clusterNames") or clusters]
        if found.get("labelSelector"):
            names = [name for name in self.selected(found["labelSelector"]) if name in names]
        for required in mappings(value_below(found, ("fieldSelector", "matchExpressions"))):
            names = [name for name in names if self._has_field(name, required)]
        return [name for name in names if name not in (found.get("exclude") or ())]

    def _has_field(self, cluster: str, required: Mapping[str, Any]) -> bool:
        has = self._fields.get(cluster, {}).get(str(required.get("key")), set())
        shared = bool(has & _texts(required.get("values")))
        return {"In": shared, "NotIn": not shared, "Exists": bool(has), "DoesNotExist": not has}.get(
            str(required.get("operator")), False
        )

    # Replicas. Duplicated: as many in each; Divided: by weight.

    def _preferences(
        self, policy: Manifest, names: Sequence[str], replicas: int, key: str, lost: list[Loss]
    ) -> tuple[dict[str, dict[str, int]], Mapping[str, int]]:
        """Return what each cluster prefers, and what it has of that; `key`, "namespace/name", settles ties.

        Source: pkg/util/helper/webstermethod.go, AllocateWebsterSeats; pkg/apis/policy/v1alpha1/propagation_types.go,
        ReplicaSchedulingStrategy: Divided is the default of the type, and what has no strategy at all is duplicated.
        """
        scheduling = policy.at("spec", "placement", "replicaScheduling")
        where = "spec.placement.replicaScheduling"
        if scheduling is None or scheduling.get("replicaSchedulingType") == "Duplicated":
            return {name: exactly(replicas) for name in names}, dict.fromkeys(names, replicas)
        rules = mappings(value_below(scheduling, ("weightPreference", "staticWeightList")))
        if scheduling.get("replicaDivisionPreference") == "Aggregated":
            words = "Aggregated: has no counterpart; all have the same weight, give those to fill first a larger one"
            lost.append(self.gathering.lose(policy, f"{where}.replicaDivisionPreference", words))
            rules = []
        elif value_below(scheduling, ("weightPreference", "dynamicWeight")):
            words = "has no counterpart; all have the same weight, and what cannot run moves"
            lost.append(self.gathering.lose(policy, f"{where}.weightPreference.dynamicWeight", words))
            rules = []
        weights = dict.fromkeys(names, 0)
        for rule in rules:
            for name in self._affine(rule.get("targetCluster"), names):
                if name in weights:
                    weights[name] = max(weights[name], rule["weight"])
        if not any(weights.values()):
            weights = dict.fromkeys(names, 1)
        weighted = {name: {"weight": weight} for name, weight in weights.items()}
        return weighted, allocate_replicas({"clusters": weighted}, replicas, [*weights], key=key).replicas

    def _overridden(self, target: _Target, names: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield the clusters of `names` that an override gives replicas, and how many; the last one counts.

        Source: pkg/util/overridemanager/overridemanager.go, ApplyOverridePolicies.
        """
        ranked = []
        for policy in self._overrides:
            of_namespace = policy.kind == _OVERRIDE[0]
            stated = mappings(policy.at("spec", "resourceSelectors")) or [{"kind": target.kind}]
            closest = min((_vagueness(one) for one in stated if target.is_selected_by(one)), default=None)
            if closest is not None and (not of_namespace or policy.namespace == target.namespace):
                ranked.append(((of_namespace, -closest, policy.name), policy))
        for _, policy in sorted(ranked, key=lambda one: one[0]):
            for affinity, count in _replica_overrides(policy):
                yield from ((name, count) for name in self._affine(affinity, names) if name in names)

    def _check_overrides(self) -> None:
        for policy in self._overrides:
            for number, rule in enumerate(_rules(policy)):
                for key, value in (rule.get("overriders") or {}).items():
                    if key != "plaintext" or any(one.get("path") != "/spec/replicas" for one in mappings(value)):
                        field = f"spec.overrideRules[{number}].overriders.{key}"
                        self.gathering.lose(policy, field, LEFT_TO_OTHERS)


def _vagueness(selector: Mapping[str, Any]) -> int:
    """Return how little a resource selector says of what it selects: a name, labels, or neither."""
    return 0 if selector.get("name") else 1 if selector.get("labelSelector") else 2


def _texts(value: Any) -> set[str]:
    return set(map(str, value)) if isinstance(value, list) else {str(value)} if value else set()


def _rules(policy: Manifest) -> list[Mapping[str, Any]]:
    """Return the rules of an OverridePolicy; the old form is one rule."""
    spec = policy.at("spec") or {}
    old = (
        [{"targetCluster": spec.get("targetCluster"), "overriders": spec["overriders"]}] if "overriders" in spec else []
    )
    return [*mappings(spec.get("overrideRules")), *old]


def _replica_overrides(policy: Manifest) -> Iterator[tuple[Any, int]]:
    for rule in _rules(policy):
        for override in mappings(value_below(rule, ("overriders", "plaintext"))):
            if override.get("path") == "/spec/replicas" and type(override.get("value")) is int:
                yield rule.get("targetCluster"), override["value"]
