"""The three jobs joined: idling wins over placement, placement over a downscale target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from reconciler.decide.annotations import fleet_names
from reconciler.decide.decisions import Decision, DesiredState, Phase, Settled, Undecided, Verb
from reconciler.decide.downscale.decide import decide_downscale
from reconciler.decide.downscale.journal import decide_recovery
from reconciler.decide.downscale.victim_forecast import with_victims
from reconciler.decide.freeze import freeze_notices, frozen
from reconciler.decide.idling.decide import decide_idling, decide_wakes_due
from reconciler.decide.placement.decide import decide_placement
from reconciler.decide.placement.local_replica_sets import is_about
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.restored_scales import restored_scales, within_targets
from reconciler.decide.selectors import local_ref
from reconciler.decide.stopped_tenants import beside_stopped, with_stopped
from reconciler.errors import ReconcilerError, reason_of
from reconciler.model import NOTHING, ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import PolicySet

_ANNOTATIONS = ("metadata", "annotations")


_UNSEEN = ObservedState({})


def decide(
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    *,
    counterfactuals: bool = False,
    not_now: frozenset[ObjectRef] = frozenset(),
) -> DesiredState:
    """Return the desired state. While it has `questions`, it is final only once they are answered in `state`.

    `counterfactuals`: also what would give a cluster another number, which costs several allocations for each.
    `not_now` are workloads whose idles are known to be held back: for placement and downscale they stay awake.
    """
    policies = replace(policies, fleet=frozen(policies.fleet, state, run.now))
    usable, seen = beside_stopped(policies, state)
    idling, placement, settled = _idling_and_placement(usable, seen, run, not_now, counterfactuals=counterfactuals)
    idled = replace(idling, decisions=_after_changes(idling.decisions, placement.decisions))
    placement = replace(placement, decisions=_before_wakes(placement.decisions, idled.decisions))
    claims = {**placed_workloads(policies, seen), **{ref: one.owner for ref, one in settled.items()}}
    placement = within_targets(placement, seen, lambda restored: decide_downscale(usable, restored, run, claims))
    claims |= {ref: one.cause.policy for ref, one in restored_scales(placement).items()}
    downscale = decide_downscale(usable, seen, run, claims)
    recovery = decide_recovery(policies.fleet, state, run)
    joined = recovery.joined(idled, placement, downscale)
    due = decide_wakes_due(policies.fleet, replace(state, clusters=NOTHING), run)  # of `wakes_only`
    found = _with_forecasts(joined, policies, state, run).joined(due, freeze_notices(policies.fleet))
    return with_stopped(found, policies, state, run)


def _idling_and_placement(
    usable: PolicySet, seen: ObservedState, run: Run, not_now: frozenset[ObjectRef], *, counterfactuals: bool
) -> tuple[DesiredState, DesiredState, dict[ObjectRef, Settled]]:
    """Return what idling and placement desire, and what the first leaves to the other jobs."""
    anew: frozenset[ObjectRef] = frozenset()  # placement replaces them, so idling leaves them to the next run
    alone: frozenset[ObjectRef] = frozenset()  # placement would replace them only once they are awake
    while True:
        idling = decide_idling(usable, seen, run, anew, counterfactuals=counterfactuals)
        left = (one for one in idling.desired.decisions if one.ref not in anew)
        made = [one for one in left if not (one.idles and one.ref in not_now)]
        claims = {ref: one for ref, one in idling.claims.items() if ref not in not_now}
        settled = _settled(seen, claims, made, alone)
        # Placement looks at what idling leaves, so that the status it writes is true after the run: what is written
        # now says by its own record whether it is idle then. Without federated ReplicaSets, it decides nothing.
        after = after_writes(seen, made) if usable.federated else seen
        placement = decide_placement(usable, after, run, settled, counterfactuals=counterfactuals)
        replaced = {one.ref for one in placement.decisions if one.verb is Verb.DELETE}
        woken = {one.ref for one in idling.desired.decisions if one.verb is Verb.WAKE}
        awake_only = (anew - replaced - alone) & woken
        if not awake_only and not any(one.ref in replaced for one in made):
            return idling.desired, placement, settled
        alone |= awake_only
        anew = (anew | replaced) - alone


def urgent(desired: DesiredState, due: DesiredState) -> DesiredState:
    """Return the decisions of `desired` that wake what `due` wakes too, with the repairs of their groups."""
    woken = {decision.ref for decision in due.decisions if decision.verb is Verb.WAKE}
    groups = {one.group for one in desired.decisions if one.verb is Verb.WAKE and one.ref in woken}
    kept = [one for one in desired.decisions if one.group in groups and one.phase <= Phase.REPAIR]
    needed = {key for one in kept for key in one.needs} - {one.key for one in kept}
    first = [one for one in desired.decisions if one.key in needed and one.phase <= Phase.REPAIR]
    return DesiredState(decisions=(*first, *kept))


def _settled(
    state: ObservedState,
    claims: Mapping[ObjectRef, str],
    decisions: Iterable[Decision],
    alone: Collection[ObjectRef],
) -> dict[ObjectRef, Settled]:
    """Return what idling leaves of each workload that it decides, whose policy `claims` has, or changes."""
    needs: dict[ObjectRef, list[str]] = {}
    woken: set[ObjectRef] = set()
    for one in decisions:
        needs.setdefault(one.ref, []).append(one.key)
        if one.verb is Verb.WAKE:
            woken.add(one.ref)
    asleep = {
        one.ref: one
        for name in {ref.cluster for ref in woken}
        for one in state.clusters[name].workloads
        if one.ref in woken and one.spec_replicas == 0
    }
    return {
        ref: Settled(claims.get(ref, ""), tuple(needs.get(ref, ())), asleep.get(ref), ref in alone)
        for ref in sorted({*claims, *needs})
    }


def _after_changes(idling: Sequence[Decision], placement: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions of idling where a wake needs what placement changes of the same object first.

    An object that is created anew is woken by the next run, which finds its record on it.
    """
    changed = {one.ref: one.key for one in placement if one.verb is Verb.OVERWRITE}
    anew = {one.ref for one in placement if one.verb is Verb.DELETE}
    if not changed and not anew:
        return tuple(idling)
    dropped = {one.key for one in idling if one.ref in anew}
    while more := {one.key for one in idling if one.key not in dropped and dropped.intersection(one.needs)}:
        dropped |= more
    return tuple(
        replace(one, needs=(*one.needs, changed[one.ref])) if one.verb is Verb.WAKE and one.ref in changed else one
        for one in idling
        if one.key not in dropped
    )


