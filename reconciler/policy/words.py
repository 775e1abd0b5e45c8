"""How problems are worded: what was found, what was expected, what is near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

MOST_REPLICAS = 2**31 - 1  # Kubernetes keeps replicas in an int32
LARGEST = 2**53  # beyond it not every whole number is a float, and JSON readers disagree
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


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return `, did you mean "weight"?`, or "" where nothing known is near."""
    found = nearest_of(word, known)
    return "" if found is None else f', did you mean "{found}"?'


def nearest_of(word: Any, known: Iterable[str]) -> str | None:
    """Return the one of `known` that is nearest to `word`, None where none is near."""
    if len(str(word)) > _LONGEST:
        return None
    options = sorted(known)
    lower = {option.lower(): option for option in options}
    found = difflib.get_close_matches(str(word).lower(), list(lower), n=1, cutoff=0.6)
    return lower[found[0]] if found else None


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
    if "x-expected" in schema:
        return str(schema["x-expected"])
    return _of_type(schema) + _bounds(schema)


def _of_type(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", "a value")
    names = [types] if isinstance(types, str) else [name for name in types if name != "null"]
    return " or ".join(_TYPES.get(name, name) for name in names)


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum", -LARGEST), schema.get("maximum", LARGEST)
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']}" + (f" and at most {most}" if most < LARGEST else "")
    if most < MOST_REPLICAS:
        return f" from {least} to {most}"
    if least > -LARGEST:
        return f" of at least {least}"
    if "minItems" in schema:
        return f" with at least {schema['minItems']} {'entry' if schema['minItems'] == 1 else 'entries'}"
    return ""
