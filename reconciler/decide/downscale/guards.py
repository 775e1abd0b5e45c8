"""The checks that keep a DownscalePolicy's target from changing a workload, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reconciler.decide.annotations import IDLED_AT, IDLED_TO, OPENSHIFT_PREVIOUS_SCALE, PREVIOUS_SCALE
from reconciler.decide.decisions import Notice
from reconciler.decide.downscale.targets import Result, WorkloadTarget
from reconciler.decide.freeze import lifted, restriction
from reconciler.decide.reasons import CounterfactualCode, ReasonCode, change_if, reason, text_of
from reconciler.decide.selectors import exclusion
from reconciler.decide.workloads import replaces_replica_sets
from reconciler.untrusted_text import whole_number_in

_Guard = Callable[[WorkloadTarget], Iterator[Result]]


def _restricted(case: WorkloadTarget) -> Iterator[Result]:
    why = restriction(case.inputs.cluster, case.ref.namespace)
    if why is not None:
        yield case.stays(why, counterfactual=lifted(case.inputs.cluster))


def _protected(case: WorkloadTarget) -> Iterator[Result]:
    if case.ref.namespace in case.inputs.fleet.protected:
        yield case.stays(reason(ReasonCode.NAMESPACE_PROTECTED, namespace=case.ref.namespace))


def _unreadable(case: WorkloadTarget) -> Iterator[Result]:
    """Opt-outs and autoscalers that could not be read may be there."""
    for what in ("namespaces", "horizontalpodautoscalers", "scaledobjects"):
        if what in case.inputs.observed.unreadable:
            why = reason(ReasonCode.LIST_UNREADABLE, list=f"{what} of {case.ref.cluster}")
            yield case.undecided(why)
            yield case.stays(why)
            return


def _excluded(case: WorkloadTarget) -> Iterator[Result]:
    space = f"{case.ref.cluster}/{case.ref.namespace}"
    marks = {str(case.ref): case.workload.annotations, space: case.inputs.namespaces.get(case.ref.namespace, {})}
    for subject, inside in marks.items():
        found = exclusion(inside, case.inputs.run.now, kube_downscaler=case.inputs.fleet.honors_kube_downscaler)
        if found is None:
            continue
        if found.unreadable:
            yield Notice("exclusion", subject, f"{found.reason}; it counts as excluded", case.policy)
        gone = change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation=f"the annotation on {subject}")
        yield case.stays(found.reason, counterfactual=gone)
        return


def _claimed(case: WorkloadTarget) -> Iterator[Result]:
    winner = case.inputs.claims.get(case.ref)
    if winner is None:
        return
    why = reason(ReasonCode.DECIDED_BY, policy=winner)
    if case.changes:
        yield case.overridden(winner, why)
    yield case.stays(why)


def _idle(case: WorkloadTarget) -> Iterator[Result]:
    annotations = case.workload.annotations
    if not any(key in annotations for key in (PREVIOUS_SCALE, IDLED_AT, OPENSHIFT_PREVIOUS_SCALE)):
        return
    floor = whole_number_in(annotations.get(IDLED_TO, "0"))
    if floor is None or case.workload.spec_replicas <= floor:
        why = reason(ReasonCode.IDLE_RECORD)
        if case.changes:
            yield case.overridden("idling", why)
        yield case.stays(why, counterfactual=change_if(CounterfactualCode.WOKEN))


def _being_deleted(case: WorkloadTarget) -> Iterator[Result]:
    if case.workload.terminating:
        yield case.stays(reason(ReasonCode.TERMINATING))


def _autoscaled(case: WorkloadTarget) -> Iterator[Result]:
    name = case.inputs.autoscalers.name_of(case.ref)
    if name is not None and case.autoscaler is None:
        why = reason(ReasonCode.AUTOSCALED, autoscaler=name)
        field, value = "behavior.scaleDown.selectPolicy", "Disabled on its HorizontalPodAutoscaler"
        yield Notice("autoscaler", str(case.ref), str(why), case.policy, reasons=(why,))
        yield case.stays(why, counterfactual=change_if(CounterfactualCode.FIELD_IS, field=field, value=value))


def _unknown(case: WorkloadTarget) -> Iterator[Result]:
    if case.wanted.replicas is None:
        reasons = case.wanted.reasons
        yield case.undecided(*reasons)
        if all(one.code is not ReasonCode.QUERY_FAILED for one in reasons):  # that is among what is unknown
            yield Notice("unknownQuery", case.ref.cluster, text_of(reasons), case.policy, True, reasons)
        yield case.stays(*reasons)


def _settled(case: WorkloadTarget) -> Iterator[Result]:
    if case.changes:
        return
    if case.desired > case.workload.spec_replicas:
        up = change_if(CounterfactualCode.FIELD_IS, field="direction", value="Both")
        if case.autoscaler is not None:
            up = change_if(CounterfactualCode.HPA_SCALES_UP)
        yield case.stays(*case.wanted.reasons, reason(ReasonCode.ONLY_DOWN), counterfactual=up)
    else:
        other = change_if(CounterfactualCode.OTHER_TARGET, replicas=case.workload.spec_replicas)
        yield case.stays(*case.wanted.reasons, counterfactual=other)


def _in_rollout(case: WorkloadTarget) -> Iterator[Result]:
    if case.desired < case.workload.spec_replicas and replaces_replica_sets(case.workload):
        why = reason(ReasonCode.ROLLOUT_IN_PROGRESS)
        yield case.undecided(why)
        yield case.stays(why, counterfactual=change_if(CounterfactualCode.ROLLOUT_ENDS))


GUARDS: tuple[_Guard, ...] = (
    _restricted,
    _protected,
    _unreadable,
    _excluded,
    _claimed,
    _idle,
    _being_deleted,
    _autoscaled,
    _unknown,
    _settled,
    _in_rollout,
)
"""In this order; the first that finds something ends the matter."""
