"""The workloads that the same schedule idled before: a limit does not stop what happened last night as well."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import (
    AWAKE_SINCE,
    LAST_IDLED,
    compact,
    digest,
    format_time,
    json_object,
    read_time,
    stated,
)
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion, Selector

REMEMBERED = timedelta(days=35)


class ScheduleDigest(Struct, frozen=True):
    """What decides when a policy idles, where that is schedules alone: its name, and the digest of what it says."""

    policy: str
    digest: str

    @lru_cache(16)  # noqa: B019 - a few short values; the same for all that a policy idles
    def text(self, now: datetime) -> str:
        """Return the annotation of a workload that it idles."""
        return compact({"policy": self.policy, "digest": self.digest, "at": format_time(now)})

    def knows(self, annotations: Mapping[str, str], now: datetime) -> bool:
        """Return whether the same schedule idled the workload with `annotations`, idle within the last 35 days."""
        last = json_object(annotations.get(LAST_IDLED))
        if (last.get("policy"), last.get("digest")) != (self.policy, self.digest):
            return False
        times = [read_time(last.get("at")), read_time(annotations.get(AWAKE_SINCE))]
        return times[0] is not None and any(at <= now <= at + REMEMBERED for at in times if at is not None)


def schedule_of(policy: IdlingPolicy) -> ScheduleDigest | None:
    """Return the schedule that alone decides when `policy` idles, None where a metric has a say.

    The digest is of selector, hours and `idleReplicas`, however they are written. Exceptions of a calendar do not
    count: another holiday makes nothing new.
    """
    times = _times(policy.idle_when)
    if times is None:
        return None
    return ScheduleDigest(policy.name, digest([stated(_unbound(policy.selector)), times, policy.idle_replicas], 16))


def _unbound(selector: Selector) -> Selector:
    """Return `selector` without the bounds of a tenant: wider ones make nothing new that was known."""
    clusters, namespaces = (replace(one, within=()) for one in (selector.clusters, selector.namespaces))
    return replace(selector, clusters=clusters, namespaces=namespaces)


def _times(criterion: Criterion) -> list[Any] | None:
    if isinstance(criterion, MetricCriterion):
        return None
    if isinstance(criterion, AllOf | AnyOf):
        inner = [_times(one) for one in criterion.criteria]
        return None if None in inner else [type(criterion).__name__, *inner]
    return [criterion.calendar.zone_name, stated(criterion.calendar.windows)]
