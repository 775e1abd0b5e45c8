"""What a policy's criteria say of one Service: idle, busy or unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import format_time
from reconciler.decide.metrics import Series, series_of, value_for
from reconciler.decide.schedule import exception_at, is_open, open_until, opens_next
from reconciler.model import NOTHING, QueryAnswer, QueryKey
from reconciler.policy.queries import render_query
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


class CriterionResult(StrEnum):
    """NOBODY: no policy selects it."""

    IDLE = "idle"
    BUSY = "busy"
    UNKNOWN = "unknown"
    NOT_SELECTED = "nobody"


class Evaluation(Struct, frozen=True):
    """What criteria say, in words; `counterfactual` is the smallest change that would alter it.

    `until` is when the schedules that make it idle end, None where none does.
    """

    result: CriterionResult
    words: str
    counterfactual: str = ""
    until: datetime | None = None
    values: Mapping[str, Any] = NOTHING


Evaluator = Callable[[str, str | None], Evaluation]
"""(namespace, Service or None) -> verdict."""


def _any_service(_namespace: str, _service: str) -> bool:
    return True


class Answers(Struct, frozen=True):
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
                query = render_query(template, window=window, cluster=self.cluster, policy=self.policy)
                yield f"{query}: {problem}"

    def series(self, template: str, window: str) -> Series:
        return series_of(self.said.get(QueryKey(self.cluster, self.policy, template, window)), self.now)


def evaluator_of(policy: IdlingPolicy, answers: Answers) -> Evaluator:
    """Return how `policy` judges whether a Service is idle."""
    return _evaluator(policy.idle_when, answers)


def _evaluator(criterion: Criterion, answers: Answers) -> Evaluator:
    if isinstance(criterion, ScheduleCriterion):
        evaluation = _schedule_evaluation(criterion.calendar, answers.now)
        return lambda _namespace, _service: evaluation
    if isinstance(criterion, MetricCriterion):
        return _metric_evaluator(criterion, answers)
    inner = tuple(_evaluator(one, answers) for one in criterion.criteria)
    join = all_of if isinstance(criterion, AllOf) else any_of
    return lambda namespace, service: join(tuple(evaluate(namespace, service) for evaluate in inner))


def calendar_name(calendar: Calendar) -> str:
    """Return the name of the schedule as people use it: its own, or the hours that it states."""
    stated = "uptime" if calendar.field == "uptime" else "schedule"
    texts = ", ".join(f'"{text}"' for text in calendar.texts)
    return f"{stated} {calendar.name or texts}"


def _schedule_evaluation(calendar: Calendar, now: datetime) -> Evaluation:
    return (_uptime_evaluation if calendar.field == "uptime" else _downtime_evaluation)(calendar, now)


def _uptime_evaluation(calendar: Calendar, now: datetime) -> Evaluation:
    name, exception, reason = calendar_name(calendar), exception_at(calendar, now), _reason(calendar, now)
    if is_open(calendar, now):
        end = open_until(calendar, now)
        result, words, counterfactual = CriterionResult.IDLE, f"outside {name}", f"a window of {name}"
    else:
        end = opens_next(calendar, now)
        result, words, counterfactual = (
            CriterionResult.BUSY,
            f"in {name}" if exception is None else f"exception to {name}",
            f"an end of {name}",
        )
    if end is None:
        return Evaluation(result, f"{words} without end{reason}", counterfactual)
    until = end if result is CriterionResult.IDLE else None
    return Evaluation(result, f"{words} until {format_time(end)}{reason}", f"from {format_time(end)}", until)


def _downtime_evaluation(calendar: Calendar, now: datetime) -> Evaluation:
    name = calendar_name(calendar)
    if is_open(calendar, now):
        until = open_until(calendar, now)
        if until is None:
            return Evaluation(CriterionResult.IDLE, f"{name} without end", f"an end of {name}")
        return Evaluation(
            CriterionResult.IDLE, f"{name} until {format_time(until)}", f"from {format_time(until)}", until
        )
    opens, reason = opens_next(calendar, now), _reason(calendar, now)
    if opens is None:
        return Evaluation(CriterionResult.BUSY, f"{name} is over{reason}", f"another window of {name}")
    return Evaluation(
        CriterionResult.BUSY, f"{name} closed until {format_time(opens)}{reason}", f"from {format_time(opens)}"
    )


def _reason(calendar: Calendar, now: datetime) -> str:
    """Return " (why)" where an exception that has a reason keeps things awake now, else ""."""
    exception = exception_at(calendar, now)
    return f" ({exception.reason})" if exception is not None and exception.reason else ""


def _metric_evaluator(criterion: MetricCriterion, answers: Answers) -> Evaluator:
    series = answers.series(criterion.query, criterion.window)
    coverage = Series() if criterion.coverage is None else answers.series(criterion.coverage, criterion.window)

    @cache
    def absent() -> float | str:
        return _absent(series, answers) if criterion.no_series == "Zero" else "no series"

    def evaluate(namespace: str, service: str | None) -> Evaluation:
        gap = _gap(criterion, value_for(coverage, namespace, service)) if criterion.coverage is not None else ""
        value = value_for(series, namespace, service)
        return _metric_evaluation(criterion, gap or (absent() if value is None else value))

    return evaluate


def _absent(series: Series, answers: Answers) -> float | str:
    """Return the value of a Service without a series under `noSeries: Zero`, or why it is unknown.

    Where there are series, and none of them names a selected Service, their labels are not what we look for
    (`exported_namespace`), and the traffic of every Service would be taken for zero.
    """
    # An empty answer is zero traffic; series of other names only are a query with the wrong labels.
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


def _metric_evaluation(criterion: MetricCriterion, value: float | str) -> Evaluation:
    window = f" in {criterion.window}" if criterion.window else ""
    if isinstance(value, str):
        return Evaluation(
            CriterionResult.UNKNOWN, f"{criterion.name or 'metric'} unknown{window}: {value}", "a value for it"
        )
    name = f"{criterion.name} " if criterion.name else ""
    bound = f"{criterion.at_most:.12g}"
    values = {"value": value, "atMost": criterion.at_most, "window": criterion.window}
    if value <= criterion.at_most:
        return Evaluation(
            CriterionResult.IDLE, f"{name}{value:.12g} at most {bound}{window}", f"a value above {bound}", None, values
        )
    return Evaluation(
        CriterionResult.BUSY, f"{name}{value:.12g} above {bound}{window}", f"a value of at most {bound}", None, values
    )


def all_of(evaluations: tuple[Evaluation, ...]) -> Evaluation:
    """Return idle where all are idle, busy where any is, else unknown; unknown for none."""
    for result in (CriterionResult.BUSY, CriterionResult.UNKNOWN):
        found = [evaluation for evaluation in evaluations if evaluation.result is result]
        if found:
            return _joined(result, found, " and ")
    if not evaluations:
        return Evaluation(CriterionResult.UNKNOWN, "no criterion", "a criterion")
    ends = [evaluation.until for evaluation in evaluations if evaluation.until is not None]
    return replace(_joined(CriterionResult.IDLE, evaluations, " or "), until=min(ends, default=None))


def any_of(evaluations: tuple[Evaluation, ...]) -> Evaluation:
    """Return idle where any is idle, busy where all are, else unknown; unknown for none."""
    idle = [evaluation for evaluation in evaluations if evaluation.result is CriterionResult.IDLE]
    if idle:
        ends = [evaluation.until for evaluation in idle if evaluation.until is not None]
        return replace(_joined(CriterionResult.IDLE, idle, " and "), until=max(ends, default=None))
    unknown = [evaluation for evaluation in evaluations if evaluation.result is CriterionResult.UNKNOWN]
    if unknown:
        return _joined(CriterionResult.UNKNOWN, unknown, " or ")
    if not evaluations:
        return Evaluation(CriterionResult.UNKNOWN, "no criterion", "a criterion")
    return _joined(CriterionResult.BUSY, evaluations, " or ")


def _joined(result: CriterionResult, evaluations: Iterable[Evaluation], flips: str) -> Evaluation:
    found = tuple(evaluations)
    values: dict[str, Any] = {}
    for evaluation in found:
        values.update(evaluation.values)
    return Evaluation(
        result,
        ", ".join(dict.fromkeys(evaluation.words for evaluation in found)),
        flips.join(dict.fromkeys(evaluation.counterfactual for evaluation in found if evaluation.counterfactual)),
        None,
        values or NOTHING,
    )


def wake_evaluator_of(policy: IdlingPolicy, answers: Answers) -> Evaluator:
    """Return how `policy` judges its `wakeWhen`: BUSY where one holds, IDLE where none does, else UNKNOWN."""
    series = [(metric, answers.series(metric.query, metric.window)) for metric in policy.wake_when]
    if not series:
        quiet = Evaluation(CriterionResult.IDLE, "no wakeWhen")
        return lambda _namespace, _service: quiet
    return lambda namespace, service: all_of(
        tuple(_wake_evaluation(metric, value_for(one, namespace, service)) for metric, one in series)
    )


def _wake_evaluation(metric: WakeMetric, value: float | str | None) -> Evaluation:
    bound = f"{metric.above:.12g}"
    if value is None or isinstance(value, str):
        return Evaluation(
            CriterionResult.UNKNOWN, f"wakeWhen unknown in {metric.window}: {value or 'no series'}", "a value for it"
        )
    if value > metric.above:
        return Evaluation(
            CriterionResult.BUSY, f"wakeWhen {value:.12g} above {bound} in {metric.window}", f"at most {bound}"
        )
    return Evaluation(
        CriterionResult.IDLE, f"wakeWhen {value:.12g} at most {bound} in {metric.window}", f"above {bound}"
    )


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
