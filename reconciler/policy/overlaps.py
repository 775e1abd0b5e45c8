"""Which policies of equal priority may select the same object, as far as their selectors tell without any cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.globs import is_pattern, is_within, overlap
from reconciler.policy.types import (
    DownscalePolicy,
    FleetCluster,
    IdlingPolicy,
    ObjectSelector,
    Selector,
    WorkloadSelector,
)
from reconciler.workload_kinds import SCALABLE_KINDS

Policy = IdlingPolicy | DownscalePolicy

_BROUGHT = frozenset(kind.lower() for _, kind in SCALABLE_KINDS)


def undecided_pairs(policies: Sequence[Policy], clusters: Sequence[FleetCluster]) -> Iterator[tuple[Policy, Policy]]:
    """Yield for each of `policies`, all of one kind, the first before it that neither wins over, and that may select
    the same object.

    One that only observes never competes with one that enforces, nor of DownscalePolicies with any other; two tenants
    have no namespace in common.
    """
    by_rank: dict[tuple[object, ...], list[Policy]] = {}
    for policy in policies:
        if isinstance(policy, DownscalePolicy) and policy.mode == "Observe":
            continue
        equals = by_rank.setdefault((policy.rank, policy.mode, policy.tenant), [])
        other = next((one for one in equals if may_share(one, policy, clusters)), None)
        if other is not None:
            yield other, policy
        equals.append(policy)


def may_share(one: Policy, other: Policy, clusters: Iterable[FleetCluster]) -> bool:
    """Return whether an object on one of `clusters` may be selected by both policies, and excluded by neither."""
    first, second = one.selector, other.selector
    return (
        _selections_share(first, second)
        and any(first.selects_cluster(cluster) and second.selects_cluster(cluster) for cluster in clusters)
        and not any(_covers(excluded, second) for excluded in one.exclude)
        and not any(_covers(excluded, first) for excluded in other.exclude)
    )


def _selections_share(one: Selector, other: Selector) -> bool:
    if not _objects_share(one.namespaces, other.namespaces):
        return False
    services = one.services is not None and other.services is not None and _objects_share(one.services, other.services)
    return services or _workloads_share(one.workloads, other.workloads)


def _workloads_share(one: WorkloadSelector | None, other: WorkloadSelector | None) -> bool:
    if one is None or other is None:
        return False
    return not _kinds(one).isdisjoint(_kinds(other)) and _objects_share(one.objects, other.objects)


def _kinds(selector: WorkloadSelector) -> frozenset[str]:
    return frozenset(kind.lower().partition(".")[0] for kind in selector.kinds) or _BROUGHT


def _objects_share(one: ObjectSelector, other: ObjectSelector) -> bool:
    names = any(_names_share(one, pattern, other, twin) for pattern, twin in product(one.include, other.include))
    return names and not any(_contradict(*pair) for pair in product(_terms(one.labels), _terms(other.labels)))


def _names_share(one: ObjectSelector, pattern: str, other: ObjectSelector, twin: str) -> bool:
    for name in (pattern, twin):
        if not is_pattern(name):
            return one.names(name) and other.names(name)
    excluded = is_within(pattern, other.exclude) or is_within(twin, one.exclude)
    return overlap(pattern, twin) and not excluded


def _terms(selector: LabelSelector) -> list[LabelRequirement]:
    return [
        *(LabelRequirement(key, "In", (value,)) for key, value in selector.match_labels),
        *selector.match_expressions,
    ]


def _contradict(one: LabelRequirement, other: LabelRequirement) -> bool:
    """Return whether no object meets both; what compares numbers is met by some object."""
    if one.key != other.key:
        return False
    if "DoesNotExist" in (one.operator, other.operator):
        return not {one.operator, other.operator} <= {"DoesNotExist", "NotIn"}
    if one.operator == other.operator == "In":
        return set(one.values).isdisjoint(other.values)
    if {one.operator, other.operator} == {"In", "NotIn"}:
        inside, outside = (one, other) if one.operator == "In" else (other, one)
        return set(inside.values) <= set(outside.values)
    return False


# Whether what a policy excludes has everything that another one selects.


def _covers(excluded: Selector, selected: Selector) -> bool:
    if not (_has(excluded.clusters, selected.clusters) and _has(excluded.namespaces, selected.namespaces)):
        return False
    if excluded.services is None and excluded.workloads is None:
        return True
    services = selected.services is None or (
        excluded.services is not None and _has(excluded.services, selected.services)
    )
    return services and (
        selected.workloads is None
        or (excluded.workloads is not None and _has_workloads(excluded.workloads, selected.workloads))
    )


def _has_workloads(excluded: WorkloadSelector, selected: WorkloadSelector) -> bool:
    kinds = not excluded.kinds or _kinds(selected) <= _kinds(excluded)
    return kinds and _has(excluded.objects, selected.objects)


def _has(excluded: ObjectSelector, selected: ObjectSelector) -> bool:
    """Return whether `excluded` matches all that `selected` does, as far as that is plain."""
    if excluded.exclude or not set(_terms(excluded.labels)) <= set(_terms(selected.labels)):
        return False
    return all(is_within(pattern, excluded.include) for pattern in selected.include)
