"""What a policy's criteria say of one Service: idle, busy or unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from reconciler.decide.annotations import format_time
from reconciler.decide.metrics import why_unusable
from reconciler.decide.schedule import exception_at, is_open, open_until, opens_next
from reconciler.model import NOTHING, QueryAnswer, QueryKey
from reconciler.policy.types import (
    AllOf,
    AnyOf,
    Calendar,
    Criterion,
    IdlingPolicy,
    MetricCriterion,
    ScheduleCriterion,
    WakeMetric,
)


class Says(StrEnum):
    """NOBODY: no policy selects it."""

    IDLE = "idle"
    BUSY = "busy"
    UNKNOWN = "unknown"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What criteria say, in words; `flip` is the smallest change that would alter it.

    `until` is when the schedules that make it idle end, None where none does.
    """

    says: Says
    words: str
    flip: str = ""
    until: datetime | None = None
    values: Mapping[str, Any] = NOTHING


Judge = Callable[[str, str | None], Verdict]
"""(namespace, Service or None) -> verdict."""


def _any_service(_namespace: str, _service: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Answers:
    """What one policy was told on one cluster, at `now`. `selects`: whether it selects a Service, by namespace and
    name.
    """

    cluster: str
    policy: str
    said: Mapping[QueryKey, QueryAnswer]
    now: datetime
    selects: Callable[[str, str], bool] = _any_service

    def problems(self, policy: IdlingPolicy) -> Iterator[str]:
        """Yield why a whole query of `policy` cannot be used, once for each that cannot."""
        for template, window in dict.fromkeys(queries_of(policy)):
            problem = self.series(template, window).problem
            if problem:
                yield f"{template}{f' in {window}' if window else ''}: {problem}"

    def series(self, template: str, window: str) -> _Series:
        return _series(self.said.get(QueryKey(self.cluster, self.policy, template, window)), self.now)


@dataclass(frozen=True, slots=True)
class _Series:
    """The values of one answer by (namespace, service); `problem` set: nothing in it can be used."""

    values: Mapping[tuple[str, str], tuple[float, ...]] = NOTHING
    problem: str = ""


def _series(answer: QueryAnswer | None, now: datetime) -> _Series:
    problem = why_unusable(answer, now)
    if answer is None or problem:
        return _Series(problem=problem)
    values: dict[tuple[str, str], tuple[float, ...]] = {}
    for sample in answer.samples:
        key = (sample.labels.get("namespace", ""), sample.labels.get("service", ""))
        values[key] = (*values.get(key, ()), float(sample.value))
    return _Series(values)


def _value(series: _Series, namespace: str, service: str | None) -> float | str | None:
    """Return the one finite value for the Service, None where there is no series, else why it is unknown."""
    if service is None:
        return "a metric needs a Service"
    if series.problem:
        return series.problem
    found = series.values.get((namespace, service), ())
    if len(found) > 1:
        return f"given {len(found)} times"
    if found and not math.isfinite(found[0]):
        return f"{found[0]}"
    return found[0] if found else None


def judge_of(policy: IdlingPolicy, answers: Answers) -> Judge:
    """Return how `policy` judges whether a Service is idle."""
    return _judge(policy.idle_when, answers)


def _judge(criterion: Criterion, answers: Answers) -> Judge:
    if isinstance(criterion, ScheduleCriterion):
        verdict = _schedule_verdict(criterion.calendar, answers.now)
        return lambda _namespace, _service: verdict
    if isinstance(criterion, MetricCriterion):
        return _metric_judge(criterion, answers)
    inner = tuple(_judge(one, answers) for one in criterion.criteria)
    join = all_of if isinstance(criterion, AllOf) else any_of
    return lambda namespace, service: join(tuple(judge(namespace, service) for judge in inner))


def calendar_name(calendar: Calendar) -> str:
    """Return what a person calls the schedule: by the hours that it states, or its name."""
    stated = "uptime" if calendar.field == "uptime" else "schedule"
    texts = ", ".join(f'"{text}"' for text in calendar.texts)
    return f"{stated} {calendar.name or texts}"


def _schedule_verdict(calendar: Calendar, now: datetime) -> Verdict:
    return (_uptime_verdict if calendar.field == "uptime" else _downtime_verdict)(calendar, now)


def _uptime_verdict(calendar: Calendar, now: datetime) -> Verdict:
    name, exception, reason = calendar_name(calendar), exception_at(calendar, now), _reason(calendar, now)
    if is_open(calendar, now):
        end = open_until(calendar, now)
        says, words, flip = Says.IDLE, f"outside {name}", f"a window of {name}"
    else:
        end = opens_next(calendar, now)
        says, words, flip = (
            Says.BUSY,
            f"in {name}" if exception is None else f"exception to {name}",
            f"an end of {name}",
        )
    if end is None:
        return Verdict(says, f"{words} without end{reason}", flip)
    until = end if says is Says.IDLE else None
    return Verdict(says, f"{words} until {format_time(end)}{reason}", f"from {format_time(end)}", until)


def _downtime_verdict(calendar: Calendar, now: datetime) -> Verdict:
    name = calendar_name(calendar)
    if is_open(calendar, now):
        until = open_until(calendar, now)
        if until is None:
            return Verdict(Says.IDLE, f"{name} without end", f"an end of {name}")
        return Verdict(Says.IDLE, f"{name} until {format_time(until)}", f"from {format_time(until)}", until)
    opens, reason = opens_next(calendar, now), _reason(calendar, now)
    if opens is None:
        return Verdict(Says.BUSY, f"{name} is over{reason}", f"another window of {name}")
    return Verdict(Says.BUSY, f"{name} closed until {format_time(opens)}{reason}", f"from {format_time(opens)}")


def _reason(calendar: Calendar, now: datetime) -> str:
    """Return " (why)" where an exception that has a reason keeps things awake now, else ""."""
    exception = exception_at(calendar, now)
    return f" ({exception.reason})" if exception is not None and exception.reason else ""


def _metric_judge(criterion: MetricCriterion, answers: Answers) -> Judge:
    series = answers.series(criterion.query, criterion.window)
    coverage = _Series() if criterion.coverage is None else answers.series(criterion.coverage, criterion.window)

    @cache
    def absent() -> float | str:
        return _absent(series, answers) if criterion.no_series == "Zero" else "no series"

    def judge(namespace: str, service: str | None) -> Verdict:
        gap = _gap(criterion, _value(coverage, namespace, service)) if criterion.coverage is not None else ""
        value = _value(series, namespace, service)
        return _metric_verdict(criterion, gap or (absent() if value is None else value))

    return judge


def _absent(series: _Series, answers: Answers) -> float | str:
    """Return what a Service without a series has where that may count as zero.

    Where there are series, and none of them names a selected Service, their labels are not what we look for
    (`exported_namespace`), and the traffic of every Service would be taken for zero.
    """
    if not series.values or any(answers.selects(*named) for named in series.values):
        return 0.0
    return "none of its series names a selected Service by the labels namespace and service"


def _gap(criterion: MetricCriterion, covered: float | str | None) -> str:
    """Return why the coverage is not enough, "" where it is."""
    least = criterion.coverage_at_least or 0
    if isinstance(covered, float) and covered >= least:
        return ""
    found = "no series" if covered is None else covered if isinstance(covered, str) else f"{covered:.12g}"
    return f"coverage is {found}, expected at least {least:.12g}"


def _metric_verdict(criterion: MetricCriterion, value: float | str) -> Verdict:
    window = f" in {criterion.window}" if criterion.window else ""
    if isinstance(value, str):
        return Verdict(Says.UNKNOWN, f"{criterion.name or 'metric'} unknown{window}: {value}", "a value for it")
    name = f"{criterion.name} " if criterion.name else ""
    bound = f"{criterion.at_most:.12g}"
    values = {"value": value, "atMost": criterion.at_most, "window": criterion.window}
    if value <= criterion.at_most:
        return Verdict(Says.IDLE, f"{name}{value:.12g} at most {bound}{window}", f"a value above {bound}", None, values)
    return Verdict(Says.BUSY, f"{name}{value:.12g} above {bound}{window}", f"a value of at most {bound}", None, values)


def all_of(verdicts: tuple[Verdict, ...]) -> Verdict:
    """Return idle where all are idle, busy where any is, else unknown; unknown for none."""
    for says in (Says.BUSY, Says.UNKNOWN):
        found = [verdict for verdict in verdicts if verdict.says is says]
        if found:
            return _joined(says, found, " and ")
    if not verdicts:
        return Verdict(Says.UNKNOWN, "no criterion", "a criterion")
    ends = [verdict.until for verdict in verdicts if verdict.until is not None]
    return replace(_joined(Says.IDLE, verdicts, " or "), until=min(ends, default=None))


def any_of(verdicts: tuple[Verdict, ...]) -> Verdict:
    """Return idle where any is idle, busy where all are, else unknown; unknown for none."""
    idle = [verdict for verdict in verdicts if verdict.says is Says.IDLE]
    if idle:
        ends = [verdict.until for verdict in idle if verdict.until is not None]
        return replace(_joined(Says.IDLE, idle, " and "), until=max(ends, default=None))
    unknown = [verdict for verdict in verdicts if verdict.says is Says.UNKNOWN]
    if unknown:
        return _joined(Says.UNKNOWN, unknown, " or ")
    if not verdicts:
        return Verdict(Says.UNKNOWN, "no criterion", "a criterion")
    return _joined(Says.BUSY, verdicts, " or ")


def _joined(says: Says, verdicts: Iterable[Verdict], flips: str) -> Verdict:
    found = tuple(verdicts)
    values: dict[str, Any] = {}
    for verdict in found:
        values.update(verdict.values)
    return Verdict(
        says,
        ", ".join(dict.fromkeys(verdict.words for verdict in found)),
        flips.join(dict.fromkeys(verdict.flip for verdict in found if verdict.flip)),
        None,
        values or NOTHING,
    )


def wake_judge_of(policy: IdlingPolicy, answers: Answers) -> Judge:
    """Return how `policy` judges its `wakeWhen`: BUSY where one holds, IDLE where none does, else UNKNOWN."""
    series = [(metric, answers.series(metric.query, metric.window)) for metric in policy.wake_when]
    if not series:
        quiet = Verdict(Says.IDLE, "no wakeWhen")
        return lambda _namespace, _service: quiet
    return lambda namespace, service: all_of(
        tuple(_wake_verdict(metric, _value(one, namespace, service)) for metric, one in series)
    )


def _wake_verdict(metric: WakeMetric, value: float | str | None) -> Verdict:
    bound = f"{metric.above:.12g}"
    if value is None or isinstance(value, str):
        return Verdict(Says.UNKNOWN, f"wakeWhen unknown in {metric.window}: {value or 'no series'}", "a value for it")
    if value > metric.above:
        return Verdict(Says.BUSY, f"wakeWhen {value:.12g} above {bound} in {metric.window}", f"at most {bound}")
    return Verdict(Says.IDLE, f"wakeWhen {value:.12g} at most {bound} in {metric.window}", f"above {bound}")


def schedules_of(criterion: Criterion) -> Iterator[Calendar]:
    """Yield the calendars of every schedule in `criterion`."""
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from schedules_of(inner)
    elif isinstance(criterion, ScheduleCriterion):
        yield criterion.calendar


def queries_of(policy: IdlingPolicy) -> Iterator[tuple[str, str]]:
    """Yield (template, window) of every query of `policy`."""
    yield from ((metric.query, metric.window) for metric in policy.wake_when)
    yield from _queries(policy.idle_when)


def _queries(criterion: Criterion) -> Iterator[tuple[str, str]]:
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from _queries(inner)
    elif isinstance(criterion, MetricCriterion):
        yield criterion.query, criterion.window
        if criterion.coverage is not None:
            yield criterion.coverage, criterion.window


def window_end(policy: IdlingPolicy, now: datetime) -> datetime | None:
    """Return when the last schedule window of `policy` that is open at `now` ends, None where none is open."""
    ends = [open_until(calendar, now) for calendar in schedules_of(policy.idle_when)]
    return max((end for end in ends if end is not None), default=None)
