"""What policies say of a workload: each by its criteria, and all that select it as one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from datetime import datetime
from enum import StrEnum
from functools import cache, cached_property, lru_cache, partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import parse_time
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, all_known, change_if, joint_change
from reconciler.decide.query_answers import Answers, coverage_gap, value_for
from reconciler.decide.reasons import Code, Reason, ReasonCode, Reasons, reason
from reconciler.decide.schedule import REACHES, exception_at, is_open, open_periods, open_until, opens_next
from reconciler.decide.selectors import of_highest_priority
from reconciler.policy.kinds.criteria import leaves
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
    """NOT_SELECTED: no policy selects it."""

    IDLE = "idle"
    BUSY = "busy"
    UNKNOWN = "unknown"
    NOT_SELECTED = "not selected"


ONLY_IDLE = frozenset({CriterionResult.IDLE})
NOT_IDLE = frozenset({CriterionResult.BUSY, CriterionResult.UNKNOWN})
ONLY_BUSY = frozenset({CriterionResult.BUSY})
NOT_BUSY = frozenset({CriterionResult.IDLE, CriterionResult.UNKNOWN})


class Transition(Struct, frozen=True):
    """When schedules come to another result together, on the clock of `zone`; None: not within a year."""

    at: datetime | None
    zone: str = ""


class PolicyVerdict(Struct, frozen=True):
    """What `policy` says of what it selects: by all its criteria, or by one of them as one of `parts`.

    `until` is when the schedules that make it idle end, None where none does. `threshold` is that of a metric, which is
    idle at or below it. `parts` are the criteria that are joined, () for one: idle where all of them are, or with
    `is_any` where one is; `schedules` are these and now, where all of them are schedules. `wake_when` is what its
    `wakeWhen` says: busy where a metric is above its threshold.
    """

    policy: IdlingPolicy
    result: CriterionResult
    reasons: Reasons
    until: datetime | None = None
    threshold: float | None = None
    parts: tuple[PolicyVerdict, ...] = ()
    is_any: bool = False
    schedules: tuple[Criterion, datetime] | None = None
    wake_when: PolicyVerdict | None = None

    @property
    def wakes(self) -> bool:
        """Whether what it says wakes: not with `wake: OnSignal`."""
        return self.policy.wake == "Automatic"

    @property
    def may_wake(self) -> bool:
        """Whether its `wakeWhen` holds, or it is not known that it does not."""
        return self.wake_when is not None and self.wake_when.result is not CriterionResult.IDLE

    def change_if(self, wanted: Set[CriterionResult]) -> ChangeIf | None:
        """Return the smallest change that makes the result a `wanted` one, None where none is known."""
        if self.schedules is not None:
            then = _next_transition(*self.schedules)
            return None if then.at is None else change_if(ChangeIfCode.AT, at=then.at, timeZone=then.zone)
        if not self.parts:
            return _change_of_criterion(self, wanted)
        changes = [part.change_if(wanted) for part in self.parts if part.result not in wanted]
        any_is_enough = self.is_any is (CriterionResult.IDLE in wanted)
        return joint_change(ChangeIfCode.ANY, changes) if any_is_enough else all_known(changes)


_SCHEDULES = {
    ReasonCode.OUTSIDE_UPTIME: (ChangeIfCode.WINDOW, "uptime"),
    ReasonCode.IN_UPTIME: (ChangeIfCode.END, "uptime"),
    ReasonCode.UPTIME_EXCEPTION: (ChangeIfCode.END, "uptime"),
    ReasonCode.IN_DOWNTIME: (ChangeIfCode.END, "schedule"),
    ReasonCode.OUTSIDE_DOWNTIME: (ChangeIfCode.ANOTHER_WINDOW, "schedule"),
    ReasonCode.DOWNTIME_OVER: (ChangeIfCode.ANOTHER_WINDOW, "schedule"),
}


_WAKE_WHEN = (ReasonCode.WAKE_WHEN_TRUE, ReasonCode.WAKE_WHEN_UNKNOWN)


def _change_of_criterion(verdict: PolicyVerdict, wanted: Container[CriterionResult]) -> ChangeIf | None:
    """Return what changes one criterion: a schedule by itself, where it knows when, and a metric at its threshold."""
    to_idle, said = CriterionResult.IDLE in wanted, next(iter(verdict.reasons), None)
    if verdict.threshold is not None:
        name = "" if said is None else str(said.values.get("name", ""))
        name = "" if name == "metric" else name
        field = "wakeWhen" if said is not None and said.code in _WAKE_WHEN else ""
        if verdict.result is CriterionResult.UNKNOWN:
            bounds = {"atMost" if to_idle else "above": verdict.threshold}
            return change_if(ChangeIfCode.METRIC_KNOWN, name=name, field=field, **bounds)
        code = ChangeIfCode.METRIC_AT_MOST if to_idle else ChangeIfCode.METRIC_ABOVE
        return change_if(code, name=name, field=field, bound=verdict.threshold)
    if said is None or said.code not in _SCHEDULES:
        return None
    if "until" in said.values:
        return change_if(ChangeIfCode.AT, at=said.values["until"], timeZone=said.values["timeZone"])
    code, stated = _SCHEDULES[said.code]
    return change_if(code, calendar=f"{stated} {said.values['calendar']}")


Evaluator = Callable[[str, str | None], PolicyVerdict]
"""(namespace, Service or None) -> what a policy says of it."""


def evaluator_of(policy: IdlingPolicy, answers: Answers) -> Evaluator:
    """Return how `policy` judges whether a Service is idle, and whether its `wakeWhen` holds."""
    evaluate = _criterion_evaluator(policy, policy.idle_when, answers)
    if not policy.wake_when:
        return evaluate
    series = [(metric, answers.series(metric.query, metric.window)) for metric in policy.wake_when]

    def judge(namespace: str, service: str | None) -> PolicyVerdict:
        said = [_wake_verdict(policy, metric, value_for(found, namespace, service)) for metric, found in series]
        return replace(evaluate(namespace, service), wake_when=joined(policy, tuple(said), is_any=False))

    return judge


def _criterion_evaluator(policy: IdlingPolicy, criterion: Criterion, answers: Answers) -> Evaluator:
    if isinstance(criterion, ScheduleCriterion):
        scheduled = _schedule_verdict(policy, criterion.calendar, answers.now)
        return lambda _namespace, _service: scheduled
    if isinstance(criterion, MetricCriterion):
        return _metric_evaluator(policy, criterion, answers)
    timed = tuple(part for part in criterion.criteria if _is_timed(part))
    if 1 < len(timed) < len(criterion.criteria):  # beside a metric they count together, too
        others = (part for part in criterion.criteria if part not in timed)
        criterion = replace(criterion, criteria=(replace(criterion, criteria=timed), *others))
    inner = tuple(_criterion_evaluator(policy, part, answers) for part in criterion.criteria)
    is_any = not isinstance(criterion, AllOf)
    if len(inner) > 1 and _is_timed(criterion):
        said = joined(policy, tuple(part("", None) for part in inner), is_any=is_any)
        if said.result is CriterionResult.IDLE:  # busy, each says when its own next window opens
            then = _next_transition(criterion, answers.now)
            said = replace(said, reasons=tuple([_until_transition(why, then) for why in said.reasons]), until=then.at)
        together = replace(said, schedules=(criterion, answers.now))
        return lambda _namespace, _service: together
    return lambda namespace, service: joined(policy, tuple([part(namespace, service) for part in inner]), is_any=is_any)


def _is_timed(criterion: Criterion) -> bool:
    return all(isinstance(leaf, ScheduleCriterion) for leaf in leaves(criterion))


def _until_transition(why: Reason, then: Transition) -> Reason:
    """Return what one of several schedules says now, until `then`, when all of them together say something else."""
    if "until" not in why.values:
        return why
    return reason(why.code, **{**why.values, "until": then.at, "timeZone": then.zone})


@lru_cache(1024)  # many workloads have the same policies
def _next_transition(criterion: Criterion, now: datetime) -> Transition:
    """Return when schedules next come to another result: at the first of their edges at which they do."""
    calendars = {leaf.calendar for leaf in leaves(criterion) if isinstance(leaf, ScheduleCriterion)}
    for reach in REACHES:
        edges = {one: [*chain.from_iterable(open_periods(one, now, now + reach))] for one in calendars}
        before = _is_idle(criterion, partial(_is_between, edges, now))
        for at, zone in sorted((at, one.zone_name) for one, found in edges.items() for at in found):
            if now < at < now + reach and _is_idle(criterion, partial(_is_between, edges, at)) is not before:
                return Transition(at, zone)
    return Transition(None)


def _is_between(edges: Mapping[Calendar, Sequence[datetime]], at: datetime, calendar: Calendar) -> bool:
    """Return whether `calendar`, which opens and closes at its `edges`, in turn, is open at `at`."""
    return bisect_right(edges[calendar], at) % 2 == 1


def _may_be_idle(criterion: Criterion, at: datetime) -> bool:
    """Return whether `criterion` calls something idle at `at`, where all of its metrics do."""
    return _is_idle(criterion, lambda calendar: is_open(calendar, at))


def _is_idle(criterion: Criterion, opened: Callable[[Calendar], bool]) -> bool:
    """Return whether `criterion` calls something idle where the calendars are `opened`, and all of its metrics do."""
    if isinstance(criterion, AllOf | AnyOf):
        return (all if isinstance(criterion, AllOf) else any)(_is_idle(part, opened) for part in criterion.criteria)
    return isinstance(criterion, MetricCriterion) or opened(criterion.calendar)


def _without_metrics(criterion: Criterion) -> Criterion | None:
    if isinstance(criterion, AllOf | AnyOf):
        parts = tuple(filter(None, map(_without_metrics, criterion.criteria)))
        return replace(criterion, criteria=parts) if parts else None
    return criterion if isinstance(criterion, ScheduleCriterion) else None


def _schedule_verdict(policy: IdlingPolicy, calendar: Calendar, now: datetime) -> PolicyVerdict:
    is_uptime = calendar.field == "uptime"
    if is_open(calendar, now):
        end = open_until(calendar, now)
        code = ReasonCode.OUTSIDE_UPTIME if is_uptime else ReasonCode.IN_DOWNTIME
        return PolicyVerdict(policy, CriterionResult.IDLE, (_schedule_reason(code, calendar, now, end),), end)
    opens = opens_next(calendar, now)
    code = ReasonCode.DOWNTIME_OVER if opens is None else ReasonCode.OUTSIDE_DOWNTIME
    if is_uptime:
        code = ReasonCode.IN_UPTIME if exception_at(calendar, now) is None else ReasonCode.UPTIME_EXCEPTION
    return PolicyVerdict(policy, CriterionResult.BUSY, (_schedule_reason(code, calendar, now, opens),))


def _schedule_reason(code: Code, calendar: Calendar, now: datetime, until: datetime | None) -> Reason:
    """Return the reason, with the zone that its time is shown in, and why an exception keeps things awake now."""
    exception = exception_at(calendar, now)
    return reason(
        code,
        calendar=calendar.name or ", ".join(f'"{text}"' for text in calendar.texts),
        until=until,
        timeZone=calendar.zone_name if until is not None else "",
        exception="" if exception is None else exception.reason,
    )


def _metric_evaluator(policy: IdlingPolicy, criterion: MetricCriterion, answers: Answers) -> Evaluator:
    series = answers.series(criterion.query, criterion.window)
    coverage = answers.series(criterion.coverage, criterion.window) if criterion.coverage else None
    least = criterion.coverage_at_least or 0
    absent = cache(lambda: answers.without_series(series, criterion.no_series))

    def evaluate(namespace: str, service: str | None) -> PolicyVerdict:
        gap = None if coverage is None else coverage_gap(value_for(coverage, namespace, service), least)
        value = value_for(series, namespace, service)
        return _metric_verdict(policy, criterion, gap or (absent() if value is None else value))

    return evaluate


def _metric_verdict(policy: IdlingPolicy, criterion: MetricCriterion, value: float | Reason) -> PolicyVerdict:
    window, bound = criterion.window, float(criterion.at_most)
    if isinstance(value, Reason):
        unknown = reason(ReasonCode.METRIC_UNKNOWN, name=criterion.name or "metric", window=window)
        return PolicyVerdict(policy, CriterionResult.UNKNOWN, (unknown, value), threshold=bound)
    idle = value <= criterion.at_most
    code = ReasonCode.METRIC_IDLE if idle else ReasonCode.METRIC_BUSY
    why = reason(code, value=value, atMost=bound, window=window, name=criterion.name)
    return PolicyVerdict(policy, CriterionResult.IDLE if idle else CriterionResult.BUSY, (why,), threshold=bound)


def joined(policy: IdlingPolicy, parts: tuple[PolicyVerdict, ...], *, is_any: bool) -> PolicyVerdict:
    """Return idle where all `parts` are idle, busy where any is, else unknown; with `is_any` idle where any is, busy
    where all are. For none it is unknown.

    All of several schedules end with the first of them, any of them with the last.
    """
    idle, unknown, busy = CriterionResult.IDLE, CriterionResult.UNKNOWN, CriterionResult.BUSY
    for result in (idle, unknown, busy) if is_any else (busy, unknown, idle):
        found = [part for part in parts if part.result is result]
        if found:
            ends = [part.until for part in found if part.until is not None and result is idle]
            until = (max if is_any else min)(ends, default=None)
            return PolicyVerdict(policy, result, _reasons_of(found), until, parts=parts, is_any=is_any)
    return PolicyVerdict(policy, unknown, (reason(ReasonCode.NO_CRITERION),))


def _reasons_of(verdicts: Iterable[PolicyVerdict]) -> Reasons:
    """Return the reasons of all `verdicts`, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(verdict.reasons for verdict in verdicts)))


