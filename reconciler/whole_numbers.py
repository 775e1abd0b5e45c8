"""Whole numbers in texts that others wrote. Pure."""

from __future__ import annotations

MOST_REPLICAS = 2**31 - 1  # Kubernetes keeps replicas in an int32
_MOST_DIGITS = 18  # all of them fit 64 bits; int() itself fails on thousands


def whole_number_in(text: str) -> int | None:
    """Return the whole number of at least 0 that `text` spells in decimal digits.

    None where it spells none, and where it has more than 18 digits behind its leading zeros.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MOST_DIGITS else None