def _before_wakes(placement: Sequence[Decision], idling: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions of placement where what a wake needs is done in the phase of wakes."""
    needed = {need for one in idling if one.verb is Verb.WAKE for need in one.needs}
    return tuple(replace(one, phase=Phase.WAKE) if one.key in needed else one for one in placement)


def after_writes(state: ObservedState, decisions: Sequence[Decision]) -> ObservedState:
    """Return `state` with the workloads as `decisions` leave them, settled."""
    changed = {decision.ref: decision for decision in decisions if decision.replicas_after is not None}
    clusters = {
        name: replace(
            cluster,
            workloads=tuple(
                _written(workload, changed[workload.ref]) if workload.ref in changed else workload
                for workload in cluster.workloads
            ),
        )
        for name, cluster in state.clusters.items()
    }
    return replace(state, clusters=clusters) if changed else state


def _written(workload: Workload, decision: Decision) -> Workload:
    changed = {change.path[-1]: change.after for change in decision.changes if change.path[:-1] == _ANNOTATIONS}
    annotations = {key: text for key, text in {**workload.annotations, **changed}.items() if text is not None}
    after = decision.replicas_after
    return replace(
        workload,
        annotations=annotations,
        replicas=after,
        status_replicas=after,
        ready_replicas=after,
        available_replicas=after,
        updated_replicas=after,
    )


def placed_workloads(policies: PolicySet, state: ObservedState = _UNSEEN) -> dict[ObjectRef, str]:
    """Return the policy's name for every workload that placement decides, on every cluster of the Fleet; without what
    it leaves as it is in `state`.
    """
    fleets = fleet_names(policies.fleet)
    refs = {
        local_ref(one, cluster.name): one
        for one in policies.federated
        for cluster in policies.fleet.clusters
        if one.is_on(cluster.name)
    }
    left = {
        one.ref
        for cluster in state.clusters.values()
        for one in cluster.workloads
        if one.ref in refs and not is_about(refs[one.ref], cluster.name, one, fleets)
    }
    return {ref: one.name for ref, one in refs.items() if ref not in left}


def _with_forecasts(desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    decisions, questions, notices = with_victims(desired.decisions, policies, state, run)
    return without_deferred(
        replace(
            desired,
            decisions=decisions,
            questions=tuple(sorted({*desired.questions, *questions})),
            notices=desired.notices + notices,
        )
    )


def without_deferred(desired: DesiredState) -> DesiredState:
    """Return `desired` without the downscales that apply would leave to a later run: they are undecided.

    What another job decides stays in the plan, with a note: its other decisions rest on it.
    """
    deferred = {
        one.key: _deferred(one, one.victims.note)
        for one in desired.decisions
        if one.job == "downscale" and one.victims is not None and one.victims.deferred
    }
    kept = tuple(one for one in desired.decisions if one.key not in deferred)
    return replace(desired, decisions=kept, undecided=(*desired.undecided, *deferred.values()))


def _deferred(decision: Decision, note: str) -> Undecided:
    why = reason(ReasonCode.VICTIMS_DEFERRED, note=note)
    return Undecided(str(decision.ref), "downscale", decision.cause.policy, (why,))


# Clusters whose objects make a decision fail are found, and left out, so that the others are decided.


T = TypeVar("T")

Names = frozenset[str]


def without_faulty(state: ObservedState, decide: Callable[[ObservedState], T]) -> tuple[ObservedState, T]:
    """Return the result of `decide`, and the state it is of.

    Where it fails unexpectedly, the clusters that make it fail are unknown in the returned state, with the reason;
    they are among its `wakes_only` where that much can be decided. Clusters are added half by half to those that are
    decided without an error, so each one left out fails together with those that are kept. That takes about
    2 * log2(clusters) decisions for each faulty cluster, and one where there is none.

    Raises:
        ReconcilerError: what `decide` raises on purpose is about the whole run. Exception: it fails without any
        cluster, so none is to blame.
    """
    made: list[T] = []
    reason = _fault(lambda whole: made.append(decide(whole)), state)
    if not reason:
        return state, made[0]
    every = {*state.clusters, *state.wakes_only}
    decide(_part(state, (), (), dict.fromkeys(every, reason)))

    def whole_fault(names: Names) -> str:
        return _fault(decide, _part(state, names, (), dict.fromkeys(every - names, reason)))

    faulty: dict[str, str] = {}
    whole = _kept(sorted(state.clusters), whole_fault, faulty)
    why = {name: faulty.get(name) or state.unreachable.get(name, reason) for name in every - whole}

    def wakes_fault(names: Names) -> str:
        return _fault(decide, _part(state, whole, names, why))

    found = _part(state, whole, _kept(sorted(why), wakes_fault, {}), why)
    return found, decide(found)


def _kept(
    names: Sequence[str], fault: Callable[[Names], str], faulty: dict[str, str], kept: Names = frozenset()
) -> Names:
    """Return `kept` and those of `names` that can be decided with it; the others get their reason in `faulty`."""
    if not names:
        return kept
    reason = fault(kept.union(names))
    if not reason:
        return kept.union(names)
    if len(names) == 1:
        faulty[names[0]] = reason
        return kept
    middle = len(names) // 2
    return _kept(names[middle:], fault, faulty, _kept(names[:middle], fault, faulty, kept))


def _fault(decide: Callable[[ObservedState], T], state: ObservedState) -> str:
    """Return why `state` cannot be decided, "" where it can."""
    try:
        decide(state)
    except ReconcilerError:
        raise
    except Exception as error:  # noqa: BLE001 - the one place where what fails unexpectedly is traced to a cluster
        return reason_of(error)
    return ""


def _part(
    state: ObservedState, whole: Collection[str], wakes_only: Collection[str], why: Mapping[str, str]
) -> ObservedState:
    """Return `state` with only the clusters `whole`, and `wakes_only`; `why` says why the others are unknown."""
    observed = {**state.clusters, **state.wakes_only}
    return replace(
        state,
        clusters={name: found for name, found in state.clusters.items() if name in whole},
        wakes_only={name: found for name, found in observed.items() if name in wakes_only},
        unreachable={**state.unreachable, **why},
        answers={key: answer for key, answer in state.answers.items() if key.cluster not in why},
    )
