"""The changes of scale that the history keeps, and what idling saved: the periods in which workloads were idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from reconciler.decide.annotations import parse_time
from reconciler.plan.model import Plan
from reconciler.pod_requests import NO_REQUESTS, Hours, PodRequests


class Change(Struct, frozen=True, omit_defaults=True, rename={"before": "from", "after": "to"}):
    """One scale of one object."""

    at: Annotated[str, Meta(description="When it was: RFC 3339 in UTC.")]
    object: Annotated[str, Meta(description="CLUSTER/NAMESPACE/KIND/NAME.")]
    verb: Annotated[str, Meta(description='What was done: "idle", "wake", "scale", ...')]
    by: Annotated[str, Meta(description='Who wrote it: "reconciler", "activator", or the field manager of a hand.')]
    before: Annotated[int | None, Meta(description="The replicas before; of a CronJob 1 is running, 0 suspended.")] = (
        None
    )
    after: Annotated[int | None, Meta(description="The replicas after; absent where nobody knows.")] = None
    policy: Annotated[str, Meta(description="The policy that decided it.")] = ""
    place: Annotated[str, Meta(description="Where that policy stands, as file:line.")] = ""
    commit: Annotated[str, Meta(description="The commit at which the policies were.")] = ""
    run: Annotated[str, Meta(description="The id of the run.")] = ""
    shard: Annotated[str, Meta(description="The shard whose run it was, INDEX/COUNT; absent without --shard.")] = ""
    why: Annotated[str, Meta(description="The reason, for people.")] = ""
    since: Annotated[str, Meta(description="Of a wake: since when it was idle, RFC 3339 in UTC.")] = ""
    asleep: Annotated[int, Meta(description="Of a wake: how many replicas it had fewer while it was idle.")] = 0
    cpu: Annotated[float | None, Meta(description="What one of its pods requests, in cores.")] = None
    memory: Annotated[float | None, Meta(description="What one of its pods requests, in GiB.")] = None
    user: Annotated[
        str, Meta(description="Who called wake or restore, as the API server calls them, else this machine.")
    ] = ""

    @property
    def time(self) -> datetime:
        """When it was."""
        return parse_time(self.at) or datetime.fromtimestamp(0, UTC)


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
