"""Placement of one federated ReplicaSet on every cluster of the Fleet: its decisions, and its status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from reconciler.decide.annotations import Key, format_time
from reconciler.decide.change_codes import fact, field_is
from reconciler.decide.decisions import Cause, Decision, DesiredState, PolicyExplanation, Undecided, Verb
from reconciler.decide.placement.cluster_eligibility import local_workload
from reconciler.decide.placement.desired_replicas import PlacementResult, placement_result
from reconciler.decide.placement.explanations import (
    cluster_statuses,
    notices,
    overridden,
    placement_explanations,
    placement_view,
    with_reasons,
)
from reconciler.decide.placement.home_config_maps import MEMORY, UNREACHABLE, ConfigMapContent, config_map_written
from reconciler.decide.placement.local_replica_sets import form_of
from reconciler.decide.placement.ownership import is_about
from reconciler.decide.placement.placement_inputs import (
    ClusterPlacement,
    LocalWorkload,
    PlacementCase,
    PlacementInputs,
    production_of,
)
from reconciler.decide.placement.recorded_status import read_status, rejection_key, status_name, status_text
from reconciler.decide.placement.writes import asleep_writes, local_writes
from reconciler.decide.protected_namespaces import protection
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.selectors import left_out, local_ref
from reconciler.policy.types import FederatedReplicaSet


def decide_one(federated: FederatedReplicaSet, inputs: PlacementInputs) -> DesiredState:
    """Return the decisions and the status of one federated ReplicaSet."""
    if (protected := protection(inputs.fleet, federated.namespace)) is not None:
        return DesiredState(undecided=(Undecided(federated.key, "placement", federated.name, protected.why),))
    about = tuple(placement for placement in inputs.placements if _is_about(federated, placement, inputs))
    unnamed = () if len(about) == len(inputs.placements) else tuple(_not_named(federated, inputs, about))
    status = read_status(inputs.home.newest.get(status_name(federated.key)))
    case = PlacementCase(federated, replace(inputs, placements=about), status)
    locals_ = [local_workload(case, placement) for placement in about]
    if federated.paused:
        return _paused(case, locals_)
    questions = tuple(sorted(local.question for local in locals_ if local.question is not None))
    if questions:
        return DesiredState(questions=questions)
    if _is_idle(locals_):
        locals_ = [_left_idle(local) for local in locals_]
    result, asleep, awake = _decided(case, locals_)
    decisions = (*asleep, *awake)
    refused = {local.ref for local in locals_ if local.rejection is not None}
    # What was refused before may be refused again; the status says what is there, and why, all the same.
    needs = tuple(decision.key for decision in decisions if decision.ref not in refused)
    needs += tuple(key for local in locals_ if (left := inputs.settled(local.ref)) is not None for key in left.needs)
    decisions += _refusals_cleared(result, decisions)
    decisions += _status(result, needs)
    return DesiredState(
        decisions=decisions,
        undecided=tuple(local.problem for local in locals_ if isinstance(local.problem, Undecided)),
        overridden=tuple(overridden(result)),
        notices=tuple(notices(result)),
        explanations=(*placement_explanations(result), *unnamed),
        placements=(placement_view(result),),
    )


def _decided(
    case: PlacementCase, locals_: Sequence[LocalWorkload]
) -> tuple[PlacementResult, tuple[Decision, ...], tuple[Decision, ...]]:
    """Return the result, and the writes to what is asleep and to what is awake.

    What may not be changed in this run keeps what it has, and the others share the rest: that is decided once more.
    """
    result = with_reasons(placement_result(case, locals_))
    form = form_of(case.federated, case.inputs.fleet)
    asleep, awake = asleep_writes(result, form), local_writes(result, form)
    held = dict(_lowered_production(result)) or dict(_woken(result, asleep, awake))
    if not held:
        return result, asleep, awake
    return _decided(case, [held.get(local.cluster, local) for local in locals_])


def _lowered_production(result: PlacementResult) -> Iterator[tuple[str, LocalWorkload]]:
    """Yield, held, what `targetRef` would take running replicas away from in production that the policy leaves out."""
    federated = result.federated
    placements = {placement.name: placement for placement in result.case.inputs.placements}
    for local in result.placed if federated.target is not None else ():
        if result.target[local.cluster] < local.pods.current:
            what = production_of(result.case, placements[local.cluster], local.workload)
            if what:
                why = left_out(what, (federated.name,), (federated.key,))
                yield local.cluster, replace(local, part="held", why=why, left_out=True)


def _woken(
    result: PlacementResult, asleep: Sequence[Decision], awake: Sequence[Decision]
) -> Iterator[tuple[str, LocalWorkload]]:
    """Yield, held, what idling wakes in this run and a decision of ours is about too: of two decisions on one object
    the second finds what it does not expect. What is made anew `asleep` is not woken in this run.
    """
    changed = {decision.ref for decision in awake} - {one.ref for one in asleep if one.verb is Verb.DELETE}
    for local in result.placed:
        if local.ref in changed and local.settled is not None and local.settled.needs:
            why = fact(ReasonCode.CHANGED_BY_IDLING, policy=local.settled.owner)
            yield local.cluster, replace(local, part="held", capacity=None, why=why, for_now=True)


def _not_named(
    federated: FederatedReplicaSet, inputs: PlacementInputs, about: Sequence[ClusterPlacement]
) -> Iterator[PolicyExplanation]:
    """Yield that what others made stays as it is in clusters that it is not `about`, which no preference names."""
    named = {placement.name for placement in about}
    for placement in inputs.placements:
        ref = local_ref(federated, placement.name)
        if placement.name not in named and ref in placement.workloads and federated.is_within(placement.name):
            why = reason(ReasonCode.NOT_NAMED, cluster=placement.name)
            lift = field_is("preferences.clusters", f"with {placement.name}")
            yield PolicyExplanation(ref, "placement", federated.key, "left as it is", (why,), lift)


def _is_about(federated: FederatedReplicaSet, placement: ClusterPlacement, inputs: PlacementInputs) -> bool:
    workload = placement.workloads.get(local_ref(federated, placement.name))
    return is_about(federated, placement.name, workload, inputs.ours)


def _is_idle(locals_: Sequence[LocalWorkload]) -> bool:
    """Return whether all there is of a federated ReplicaSet is idle: then nothing of it is made anywhere else.

    A cluster that does not answer has a say only if it was idle.
    """
    existing = [local for local in locals_ if local.idle_by or (local.workload is not None and local.part != "out")]
    return bool(existing) and all(local.idle_by for local in existing)


def _left_idle(local: LocalWorkload) -> LocalWorkload:
    """Return `local` as it takes part while the federated ReplicaSet is idle: nothing is made there."""
    if local.part == "placed":
        return replace(local, part="held", why=fact(ReasonCode.IDLE))
    if local.part == "out" and local.idle_by:
        return replace(local, part="held", why=fact(ReasonCode.UNREACHABLE_IDLE, policy=local.idle_by))
    return local


def _paused(case: PlacementCase, locals_: Sequence[LocalWorkload]) -> DesiredState:
    """Status only: everything is left as it is."""
    paused = fact(ReasonCode.PAUSED)
    held = [
        replace(local, part="held", why=paused if local.problem is None else local.why)
        if local.part == "placed"
        else local
        for local in locals_
    ]
    resumed = field_is("paused", "false")
    result = with_reasons(placement_result(case, held))
    return DesiredState(
        decisions=_status(result, ()),
        explanations=tuple(
            PolicyExplanation(local.ref, "placement", case.federated.key, "left alone", local.reasons, resumed)
            for local in held
        ),
        placements=(placement_view(result),),
    )


def _status(result: PlacementResult, needs: tuple[str, ...]) -> tuple[Decision, ...]:
    """Return the decision that writes the status, once everything else is done; () where it says so already."""
    case, federated = result.case, result.federated
    home, now = case.inputs.home, case.inputs.run.now
    if not home.cluster:
        return ()
    text = status_text(federated.replicas, cluster_statuses(result), case.status, format_time(now))
    content = ConfigMapContent(
        home.ref(status_name(federated.key)), annotations={Key.OWNER: case.owner, Key.STATUS: text}
    )
    cause = Cause(federated.name, str(federated.place), (reason(ReasonCode.STATUS),))
    return home.written(content, now, case.group, cause, needs)


def _refusals_cleared(result: PlacementResult, decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions that remove recorded refusals: once the write succeeded, or is not needed any more."""
    home = result.case.inputs.home
    kept = home.own.get(MEMORY)
    if kept is None or not home.is_current(MEMORY):
        return ()  # what is not current is written whole in this run
    found: list[Decision] = []
    for local in result.placed:
        if local.rejection is None or local.limit == "refused":
            continue
        # The last key stays, empty, as there is no patch that adds to absent data.
        removed = None if UNREACHABLE in kept.data else "{}"
        content = ConfigMapContent(kept.ref, data={rejection_key(local.ref): removed})
        needs = tuple(decision.key for decision in decisions if decision.ref == local.ref)
        why = reason(ReasonCode.NO_LONGER_REFUSED, object=str(local.ref))
        cause = Cause(result.federated.name, str(result.federated.place), (why,))
        found += config_map_written(content, kept, result.case.group, cause, needs)
    return tuple(found)
