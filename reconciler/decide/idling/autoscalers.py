"""HorizontalPodAutoscalers of idled workloads: held at the floor while idle, given their bounds back at the wake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reconciler.decide.annotations import (
    FIELD_MANAGER,
    IDLED_TO,
    OWNER,
    PREVIOUS_BOUNDS,
    WAKE_BEGUN_AT,
    compact,
    format_time,
    idling_owner,
    parsed,
    whole_number,
)
from reconciler.decide.decisions import FieldChange, annotation_changes, annotation_tests
from reconciler.errors import AnnotationError
from reconciler.model import HorizontalPodAutoscaler

_MINIMUM = ("spec", "minReplicas")
_MAXIMUM = ("spec", "maxReplicas")
_CLOCKS_DIFFER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`minimum` None: absent, which counts as 1."""

    minimum: int | None
    maximum: int

    @property
    def least(self) -> int:
        return 1 if self.minimum is None else self.minimum

    def clamp(self, count: int) -> int:
        """Return the number nearest to `count` within the bounds."""
        return min(max(count, self.least), self.maximum)


@dataclass(frozen=True, slots=True)
class Hold:
    """One autoscaler of a workload. `previous` is what it had before it was held, None where it is not held.

    `floor` is what both its bounds were set to, None where that is not known. `wake_begun`: it was us who gave it its
    bounds back. `problem` set: it is left as it is, as what stands on it cannot be read, or as `holder`, another Fleet,
    wrote it.
    """

    autoscaler: HorizontalPodAutoscaler
    previous: Bounds | None = None
    floor: int | None = None
    wake_begun: bool = False
    problem: str = ""
    holder: str = ""

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.autoscaler.minimum, self.autoscaler.maximum)

    @property
    def is_pinned(self) -> bool:
        """Whether its bounds are still the ones that hold it at its floor."""
        return self.floor is not None and self.is_pinned_at(self.floor) and self.bounds != self.previous

    def is_pinned_at(self, floor: int) -> bool:
        if self.previous is None:
            return False
        return self.bounds == Bounds(floor, floor)

    def is_held(self, floor: int) -> bool:
        """Whether its bounds hold its workload at `floor`, or at another floor of ours."""
        return self.is_pinned_at(floor) or self.is_pinned

    def is_put_back(self, floor: int, since: datetime) -> bool:
        """Return whether somebody else gave its bounds back after we idled its workload to `floor` at `since`.

        Where our annotations stand on it, somebody did unless we hold it or began the wake. Where they do not, a run
        may have died before it wrote them: then somebody did only if somebody else wrote its bounds since.
        """
        if floor == 0 or self.problem or self.is_held(floor) or self.wake_begun:
            return False
        if self.previous is not None:
            return True
        writer = self.autoscaler.bounds_writer
        if writer is None or writer.at is None or writer.manager in ("", FIELD_MANAGER):
            return False
        return writer.at >= since - _CLOCKS_DIFFER

    @property
    def own_bounds(self) -> Bounds:
        """The bounds it has when it is not held: those before, and what somebody else changed since.

        A bound that is still at our floor goes back, as far as the other one allows.
        """
        before, bounds = self.previous, self.bounds
        if before is None or self.floor is None or (self.wake_begun and not self.is_pinned):
            return bounds
        if bounds.least != self.floor:
            at_floor = bounds.maximum == self.floor
            return replace(bounds, maximum=max(before.maximum, bounds.least)) if at_floor else bounds
        if bounds.maximum == self.floor:
            return before
        return replace(bounds, minimum=before.minimum if before.least <= bounds.maximum else bounds.maximum)

    @property
    def gets_back(self) -> bool:
        """Whether its bounds change when it is let go."""
        return self.own_bounds != self.bounds

    def read_by(self, fleet: str) -> Hold:
        """Return the hold as `fleet` may read it, which idled the workload."""
        return replace(self, problem="", holder="") if self.holder and self.holder == fleet else self


