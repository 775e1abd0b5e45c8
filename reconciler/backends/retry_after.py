"""How long a server wants to be left alone."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

_MOST_DIGITS = 9


def retry_after_seconds(retry_after: str | None, date: str | None) -> float | None:
    """Return the seconds that a Retry-After header says, None where it says nothing that can be read.

    Where it is a time, it counts from `date`, the answer's own Date header, so that our clock does not matter.

    Source: RFC 9110, section 10.2.3.
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return float(text)
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(date or "")
    except (TypeError, ValueError, OverflowError):  # one of them is no time, or only one has a time zone
        return None
    return max(0.0, wait.total_seconds())
