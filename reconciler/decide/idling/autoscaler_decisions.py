"""Rulings -> what is done with the HorizontalPodAutoscaler of a scalable that is idled to a floor of 1 or more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.decide.annotations import idling_owner_text
from reconciler.decide.decisions import Decision, FieldChange, Phase, Verb
from reconciler.decide.idling.autoscalers import Hold, forgotten, given_back, let_go, pinned
from reconciler.decide.idling.making import Making, cause_of, key_of, record_after
from reconciler.decide.idling.order import tier
from reconciler.decide.idling.scalable_decisions import decision_key
from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.states import NOT_OURS, State
from reconciler.decide.idling.table import Action

BOUNDS_BACK = "/bounds"
_UNTOUCHED = frozenset({Action.OVERDUE, Action.DEFER})


def autoscaler_decisions(ruling: Ruling, own: Decision | None, making: Making) -> tuple[Decision, ...]:
    """Return what is done with the autoscaler of a scalable; `own` is what is done with the scalable itself."""
    hold, state = ruling.hold, ruling.standing.state
    if hold is None or hold.problem or ruling.action in _UNTOUCHED or state is State.SET_ASIDE:
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
        return tuple(_pinned(ruling, pinned(hold, record.idled_to, owner), own, making))
    return tuple(_let_go(ruling, let_go(hold), own, making))


def _woken(ruling: Ruling, hold: Hold, making: Making) -> Iterator[Decision]:
    """Yield (a) the bounds are given back, (c) what they were is forgotten; between them the scalable is woken."""
    back, gone = given_back(hold, making.run.now), forgotten(hold, making.run.now)
    if back:
        base = _decision(ruling, hold, Verb.UNMARK, making, BOUNDS_BACK)
        yield replace(base, changes=back, phase=Phase.WAKE, order=(tier(ruling), 0))
    if gone:
        base = _decision(ruling, hold, Verb.UNMARK, making)
        yield replace(base, changes=gone, phase=Phase.WAKE, order=(tier(ruling), 3), needs=(decision_key(ruling),))


def _pinned(
    ruling: Ruling, changes: tuple[FieldChange, ...], own: Decision | None, making: Making
) -> Iterator[Decision]:
    """Yield that the autoscaler is held at the floor: after the scalable, or before where it took it from there."""
    if not changes:
        return
    first = () if own is None or ruling.standing.state is State.HALF_HELD else (own.key,)
    idles = ruling.action is Action.IDLE
    phase = own.phase if own is not None and first else Phase.REPAIR
    base = _decision(ruling, ruling.target.hold, Verb.MARK, making)
    group = making.group(ruling.ref, idles=idles)
    yield replace(base, changes=changes, phase=phase, group=group, order=(2,) if first else (0,), needs=first)


def _let_go(
    ruling: Ruling, changes: tuple[FieldChange, ...], own: Decision | None, making: Making
) -> Iterator[Decision]:
    """Yield that an autoscaler is let go that nothing idle needs held any more."""
    if not changes:
        return
    base = _decision(ruling, ruling.target.hold, Verb.UNMARK, making)
    if own is None:
        yield replace(base, changes=changes)
        return
    yield replace(base, changes=changes, phase=own.phase, group=own.group, order=(2,), needs=(own.key,))


def _decision(ruling: Ruling, hold: Hold | None, verb: Verb, making: Making, part: str = "") -> Decision:
    if hold is None:
        raise ValueError(f"{ruling.ref} has no autoscaler")
    autoscaler = hold.autoscaler
    return Decision(
        key=key_of(verb, autoscaler.ref, part),
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


def needs_bounds_first(ruling: Ruling, decisions: tuple[Decision, ...]) -> tuple[str, ...]:
    """Return the keys of what must be done with the autoscaler before the scalable itself."""
    if ruling.action is Action.WAKE:
        return tuple(decision.key for decision in decisions if decision.key.endswith(BOUNDS_BACK))
    if ruling.standing.state is State.HALF_HELD:
        return tuple(decision.key for decision in decisions if decision.verb is Verb.MARK)
    return ()
