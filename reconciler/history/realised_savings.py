"""What idling saved: the periods in which workloads were idle, from the history and from what is idle now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.decide.annotations import parse_time
from reconciler.history.changes import Change
from reconciler.plan.model import Plan
from reconciler.pod_requests import NO_REQUESTS, Hours, PodRequests


class SavedBefore(Struct, frozen=True):
    """What idling by one policy on one cluster had saved in the namespaces of `tenant`, "" for the platform's, in all
    idle periods that ended on earlier days.
    """

    cluster: str
    policy: str
    hours: Hours = Hours()
    tenant: str = ""


class IdlePeriod(Struct, frozen=True):
    """One workload that was idle from `since` to `until` with `asleep` replicas fewer, each of which `requests` that.

    `policy` is whose idle it is, "" for none; `tenant` is whose its namespace was when it ended, "" for the platform's.
    """

    object: str
    policy: str
    since: datetime
    until: datetime
    asleep: int
    requests: PodRequests = NO_REQUESTS
    tenant: str = ""

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
    for change in changes:
        since = parse_time(change.since) if change.since else None
        if since is not None and (change.object, change.since) not in seen:
            seen.add((change.object, change.since))
            requests = PodRequests(change.cpu or 0.0, change.memory or 0.0)
            yield IdlePeriod(change.object, change.policy, since, change.time, change.asleep, requests, change.tenant)


def lasting_periods(plan: Plan, ended: Iterable[IdlePeriod]) -> Iterator[IdlePeriod]:
    """Yield the periods of what was idle before the run of `plan`, until then; those that `ended` meanwhile aside."""
    over = {(period.object, period.since) for period in ended}
    idle = {explanation.idled[0]: explanation for explanation in plan.explanations if explanation.idled is not None}
    for ref, found in idle.items():
        if found.idled_at is not None and found.idled is not None and (str(ref), found.idled_at) not in over:
            yield IdlePeriod(str(ref), found.idled[1], found.idled_at, plan.made_at, found.asleep, found.requests)
