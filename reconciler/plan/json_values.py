"""Any value of a plan as a JSON value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_PLAIN = frozenset((str, bool, int, type(None)))


def json_value(value: Any) -> Any:
    """Return `value` made of dict, list, str, int, float, bool and None alone; mappings sorted by key.

    A number JSON cannot hold becomes "NaN", "+Inf" or "-Inf" as Prometheus writes them, a time RFC 3339, a duration its
    seconds, a set a sorted list, anything else its text.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if isinstance(value, Mapping):
        return {str(key): json_value(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((json_value(item) for item in value), key=str)
    return _text(value)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return int(value) if isinstance(value, int) else str(value)
