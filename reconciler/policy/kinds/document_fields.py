"""A document read as the fields of its kind: what does not fit its schema, an unknown field or a value that is refused,
is a problem at its line in our own words, and is left out of the fields. jsonschema finds what does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, inspect

from reconciler.errors import Problem
from reconciler.messages import Path, alternatives, nearest, nearest_of, shown
from reconciler.policy import schemas
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import scalar_of
from reconciler.untrusted_text import LARGEST, MOST_REPLICAS
from reconciler.yaml.reader import plain_value

S = TypeVar("S", bound=Struct)
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
UNKNOWN = "unknown field"
"""What is said of a field that is like none there is."""


def read(document: PolicyDocument, kind: str, fields: type[S], part: str = "") -> S:
    """Return a document as `fields`, those of `kind` or of a `part` of its schema; problems are gathered in it.

    What is wrong is taken out of it and left at its default, so that the rest can still be judged.
    """
    try:
        return convert(document.source.value, fields, dec_hook=scalar_of)
    except (ValidationError, RecursionError):
        document.problems += _taken_out(document, kind, part)
        found: S = _left(document, document.source.value, inspect.type_info(fields), ())
        return found


class _Fault(Struct, frozen=True):
    """What is wrong with the value at `path`, or with `key` with its name: `words` say it. `meant` is the field that it
    is taken for, which need not be reported as missing.
    """

    path: Path
    words: str
    key: bool = False
    meant: Path | None = None


def _taken_out(document: PolicyDocument, kind: str, part: str) -> list[Problem]:
    """Take out of a document what is of the wrong shape by its schema; return what is wrong with it."""
    source, validator = document.source, schemas.validator_of(kind, part)
    errors = _first_of_each(validator.iter_errors(source.value))
    faults = [fault for error in errors for fault in _faults(error, validator.schema)]
    meant = {fault.meant for fault in faults if fault.meant is not None}
    problems = [source.problem(fault.path, fault.words, key=fault.key) for fault in faults if fault.path not in meant]
    for path in (*(fault.path for fault in faults), *meant):
        document.take_out(path)
    return problems


def _first_of_each(errors: Iterable[Any]) -> Iterator[Any]:
    """Yield the errors, of those that concern one value only the first."""
    seen = set()
    for error in errors:
        path = tuple(error.absolute_path)
        several = error.validator in ("required", "additionalProperties") or _is_key(error)
        if several or path not in seen:
            yield error
        if not several:
            seen.add(path)


def _is_key(error: Any) -> bool:
    return "propertyNames" in error.absolute_schema_path


def _faults(error: Any, root: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield what an error of `root`, the whole schema, stands for: several faults where several fields are unknown."""
    path, fields = tuple(error.absolute_path), error.schema.get("properties", {})
    if _is_key(error):
        yield _Fault((*path, error.instance), f"is no valid key, expected {_expectation(error.schema)}", key=True)
    elif error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance and error.message.startswith(repr(name)):
                field = fields.get(name, {})
                wanted = _expectation(root["$defs"][schemas.referred(field)] if "$ref" in field else field)
                yield _Fault((*path, name), f"is missing, expected {wanted}")
    elif error.validator == "additionalProperties":
        for name in [name for name in error.instance if name not in fields]:
            meant = nearest_of(name, [known for known in fields if known not in error.instance])
            if meant is None:
                yield _Fault((*path, name), UNKNOWN, key=True)
            else:
                yield _Fault((*path, name), f'{UNKNOWN}, did you mean "{meant}"?', key=True, meant=(*path, meant))
    else:
        yield _Fault(path, _WORDS.get(error.validator, _other)(error))


def _enum(error: Any) -> str:
    negated = _is_negation(str(error.instance))
    options = [str(option) for option in error.schema["enum"]]
    near = nearest(error.instance, [option for option in options if _is_negation(option) == negated])
    return f"is {shown(error.instance)}, expected {_expectation(error.schema)}{near}"


def _is_negation(word: str) -> bool:
    """Return whether `word` says that something does not hold: what is near in letters may be the opposite."""
    return "not" in word.lower()


