"""Traffic of a month, drawn from a seed: when each request arrives. How it is drawn has nothing of the product in it.

A Service is called in the hours of its `shape`, and now and then outside of them. The same arrivals are a counter as
Prometheus scrapes it, and what a query says of them at a time.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from reconciler.forecast.query_history import QueryHistory
from reconciler.model import RangeAnswer, RangeSeries
from tests.real.prometheus import Series

PARIS = ZoneInfo("Europe/Paris")
SCRAPE = timedelta(minutes=2)


@dataclass(frozen=True)
class Shape:
    """From `first` to before `last` o'clock in Paris on each of `days` (Monday is 0) requests come, `pause` apart.

    In other hours one comes with a chance of `strays` a day. Noise has no hours: all of it is strays.
    """

    first: float = 0
    last: float = 0
    days: Sequence[int] = range(7)
    pause: timedelta = timedelta(minutes=4)
    strays: float = 0.0


OFFICE = Shape(8, 19, range(5), strays=0.05)
SHOP = Shape(6, 22)
NOISE = Shape(strays=40)


@dataclass(frozen=True)
class Calls:
    """When the requests to one Service arrive, in order."""

    namespace: str
    service: str
    times: tuple[float, ...]

    def counted(self, first: float, last: float) -> int:
        """How many arrive after `first`, up to `last`."""
        return bisect_right(self.times, last) - bisect_right(self.times, first)

    def series(self, start: datetime, end: datetime) -> Series:
        """The counter as it is scraped, at a moment of its own; it begins at a number of earlier requests."""
        step = SCRAPE.total_seconds()
        at = start.timestamp() + random.Random(self.service).uniform(0, step)
        samples = []
        while at <= end.timestamp():
            samples.append((round(at, 3), 1000.0 + self.counted(0, at)))
            at += step
        return Series("requests_total", {"namespace": self.namespace, "service": self.service}, samples)


def calls(namespace: str, service: str, shape: Shape, start: datetime, end: datetime, seed: object) -> Calls:
    """Draw the requests to one Service from `start` to before `end`."""
    chance = random.Random(f"{seed} {namespace}/{service}")
    times = [at for day in _days(start, end) for at in _of_day(day, shape, chance)]
    return Calls(namespace, service, tuple(sorted(at for at in times if start.timestamp() < at < end.timestamp())))


def _days(start: datetime, end: datetime) -> Iterator[datetime]:
    day = start.astimezone(PARIS).replace(hour=0, minute=0)
    while day < end:
        yield day
        day = (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=PARIS)


def _of_day(day: datetime, shape: Shape, chance: random.Random) -> Iterator[float]:
    def at(hours: float) -> float:
        return (day.replace(tzinfo=None) + timedelta(hours=hours)).replace(tzinfo=PARIS).timestamp()

    open_hours = (shape.first, shape.last) if day.weekday() in shape.days else (0.0, 0.0)
    moment = at(open_hours[0]) + chance.expovariate(1 / shape.pause.total_seconds())
    while moment < at(open_hours[1]):
        yield moment
        moment += chance.expovariate(1 / shape.pause.total_seconds())
    left = shape.strays
    while left > 0:
        hours = chance.uniform(0, 24)
        if chance.random() < left and not open_hours[0] <= hours < open_hours[1]:
            yield at(hours)
        left -= 1


def _average(one: Calls, at: float, apart: float, back: float) -> float:
    """What such a query says on average at times a minute apart, the last of which is `at`."""
    parts = int(apart / 60)
    return sum(one.counted(at - 60 * part - back, at - 60 * part) for part in range(parts)) / parts


def history_of(
    made: Sequence[Calls],
    query: str,
    window: timedelta,
    start: datetime,
    count: int,
    step: timedelta,
    *,
    averages: bool = True,
) -> QueryHistory:
    """What a query that counts the requests in a window says at each time, as it is recorded."""
    first, apart, back = start.timestamp(), step.total_seconds(), window.total_seconds()
    series = tuple(
        RangeSeries(
            {"namespace": one.namespace, "service": one.service},
            tuple(float(one.counted(first + n * apart - back, first + n * apart)) for n in range(count)),
            tuple(_average(one, first + n * apart, apart, back) for n in range(count)) if averages else (),
        )
        for one in made
    )
    return QueryHistory(start, step, count, {query: RangeAnswer(series)})
