"""What a plan knows of activators: where it looks for them, what dead ones left, which Services wait for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Cause, Decision, DesiredState, Notice, NoticeKind, Phase, Verb, group_name
from reconciler.decide.idling.write_context import decision_key
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.messages import first_of
from reconciler.model import ObservedCluster, ObservedState, Service, by_key
from reconciler.policy.types import Fleet, PolicySet, Writes

_IDLED_TO = ("metadata", "annotations", Key.IDLED_TO)


def clusters_to_ask(desired: DesiredState, policies: PolicySet, state: ObservedState) -> tuple[str, ...]:
    """Return the clusters of which it must be known which activators live: where Services go idle at zero, and where
    activators have EndpointSlices. Of those that were asked already nothing new is learnt.
    """
    if not policies.idling:
        return ()
    at_zero = {service.ref.cluster for service, _ in _records_at_zero(desired.wanted, state)}
    return tuple(
        name
        for name, cluster in sorted(state.clusters.items())
        if cluster.activators is None
        and (name in at_zero or any(endpoint_slice.activator for endpoint_slice in cluster.endpoint_slices))
    )


def _records_at_zero(decisions: Sequence[Decision], state: ObservedState) -> list[tuple[Decision, Service]]:
    """Return the decisions that record a Service as idle at zero, each with the Service as it is now."""
    found = [
        decision
        for decision in decisions
        if decision.ref.is_service
        and decision.verb is Verb.RECORD
        and decision.phase in (Phase.ANNOTATE, Phase.DECREASE)
    ]
    concerned = {decision.ref.cluster for decision in found}
    observed = [cluster for name, cluster in state.clusters.items() if name in concerned]
    services = {service.ref: service for cluster in observed for service in cluster.services}
    pairs = [(decision, services[decision.ref]) for decision in found if decision.ref in services]
    return [(decision, service) for decision, service in pairs if _idled_to(decision, service) == "0"]


def _idled_to(record: Decision, service: Service) -> str | None:
    written = [change.after for change in record.changes if change.path == _IDLED_TO]
    return written[0] if written else service.annotations.get(Key.IDLED_TO)


def with_activators(desired: DesiredState, policies: PolicySet, state: ObservedState) -> DesiredState:
    """Return `desired` with the end of what dead activators left, and with what nobody can signal."""
    return replace(
        desired,
        decisions=(*desired.decisions, *_left_behind(policies.fleet, state)),
        notices=(*desired.notices, *_unsignalled(desired, policies, state)),
    )


def _left_behind(fleet: Fleet, state: ObservedState) -> Iterator[Decision]:
    """Yield the deletion of the EndpointSlices of activators that died: they lead clients nowhere.

    One without any Lease is left alone: it may be an activator's whose Leases lie in another namespace.
    """
    written = [cluster.name for cluster in fleet.clusters if cluster.writes is not Writes.NOTHING]
    for cluster in [state.clusters[name] for name in written if name in state.clusters]:
        dead = {activator.pod for activator in cluster.activators or () if not activator.is_alive}
        for found in cluster.endpoint_slices:
            if found.activator in dead:
                yield Decision(
                    key=decision_key(Verb.DELETE, found.ref),
                    job="idling",
                    verb=Verb.DELETE,
                    phase=Phase.REPAIR,
                    ref=found.ref,
                    api_version="discovery.k8s.io/v1",
                    uid=found.uid,
                    changes=(),
                    cause=Cause("", "", (reason(ReasonCode.ACTIVATOR_GONE, pod=found.activator),)),
                    group=group_name("idling", found.ref),
                )


def _lives(cluster: ObservedCluster) -> bool:
    return any(activator.is_alive for activator in cluster.activators or ())


def _unsignalled(desired: DesiredState, policies: PolicySet, state: ObservedState) -> Iterator[Notice]:
    """Yield for each policy with `wake: OnSignal` which of its Services nobody can signal, and why."""
    on_signal = {policy.name for policy in policies.idling if policy.wake == "OnSignal"}
    if not on_signal:
        return
    asleep = {service.ref for service, _ in _records_at_zero(desired.wanted, state)}
    services = {service.ref: service for cluster in state.clusters.values() for service in cluster.services}
    idling = (found for found in desired.explanations if found.job == "idling" and found.selected)
    selected = {(found.policy, ref) for found in idling if found.policy in on_signal for ref in found.services}
    said = (
        (policy, ref, _why_unsignalled(services[ref], state.clusters[ref.cluster], ref in asleep))
        for policy, ref in selected
    )
    behind = by_key(((ref.cluster, policy, *why), ref) for policy, ref, why in said if why is not None)
    for (cluster, policy, kind, words), refs in sorted(behind.items()):
        named = [f"{ref.namespace}/{ref.name}" for ref in sorted(refs)]
        text = f"{cluster}: nothing signals {first_of(named, 3)} (wake: OnSignal): {words}"
        yield Notice(kind, f"{cluster}/{policy}", text, policy)


def _why_unsignalled(service: Service, cluster: ObservedCluster, goes_idle: bool) -> tuple[NoticeKind, str] | None:
    """Return the kind of the notice, and why nobody signals a Service; None where somebody does, or it is not known."""
    if service.unheld:
        return "notHeld", f"an activator cannot hold its connections: {service.unheld}"
    known = goes_idle or cluster.activators is not None
    return ("noSignal", "no activator is known there") if known and not _lives(cluster) else None


def announced(decisions: Sequence[Decision], state: ObservedState) -> tuple[Decision, ...]:
    """Return `decisions` as they are carried out where an activator lives: all Services of a cluster are recorded as
    idle before anything is scaled, and that waits until an activator accepts their connections.
    """
    first = {
        record.key
        for record, service in _records_at_zero(decisions, state)
        if not service.unheld and _lives(state.clusters[record.ref.cluster])
    }
    return tuple(_in_turn(decision, first) for decision in decisions) if first else tuple(decisions)


def _in_turn(decision: Decision, first: set[str]) -> Decision:
    if decision.key in first:
        return replace(decision, phase=Phase.ANNOTATE)
    waits = decision.idles and not first.isdisjoint(decision.needs)
    return replace(decision, wait_activator=True) if waits else decision


def announcements(decisions: Sequence[Decision]) -> tuple[Notice, ...]:
    """Return the notices that say on which clusters a run waits for an activator."""
    counts: Mapping[str, int] = Counter(
        decision.ref.cluster for decision in decisions if decision.phase is Phase.ANNOTATE
    )
    return tuple(Notice("activator", name, f"{name}: {_words(counts[name])}") for name in sorted(counts))


def _words(count: int) -> str:
    which, whose = ("1 Service is", "its") if count == 1 else (f"{count} Services are", "their")
    then = f"what is behind is scaled once an activator accepts {whose} connections, at most 17 s later"
    return f"{which} recorded as idle first; {then}"
