"""The published JSON Schemas, made from the structs that define documents; a run reads what was made."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, UnsetType, structs

from reconciler.policy.kinds.federated_replica_set import Preferences
from reconciler.policy.kinds.fields import API_VERSION, Duration, Share, scalar_text
from reconciler.policy.kinds.policy_test import PolicyTestDocument
from reconciler.policy.policy_kinds import POLICY_KINDS

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    NoneType: {"type": "null"},
    Any: {},
}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
_LENGTHS = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_Schema = dict[str, Any]
_VERSION = API_VERSION.partition("/")[2]
JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


def policy_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of policies of `kind`, or of their tests, PolicyTest."""
    document = PolicyTestDocument if kind == "PolicyTest" else POLICY_KINDS[kind].document
    return json_schema(kind, _VERSION, document, (Preferences,) if kind == "ReplicaSet" else ())


def any_policy_schema() -> dict[str, Any]:
    """Return the one JSON Schema of policies of any kind, for editors: a file may hold several kinds."""
    kinds = {kind: policy_schema(kind) for kind in POLICY_KINDS}
    return {
        "$schema": JSON_SCHEMA,
        "$id": f"urn:reconciler:{_VERSION}:Policy",
        "title": "Policy",
        "description": "A policy of any kind.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {"kind": {"enum": list(kinds)}},
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"#/$defs/{kind}"}} for kind in kinds
        ],
        "$defs": {kind: _embedded(schema, kind) for kind, schema in kinds.items()},
    }


def _embedded(schema: Any, kind: str) -> Any:
    """Return `schema` as it stands among the `$defs` of another one: its references lead there."""
    if isinstance(schema, list):
        return [_embedded(one, kind) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _embedded(value, kind) for key, value in schema.items() if key not in ("$schema", "$id")}
    if isinstance(found.get("$ref"), str):
        found["$ref"] = found["$ref"].replace("#/", f"#/$defs/{kind}/", 1)
    return found


def json_schema(title: str, version: str, document: type[Struct], parts: tuple[type[Struct], ...] = ()) -> _Schema:
    """Return the JSON Schema (draft 2020-12) of `document`. What is referred to twice, and `parts`, are `$defs`."""
    definitions: _Schema = {}
    root = _struct(document, definitions)
    kept = {definition_name(part) for part in parts if _of(part, definitions)}
    uses = Counter(_references([root, *definitions.values()]))
    once = {name: found for name, found in definitions.items() if uses[name] == 1 and name not in kept}
    named = {name: _inlined(definitions[name], once) for name in sorted(definitions) if name not in once}
    return {
        "$schema": JSON_SCHEMA,
        "$id": f"urn:reconciler:{version}:{title}",
        "title": title,
        **_inlined(root, once),
        **({"$defs": named} if named else {}),
    }


def _references(schema: Any) -> Iterator[str]:
    """Yield the name of each definition that is referred to, as often as it is."""
    if isinstance(schema, list):
        for inside in schema:
            yield from _references(inside)
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for inside in schema.values():
            yield from _references(inside)


def _inlined(schema: Any, once: Mapping[str, _Schema]) -> Any:
    """Return `schema` with the definitions in `once` written out; what stands beside a reference counts."""
    if isinstance(schema, list):
        return [_inlined(inside, once) for inside in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in once:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**once[name], **beside}, once)
    return {key: _inlined(inside, once) for key, inside in schema.items()}


def definition_name(struct: type[Struct]) -> str:
    """Return the name of `struct` among the `$defs`: metadata for MetadataFields."""
    name = struct.__name__.lstrip("_").removesuffix("Fields").removesuffix("Document").removesuffix("Use")
    return name[:1].lower() + name[1:]


def _struct(struct: type[Struct], definitions: _Schema) -> _Schema:
    fields = structs.fields(struct)
    schema: _Schema = {"description": " ".join((struct.__doc__ or "").split()), "type": "object"}
    if struct.__struct_config__.forbid_unknown_fields:
        schema["additionalProperties"] = False
    described = _descriptions(struct)
    schema["properties"] = {one.encode_name: _field(one, described.get(one.name), definitions) for one in fields}
    required = [one.encode_name for one in fields if one.required]
    more: Mapping[str, Any] = getattr(struct, "json_schema", {})
    return {**schema, **({"required": required} if required else {}), **more}


