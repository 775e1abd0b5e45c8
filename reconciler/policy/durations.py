"""Durations and shares as policies write them."""

from __future__ import annotations

import re
from datetime import timedelta

_DURATION = re.compile(r"(?:(\d{1,3})d)?(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,7})s)?", re.ASCII)
MOST_DURATION = timedelta(days=999)
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", re.ASCII)


def parse_duration(text: str) -> timedelta | None:
    """Return `90s`, `30m`, `1h30m` or `2d` as a duration; None where `text` is none, or more than 999d."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    found = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return found if found <= MOST_DURATION else None


def parse_share(text: str) -> float | None:
    """Return `25%` as 0.25; None where `text` is no share from 0% to 100%."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        return None
    return float(match[1]) / 100


def spelt_duration(duration: timedelta) -> str:
    """Return a duration of whole seconds as `parse_duration` reads it: 1h30m; 0s for none."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def spelt_share(share: float) -> str:
    """Return 0.25 as `25%`."""
    return f"{round(share * 100, 6):.15g}%"
