"""The three jobs joined: idling wins over placement, placement over a downscale target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer
from reconciler.decide.annotations import fleet_names
from reconciler.decide.change_codes import field_is
from reconciler.decide.decisions import Decision, DesiredState, Notice, Phase, PolicyExplanation, Undecided, Verb
from reconciler.decide.downscale.journal import decide_recovery
from reconciler.decide.downscale.planned_victims import with_victims
from reconciler.decide.downscale.targets import decide_downscale
from reconciler.decide.freeze import freeze_notices, frozen
from reconciler.decide.held_back import held_idles, within_limits
from reconciler.decide.idling.decide import decide_idling, decide_wakes_due
from reconciler.decide.placement.decide import decide_placement, made_anew
from reconciler.decide.placement.ownership import placed_workloads
from reconciler.decide.placement.removed_policies import restored_scales, within_targets
from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.decide.stopped_tenants import beside_stopped, with_stopped
from reconciler.model import NOTHING, ObjectRef, ObservedState, Run
from reconciler.policy.types import PolicySet


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
        forecast = _without_deferred(with_victims(joined, policies, state, run))
        found = forecast.joined(due, freeze_notices(policies.fleet))
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
    known = with_victims(desired, policies, state, run, chosen)
    left = _without_deferred(replace(known, notices=(*known.notices, *failed)))
    return within_limits(left, policies, state, run, desired)  # what is deferred counts no more


# Scale-downs that apply would leave to a later run, because something else set deletion costs on the pods.


def _without_deferred(desired: DesiredState) -> DesiredState:
    """Return `desired` without the downscales that apply would leave to a later run: they are undecided.

    What another job decides stays in the plan, with a note: its other decisions rest on it.
    """
    deferred = {
        (one.ref, one.cause.policy): (one, reason(ReasonCode.VICTIMS_DEFERRED, note=one.victims.note))
        for one in desired.decisions
        if one.job == "downscale" and one.victims is not None and one.victims.deferred
    }
    gone = {one.key for one, _ in deferred.values()}
    undecided = (Undecided(str(ref), "downscale", policy, (why,)) for (ref, policy), (_, why) in deferred.items())
    explanations = (
        _stays(found, *deferred[found.ref, found.policy])
        if found.job == "downscale" and (found.ref, found.policy) in deferred
        else found
        for found in desired.explanations
    )
    return replace(
        desired,
        decisions=tuple(decision for decision in desired.decisions if decision.key not in gone),
        undecided=(*desired.undecided, *undecided),
        explanations=tuple(explanations),
    )


def _stays(explanation: PolicyExplanation, before: Decision, why: Reason) -> PolicyExplanation:
    """Return `explanation` of what `before` would have scaled down, and `why` defers: only foreign costs do."""
    return replace(
        explanation,
        outcome=f"stays at {before.replicas_before}",
        reasons=(why, *explanation.reasons),
        change=field_is("onForeignCost", "Override"),
    )