def _type(error: Any) -> str:
    advice = _quotes(error.instance, error.schema)
    found = shown(error.instance)
    if advice == _PUT_IN_QUOTES:  # as it stands there
        found = f"{str(error.instance).lower()} (a {'boolean' if isinstance(error.instance, bool) else 'number'})"
    return f"is {found}, expected {_expectation(error.schema)}{advice}"


_PUT_IN_QUOTES = "; put it in quotes"


def _quotes(value: Any, schema: Any) -> str:
    """Return the advice that helps where a text was taken for a number or truth, or the other way round."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if isinstance(value, int | float) and "string" in types:
        text = str(value).lower()
        fits = re.search(schema["pattern"], text) if "pattern" in schema else "x-expected" not in schema
        return _PUT_IN_QUOTES if fits else ""
    if isinstance(value, str) and value and len(value) < 20:
        meant = plain_value(value)
        number = isinstance(meant, int | float) and not isinstance(meant, bool) and {"integer", "number"} & set(types)
        return "; take away the quotes" if number or (isinstance(meant, bool) and "boolean" in types) else ""
    return ""


def _length(error: Any) -> str:
    return f"has {len(error.instance)} characters, expected at most {error.validator_value}"


def _too_large(error: Any) -> str:
    most = error.validator_value
    named = "2^53" if most == LARGEST else most
    wanted = _expectation(error.schema) if most < MOST_REPLICAS else f"a number of at most {named}"
    return f"is {shown(error.instance)}, expected {wanted}"


def _too_small(error: Any) -> str:
    wanted = _expectation(error.schema) if error.validator_value > -LARGEST else "a number of at least -2^53"
    return f"is {shown(error.instance)}, expected {wanted}"


def _other(error: Any) -> str:
    found = "may hold a secret and is not shown" if "x-secret" in error.schema else f"is {shown(error.instance)}"
    return f"{found}, expected {_expectation(error.schema)}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "enum": _enum,
    "type": _type,
    "maxLength": _length,
    "maximum": _too_large,
    "minimum": _too_small,
}


def _expectation(schema: Mapping[str, Any]) -> str:
    """Return what a JSON Schema expects, in words."""
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return alternatives(schema["enum"])
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


# What is left of a document once that is taken out.


def _left(document: PolicyDocument, value: Any, kind: inspect.Type, path: tuple[str | int, ...]) -> Any:
    """Return what is left of `value` as a `kind`, with its default or an empty value where something is missing.

    Unlike msgspec it takes 3.0 for 3, as JSON Schema does.
    """
    match kind:
        case inspect.Metadata(type=inner):
            return _left(document, value, inner, path)
        case inspect.UnionType(types=types):  # of int and float the latter, and text where it may be one, too
            stated = [one for one in types if not isinstance(one, inspect.NoneType)]
            return None if value is None and len(stated) < len(types) else _left(document, value, stated[-1], path)
        case inspect.StructType():
            return _struct(document, value if isinstance(value, dict) else {}, kind, path)
        case inspect.CustomType(cls=scalar):
            return _scalar(document, value, scalar, path)
        case inspect.VarTupleType(item_type=inner):
            return tuple(_left(document, entry, inner, (*path, n)) for n, entry in enumerate(value or ()))
        case inspect.DictType(value_type=inner):
            return {key: _left(document, entry, inner, (*path, key)) for key, entry in (value or {}).items()}
    if value is None:
        return _EMPTY.get(type(kind).__name__, "")
    whole = isinstance(kind, inspect.IntType | inspect.StrType | inspect.LiteralType)
    return int(value) if whole and isinstance(value, float) else value


def _struct(document: PolicyDocument, value: Mapping[str, Any], kind: inspect.StructType, path: Path) -> Any:
    found = {
        field.name: _left(document, value.get(name), field.type, (*path, name))
        for field in kind.fields
        if value.get(name := field.encode_name) is not None or field.required
    }
    return kind.cls(**found)


def _scalar(document: PolicyDocument, value: Any, kind: Any, path: Path) -> Any:
    if value is None:
        return kind()
    try:
        return scalar_of(kind, value)
    except ValueError:
        document.check_duration(path, str(value))
        return kind()


_EMPTY = {"IntType": 0, "FloatType": 0, "BoolType": False}
