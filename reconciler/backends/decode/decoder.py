"""Decoding to the shapes of objects, from JSON bytes and from values alike; and where it fails, all that is wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from reconciler.backends.decode import shapes
from reconciler.backends.decode.shapes import PodTemplate, WholeTemplate
from reconciler.backends.decode.wire import Instant, Number, Object, Wire, instant, number
from reconciler.errors import Problem
from reconciler.messages import nearest
from reconciler.yaml.documents import Document

T = TypeVar("T")

SHAPES: dict[tuple[str, str], type[Wire]] = {
    ("apps", "Deployment"): shapes.AppsWorkload,
    ("apps", "StatefulSet"): shapes.AppsWorkload,
    ("apps", "ReplicaSet"): shapes.ReplicaSet,
    ("", "ReplicationController"): shapes.ReplicationController,
    ("batch", "CronJob"): shapes.CronJob,
    ("keda.sh", "ScaledObject"): shapes.ScaledObject,
    ("autoscaling", "HorizontalPodAutoscaler"): shapes.HorizontalPodAutoscaler,
    ("", "Service"): shapes.Service,
    ("", "Endpoints"): shapes.Endpoints,
    ("discovery.k8s.io", "EndpointSlice"): shapes.EndpointSlice,
    ("", "Namespace"): Object,
    ("", "Node"): Object,
    ("", "Event"): shapes.Event,
    ("", "ConfigMap"): shapes.ConfigMap,
    ("", "Secret"): shapes.Secret,
    ("", "Pod"): shapes.Pod,
    ("coordination.k8s.io", "Lease"): shapes.Lease,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): shapes.CustomResourceDefinition,
}
"""(group, kind) -> the shape of those objects. Kinds with a scale that are not here are `Custom`."""


def read_custom(kind: type, value: Any) -> Any:
    """Return `value` as the custom type `kind`; msgspec calls this for types it does not know.

    Raises:
        ValueError, msgspec.ValidationError: it is none.
    """
    if kind is Instant and isinstance(value, str):
        return instant(value)
    if kind is Number:
        return number(value)
    if kind is shapes.WholeTemplate and isinstance(value, dict):
        return shapes.WholeTemplate(value, decoded_value(shapes.PodTemplate, value))
    raise ValueError(f"no {kind.__name__}")


def decoded_value(shape: type[T], value: Any) -> T:
    """Return parsed JSON or YAML as `shape`.

    Raises:
        msgspec.ValidationError: it is not of that shape.
    """
    _decoder_of(shape)  # so that msgspec knows the type
    return msgspec.convert(value, shape, dec_hook=read_custom)


def decoded_json(shape: type[T], data: bytes | bytearray | msgspec.Raw) -> T:
    """Return JSON bytes as `shape`.

    Raises:
        msgspec.DecodeError: they are not JSON, or not of that shape (msgspec.ValidationError).
    """
    return _decoder_of(shape).decode(data)


_making = threading.Lock()
_made: dict[Any, Any] = {}


def _decoder_of(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Return the one decoder of `shape`, made by one thread at a time.

    msgspec looks at a type when it first meets it, and notes on the type, unguarded, what it found: threads that meet
    one at the same time end the process (seen with msgspec 0.22). After this it knows `shape` and all that is in it.
    """
    with _making:
        if shape not in _made:
            _made[shape] = msgspec.json.Decoder(shape, dec_hook=read_custom)
        made: msgspec.json.Decoder[T] = _made[shape]
        return made


# Everything in a value that is not of its shape, each with its path: asked only once decoding has failed.


FieldPath = tuple[str | int, ...]

_type_info = lru_cache(inspect.type_info)

_WORDS: dict[type, tuple[type, str]] = {
    inspect.StrType: (str, "a text"),
    inspect.BoolType: (bool, "true or false"),
    inspect.DictType: (dict, "a mapping"),
    inspect.StructType: (dict, "a mapping"),
    inspect.ListType: (list, "a list"),
}
_CUSTOM = {Instant: "a time as in RFC 3339", Number: 'a number, "NaN", "+Inf" or "-Inf"'}


class Mismatch(Struct, frozen=True):
    """What stands at `path`, and what was expected there. `missing`: nothing stands there. `unknown`: it is a field
    that nobody knows, and these words say what else it may be.
    """

    path: FieldPath
    found: Any
    expected: str
    missing: bool = False
    unknown: str = ""

    def words(self, secret: bool = False) -> str:
        """Return "is X, expected Y"; without the value itself where it is `secret`."""
        if self.unknown:
            return f"unknown field{self.unknown}"
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


def mismatches(value: Any, shape: type[Struct]) -> list[Mismatch]:
    """Return all that is wrong with `value` as a `shape`, in the order of the shape's fields."""
    return list(_of(value, _type_info(shape), ()))


def _of(value: Any, kind: Any, path: FieldPath) -> Iterator[Mismatch]:
    inside = _INSIDE.get(type(kind))
    wanted, words = _WORDS.get(type(kind), (object, ""))
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
    if kind.cls is WholeTemplate:
        yield from _of(value, _type_info(PodTemplate), path)
        return
    try:
        read_custom(kind.cls, value)
    except ValueError:
        yield Mismatch(path, value, _CUSTOM[kind.cls])


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
            custom = _CUSTOM.get(getattr(field.type, "cls", object), "a whole number")
            words = _WORDS.get(type(field.type), (object, custom))[1]
            yield Mismatch(at, None, words, missing=True)


_INSIDE: dict[type, Callable[[Any, Any, FieldPath], Iterator[Mismatch]]] = {
    inspect.UnionType: _of_union,
    inspect.StrType: _of_text,
    inspect.LiteralType: _of_choice,
    inspect.IntType: _of_number,
    inspect.CustomType: _of_custom,
    inspect.ListType: _of_list,
    inspect.DictType: _of_entries,
    inspect.StructType: _of_fields,
}
