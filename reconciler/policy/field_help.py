"""The meaning of the fields of policies, plans and reports: of one field, or of all fields of a kind."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.errors import UsageError
from reconciler.messages import nearest
from reconciler.policy.policy_kinds import POLICY_KINDS
from reconciler.policy.schemas import load_schema, referred

SCHEMA_KINDS = (*POLICY_KINDS, "PolicyTest", "Plan", "Report", "Change")
"""The kinds with a JSON Schema."""

_ENTRY = "*"
_INDEX = re.compile(r"\[[0-9]*\]")
_SENTENCE_END = re.compile(r"(?<=\.)\s")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class Field(Struct, frozen=True):
    """One field of a kind. `path` is as `explain_field` takes it after what was asked for: `spec.clusters.name`.

    `default` is JSON text; None: there is none. `values` are the ones allowed, empty where it is not an enum.
    """

    path: str
    type: str
    default: str | None
    description: str
    values: tuple[str, ...] = ()
    required: bool = False


def fields(path: str) -> tuple[Field, ...]:
    """Return every field below `KIND` or `KIND.field`, each before the fields inside it, in the order of its schema.

    Lists are passed through; entries of a map that have fields are called "*". A field that holds itself is not entered
    twice. The case of the kind does not matter.

    Raises:
        UsageError: there is no such kind or field.
    """
    schema, root = _at(path)
    return tuple(_below("", schema, root, frozenset()))


def _below(path: str, schema: Mapping[str, Any], root: Mapping[str, Any], above: frozenset[str]) -> Iterator[Field]:
    within = above.union(_names(schema, root))
    required = _entries(schema, root).get("required", ())
    for name, part in _fields(schema, root).items():
        inside = _resolved(part, root)
        here = f"{path}.{name}" if path else name
        if name == _ENTRY and not _fields(part, root):
            continue  # the type of the map says it all
        values = (inside["const"],) if "const" in inside else inside.get("enum", ())
        default = json.dumps(inside["default"], ensure_ascii=False) if "default" in inside else None
        description = str(inside.get("description", ""))
        yield Field(here, _type(part, root), default, description, tuple(map(str, values)), name in required)
        if not within & _names(part, root):
            yield from _below(here, part, root, within)


def _names(schema: Mapping[str, Any], root: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the definitions that `schema`, or what its lists hold, refers to."""
    own = {referred(part) for part in (schema, *_options(schema)) if "$ref" in part}
    items = _resolved(schema, root).get("items")
    return frozenset(own) if items is None else _names(items, root) | own


def explain_field(path: str) -> str:
    """Return what `KIND.field.field` means, as `kubectl explain` lays it out: type, default, description, its fields.

    Lists are passed through, with or without an index (`clusters.name`, `clusters[0].name`); maps too: every
    name that is no field of their entries, and "*", stands for an entry. The case of the kind does not matter.

    Raises:
        UsageError: there is no such kind or field.
    """
    return "\n".join((*heading(path), *_field_lines(*_at(path)))) + "\n"


def heading(path: str) -> Iterator[str]:
    """Yield what `KIND` or `KIND.field` is by itself: type, default, description.

    Raises:
        UsageError: there is no such kind or field.
    """
    kind, _, field = _INDEX.sub("", path).partition(".")
    schema, root = _at(path)
    inside = _resolved(schema, root)
    yield f"KIND:     {kind_named(kind)}"
    if field:
        yield f"FIELD:    {field} <{_type(schema, root)}>"
    if "enum" in inside:
        yield f"ONE OF:   {', '.join(map(str, inside['enum']))}"
    if "default" in inside:
        yield f"DEFAULT:  {json.dumps(inside['default'], ensure_ascii=False)}"
    if inside.get("description"):
        yield from ("", "DESCRIPTION:")
        yield from textwrap.wrap(f"    {inside['description']}", 100, subsequent_indent="    ", break_on_hyphens=False)


def _at(path: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the schema of what `path` names, and that of its kind."""
    kind, *steps = _INDEX.sub("", path).split(".")
    where = kind_named(kind)
    schema: Mapping[str, Any] = load_schema(where)
    root = schema
    for step in steps:
        fields = _fields(schema, root)
        if _ENTRY in fields:
            fields = {step: fields[_ENTRY]} | _fields(fields[_ENTRY], root) | fields
        if step not in fields:
            known = f"one of {', '.join(sorted(fields))}" if fields else "none: it is a single value"
            raise UsageError(f'{where}: has no field "{step}"{nearest(step, fields) or f", expected {known}"}')
        schema = fields[step]
        where = f"{where}.{step}"
    return schema, root


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema` with its reference followed, through "this or null" too; what stands beside it counts."""
    followed = schema if "$ref" in schema else next((option for option in _options(schema) if "$ref" in option), None)
    if followed is None:
        return schema
    target = _resolved(root["$defs"][referred(followed)], root)
    return {**target, **{key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}}


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a value; those of a mapping only say how its fields go together."""
    return [] if "properties" in schema else list(schema.get("anyOf", ()))


def _entries(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema` resolved, of a list that of its entries."""
    inside = _resolved(schema, root)
    return _entries(inside["items"], root) if "items" in inside else inside


def _fields(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields below `schema`, through lists; the entries of a map are called *."""
    inside = _entries(schema, root)
    found: dict[str, Mapping[str, Any]] = dict(inside.get("properties", {}))
    if isinstance(inside.get("additionalProperties"), dict):
        found[_ENTRY] = inside["additionalProperties"]
    return found


def _field_lines(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each field: its type, whether it is required, the first sentence of what it is."""
    required = _entries(schema, root).get("required", ())
    rows = [
        (f"{name} <{_type(part, root)}>{' -required-' if name in required else ''}", _resolved(part, root))
        for name, part in _fields(schema, root).items()
    ]
    if rows:
        yield from ("", "FIELDS:")
    width = max((len(head) for head, _ in rows), default=0)
    for head, part in rows:
        first = _SENTENCE_END.split(str(part.get("description", "")), maxsplit=1)[0]
        yield f"    {head:<{width}}  {first}".rstrip()


def _type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if _options(schema):
        return " or ".join(dict.fromkeys(_type(option, root) for option in _options(schema)))
    inside = _resolved(schema, root)
    if "items" in inside:
        return f"list of {_type(inside['items'], root)}"
    entries = inside.get("additionalProperties")
    if isinstance(entries, dict) and "properties" not in inside:
        return f"map of {_type(entries, root)}"
    types = inside.get("type", [])
    values = [inside["const"]] if "const" in inside else inside.get("enum", ())
    named = [types] if isinstance(types, str) else types or [_TYPES[type(value)] for value in values]
    return " or ".join(dict.fromkeys(named)) or "anything"


def kind_named(text: str, *more: str) -> str:
    """Return the kind, or which of `more`, that `text` names, in whatever case.

    Raises:
        UsageError: there is none of that name.
    """
    known = (*SCHEMA_KINDS, *more)
    found = next((kind for kind in known if kind.lower() == text.lower()), None)
    if found is None:
        raise UsageError(f'"{text}" is no kind, expected one of {", ".join(known)}{nearest(text, known)}')
    return found
