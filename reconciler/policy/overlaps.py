"""Which policies of equal priority may select the same object, as far as their selectors tell without any cluster.

Which one wins on a cluster is decided in `decide/selectors.py`, for idling in `decide/idling/winning_policies.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from reconciler.errors import Problem
from reconciler.labels import LabelRequirement
from reconciler.policy.globs import GlobIndex, is_pattern, is_within, overlap
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.policy_kinds import POLICY_KINDS, kind_stated_by
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
_KEYS = 4
"""So many keys of labels are looked up: teams are told apart by one or two."""


def conflicts(built: Sequence[PolicyDocument], check_deadline: Callable[[], None]) -> Iterator[Problem]:
    """Yield where two policies of one kind may select the same object, and neither wins: whoever writes them is to say
    which does, but a run goes on, and leaves what both select as it is. `check_deadline` is called for each policy.
    """
    fleet = next(document.policy for document in built if document.kind == "Fleet")
    for kind in (kind for kind, row in POLICY_KINDS.items() if row.equals):
        documents = {document.policy.name: document for document in built if kind_stated_by(document.kind) == kind}
        by_place = sorted(
            documents.values(), key=lambda document: (not POLICY_KINDS[document.kind].form_of, document.place)
        )
        ordered = [document.policy for document in by_place]  # what has no priority of its own comes first
        for other, policy in undecided_pairs(ordered, fleet.clusters, check_deadline):
            yield documents[policy.name].source.problem(
                ("spec", "priority"),
                f"is {policy.priority}, the same as of {kind} {other.name} at {other.place}, expected another one; "
                f"what both select {POLICY_KINDS[kind].equals}",
            )


def undecided_pairs(
    policies: Sequence[Policy], clusters: Sequence[FleetCluster], check_deadline: Callable[[], None] = lambda: None
) -> Iterator[tuple[Policy, Policy]]:
    """Yield for each of `policies`, all of one kind, the first before it that neither wins over, and that may select
    the same object.

    One that only observes never competes with one that enforces, nor of DownscalePolicies with any other; two tenants
    have no namespace in common.
    """
    by_rank: dict[tuple[object, ...], list[Policy]] = {}
    for policy in policies:
        if not (isinstance(policy, DownscalePolicy) and policy.mode == "Observe"):
            by_rank.setdefault((policy.rank, policy.mode, policy.tenant), []).append(policy)
    found = {}
    for equals in (those for those in by_rank.values() if len(those) > 1):
        for policy, before in likely_pairs(equals, clusters):
            check_deadline()
            other = next((equal for equal in before if may_share(equal, policy, clusters)), None)
            if other is not None:
                found[policy.name] = other
    yield from ((found[policy.name], policy) for policy in policies if policy.name in found)


def likely_pairs(
    policies: Sequence[Policy], clusters: Sequence[FleetCluster]
) -> Iterator[tuple[Policy, Iterator[Policy]]]:
    """Yield each policy with those before it that may select the same object, as far as names, labels, kinds and
    clusters tell: the first one in any case, so that nothing is looked up where all select the same.
    """
    selected = {
        selector: frozenset(cluster.name for cluster in clusters if selector.matches(cluster.name, cluster.labels))
        for selector in {policy.selector.clusters for policy in policies}
    }
    on = [selected[policy.selector.clusters] for policy in policies]
    used = Counter(
        (part, key) for policy in policies for part, objects in _parts(policy) for key in _label_values(objects)
    )
    keys = [key for key, _ in used.most_common(_KEYS)]
    named = [_named(policy, keys) for policy in policies]
    indices = [GlobIndex() for _ in range(3 + len(keys))]

    def before(number: int) -> Iterator[Policy]:
        yield from policies[:1] if number else ()
        found = None
        # What tells most of them apart comes first: then nothing is left to look up in most cases.
        for index, patterns in sorted(zip(indices, named[number], strict=True), key=lambda pair: -len(pair[0])):
            alike = index.candidates(patterns) - {0}
            found = alike if found is None else found & alike
            if not found:
                return
        yield from (policies[one] for one in sorted(found or ()) if not on[one].isdisjoint(on[number]))

    for number, policy in enumerate(policies):
        yield policy, before(number)
        for index, patterns in zip(indices, named[number], strict=True):
            index.add(number, patterns)


def _parts(policy: Policy) -> Iterator[tuple[str, ObjectSelector]]:
    """Yield what a policy selects namespaces by, and objects."""
    selector = policy.selector
    yield "namespace", selector.namespaces
    if selector.services is not None:
        yield "object", selector.services
    if selector.workloads is not None:
        yield "object", selector.workloads.objects


def _label_values(objects: ObjectSelector) -> dict[str, tuple[str, ...]]:
    """Return by key values of labels, of which one is on each of `objects`."""
    return {one.key: one.values for one in objects.labels.requirements if one.operator == "In"}


def _named(policy: Policy, keys: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return globs of what a policy selects: names of namespaces and objects, values of their labels, and kinds."""
    parts, selector = tuple(_parts(policy)), policy.selector
    names = [
        tuple(name for part, one in parts if part == wanted for name in one.include)
        for wanted in ("namespace", "object")
    ]
    values = [
        tuple(value for part, one in parts if part == wanted for value in _label_values(one).get(key, ("*",)))
        for wanted, key in keys
    ]
    kinds = () if selector.workloads is None else tuple(_kinds(selector.workloads))
    return [*names, *values, (*kinds, *(() if selector.services is None else ("service",)))]


