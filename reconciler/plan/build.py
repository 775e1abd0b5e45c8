"""Desired state -> plan: filters, one total order; the digests of what it was made from, and the id of its run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import AWAKE_SINCE, read_time
from reconciler.decide.decisions import Decision, DesiredState, Notice, Phase, Verb, policy_title
from reconciler.decide.idling.activators import announced, announcements
from reconciler.decide.placement.home import unknown_since
from reconciler.model import (
    NOTHING,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedState,
    QueryAnswer,
    QueryKey,
    Run,
    Service,
    Workload,
)
from reconciler.plan.filters import Filters, kept_groups
from reconciler.plan.model import QUERY_OF, Action, Awake, KeptUp, Plan
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.types import PolicySet
from reconciler.workload_kinds import SCALABLE_KINDS

_LATELY = timedelta(days=2)


class Inputs(Struct, frozen=True):
    """What a plan rests on besides policies and state: the digest of what was observed, which origin that has, and the
    filters that leave a part of it.
    """

    digest: str = ""
    source: str = "live"  # or "snapshot"
    filters: Filters = Filters()


def make_plan(policies: PolicySet, state: ObservedState, desired: DesiredState, run: Run, inputs: Inputs) -> Plan:
    """Return the plan that brings the clusters of `state` to `desired`, as far as the filters let it."""
    filters = inputs.filters
    labels = NOTHING if filters.empty else _labels(state)
    groups = frozenset() if filters.empty else kept_groups(desired.decisions, filters, labels)
    kept = [decision for decision in desired.decisions if filters.empty or decision.group in groups]
    decisions = announced(_complete(kept, desired.decisions), state)
    return Plan(
        made_at=run.now,
        run=run.id,
        fleet=policies.fleet.name,
        policy_digest=policies.digest,
        input_digest=inputs.digest,
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
        without_workloads=_without_workloads(policies, desired, state),
        dropped=len(desired.decisions) - len(kept),
        revision=run.revision,
        shard="" if policies.shard is None else str(policies.shard),
        source=inputs.source,
        time_zones=policies.time_zones,
    )


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
    while lost := [decision for decision in kept if missing.intersection(decision.needs)]:
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
        if AWAKE_SINCE in workload.annotations
        and workload.owner is None
        and (since := read_time(workload.annotations.get(AWAKE_SINCE))) is not None
        and since > now - _LATELY
    )


def _without_workloads(policies: PolicySet, desired: DesiredState, state: ObservedState) -> tuple[str, ...]:
    """Return the policies that select nothing: who has just written them wonders. What cannot be read may be theirs,
    and so may what belongs to a tenant that is stopped, or to another shard.

    Where the deciding policy leaves out production, so does one below it that does not say `production: true`.
    """
    if not _is_whole(policies, state):
        return ()
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
    return tuple(policy_title(*policy) for policy in stated if policy not in selecting)


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
    """Yield each workload that only time or a rollout keeps from being idled, and that the filters leave."""
    found: dict[ObjectRef, KeptUp] = {}
    for explanation in desired.explanations:
        at = labels.get(explanation.ref, NOTHING)
        if explanation.until is not None and filters.keep(explanation.policy, explanation.ref, at):
            found[explanation.ref] = KeptUp(*explanation.until)
    yield from found.values()


def _places(policies: PolicySet) -> dict[str, str]:
    found = {f"Fleet {policies.fleet.name}": policies.fleet.place}
    found |= {f"Tenant {tenant.name}": tenant.place for tenant in policies.fleet.tenants}
    found |= {policy_title("idling", policy.name): policy.place for policy in policies.idling}
    found |= {policy_title("placement", policy.key): policy.place for policy in policies.federated}
    found |= {policy_title("downscale", policy.name): policy.place for policy in policies.downscale}
    return {name: str(place) for name, place in found.items() if place.file}


def in_order(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return `decisions` in the order of a plan: by phase, then group; nothing before its needs.

    Wakes go by tier in each namespace, and the namespaces take turns: many wakes in one of them do not keep those of
    the others waiting.
    """
    turns = _turns(decisions)
    ordered = sorted(decisions, key=lambda decision: (decision.phase, turns.get(decision.key, 0), _position(decision)))
    known = {decision.key for decision in ordered}
    below = Counter(decision.wake_tier for decision in ordered if decision.wake_tier)
    done: set[str] = set()
    result: list[Decision] = []
    waiting = ordered
    while waiting:
        later: list[Decision] = []
        for decision in waiting:
            needed = all(need in done or need not in known for need in decision.needs)
            if needed and below[decision.wait_ready] <= 0:
                done.add(decision.key)
                below[decision.wake_tier] -= 1
                result.append(decision)
            else:
                later.append(decision)
        if len(later) == len(waiting):
            raise ValueError(f"decisions need each other in a circle: {[decision.key for decision in later]}")
        waiting = later
    return tuple(result)


