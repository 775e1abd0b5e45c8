"""What criteria say of a Service, idle, busy or unknown, as a schedule or a metric has it; and what changes that."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import chain

from msgspec import Struct

from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, all_known, change_if, joint_change
from reconciler.decide.query_answers import Series, series_of, value_for
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.decide.schedule import exception_at, is_open, open_until, opens_next
from reconciler.model import QueryAnswer, QueryKey
from reconciler.policy.queries import render_query
from reconciler.policy.types import (
    AllOf,
    Calendar,
    Criterion,
    IdlingPolicy,
    MetricCriterion,
    ScheduleCriterion,
    WakeMetric,
    leaves,
)


class CriterionResult(StrEnum):
    """NOT_SELECTED: no policy selects it."""

    IDLE = "idle"
    BUSY = "busy"
    UNKNOWN = "unknown"
    NOT_SELECTED = "nobody"


class Evaluation(Struct, frozen=True):
    """What criteria say. `until` is when the schedules that make it idle end, None where none does.

    `threshold` is that of a metric, which is idle at or below it. `parts` are the criteria that are joined, () for one:
    idle where all of them are, or with `is_any` where one is.
    """

    result: CriterionResult
    reasons: Reasons
    until: datetime | None = None
    threshold: float | None = None
    parts: tuple[Evaluation, ...] = ()
    is_any: bool = False


class WakeWhen(Struct, frozen=True):
    """What the `wakeWhen` of a policy says, and why: it holds where a metric is above its threshold.

    `above` are the thresholds of the metrics that are above theirs, `unknown` those of the metrics without a value.
    """

    reasons: Reasons = ()
    above: tuple[float, ...] = ()
    unknown: tuple[float, ...] = ()

    @property
    def holds(self) -> bool:
        return bool(self.above)

    @property
    def may_hold(self) -> bool:
        """Whether it holds, or it is not known that it does not."""
        return bool(self.above or self.unknown)


Evaluator = Callable[[str, str | None], Evaluation]
"""(namespace, Service or None) -> evaluation."""


def _any_service(_namespace: str, _service: str) -> bool:
    return True


class Answers(Struct, frozen=True):
    """The answers to one policy on one cluster, at `now`. `selects`: whether it selects a Service, by namespace and
    name.
    """

    cluster: str
    policy: str
    said: Mapping[QueryKey, QueryAnswer]
    now: datetime
    selects: Callable[[str, str], bool] = _any_service

    def problems(self, policy: IdlingPolicy) -> Iterator[tuple[str, Reason]]:
        """Yield each whole query of `policy` that cannot be used, and why.

        One that failed is among what is unknown in the plan, and is not reported a second time.
        """
        for template, window in dict.fromkeys(policy.queries):
            problem = self.series(template, window).problem
            if problem is not None and problem.code is not ReasonCode.QUERY_FAILED:
                yield render_query(QueryKey(self.cluster, self.policy, template, window)), problem

    def series(self, template: str, window: str) -> Series:
        return series_of(self.said.get(QueryKey(self.cluster, self.policy, template, window)), self.now)


def evaluator_of(criterion: Criterion, answers: Answers) -> Evaluator:
    """Return how a policy with `criterion` judges whether a Service is idle."""
    if isinstance(criterion, ScheduleCriterion):
        evaluation = _schedule_evaluation(criterion.calendar, answers.now)
        return lambda _namespace, _service: evaluation
    if isinstance(criterion, MetricCriterion):
        return _metric_evaluator(criterion, answers)
    inner = tuple(evaluator_of(one, answers) for one in criterion.criteria)
    join = all_of if isinstance(criterion, AllOf) else any_of
    return lambda namespace, service: join(tuple(evaluate(namespace, service) for evaluate in inner))


def calendar_name(calendar: Calendar) -> str:
    """Return the name of the calendar as people use it: its own, or the hours that it states."""
    return calendar.name or ", ".join(f'"{text}"' for text in calendar.texts)


def _schedule_evaluation(calendar: Calendar, now: datetime) -> Evaluation:
    is_uptime = calendar.field == "uptime"
    if is_open(calendar, now):
        end = open_until(calendar, now)
        code = ReasonCode.OUTSIDE_UPTIME if is_uptime else ReasonCode.IN_DOWNTIME
        return Evaluation(CriterionResult.IDLE, (_schedule_reason(code, calendar, now, end),), end)
    opens = opens_next(calendar, now)
    code = ReasonCode.DOWNTIME_OVER if opens is None else ReasonCode.OUTSIDE_DOWNTIME
    if is_uptime:
        code = ReasonCode.IN_UPTIME if exception_at(calendar, now) is None else ReasonCode.UPTIME_EXCEPTION
    return Evaluation(CriterionResult.BUSY, (_schedule_reason(code, calendar, now, opens),))


def _schedule_reason(code: ReasonCode, calendar: Calendar, now: datetime, until: datetime | None) -> Reason:
    """Return the reason, with the zone that its time is shown in, and why an exception keeps things awake now."""
    exception = exception_at(calendar, now)
    return reason(
        code,
        calendar=calendar_name(calendar),
        until=until,
        timeZone=calendar.zone_name if until is not None else "",
        exception="" if exception is None else exception.reason,
    )


def _metric_evaluator(criterion: MetricCriterion, answers: Answers) -> Evaluator:
    series = answers.series(criterion.query, criterion.window)
    coverage = answers.series(criterion.coverage, criterion.window) if criterion.coverage else Series()

    @cache
    def absent() -> float | Reason:
        return _absent(series, answers) if criterion.no_series == "Zero" else reason(ReasonCode.NO_SERIES)

    def evaluate(namespace: str, service: str | None) -> Evaluation:
        gap = _gap(criterion, value_for(coverage, namespace, service)) if criterion.coverage else None
        value = value_for(series, namespace, service)
        return _metric_evaluation(criterion, gap or (absent() if value is None else value))

    return evaluate


def _absent(series: Series, answers: Answers) -> float | Reason:
    """Return the value of a Service without a series under `noSeries: Zero`, or why it is unknown.

    Where there are series, and none of them names a selected Service, their labels are not what we look for
    (`exported_namespace`), and the traffic of every Service would be taken for zero.
    """
    # An empty answer is zero traffic; series of other names only are a query with the wrong labels.
    if not series.values or any(answers.selects(*named) for named in series.values):
        return 0.0
    return reason(ReasonCode.OTHER_LABELS)


def _gap(criterion: MetricCriterion, covered: float | Reason | None) -> Reason | None:
    """Return why the coverage is not enough, None where it is."""
    least = criterion.coverage_at_least or 0
    if isinstance(covered, float) and covered >= least:
        return None
    found = "no series" if covered is None else covered if isinstance(covered, float) else str(covered)
    return reason(ReasonCode.LOW_COVERAGE, coverage=found, atLeast=float(least))


def _metric_evaluation(criterion: MetricCriterion, value: float | Reason) -> Evaluation:
    window, bound = criterion.window, float(criterion.at_most)
    if isinstance(value, Reason):
        unknown = reason(ReasonCode.METRIC_UNKNOWN, name=criterion.name or "metric", window=window)
        return Evaluation(CriterionResult.UNKNOWN, (unknown, value), threshold=bound)
    idle = value <= criterion.at_most
    code = ReasonCode.METRIC_IDLE if idle else ReasonCode.METRIC_BUSY
    why = reason(code, value=value, atMost=bound, window=window, name=criterion.name)
    return Evaluation(CriterionResult.IDLE if idle else CriterionResult.BUSY, (why,), threshold=bound)


def all_of(evaluations: tuple[Evaluation, ...]) -> Evaluation:
    """Return idle where all are idle, busy where any is, else unknown; unknown for none."""
    for result in (CriterionResult.BUSY, CriterionResult.UNKNOWN):
        found = _saying(result, evaluations)
        if found:
            return Evaluation(result, _reasons(found), parts=evaluations)
    if not evaluations:
        return _NO_CRITERION
    ends = [evaluation.until for evaluation in evaluations if evaluation.until is not None]
    return Evaluation(CriterionResult.IDLE, _reasons(evaluations), min(ends, default=None), parts=evaluations)


def any_of(evaluations: tuple[Evaluation, ...]) -> Evaluation:
    """Return idle where any is idle, busy where all are, else unknown; unknown for none."""
    for result in (CriterionResult.IDLE, CriterionResult.UNKNOWN, CriterionResult.BUSY):
        found = _saying(result, evaluations)
        if found:
            ends = [evaluation.until for evaluation in found if evaluation.until is not None]
            return Evaluation(result, _reasons(found), max(ends, default=None), parts=evaluations, is_any=True)
    return _NO_CRITERION


def _saying(result: CriterionResult, evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    return tuple(evaluation for evaluation in evaluations if evaluation.result is result)


def _reasons(evaluations: Iterable[Evaluation]) -> Reasons:
    return tuple(dict.fromkeys(chain.from_iterable(one.reasons for one in evaluations)))


_NO_CRITERION = Evaluation(CriterionResult.UNKNOWN, (reason(ReasonCode.NO_CRITERION),))

WakeEvaluator = Callable[[str, str | None], WakeWhen]
"""(namespace, Service or None) -> what `wakeWhen` says."""


def wake_evaluator_of(policy: IdlingPolicy, answers: Answers) -> WakeEvaluator:
    """Return how `policy` judges its `wakeWhen`."""
    series = [(metric, answers.series(metric.query, metric.window)) for metric in policy.wake_when]
    if not series:
        quiet = WakeWhen()
        return lambda _namespace, _service: quiet
    return lambda namespace, service: _wake_when([(one, value_for(said, namespace, service)) for one, said in series])


def _wake_when(values: Iterable[tuple[WakeMetric, float | Reason | None]]) -> WakeWhen:
    above: list[tuple[float, Reasons]] = []
    unknown: list[tuple[float, Reasons]] = []
    for metric, value in values:
        window, threshold = metric.window, float(metric.above)
        if value is None or isinstance(value, Reason):
            no_value = reason(ReasonCode.WAKE_WHEN_UNKNOWN, window=window)
            unknown.append((threshold, (no_value, value or reason(ReasonCode.NO_SERIES))))
        elif value > threshold:
            why = reason(ReasonCode.WAKE_WHEN_TRUE, value=value, above=threshold, window=window)
            above.append((threshold, (why,)))
    reasons = dict.fromkeys(chain.from_iterable(why for _, why in above or unknown))
    return WakeWhen(tuple(reasons), tuple(one for one, _ in above), tuple(one for one, _ in unknown))


def schedules_of(criterion: Criterion) -> Iterator[Calendar]:
    """Return the calendars of every schedule in `criterion`."""
    return (one.calendar for one in leaves(criterion) if isinstance(one, ScheduleCriterion))


def window_end(policy: IdlingPolicy, now: datetime) -> datetime | None:
    """Return when the last schedule window of `policy` that is open at `now` ends, None where none is open."""
    ends = [open_until(calendar, now) for calendar in schedules_of(policy.idle_when)]
    return max((end for end in ends if end is not None), default=None)


# What would change what they say.

ONLY_IDLE = frozenset({CriterionResult.IDLE})
NOT_IDLE = frozenset({CriterionResult.BUSY, CriterionResult.UNKNOWN})
ONLY_BUSY = frozenset({CriterionResult.BUSY})
NOT_BUSY = frozenset({CriterionResult.IDLE, CriterionResult.UNKNOWN})


def change_of_criteria(evaluation: Evaluation, wanted: Set[CriterionResult]) -> ChangeIf | None:
    """Return the smallest change that makes the result of `evaluation` a `wanted` one, None where none is known."""
    if not evaluation.parts:
        return _change_of_criterion(evaluation, wanted)
    changes = [change_of_criteria(one, wanted) for one in evaluation.parts if one.result not in wanted]
    any_is_enough = evaluation.is_any is (CriterionResult.IDLE in wanted)
    return joint_change(ChangeIfCode.ANY, changes) if any_is_enough else all_known(changes)


_SCHEDULES = {
    ReasonCode.OUTSIDE_UPTIME: (ChangeIfCode.WINDOW, "uptime"),
    ReasonCode.IN_UPTIME: (ChangeIfCode.END, "uptime"),
    ReasonCode.UPTIME_EXCEPTION: (ChangeIfCode.END, "uptime"),
    ReasonCode.IN_DOWNTIME: (ChangeIfCode.END, "schedule"),
    ReasonCode.OUTSIDE_DOWNTIME: (ChangeIfCode.ANOTHER_WINDOW, "schedule"),
    ReasonCode.DOWNTIME_OVER: (ChangeIfCode.ANOTHER_WINDOW, "schedule"),
}


def _change_of_criterion(evaluation: Evaluation, wanted: Container[CriterionResult]) -> ChangeIf | None:
    """Return what changes one criterion: a schedule by itself, where it knows when, and a metric at its threshold."""
    to_idle = CriterionResult.IDLE in wanted
    if evaluation.threshold is not None and evaluation.result is CriterionResult.UNKNOWN:
        return change_if(ChangeIfCode.METRIC_KNOWN, **{"atMost" if to_idle else "above": evaluation.threshold})
    if evaluation.threshold is not None:
        code = ChangeIfCode.METRIC_AT_MOST if to_idle else ChangeIfCode.METRIC_ABOVE
        return change_if(code, bound=evaluation.threshold)
    said = next(iter(evaluation.reasons), None)
    if said is None or said.code not in _SCHEDULES:
        return None
    if "until" in said.values:
        return change_if(ChangeIfCode.AT, at=said.values["until"], timeZone=said.values["timeZone"])
    code, stated = _SCHEDULES[said.code]
    return change_if(code, calendar=f"{stated} {said.values['calendar']}")
