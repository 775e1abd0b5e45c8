"""What keeps a DownscalePolicy's target from changing a workload, one check after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reconciler.decide.annotations import IDLED_AT, IDLED_TO, OPENSHIFT_PREVIOUS_SCALE, PREVIOUS_SCALE
from reconciler.decide.decisions import Notice
from reconciler.decide.downscale.targets import Result, WorkloadTarget
from reconciler.decide.selectors import exclusion
from reconciler.decide.workload_status import replaces_replica_sets
from reconciler.untrusted_text import whole_number_in

_Guard = Callable[[WorkloadTarget], Iterator[Result]]


def _restricted(case: WorkloadTarget) -> Iterator[Result]:
    if case.inputs.cluster.restriction:
        yield case.stays(case.inputs.cluster.restriction, "its state")


def _protected(case: WorkloadTarget) -> Iterator[Result]:
    if case.ref.namespace in case.inputs.fleet.protected:
        yield case.stays(f"the namespace {case.ref.namespace} is protected")


def _unreadable(case: WorkloadTarget) -> Iterator[Result]:
    """Opt-outs and autoscalers that could not be read may be there."""
    for what in ("namespaces", "horizontalpodautoscalers", "scaledobjects"):
        if what in case.inputs.observed.unreadable:
            why = f"the {what} of {case.ref.cluster} could not be read"
            yield case.undecided(why)
            yield case.stays(why)
            return


def _excluded(case: WorkloadTarget) -> Iterator[Result]:
    space = f"{case.ref.cluster}/{case.ref.namespace}"
    marks = {str(case.ref): case.workload.annotations, space: case.inputs.namespaces.get(case.ref.namespace, {})}
    for subject, inside in marks.items():
        found = exclusion(inside, case.inputs.run.now)
        if found is None:
            continue
        if found.unreadable:
            yield Notice("exclusion", subject, f"{found.why}; it counts as excluded", case.policy)
        yield case.stays(found.why, f"the annotation on {subject}")
        return


def _claimed(case: WorkloadTarget) -> Iterator[Result]:
    winner = case.inputs.claims.get(case.ref)
    if winner is None:
        return
    if case.changes:
        yield case.overridden(winner, f"{winner} decides its replicas")
    yield case.stays(f"{winner} decides its replicas")


def _idle(case: WorkloadTarget) -> Iterator[Result]:
    annotations = case.workload.annotations
    if not any(key in annotations for key in (PREVIOUS_SCALE, IDLED_AT, OPENSHIFT_PREVIOUS_SCALE)):
        return
    floor = whole_number_in(annotations.get(IDLED_TO, "0"))
    if floor is None or case.workload.spec_replicas <= floor:
        why = "it is idle, as its record says"
        if case.changes:
            yield case.overridden("idling", why)
        yield case.stays(why, "its wake")


def _being_deleted(case: WorkloadTarget) -> Iterator[Result]:
    if case.workload.terminating:
        yield case.stays("it is being deleted")


def _autoscaled(case: WorkloadTarget) -> Iterator[Result]:
    name = case.inputs.autoscalers.name_of(case.ref)
    if name is not None and case.autoscaler is None:
        why = f"{name} controls its replicas"
        yield Notice("autoscaler", str(case.ref), why, case.policy)
        yield case.stays(why, "behavior.scaleDown.selectPolicy: Disabled on its HorizontalPodAutoscaler")


def _unknown(case: WorkloadTarget) -> Iterator[Result]:
    if case.wanted.replicas is None:
        yield case.undecided(case.wanted.why)
        yield Notice("unknownQuery", case.ref.cluster, case.wanted.why, case.policy, partial=True)
        yield case.stays(case.wanted.why)


def _settled(case: WorkloadTarget) -> Iterator[Result]:
    if case.changes:
        return
    if case.desired > case.workload.spec_replicas:
        beside = "direction: both" if case.autoscaler is None else "its autoscaler"
        yield case.stays(f"{case.wanted.why}, and the policy takes only the way down", beside)
    else:
        yield case.stays(case.wanted.why, f"anything but {case.workload.spec_replicas}")


def _in_rollout(case: WorkloadTarget) -> Iterator[Result]:
    if case.desired < case.workload.spec_replicas and replaces_replica_sets(case.workload):
        why = "it is rollout in progress"
        yield case.undecided(why)
        yield case.stays(why, "the end of the rollout")


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
