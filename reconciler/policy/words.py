"""How problems are worded: what was found, what was expected, what is near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST = 60
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_FORMATS = {
    "duration": "a duration like 90s, 30m, 1h30m or 2d",
    "window": 'a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" or "2026-12-24T18:00/2027-01-02T08:00"',
    "absolute-window": 'a window like "2026-12-24T18:00/2027-01-02T08:00"',
    "share": 'a share like "25%"',
    "time-zone": "a time zone like Europe/Paris",
}


def shown(value: Any) -> str:
    """Return a value as a problem shows it: scalars in quotes, collections by their kind."""
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"}"'


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return `, did you mean "weight"?`, or "" where nothing known is near."""
    options = sorted(known)
    lower = {option.lower(): option for option in options}
    found = difflib.get_close_matches(str(word).lower(), list(lower), n=1, cutoff=0.6)
    return f', did you mean "{lower[found[0]]}"?' if found else ""


def listed(options: Iterable[Any]) -> str:
    """Return `"a", "b" or "c"`."""
    texts = [f'"{option}"' for option in options]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def expectation(schema: Mapping[str, Any]) -> str:
    """Return what a JSON Schema expects, in words."""
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return listed(schema["enum"])
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return _of_type(schema) + _bounds(schema)


def _of_type(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", "a value")
    names = [types] if isinstance(types, str) else [name for name in types if name != "null"]
    return " or ".join(_TYPES.get(name, name) for name in names)


def _bounds(schema: Mapping[str, Any]) -> str:
    if "minimum" in schema and schema.get("maximum", 2**53) < 2**53:
        return f" from {schema['minimum']} to {schema['maximum']}"
    if schema.get("minimum", -(2**53)) > -(2**53):
        return f" of at least {schema['minimum']}"
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']}"
    if "minItems" in schema:
        return f" with at least {schema['minItems']} {'entry' if schema['minItems'] == 1 else 'entries'}"
    return ""
