"""The three jobs joined: idling wins over placement, placement over a downscale target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reconciler.decide.downscale.forecast import with_victims
from reconciler.decide.downscale.recovery import decide_recovery
from reconciler.decide.downscale.targets import decide_downscale
from reconciler.decide.idling.decide import IdlingOutcome, decide_idling
from reconciler.decide.idling.marks import PREVIOUS_SCALE
from reconciler.decide.membership import local_key
from reconciler.decide.placement.decide import decide_placement
from reconciler.decide.types import Decision, DesiredState
from reconciler.model import ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import PolicySet


def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    """Return what should be. Where `questions` are left, it is final only once they are answered in `state`."""
    idling = decide_idling(policies, state, run)
    placement = _placed(policies, state, run, idling)
    claims = {**placed_workloads(policies), **idling.claims}
    downscale = decide_downscale(policies, state, run, claims)
    recovery = decide_recovery(policies.fleet, state, run)
    joined = recovery.joined(idling.desired, placement, downscale)
    return _with_forecasts(joined, policies, state, run)


def _placed(policies: PolicySet, state: ObservedState, run: Run, idling: IdlingOutcome) -> DesiredState:
    """Return what placement does once idling has done its part, so that what it notes down is true after the run.

    What idling writes in this run is left to it alone.
    """
    written = {decision.ref for decision in idling.desired.decisions}
    after = after_writes(state, idling.desired.decisions)
    asleep = {ref: name for ref, name in idling.claims.items() if ref not in written or _is_idle(after, ref)}
    placement = decide_placement(policies, after, run, asleep)
    return replace(placement, decisions=tuple(one for one in placement.decisions if one.ref not in written))


def _is_idle(state: ObservedState, ref: ObjectRef) -> bool:
    cluster = state.clusters.get(ref.cluster)
    found = [workload for workload in (cluster.workloads if cluster else ()) if workload.ref == ref]
    return any(PREVIOUS_SCALE in workload.annotations for workload in found)


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
    annotations = dict(workload.annotations)
    for change in decision.changes:
        if change.path[:-1] == ("metadata", "annotations"):
            annotations.pop(change.path[-1], None)
            annotations |= {} if change.after is None else {change.path[-1]: change.after}
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


def placed_workloads(policies: PolicySet) -> dict[ObjectRef, str]:
    """Return the policy's name for every workload that placement decides, on every cluster of the Fleet."""
    found: dict[ObjectRef, str] = {}
    for federated in policies.federated:
        namespace, kind, name = local_key(federated)
        group = "apps" if federated.target is None else federated.target.api_version.rpartition("/")[0]
        for cluster in policies.fleet.clusters:
            found[ObjectRef(cluster.name, namespace, kind, name, group)] = federated.name
    return found


def _with_forecasts(desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    decisions, questions, notices = with_victims(desired.decisions, policies, state, run)
    return replace(
        desired,
        decisions=decisions,
        questions=tuple(sorted({*desired.questions, *questions})),
        notices=desired.notices + notices,
    )
