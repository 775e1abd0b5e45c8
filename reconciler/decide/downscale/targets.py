"""The changes that DownscalePolicies with a target make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

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
from reconciler.decide.change_codes import ChangeIfCode, Fact, all_known, change_if, fact, field_is, joint_change
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
from reconciler.decide.downscale.victim_choice import policies_by_workload, strategy_of
from reconciler.decide.freeze import restriction
from reconciler.decide.owners_and_rollouts import SettledWorkloads, replaces_replica_sets, rollout_of
from reconciler.decide.protected_namespaces import protection
from reconciler.decide.query_answers import value_in_answer
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason, text_of
from reconciler.decide.selectors import (
    Exclusion,
    equal_priorities,
    exclusions,
    key_of,
    left_out,
    namespace_annotations,
    namespace_labels,
    of_highest_priority,
)
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


_EqualPolicies = tuple[tuple[str, ...], ObjectRef]
"""The names of policies of the same, highest priority, and what they select."""

Result = Decision | Undecided | Overridden | Notice | PolicyExplanation | _EqualPolicies


class _DownscaleInputs(Struct, frozen=True):
    """One cluster, and everything that is looked at beside a workload in it."""

    fleet: Fleet
    cluster: FleetCluster
    observed: ObservedCluster
    state: ObservedState
    run: Run
    settled: SettledWorkloads
    placed: Mapping[ObjectRef, str]
    autoscalers: ClusterAutoscalers
    namespaces: Mapping[str, Mapping[str, str]]  # annotations by name
    space_labels: Mapping[str, Mapping[str, str]]  # of Namespaces, by name


class _WorkloadTarget(Struct, frozen=True):
    """One workload, and the target of one policy for it; `wanted` None: not known. `failed`: its query did."""

    inputs: _DownscaleInputs
    workload: Workload
    policy: DownscalePolicy
    wanted: int | None
    reasons: Reasons
    failed: bool = False

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

    @property
    def exclusions(self) -> list[Exclusion]:
        """The opt-outs on the workload and on its namespace."""
        ref, now, honors = self.ref, self.inputs.run.now, self.inputs.fleet.honors_kube_downscaler
        space = self.inputs.namespaces.get(ref.namespace, NOTHING)
        annotations = {str(ref): self.workload.annotations, f"{ref.cluster}/{ref.namespace}": space}
        found = ((on, exclusions(texts, now, kube_downscaler=honors)) for on, texts in annotations.items())
        return [replace(exclusion, on=on) for on, inside in found for exclusion in inside]

    @property
    def winner(self) -> str | None:
        """What decides its replicas in place of the policy: another policy, or an idle record; None for nothing."""
        settled = self.inputs.settled(self.ref)
        if settled is not None and (settled.state == "Asleep" or settled.is_decided):
            return settled.owner
        return self.inputs.placed.get(self.ref)

    def overridden(self, winner: str, why: Fact) -> Iterator[Result]:
        """Yield that the policy wants another number than `winner`, where it does."""
        if self.changes:
            desired = counted(self.desired, "replica")
            yield Overridden(self.ref, "downscale", self.policy.name, desired, winner, why.why)


def _workload_target(inputs: _DownscaleInputs, workload: Workload, policy: DownscalePolicy) -> _WorkloadTarget:
    """Return the replicas that `policy` asks for, within its minimum and maximum."""
    target = policy.target or DownscaleTarget()
    if target.query:
        answer = inputs.state.answers.get(QueryKey(inputs.cluster.name, policy.name, target.query, ""))
        value = value_in_answer(answer, inputs.run.now)
        if isinstance(value, Reason):
            unknown = (reason(ReasonCode.QUERY_UNKNOWN), value)
            return _WorkloadTarget(inputs, workload, policy, None, unknown, failed=bool(answer and answer.error))
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
    return _WorkloadTarget(inputs, workload, policy, wanted, reasons)


# What keeps a target from changing a workload, and what is said of that beside the explanation.


def _production(case: _WorkloadTarget) -> Fact | None:
    """A target counts in production only where its policy says so. What it would order goes on."""
    inputs, space = case.inputs, case.ref.namespace
    production, labels = inputs.fleet.production, inputs.space_labels.get(space)
    what = "" if case.policy.production else production.why(inputs.cluster, space, labels, case.workload.labels)
    return left_out(what, (case.policy.name,)) if what else None


def _restricted(case: _WorkloadTarget) -> Fact | None:
    return restriction(case.inputs.cluster, case.ref.namespace)


def _protected(case: _WorkloadTarget) -> Fact | None:
    return protection(case.inputs.fleet, case.ref.namespace)


def _unreadable(case: _WorkloadTarget) -> Fact | None:
    """Opt-outs and autoscalers that could not be read may be there."""
    unread = first_unread(case.inputs.observed, ("namespaces", *AUTOSCALER_LISTS))
    return fact(ReasonCode.LIST_UNREADABLE, list=f"{unread} of {case.ref.cluster}") if unread else None


def _excluded(case: _WorkloadTarget) -> Fact | None:
    found = case.exclusions
    if not found:
        return None
    ends = (change.of(exclusion.on) for exclusion in found if (change := exclusion.change_if) is not None)
    return Fact(found[0].why, joint_change(ChangeIfCode.ALL, ends))


def _claimed(case: _WorkloadTarget) -> Fact | None:
    winner = case.winner
    return None if winner is None else fact(ReasonCode.DECIDED_BY, policy=winner)


def _idled_by_others(case: _WorkloadTarget) -> Fact | None:
    settled = case.inputs.settled(case.ref)
    is_foreign = settled is not None and settled.state == "Foreign"
    return fact(ReasonCode.IDLE_RECORD, change_if(ChangeIfCode.WOKEN)) if is_foreign else None


def _being_deleted(case: _WorkloadTarget) -> Fact | None:
    return fact(ReasonCode.TERMINATING) if case.workload.terminating else None


def _autoscaled(case: _WorkloadTarget) -> Fact | None:
    name = shrunk_by(case.inputs.autoscalers, case.ref)
    lift = field_is("behavior.scaleDown.selectPolicy", "Disabled on its HorizontalPodAutoscaler")
    return None if name is None else fact(ReasonCode.AUTOSCALED, lift, autoscaler=name)


def _unknown(case: _WorkloadTarget) -> Fact | None:
    return Fact(case.reasons) if case.wanted is None else None


def _settled(case: _WorkloadTarget) -> Fact | None:
    if case.changes:
        return None
    if case.desired <= case.workload.spec_replicas:
        return Fact(case.reasons, change_if(ChangeIfCode.OTHER_TARGET, replicas=case.workload.spec_replicas))
    up = field_is("direction", "Both") if case.autoscaler is None else change_if(ChangeIfCode.HPA_SCALES_UP)
    return Fact((*case.reasons, reason(ReasonCode.ONLY_DOWN)), up)


def _in_rollout(case: _WorkloadTarget) -> Fact | None:
    is_under_way = case.desired < case.workload.spec_replicas and replaces_replica_sets(case.workload)
    return rollout_of(case.workload) if is_under_way else None


_Guard = Callable[[_WorkloadTarget], Fact | None]

_GUARDS: tuple[_Guard, ...] = (
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

_BARS = (_restricted, _protected, _excluded)
"""What keeps a change from a workload, and says nothing where its target changes nothing."""


def _beside(guard: _Guard, case: _WorkloadTarget, why: Fact) -> Iterator[Result]:
    """Yield what is said beside the explanation where `guard` finds `why`."""
    ref, name = str(case.ref), case.policy.name
    if guard in (_unreadable, _unknown, _in_rollout):
        yield Undecided(ref, "downscale", name, why.why)
    elif guard in (_claimed, _idled_by_others):
        yield from case.overridden(case.winner or "idling", why)
    elif guard is _autoscaled:
        yield Notice("autoscaler", ref, text_of(why.why), name, reasons=why.why)
    elif guard is _excluded and case.exclusions[0].unreadable:
        yield Notice("exclusion", case.exclusions[0].on, f"{why.why[0]}; it counts as excluded", name)
    if guard is _unknown and not case.failed:  # that is among what is unknown
        yield Notice("unknownQuery", case.ref.cluster, text_of(why.why), name, reasons=why.why)


def decide_downscale(
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    settled: SettledWorkloads,
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
        inputs = _DownscaleInputs(policies.fleet, cluster, observed, state, run, settled, placed, scalers, *spaces)
        for ref in sorted(selected):
            found += _enforced(inputs, workloads[ref], [policy for policy in selected[ref] if policy.mode == "Enforce"])
            for policy in selected[ref]:
                if policy.mode == "Observe":
                    watched += _considered(inputs, workloads[ref], policy)
    found += equal_priorities(_of_type(found, tuple), "changed")
    found += [explanation for explanation in watched if not isinstance(explanation, Decision | Notice)]
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


def _enforced(inputs: _DownscaleInputs, workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
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
        case = _workload_target(inputs, workload, policy)
        above = field_is("its priority", f"above {deciding[0].priority}")
        why = fact(ReasonCode.OVERRIDDEN_BY, above, policy=deciding[0].name)
        yield from case.overridden(deciding[0].name, why)
        yield _stays(workload, policy, why)


def _undecidable(workload: Workload, policies: Sequence[DownscalePolicy]) -> Iterator[Result]:
    names = tuple(policy.name for policy in policies)
    different = change_if(ChangeIfCode.DIFFERENT_PRIORITIES)
    why = fact(ReasonCode.SAME_PRIORITY, different, policies=names, priority=policies[0].priority)
    yield names, workload.ref
    yield from (_stays(workload, policy, why) for policy in policies)


def _stays(workload: Workload, policy: DownscalePolicy, why: Fact, *, selected: bool = True) -> PolicyExplanation:
    """Return that `workload` keeps its replicas."""
    outcome, name = f"stays at {workload.spec_replicas}", policy.name
    return PolicyExplanation(workload.ref, "downscale", name, outcome, why.why, why.change_if, selected=selected)


def _considered(inputs: _DownscaleInputs, workload: Workload, policy: DownscalePolicy) -> Iterator[Result]:
    """Yield what one policy makes of one workload."""
    if policy.target is None:
        outcome = f"victims by {strategy_of(policy)}"
        yield PolicyExplanation(workload.ref, "downscale", policy.name, outcome, (reason(ReasonCode.NO_TARGET),))
        return
    case = _workload_target(inputs, workload, policy)
    bars: list[Fact] = []
    for guard in _GUARDS:
        why = guard(case)
        if why is None:
            continue
        yield from _beside(guard, case, why)
        if guard in _BARS and case.wanted is not None and not case.changes:
            bars.append(why)
            continue
        why = replace(why, lift=all_known(one.change_if for one in (why, *bars)))
        yield _stays(workload, policy, why, selected=guard is not _production)
        return
    yield _decision(case)
    yield PolicyExplanation(workload.ref, "downscale", policy.name, counted(case.desired, "replica"), case.reasons)


def _decision(case: _WorkloadTarget) -> Decision:
    workload, ref, policy, reasons = case.workload, case.ref, case.policy, case.reasons
    values = {name: value for why in reasons for name, value in why.values.items()}
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
        cause=Cause(policy.name, str(policy.place), reasons, values, policy.tenant),
        group=group_name("downscale", ref),
        replicas_before=workload.spec_replicas,
        replicas_after=case.desired,
        has_annotations=workload.has_annotations,
        has_labels=workload.has_labels,
        event="ScaledDown" if down else "ScaledUp",
    )


def _of_type(found: Iterable[Result], kind: type[T]) -> tuple[T, ...]:
    return tuple(result for result in found if isinstance(result, kind))
