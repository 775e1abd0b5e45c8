"""What blocks the idling of a scalable: the first reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, format_time, optional_instant
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.selectors import names_kind
from reconciler.decide.workload_status import in_rollout
from reconciler.model import SCALABLE_KINDS

ANOTHER_STATE = "another state of the cluster"
ASKED = "a wake request"
UNCONTESTED = "taking reconciler/contested off, or a change of its policy"
UNPROTECTED = "taking the namespace off protectedNamespaces of the Fleet"

ITSELF = "app.kubernetes.io/name"
_OUR_NAME = "reconciler"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why it is not idled, and the smallest change that would alter that."""

    words: str
    flip: str = ""


def blocker_of(target: ScalableState, now: datetime) -> Reason | None:
    """Return the first reason not to idle `target` at `now`, None where there is none."""
    return next((reason for check in _CHECKS for reason in check(target, now)), None)


def _restricted(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    if target.cluster.restriction:
        yield Reason(target.cluster.restriction, ANOTHER_STATE)


def _equal(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    if target.want.rivals:
        yield Reason(f"{' and '.join(target.want.rivals)} have the same priority", "different priorities")


def _unread(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    if target.unknown:
        yield Reason(target.unknown, "being able to read it")
    for front in target.fronts:
        if front.problem:
            yield Reason(f"the mark on Service/{front.ref.name} cannot be read", "a mark that can be read")
        elif front.is_foreign:
            yield Reason(f"somebody else marked Service/{front.ref.name} idle", "taking that mark off")
        elif front.bids and front.found.undecided:
            yield Reason(f"what is behind Service/{front.ref.name} is undecided: {front.found.undecided}")


def _unnamed(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    reason = unnamed(target)
    if reason is not None:
        yield reason


def unnamed(target: ScalableState) -> Reason | None:
    """Return that none of its policies names the custom kind of `target`, None where that is no reason.

    What the scale of a custom kind means, shards of a Prometheus for instance, only those know who name it.
    """
    policies = target.want.policies
    for ref in (target.scale.runs.ref, target.scale.written.ref):
        is_known = (ref.group, ref.kind) in SCALABLE_KINDS
        if not is_known and not any(names_kind(policy.selector.workloads, ref.kind) for policy in policies):
            names = " and ".join(policy.name for policy in policies)
            verb = "does" if len(policies) == 1 else "do"
            words = f"{ref.kind} is a custom kind, and {names} {verb} not name it"
            named = f"workloads: {{kinds: [{ref.kind}], include: [{ref.name}]}}"
            return Reason(words, f"{named} in the selector of {names}")
    return None


def _itself(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    if target.scale.runs.labels.get(ITSELF) == _OUR_NAME:
        yield Reason("the reconciler does not idle itself")


def _autoscaled(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    leaves = target.want.leaves_autoscalers
    if target.controller:
        yield Reason(f"left to {target.controller}")
    if target.scale.is_paused_kind and "keda" in leaves:
        yield Reason("autoscalers.keda: Leave", "autoscalers.keda: Pause")
    if target.scale.paused_by:
        yield Reason(f"{target.scale.paused_by} is set by somebody else", "taking it off")
    if target.hold is None:
        return
    name = f"HorizontalPodAutoscaler/{target.hold.autoscaler.ref.name}"
    if "hpa" in leaves:
        yield Reason(f"{name} controls it (autoscalers.hpa: Leave)", "autoscalers.hpa: Idle")
    if target.hold.own_bounds.minimum == 0:
        yield Reason(f"{name} has minReplicas 0, its zeros are its own", "minReplicas of at least 1")
    if target.hold.problem:
        yield Reason(f"{name}: {target.hold.problem}")


def _kept_awake(target: ScalableState, now: datetime) -> Iterator[Reason]:
    annotations = target.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and optional_instant(annotations, key) is None:
            yield Reason(f'{key} is "{annotations[key]}", expected a time as in RFC 3339', "a time that can be read")
    since = target.awake_since
    if since is not None and (now <= since or now < since + target.want.min_awake):
        ends = format_time(since + target.want.min_awake)
        yield Reason(f"awake since {format_time(since)}, less than minAwake", f"after {ends}")
    until = optional_instant(annotations, AWAKE_UNTIL)
    if until is not None and now < until:
        yield Reason(f"kept awake until {format_time(until)}", f"after {format_time(until)}")


def _young(target: ScalableState, now: datetime) -> Iterator[Reason]:
    created = [one.created_at for one in (target.scale.written, target.scale.runs) if one.created_at is not None]
    if created and now < max(created) + target.want.min_age:
        ends = format_time(max(created) + target.want.min_age)
        yield Reason(f"created at {format_time(max(created))}, younger than minAge", f"after {ends}")


def _low(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    if target.scale.replicas <= target.want.idle_replicas:
        yield Reason("already at or below idleReplicas", f"more than {target.want.idle_replicas} replicas")


def _rollout(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    if target.scale.written.terminating or target.scale.runs.terminating:
        yield Reason("it is being deleted")
    if in_rollout(target.scale.runs):
        yield Reason("in the middle of a rollout", "the end of the rollout")


def _unquiet(target: ScalableState, _now: datetime) -> Iterator[Reason]:
    unquiet = target.want.unquiet
    if unquiet is not None:
        yield Reason(unquiet.words, unquiet.flip)


_CHECKS: tuple[Callable[[ScalableState, datetime], Iterator[Reason]], ...] = (
    _restricted,
    _equal,
    _unread,
    _unnamed,
    _itself,
    _autoscaled,
    _low,
    _kept_awake,
    _young,
    _rollout,
    _unquiet,
)
