"""The annotation of when a workload was idled last, on which hours and by which policy.

What any policy of the same owner, a tenant or the platform, idled on the same hours, or on any metric, is known for 35
days: no limit counts it again. Neither selector nor policy is part of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.decide.annotations import Key, digest, format_time, json_object, read_time, stated
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion

REMEMBERED = timedelta(days=35)
_MOST = 8
_METRIC = "metric"


class _LastIdled(Struct, frozen=True):
    """The annotation of a workload: the `policy` that idled it last, when it was idled last on each of the `hours`,
    by their digest, and when it was idled for the first time of those that count in limits, None for never.
    """

    policy: str = ""
    hours: Mapping[str, datetime] = {}
    first: datetime | None = None


def last_idled(annotations: Mapping[str, str]) -> _LastIdled:
    """Return what the annotations of a workload say; what cannot be read is left out."""
    return _read(annotations.get(Key.LAST_IDLED))


@lru_cache(128)  # the same stands on all that was idled together, and is asked for several times
def _read(text: str | None) -> _LastIdled:
    found = json_object(text)
    policy, hours = found.get("policy"), found.get("hours")
    times = {key: read_time(at) for key, at in hours.items()} if isinstance(hours, dict) else {}
    return _LastIdled(
        policy if isinstance(policy, str) else "",
        {key: at for key, at in times.items() if at is not None},
        read_time(found.get("first")),
    )


def is_known(hours: str, annotations: Mapping[str, str], now: datetime) -> bool:
    """Return whether the workload with `annotations` was idle on `hours` within the last 35 days."""
    return Key.LAST_IDLED in annotations and _is_known(
        hours, last_idled(annotations), annotations.get(Key.AWAKE_SINCE), now
    )


def _is_known(hours: str, before: _LastIdled, woken: str | None, now: datetime) -> bool:
    times = [before.hours.get(hours)]
    if times[0] is not None and times[0] == max(before.hours.values()):
        times.append(read_time(woken))
    return times[0] is not None and any(at <= now <= at + REMEMBERED for at in times if at is not None)


def last_idled_text(policy: str, hours: str, annotations: Mapping[str, str], now: datetime, *, counts: bool) -> str:
    """Return the annotation of a workload that `policy` idles on `hours` now. `counts`: limits count that, if it is
    for the first time.
    """
    return _text(policy, hours, (annotations.get(Key.LAST_IDLED), annotations.get(Key.AWAKE_SINCE)), now, counts)


@lru_cache(128)  # most that a policy idles at once was idled at the same times before
def _text(policy: str, hours: str, texts: tuple[str | None, str | None], now: datetime, counts: bool) -> str:
    before, woken = _read(texts[0]), texts[1]
    times = {**{key: at for key, at in before.hours.items() if at <= now <= at + REMEMBERED}, hours: now}
    latest = sorted(times, key=lambda key: (times[key], key))[-_MOST:]
    first = before.first if _is_known(hours, before, woken, now) else now if counts else None
    value = {"policy": policy, "hours": {key: format_time(times[key]) for key in latest}}
    found = value if first is None else {**value, "first": format_time(first)}
    return msgspec.json.encode(found, order="sorted").decode()


@lru_cache(maxsize=4096)
def hours_of(policy: IdlingPolicy) -> str:
    """Return the digest of when `policy` idles and whose it is.

    Exceptions of a calendar do not count: another holiday makes nothing new. One metric is like another.
    """
    return digest([policy.tenant, _times(policy.idle_when)], 16)


def _times(criterion: Criterion) -> Any:
    if isinstance(criterion, MetricCriterion):
        return _METRIC
    if isinstance(criterion, AllOf | AnyOf):
        inner = [_times(part) for part in criterion.criteria]
        return _METRIC if set(map(str, inner)) <= {_METRIC} and inner else [type(criterion).__name__, *inner]
    return [criterion.calendar.zone_name, stated(criterion.calendar.windows)]
