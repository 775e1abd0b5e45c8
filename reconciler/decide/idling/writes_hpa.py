"""Transitions -> what is written on the HorizontalPodAutoscaler of a scalable that is idled to a floor of 1 or more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.decide.annotations import (
    IDLED_TO,
    OWNER,
    PREVIOUS_BOUNDS,
    WAKE_BEGUN_AT,
    compact,
    format_time,
    idling_owner_text,
)
from reconciler.decide.autoscalers import (
    Bounds,
    PinnedAutoscaler,
)
from reconciler.decide.decisions import Decision, FieldChange, Phase, Verb, annotation_changes, annotation_tests
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transitions import Action, Transition
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.writes_workload import (
    WriteContext,
    cause_of,
    decision_key,
    own_decision_key,
    record_after,
)

_MINIMUM = ("spec", "minReplicas")
_MAXIMUM = ("spec", "maxReplicas")

BOUNDS_BACK = "/bounds"
_UNTOUCHED = frozenset({Action.OVERDUE, Action.DEFER})


def autoscaler_decisions(ruling: Transition, own: Decision | None, making: WriteContext) -> tuple[Decision, ...]:
    """Return what is done with the autoscaler of a scalable; `own` is what is done with the scalable itself."""
    hold, state = ruling.hold, ruling.standing.state
    if hold is None or hold.problem or ruling.action in _UNTOUCHED or state is IdleState.SET_ASIDE:
        return ()
    if state in NOT_OURS and ruling.action is not Action.WAKE:
        return ()
    if ruling.action is Action.WAKE:
        return tuple(_woken(ruling, hold, making))
    if not making.repairs and ruling.action is not Action.RELEASE:
        return ()
    record = record_after(ruling, making)
    if record is not None and record.idled_to > 0:
        owner = idling_owner_text(making.fleet.name, record.policy)
        return tuple(_pinned(ruling, pin_changes(hold, record.idled_to, owner), own, making))
    return tuple(_released(ruling, release_changes(hold), own, making))


def _woken(ruling: Transition, hold: PinnedAutoscaler, making: WriteContext) -> Iterator[Decision]:
    """Yield (a) the bounds are given back, (c) what they were is forgotten; between them the scalable is woken."""
    back, gone = restore_changes(hold, making.run.now), clear_changes(hold, making.run.now)
    if back:
        base = _decision(ruling, hold, Verb.UNMARK, making, BOUNDS_BACK)
        yield replace(base, changes=back, phase=Phase.WAKE, order=(tier(ruling), 0))
    if gone:
        base = _decision(ruling, hold, Verb.UNMARK, making)
        yield replace(base, changes=gone, phase=Phase.WAKE, order=(tier(ruling), 3), needs=(own_decision_key(ruling),))


def _pinned(
    ruling: Transition, changes: tuple[FieldChange, ...], own: Decision | None, making: WriteContext
) -> Iterator[Decision]:
    """Yield that the autoscaler is held at the floor: after the scalable, or before where it took it from there."""
    if not changes:
        return
    first = () if own is None or ruling.standing.state is IdleState.HALF_HELD else (own.key,)
    idles = ruling.action is Action.IDLE
    phase = own.phase if own is not None and first else Phase.REPAIR
    base = _decision(ruling, ruling.target.hold, Verb.MARK, making)
    group = making.group(ruling.ref, idles=idles)
    yield replace(base, changes=changes, phase=phase, group=group, order=(2,) if first else (0,), needs=first)


def _released(
    ruling: Transition, changes: tuple[FieldChange, ...], own: Decision | None, making: WriteContext
) -> Iterator[Decision]:
    """Yield that an autoscaler is let go that nothing idle needs held any more."""
    if not changes:
        return
    base = _decision(ruling, ruling.target.hold, Verb.UNMARK, making)
    if own is None:
        yield replace(base, changes=changes)
        return
    yield replace(base, changes=changes, phase=own.phase, group=own.group, order=(2,), needs=(own.key,))


def _decision(
    ruling: Transition, hold: PinnedAutoscaler | None, verb: Verb, making: WriteContext, part: str = ""
) -> Decision:
    if hold is None:
        raise ValueError(f"{ruling.ref} has no autoscaler")
    autoscaler = hold.autoscaler
    return Decision(
        key=decision_key(verb, autoscaler.ref, part),
        job="idling",
        verb=verb,
        phase=Phase.REPAIR,
        ref=autoscaler.ref,
        api_version=autoscaler.api_version,
        uid=autoscaler.uid,
        changes=(),
        cause=cause_of(ruling, making),
        group=making.group(ruling.ref),
        order=(2,),
        has_annotations=autoscaler.has_annotations,
    )


def bounds_first(ruling: Transition, decisions: tuple[Decision, ...]) -> tuple[str, ...]:
    """Return the keys of what must be done with the autoscaler before the scalable itself."""
    if ruling.action is Action.WAKE:
        return tuple(decision.key for decision in decisions if decision.key.endswith(BOUNDS_BACK))
    if ruling.standing.state is IdleState.HALF_HELD:
        return tuple(decision.key for decision in decisions if decision.verb is Verb.MARK)
    return ()


# The changes of one HorizontalPodAutoscaler.


def pin_changes(hold: PinnedAutoscaler, floor: int, owner: str) -> tuple[FieldChange, ...]:
    """Return the changes that hold the autoscaler at `floor`, () where it is held there already."""
    own = hold.own_bounds
    text = compact({"minReplicas": own.minimum, "maxReplicas": own.maximum}, sort=False)
    wanted = {PREVIOUS_BOUNDS: text, IDLED_TO: str(floor), OWNER: owner, WAKE_BEGUN_AT: None}
    if hold.floor == floor and hold.is_pinned_at(floor):
        return ()
    return (*_bounds_changes(hold, Bounds(floor, floor)), *annotation_changes(hold.autoscaler.annotations, wanted))


def restore_changes(hold: PinnedAutoscaler, now: datetime) -> tuple[FieldChange, ...]:
    """Return the changes that give the autoscaler its bounds back and keep what they were, () where it has them.

    They say that it was us, in the same request: a run that dies before the replicas follow must not be taken for
    somebody who put the bounds back. Where somebody else changed one of them, that stays to be answered.
    """
    if not hold.gets_back:
        return ()
    annotations = hold.autoscaler.annotations
    begun = annotation_changes(annotations, _begun(hold, now))
    return (*_bounds_changes(hold, hold.own_bounds), *begun, *annotation_tests(annotations, (PREVIOUS_BOUNDS,)))


def _begun(hold: PinnedAutoscaler, now: datetime) -> dict[str, str]:
    """Return the annotation that says that our wake began, {} where it does not begin with the bounds."""
    return {WAKE_BEGUN_AT: format_time(now)} if hold.is_pinned else {}


def clear_changes(hold: PinnedAutoscaler, now: datetime) -> tuple[FieldChange, ...]:
    """Return the changes that remove our annotations after a wake, as `restore_changes` left them; () for none."""
    return _clear_changes(hold, {**hold.autoscaler.annotations, **_begun(hold, now)})


def _clear_changes(hold: PinnedAutoscaler, annotations: Mapping[str, str]) -> tuple[FieldChange, ...]:
    if hold.previous is None:
        return ()
    return annotation_changes(annotations, {PREVIOUS_BOUNDS: None, IDLED_TO: None, WAKE_BEGUN_AT: None, OWNER: None})


def release_changes(hold: PinnedAutoscaler) -> tuple[FieldChange, ...]:
    """Return the changes that give the bounds back and take our annotations off, in one request."""
    bounds = _bounds_changes(hold, hold.own_bounds) if hold.gets_back else ()
    return (*bounds, *_clear_changes(hold, hold.autoscaler.annotations))


def _bounds_changes(hold: PinnedAutoscaler, wanted: Bounds) -> tuple[FieldChange, ...]:
    return (
        FieldChange(_MINIMUM, hold.autoscaler.minimum, wanted.minimum),
        FieldChange(_MAXIMUM, hold.autoscaler.maximum, wanted.maximum),
    )
