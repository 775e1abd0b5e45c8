"""The changes that DownscalePolicies with a target make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.autoscalers import (
    AUTOSCALER_LISTS,
    Bounds,
    ClusterAutoscalers,
    autoscalers_of,
    first_unread,
    shrunk_by,
)
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, change_if, field_is, joint_change
from reconciler.decide.decisions import (
    UNKNOWN_QUERY,
    Cause,
    Decision,
    DesiredState,
    Notice,
    Overridden,
    Phase,
    PolicyExplanation,
    Undecided,
    Verb,
    equal_priorities,
    group_name,
    replicas_change,
)
from reconciler.decide.downscale.victim_choice import policies_by_workload, strategy_of
from reconciler.decide.freeze import change_if_restricted, restriction
from reconciler.decide.query_answers import value_in_answer
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason, text_of
from reconciler.decide.selectors import (
    exclusions,
    key_of,
    left_out,
    named_by,
    namespace_annotations,
    namespace_labels,
    of_highest_priority,
)
from reconciler.decide.workloads import Settled, replaces_replica_sets
from reconciler.messages import counted
from reconciler.model import (
    NOTHING,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    QueryKey,
    Run,
    Workload,
)
from reconciler.policy.types import DownscalePolicy, DownscaleTarget, Fleet, FleetCluster, PolicySet

T = TypeVar("T")

# What a policy asks for, of one workload.


Result = Decision | Undecided | Overridden | Notice | PolicyExplanation


class DownscaleInputs(Struct, frozen=True):
    """One cluster, and everything that is looked at beside a workload in it."""

    fleet: Fleet
    cluster: FleetCluster
    observed: ObservedCluster
    state: ObservedState
    run: Run
    settled: Mapping[ObjectRef, Settled]
    placed: Mapping[ObjectRef, str]
    autoscalers: ClusterAutoscalers
    namespaces: Mapping[str, Mapping[str, str]]  # annotations by name
    space_labels: Mapping[str, Mapping[str, str]]  # of Namespaces, by name


class WorkloadTarget(Struct, frozen=True):
    """One workload, and the target of one policy for it; `wanted` None: not known. `values` are what it depends on."""

    inputs: DownscaleInputs
    workload: Workload
    policy: DownscalePolicy
    wanted: int | None
    reasons: Reasons
    values: Mapping[str, Any] = NOTHING

    @property
    def ref(self) -> ObjectRef:
        return self.workload.ref

    @property
    def autoscaler(self) -> HorizontalPodAutoscaler | None:
        """The HorizontalPodAutoscaler that leaves scaling down to us, None where none does, or another one does not."""
        autoscalers = self.inputs.autoscalers
        return None if shrunk_by(autoscalers, self.ref) else autoscalers.horizontal.get(key_of(self.ref))

    @property
    def desired(self) -> int:
        """The desired replicas, not below the minimum of an autoscaler; the current ones where none are known."""
        if self.wanted is None:
            return self.workload.spec_replicas
        least = 0 if self.autoscaler is None else Bounds(self.autoscaler.minimum, self.autoscaler.maximum).least
        return max(self.wanted, least)

    @property
    def changes(self) -> bool:
        """Whether the wish differs from what is there, in a direction that the policy takes."""
        if self.desired > self.workload.spec_replicas:
            target = self.policy.target
            return target is not None and target.direction == "Both" and self.autoscaler is None
        return self.desired < self.workload.spec_replicas

    def stays(self, *reasons: Reason, change_if: ChangeIf | None = None) -> PolicyExplanation:
        """Return that the workload keeps its replicas because of `reasons`."""
        outcome = f"stays at {self.workload.spec_replicas}"
        return PolicyExplanation(self.ref, "downscale", self.policy.name, outcome, reasons, change_if)

    def undecided(self, *reasons: Reason) -> Undecided:
        return Undecided(str(self.ref), "downscale", self.policy.name, reasons)

    def overridden(self, winner: str, why: Reason) -> Overridden:
        return Overridden(self.ref, "downscale", self.policy.name, counted(self.desired, "replica"), winner, (why,))


def workload_target(inputs: DownscaleInputs, workload: Workload, policy: DownscalePolicy) -> WorkloadTarget:
    """Return the replicas that `policy` asks for, within its minimum and maximum."""
    target = policy.target or DownscaleTarget()
    if target.query:
        answer = inputs.state.answers.get(QueryKey(inputs.cluster.name, policy.name, target.query, ""))
        value = value_in_answer(answer, inputs.run.now)
        if isinstance(value, Reason):
            return WorkloadTarget(inputs, workload, policy, None, (reason(ReasonCode.QUERY_UNKNOWN), value))
        wanted, why = math.ceil(value), reason(ReasonCode.QUERY, value=value)
    else:
        wanted = target.replicas or 0
        why = reason(ReasonCode.TARGET, replicas=wanted)
    reasons: Reasons = (why,)
    if wanted < target.minimum:
        wanted = target.minimum
        reasons = (why, reason(ReasonCode.AT_LEAST, min=wanted))
    elif target.maximum is not None and wanted > target.maximum:
        wanted = target.maximum
        reasons = (why, reason(ReasonCode.AT_MOST, max=wanted))
    values = {name: value for why in reasons for name, value in why.values.items()}
    return WorkloadTarget(inputs, workload, policy, wanted, reasons, values)


# The checks that keep a target from changing a workload, one after the other.

_Guard = Callable[[WorkloadTarget], Iterator[Result]]


def _restricted(case: WorkloadTarget) -> Iterator[Result]:
    why = restriction(case.inputs.cluster, case.ref.namespace)
    if why is not None:
        yield case.stays(why, change_if=change_if_restricted(case.inputs.cluster))


def _protected(case: WorkloadTarget) -> Iterator[Result]:
    if case.ref.namespace in case.inputs.fleet.protected:
        yield case.stays(reason(ReasonCode.NAMESPACE_PROTECTED, namespace=case.ref.namespace))


def _production(case: WorkloadTarget) -> Iterator[Result]:
    """A target counts in production only where its policy says so. What it would order goes on."""
    inputs, space = case.inputs, case.ref.namespace
    production, labels = inputs.fleet.production, inputs.space_labels.get(space)
    what = "" if case.policy.production else production.why(inputs.cluster, space, labels, case.workload.labels)
    if what:
        stays = case.stays(left_out(what, (case.policy.name,)), change_if=named_by((case.policy.name,)))
        yield replace(stays, selected=False)


def _unreadable(case: WorkloadTarget) -> Iterator[Result]:
    """Opt-outs and autoscalers that could not be read may be there."""
    unread = first_unread(case.inputs.observed, ("namespaces", *AUTOSCALER_LISTS))
    if unread:
        why = reason(ReasonCode.LIST_UNREADABLE, list=f"{unread} of {case.ref.cluster}")
        yield case.undecided(why)
        yield case.stays(why)


def _excluded(case: WorkloadTarget) -> Iterator[Result]:
    space = f"{case.ref.cluster}/{case.ref.namespace}"
    annotations = {str(case.ref): case.workload.annotations, space: case.inputs.namespaces.get(case.ref.namespace, {})}
    now, honors = case.inputs.run.now, case.inputs.fleet.honors_kube_downscaler
    found = [
        (on, exclusion)
        for on, inside in annotations.items()
        for exclusion in exclusions(inside, now, kube_downscaler=honors)
    ]
    if not found:
        return
    on, first = found[0]
    if first.unreadable:
        yield Notice("exclusion", on, f"{first.reason}; it counts as excluded", case.policy.name)
    ends = (exclusion.change_if.of(on) for on, exclusion in found if exclusion.change_if is not None)
    yield case.stays(first.reason, change_if=joint_change(ChangeIfCode.ALL, ends))


def _claimed(case: WorkloadTarget) -> Iterator[Result]:
    settled = case.inputs.settled.get(case.ref)
    idling = settled is not None and (settled.state == "Asleep" or settled.is_decided)
    winner = settled.owner if settled is not None and idling else case.inputs.placed.get(case.ref)
    if winner is None:
        return
    why = reason(ReasonCode.DECIDED_BY, policy=winner)
    if case.changes:
        yield case.overridden(winner, why)
    yield case.stays(why)


def _idled_by_others(case: WorkloadTarget) -> Iterator[Result]:
    settled = case.inputs.settled.get(case.ref)
    if settled is not None and settled.state == "Foreign":
        why = reason(ReasonCode.IDLE_RECORD)
        if case.changes:
            yield case.overridden("idling", why)
        yield case.stays(why, change_if=change_if(ChangeIfCode.WOKEN))


def _being_deleted(case: WorkloadTarget) -> Iterator[Result]:
    if case.workload.terminating:
        yield case.stays(reason(ReasonCode.TERMINATING))


def _autoscaled(case: WorkloadTarget) -> Iterator[Result]:
    name = shrunk_by(case.inputs.autoscalers, case.ref)
    if name is not None:
        why = reason(ReasonCode.AUTOSCALED, autoscaler=name)
        field, value = "behavior.scaleDown.selectPolicy", "Disabled on its HorizontalPodAutoscaler"
        yield Notice("autoscaler", str(case.ref), str(why), case.policy.name, reasons=(why,))
        yield case.stays(why, change_if=field_is(field, value))


def _unknown(case: WorkloadTarget) -> Iterator[Result]:
    if case.wanted is None:
        reasons = case.reasons
        yield case.undecided(*reasons)
        if all(why.code is not ReasonCode.QUERY_FAILED for why in reasons):  # that is among what is unknown
            yield Notice(UNKNOWN_QUERY, case.ref.cluster, text_of(reasons), case.policy.name, reasons=reasons)
        yield case.stays(*reasons)


def _settled(case: WorkloadTarget) -> Iterator[Result]:
    if case.changes:
        return
    if case.desired > case.workload.spec_replicas:
        up = field_is("direction", "Both")
        if case.autoscaler is not None:
            up = change_if(ChangeIfCode.HPA_SCALES_UP)
        yield case.stays(*case.reasons, reason(ReasonCode.ONLY_DOWN), change_if=up)
    else:
        other = change_if(ChangeIfCode.OTHER_TARGET, replicas=case.workload.spec_replicas)
        yield case.stays(*case.reasons, change_if=other)


def _in_rollout(case: WorkloadTarget) -> Iterator[Result]:
    if case.desired < case.workload.spec_replicas and replaces_replica_sets(case.workload):
        why = reason(ReasonCode.ROLLOUT_IN_PROGRESS)
        yield case.undecided(why)
        yield case.stays(why, change_if=change_if(ChangeIfCode.ROLLOUT_ENDS))


GUARDS: tuple[_Guard, ...] = (
    _production,  # whether a policy selects it at all
    _restricted,
    _protected,
    _unreadable,
    _excluded,
    _claimed,
    _idled_by_others,
    _being_deleted,
    _autoscaled,
    _unknown,
    _settled,
    _in_rollout,
)
"""In this order; the first that finds something ends the matter."""


def decide_downscale(
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    settled: Mapping[ObjectRef, Settled],
    placed: Mapping[ObjectRef, str],
) -> DesiredState:
    """Return the decisions of DownscalePolicies with a target.

    `settled` is what idling leaves, `placed` what placement decides, with the policy's name.

    A policy that only observes does not compete: what it would change beside the others is reported, never applied.
    """
    found: list[Result] = []
    watched: list[Result] = []
    for cluster in sorted(policies.fleet.clusters, key=lambda cluster: cluster.name):
        observed = state.clusters.get(cluster.name)
        if observed is None or not policies.downscale:
            continue
        selected = policies_by_workload(policies.downscale, cluster, observed)
        workloads = {workload.ref: workload for workload in observed.workloads if workload.ref in selected}
        spaces = namespace_annotations(observed), namespace_labels(observed)
        scalers = autoscalers_of(observed)
        inputs = DownscaleInputs(policies.fleet, cluster, observed, state, run, settled, placed, scalers, *spaces)
        for ref in sorted(selected):
            found += _enforced(inputs, workloads[ref], [policy for policy in selected[ref] if policy.mode == "Enforce"])
            for policy in selected[ref]:
                if policy.mode == "Observe":
                    watched += _considered(inputs, workloads[ref], policy)
    found += [
        *_undecided_by_equals(found),
        *(explanation for explanation in watched if not isinstance(explanation, Decision | Notice)),
    ]
    return DesiredState(
        decisions=_of_type(found, Decision),
        undecided=_of_type(found, Undecided),
        overridden=_of_type(found, Overridden),
        notices=tuple(dict.fromkeys(_of_type(found, Notice))),
        explanations=_of_type(found, PolicyExplanation),
        observed=tuple(
            replace(decision, key=f"observed/{decision.policy}/{decision.key}")
            for decision in _of_type(watched, Decision)
        ),
    )


def _undecided_by_equals(found: Iterable[Result]) -> Iterator[Notice]:
    """Yield for each set of policies of equal priority what they select together."""
    explained = (explanation for explanation in found if isinstance(explanation, PolicyExplanation))
    reasons = ((explanation.reasons[0], explanation.ref) for explanation in explained if explanation.reasons)
    equal = ((why.values["policies"], ref) for why, ref in reasons if why.code is ReasonCode.SAME_PRIORITY)
    return equal_priorities(equal, "changed")


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
        case = workload_target(inputs, workload, policy)
        why = reason(ReasonCode.OVERRIDDEN_BY, policy=deciding[0].name)
        if case.changes:
            yield case.overridden(deciding[0].name, why)
        above = field_is("its priority", f"above {deciding[0].priority}")
        yield case.stays(why, change_if=above)


def _undecidable(workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
    names = [policy.name for policy in policies]
    why = reason(ReasonCode.SAME_PRIORITY, policies=names, priority=policies[0].priority)
    different = change_if(ChangeIfCode.DIFFERENT_PRIORITIES)
    for policy in policies:
        stays = f"stays at {workload.spec_replicas}"
        yield PolicyExplanation(workload.ref, "downscale", policy.name, stays, (why,), different)


def _considered(inputs: DownscaleInputs, workload: Workload, policy: DownscalePolicy) -> Iterator[Result]:
    """Yield what one policy makes of one workload."""
    if policy.target is None:
        outcome = f"victims by {strategy_of(policy)}"
        yield PolicyExplanation(workload.ref, "downscale", policy.name, outcome, (reason(ReasonCode.NO_TARGET),))
        return
    case = workload_target(inputs, workload, policy)
    for guard in GUARDS:
        held = list(guard(case))
        if held:
            yield from held
            return
    yield _decision(case)
    yield PolicyExplanation(workload.ref, "downscale", policy.name, counted(case.desired, "replica"), case.reasons)


def _decision(case: WorkloadTarget) -> Decision:
    workload, ref, policy, reasons = case.workload, case.ref, case.policy, case.reasons
    if case.autoscaler is not None and case.desired != case.wanted:
        reasons = (*reasons, reason(ReasonCode.NOT_BELOW_HPA, autoscaler=case.autoscaler.ref.name))
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
        cause=Cause(policy.name, str(policy.place), reasons, case.values, policy.tenant),
        group=group_name("downscale", ref),
        replicas_before=workload.spec_replicas,
        replicas_after=case.desired,
        has_annotations=workload.has_annotations,
        has_labels=workload.has_labels,
        event="ScaledDown" if down else "ScaledUp",
    )


def _of_type(found: Iterable[Result], kind: type[T]) -> tuple[T, ...]:
    return tuple(result for result in found if isinstance(result, kind))
