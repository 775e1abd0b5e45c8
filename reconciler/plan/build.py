"""Desired state -> plan: what the filters leave, in order, and what there is to say beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import Key, read_time
from reconciler.decide.decisions import Decision, DesiredState, Notice, Verb, policy_title
from reconciler.decide.idling.activators import announced, announcements
from reconciler.decide.placement.home_config_maps import unknown_since
from reconciler.decide.reasons import ReasonCode
from reconciler.model import NOTHING, HorizontalPodAutoscaler, ObjectRef, ObservedState, Run, Service, Workload
from reconciler.plan.effects import Effect, effect_of
from reconciler.plan.filters import NO_FILTERS, Filters, kept_groups
from reconciler.plan.model import QUERY_OF, Awake, KeptUp, Plan
from reconciler.plan.order import in_order, numbered_actions
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.types import PolicySet
from reconciler.workload_kinds import SCALABLE_KINDS

_LATELY = timedelta(days=2)


def make_plan(
    policies: PolicySet, state: ObservedState, desired: DesiredState, run: Run, filters: Filters = NO_FILTERS
) -> Plan:
    """Return the plan that brings the clusters of `state` to `desired`, as far as `filters` let it; where the state is
    from, and its digest, are for whoever observed it to say.
    """
    labels = NOTHING if filters.empty else _labels(state)
    groups = frozenset() if filters.empty else kept_groups(desired.decisions, filters, labels)
    kept = [decision for decision in desired.decisions if filters.empty or decision.group in groups]
    decisions = announced(_complete(kept, desired.decisions), state)
    nothing, production = _without_workloads(policies, desired, state)
    return Plan(
        made_at=run.now,
        run=run.id,
        fleet=policies.fleet.name,
        policy_digest=policies.digest,
        input_digest="",
        clusters={name: cluster.identity for name, cluster in sorted({**state.clusters, **state.wakes_only}.items())},
        actions=numbered_actions(in_order(decisions)),
        # Only what is held back of what the filters leave makes the run end with exit 4.
        held_back=tuple(
            held for held in desired.held_back if filters.empty or kept_groups(held.decisions, filters, labels)
        ),
        observed=in_order(desired.observed),
        undecided=desired.undecided,
        overridden=desired.overridden,
        unknown=_unknown(state),
        notices=(*desired.notices, *_not_served(policies, state), *announcements(decisions)),
        limits=desired.limits,
        placements=desired.placements,
        explanations=desired.explanations,
        unknown_since=unknown_since(policies.fleet, state, run.now),
        places=_places(policies),
        unanswered=tuple(key for key in sorted(state.answers) if state.answers[key].error),
        awake=_awake(state, run.now),
        kept_up=tuple(_kept_up(desired, filters, labels)),
        without_workloads=nothing,
        only_production=production,
        dropped=_dropped(desired.decisions, decisions),
        revision=run.revision,
        shard="" if policies.shard is None else str(policies.shard),
        time_zones=policies.time_zones,
    )


def _dropped(wanted: Sequence[Decision], left: Sequence[Decision]) -> int:
    """Return how many changes are wanted and not left, metadata updates aside where there are others."""
    if len(left) == len(wanted):
        return 0
    number = sum(effect_of(one) is not Effect.METADATA for one in wanted)
    return number - sum(effect_of(one) is not Effect.METADATA for one in left) or len(wanted) - len(left)


def _complete(decisions: Sequence[Decision], wanted: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return those of `decisions` for which everything of `wanted` that they need is left.

    A wake needs the change of the pod template of its object too, where that is not filtered out.
    """
    missing = {decision.key for decision in wanted} - {decision.key for decision in decisions}
    templates = {decision.ref: decision.key for decision in decisions if decision.verb is Verb.OVERWRITE}
    kept = [
        replace(decision, needs=(*decision.needs, templates[decision.ref]))
        if decision.verb is Verb.WAKE and decision.ref in templates
        else decision
        for decision in decisions
    ]
    while missing and (lost := [decision for decision in kept if missing.intersection(decision.needs)]):
        missing |= {decision.key for decision in lost}
        kept = [decision for decision in kept if decision.key not in missing]
    return tuple(kept)


def _awake(state: ObservedState, now: datetime) -> tuple[Awake, ...]:
    """Return what woke in the last two days and runs."""
    return tuple(
        Awake(
            workload.ref,
            since,
            workload.spec_replicas,
            workload.replicas_writer.manager if workload.replicas_writer else "",
        )
        for name in sorted(state.clusters)
        for workload in state.clusters[name].workloads
        if Key.AWAKE_SINCE in workload.annotations
        and workload.owner is None
        and (since := read_time(workload.annotations.get(Key.AWAKE_SINCE))) is not None
        and since > now - _LATELY
    )


