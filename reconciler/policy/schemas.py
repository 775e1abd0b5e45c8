"""The JSON Schemas of all kinds: found, loaded once, ready to check with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

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


@lru_cache(maxsize=16)
def validator_of(kind: str, part: str = "") -> Any:
    """Return the one jsonschema validator for the shape of documents of `kind`, or of one of the schema's `$defs`."""
    return _validator_class()(field_shape(kind, part))


@lru_cache(maxsize=16)
def field_shape(kind: str, part: str = "") -> dict[str, Any]:
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
        name = referred(schema)
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
        own = {referred(shape)} if isinstance(shape.get("$ref"), str) else set()
        return own.union(*(_references(inner) for inner in shape.values()))
    return set().union(*map(_references, shape)) if isinstance(shape, list) else set()


def referred(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
