"""Whether a document has the shape its JSON Schema asks for; what it says, in our own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reconciler.errors import Problem
from reconciler.policy.documents import Document, Path
from reconciler.policy.schemas import validator_of
from reconciler.policy.words import expectation, nearest, shown

_LARGEST = 2**53
_MEANT = "unknown field, did you mean"
_MISSING = "is missing"


def shape_problems(document: Document, kind: str) -> list[Problem]:
    """Return what is wrong with the shape of `document`, a policy of `kind`, by its schema."""
    found = [
        problem for error in validator_of(kind).iter_errors(document.value) for problem in problems_of(error, document)
    ]
    meant = {_sibling(problem) for problem in found if _MEANT in problem.message}
    return [problem for problem in found if not (problem.field in meant and problem.message.startswith(_MISSING))]


def _sibling(problem: Problem) -> str:
    """Return the path of the field that a misspelt one stands for; that it is missing need not be told as well."""
    parent = problem.field.rpartition(".")[0]
    name = problem.message.split('"')[1]
    return f"{parent}.{name}" if parent else name


def problems_of(error: Any, document: Document) -> Iterator[Problem]:
    """Yield one jsonschema error as problems: several where several fields are unknown."""
    word = _WORDS.get(error.validator, _other)
    yield from word(error, document, tuple(error.absolute_path))


def _unknown(error: Any, document: Document, path: Path) -> Iterator[Problem]:
    known = error.schema.get("properties", {})
    for name in error.instance:
        if name not in known:
            near = nearest(name, set(known) - set(error.instance))
            yield document.problem((*path, name), f"unknown field{near}", key=True)


def _missing(error: Any, document: Document, path: Path) -> Iterator[Problem]:
    for name in error.validator_value:
        if name not in error.instance and error.message.startswith(repr(name)):
            wanted = expectation(error.schema.get("properties", {}).get(name, {}))
            yield document.problem((*path, name), f"is missing, expected {wanted}")


def _enum(error: Any, document: Document, path: Path) -> Iterator[Problem]:
    near = nearest(error.instance, [str(option) for option in error.schema["enum"]])
    yield document.problem(path, f"is {shown(error.instance)}, expected {expectation(error.schema)}{near}")


def _pattern(error: Any, document: Document, path: Path) -> Iterator[Problem]:
    yield document.problem(path, f"is {shown(error.instance)}, expected {error.schema.get('x-expected', _NAME)}")


def _too_large(error: Any, document: Document, path: Path) -> Iterator[Problem]:
    wanted = expectation(error.schema) if error.validator_value < _LARGEST else "a number of at most 2^53"
    yield document.problem(path, f"is {shown(error.instance)}, expected {wanted}")


def _other(error: Any, document: Document, path: Path) -> Iterator[Problem]:
    yield document.problem(path, f"is {shown(error.instance)}, expected {expectation(error.schema)}")


_NAME = "a name of lower-case letters, digits, - and . that starts and ends with a letter or digit"
_WORDS: dict[str, Callable[[Any, Document, Path], Iterator[Problem]]] = {
    "additionalProperties": _unknown,
    "required": _missing,
    "enum": _enum,
    "pattern": _pattern,
    "maximum": _too_large,
}