def may_share(policy: Policy, other: Policy, clusters: Iterable[FleetCluster]) -> bool:
    """Return whether an object on one of `clusters` may be selected by both policies, and excluded by neither."""
    first, second = policy.selector, other.selector
    return (
        _selections_share(first, second)
        and any(first.selects_cluster(cluster) and second.selects_cluster(cluster) for cluster in clusters)
        and not any(_covers(excluded, second) for excluded in policy.exclude)
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
    return names and not any(_contradict(*pair) for pair in product(one.labels.requirements, other.labels.requirements))


def _names_share(selector: ObjectSelector, pattern: str, other: ObjectSelector, twin: str) -> bool:
    for name in (pattern, twin):
        if not is_pattern(name):
            return selector.names(name) and other.names(name)
    excluded = is_within(pattern, other.exclude) or is_within(twin, selector.exclude)
    return overlap(pattern, twin) and not excluded


def _contradict(requirement: LabelRequirement, other: LabelRequirement) -> bool:
    """Return whether no object meets both; what compares numbers is met by some object."""
    if requirement.key != other.key:
        return False
    if "DoesNotExist" in (requirement.operator, other.operator):
        return not {requirement.operator, other.operator} <= {"DoesNotExist", "NotIn"}
    if requirement.operator == other.operator == "In":
        return set(requirement.values).isdisjoint(other.values)
    if {requirement.operator, other.operator} == {"In", "NotIn"}:
        inside, outside = (requirement, other) if requirement.operator == "In" else (other, requirement)
        return set(inside.values) <= set(outside.values)
    return False


# Whether what a policy excludes has everything that another one selects.


def _covers(excluded: Selector, selected: Selector) -> bool:
    if not (_has(excluded.clusters, selected.clusters) and _has(excluded.namespaces, selected.namespaces)):
        return False
    if excluded.services is None and excluded.workloads is None:
        return True
    return _has(excluded.services, selected.services) and _has_workloads(excluded.workloads, selected.workloads)


def _has_workloads(excluded: WorkloadSelector | None, selected: WorkloadSelector | None) -> bool:
    if excluded is None or selected is None:
        return selected is None
    kinds = not excluded.kinds or _kinds(selected) <= _kinds(excluded)
    return kinds and _has(excluded.objects, selected.objects)


def _has(excluded: ObjectSelector | None, selected: ObjectSelector | None) -> bool:
    """Return whether `excluded` matches all that `selected` does, as far as that is plain."""
    if excluded is None or selected is None:
        return selected is None
    if excluded.exclude or not set(excluded.labels.requirements) <= set(selected.labels.requirements):
        return False
    return all(is_within(pattern, excluded.include) for pattern in selected.include)