def _without_workloads(
    policies: PolicySet, desired: DesiredState, state: ObservedState
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the policies that select nothing at all, and those that would select only production and leave it out: who
    has just written them wonders. What cannot be read may be theirs, and so may what belongs to a tenant that is
    stopped, or to another shard.

    Where the deciding policy leaves out production, so does one below it that does not say `production: true`.
    """
    if not _is_whole(policies, state):
        return (), ()
    selects_production = {policy.name for policy in policies.idling if policy.production}
    selecting = {
        (explanation.job, policy)
        for explanation in desired.explanations
        for policy in (
            (explanation.policy, *explanation.outranked)
            if explanation.selected
            else selects_production.intersection(explanation.outranked)
        )
    }
    stated = [
        *(("idling", policy.name) for policy in policies.idling),
        *(("downscale", policy.name) for policy in policies.downscale),
    ]
    nothing = [policy for policy in stated if policy not in selecting]
    left_out = {
        (explanation.job, policy)
        for explanation in (desired.explanations if nothing else ())
        if any(why.code == ReasonCode.PRODUCTION for why in explanation.reasons)
        for policy in (explanation.policy, *explanation.outranked)
    }
    return (
        tuple(policy_title(*policy) for policy in nothing if policy not in left_out),
        tuple(policy_title(*policy) for policy in nothing if policy in left_out),
    )


def _is_whole(policies: PolicySet, state: ObservedState) -> bool:
    """Return whether all that the policies may select was read."""
    unread = state.unreachable or any(cluster.unreadable for cluster in state.clusters.values())
    return not (policies.stopped or policies.shard or unread)


def _not_served(policies: PolicySet, state: ObservedState) -> Iterator[Notice]:
    """Yield the kinds that policies select and no cluster can scale: their definition may be missing."""
    kinds = [*SCALABLE_KINDS.values(), *(kind for cluster in state.clusters.values() for kind in cluster.scale_kinds)]
    served = {name for kind in kinds for name in (kind.kind.lower(), f"{kind.kind}.{kind.group}".lower())}
    selecting = [(job, policy) for job in ("idling", "downscale") for policy in getattr(policies, job)]
    for job, policy in selecting if _is_whole(policies, state) else ():
        selector = policy.selector.workloads
        for kind in () if selector is None else selector.kinds:
            if kind.lower() not in served:
                text = f'selects the kind "{kind}", which no cluster can scale, expected a CustomResourceDefinition'
                yield Notice("notServed", policy_title(job, policy.name), f"{text} with its scale, also in a snapshot")


def _kept_up(
    desired: DesiredState, filters: Filters, labels: Mapping[ObjectRef, Mapping[str, str]]
) -> Iterator[KeptUp]:
    """Yield what ends last for the workloads that only that keeps from being idled, and that the filters leave."""
    found = {
        one.ref: one.until
        for one in desired.explanations
        if one.until is not None and filters.keep(one.policy, one.ref, labels.get(one.ref, NOTHING))
    }
    for by in dict.fromkeys(by for by, _ in found.values()):
        ends = [until for what, until in found.values() if what == by]
        known = [end for end in ends if end is not None]
        if known:
            yield KeptUp(by, len(known), max(known))
        if len(known) < len(ends):
            yield KeptUp(by, len(ends) - len(known), None)


def _places(policies: PolicySet) -> dict[str, str]:
    found = {f"Fleet {policies.fleet.name}": policies.fleet.place}
    found |= {f"Tenant {tenant.name}": tenant.place for tenant in policies.fleet.tenants}
    found |= {policy_title("idling", policy.name): policy.place for policy in policies.idling}
    found |= {policy_title("placement", policy.key): policy.place for policy in policies.federated}
    found |= {policy_title("downscale", policy.name): policy.place for policy in policies.downscale}
    return {name: str(place) for name, place in found.items() if place.file}


def _labels(state: ObservedState) -> dict[ObjectRef, Mapping[str, str]]:
    clusters = (*state.clusters.values(), *state.wakes_only.values())
    objects: Iterator[Workload | Service | HorizontalPodAutoscaler] = chain.from_iterable(
        (*cluster.workloads, *cluster.services, *cluster.autoscalers) for cluster in clusters
    )
    return {found.ref: found.labels for found in objects}


def _unknown(state: ObservedState) -> dict[str, str]:
    parts = {
        f"{name}/{what}": why for name, cluster in state.clusters.items() for what, why in cluster.unreadable.items()
    }
    queries = {
        f"{key.cluster}{QUERY_OF}{key.policy}: {render_query(key)}": answer.error
        for key, answer in state.answers.items()
        if answer.error and key.cluster in state.clusters
    }
    everything = {**state.unreachable, **parts, **queries}
    return {name: everything[name] for name in sorted(everything)}
