"""Hours and costs of a forecast: with the policies, without them, in total and by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reconciler.errors import UsageError
from reconciler.forecast.timelines import Forecast, WorkloadTimeline
from reconciler.messages import nearest
from reconciler.model import by_key
from reconciler.pod_requests import Amounts, Hours, PodRequests


class Savings(Amounts, frozen=True):
    """What runs `without` the policies, and what they save: for certain, and if metrics stay as they were recorded."""

    workloads: int = 0
    without: Hours = Hours()
    saved: Hours = Hours()
    assumed: Hours = Hours()
    unstated: int = 0  # workloads whose pods request nothing

    @property
    def possible(self) -> Hours:
        """What is saved if metrics stay as they were recorded."""
        return self.saved + self.assumed

    @property
    def least(self) -> Hours:
        """What runs with the policies if all that is assumed comes true."""
        return self.most - self.assumed

    @property
    def most(self) -> Hours:
        """What runs with the policies if nothing that is assumed comes true."""
        return self.without - self.saved

    def percent(self, hours: Hours) -> float:
        """Return how much `hours` are of what runs without the policies."""
        return 100 * hours.replicas / self.without.replicas if self.without.replicas else 0.0


def savings_of(timelines: Iterable[WorkloadTimeline]) -> Savings:
    """Return the sums over `timelines`."""
    return sum(map(_of_one, timelines), Savings())


def _of_one(timeline: WorkloadTimeline) -> Savings:
    if not timeline.runs:
        return Savings(workloads=1)
    fewer, hours = {False: 0.0, True: 0.0}, 0.0  # fewer by whether that rests on a metric
    for segment in timeline.segments:
        hours += segment.hours
        fewer[bool(segment.assumes)] += (timeline.without - segment.replicas) * segment.hours
    return Savings(
        workloads=1,
        without=_hours(timeline, timeline.without * hours),
        saved=_hours(timeline, fewer[False]),
        assumed=_hours(timeline, fewer[True]),
        unstated=int(timeline.requests == PodRequests()),
    )


def _hours(timeline: WorkloadTimeline, hours: float) -> Hours:
    return Hours(hours, timeline.requests.times(hours))


GROUPS = ("policy", "namespace", "cluster")
_LABEL = "label="  # of a label that is called like a group
_NONE = "(none)"


def grouping(by: str) -> Callable[[WorkloadTimeline], str]:
    """Return which group a workload is in: `by` policy, namespace, cluster, or by the value of a label."""
    known: dict[str, Callable[[WorkloadTimeline], str]] = {
        "policy": lambda timeline: timeline.policy or _NONE,
        "namespace": lambda timeline: f"{timeline.ref.cluster}/{timeline.ref.namespace}",
        "cluster": lambda timeline: timeline.ref.cluster,
    }
    key = by.removeprefix(_LABEL)
    return known.get(by, lambda timeline: timeline.labels.get(key, _NONE))


def check_grouping(forecast: Forecast, by: str) -> None:
    """Refuse a label that no selected workload has: a typo must not pass for one group.

    Raises:
        UsageError: with the nearest name.
    """
    known = sorted({key for timeline in forecast.selected for key in timeline.labels})
    if by in GROUPS or by.removeprefix(_LABEL) in known or not forecast.selected:
        return
    some = f"{', '.join(GROUPS)} or a label of theirs{nearest(by, [*GROUPS, *known])}"
    raise UsageError(f'--by: "{by}" is no label of the selected workloads or their namespaces, expected {some}')


def grouped_savings(forecast: Forecast, by: str) -> tuple[tuple[str, Savings], ...]:
    """Return the savings of each group of the selected workloads, those that save most first."""
    group = grouping(by)
    groups = by_key((group(timeline), timeline) for timeline in forecast.selected)
    found = ((name, savings_of(some)) for name, some in groups.items())
    return tuple(sorted(found, key=lambda pair: (-pair[1].possible.replicas, pair[0])))