@cache
def _descriptions(struct: type[Struct]) -> Mapping[str, str]:
    """Return the texts below the fields of `struct`, and of what it extends, by field.

    Schemas are made in a checkout, where the source is at hand; what is made while the program runs has none.
    """
    found: dict[str, str] = {}
    for one in reversed(struct.__mro__):
        classes = _classes(one.__module__) if issubclass(one, Struct) else {}
        for field, text in pairwise(classes.get(one.__name__, ())):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found


@cache
def _classes(module: str) -> Mapping[str, list[ast.stmt]]:
    """Return the body of each class of a module."""
    source = ast.parse(inspect.getsource(sys.modules[module]))
    return {one.name: one.body for one in source.body if isinstance(one, ast.ClassDef)}


def _field(field: structs.FieldInfo, description: str | None, definitions: _Schema) -> _Schema:
    schema = _of(field.type, definitions)
    if description is not None:
        schema = {"description": description, **schema}
    default = _default(field)
    if default is NODEFAULT or isinstance(default, UnsetType) or schema.keys() == {"description"}:
        return schema
    return {**schema, "default": _stated(default)}


def _default(field: structs.FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def _stated(value: Any) -> Any:
    """Return a default as JSON; of a struct only what differs from its own defaults."""
    if isinstance(value, Struct):
        own = {one.encode_name: getattr(value, one.name) for one in structs.fields(value)}
        defaults = {one.encode_name: _default(one) for one in structs.fields(value)}
        return {name: _stated(found) for name, found in own.items() if found != defaults[name]}
    if isinstance(value, tuple | list):
        return [_stated(one) for one in value]
    if isinstance(value, dict):
        return {key: _stated(one) for key, one in value.items()}
    return scalar_text(value) if isinstance(value, Duration | Share) else value


def _of(kind: Any, definitions: _Schema) -> _Schema:
    """Return the schema of a type; what it refers to is added to `definitions`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(arguments[0], [one for one in arguments[1:] if isinstance(one, Meta)], definitions)
    if origin in (Union, UnionType):
        return _union([one for one in arguments if one is not UnsetType], definitions)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is dict:
        return _mapping(arguments, definitions)
    return _class(kind, definitions)


def _class(kind: Any, definitions: _Schema) -> _Schema:
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if kind in (Duration, Share):
        return _portable(kind.json_schema)
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    name = definition_name(kind)
    if name not in definitions:
        definitions[name] = {}  # it may hold itself
        definitions[name] = _struct(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _mapping(arguments: tuple[Any, ...], definitions: _Schema) -> _Schema:
    keys = {key: value for key, value in _of(arguments[0], definitions).items() if key != "type"}
    entries = _of(arguments[1], definitions)
    return {"type": "object", **({"propertyNames": keys} if keys else {}), "additionalProperties": entries or True}


def _union(kinds: list[Any], definitions: _Schema) -> _Schema:
    """Return the schema of one of `kinds`: a number for whole numbers and others, with null as one more type."""
    options = [_of(one, definitions) for one in kinds if one is not NoneType]
    # int | float is written as two types, since msgspec takes bounds of one only; a JSON number is both.
    if {"type": "integer"}.items() <= options[0].items() and len(options) > 1:
        options = options[1:]
    if NoneType not in kinds and len(options) > 1 and all(one.keys() == {"type"} for one in options):
        return {"type": [one["type"] for one in options]}
    if NoneType not in kinds:
        return options[0] if len(options) == 1 else {"anyOf": options}
    if len(options) == 1 and isinstance(options[0].get("type"), str):
        return {**options[0], "type": [options[0]["type"], "null"]}
    return {"anyOf": [*options, {"type": "null"}]}


def _annotated(kind: Any, metas: list[Meta], definitions: _Schema) -> _Schema:
    schema = _of(kind, definitions)
    kinds = schema.get("type", "string")
    lengths = _LENGTHS.get(kinds if isinstance(kinds, str) else kinds[0], {})
    for meta in metas:
        stated = {word: getattr(meta, name) for name, word in {**lengths, **_BOUNDS}.items()}
        stated["pattern"] = meta.pattern
        schema |= {word: value for word, value in stated.items() if value is not None}
        schema |= meta.extra_json_schema or {}
        if meta.description is not None:
            schema = {"description": meta.description, **{k: v for k, v in schema.items() if k != "description"}}
    return _portable(schema)


def _portable(schema: Mapping[str, Any]) -> _Schema:
    """Return `schema` with its pattern as every reader of JSON Schema knows it."""
    pattern = schema.get("pattern")
    return {**schema, "pattern": pattern.replace(r"\Z", "$")} if isinstance(pattern, str) else {**schema}
