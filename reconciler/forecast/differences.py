"""Workloads that run in another way in one forecast than in another: what becomes of each, when, which are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeVar

from msgspec import Struct

from reconciler.forecast.recurrence import Span
from reconciler.forecast.text import MOST_CLUSTERS
from reconciler.forecast.timelines import Forecast, WorkloadTimeline
from reconciler.model import ObjectRef

T = TypeVar("T")

DifferenceKind = Literal[
    "created",  # it is there with the change only
    "not created",  # it is there without the change only
    "not woken",  # it is idle at the start and wakes without the change, and with it does not
    "idles",  # it goes idle, or runs with less than without policies, and would not without the change
    "idles no longer",  # the reverse
    "goes lower",  # it goes down in either case, and with the change to fewer replicas
    "stays higher",  # it goes down in either case, and with the change to more replicas
    "runs more",  # no policy lowers it, and it gets more replicas
    "at other times",  # its least is the same
]


class Difference(Struct, frozen=True):
    """One workload that runs in another way; None: it is not there. `idle`: a policy keeps it idle at the start."""

    ref: ObjectRef
    before: WorkloadTimeline | None
    after: WorkloadTimeline | None
    at: datetime  # the first moment
    production: bool
    idle: bool = False

    @property
    def hours(self) -> float:
        """How many replica-hours more it runs; fewer are negative."""
        return hours_of(self.after) - hours_of(self.before)

    @property
    def kind(self) -> DifferenceKind:
        """What the change does to it."""
        if self.before is None or self.after is None:
            return "created" if self.before is None else "not created"
        if _stays_dark(self):
            return "not woken"
        deeper = _lowest(self.before) - _lowest(self.after)
        if not deeper:
            return "at other times"
        if deeper > 0:
            return "goes lower" if _is_lowered(self.before) else "idles"
        if not _is_lowered(self.before):
            return "runs more"
        return "stays higher" if _is_lowered(self.after) else "idles no longer"

    @property
    def certain_hours(self) -> float:
        """The same without what rests on a metric."""
        return hours_of(self.after, certain=True) - hours_of(self.before, certain=True)


def hours_of(one: WorkloadTimeline | None, *, certain: bool = False) -> float:
    """Return the replica-hours of a workload; `certain`: where fewer rest on a metric, those without policies count."""
    if one is None or not one.runs:
        return 0.0
    return sum(
        segment.hours * (max(segment.replicas, one.without) if certain and segment.assumes else segment.replicas)
        for segment in one.segments
    )


def differences_of(base: Forecast, head: Forecast, production: Iterable[ObjectRef]) -> tuple[Difference, ...]:
    """Return every workload that runs in another way: production first, then those that change most."""
    before, after = ({one.ref: one for one in made.timelines} for made in (base, head))
    named, idle = frozenset(production), {one.ref for one in base.first.explanations if one.idled is not None}
    found = [
        Difference(ref, before.get(ref), after.get(ref), at, ref in named, ref in idle)
        for ref in {*before, *after}
        if (at := first_difference(before.get(ref), after.get(ref), head.start)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (not one.production, -abs(one.hours), one.ref)))


def first_difference(
    before: WorkloadTimeline | None, after: WorkloadTimeline | None, start: datetime
) -> datetime | None:
    was, now = (() if one is None else one.steps for one in (before, after))
    if was == now:
        return None
    moments = sorted({at for at, _ in (*was, *now)})
    return next((at for at in moments if _at(was, at) != _at(now, at)), start)


def _at(steps: Iterable[tuple[datetime, int]], moment: datetime) -> int | None:
    found = None
    for at, replicas in steps:
        if at <= moment:
            found = replicas
    return found


def _lowest(one: WorkloadTimeline) -> int:
    return min((segment.replicas for segment in one.segments), default=0)


def _is_lowered(one: WorkloadTimeline) -> bool:
    return _lowest(one) < one.without


def _stays_dark(one: Difference) -> bool:
    """Whether it is idle, is woken without the change, and never gets, with it, what it has without policies."""
    if not one.idle or one.before is None or one.after is None or wakes_at(one.before) is None:
        return False
    return _highest(one.after) < one.before.without


def _highest(one: WorkloadTimeline) -> int:
    return max((segment.replicas for segment in one.segments), default=0)


def wakes_at(one: WorkloadTimeline | None) -> datetime | None:
    return None if one is None else next((at for at, replicas in one.steps if replicas >= max(1, one.without)), None)


def replica_changes(one: Difference, end: datetime) -> dict[tuple[int | None, int | None], list[Span]]:
    """Return when it runs with how many replicas and, with the change, with how many; None: it is not there."""
    was, now = (() if some is None else some.steps for some in (one.before, one.after))
    moments = sorted({at for at, _ in (*was, *now)})
    found: dict[tuple[int | None, int | None], list[Span]] = {}
    for start, until in zip(moments, [*moments[1:], end], strict=True):
        pair = (_at(was, start), _at(now, start))
        if pair[0] == pair[1]:
            continue
        spans = found.setdefault(pair, [])
        first = spans.pop()[0] if spans and spans[-1][1] == start else start
        spans.append((first, until))
    return found


def alike(found: Sequence[Difference], most: int) -> list[list[Difference]]:
    """Return the workloads that differ in the same way together, those first that change most.

    A group is of one namespace. Where there would be more than `most`, it is of all namespaces.
    """

    def steps(one: Difference) -> Hashable:
        return tuple(some and (some.without, some.steps) for some in (one.before, one.after))

    groups = by_place(found, lambda one: one.ref, steps)
    if len(groups) > most:
        by_steps: dict[Hashable, list[Difference]] = {}
        for one in found:
            by_steps.setdefault(steps(one), []).append(one)
        groups = list(by_steps.values())
    return sorted(groups, key=lambda some: (-abs(sum(one.hours for one in some)), some[0].ref))


def by_place(found: Iterable[T], ref_of: Callable[[T], ObjectRef], kind_of: Callable[[T], Hashable]) -> list[list[T]]:
    """Return what is of one kind, cluster and namespace together; clusters are told apart up to MOST_CLUSTERS."""
    some = list(found)
    several = len({ref_of(one).cluster for one in some}) > MOST_CLUSTERS
    groups: dict[Hashable, list[T]] = {}
    for one in some:
        ref = ref_of(one)
        groups.setdefault(("" if several else ref.cluster, ref.namespace, kind_of(one)), []).append(one)
    return list(groups.values())
