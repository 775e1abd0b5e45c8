"""Whether a value has a shape: a schema as plain functions.

Says only yes or no, some ten times faster than jsonschema, which is asked (and imported) only to tell what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from reconciler.policy.schemas import compiled, shape_of

Check = Callable[[Any], bool]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


@lru_cache(maxsize=16)
def fit_of(kind: str, part: str = "") -> Check:
    """Return the check of documents of `kind`, or of one of the schema's `$defs`."""
    shape = shape_of(kind, part)
    repeated: dict[str, Check] = {}
    for name, schema in shape["$defs"].items():
        repeated[name] = _check(schema, repeated)
    return _check(shape, repeated)


def _check(schema: Any, repeated: Mapping[str, Check]) -> Check:
    """Return `schema` as a function. `repeated` is filled by the time it is called."""
    if isinstance(schema, bool):
        return lambda _: schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]

        def referred(value: Any) -> bool:
            return repeated[name](value)

        return referred
    of_type = _of_type(schema)
    inner = [make(schema, repeated) for make in dict.fromkeys(_KEYWORDS[key] for key in schema if key in _KEYWORDS)]
    if not inner:
        return of_type
    if len(inner) == 1:
        only = inner[0]
        return lambda value: of_type(value) and only(value)
    return lambda value: of_type(value) and all(check(value) for check in inner)


def _of_type(schema: Mapping[str, Any]) -> Check:
    if "type" not in schema:
        return lambda _: True
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    types = frozenset(kind for name in names for kind in _TYPES[name])
    if "integer" in names:
        return lambda value: type(value) in types or (type(value) is float and value.is_integer())
    return lambda value: type(value) in types


def _object(schema: Mapping[str, Any], repeated: Mapping[str, Check]) -> Check:
    fields = {name: _check(inner, repeated) for name, inner in schema.get("properties", {}).items()}
    other = _check(schema.get("additionalProperties", True), repeated)
    name_fits = _check(schema.get("propertyNames", True), repeated)
    required = frozenset(schema.get("required", ()))

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return True
        if not required <= value.keys():
            return False
        return all(fields.get(name, other)(inner) and name_fits(name) for name, inner in value.items())

    return fits


def _items(schema: Mapping[str, Any], repeated: Mapping[str, Check]) -> Check:
    check = _check(schema["items"], repeated)
    return lambda value: type(value) is not list or all(map(check, value))


def _one_of(options: list[Any]) -> Check:
    """Return whether a value is one of `options`, which are texts."""
    return lambda value: type(value) is str and value in options


def _pattern(schema: Mapping[str, Any], _: Mapping[str, Check]) -> Check:
    search = compiled(schema["pattern"]).search
    return lambda value: type(value) is not str or search(value) is not None


def _bounds(schema: Mapping[str, Any], _: Mapping[str, Check]) -> Check:
    least, most = schema.get("minimum", -float("inf")), schema.get("maximum", float("inf"))
    above = schema.get("exclusiveMinimum", -float("inf"))
    return lambda value: type(value) not in (int, float) or (least <= value <= most and value > above)


def _length(schema: Mapping[str, Any], _: Mapping[str, Check]) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
    return lambda value: type(value) is not str or least <= len(value) <= most


def _count(schema: Mapping[str, Any], _: Mapping[str, Check]) -> Check:
    kind, least = (list, schema["minItems"]) if "minItems" in schema else (dict, schema["minProperties"])
    return lambda value: type(value) is not kind or len(value) >= least


_KEYWORDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Check]], Check]] = {
    **dict.fromkeys(("properties", "additionalProperties", "propertyNames", "required"), _object),
    "items": _items,
    "enum": lambda schema, _: _one_of(schema["enum"]),
    "const": lambda schema, _: _one_of([schema["const"]]),
    "pattern": _pattern,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum"), _bounds),
    **dict.fromkeys(("minLength", "maxLength"), _length),
    **dict.fromkeys(("minItems", "minProperties"), _count),
}
KNOWN_KEYWORDS = frozenset((*_KEYWORDS, "type", "x-expected", "$ref", "$defs"))
