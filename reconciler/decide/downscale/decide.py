"""The changes that DownscalePolicies with a target make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from reconciler.decide.autoscalers import autoscalers_of
from reconciler.decide.decisions import (
    Cause,
    Decision,
    DesiredState,
    Notice,
    Overridden,
    Phase,
    PolicyExplanation,
    Undecided,
    Verb,
    group_name,
    replicas_change,
)
from reconciler.decide.downscale.guards import GUARDS
from reconciler.decide.downscale.targets import DownscaleInputs, Result, WorkloadTarget, target_replicas
from reconciler.decide.downscale.victim_choice import policies_by_workload, strategy_of
from reconciler.decide.reasons import CounterfactualCode, ReasonCode, Reasons, change_if, reason
from reconciler.decide.selectors import namespace_annotations, of_highest_priority
from reconciler.model import ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import DownscalePolicy, PolicySet

T = TypeVar("T")


def decide_downscale(
    policies: PolicySet, state: ObservedState, run: Run, claims: Mapping[ObjectRef, str]
) -> DesiredState:
    """Return the decisions of DownscalePolicies with a target; `claims` are the workloads of other policies, by policy.

    A policy that only observes does not compete: what it would change beside the others is told, never applied.
    """
    found: list[Result] = []
    observed: list[Result] = []
    for inputs in _inputs(policies, state, run, claims):
        selected = policies_by_workload(policies.downscale, inputs.cluster, inputs.observed)
        workloads = {workload.ref: workload for workload in inputs.observed.workloads if workload.ref in selected}
        for ref in sorted(selected):
            enforced = [policy for policy in selected[ref] if policy.mode == "Enforce"]
            found += _enforced(inputs, workloads[ref], enforced)
            for policy in selected[ref]:
                if policy.mode == "Observe":
                    observed += _considered(inputs, workloads[ref], policy)
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


def _enforced(inputs: DownscaleInputs, workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
    """Yield what the policies that compete for one workload come to."""
    deciding = of_highest_priority([policy for policy in policies if policy.target is not None])
    equal = next((group for group in (of_highest_priority(policies), deciding) if len(group) > 1), None)
    if equal is not None:
        yield from _undecidable(workload, equal)
        return
    for policy in policies:
        if policy.target is None or policy in deciding:
            yield from _considered(inputs, workload, policy)
            continue
        case = WorkloadTarget(inputs, workload, target_replicas(policy, inputs.cluster.name, inputs.state, inputs.run))
        why = reason(ReasonCode.OVERRIDDEN_BY, policy=deciding[0].name)
        if case.changes:
            yield case.overridden(deciding[0].name, why)
        above = change_if(CounterfactualCode.FIELD_IS, field="its priority", value=f"above {deciding[0].priority}")
        yield case.stays(why, counterfactual=above)


def _undecidable(workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
    names = [policy.name for policy in policies]
    why = reason(ReasonCode.SAME_PRIORITY, policies=names, priority=policies[0].priority)
    different = change_if(CounterfactualCode.DIFFERENT_PRIORITIES)
    yield Notice("equalPriorities", str(workload.ref), str(why), policies[0].name, True, (why,))
    for policy in policies:
        stays = f"stays at {workload.spec_replicas}"
        yield PolicyExplanation(workload.ref, "downscale", policy.name, stays, (why,), different)


def _considered(inputs: DownscaleInputs, workload: Workload, policy: DownscalePolicy) -> Iterator[Result]:
    """Yield what one policy makes of one workload."""
    if policy.target is None:
        outcome = f"victims by {strategy_of(policy)}"
        yield PolicyExplanation(workload.ref, "downscale", policy.name, outcome, (reason(ReasonCode.NO_TARGET),))
        return
    case = WorkloadTarget(inputs, workload, target_replicas(policy, inputs.cluster.name, inputs.state, inputs.run))
    for guard in GUARDS:
        held = list(guard(case))
        if held:
            yield from held
            return
    yield _decision(case)
    yield PolicyExplanation(workload.ref, "downscale", policy.name, f"{case.desired} replicas", case.wanted.reasons)


def _decision(case: WorkloadTarget) -> Decision:
    workload, ref = case.workload, case.ref
    down = case.desired < workload.spec_replicas
    return Decision(
        key=f"downscale/{ref}/{ref.group}",
        job="downscale",
        verb=Verb.SCALE,
        phase=Phase.DECREASE if down else Phase.INCREASE,
        ref=ref,
        api_version=workload.api_version,
        uid=workload.uid,
        changes=(replicas_change(workload.replicas, case.desired, workload.replicas_path),),
        cause=Cause(case.policy, str(case.wanted.policy.place), _reasons(case), case.wanted.values),
        group=group_name("downscale", ref),
        replicas_before=workload.spec_replicas,
        replicas_after=case.desired,
        has_annotations=workload.has_annotations,
        has_labels=workload.has_labels,
        event="ScaledDown" if down else "ScaledUp",
    )


def _reasons(case: WorkloadTarget) -> Reasons:
    if case.autoscaler is None or case.desired == case.wanted.replicas:
        return case.wanted.reasons
    return (*case.wanted.reasons, reason(ReasonCode.NOT_BELOW_HPA, autoscaler=case.autoscaler.ref.name))


def _desired(found: Sequence[Result]) -> DesiredState:
    return DesiredState(
        decisions=_of_type(found, Decision),
        undecided=_of_type(found, Undecided),
        overridden=_of_type(found, Overridden),
        notices=tuple(dict.fromkeys(_of_type(found, Notice))),
        explanations=_of_type(found, PolicyExplanation),
    )


def _of_type(found: Iterable[Result], kind: type[T]) -> tuple[T, ...]:
    return tuple(one for one in found if isinstance(one, kind))
