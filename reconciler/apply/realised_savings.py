"""What idling really saved: the periods in which workloads were idle, from the changes that the history keeps, and from
what is idle now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.apply.changes import Change
from reconciler.decide.annotations import parse_time
from reconciler.plan.model import Plan
from reconciler.pod_requests import NO_REQUESTS, Hours, PodRequests


class SavedBefore(Struct, frozen=True):
    """What idling by one policy on one cluster had saved, in all idle periods that ended on earlier days."""

    cluster: str
    policy: str
    hours: Hours = Hours()


class IdlePeriod(Struct, frozen=True):
    """One workload that was idle from `since` to `until` with `asleep` replicas fewer, each of which `requests` that.

    `policy` is whose idle it is, "" for none.
    """

    object: str
    policy: str
    since: datetime
    until: datetime
    asleep: int
    requests: PodRequests = NO_REQUESTS

    @property
    def cluster(self) -> str:
        return self.object.partition("/")[0]

    def saved(self, start: datetime, end: datetime) -> Hours:
        """Return what was not run between `start` and `end` for that."""
        hours = (min(self.until, end) - max(self.since, start)) / timedelta(hours=1)
        replicas = self.asleep * max(0.0, hours)
        return Hours(replicas, self.requests.times(replicas))


def ended_periods(changes: Iterable[Change]) -> Iterator[IdlePeriod]:
    """Yield the period that each wake among `changes` ended; a wake that was recorded twice counts once."""
    seen: set[tuple[str, str]] = set()
    for one in changes:
        since = parse_time(one.since) if one.since else None
        if since is not None and (one.object, one.since) not in seen:
            seen.add((one.object, one.since))
            requests = PodRequests(one.cpu or 0.0, one.memory or 0.0)
            yield IdlePeriod(one.object, one.policy, since, one.time, one.asleep, requests)


def lasting_periods(plan: Plan, ended: Iterable[IdlePeriod]) -> Iterator[IdlePeriod]:
    """Yield the periods of what was idle before the run of `plan`, until then; those that `ended` meanwhile aside."""
    over = {(one.object, one.since) for one in ended}
    idle = {one.idled[0]: one for one in plan.explanations if one.idled is not None}
    for ref, one in idle.items():
        if one.idled_at is not None and one.idled is not None and (str(ref), one.idled_at) not in over:
            yield IdlePeriod(str(ref), one.idled[1], one.idled_at, plan.made_at, one.asleep, one.requests)
