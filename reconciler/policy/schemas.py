"""The JSON Schemas of all kinds: found, loaded once, explained."""

from __future__ import annotations

import json
import re
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
    """Return the one validator for the shape of documents of `kind`, or of one of the schema's `$defs`.

    It checks every field by itself. How fields go together (`oneOf`, `anyOf`, `dependentRequired`, the number of fields
    of a closed mapping) is left to the builders, which can say it in words; the published schema has it for editors.
    """
    root = load_schema(kind)
    shape = _shape(root["$defs"][part] if part else root, root, frozenset())
    repeated = {name: _shape(root["$defs"][name], root, frozenset((name,))) for name in sorted(_references(shape))}
    return _validator_class()({**shape, "$defs": repeated})


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator, ValidationError, validators

    extend: Any = validators.extend  # its stub has no types

    def pattern(_validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not _compiled(wanted).search(instance):
            yield ValidationError("does not match")

    return extend(Draft202012Validator, {"pattern": pattern})


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    """In JSON Schema `$` is the end of the text; in Python it also stands before a line break there."""
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
    """Return what `KIND.field.field` means, as `kubectl explain` tells it: type, default, description, its fields.

    Raises:
        UsageError: there is no such kind or field.
    """
    kind, *steps = path.split(".")
    root = schema_of(kind)
    schema: Mapping[str, Any] = root
    for position, step in enumerate(steps):
        fields = _fields(schema, root)
        if step not in fields and "*" not in fields:
            where = ".".join([_kind(kind), *steps[:position]])
            raise UsageError(f'{where}: has no field "{step}"{nearest(step, fields)}')
        schema = _resolved(fields.get(step, fields.get("*", {})), root)
    return "\n".join(_lines(".".join([_kind(kind), *steps]), schema, root)) + "\n"


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema` with its reference followed; what stands beside the reference counts."""
    if "$ref" not in schema:
        return schema
    target = root["$defs"][_referred(schema)]
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def _fields(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields below `schema`, through lists; the entries of a map are called *."""
    inside = _resolved(schema, root)
    if "items" in inside:
        return _fields(inside["items"], root)
    found: dict[str, Mapping[str, Any]] = dict(inside.get("properties", {}))
    if isinstance(inside.get("additionalProperties"), dict):
        found["*"] = inside["additionalProperties"]
    return found


def _lines(name: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[str]:
    lines = [f"{name} <{_type(schema, root)}>", f"  {schema.get('description', '')}"]
    if "enum" in schema:
        lines.append(f"  One of: {', '.join(map(str, schema['enum']))}")
    if "default" in schema:
        lines.append(f"  Default: {json.dumps(schema['default'], ensure_ascii=False)}")
    fields = {key: _resolved(inside, root) for key, inside in _fields(schema, root).items()}
    if fields:
        required = _required(schema, root)
        lines += ["", "  Fields:"]
        width = max(len(f"{key} <{_type(inside, root)}>") for key, inside in fields.items())
        for key, inside in fields.items():
            head = f"{key} <{_type(inside, root)}>"
            must = "required. " if key in required else ""
            lines.append(f"    {head:<{width}}  {must}{inside.get('description', '')}")
    return lines


def _required(schema: Mapping[str, Any], root: Mapping[str, Any]) -> frozenset[str]:
    inside = _resolved(schema.get("items", schema), root)
    return frozenset(inside.get("required", ()))


def _type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f'"{schema["const"]}"'
    inside = _resolved(schema, root)
    types = inside.get("type", "any")
    named = types if isinstance(types, str) else " or ".join(types)
    return f"list of {_type(inside['items'], root)}" if named == "array" else named
