"""What was measured in the past, as runs of a replay are told it, and what a reader must know of the measurements."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec.structs import replace

from reconciler.backends.snapshot.recorded_metrics import NOT_RECORDED, one_spaced
from reconciler.errors import SnapshotError
from reconciler.forecast.decision_times import calendar_edges, is_kept_awake_by_schedule
from reconciler.forecast.idle_periods import Traffic
from reconciler.forecast.query_history import QueryHistory
from reconciler.messages import counted, first_of
from reconciler.model import QueryAnswer, QueryKey, RangeSeries, Sample, by_key
from reconciler.policy.kinds.fields import parse_duration, render_query, spelt_duration
from reconciler.policy.types import IdlingPolicy, MetricCriterion, PolicySet, ScheduleCriterion, WakeMetric
from reconciler.report.times import common_zone, weekday_and_time

ServiceName = tuple[str, str]
"""Namespace and name."""

GAP = "nothing was measured at that time"
_COUNTS = re.compile(r"\b(increase|rate|irate|delta|idelta|deriv|changes|resets)\s*\(")
_RANGE = re.compile(r"\[\s*(\w+)\s*[\]:]")
_OFTEN = 10
_NAMED = 3
_SELDOM = 0.05
_STEADY = 1.25
"""A lowest value above atMost is one of probes where half of all values are at most so much above it."""


class ReplayedMetrics:
    """A `MetricsSource` with the values that the queries of one cluster had at the time `now`, in some namespaces."""

    def __init__(
        self, cluster: str, history: QueryHistory, namespaces: frozenset[str], services: frozenset[ServiceName]
    ) -> None:
        """`services` are all of the cluster: a query whose series name none of them has other labels."""
        self.cluster = cluster
        self.now = history.start
        self.history = history
        self._series: dict[str, tuple[RangeSeries, ...]] = {}
        for query, answer in history.answers.items():
            named = [(one.labels.get("namespace", ""), one.labels.get("service", "")) for one in answer.series]
            alien = not services.intersection(named)
            kept = (one for one, name in zip(answer.series, named, strict=True) if alien or name[0] in namespaces)
            self._series[query] = tuple(kept)
        self._by_service: dict[str, dict[ServiceName, list[RangeSeries]]] = {}

    def query(self, text: str) -> QueryAnswer:
        query, place = one_spaced(text), self.history.index(self.now)
        answer = self.history.answers.get(query)
        if answer is None or answer.error:
            return QueryAnswer(error=NOT_RECORDED if answer is None else answer.error)
        if place in self.history.gaps:
            return QueryAnswer(error=GAP)
        found = ((one.labels, one.values[place]) for one in self._series[query])
        return QueryAnswer(tuple(Sample(labels, value) for labels, value in found if value is not None))

    def series(self, policy: str, query: str, window: str) -> Mapping[ServiceName, Sequence[RangeSeries]]:
        """Return the series of a query of the policy of that name, by Service."""
        text = one_spaced(render_query(QueryKey(self.cluster, policy, query, window)))
        if text not in self._by_service:
            series = self._series.get(text, ())
            named = (((one.labels.get("namespace", ""), one.labels.get("service", "")), one) for one in series)
            self._by_service[text] = by_key(named)
        return self._by_service[text]

    def is_busy(self, policy: IdlingPolicy, service: ServiceName) -> bool:
        """Return whether a metric of `policy` says that somebody calls `service` now."""
        place = self.history.index(self.now)
        return any(
            (one.values[place] or 0) > metric.at_most
            for metric in policy.metrics
            for one in self.series(policy.name, metric.query, metric.window).get(service, ())
        )


def period_of(histories: Mapping[str, QueryHistory], length: timedelta) -> tuple[datetime, datetime]:
    """Return the last `length` of what was recorded of all clusters, from where on something was measured.

    Raises:
        SnapshotError: nothing was, or not at the same times.
    """
    measured = [
        one.start + next(place for place in range(one.count) if place not in one.gaps) * one.step
        for one in histories.values()
        if len(one.gaps) < one.count
    ]
    if not measured:
        errors = sorted(answer.error for one in histories.values() for answer in one.answers.values() if answer.error)
        why = errors[0] if errors else "no query has a value at any time, expected some; is it the right Prometheus?"
        raise SnapshotError(f"nothing was measured: {why}")
    end = min(one.end for one in histories.values())
    start = max(end - length, min(measured), *(one.start for one in histories.values()))
    if start >= end or len({one.step for one in histories.values()}) > 1:
        raise SnapshotError("the histories of its clusters are of other times, expected one snapshot of all")
    return start, end


def period_notes(
    policies: PolicySet,
    clusters: Collection[str],
    histories: Mapping[str, QueryHistory],
    period: tuple[datetime, datetime],
    length: timedelta,
) -> Iterator[str]:
    """Yield what is to be known of the time that is replayed, and of what was recorded of it."""
    (start, end), zone = period, common_zone(policies.time_zones)
    for name in sorted(set(clusters) - histories.keys()):
        yield f"{name}: has no history of queries, so nothing is known there"
    if end - start < length:
        only = f"{spelt_duration(end - start)} of {spelt_duration(length)}"
        yield f"measured only from {weekday_and_time(start, zone)} on: {only}"
    for name, history in histories.items():
        gaps = [place for place in history.gaps if place >= history.index(start)]
        if gaps:
            lost = spelt_duration(len(gaps) * history.step)
            yield f"{name}: nothing was measured for {lost} in all: metrics are unknown then, and change nothing"
        failed = ((query, one.error) for query, one in history.answers.items() if one.error)
        yield from (f"{name}: a query failed: {query}: {error}" for query, error in sorted(failed))
        queries = {one_spaced(render_query(key)) for key in policies.query_keys(name)}
        missing = len(queries - history.answers.keys())
        if missing:
            which = f"{missing} of {counted(len(queries), 'query', 'queries')}"
            yield f"{name}: {which} not recorded, so unknown; record the history with these policies"
    yield "limits are lifted: they count what goes idle for the first time, which a forecast without --replay shows"


def unanswered_policies(history: QueryHistory | None, policies: PolicySet, cluster: str) -> set[str]:
    """Return the policies of which a query has no answer in the history of `cluster`; all there, where it has none."""
    known = policies.fleet.cluster(cluster)
    if history is None:
        return {one.name for one in policies.idling if known is not None and one.selector.selects_cluster(known)}
    texts = ((key.policy, one_spaced(render_query(key))) for key in policies.query_keys(cluster))
    return {policy for policy, text in texts if text not in history.answers or history.answers[text].error}


def notes_on(
    policies: Sequence[IdlingPolicy], metrics: ReplayedMetrics, services: Collection[ServiceName], places: range
) -> Iterator[tuple[str, str]]:
    """Yield what is odd about the values of `services` at `places`: what one is called, and words in which `{}` is its
    place.
    """
    gaps = sum(place in metrics.history.gaps for place in places)
    for policy in policies:
        yield from ((f"IdlingPolicy {policy.name}", words) for words in _between_windows(policy, metrics.history))
        for metric in policy.metrics:
            found = metrics.series(policy.name, metric.query, metric.window)
            for namespace, name in sorted(found.keys() & services):
                about = f"{metrics.cluster}/{namespace}/Service/{name}"
                for values in (one.values[places.start : places.stop] for one in found[namespace, name]):
                    known = [one for one in values if one is not None]
                    missing = (len(values) - len(known) - gaps) / len(values)
                    numbers = list(filter(math.isfinite, known))
                    yield from ((about, words) for words in _odd(metric, numbers, missing))


def _between_windows(policy: IdlingPolicy, history: QueryHistory) -> Iterator[str]:
    """Yield which windows leave out time between two runs: they count from their first scrape to their last."""
    run = history.step
    for metric in policy.asked:
        if _COUNTS.search(metric.query):
            window = _range_of(metric)
            counted = window - history.scrape_interval
            if timedelta() < counted < run:
                yield (
                    f"a query of {{}} has a window of {spelt_duration(window)}, a run comes each "
                    f"{spelt_duration(run)}: {1 - counted / run:.0%} of the time is in no window, and calls then wake "
                    "nothing and are not counted; "
                    f"expected a window of {spelt_duration(run + history.scrape_interval)} or more"
                )


def _range_of(metric: MetricCriterion | WakeMetric) -> timedelta:
    """Return over how long a query counts: the range that it states itself, else the window."""
    stated = [] if "{{" in metric.query else _RANGE.findall(metric.query)
    own = next(filter(None, map(parse_duration, stated)), None)
    return own or parse_duration(metric.window) or timedelta()


def _odd(metric: MetricCriterion, values: Sequence[float], missing: float) -> Iterator[str]:
    """Yield what is odd about the values of one series; `missing` is the share of those that it does not have."""
    name = metric.name or "metric"
    if metric.no_series == "Unknown" and missing > _SELDOM:
        yield f"{name} of {{}} has no series for about {round(100 * missing, -1):.0f} % of the time: it is unknown then"
    if not values:
        return
    lowest = min(values)
    if lowest < 0:
        yield f"{name} of {{}} falls to {lowest:g}: counters were reset within a difference; use increase()"
    elif not _COUNTS.search(metric.query) and _only_rises(values):
        yield f"{name} of {{}} only rises, as a counter does: ask for its increase()"
    elif metric.at_most < lowest and sorted(values)[len(values) // 2] <= _STEADY * lowest:
        yield (
            f"{name} of {{}} is never at most {metric.at_most:g}, and steady from {lowest:.3g} on, as probes are: "
            "leave them out of the query, or raise atMost"
        )


def _only_rises(values: Sequence[float]) -> bool:
    """Return whether values rise often, and fall next to never."""
    rises = sum(now > before for before, now in pairwise(values))
    falls = sum(now < before for before, now in pairwise(values))
    return rises > _OFTEN > _OFTEN * falls


def traffic_of(metrics: ReplayedMetrics, policy: IdlingPolicy, service: ServiceName) -> list[Traffic]:
    """Return what a query of `policy` counts for a Service: one of idleWhen, else one of wakeWhen."""
    for metric in policy.asked:
        found = metrics.series(policy.name, metric.query, metric.window).get(service, ())
        if found:
            return [_traffic(metric, one) for one in found]
    return []


def _traffic(metric: MetricCriterion | WakeMetric, series: RangeSeries) -> Traffic:
    counts = _COUNTS.search(metric.query)
    if counts is None:
        return Traffic(series.values, averages=series.averages)
    seconds = _range_of(metric).total_seconds()
    return Traffic(series.values, seconds, seconds if counts[1] in ("rate", "irate") else 1.0, series.averages)


def silent_times(values: Sequence[Sequence[float | None]]) -> int:
    """Return at how many times none of the series has a value."""
    if len(values) == 1:
        return values[0].count(None)
    return sum(all(one is None for one in both) for both in zip(*values, strict=True))


def changes_in(policies: PolicySet, metrics: ReplayedMetrics, start: datetime, end: datetime) -> dict[datetime, bool]:
    """Return when a metric of a policy begins to say something else about a Service, while that matters, and whether
    nothing does at that time but say that it is quiet.

    While the schedules alone say that a workload is busy, no metric keeps it from being awake, unless it waits for a
    signal.
    """
    history = metrics.history
    first, last = history.index(start), history.index(end)
    gaps = (place for place in range(max(1, first), last) if (place in history.gaps) != (place - 1 in history.gaps))
    places = dict.fromkeys(gaps, False)
    for policy in policies.idling:
        matters = None if policy.wake == "OnSignal" else _undecided_places(policies, policy, history, start, end)
        for place, is_quiet in _changed_places(metrics, policy):
            if matters is None or place in matters:
                places[place] = is_quiet and places.get(place, True)
    return {history.start + place * history.step: places[place] for place in sorted(places) if first <= place < last}


def _undecided_places(
    policies: PolicySet, policy: IdlingPolicy, history: QueryHistory, start: datetime, end: datetime
) -> set[int]:
    """Return the places of times at which the schedules alone do not make a workload busy."""
    edges = [start, *calendar_edges(replace(policies, idling=(policy,)), start, end), end]
    places: set[int] = set()
    for first, last in pairwise(edges):
        if not is_kept_awake_by_schedule(policy, first):
            places.update(range(history.index(first), history.index(last) + 1))
    return places


def _changed_places(metrics: ReplayedMetrics, policy: IdlingPolicy) -> Iterator[tuple[int, bool]]:
    """Yield the places of values that say something else than those before them, for any Service, and whether what
    they say is that one that was busy is quiet.
    """
    of_service: dict[ServiceName, list[list[bool | str | None]]] = {}
    for query, window, bound in _bounds(policy):
        for service, found in metrics.series(policy.name, query, window).items():
            of_service.setdefault(service, []).extend(_states(one.values, bound) for one in found)
    alone = all(
        isinstance(one, ScheduleCriterion) or (isinstance(one, MetricCriterion) and not one.coverage)
        for one in policy.idle_when.criteria
    )
    for states in of_service.values():
        for place, (before, now) in enumerate(pairwise(zip(*states, strict=True)), start=1):
            if before != now:
                was_busy, is_busy = alone and True in before, alone and True in now  # one that is busy settles it
                if not (was_busy and is_busy):
                    yield place, was_busy and not any(one is not False for one in now)


def _bounds(policy: IdlingPolicy) -> Iterator[tuple[str, str, float]]:
    for metric in policy.metrics:
        yield metric.query, metric.window, metric.at_most
        if isinstance(metric.coverage, str):
            yield metric.coverage, metric.window, math.nextafter(metric.coverage_at_least or 0, -math.inf)
    for wake in policy.wake_when:
        yield wake.query, wake.window, wake.above


def _states(values: Iterable[float | None], bound: float) -> list[bool | str | None]:
    """Return of each value whether it is above `bound`: a text where that is no number, None where there is none."""
    return [None if one is None else one > bound if one - one == 0 else str(one) for one in values]


def joined_notes(notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield `notes`, what each is about and its words, as text; the same about many objects is said once."""
    by_words = by_key((words, about) for about, words in notes)
    for words, names in sorted(by_words.items()):
        yield words.replace("{}", first_of(sorted(set(names)), _NAMED), 1)