def _turns(decisions: Sequence[Decision]) -> dict[str, int]:
    """Return the turn of its namespace at which each wake comes, by key: one turn for a group at one tier."""
    units: dict[tuple[str, str], set[tuple[tuple[int, ...], str]]] = {}
    wakes = [decision for decision in decisions if decision.phase is Phase.WAKE]
    for decision in wakes:
        units.setdefault(_namespace_of(decision), set()).add(_unit(decision))
    turns = {space: {unit: turn for turn, unit in enumerate(sorted(inside))} for space, inside in units.items()}
    return {decision.key: turns[_namespace_of(decision)][_unit(decision)] for decision in wakes}


def _namespace_of(decision: Decision) -> tuple[str, str]:
    return (decision.ref.cluster, decision.ref.namespace)


def _unit(decision: Decision) -> tuple[tuple[int, ...], str]:
    return (decision.order[:1], decision.group)


def _position(decision: Decision) -> tuple[tuple[int, ...], str, tuple[int, ...], str]:
    tier = decision.order[:1] if decision.phase is Phase.WAKE else ()
    return (tier, decision.group, decision.order, decision.key)


def numbered_actions(decisions: Sequence[Decision]) -> tuple[Action, ...]:
    """Return the actions of `decisions`, numbered from 1 in their order; needs that are not among them are dropped."""
    ids = {decision.key: position for position, decision in enumerate(decisions, start=1)}
    tiers = {decision.wake_tier for decision in decisions}
    return tuple(
        Action(
            id=ids[decision.key],
            decision=decision,
            needs=tuple(ids[key] for key in decision.needs if key in ids),
            wait_ready=decision.wait_ready if decision.wait_ready in tiers else "",
        )
        for decision in decisions
    )


def doable(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return those of `actions` that can still be done: what needs an action that is not among them goes too."""
    kept: dict[int, Action] = {}
    tiers: set[str] = set()
    for action in actions:
        if all(need in kept for need in action.needs):
            kept[action.id] = action if action.wait_ready in tiers else replace(action, wait_ready="")
            tiers.add(action.decision.wake_tier)
    return tuple(kept.values())


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


_AT_ONCE = 256
"""Objects that are written down side by side: the text of a whole fleet would be larger than the fleet."""


def state_digest(state: ObservedState) -> str:
    """Return the SHA-256 (hex) over everything in `state` that decisions may look at."""
    digest = hashlib.sha256()
    for part in _parts(state):
        digest.update(_ENCODER.encode(part))
    for text in _texts_of_answers(state.answers):
        digest.update(text)
    return digest.hexdigest()


def _texts_of_answers(answers: Mapping[QueryKey, QueryAnswer]) -> Iterator[bytes]:
    """Yield what ["", "answers", [[key, answer], ...]] is as JSON, never all of it at once.

    Many policies have the same query, and so one answer: it is encoded once.
    """
    shared = {id(answer): answer for answer in answers.values()}
    texts = {number: _ENCODER.encode(answer) for number, answer in shared.items()}
    before = b'["","answers",[['
    for key, answer in sorted(answers.items(), key=lambda item: item[0]):
        yield from (before, _ENCODER.encode(key), b",", texts[id(answer)])
        before = b"],["
    yield b"]]]" if answers else b'["","answers",[]]'


def _parts(state: ObservedState) -> Iterator[list[Any]]:
    """Yield all of `state` but answers in small lists; each says what it is part of, so that no two states give the
    same lists.
    """
    for name, cluster in sorted({**state.clusters, **state.wakes_only}.items()):
        for field in cluster.__struct_fields__:
            value = getattr(cluster, field)
            if value is None:
                continue
            if field == "scale_kinds":  # what we know of a kind ourselves is no part of a cluster
                value = tuple(kind.served for kind in cluster.scale_kinds)
            if isinstance(value, Mapping):
                value = sorted(value.items())
            starts = range(0, len(value), _AT_ONCE)
            pieces = [value] if isinstance(value, str) else (value[start : start + _AT_ONCE] for start in starts)
            yield from ([name, field, piece] for piece in pieces)
    yield ["", "unreachable", sorted(state.unreachable.items())]


def digest_with_activators(digest: str, state: ObservedState) -> str:
    """Return the digest of `state`, which is `digest` without what is known of activators.

    A run is not named after them: they are asked when all else is decided.
    """
    known = {
        name: cluster.activators for name, cluster in sorted(state.clusters.items()) if cluster.activators is not None
    }
    return hashlib.sha256(digest.encode() + _ENCODER.encode(known)).hexdigest() if known else digest


def run_id(policy_digest: str, input_digest: str, run: Run) -> str:
    """Return the id of a run that was given none: 12 hex digits over policies, inputs and `now`."""
    text = f"{policy_digest}\n{input_digest}\n{run.now.isoformat()}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> Any:
    """Return a mapping that is no dict as sorted pairs, and a number of a kind of its own as a number."""
    if isinstance(value, Mapping):
        return sorted(value.items())
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"{type(value).__name__} has no place in an observed state")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="sorted")
