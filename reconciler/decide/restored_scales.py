"""What gets back the replicas that it had before placement, within what DownscalePolicies leave it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.decide.annotations import read_placed
from reconciler.decide.decisions import Decision, DesiredState, Notice, Phase, Verb
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import ObjectRef, ObservedState


def restored_scales(placement: DesiredState) -> dict[ObjectRef, Decision]:
    """Return the releases that give replicas back, by workload."""
    return {one.ref: one for one in placement.decisions if one.verb is Verb.RELEASE and one.replicas_after is not None}


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
    unknown = {one.subject for one in after.undecided}
    released = {ref: one for ref, one in restored.items() if str(ref) not in unknown}
    released |= {one.ref: _at_most(released[one.ref], one) for one in after.decisions if one.ref in released}
    decided = {one.key: released.get(ref) for ref, one in restored.items()}
    decisions = (decided.get(one.key, one) for one in placement.decisions)
    return replace(placement, decisions=tuple(one for one in decisions if one is not None))


def restore_notices(state: ObservedState, restored: DesiredState, *, hold: bool) -> Iterator[Notice]:
    """Yield what `restored`, the decisions of `reconciler restore`, does not give back, or not for long. `hold`: it is
    to stay so, which is asked of idling alone.
    """
    counts = Counter(one.group.partition("/")[2] for one in restored_scales(restored).values())
    for key, count in sorted(counts.items()):
        them = "it" if count == 1 else "them"
        words = f"the next run lowers {them} again while this policy says so"
        held = "--hold does not keep that up; " if hold else ""
        text = f"{_workloads(count)} scaled down by it; {words}; {held}remove it, or set its paused: true"
        yield Notice("placedAgain", f"FederatedReplicaSet {key}", text, partial=hold)
    woken = {one.ref: one.replicas_after for one in restored.decisions if one.verb is Verb.WAKE}
    lowered = [
        placed.previous
        for cluster in {ref.cluster for ref in woken}
        for one in state.clusters[cluster].workloads
        if one.ref in woken and (placed := read_placed(one.annotations)) is not None
        if woken[one.ref] == placed.replicas < placed.previous
    ]
    if lowered:
        text = f"{_workloads(len(lowered))} idle and scaled down by placement before that; this is the wake alone"
        yield Notice("wokenOnly", "placement", f"{text}, restore once more for the replicas of before placement")


def _workloads(count: int) -> str:
    return "1 workload was" if count == 1 else f"{count} workloads were"


def _as_restored(state: ObservedState, restored: Mapping[ObjectRef, Decision]) -> ObservedState:
    names = {ref.cluster for ref in restored}
    clusters = {
        name: replace(
            state.clusters[name],
            workloads=tuple(
                replace(one, replicas=restored[one.ref].replicas_after) if one.ref in restored else one
                for one in state.clusters[name].workloads
            ),
        )
        for name in sorted(names)
    }
    return replace(state, clusters={**state.clusters, **clusters})


def _at_most(released: Decision, scaled: Decision) -> Decision:
    """Return `released` with the replicas that `scaled` leaves; without any where those it has are as many, or more."""
    path = scaled.changes[0].path
    marks = tuple(one for one in released.changes if one.path != path)
    why = tuple(one for one in released.cause.reasons if one.code is not ReasonCode.SCALE_RESTORED)
    cause = replace(released.cause, reasons=(*why, reason(ReasonCode.DECIDED_BY, policy=scaled.cause.policy)))
    before, after = released.replicas_before or 0, scaled.replicas_after or 0
    if after <= before:
        kept = replace(released, phase=Phase.REPAIR, replicas_before=None, replicas_after=None)
        return replace(kept, changes=marks, cause=cause)
    changes = (replace(released.changes[0], after=after), *marks)
    return replace(released, changes=changes, cause=cause, replicas_after=after)
