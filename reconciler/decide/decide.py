"""The three jobs joined: idling wins over placement, placement over a downscale target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer
from reconciler.decide.annotations import fleet_names
from reconciler.decide.change_codes import field_is
from reconciler.decide.decisions import Decision, DesiredState, Notice, Phase, PolicyExplanation, Undecided, Verb
from reconciler.decide.downscale.decide import decide_downscale
from reconciler.decide.downscale.journal import decide_recovery
from reconciler.decide.downscale.victim_forecast import with_victims
from reconciler.decide.freeze import freeze_notices, frozen
from reconciler.decide.idling.decide import decide_idling, decide_wakes_due
from reconciler.decide.limits import held_idles, within_limits
from reconciler.decide.placement.decide import decide_placement, made_anew
from reconciler.decide.placement.ownership import is_about
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.selectors import local_ref
from reconciler.decide.stopped_tenants import beside_stopped, with_stopped
from reconciler.model import NOTHING, ObjectRef, ObservedState, Run
from reconciler.policy.types import PolicySet

_UNSEEN = ObservedState({})


def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    """Return the desired state, within the limits. While it has `questions`, it is final only once they are answered in
    `state`.

    What a limit keeps from going idle stays awake, and what placement makes anew asleep: placement and downscale decide
    again, until no more is held back.
    """
    policies = replace(policies, fleet=frozen(policies.fleet, state, run.now))
    usable, seen = beside_stopped(policies, state)
    idling = decide_idling(usable, seen, run)
    recovery = decide_recovery(policies.fleet, state, run, policies.shard)
    due = DesiredState()
    if state.wakes_only:
        due = decide_wakes_due(policies.fleet, replace(state, clusters=NOTHING), run)
    enforced = replace(usable, downscale=tuple(policy for policy in usable.downscale if policy.mode == "Enforce"))
    placed, desired, not_now = placed_workloads(policies, seen), DesiredState(), frozenset[ObjectRef]()
    while True:  # until what idling does not do now is what the other jobs know of: it only grows
        not_now |= held_idles(desired)
        settled = idling.after(seen, fleet_names(policies.fleet), not_now)
        placement = decide_placement(usable, seen, run, settled)
        if anew := made_anew(placement, settled):
            not_now |= anew
            continue
        placement = within_targets(
            placement, seen, partial(decide_downscale, enforced, run=run, settled=settled, placed=placed)
        )
        decided = placed | {ref: decision.cause.policy for ref, decision in restored_scales(placement).items()}
        downscale = decide_downscale(usable, seen, run, settled, decided)
        joined = recovery.joined(idling.without(not_now), placement, downscale)
        found = _with_forecasts(joined, policies, state, run).joined(due, freeze_notices(policies.fleet))
        desired = within_limits(with_stopped(found, policies, state, run), policies, state, run, desired)
        if held_idles(desired) <= not_now or not (policies.federated or policies.downscale):
            return desired


def urgent(desired: DesiredState, due: DesiredState) -> DesiredState:
    """Return the decisions of `desired` that wake what `due` wakes too, the repairs of their groups, and the changes of
    their pod templates.
    """
    woken = {decision.ref for decision in due.decisions if decision.verb is Verb.WAKE}
    groups = {decision.group for decision in desired.decisions if decision.verb is Verb.WAKE and decision.ref in woken}
    kept = [decision for decision in desired.decisions if decision.group in groups and decision.phase <= Phase.REPAIR]
    waking = {decision.ref for decision in kept if decision.verb is Verb.WAKE}
    kept += [decision for decision in desired.decisions if decision.verb is Verb.OVERWRITE and decision.ref in waking]
    return DesiredState(decisions=tuple(kept))


def placed_workloads(policies: PolicySet, state: ObservedState = _UNSEEN) -> dict[ObjectRef, str]:
    """Return the policy's name for every workload that placement decides, on every cluster of the Fleet; without what
    it leaves as it is in `state`.
    """
    fleets = fleet_names(policies.fleet)
    refs = {
        local_ref(federated, cluster.name): federated
        for federated in policies.federated
        for cluster in policies.fleet.clusters
        if federated.is_on(cluster.name)
    }
    unnamed = {ref for ref, federated in refs.items() if federated.preference(ref.cluster) is None}
    left = {
        workload.ref
        for cluster in (state.clusters.values() if unnamed else ())
        for workload in cluster.workloads
        if workload.ref in unnamed and not is_about(refs[workload.ref], cluster.name, workload, fleets)
    }
    return {ref: federated.name for ref, federated in refs.items() if ref not in left}


def _with_forecasts(desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    decisions, questions, notices = with_victims(desired.decisions, policies, state, run)
    return _without_deferred(
        replace(
            desired,
            decisions=decisions,
            questions=tuple(sorted({*desired.questions, *questions})),
            notices=desired.notices + notices,
        )
    )


def with_picked_pods(
    desired: DesiredState,
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    answers: Mapping[ObjectRef, PickerAnswer | Notice],
) -> DesiredState:
    """Return `desired` with the victims that pickers name; apply asks them again right before it writes."""
    chosen = {ref: answer for ref, answer in answers.items() if isinstance(answer, PickerAnswer)}
    failed = (answer for answer in answers.values() if isinstance(answer, Notice))
    decisions, _, _ = with_victims(desired.decisions, policies, state, run, chosen)
    left = _without_deferred(replace(desired, decisions=decisions, notices=(*desired.notices, *failed)))
    return within_limits(left, policies, state, run, desired)  # what is deferred counts no more


def _without_deferred(desired: DesiredState) -> DesiredState:
    """Return `desired` without the downscales that apply would leave to a later run: they are undecided.

    What another job decides stays in the plan, with a note: its other decisions rest on it.
    """
    deferred = {
        decision.key: Undecided(
            str(decision.ref),
            "downscale",
            decision.cause.policy,
            (reason(ReasonCode.VICTIMS_DEFERRED, note=decision.victims.note),),
        )
        for decision in desired.decisions
        if decision.job == "downscale" and decision.victims is not None and decision.victims.deferred
    }
    gone = {
        (decision.ref, decision.job, decision.cause.policy): decision
        for decision in desired.decisions
        if decision.key in deferred
    }
    kept = tuple(decision for decision in desired.decisions if decision.key not in deferred)
    explanations = tuple(
        _stays(explanation, before, deferred[before.key]) if before is not None else explanation
        for explanation in desired.explanations
        for before in (gone.get((explanation.ref, explanation.job, explanation.policy)),)
    )
    undecided = (*desired.undecided, *deferred.values())
    return replace(desired, decisions=kept, undecided=undecided, explanations=explanations)


def _stays(explanation: PolicyExplanation, before: Decision, undecided: Undecided) -> PolicyExplanation:
    """Return `explanation` of what `before` would have scaled down, and `undecided` defers: only foreign costs do."""
    return replace(
        explanation,
        outcome=f"stays at {before.replicas_before}",
        reasons=(*undecided.reasons, *explanation.reasons),
        change=field_is("onForeignCost", "Override"),
    )


def restored_scales(placement: DesiredState) -> dict[ObjectRef, Decision]:
    """Return the releases that give replicas back, by workload."""
    return {
        decision.ref: decision
        for decision in placement.decisions
        if decision.verb is Verb.RELEASE and decision.replicas_after is not None
    }


def within_targets(
    placement: DesiredState, state: ObservedState, downscale: Callable[[ObservedState], DesiredState]
) -> DesiredState:
    """Return `placement` where no workload gets more replicas back than `downscale` would leave it in the next run.

    Where that is not known yet, the workload keeps its replicas and its record until it is.
    """
    restored = restored_scales(placement)
    if not restored:
        return placement
    after = downscale(_as_restored(state, restored))
    unknown = {undecided.subject for undecided in after.undecided}
    released = {ref: decision for ref, decision in restored.items() if str(ref) not in unknown}
    released |= {
        decision.ref: _at_most(released[decision.ref], decision)
        for decision in after.decisions
        if decision.ref in released
    }
    decided = {decision.key: released.get(ref) for ref, decision in restored.items()}
    decisions = (decided.get(decision.key, decision) for decision in placement.decisions)
    return replace(placement, decisions=tuple(decision for decision in decisions if decision is not None))


def _as_restored(state: ObservedState, restored: Mapping[ObjectRef, Decision]) -> ObservedState:
    names = {ref.cluster for ref in restored}
    clusters = {
        name: replace(
            state.clusters[name],
            workloads=tuple(
                replace(workload, replicas=restored[workload.ref].replicas_after)
                if workload.ref in restored
                else workload
                for workload in state.clusters[name].workloads
            ),
        )
        for name in sorted(names)
    }
    return replace(state, clusters={**state.clusters, **clusters})


def _at_most(released: Decision, scaled: Decision) -> Decision:
    """Return `released` with the replicas that `scaled` leaves; without any where those it has are as many, or more."""
    path = scaled.changes[0].path
    metadata = tuple(change for change in released.changes if change.path != path)
    why = tuple(why for why in released.cause.reasons if why.code is not ReasonCode.SCALE_RESTORED)
    cause = replace(released.cause, reasons=(*why, reason(ReasonCode.DECIDED_BY, policy=scaled.cause.policy)))
    before, after = released.replicas_before or 0, scaled.replicas_after or 0
    if after <= before:
        kept = replace(released, phase=Phase.REPAIR, replicas_before=None, replicas_after=None)
        return replace(kept, changes=metadata, cause=cause)
    changes = (replace(released.changes[0], after=after), *metadata)
    return replace(released, changes=changes, cause=cause, replicas_after=after)
