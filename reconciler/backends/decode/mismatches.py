"""Everything in a value that is not of its shape, each with its path: asked only once decoding has failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from operator import getitem
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from reconciler.backends.decode import shapes
from reconciler.backends.decode.values import decoded_value
from reconciler.errors import Problem
from reconciler.messages import nearest
from reconciler.yaml.documents import Document

S = TypeVar("S", bound=Struct)
FieldPath = tuple[str | int, ...]

_WORDS: dict[str, tuple[type, str]] = {
    "StrType": (str, "a text"),
    "BoolType": (bool, "true or false"),
    "DictType": (dict, "a mapping"),
    "StructType": (dict, "a mapping"),
    "ListType": (list, "a list"),
}


class Mismatch(Struct, frozen=True):
    """What stands at `path`, and what was expected there. `missing`: nothing stands there. `unknown`: it is a field
    that nobody knows, and these words say what else it may be. `error`: what the decoder says where we know no more.
    """

    path: FieldPath
    found: Any
    expected: str
    missing: bool = False
    unknown: str = ""
    error: str = ""

    def words(self, secret: bool = False) -> str:
        """Return "is X, expected Y"; without the value itself where it is `secret`."""
        if self.unknown or self.error:
            return f"unknown field{self.unknown}" if self.unknown else f"is malformed: {self.error}"
        return f"is {'missing' if self.missing else json_words(self.found, secret)}, expected {self.expected}"


def json_words(value: Any, secret: bool = False) -> str:
    """Return `value` as a message may quote it; only its type where it is `secret`."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if secret:
        return "a text" if isinstance(value, str) else "no text"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def json_path(path: FieldPath) -> str:
    """Return `path` as people write it: spec.replicas, items[3].metadata.labels["app.kubernetes.io/name"]."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier():
            text += f".{key}"
        else:
            text += f"[{json.dumps(key, ensure_ascii=False)}]"
    return text.removeprefix(".")


def problem_at(document: Document, path: FieldPath, words: str, *, outer: FieldPath = (), key: bool = False) -> Problem:
    """Return `words` as a problem at `path` of the object that stands at `outer` in `document`; with `key` at the name
    of that field.
    """
    line, column = document.place((*outer, *path), key=key)
    return Problem(document.file, line, column, json_path(path), words)


def read_as(shape: type[S], value: Any) -> S | list[Mismatch]:
    """Return parsed JSON or YAML as `shape`, or all that is wrong with it."""
    try:
        return decoded_value(shape, value)
    except msgspec.ValidationError as error:
        return mismatches(value, shape) or [Mismatch((), value, "", error=str(error))]


def read_object(shape: type[S], value: Any) -> S | list[Mismatch]:
    """Return the manifest of an object as `read_as` does. Null in place of a text becomes "" in it, which is what an
    API server reads there.
    """
    read = read_as(shape, value)
    if not isinstance(read, list):
        return read
    for wrong in read:
        if wrong.found is None and wrong.expected == "a text" and not wrong.missing:
            *way, last = wrong.path
            reduce(getitem, way, value)[last] = ""
    return read_as(shape, value)


def mismatches(value: Any, shape: type[Struct]) -> list[Mismatch]:
    """Return all that is wrong with `value` as a `shape`, in the order of the shape's fields."""
    return list(_of(value, _type_info(shape), ()))


@lru_cache
def _type_info(shape: Any) -> inspect.Type:
    return inspect.type_info(shape)


def _of(value: Any, kind: Any, path: FieldPath) -> Iterator[Mismatch]:
    inside = _INSIDE.get(type(kind).__name__)
    wanted, words = _WORDS.get(type(kind).__name__, (object, ""))
    if not isinstance(value, wanted):
        hint = "; put it in quotes" if wanted is str and isinstance(value, bool | int | float) else ""
        yield Mismatch(path, value, words + hint)
    elif inside is not None:
        yield from inside(value, kind, path)


def _of_union(value: Any, kind: inspect.UnionType, path: FieldPath) -> Iterator[Mismatch]:
    """Every union of the shapes is one type, or null."""
    if value is not None:
        for member in kind.types:
            if not isinstance(member, inspect.NoneType):
                yield from _of(value, member, path)


def _of_text(value: str, kind: inspect.StrType, path: FieldPath) -> Iterator[Mismatch]:
    if kind.min_length and not value:
        yield Mismatch(path, value, "a text that is not empty")


def _of_choice(value: Any, kind: inspect.LiteralType, path: FieldPath) -> Iterator[Mismatch]:
    if value not in kind.values:
        yield Mismatch(path, value, f"one of {', '.join(map(str, kind.values))}")


def _of_number(value: Any, kind: inspect.IntType, path: FieldPath) -> Iterator[Mismatch]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    low, high = kind.ge, kind.le
    if not whole or (low is not None and value < low) or (high is not None and value > high):
        bounds = "" if low is None else f" of at least {low}"
        yield Mismatch(path, value, f"a whole number{bounds}" + ("" if high is None else f" and at most {high}"))


def _of_custom(value: Any, kind: inspect.CustomType, path: FieldPath) -> Iterator[Mismatch]:
    custom: Any = kind.cls
    if custom is shapes.WholeTemplate:
        yield from _of(value, _type_info(shapes.PodTemplate), path)
        return
    try:
        custom.read(value)
    except ValueError:
        yield Mismatch(path, value, custom.expected)


def _of_list(value: list[Any], kind: inspect.ListType, path: FieldPath) -> Iterator[Mismatch]:
    for index, item in enumerate(value):
        yield from _of(item, kind.item_type, (*path, index))


def _of_entries(value: dict[str, Any], kind: inspect.DictType, path: FieldPath) -> Iterator[Mismatch]:
    for key, item in value.items():
        yield from _of(item, kind.value_type, (*path, key))


def _of_fields(value: dict[str, Any], kind: inspect.StructType, path: FieldPath) -> Iterator[Mismatch]:
    if kind.forbid_unknown_fields:
        known = [field.encode_name for field in kind.fields]
        for name in [name for name in value if name not in known]:
            hint = nearest(name, known) or f", expected one of {', '.join(known)}"
            yield Mismatch((*path, name), None, "", unknown=hint)
    for field in kind.fields:
        at = (*path, field.encode_name)
        if field.encode_name in value:
            yield from _of(value[field.encode_name], field.type, at)
        elif field.required:
            custom = getattr(getattr(field.type, "cls", None), "expected", "a whole number")
            words = _WORDS.get(type(field.type).__name__, (object, custom))[1]
            yield Mismatch(at, None, words, missing=True)


_INSIDE: dict[str, Callable[[Any, Any, FieldPath], Iterator[Mismatch]]] = {
    "UnionType": _of_union,
    "StrType": _of_text,
    "LiteralType": _of_choice,
    "IntType": _of_number,
    "CustomType": _of_custom,
    "ListType": _of_list,
    "DictType": _of_entries,
    "StructType": _of_fields,
}
