"""Texts that others wrote: made safe to print (no control character, no mark that turns a line round, no line of its
own), and the JSON values and whole numbers in them. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reconciler.redaction import printable_without_credentials

LONGEST_VALUE = 1000
"""How many characters of one text are shown where room is short; no name in Kubernetes is longer than 253."""


def one_line(text: str) -> str:
    """Return `text` as one printable line: white space becomes single spaces, a control character its escape."""
    if text.isprintable():
        return text
    return escaped(" ".join(text.split()))


def escaped(text: str) -> str:
    """Return `text` as one line with its spaces as they are; what is not printable becomes its escape."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def short(text: str) -> str:
    """Return `text` as one printable line; of one that is too long the beginning, and how long it is."""
    text = printable_without_credentials(text)  # of one that is cut, or written as markup, nobody would find the rest
    line = one_line(text[: 4 * LONGEST_VALUE])
    if len(line) <= LONGEST_VALUE and len(text) <= 4 * LONGEST_VALUE:
        return line
    return f"{line[:LONGEST_VALUE]}... ({len(text)} characters)"


def parse_json(text: str) -> Any:
    """Return the JSON value that `text` spells.

    Raises:
        ValueError: it spells none, or one whose texts cannot be written as UTF-8: JSON can spell half a character.
        RecursionError: it is nested too deeply.
    """
    value = json.loads(text)
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()
    return value


def strict_json(text: str) -> Any:
    """Return the JSON value that `text` spells: no object names a key twice, no number is NaN or infinite.

    Raises:
        ValueError: it spells none. RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=unrepeated, parse_constant=_refuse_constant)


def unrepeated(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return `pairs` as a mapping.

    Raises:
        ValueError: a key is there twice.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{short(key)}" is given twice, expected once')
        found[key] = value
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


MOST_REPLICAS = 2**31 - 1  # Kubernetes keeps replicas in an int32
LARGEST = 2**53  # beyond it not every whole number is a float, and JSON readers disagree
_MOST_DIGITS = 18  # all of them fit 64 bits; int() itself fails on thousands


def whole_number_in(text: str) -> int | None:
    """Return the whole number of at least 0 that `text` spells in decimal digits.

    None where it spells none, and where it has more than 18 digits behind its leading zeros.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MOST_DIGITS else None
