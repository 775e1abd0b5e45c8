"""Which DownscalePolicies have a say in a workload, and which of them wins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.decide.decisions import Strategy
from reconciler.decide.selectors import namespace_labels, selects_workload
from reconciler.model import ObjectRef, ObservedCluster, Workload
from reconciler.policy.types import DownscalePolicy, FleetCluster

_GLOB = re.compile(r"[*?\[]")
_NO_REPLICAS = ("CronJob", "ScaledObject")


def policies_by_workload(
    policies: Iterable[DownscalePolicy], fleet_cluster: FleetCluster, observed: ObservedCluster
) -> dict[ObjectRef, list[DownscalePolicy]]:
    """Return for each workload that any of `policies` selects in this cluster those that do, in their order."""
    inside = _by_namespace(observed.workloads)
    labels = namespace_labels(observed)
    found: dict[ObjectRef, list[DownscalePolicy]] = {}
    for policy in policies:
        if policy.selector.selects_cluster(fleet_cluster):
            for workload in _selected(policy, inside, labels):
                found.setdefault(workload.ref, []).append(policy)
    return found


def strategy_of(policy: DownscalePolicy) -> Strategy:
    """Return the policy's strategy in one word, "PodPicker" where it has one."""
    return policy.strategy if policy.pod_picker is None else "PodPicker"


def _by_namespace(workloads: Iterable[Workload]) -> dict[str, list[Workload]]:
    found: dict[str, list[Workload]] = {}
    for workload in workloads:
        if workload.owner is None and workload.ref.kind not in _NO_REPLICAS:
            found.setdefault(workload.ref.namespace, []).append(workload)
    return found


def _selected(
    policy: DownscalePolicy, inside: Mapping[str, Sequence[Workload]], labels: Mapping[str, Mapping[str, str]]
) -> Iterator[Workload]:
    selector = policy.selector
    if selector.workloads is None:
        return
    for namespace in _possible(selector.namespaces.include, inside):
        if selector.namespaces.matches(namespace, labels.get(namespace, {})):
            yield from (workload for workload in inside[namespace] if selects_workload(selector.workloads, workload))


def _possible(patterns: Sequence[str], inside: Mapping[str, Sequence[Workload]]) -> Iterable[str]:
    """Return the namespaces that `patterns` can match: plain names need no look at all the others."""
    if any(_GLOB.search(pattern) for pattern in patterns):
        return inside
    return [name for name in dict.fromkeys(patterns) if name in inside]
