"""What a plain scalar means in the YAML 1.2 core schema.

Source: yaml.org/spec/1.2.2, 10.3.2 Tag Resolution.
"""

from __future__ import annotations

import re
from typing import Any

TOO_LARGE = "is a number of more than 64 bits, expected a smaller one, or a text in quotes"
TYPED_STARTS = frozenset("+-.0123456789~nNtTfF")
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 3500  # also in base 16 few enough for int() and str(), which refuse more than 4300 in base 10


def plain_value(text: str) -> Any:
    """Return what a plain scalar means in the YAML 1.2 core schema.

    Raises:
        ValueError: a number with more digits than can be meant.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return _whole(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL_FLOAT.fullmatch(text)
    if special is None:
        return text
    return float("nan") if special[1] is None else float(f"{special[1]}inf")


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(TOO_LARGE)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text if base == 10 else text[2:], base)
