"""The picture of a week: rows of workloads that run alike, each cut into cells of equal length."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo

from msgspec import Struct

from reconciler.forecast.timelines import Forecast, Segment, WorkloadTimeline
from reconciler.report.wording import DAYS

CELLS_A_DAY = 12
_PLAIN = {"all": "#", "some": "+", "none": ".", "perhaps": "?", "absent": " "}
_BLOCKS = {"all": "█", "some": "▄", "none": "▁", "perhaps": "▒", "absent": " "}


class Row(Struct, frozen=True):
    """Workloads of one namespace that run alike."""

    cluster: str
    namespace: str
    members: tuple[WorkloadTimeline, ...]

    @property
    def words(self) -> str:
        """What they are called: one by its name, several by their number."""
        first = self.members[0].ref
        place = f"{self.cluster}/{self.namespace}"
        return f"{place}/{first.kind}/{first.name}" if len(self.members) == 1 else f"{place} ({len(self.members)})"


def rows_of(timelines: Iterable[WorkloadTimeline]) -> tuple[Row, ...]:
    """Return `timelines` as rows, in order of cluster and namespace; what runs alike stands in one."""
    found: dict[tuple[object, ...], list[WorkloadTimeline]] = {}
    for one in timelines:
        key = (one.ref.cluster, one.ref.namespace, one.policy, tuple(_states(one)))
        found.setdefault(key, []).append(one)
    return tuple(
        Row(members[0].ref.cluster, members[0].ref.namespace, tuple(members))
        for _, members in sorted(found.items(), key=lambda pair: pair[1][0].ref)
    )


def _states(one: WorkloadTimeline) -> Iterable[tuple[datetime, str]]:
    return ((segment.start, state_of(one, segment)) for segment in one.segments)


def state_of(one: WorkloadTimeline, segment: Segment) -> str:
    """Return "all", "some" or "none" of the replicas that it has without policies; "perhaps": fewer, if assumed."""
    if segment.replicas >= one.without:
        return "all" if segment.replicas else "none"
    if segment.assumes:
        return "perhaps"
    return "some" if segment.replicas else "none"


def cells(row: Row, made: Forecast, *, blocks: bool) -> str:
    """Return the cells of `row`, each what holds in its middle."""
    signs = _BLOCKS if blocks else _PLAIN
    one = row.members[0]
    return "".join(signs[_state_at(one, at)] for at in _middles(made))


def _middles(made: Forecast) -> Iterable[datetime]:
    length = timedelta(days=1) / CELLS_A_DAY
    at = made.start + length / 2
    while at < made.end:
        yield at
        at += length


def _state_at(one: WorkloadTimeline, at: datetime) -> str:
    return next(
        (state_of(one, segment) for segment in one.segments if segment.start <= at < segment.end),
        "absent",
    )


def ruler(made: Forecast, zone: tzinfo) -> str:
    """Return the days above the cells: the name of each where it begins."""
    line = [" "] * sum(1 for _ in _middles(made))
    length = timedelta(days=1) / CELLS_A_DAY
    for position in range(len(line)):
        here = (made.start + position * length).astimezone(zone)
        before = (made.start + (position - 1) * length).astimezone(zone)
        if here.date() != before.date() and position + 3 <= len(line):
            line[position : position + 3] = DAYS[here.weekday()]
    return "".join(line)


def legend(*, blocks: bool) -> str:
    """Return what the signs mean."""
    signs = _BLOCKS if blocks else _PLAIN
    words = {"all": "all replicas", "some": "fewer", "none": "none", "perhaps": "fewer, if metrics stay as recorded"}
    return ", ".join(f"{signs[state]} {told}" for state, told in words.items())
