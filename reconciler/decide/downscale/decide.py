"""DownscalePolicies with a target: what they change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from reconciler.decide.autoscalers import autoscalers_of
from reconciler.decide.decisions import (
    Cause,
    Considered,
    Decision,
    DesiredState,
    Notice,
    Overridden,
    Phase,
    Undecided,
    Verb,
    replicas_change,
)
from reconciler.decide.downscale.choice import policies_by_workload, strategy_of
from reconciler.decide.downscale.guards import GUARDS
from reconciler.decide.downscale.targets import DownscaleInputs, Result, WorkloadTarget, target_replicas
from reconciler.decide.selectors import namespace_annotations, of_highest_priority
from reconciler.model import ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import DownscalePolicy, PolicySet

T = TypeVar("T")


def decide_downscale(
    policies: PolicySet, state: ObservedState, run: Run, claims: Mapping[ObjectRef, str]
) -> DesiredState:
    """Return what DownscalePolicies with a target change; `claims` are the workloads that others decide, by policy.

    A policy that only observes does not compete: what it would change beside the others is told, never applied.
    """
    found: list[Result] = []
    observed: list[Result] = []
    for scene in _inputs(policies, state, run, claims):
        selected = policies_by_workload(policies.downscale, scene.cluster, scene.observed)
        workloads = {workload.ref: workload for workload in scene.observed.workloads if workload.ref in selected}
        for ref in sorted(selected):
            enforced = [policy for policy in selected[ref] if policy.mode == "Enforce"]
            found += _enforced(scene, workloads[ref], enforced)
            for policy in selected[ref]:
                if policy.mode == "Observe":
                    observed += _considered(scene, workloads[ref], policy)
    beside = [one for one in observed if not isinstance(one, Decision | Notice)]
    return replace(_desired([*found, *beside]), observed=_of_type(observed, Decision))


def _inputs(
    policies: PolicySet, state: ObservedState, run: Run, claims: Mapping[ObjectRef, str]
) -> Iterator[DownscaleInputs]:
    for cluster in sorted(policies.fleet.clusters, key=lambda cluster: cluster.name):
        observed = state.clusters.get(cluster.name)
        if observed is not None and policies.downscale:
            yield DownscaleInputs(
                fleet=policies.fleet,
                cluster=cluster,
                observed=observed,
                state=state,
                run=run,
                claims=claims,
                autoscalers=autoscalers_of(observed),
                namespaces=namespace_annotations(observed),
            )


def _enforced(scene: DownscaleInputs, workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
    """Yield what the policies that compete for one workload come to."""
    deciding = of_highest_priority([policy for policy in policies if policy.target is not None])
    equal = next((group for group in (of_highest_priority(policies), deciding) if len(group) > 1), None)
    if equal is not None:
        yield from _undecidable(workload, equal)
        return
    for policy in policies:
        if policy.target is None or policy in deciding:
            yield from _considered(scene, workload, policy)
            continue
        case = WorkloadTarget(scene, workload, target_replicas(policy, scene.cluster.name, scene.state, scene.run))
        why = f"{deciding[0].name} has the higher priority"
        if case.changes:
            yield case.overridden(deciding[0].name, why)
        yield case.stays(why, f"a priority above {deciding[0].priority}")


def _undecidable(workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
    names = " and ".join(policy.name for policy in policies)
    why = f"{names} have the same priority {policies[0].priority}, expected different ones; nothing is decided"
    yield Notice("equalPriorities", str(workload.ref), why, policies[0].name, partial=True)
    for policy in policies:
        stays = f"stays at {workload.wanted}"
        yield Considered(workload.ref, "downscale", policy.name, stays, why, "different priorities")


def _considered(scene: DownscaleInputs, workload: Workload, policy: DownscalePolicy) -> Iterator[Result]:
    """Yield what one policy makes of one workload."""
    if policy.target is None:
        outcome = f"victims by {strategy_of(policy)}"
        yield Considered(workload.ref, "downscale", policy.name, outcome, "the policy has no target, others decide")
        return
    case = WorkloadTarget(scene, workload, target_replicas(policy, scene.cluster.name, scene.state, scene.run))
    for guard in GUARDS:
        held = list(guard(case))
        if held:
            yield from held
            return
    yield _decision(case)
    yield Considered(workload.ref, "downscale", policy.name, f"{case.wanted} replicas", case.wish.why)


def _decision(case: WorkloadTarget) -> Decision:
    workload, ref = case.workload, case.ref
    down = case.wanted < workload.wanted
    return Decision(
        key=f"downscale/{ref}/{ref.group}",
        job="downscale",
        verb=Verb.SCALE,
        phase=Phase.DECREASE if down else Phase.INCREASE,
        ref=ref,
        api_version=workload.api_version,
        uid=workload.uid,
        changes=(replicas_change(workload.replicas, case.wanted, workload.replicas_path),),
        cause=Cause(case.policy, str(case.wish.policy.place), _why(case), case.wish.values),
        group=group_name(ref),
        replicas_before=workload.wanted,
        replicas_after=case.wanted,
        has_annotations=workload.has_annotations,
        has_labels=workload.has_labels,
        event="ScaledDown" if down else "ScaledUp",
    )


def _why(case: WorkloadTarget) -> str:
    if case.autoscaler is None or case.wanted == case.wish.replicas:
        return case.wish.why
    return f"{case.wish.why}, not below minReplicas of {case.autoscaler.ref.name}"


def group_name(ref: ObjectRef) -> str:
    """Return the group of what downscale does to one workload."""
    return f"downscale/{ref.cluster}/{ref.namespace}/{ref.kind}/{ref.name}"


def _desired(found: Sequence[Result]) -> DesiredState:
    return DesiredState(
        decisions=_of_type(found, Decision),
        undecided=_of_type(found, Undecided),
        overridden=_of_type(found, Overridden),
        notices=tuple(dict.fromkeys(_of_type(found, Notice))),
        considered=_of_type(found, Considered),
    )


def _of_type(found: Iterable[Result], kind: type[T]) -> tuple[T, ...]:
    return tuple(one for one in found if isinstance(one, kind))
