"""What blocks the idling of a scalable: the first reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, format_time, optional_instant
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.selectors import names_kind
from reconciler.decide.workload_status import in_rollout
from reconciler.model import SCALABLE_KINDS

ANOTHER_STATE = "another state of the cluster"
A_WAKE_REQUEST = "a wake request"
UNCONTESTED = "taking reconciler/contested off, or a change of its policy"
UNPROTECTED = "taking the namespace off protectedNamespaces of the Fleet"

ITSELF = "app.kubernetes.io/name"
_OUR_NAME = "reconciler"


class Reason(Struct, frozen=True):
    """Why it is not idled, and the smallest change that would alter that."""

    words: str
    counterfactual: str = ""


def blocker_of(scalable: ScalableState, now: datetime) -> Reason | None:
    """Return the first reason not to idle `scalable` at `now`, None where there is none."""
    return next((reason for check in _BLOCKERS for reason in check(scalable, now)), None)


def _cluster_restricted(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    if scalable.cluster.restriction:
        yield Reason(scalable.cluster.restriction, ANOTHER_STATE)


def _equal_priorities(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    if scalable.verdict.equal_policies:
        yield Reason(f"{' and '.join(scalable.verdict.equal_policies)} have the same priority", "different priorities")


def _unreadable(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    if scalable.unknown:
        yield Reason(scalable.unknown, "permission to read it")
    for service in scalable.services:
        if service.problem:
            yield Reason(f"the idle record of Service/{service.ref.name} cannot be read", "a record that can be read")
        elif service.is_foreign:
            yield Reason(f"Service/{service.ref.name} is idled by another tool or Fleet", "taking its record off")
        elif service.verdicts and service.found.undecided:
            yield Reason(f"the targets of Service/{service.ref.name} are unknown: {service.found.undecided}")


def _custom_kind(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    reason = custom_kind_blocker(scalable)
    if reason is not None:
        yield reason


def custom_kind_blocker(scalable: ScalableState) -> Reason | None:
    """Return that none of its policies names the custom kind of `scalable`, None where that is no reason.

    What the scale of a custom kind means, shards of a Prometheus for instance, only those know who name it.
    """
    policies = scalable.verdict.policies
    for ref in (scalable.scale.runs.ref, scalable.scale.written.ref):
        is_known = (ref.group, ref.kind) in SCALABLE_KINDS
        if not is_known and not any(names_kind(policy.selector.workloads, ref.kind) for policy in policies):
            names = " and ".join(policy.name for policy in policies)
            verb = "does" if len(policies) == 1 else "do"
            words = f"{ref.kind} is a custom kind, and {names} {verb} not name it"
            named = f"workloads: {{kinds: [{ref.kind}], include: [{ref.name}]}}"
            return Reason(words, f"{named} in the selector of {names}")
    return None


def _reconciler_itself(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    if scalable.scale.runs.labels.get(ITSELF) == _OUR_NAME:
        yield Reason("the reconciler does not idle itself")


def _autoscaled(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    leaves = scalable.verdict.leaves_autoscalers
    if scalable.controller:
        yield Reason(f"left to {scalable.controller}")
    if scalable.scale.is_paused_kind and "keda" in leaves:
        yield Reason("autoscalers.keda: Leave", "autoscalers.keda: Pause")
    if scalable.scale.paused_by:
        yield Reason(f"{scalable.scale.paused_by} is set by another writer", "taking it off")
    if scalable.autoscaler is None:
        return
    name = f"HorizontalPodAutoscaler/{scalable.autoscaler.hpa.ref.name}"
    if "hpa" in leaves:
        yield Reason(f"{name} controls it (autoscalers.hpa: Leave)", "autoscalers.hpa: Idle")
    if scalable.autoscaler.own_bounds.minimum == 0:
        yield Reason(f"{name} scales to zero itself (minReplicas 0)", "minReplicas of at least 1")
    if scalable.autoscaler.problem:
        yield Reason(f"{name}: {scalable.autoscaler.problem}")


def _kept_awake(scalable: ScalableState, now: datetime) -> Iterator[Reason]:
    annotations = scalable.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and optional_instant(annotations, key) is None:
            yield Reason(f'{key} is "{annotations[key]}", expected a time as in RFC 3339', "a time that can be read")
    since = scalable.awake_since
    if since is not None and (now <= since or now < since + scalable.verdict.min_awake):
        ends = format_time(since + scalable.verdict.min_awake)
        yield Reason(f"awake since {format_time(since)}, less than minAwake", f"after {ends}")
    until = optional_instant(annotations, AWAKE_UNTIL)
    if until is not None and now < until:
        yield Reason(f"kept awake until {format_time(until)}", f"after {format_time(until)}")


def _younger_than_min_age(scalable: ScalableState, now: datetime) -> Iterator[Reason]:
    created = [one.created_at for one in (scalable.scale.written, scalable.scale.runs) if one.created_at is not None]
    if created and now < max(created) + scalable.verdict.min_age:
        ends = format_time(max(created) + scalable.verdict.min_age)
        yield Reason(f"created at {format_time(max(created))}, younger than minAge", f"after {ends}")


def _at_idle_replicas(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    if scalable.scale.replicas <= scalable.verdict.idle_replicas:
        yield Reason("already at or below idleReplicas", f"more than {scalable.verdict.idle_replicas} replicas")


def _rollout_in_progress(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    if scalable.scale.written.terminating or scalable.scale.runs.terminating:
        yield Reason("it is being deleted")
    if in_rollout(scalable.scale.runs):
        yield Reason("rollout in progress", "the end of the rollout")


def _wake_when(scalable: ScalableState, _now: datetime) -> Iterator[Reason]:
    wake_when_blocker = scalable.verdict.wake_when_blocker
    if wake_when_blocker is not None:
        yield Reason(wake_when_blocker.words, wake_when_blocker.counterfactual)


_BLOCKERS: tuple[Callable[[ScalableState, datetime], Iterator[Reason]], ...] = (
    _cluster_restricted,
    _equal_priorities,
    _unreadable,
    _custom_kind,
    _reconciler_itself,
    _autoscaled,
    _at_idle_replicas,
    _kept_awake,
    _younger_than_min_age,
    _rollout_in_progress,
    _wake_when,
)
