"""The replicas that policies which are gone give back: no more than a downscale target leaves in the next run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, Phase, Verb
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import ObjectRef, ObservedState


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
    clusters = dict(state.clusters)
    for name in {ref.cluster for ref in restored}:
        workloads = (
            replace(workload, replicas=restored[workload.ref].replicas_after) if workload.ref in restored else workload
            for workload in clusters[name].workloads
        )
        clusters[name] = replace(clusters[name], workloads=tuple(workloads))
    return replace(state, clusters=clusters)


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
