"""What the idle periods of a replay came to: wakes by traffic, requests that waited and how long, wrong nights.

A query with `increase` or `rate` counts requests; what any other one counts is called connections. How many arrived
between two runs is what the value rose by, as nothing else is in the window of something that is idle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from statistics import median_low

from msgspec import Struct

from reconciler.backends.protocols import PODS, Cluster
from reconciler.errors import ClusterError
from reconciler.forecast.query_history import QueryHistory, average_step
from reconciler.model import ObjectRef
from reconciler.pod_requests import Amounts

ASSUMED_START = timedelta(seconds=30)
"""How long pods take to be ready where nobody measured it."""

THRASH = timedelta(hours=1)
_HALF_A_DAY = timedelta(hours=12)
_LONGEST_START = timedelta(hours=1)  # what took longer was ready before, and again


class Arrivals(Amounts, frozen=True):
    """How much arrived in a tick, and how long before the end of it that was measured, of all of it together."""

    number: float = 0.0
    earlier: timedelta = timedelta()


class Traffic(Struct, frozen=True):
    """The values of a query for one Service over time. `seconds` is the window that they count in, 0 for a gauge.

    `scale` makes requests of them: 1 for a count, the window for a rate. `averages` are those over the tick before each
    value, () where they are not known.
    """

    values: Sequence[float | None]
    seconds: float = 0.0
    scale: float = 1.0
    averages: Sequence[float | None] = ()

    def arrivals(self, first: int, last: int, tick: timedelta) -> Iterator[tuple[int, Arrivals]]:
        """Yield the places from `first` to before `last` in whose tick, which ends there, something arrived: how much.

        Where windows are shorter than a tick nothing of the one before is in them.
        """
        apart = 0 < self.seconds <= tick.total_seconds()
        before = 0.0 if first < 1 else self.values[first - 1] or 0.0
        for place in range(first, min(last, len(self.values))):
            now = self.values[place]
            if now and (apart or now != before) and math.isfinite(now):
                number = round(self.scale * (now if apart else now - before))
                if number > 0:
                    yield place, Arrivals(number, number * self._earlier(place, before, tick))
            before = now if now and math.isfinite(now) else 0.0

    def _earlier(self, place: int, before: float, tick: timedelta) -> timedelta:
        """Return how long before the end of a tick that was measured on average that arrived in it.

        The longer ago the value rose, from `before` on, the nearer its average is to what it is at the end. Half of the
        tick where that is not known.
        """
        now, average = self.values[place], self.averages[place] if self.averages else None
        if now is None or average is None or now <= before or 0 < self.seconds < tick.total_seconds():
            return tick / 2
        if not math.isfinite(average):
            return tick / 2
        earlier = tick * ((average - before) / (now - before)) - average_step(tick) / 2
        return min(max(earlier, timedelta()), tick)


class ReplayedIdlePeriod(Struct, frozen=True):
    """A workload at no replicas from `start` to `end`, by `policy`.

    `woken_by` is "traffic", "schedule", or "" where it was still idle at the end of the replay. `arrived` has what
    arrived before each run during it, None where no query counts that; `after` how much arrived in the tick after it.
    `held`: a signal woke it at once, as an activator gives it. `missing` is the share of it in which no query had a
    series for it.
    """

    ref: ObjectRef
    policy: str
    start: datetime
    end: datetime
    woken_by: str
    arrived: tuple[tuple[datetime, Arrivals], ...] | None
    after: float = 0.0
    held: bool = False
    missing: float = 0.0
    unit: str = "request"


class Waiting(Struct, frozen=True):
    """How many `requests` waited, for how long all together, and the longest of them at most."""

    requests: float = 0.0
    total: timedelta = timedelta()
    longest: timedelta = timedelta()

    def __add__(self, other: Waiting) -> Waiting:
        longest = max(self.longest, other.longest)
        return Waiting(self.requests + other.requests, self.total + other.total, longest)


class PolicyReplay(Struct, frozen=True):
    """What a policy did in the past that was replayed.

    `waiting` None: no query of it counts what arrives. `nights` are those in which something of it was idle, `wrong`
    those of them in which somebody called that, with the workloads. `thrash` is how often something was woken by
    traffic within an hour after it went idle. `missing` is the share of its idle hours in which no query had a series.
    `starts` are the start times that were reckoned with: the least and the most, and of how many workloads of how many
    that was measured. `delay` is how long it takes on average until what arrives is measured. `unknown` are the
    clusters whose history lacks a query of it.
    """

    policy: str
    idles: int
    wakes: int
    waiting: Waiting | None
    unit: str
    nights: int
    wrong: Mapping[date, tuple[ObjectRef, ...]]
    thrash: int
    missing: float
    starts: tuple[timedelta, timedelta, int, int]
    held: bool
    delay: timedelta
    unknown: tuple[str, ...] = ()


class Replay(Struct, frozen=True):
    """What all policies did, and what a reader must know of the measurements."""

    policies: tuple[PolicyReplay, ...]
    notes: tuple[str, ...]

    @property
    def lacking(self) -> tuple[PolicyReplay, ...]:
        """The policies of which a history lacks a query, so that what they would have done is not known."""
        return tuple(one for one in self.policies if one.unknown)


def waiting_of(period: ReplayedIdlePeriod, start: timedelta, tick: timedelta, delay: timedelta) -> Waiting:
    """Return what waited because of `period`, where pods take `start` to be ready and runs come each `tick`.

    `delay` is how long it takes on average until what arrives is measured.
    """
    meanwhile = min(1.0, start / tick)
    found = Waiting()
    for at, arrived in period.arrived or ():
        # What the first run measures may have arrived before the period: that was answered, and the rest came late.
        is_first = at <= period.start + tick
        share, measured = (1 - delay / tick, delay / 2) if is_first else (1.0, delay)
        number = arrived.number * share
        if period.held:
            more = max(0.0, number - 1) * meanwhile
            found += Waiting(1 + more, start + more * start / 2, start)
        else:
            late = period.end - at
            total = number * (late + measured + start) + share * arrived.earlier
            found += Waiting(number, total, late + tick + 2 * delay + start)
    if not period.held and period.woken_by and found.requests:
        more = period.after * min(1.0, (start + delay) / tick)
        found += Waiting(more, more * (start + delay) / 2, start + 2 * delay)
    return found


def policy_replay(
    policy: str,
    periods: Sequence[ReplayedIdlePeriod],
    starts: Mapping[ObjectRef, timedelta],
    history: QueryHistory,
    zone: tzinfo,
) -> PolicyReplay:
    """Return what `periods`, all of one policy, came to. A night is called by the day on which it begins in `zone`."""
    tick, delay = history.step, history.scrape_interval / 2  # until what arrives is measured, on average
    refs = {one.ref for one in periods}
    measured = [starts[ref] for ref in sorted(refs & starts.keys())]
    usual = median_low(measured) if measured else ASSUMED_START
    waiting, wrong, nights = Waiting(), dict[date, set[ObjectRef]](), set[date]()
    for one in periods:
        nights |= set(_nights(one.start, one.end, zone))
        waiting += waiting_of(one, starts.get(one.ref, usual), tick, delay)
        for at, _ in one.arrived or ():
            wrong.setdefault(night_of(at, zone), set()).add(one.ref)
        if one.woken_by == "traffic":
            wrong.setdefault(night_of(one.end, zone), set()).add(one.ref)
    hours = sum((one.end - one.start for one in periods), timedelta())
    missing = sum((one.missing * (one.end - one.start) for one in periods), timedelta())
    woken = [one for one in periods if one.woken_by == "traffic"]
    reckoned = [starts.get(ref, usual) for ref in refs] or [usual]
    return PolicyReplay(
        policy=policy,
        idles=len(periods),
        wakes=len(woken),
        waiting=waiting if any(one.arrived is not None for one in periods) else None,
        unit=next((one.unit for one in periods if one.arrived is not None), "request"),
        nights=len(nights),
        wrong={day: tuple(sorted(found)) for day, found in sorted(wrong.items())},
        thrash=sum(one.end - one.start <= THRASH for one in woken),
        missing=missing / hours if hours else 0.0,
        starts=(min(reckoned), max(reckoned), len(measured), len(refs)),
        held=any(one.held for one in periods),
        delay=delay,
    )


def night_of(at: datetime, zone: tzinfo) -> date:
    """Return the day on which the night began that `at` is in; a night lasts from noon to noon."""
    return (at.astimezone(zone) - _HALF_A_DAY).date()


def _nights(start: datetime, end: datetime, zone: tzinfo) -> Iterator[date]:
    day, last = night_of(start, zone), night_of(end - timedelta(seconds=1), zone)
    while day <= last:
        yield day
        day += timedelta(days=1)


def start_times(cluster: Cluster, refs: Iterable[ObjectRef]) -> dict[ObjectRef, timedelta]:
    """Return how long pods of `refs` took from their creation until they were ready, where that is known."""
    named = {(ref.namespace, ref.kind, ref.name): ref for ref in refs}
    found: dict[ObjectRef, list[timedelta]] = {}
    try:
        pods = cluster.list(PODS)
    except ClusterError:
        return {}
    for pod in pods:
        owner = (pod.namespace, pod.owner_kind, pod.owner_name)
        if pod.owner_kind == "ReplicaSet" and owner not in named:
            owner = (pod.namespace, "Deployment", pod.owner_name.rpartition("-")[0])
        if owner in named and pod.ready_since_ns is not None and pod.created_ns is not None and not pod.restarts:
            took = timedelta(microseconds=(pod.ready_since_ns - pod.created_ns) // 1000)
            if timedelta() <= took <= _LONGEST_START:
                found.setdefault(named[owner], []).append(took)
    return {ref: median_low(times) for ref, times in found.items()}
