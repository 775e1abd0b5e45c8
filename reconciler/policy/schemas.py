"""The JSON Schemas of all kinds: found, loaded once, explained."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from reconciler.errors import UsageError
from reconciler.policy.words import nearest

_KINDS = (
    "Fleet",
    "IdlingPolicy",
    "Calendar",
    "FederatedReplicaSet",
    "DownscalePolicy",
    "ReplicaSet",
    "Plan",
    "Report",
)
_WORDS = frozenset(("$schema", "$id", "$defs", "title", "description", "default"))
_RELATIONS = frozenset(("oneOf", "anyOf", "dependentRequired"))
_COUNTS = frozenset(("minProperties", "maxProperties"))
_ENTRY = "*"
_INDEX = re.compile(r"\[[0-9]*\]")
_SENTENCE_END = re.compile(r"(?<=\.)\s")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@lru_cache(maxsize=1)
def schema_folder() -> Path:
    """Return the folder with the schemas: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "schemas"
    return inside if inside.is_dir() else package.parent / "schemas"


@lru_cache(maxsize=16)
def load_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of `kind`, spelled as in documents."""
    text = (schema_folder() / f"{kind.lower()}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of `kind`; the case does not matter.

    Raises:
        UsageError: there is no such kind.
    """
    return load_schema(_kind(kind))


@lru_cache(maxsize=16)
def validator_of(kind: str, part: str = "") -> Any:
    """Return the one jsonschema validator for the shape of documents of `kind`, or of one of the schema's `$defs`."""
    return _validator_class()(shape_of(kind, part))


@lru_cache(maxsize=16)
def shape_of(kind: str, part: str = "") -> dict[str, Any]:
    """Return what the schema of `kind`, or one of its `$defs`, says of every field by itself.

    How fields go together (`oneOf`, `anyOf`, `dependentRequired`, the number of fields of a closed mapping) is left to
    the builders, which can say it in words; the published schema has it for editors.
    """
    root = load_schema(kind)
    shape = _shape(root["$defs"][part] if part else root, root, frozenset())
    repeated = {name: _shape(root["$defs"][name], root, frozenset((name,))) for name in sorted(_references(shape))}
    return {**shape, "$defs": repeated}


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator, ValidationError, validators

    extend: Any = validators.extend  # its stub has no types

    def pattern(_validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not compiled(wanted).search(instance):
            yield ValidationError("does not match")

    return extend(Draft202012Validator, {"pattern": pattern})


@lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of JSON Schema as one of Python, where `$` also stands before a line break at the end."""
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


def _shape(schema: Any, root: Mapping[str, Any], inside: frozenset[str]) -> Any:
    """Return `schema` without words and relations, its references written out; what refers to itself keeps its own."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = _referred(schema)
        return {"$ref": schema["$ref"]} if name in inside else _shape(root["$defs"][name], root, inside | {name})
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _shape(inner, root, inside) for name, inner in value.items()}
        elif key in ("items", "additionalProperties", "propertyNames"):
            found[key] = _shape(value, root, inside)
        elif key not in _WORDS and not (key in _RELATIONS or (key in _COUNTS and "properties" in schema)):
            found[key] = value
    return found


def _references(shape: Any) -> set[str]:
    if isinstance(shape, dict):
        own = {_referred(shape)} if isinstance(shape.get("$ref"), str) else set()
        return own.union(*(_references(inner) for inner in shape.values()))
    return set().union(*map(_references, shape)) if isinstance(shape, list) else set()


def _referred(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _kind(text: str) -> str:
    known = {kind.lower(): kind for kind in _KINDS}
    found = known.get(text.lower())
    if found is None:
        raise UsageError(f'"{text}" is no kind, expected one of {", ".join(_KINDS)}{nearest(text, _KINDS)}')
    return found


def explain_field(path: str) -> str:
    """Return what `KIND.field.field` means, as `kubectl explain` lays it out: type, default, description, its fields.

    Lists are passed through, with or without an index (`clusters.name`, `clusters[0].name`); in a map every name, and
    "*" too, stands for its entries. The case of the kind does not matter.

    Raises:
        UsageError: there is no such kind or field.
    """
    kind, *steps = _INDEX.sub("", path).split(".")
    root = schema_of(kind)
    where = _kind(kind)
    schema: Mapping[str, Any] = root
    for step in steps:
        fields = _fields(schema, root)
        if step not in fields and _ENTRY not in fields:
            raise UsageError(_no_field(where, step, sorted(fields)))
        schema = fields[step if step in fields else _ENTRY]
        where = f"{where}.{step}"
    return "\n".join((*_head(_kind(kind), ".".join(steps), schema, root), *_field_lines(schema, root))) + "\n"


def _no_field(where: str, step: str, fields: list[str]) -> str:
    if not fields:
        return f'{where}: has no field "{step}", expected none: it is a single value'
    return f'{where}: has no field "{step}"{nearest(step, fields) or ", expected one of " + ", ".join(fields)}'


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema` with its reference followed, through "this or null" too; what stands beside it counts."""
    followed = schema if "$ref" in schema else next((one for one in _options(schema) if "$ref" in one), None)
    if followed is None:
        return schema
    target = _resolved(root["$defs"][_referred(followed)], root)
    return {**target, **{key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}}


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a value; those of a mapping only say how its fields go together."""
    return [] if "properties" in schema else list(schema.get("anyOf", ()))


def _fields(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields below `schema`, through lists; the entries of a map are called *."""
    inside = _resolved(schema, root)
    if "items" in inside:
        return _fields(inside["items"], root)
    found: dict[str, Mapping[str, Any]] = dict(inside.get("properties", {}))
    if isinstance(inside.get("additionalProperties"), dict):
        found[_ENTRY] = inside["additionalProperties"]
    return found


def _head(kind: str, field: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    inside = _resolved(schema, root)
    yield f"KIND:     {kind}"
    if field:
        yield f"FIELD:    {field} <{_type(schema, root)}>"
    if "enum" in inside:
        yield f"ONE OF:   {', '.join(map(str, inside['enum']))}"
    if "default" in inside:
        yield f"DEFAULT:  {json.dumps(inside['default'], ensure_ascii=False)}"
    if inside.get("description"):
        yield from ("", "DESCRIPTION:")
        yield from textwrap.wrap(f"    {inside['description']}", 100, subsequent_indent="    ", break_on_hyphens=False)


def _field_lines(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each field: its type, whether it is required, the first sentence of what it is."""
    required = _required(schema, root)
    rows = [
        (f"{name} <{_type(part, root)}>{' -required-' if name in required else ''}", _first_sentence(part, root))
        for name, part in _fields(schema, root).items()
    ]
    if rows:
        yield from ("", "FIELDS:")
    width = max((len(head) for head, _ in rows), default=0)
    for head, sentence in rows:
        yield f"    {head:<{width}}  {sentence}".rstrip()


def _first_sentence(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    return _SENTENCE_END.split(str(_resolved(schema, root).get("description", "")), maxsplit=1)[0]


def _required(schema: Mapping[str, Any], root: Mapping[str, Any]) -> frozenset[str]:
    inside = _resolved(schema, root)
    if "items" in inside:
        return _required(inside["items"], root)
    return frozenset(inside.get("required", ()))


def _type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if _options(schema):
        return " or ".join(_type(option, root) for option in _options(schema))
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
