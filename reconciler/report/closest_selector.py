"""The policy that comes closest to selecting an object that none selects, and which parts of its selector fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.decide.selectors import exclusions_by, local_key, names_kind
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.model import ObservedCluster, Service, Workload
from reconciler.policy.types import (
    DownscalePolicy,
    FederatedReplicaSet,
    IdlingPolicy,
    ObjectSelector,
    PolicySet,
    WorkloadSelector,
)
from reconciler.workload_kinds import SCALABLE_KINDS

Policy = IdlingPolicy | DownscalePolicy | FederatedReplicaSet


class SelectorPart(Struct, frozen=True):
    """One part of what a policy selects, as its field is called; `problem` is why it does not select, "" if it does."""

    field: str
    problem: str = ""


class SelectorMatch(Struct, frozen=True):
    """A policy, and which parts of its selector select a workload."""

    policy: Policy
    parts: tuple[SelectorPart, ...]

    @property
    def selected(self) -> int:
        """How many parts select it."""
        return sum(not part.problem for part in self.parts)


def closest_selector(workload: Workload, policies: PolicySet, cluster: ObservedCluster) -> SelectorMatch | None:
    """Return the match with the fewest parts that fail, the first by name of several; None where there is no policy."""
    selecting: tuple[IdlingPolicy | DownscalePolicy, ...] = (*policies.idling, *policies.downscale)
    matches = [_match(policy, workload, policies, cluster) for policy in selecting]
    matches += [_placement(policy, workload) for policy in policies.federated]
    return min(
        matches,
        key=lambda one: (len(one.parts) - one.selected, -one.selected, type(one.policy).__name__, one.policy.name),
        default=None,
    )


def _match(
    policy: IdlingPolicy | DownscalePolicy, workload: Workload, policies: PolicySet, cluster: ObservedCluster
) -> SelectorMatch:
    selector, ref = policy.selector, workload.ref
    member = policies.fleet.cluster(ref.cluster)
    labels = next((space.labels for space in cluster.namespaces if space.ref.name == ref.namespace), {})
    parts = [
        SelectorPart("clusters", _problem(selector.clusters, ref.cluster, member.labels if member else {})),
        SelectorPart("namespaces", _problem(selector.namespaces, ref.namespace, labels)),
    ]
    if selector.workloads is not None:
        parts.append(SelectorPart("workloads", _workload_problem(selector.workloads, workload)))
    if selector.services is not None:
        parts.append(SelectorPart("services", _service_problem(selector.services, workload, cluster)))
    fields = () if member is None else tuple(exclusions_by(policy, member, labels, workload))
    parts += [SelectorPart(field, f"excludes {ref.name}") for field in fields]
    return SelectorMatch(policy, tuple(parts))


def _placement(policy: FederatedReplicaSet, workload: Workload) -> SelectorMatch:
    namespace, kind, name = local_key(policy)
    ref = workload.ref
    there = policy.clusters.keys() & {ref.cluster, "*"}
    called = (ref.kind, ref.name) == (kind, name)
    return SelectorMatch(
        policy,
        (
            SelectorPart("preferences.clusters", "" if there else f"has neither {ref.cluster} nor *"),
            SelectorPart("namespace", "" if ref.namespace == namespace else f"is {namespace}, not {ref.namespace}"),
            SelectorPart("name", "" if called else f"is {kind}/{name}, not {ref.kind}/{ref.name}"),
        ),
    )


def _problem(selector: ObjectSelector, name: str, labels: Mapping[str, str]) -> str:
    """Return why an object called `name` is not selected, "" if it is."""
    if not selector.names(name):
        return _name_problem(selector, name)
    return "; ".join(_label_problems(selector.labels, labels))


def _name_problem(selector: ObjectSelector, name: str) -> str:
    included = ObjectSelector(include=selector.include).names(name)
    if included and not ObjectSelector(within=selector.within).names(name):
        return f"{name} is not of the tenant, which has {', '.join(selector.within)}"
    if included:
        return f"{name} is excluded by {', '.join(selector.exclude)}"
    return f"{name} is not included in {', '.join(selector.include)}"


def _label_problems(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[str]:
    wanted = [LabelRequirement(key, "In", (value,)) for key, value in selector.match_labels]
    for requirement in (*wanted, *selector.match_expressions):
        if not requirement.matches(labels):
            found = f'is "{labels[requirement.key]}"' if requirement.key in labels else "is absent"
            values = f" {', '.join(requirement.values)}" if requirement.values else ""
            yield f"label {requirement.key} {found}, expected {requirement.operator}{values}"


def _workload_problem(selector: WorkloadSelector, workload: Workload) -> str:
    ref = workload.ref
    if workload.owner is not None:
        return f"{workload.owner.kind}/{workload.owner.name} owns it: policies select the owner"
    if selector.kinds and not names_kind(selector, ref.kind, ref.group):
        return f"{ref.kind} is not among kinds {', '.join(selector.kinds)}"
    if not selector.kinds and (ref.group, ref.kind) not in SCALABLE_KINDS:
        return f"{ref.kind} is a custom kind, which is selected only where kinds names it"
    return _problem(selector.objects, ref.name, workload.labels)


def _service_problem(selector: ObjectSelector, workload: Workload, cluster: ObservedCluster) -> str:
    """Return why no Service in front of `workload` is selected, by the labels of its pods' template; "" if one is."""
    services = [service for service in cluster.services if _is_in_front(service, workload)]
    if not services:
        return "no Service selects its pods"
    problems = {front.ref.name: _problem(selector, front.ref.name, front.labels) for front in services}
    return "; ".join(f"Service/{name}: {why}" for name, why in problems.items()) if all(problems.values()) else ""


def _is_in_front(service: Service, workload: Workload) -> bool:
    same = service.ref.namespace == workload.ref.namespace
    return same and bool(service.selector) and service.selector.items() <= workload.template_labels.items()
