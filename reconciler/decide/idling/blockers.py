"""What blocks the idling of a scalable: the first reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, format_time, optional_instant
from reconciler.decide.freeze import lifted, restriction
from reconciler.decide.idling.records import who_idled
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.reasons import (
    Counterfactual,
    CounterfactualCode,
    ReasonCode,
    Reasons,
    change_if,
    joint_counterfactual,
    reason,
)
from reconciler.decide.selectors import names_kind
from reconciler.decide.workloads import in_rollout
from reconciler.workload_kinds import SCALABLE_KINDS

ANOTHER_STATE = change_if(CounterfactualCode.CLUSTER_STATE)
A_WAKE_REQUEST = change_if(CounterfactualCode.WAKE_REQUEST)
UNCONTESTED = change_if(CounterfactualCode.UNCONTESTED)
UNPROTECTED = change_if(CounterfactualCode.UNPROTECTED)

ITSELF = "app.kubernetes.io/name"
_OUR_NAME = "reconciler"


class Blocker(Struct, frozen=True):
    """Why it is not idled, or is woken, and the smallest change that would alter that, None where none is known."""

    reasons: Reasons
    counterfactual: Counterfactual | None = None


def blocker(code: ReasonCode, counterfactual: Counterfactual | None = None, **values: Any) -> Blocker:
    """Return the blocker with one reason."""
    return Blocker((reason(code, **values),), counterfactual)


def blocker_of(scalable: ScalableState, now: datetime) -> Blocker | None:
    """Return the first reason not to idle `scalable` at `now`, None where there is none.

    Where time lifts the first one, its counterfactual is what lifts all.
    """
    found = chain.from_iterable(check(scalable, now) for check in _BLOCKERS)
    first = next(found, None)
    if first is None or not lifts_by_itself(first.counterfactual):
        return first
    changes = [first.counterfactual, *(one.counterfactual for one in found)]
    return replace(first, counterfactual=what_lifts(changes, scalable.verdict.until))


def lifts_by_itself(change: Counterfactual | None) -> bool:
    """Return whether `change` is only a matter of time."""
    return change is not None and change.code is CounterfactualCode.AFTER


def what_lifts(changes: Iterable[Counterfactual | None], ends: datetime | None) -> Counterfactual | None:
    """Return what lifts several blockers, where each of `changes` lifts one; None where that is not known.

    Of several times it is the latest. One at or after `ends`, when the criteria no longer call it idle, comes too late:
    then it takes the removal of the annotation with the time.
    """
    in_time = [_in_time(part, ends) for change in changes for part in _parts_of(change)]
    if None in in_time:
        return None
    known = [one for one in in_time if one is not None]
    latest = max((one for one in known if lifts_by_itself(one)), key=lambda one: str(one.values["at"]), default=None)
    return joint_counterfactual(CounterfactualCode.ALL, (latest, *(one for one in known if not lifts_by_itself(one))))


def _parts_of(change: Counterfactual | None) -> tuple[Counterfactual | None, ...]:
    return change.parts if change is not None and change.code is CounterfactualCode.ALL else (change,)


def _in_time(change: Counterfactual | None, ends: datetime | None) -> Counterfactual | None:
    if change is None or ends is None or not lifts_by_itself(change) or change.values["at"] < format_time(ends):
        return change
    key = change.values.get("annotation")
    return change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation=key) if key else None


def _cluster_restricted(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if restriction(scalable.cluster, scalable.ref.namespace) is not None:
        yield restricted(scalable)


def restricted(scalable: ScalableState) -> Blocker:
    """Return that not everything may be written where `scalable` is."""
    found = restriction(scalable.cluster, scalable.ref.namespace)
    return Blocker(() if found is None else (found,), lifted(scalable.cluster))


def _equal_priorities(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if scalable.verdict.equal_policies:
        different = change_if(CounterfactualCode.DIFFERENT_PRIORITIES)
        yield blocker(ReasonCode.EQUAL_PRIORITIES, different, policies=scalable.verdict.equal_policies)


def _unreadable(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if scalable.unknown:
        yield blocker(ReasonCode.UNREADABLE, change_if(CounterfactualCode.READABLE), problem=scalable.unknown)
    for service in scalable.services:
        name = service.ref.name
        if service.problem:
            readable = change_if(CounterfactualCode.RECORD_READABLE)
            yield blocker(ReasonCode.SERVICE_RECORD_UNREADABLE, readable, service=name)
        elif service.is_foreign:
            removed = change_if(CounterfactualCode.RECORD_REMOVED)
            by = who_idled("" if service.foreign is None else service.foreign.fleet)
            yield blocker(ReasonCode.SERVICE_FOREIGN, removed, service=name, by=by)
        elif service.verdicts and service.found.undecided:
            yield blocker(ReasonCode.SERVICE_TARGETS_UNKNOWN, service=name, problem=service.found.undecided)


def _custom_kind(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    found = custom_kind_blocker(scalable)
    if found is not None:
        yield found


def custom_kind_blocker(scalable: ScalableState) -> Blocker | None:
    """Return that none of its policies names the custom kind of `scalable`, None where that is no reason.

    What the scale of a custom kind means, shards of a Prometheus for instance, only those know who name it.
    """
    for ref in (scalable.scale.runs.ref, scalable.scale.written.ref):
        if (ref.group, ref.kind) in SCALABLE_KINDS:
            continue
        policies = scalable.verdict.policies
        if not any(names_kind(policy.selector.workloads, ref.kind) for policy in policies):
            names = [policy.name for policy in policies]
            selector = f"workloads: {{kinds: [{ref.kind}], include: [{ref.name}]}}"
            named = change_if(CounterfactualCode.NAMED, selector=selector, policies=names)
            return blocker(ReasonCode.CUSTOM_KIND, named, kind=ref.kind, policies=names)
    return None


def _reconciler_itself(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if scalable.scale.runs.labels.get(ITSELF) == _OUR_NAME:
        yield blocker(ReasonCode.RECONCILER_ITSELF)


def _autoscaled(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if scalable.controller:
        yield blocker(ReasonCode.LEFT_TO_AUTOSCALER, autoscaler=scalable.controller)
    if scalable.scale.is_paused_kind and "keda" in scalable.verdict.leaves_autoscalers:
        yield blocker(ReasonCode.KEDA_LEFT, field_is("autoscalers.keda", "Pause"))
    paused_by = scalable.scale.paused_by
    if paused_by:
        removed = change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation=paused_by)
        yield blocker(ReasonCode.SET_BY_OTHERS, removed, annotation=paused_by)
    if scalable.autoscaler is None:
        return
    name = f"HorizontalPodAutoscaler/{scalable.autoscaler.hpa.ref.name}"
    if "hpa" in scalable.verdict.leaves_autoscalers:
        yield blocker(ReasonCode.HPA_LEFT, field_is("autoscalers.hpa", "Idle"), autoscaler=name)
    if scalable.autoscaler.own_bounds.minimum == 0:
        yield blocker(ReasonCode.HPA_SCALES_TO_ZERO, field_is("minReplicas", "at least 1"), autoscaler=name)
    if scalable.autoscaler.problem:
        yield blocker(ReasonCode.HPA_UNREADABLE, autoscaler=name, problem=scalable.autoscaler.problem)


def field_is(name: str, value: str) -> Counterfactual:
    """Return that a field has another value."""
    return change_if(CounterfactualCode.FIELD_IS, field=name, value=value)


def _kept_awake(scalable: ScalableState, now: datetime) -> Iterator[Blocker]:
    annotations = scalable.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and optional_instant(annotations, key) is None:
            yield blocker(
                ReasonCode.ANNOTATION_UNREADABLE,
                change_if(CounterfactualCode.TIME_READABLE),
                annotation=key,
                value=annotations[key],
                expected="a time as in RFC 3339",
            )
    since = scalable.awake_since
    if since is not None and (now <= since or now < since + scalable.verdict.min_awake):
        yield blocker(ReasonCode.MIN_AWAKE, after(since + scalable.verdict.min_awake), since=since)
    until = optional_instant(annotations, AWAKE_UNTIL)
    if until is not None and now < until:
        yield blocker(ReasonCode.KEPT_AWAKE, after(until, AWAKE_UNTIL), until=until)


def after(at: datetime, annotation: str = "") -> Counterfactual:
    """Return that it changes by itself once `at` is over, which `annotation` says if it is one."""
    return change_if(CounterfactualCode.AFTER, at=at, annotation=annotation)


def _younger_than_min_age(scalable: ScalableState, now: datetime) -> Iterator[Blocker]:
    created = [one.created_at for one in (scalable.scale.written, scalable.scale.runs) if one.created_at is not None]
    if created and now < max(created) + scalable.verdict.min_age:
        yield blocker(ReasonCode.MIN_AGE, after(max(created) + scalable.verdict.min_age), at=max(created))


def _at_idle_replicas(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if scalable.target_is_idle or scalable.scale.replicas <= scalable.verdict.idle_replicas:
        yield blocker(ReasonCode.AT_IDLE_REPLICAS, more_replicas(scalable))


def more_replicas(scalable: ScalableState) -> Counterfactual:
    """Return that `scalable` has more than its policies idle it to."""
    return change_if(CounterfactualCode.MORE_REPLICAS, replicas=scalable.verdict.idle_replicas)


def _rollout_in_progress(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    if scalable.scale.written.terminating or scalable.scale.runs.terminating:
        yield blocker(ReasonCode.TERMINATING)
    if in_rollout(scalable.scale.runs):
        yield blocker(ReasonCode.ROLLOUT_IN_PROGRESS, change_if(CounterfactualCode.ROLLOUT_ENDS))


def _wake_when(scalable: ScalableState, _now: datetime) -> Iterator[Blocker]:
    found = scalable.verdict.wake_when_blocker
    if found is not None:
        yield Blocker(found.reasons, found.counterfactual)


_BLOCKERS: tuple[Callable[[ScalableState, datetime], Iterator[Blocker]], ...] = (
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
