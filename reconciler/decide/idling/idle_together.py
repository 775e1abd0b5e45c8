"""Groups that go idle as a whole or not at all: all that is behind a Service, a federated ReplicaSet on every cluster;
and the groups of decisions that stand or fall together.

A Service of which something still runs is not idle, and whoever finds it recorded would hold its connections back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.decide.annotations import fleet_names
from reconciler.decide.change_codes import Fact, fact
from reconciler.decide.decisions import group_name
from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.rules import GOES_IDLE, Choice, IdleAction
from reconciler.decide.idling.subjects import ServiceState, is_recorded
from reconciler.decide.placement.ownership import is_about
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.selectors import LocalKey, federated_by_local_key, key_of
from reconciler.model import ObjectRef, ObservedState, PodsQuestion
from reconciler.policy.types import FederatedReplicaSet, PolicySet

_Backends = tuple[ServiceState, list[ObjectRef]]
"""A Service that some policy selects, and the scalables behind it, sorted by name."""


def idled_together(
    choices: Mapping[ObjectRef, Choice], federated: Mapping[LocalKey, FederatedMembers]
) -> dict[ObjectRef, Choice]:
    """Return the choices where what goes idle together does: behind each Service, and on all clusters."""
    found = _all_or_none(_federated_together(choices, federated))
    while federated and found != choices:
        choices, found = found, _all_or_none(_federated_together(found, federated))
    return found


def _all_or_none(choices: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, Choice]:
    """Return the choices where nothing goes idle behind a selected Service while anything else behind it stays up.

    That holds through all Services that share a scalable. What is idle already stays so: it is woken for reasons of its
    own.
    """
    services = _services(choices.values())
    result = dict(choices)
    for name, find in ((IdlingCondition.SERVICE_RUNS, _running), (IdlingCondition.PODS_UNREAD, _not_known)):
        found = {ref: held for ref, backends in services.items() if (held := find(*backends, result)) is not None}
        reached = list(found)
        for current in reached:  # which grows
            behind = (result[ref] for ref in services[current][1])
            for choice in [one for one in behind if one.action in GOES_IDLE and one.subject.scale.stops]:
                result[choice.ref] = choice.with_condition(name, found[current])
                others = [service.ref for service in choice.subject.behind if service.ref not in found]
                found.update(dict.fromkeys(others, found[current]))
                reached += others
    return result


def _services(choices: Collection[Choice]) -> dict[ObjectRef, _Backends]:
    """Return the Services behind which something goes idle."""
    idled = (choice for choice in choices if choice.action in GOES_IDLE)
    found: dict[ObjectRef, _Backends] = {
        service.ref: (service, []) for choice in idled for service in choice.subject.behind
    }
    for choice in choices if found else ():
        for service in choice.subject.behind:
            if service.ref in found:
                found[service.ref][1].append(choice.ref)
    return {ref: found[ref] for ref in sorted(found)}


def _running(service: ServiceState, refs: Iterable[ObjectRef], choices: Mapping[ObjectRef, Choice]) -> Fact | None:
    """Return why nothing behind `service` may go idle: its first target that stays up, None where none does."""
    up = next((choices[ref] for ref in refs if choices[ref].holds_others_up), None)
    if up is None:
        return None
    code = ReasonCode.SERVICE_WAKES if up.action is IdleAction.WAKE else ReasonCode.SERVICE_RUNS
    why = reason(code, object=up.subject.name, service=service.ref.name)
    because = up.subject.verdict.excluded if up.action is IdleAction.OBSERVE else up.reasons
    return Fact((why, *because), neighbours=(up.ref,))


def _not_known(service: ServiceState, *_of_targets: object) -> Fact | None:
    is_known = service.found.question is None
    return None if is_known else fact(ReasonCode.PODS_UNREAD, service=service.ref.name)


def pods_to_read(choices: Mapping[ObjectRef, Choice], clusters: Iterable[IdlingCluster]) -> tuple[PodsQuestion, ...]:
    """Return the pods that must be read: behind Services that would go idle if these pods were all there is to know."""
    asking = [service for cluster in clusters for service in cluster.services if service.found.question is not None]
    if not asking:
        return ()
    known = {service.ref for choice in choices.values() for service in choice.subject.behind}
    waiting = [choice for choice in choices.values() if IdlingCondition.PODS_UNREAD in choice.conditions]
    wait = {service.ref for choice in waiting for service in choice.subject.behind}
    wait |= {service.ref for service in asking if service.would_idle and service.ref not in known}
    questions = (service.found.question for service in asking if service.ref in wait)
    return tuple(sorted(question for question in questions if question is not None))


class FederatedMembers(Struct, frozen=True):
    """The local workloads of one federated ReplicaSet that choices are about.

    `running` are clusters where it runs and no choice is about it; `held` says why it may not be idled now, None
    for nothing; `all` are its local workloads on every cluster that answered.
    """

    refs: tuple[ObjectRef, ...]
    all: tuple[ObjectRef, ...]
    running: tuple[str, ...] = ()
    held: tuple[IdlingCondition, Fact] | None = None


def federated_members(
    policies: PolicySet, state: ObservedState, choices: Mapping[ObjectRef, Choice]
) -> dict[LocalKey, FederatedMembers]:
    """Return the members of each federated ReplicaSet that has at least one with a choice."""
    if not policies.federated:
        return {}
    named, fleets = federated_by_local_key(policies.federated), fleet_names(policies.fleet)
    ruled: dict[LocalKey, list[ObjectRef]] = {}
    for ref, choice in choices.items():
        workload = choice.subject.scale.runs
        key = key_of(workload.ref)
        if key in named and is_about(named[key], workload.ref.cluster, workload, fleets):
            ruled.setdefault(key, []).append(ref)
    local = _local_workloads(state, {key: named[key] for key in ruled}, fleets)
    return {key: _members(named[key], ruled[key], local.get(key, {}), state) for key in sorted(ruled)}


def _local_workloads(
    state: ObservedState, federated: Mapping[LocalKey, FederatedReplicaSet], fleets: frozenset[str]
) -> dict[LocalKey, dict[ObjectRef, int]]:
    """Return the replicas of the local workloads of `federated`."""
    found: dict[LocalKey, dict[ObjectRef, int]] = {}
    for name in sorted(state.clusters) if federated else ():
        for workload in state.clusters[name].workloads:
            key = key_of(workload.ref)
            if key in federated and is_about(federated[key], name, workload, fleets):
                found.setdefault(key, {})[workload.ref] = workload.spec_replicas
    return found


def _members(
    federated: FederatedReplicaSet, refs: list[ObjectRef], local: Mapping[ObjectRef, int], state: ObservedState
) -> FederatedMembers:
    ruled = {ref.cluster for ref in refs}
    preferred = [(name, federated.preference(name)) for name in sorted(state.unreachable)]
    unread = next((name for name, own in preferred if own is not None and (own.weight or own.min_replicas)), "")
    held = (IdlingCondition.CLUSTER_UNREAD, fact(ReasonCode.CLUSTER_UNREAD, cluster=unread)) if unread else None
    if federated.paused:
        held = IdlingCondition.FEDERATED_PAUSED, fact(ReasonCode.FEDERATED_PAUSED, policy=federated.name)
    running = tuple(ref.cluster for ref, replicas in local.items() if ref.cluster not in ruled and replicas > 0)
    return FederatedMembers(tuple(refs), tuple(local), running, held)


def _federated_together(
    choices: Mapping[ObjectRef, Choice], federated: Mapping[LocalKey, FederatedMembers]
) -> dict[ObjectRef, Choice]:
    """Return the choices where no member of a federated ReplicaSet is idle while another one runs."""
    result = dict(choices)
    for members in federated.values():
        # Who is awake is settled before any condition is added: what others keep up must not keep them up in turn.
        inside = [result[ref] for ref in members.refs]
        up = [
            choice.ref
            for choice in inside
            if choice.holds_others_up and choice.because is not IdlingCondition.RUNS_ELSEWHERE
        ]
        clusters = {*members.running, *(ref.cluster for ref in up)}
        for choice in inside:
            elsewhere = min(clusters - {choice.ref.cluster}, default="")
            if elsewhere:
                others = () if members.running else tuple(ref for ref in up if ref != choice.ref)
                because = Fact((reason(ReasonCode.RUNS_ELSEWHERE, cluster=elsewhere),), neighbours=others)
                result[choice.ref] = choice.with_condition(IdlingCondition.RUNS_ELSEWHERE, because)
            elif members.held is not None and not choice.subject.is_idle:
                result[choice.ref] = choice.with_condition(*members.held)
    return result


# Decisions that stand or fall together: on Services and scalables that share one another.


def groups_of(
    choices: Iterable[Choice], idle_together: Sequence[tuple[ObjectRef, ...]]
) -> tuple[dict[ObjectRef, str], dict[ObjectRef, str]]:
    """Return the group of each scalable and each Service that have one together, and that of those where they go idle.

    Services that share a scalable, and scalables that share a Service, are one group; where they go idle, the members
    of each of `idle_together` are too. It is named after its first Service ("idling/east/dev-a/Service/api"), or its
    first scalable without one.
    """
    parts = (
        (choice.ref, *(service.ref for service in choice.subject.services if is_recorded(service)))
        for choice in choices
        if choice.subject.services
    )
    joined = [part for part in parts if len(part) > 1]
    named = _named(joined)
    return named, _named((*joined, *idle_together)) if idle_together else named


def _named(parts: Iterable[tuple[ObjectRef, ...]]) -> dict[ObjectRef, str]:
    """Return the name of the group of each object; `parts` that share one are one group."""
    groups: dict[ObjectRef, set[ObjectRef]] = {}
    for part in parts:
        *others, whole = sorted((groups.setdefault(ref, {ref}) for ref in part), key=len)
        for smaller in others:
            if smaller is not whole:
                whole |= smaller
                groups.update(dict.fromkeys(smaller, whole))
    each = {id(inside): inside for inside in groups.values()}.values()
    firsts = ((min(inside, key=lambda ref: (not ref.is_service, ref)), inside) for inside in each)
    return {ref: group_name("idling", first) for first, inside in firsts for ref in inside}