def _wake_verdict(policy: IdlingPolicy, metric: WakeMetric, value: float | Reason | None) -> PolicyVerdict:
    """Return what one metric of the `wakeWhen` of `policy` says: busy above its threshold."""
    window, bound = metric.window, float(metric.above)
    if value is None or isinstance(value, Reason):
        unknown = reason(ReasonCode.WAKE_WHEN_UNKNOWN, window=window)
        reasons = (unknown, value or reason(ReasonCode.NO_SERIES))
        return PolicyVerdict(policy, CriterionResult.UNKNOWN, reasons, threshold=bound)
    if value <= bound:
        return PolicyVerdict(policy, CriterionResult.IDLE, (), threshold=bound)
    why = reason(ReasonCode.WAKE_WHEN_TRUE, value=value, above=bound, window=window)
    return PolicyVerdict(policy, CriterionResult.BUSY, (why,), threshold=bound)


# All policies that select one object.

Exclusions = Mapping[str, Reason]
"""The policies that exclude something which they select otherwise, each with how."""


class Verdict(Struct, frozen=True, dict=True):  # so that what is asked often can be kept
    """What all policies say of a Service or a scalable: `won` counts, `lost` is of those that others win over.

    Without any that won, no policy selects it, or all that do exclude it. `equal_policies` are the names of policies of
    the same, highest priority that select the same object, () where no two do.
    """

    won: tuple[PolicyVerdict, ...] = ()
    lost: tuple[PolicyVerdict, ...] = ()
    without_policies: bool = False  # the policies are not known: nothing can be said of what they want
    excluded: tuple[Reason, ...] = ()  # by which policies that would select it otherwise
    equal_policies: tuple[str, ...] = ()

    @cached_property
    def policy(self) -> IdlingPolicy | None:
        """The policy that owns the records: of the highest priority, then the first by name."""
        highest = of_highest_priority([verdict.policy for verdict in self.won])
        return min(highest, key=lambda policy: policy.name, default=None)

    @cached_property
    def policies(self) -> tuple[IdlingPolicy, ...]:
        """Every policy that verdicts, once, by name."""
        found = {verdict.policy.name: verdict.policy for verdict in self.won}
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of `policies`."""
        return frozenset(verdict.policy.name for verdict in self.won)

    @cached_property
    def result(self) -> CriterionResult:
        """Idle where all verdicts are, busy where any is, else unknown."""
        if self.without_policies:
            return CriterionResult.UNKNOWN
        if not self.won:
            return CriterionResult.NOT_SELECTED
        said = {verdict.result for verdict in self.won}
        if CriterionResult.BUSY in said:
            return CriterionResult.BUSY
        return CriterionResult.IDLE if said == {CriterionResult.IDLE} else CriterionResult.UNKNOWN

    @cached_property
    def deciding(self) -> tuple[PolicyVerdict, ...]:
        """The verdicts that make it say what it says."""
        return tuple(verdict for verdict in self.won if verdict.result is self.result)

    @cached_property
    def reasons(self) -> Reasons:
        if self.without_policies:
            return (reason(ReasonCode.POLICIES_UNREADABLE),)
        return _reasons_of(self.deciding) or self.excluded or (reason(ReasonCode.NOT_SELECTED),)

    @cached_property
    def until(self) -> datetime | None:
        """When the first schedule that keeps it idle ends."""
        return _first_end(self.won)

    @cached_property
    def _first_wake(self) -> datetime | None:
        return _first_end(verdict for verdict in self.won if verdict.wakes)

    @cached_property
    def wakes_on_requests_only(self) -> bool:
        """Whether policies select it, and all of them have `wake: OnSignal`."""
        return bool(self.won) and not any(verdict.wakes for verdict in self.won)

    @property
    def lets_it_sleep(self) -> bool:
        """Whether criteria call it busy, and none of them wakes: what is idle is so by its record, not by them."""
        return self.result is CriterionResult.BUSY and self.wakes_on_requests_only

    def change_if(self, wanted: Set[CriterionResult]) -> ChangeIf | None:
        """Return what makes the result of every policy that counts a `wanted` one, None where that is not known."""
        found = all_known(verdict.change_if(wanted) for verdict in self.won if verdict.result not in wanted)
        parts = found.parts if found is not None and found.code == ChangeIfCode.ALL else (found,)
        times = [parse_time(part.values["at"]) for part in parts if part and part.code == ChangeIfCode.AT]
        latest = max(filter(None, times), default=None) if CriterionResult.IDLE in wanted else None
        if latest is not None and not all(_may_be_idle(verdict.policy.idle_when, latest) for verdict in self.won):
            return None  # the first is over before the last begins
        return found

    def next_end(self, now: datetime) -> datetime | None:
        """Return when its schedules together end, where they are open now, or else the next time; None for never."""
        timed = AllOf(tuple(filter(None, (_without_metrics(policy.idle_when) for policy in self.policies))))
        start = now if _may_be_idle(timed, now) else _next_transition(timed, now).at
        return None if start is None else _next_transition(timed, start).at

    @cached_property
    def busy(self) -> tuple[PolicyVerdict, ...]:
        """The verdicts of policies that wake automatically and call it busy."""
        return tuple([verdict for verdict in self.won if verdict.wakes and verdict.result is CriterionResult.BUSY])

    @cached_property
    def insists(self) -> bool:
        """Whether policies select it, and all of them idle again what another tool scales up."""
        return bool(self.won) and all(verdict.policy.on_revert == "Insist" for verdict in self.won)

    @cached_property
    def wake_when(self) -> PolicyVerdict | None:
        """The first verdict of a policy that wakes automatically and whose `wakeWhen` holds, None for none."""
        said = ((verdict, verdict.wake_when) for verdict in self.won if verdict.wakes)
        return next((verdict for verdict, found in said if found and found.result is CriterionResult.BUSY), None)

    @cached_property
    def is_observed(self) -> bool:
        """Whether policies select it, and all that count only observe: one that enforces counts alone."""
        return bool(self.won) and all(verdict.policy.mode == "Observe" for verdict in self.won)

    @cached_property
    def idle_replicas(self) -> int:
        return max((verdict.policy.idle_replicas for verdict in self.won), default=0)

    @cached_property
    def lowers_minimum(self) -> bool:
        """Whether only the minimum of its autoscaler is lowered: one policy says so, and none leaves it."""
        said = {policy.autoscalers.hpa for policy in self.policies}
        return "LowerMinimum" in said and "Leave" not in said

    def wake_deadline(self, recorded: datetime | None = None) -> datetime | None:
        """Return when what is idle by it is due to wake, None where only a request or a metric wakes it.

        It is when the first schedule ends of a policy that wakes automatically; while schedules have no end, what is
        `recorded`.
        """
        if self._first_wake is not None or self.wakes_on_requests_only:
            return self._first_wake
        is_scheduled = any(policy.calendars for policy in self.policies)
        return recorded if is_scheduled else None

    def window_end(self, now: datetime) -> datetime | None:
        """Return when the last of the schedule windows open now ends."""
        ends = (open_until(calendar, now) for policy in self.policies for calendar in policy.calendars)
        return max((end for end in ends if end is not None), default=None)


def _first_end(verdicts: Iterable[PolicyVerdict]) -> datetime | None:
    """Return when the first schedule ends that keeps something idle, None where none does."""
    ends = (verdict.until for verdict in verdicts)
    return min((end for end in ends if end is not None), default=None)