def hold_of(autoscaler: HorizontalPodAutoscaler, fleets: frozenset[str]) -> Hold:
    """Return how `autoscaler` is held; what another Fleet wrote on it is not ours to use."""
    annotations = autoscaler.annotations
    text, owner = annotations.get(PREVIOUS_BOUNDS), idling_owner(annotations)
    if text is None:
        return Hold(autoscaler)
    try:
        previous, floor = _previous_bounds(parsed(text, PREVIOUS_BOUNDS)), _floor_of(autoscaler)
    except AnnotationError as error:
        return Hold(autoscaler, problem=str(error))
    hold = Hold(autoscaler, previous, floor, WAKE_BEGUN_AT in annotations)
    if owner is None or owner[0] in fleets:
        return hold
    return replace(hold, problem=f"{PREVIOUS_BOUNDS} belongs to {owner[0]}", holder=owner[0])


def _floor_of(autoscaler: HorizontalPodAutoscaler) -> int | None:
    """Return the floor that `autoscaler` was held at; where it is not written, bounds of one number tell it."""
    text = autoscaler.annotations.get(IDLED_TO)
    if text is not None:
        return whole_number(text, IDLED_TO)
    return autoscaler.maximum if autoscaler.minimum == autoscaler.maximum else None


def _previous_bounds(value: Any) -> Bounds:
    found = value if isinstance(value, dict) else {}
    minimum, maximum = found.get("minReplicas"), found.get("maxReplicas")
    if type(maximum) is int and maximum > 0 and (minimum is None or (type(minimum) is int and minimum >= 0)):
        return Bounds(minimum, maximum)
    raise AnnotationError(f"{PREVIOUS_BOUNDS} is {compact(value)[:60]}, expected minReplicas and maxReplicas")


def pinned(hold: Hold, floor: int, owner: str) -> tuple[FieldChange, ...]:
    """Return the changes that hold the autoscaler at `floor`, () where it is held there already."""
    own = hold.own_bounds
    text = compact({"minReplicas": own.minimum, "maxReplicas": own.maximum}, sort=False)
    wanted = {PREVIOUS_BOUNDS: text, IDLED_TO: str(floor), OWNER: owner, WAKE_BEGUN_AT: None}
    if hold.floor == floor and hold.is_pinned_at(floor):
        return ()
    return (*_bounds_changes(hold, Bounds(floor, floor)), *annotation_changes(hold.autoscaler.annotations, wanted))


def given_back(hold: Hold, now: datetime) -> tuple[FieldChange, ...]:
    """Return the changes that give the autoscaler its bounds back and keep what they were, () where it has them.

    They say that it was us, in the same request: a run that dies before the replicas follow must not be taken for
    somebody who put the bounds back. Where somebody else changed one of them, that stays to be answered.
    """
    if not hold.gets_back:
        return ()
    annotations = hold.autoscaler.annotations
    begun = annotation_changes(annotations, _begun(hold, now))
    return (*_bounds_changes(hold, hold.own_bounds), *begun, *annotation_tests(annotations, (PREVIOUS_BOUNDS,)))


def _begun(hold: Hold, now: datetime) -> dict[str, str]:
    """Return the annotation that says that our wake began, {} where it does not begin with the bounds."""
    return {WAKE_BEGUN_AT: format_time(now)} if hold.is_pinned else {}


def forgotten(hold: Hold, now: datetime) -> tuple[FieldChange, ...]:
    """Return the changes that take our annotations off after a wake, as `given_back` left them; () where none are."""
    return _cleared(hold, {**hold.autoscaler.annotations, **_begun(hold, now)})


def _cleared(hold: Hold, annotations: Mapping[str, str]) -> tuple[FieldChange, ...]:
    if hold.previous is None:
        return ()
    return annotation_changes(annotations, {PREVIOUS_BOUNDS: None, IDLED_TO: None, WAKE_BEGUN_AT: None, OWNER: None})


def let_go(hold: Hold) -> tuple[FieldChange, ...]:
    """Return the changes that give the bounds back and take our annotations off, in one request."""
    bounds = _bounds_changes(hold, hold.own_bounds) if hold.gets_back else ()
    return (*bounds, *_cleared(hold, hold.autoscaler.annotations))


def _bounds_changes(hold: Hold, wanted: Bounds) -> tuple[FieldChange, ...]:
    return (
        FieldChange(_MINIMUM, hold.autoscaler.minimum, wanted.minimum),
        FieldChange(_MAXIMUM, hold.autoscaler.maximum, wanted.maximum),
    )
