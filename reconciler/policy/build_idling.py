"""An IdlingPolicy document -> IdlingPolicy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from reconciler.policy.build_calendar import STATED, build_calendar
from reconciler.policy.build_selector import build_selector
from reconciler.policy.building import Reading, check_own_name
from reconciler.policy.types import (
    AllOf,
    AnyOf,
    Calendar,
    Criterion,
    IdlingPolicy,
    Limits,
    MetricCriterion,
    ScheduleCriterion,
    WakeMetric,
    WakeOrder,
)
from reconciler.policy.words import nearest
from reconciler.yaml.words import Path, shown

_KINDS = ("metric", "schedule", "anyOf", "allOf")


@dataclass(frozen=True, slots=True)
class Calendars:
    """The Calendar documents by name, None for those that are broken themselves.

    `complete` False: some document could not be read, and may be one more.
    """

    named: Mapping[str, Calendar | None]
    complete: bool = True


def build_idling(reading: Reading, calendars: Calendars) -> IdlingPolicy:
    """Return the policy; its problems are gathered in `reading`."""
    builder = _Criteria(reading, calendars)
    idle_when = AllOf(builder.all_at(("spec", "idleWhen")))
    policy = IdlingPolicy(
        name=reading.name,
        place=reading.place,
        selector=build_selector(reading),
        idle_when=idle_when,
        mode=reading.get(("spec", "mode"), "Enforce"),
        priority=reading.whole(("spec", "priority"), 0),
        min_age=reading.duration(("spec", "minAge"), timedelta(hours=1)),
        min_awake=reading.duration(("spec", "minAwake"), timedelta(hours=2)),
        idle_replicas=reading.whole(("spec", "idleReplicas"), 0),
        wake_when=tuple(
            _wake_metric(reading, position) for position in range(len(reading.get(("spec", "wakeWhen"), ())))
        ),
        wake=reading.get(("spec", "wake"), "Automatic"),
        wake_order=_wake_order(reading),
        hpa=reading.get(("spec", "autoscalers", "hpa"), "Idle"),
        keda=reading.get(("spec", "autoscalers", "keda"), "Pause"),
        mark_endpoints=reading.get(("spec", "markEndpoints"), False),
        limits=reading.limits(("spec", "limits"), Limits()),
    )
    _check(reading, policy, broken=builder.broken)
    return policy


def criteria(criterion: Criterion) -> Iterator[MetricCriterion | ScheduleCriterion]:
    """Yield the metric and schedule criteria inside `criterion`."""
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from criteria(inner)
    else:
        yield criterion


class _Criteria:
    """Builds the criteria of one policy."""

    def __init__(self, reading: Reading, calendars: Calendars) -> None:
        self._reading = reading
        self._calendars = calendars
        self.broken = False

    def all_at(self, path: Path) -> tuple[Criterion, ...]:
        count = len(self._reading.get(path, ()))
        found = [self._criterion((*path, position)) for position in range(count)]
        self.broken = self.broken or None in found
        return tuple(criterion for criterion in found if criterion is not None)

    def _criterion(self, path: Path) -> Criterion | None:
        given = [kind for kind in _KINDS if self._reading.get((*path, kind)) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "is empty"
            self._reading.add(path, f"{what}, expected exactly one of metric, schedule, anyOf and allOf")
            return None
        inside, name = (*path, given[0]), str(self._reading.get((*path, "name"), ""))
        if given[0] == "metric":
            return self._metric(inside, name)
        if name:
            self._reading.add((*path, "name"), f"stands beside {given[0]}, expected it beside a metric", key=True)
        if given[0] == "schedule":
            return self._schedule(inside)
        return (AnyOf if given[0] == "anyOf" else AllOf)(self.all_at(inside))

    def _metric(self, path: Path, name: str) -> MetricCriterion:
        reading = self._reading
        coverage, least = reading.get((*path, "coverage")), reading.get((*path, "coverageAtLeast"))
        if (coverage is None) != (least is None):
            missing = "coverageAtLeast" if least is None else "coverage"
            reading.add((*path, missing), "is missing, expected coverage and coverageAtLeast together")
        return MetricCriterion(
            query=reading.query((*path, "query")),
            at_most=reading.get((*path, "atMost"), 0),
            window=reading.duration_text((*path, "window"), "30m"),
            coverage=None if coverage is None else reading.query((*path, "coverage")),
            coverage_at_least=least,
            no_series=reading.get((*path, "noSeries"), "Unknown"),
            name=name,
        )

    def _schedule(self, path: Path) -> ScheduleCriterion | None:
        reading = self._reading
        name = reading.get((*path, "calendar"))
        own = [field for field in ("timeZone", *STATED) if self._is_given((*path, field))]
        if name is not None and own:
            reading.add(path, "has a calendar and hours of its own, expected one of the two")
            return None
        if name is None:
            return self._own_calendar(path, own)
        if name not in self._calendars.named and self._calendars.complete:
            near = nearest(name, self._calendars.named)
            reading.add((*path, "calendar"), f"is {shown(name)}, expected the name of a Calendar{near}")
        found = self._calendars.named.get(name)
        return None if found is None else ScheduleCriterion(found)

    def _is_given(self, path: Path) -> bool:
        """Return whether there is a value, or was one that is told to be wrong already."""
        return self._reading.get(path) is not None or path in self._reading.document.taken_out

    def _own_calendar(self, path: Path, own: list[str]) -> ScheduleCriterion | None:
        missing = "timeZone" if "timeZone" not in own else "downtime" if len(own) == 1 else ""
        if missing:
            self._reading.add(
                (*path, missing), "is missing, expected a calendar by name, or timeZone and downtime or uptime here"
            )
            return None
        return ScheduleCriterion(build_calendar(self._reading, path, ""))


def _wake_metric(reading: Reading, position: int) -> WakeMetric:
    path: Path = ("spec", "wakeWhen", position, "metric")
    return WakeMetric(
        query=reading.query((*path, "query")),
        above=reading.get((*path, "above"), 0),
        window=reading.duration_text((*path, "window"), "5m"),
    )


def _wake_order(reading: Reading) -> WakeOrder:
    path: Path = ("spec", "wakeOrder")
    return WakeOrder(
        group=str(reading.get((*path, "group"), reading.name)),
        tier=reading.whole((*path, "tier"), 10),
        per_run=None if reading.get((*path, "perRun")) is None else reading.whole((*path, "perRun"), 1),
    )


def _check(reading: Reading, policy: IdlingPolicy, *, broken: bool) -> None:
    check_own_name(reading)
    if policy.wake == "OnSignal" and policy.wake_when:
        reading.warn(("spec", "wakeWhen"), "wakes nothing beside wake: OnSignal, it only keeps things awake")
    if policy.selector.services is not None and policy.selector.workloads is not None:
        reading.warn(
            ("spec", "selector"),
            "has services and workloads, which add up: what workloads selects is idled, and what is behind a selected "
            "Service too, whether workloads selects that or not",
        )
    if broken:
        return
    inside = list(criteria(policy.idle_when))
    has_metric = any(isinstance(criterion, MetricCriterion) for criterion in inside)
    has_schedule = any(isinstance(criterion, ScheduleCriterion) for criterion in inside)
    if policy.selector.services is None:
        _check_without_services(reading, policy, has_metric=has_metric)
    if has_metric and not has_schedule and not policy.wake_when and policy.wake == "Automatic":
        reading.add(
            ("spec", "idleWhen"),
            "has a metric criterion that idle pods can never turn busy, expected a schedule or wakeWhen beside it, "
            "or wake: OnSignal",
        )


def _check_without_services(reading: Reading, policy: IdlingPolicy, *, has_metric: bool) -> None:
    if policy.selector.workloads is None:
        reading.add(("spec", "selector"), "selects nothing, expected services, workloads or both")
    only = "expected only schedules for workloads that are selected without a Service"
    if has_metric:
        reading.add(("spec", "idleWhen"), f"has a metric criterion, {only}")
    if policy.wake_when:
        reading.add(("spec", "wakeWhen"), f"names no Service of these workloads, {only}", key=True)
