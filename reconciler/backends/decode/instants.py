"""Times as Kubernetes writes them, to the nanosecond."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = int((datetime.min.replace(tzinfo=UTC) - _EPOCH).total_seconds())
_LAST = int((datetime.max.replace(tzinfo=UTC) - _EPOCH).total_seconds())
_FAR = (datetime(9000, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)


class Instant(int):
    """A time in nanoseconds since the epoch, read from RFC 3339."""

    __slots__ = ()

    def as_datetime(self) -> datetime:
        """Return the time in UTC. One before 1970 or after 9000 becomes the nearest of these: others write times too,
        and what is decided adds and subtracts days.
        """
        return _EPOCH + timedelta(microseconds=min(max(self // 1000, 0), _FAR))


def instant(text: str) -> Instant:
    """Return an RFC 3339 time; what its fraction says beyond nanoseconds is dropped.

    Raises:
        ValueError: `text` is none.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError("no time as in RFC 3339")
    date, time, fraction, sign, hours, minutes = found.groups()
    seconds = (datetime.fromisoformat(f"{date}T{time}+00:00") - _EPOCH) // timedelta(seconds=1)
    if sign is not None:
        seconds -= int(f"{sign}1") * (int(hours) * 3600 + int(minutes) * 60)
    if not _FIRST <= seconds <= _LAST:
        raise ValueError("no time between the years 1 and 9999")
    return Instant(seconds * 10**9 + int(((fraction or "") + "000000000")[:9]))


def datetime_of(found: Instant | None) -> datetime | None:
    """Return `found` as a datetime in UTC, None for None."""
    return None if found is None else found.as_datetime()
