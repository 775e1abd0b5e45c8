"""What stands on the wire: the values that JSON has no types for, what many objects say alike, which is kept once, and
how JSON bytes and parsed values become structs of them.

A struct names the fields that are read; the others are skipped. `null` counts as absent, as the API server has it.
Names are the API's own, in snake case. Times are as Kubernetes writes them, to the nanosecond.
"""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf, nan
from sys import intern
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from reconciler.untrusted_text import MOST_REPLICAS

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FAR = (datetime(9000, 12, 31, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_REMEMBERED = 512
_RFC3339 = r"(?ai)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:[0-5]\d)"
_BEYOND_MICROSECONDS = r"(?a)\.\d{6}(\d{1,3})"
_BEYOND_CALENDAR = r"(?a)(-0001|0000|10000)-\d\d-\d\dT[\d:.]+Z"
_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


class Instant(int):
    """A time in nanoseconds since the epoch, read from RFC 3339."""

    __slots__ = ()
    expected = "a time as in RFC 3339"

    @staticmethod
    def read(value: Any) -> Instant:
        """Raises ValueError: `value` is none."""
        if not isinstance(value, str):
            raise ValueError("no time as in RFC 3339")
        return instant(value)

    @lru_cache(_REMEMBERED)  # noqa: B019 - a number; nothing else is kept
    def as_datetime(self) -> datetime:
        """Return the time in UTC. One before 1970 or after 9000 becomes the nearest of these: others write times too,
        and what is decided adds and subtracts days.
        """
        return _EPOCH + timedelta(microseconds=min(max(self // 1000, 0), _FAR))


@lru_cache(_REMEMBERED)  # many objects are made or written at once
def instant(text: str) -> Instant:
    """Return an RFC 3339 time; what its fraction says beyond nanoseconds is dropped.

    API servers take the years 0 to 9999 in any zone, as in managedFields, and answer with them in UTC: those that no
    datetime holds become the nearest.

    Raises:
        ValueError: `text` is none.
    """
    beyond_calendar = re.fullmatch(_BEYOND_CALENDAR, text)
    if beyond_calendar is not None:
        return instant(_LAST if beyond_calendar[1] == "10000" else _FIRST)
    if re.fullmatch(_RFC3339, text) is None:  # datetime takes other forms of ISO 8601 too
        raise ValueError("no time as in RFC 3339")
    try:
        at = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError:
        raise ValueError("no time between the years 1 and 9999") from None
    beyond = re.search(_BEYOND_MICROSECONDS, text)
    nanoseconds = int(beyond[1].ljust(3, "0")) if beyond else 0
    return Instant((at - _EPOCH) // _MICROSECOND * 1000 + nanoseconds)


def micro_time(at: datetime) -> str:
    """Return a time as Kubernetes writes it to the microsecond."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def datetime_of(found: Instant | None) -> datetime | None:
    """Return `found` as a datetime in UTC, None for None."""
    return None if found is None else found.as_datetime()


_SPECIAL = {"NaN": nan, "+Inf": inf, "Inf": inf, "-Inf": -inf}
_NUMBER = r"(?a)[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_HUGE = 10**308


class Number(float):
    """A number of any size, or "NaN", "+Inf", "-Inf", as Prometheus writes them."""

    expected = 'a number, "NaN", "+Inf" or "-Inf"'

    @staticmethod
    def read(value: Any) -> Number:
        """Return a number, or a text that says one; one that is too large is infinite.

        Raises:
            ValueError: `value` is none.
        """
        if isinstance(value, float):
            return Number(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return Number(value if abs(value) < _HUGE else inf if value > 0 else -inf)
        if isinstance(value, str) and (value in _SPECIAL or re.fullmatch(_NUMBER, value)):
            return Number(_SPECIAL[value] if value in _SPECIAL else float(value))
        raise ValueError("no number")


NonEmptyText = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=MOST_REPLICAS)]
StringMap = dict[str, str]

_MOST_ENTRIES = 8


def shared(mapping: StringMap | None) -> StringMap | None:
    """Return labels or annotations equal to `mapping`, the same object for several; nobody may change it."""
    return _remembered(tuple(mapping.items())) if mapping and len(mapping) <= _MOST_ENTRIES else mapping


@lru_cache(_REMEMBERED)
def _remembered(entries: tuple[tuple[str, str], ...]) -> StringMap:
    return {intern(key): intern(value) for key, value in entries}


def shared_text(text: str | None) -> str | None:
    """Return a text equal to `text`, the same object wherever it is alive."""
    return None if text is None else intern(text)


class Wire(Struct, rename="camel", gc=False, omit_defaults=True):
    """The base: fields in snake case, on the wire in camel case.

    Modules of such structs do without `from __future__ import annotations`: msgspec would evaluate the text of each
    type at every start.
    """


def _read(kind: type[Any], value: Any) -> Any:
    """Return `value` as a type that msgspec does not know, such as `Instant`; see its `read`."""
    return kind.read(value)


def decoded_value(shape: type[T], value: Any) -> T:
    """Return parsed JSON or YAML as `shape`.

    Raises:
        msgspec.ValidationError: it is not of that shape.
    """
    _decoder_of(shape)  # so that msgspec knows the type
    return msgspec.convert(value, shape, dec_hook=_read)


def decoded_json(shape: type[T], data: bytes | bytearray | msgspec.Raw) -> T:
    """Return JSON bytes as `shape`.

    Raises:
        msgspec.DecodeError: they are not JSON, or not of that shape (msgspec.ValidationError).
    """
    return _decoder_of(shape).decode(data)


_making = threading.Lock()
_made: dict[Any, Any] = {}


def _decoder_of(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Return the one decoder of `shape`, made by one thread at a time.

    msgspec looks at a type when it first meets it, and notes on the type, unguarded, what it found: threads that meet
    one at the same time end the process (seen with msgspec 0.22). After this it knows `shape` and all that is in it.
    """
    with _making:
        if shape not in _made:
            _made[shape] = msgspec.json.Decoder(shape, dec_hook=_read)
        made: msgspec.json.Decoder[T] = _made[shape]
        return made
