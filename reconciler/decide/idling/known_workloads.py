"""Which workloads the same schedule idled before: what happened last night as well is no mistake that a limit stops."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.decide.annotations import LAST_IDLED, compact, format_time, read_json, read_time
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion

REMEMBERED = timedelta(days=35)


class Schedule(Struct, frozen=True):
    """What decides when a policy idles, where that is schedules alone: its name, and the digest of what it says."""

    policy: str
    digest: str

    def text(self, now: datetime) -> str:
        """Return the annotation of a workload that it idles."""
        return compact({"policy": self.policy, "digest": self.digest, "at": format_time(now)})

    def knows(self, annotations: Mapping[str, str], now: datetime) -> bool:
        """Return whether the same schedule idled the workload with `annotations` in the last 35 days."""
        last = read_json(annotations.get(LAST_IDLED))
        at = read_time(last.get("at"))
        same = (last.get("policy"), last.get("digest")) == (self.policy, self.digest)
        return same and at is not None and at <= now <= at + REMEMBERED


def schedule_of(policy: IdlingPolicy) -> Schedule | None:
    """Return the schedule that alone decides when `policy` idles, None where a metric has a say.

    The digest is of selector, downtime and `idleReplicas`. Exceptions of a calendar do not count: another holiday
    makes nothing new.
    """
    times = _times(policy.idle_when)
    if times is None:
        return None
    said = _ENCODER.encode([policy.selector, times, policy.idle_replicas])
    return Schedule(policy.name, hashlib.sha256(said).hexdigest()[:16])


def _times(criterion: Criterion) -> list[Any] | None:
    if isinstance(criterion, MetricCriterion):
        return None
    if isinstance(criterion, AllOf | AnyOf):
        inner = [_times(one) for one in criterion.criteria]
        return None if None in inner else [type(criterion).__name__, *inner]
    calendar = criterion.calendar
    return [calendar.zone_name, calendar.field, *calendar.texts]


_ENCODER = msgspec.json.Encoder(order="sorted")
