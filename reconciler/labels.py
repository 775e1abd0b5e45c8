"""Label selectors, as Kubernetes and kubectl know them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from reconciler.untrusted_text import whole_number_in


class LabelRequirement(Struct, frozen=True):
    """One matchExpressions entry. Source: apimachinery meta/v1 LabelSelectorRequirement."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether `labels` meet this; NotIn also holds where the key is absent.

        Gt and Lt compare whole numbers; a label that is none meets neither.
        """
        present = self.key in labels
        if self.operator in ("Gt", "Lt"):
            found, limit = whole_number_in(labels.get(self.key, "")), int(self.values[0])
            return found is not None and (found > limit if self.operator == "Gt" else found < limit)
        if self.operator == "Exists":
            return present
        if self.operator == "DoesNotExist":
            return not present
        inside = present and labels[self.key] in self.values
        return inside if self.operator == "In" else not inside


class LabelSelector(Struct, frozen=True):
    """A label selector; all parts must hold. Without any part it is `empty` and matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[LabelRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    @property
    def requirements(self) -> tuple[LabelRequirement, ...]:
        """All that it asks for; a label of `match_labels` is one of `In` with one value."""
        return (*(LabelRequirement(key, "In", (value,)) for key, value in self.match_labels), *self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


_WORD = r"[^\s=!(),<>]+"
_TERM = rf"""(?x)\s*(?:
        !\s*(?P<absent>{_WORD})
        | (?P<set_key>{_WORD})\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()=!<>]*)\)
        | (?P<key>{_WORD})\s*(?P<operator>==|=|!=)\s*(?P<value>(?:{_WORD})?)
        | (?P<number_key>{_WORD})\s*(?P<order>[<>])\s*(?P<number>[0-9]{{1,18}})
        | (?P<present>{_WORD})
    )\s*(?P<end>,|$)"""
_NAME = r"(?a)[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?a)(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/"
_SYNTAX_WORDS = ("in", "notin")


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector that kubectl would read from `text` (`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`).

    Raises:
        ValueError: it cannot be read; the message says where.

    Source: apimachinery pkg/labels, Parse and NewRequirement.
    """
    requirements: list[LabelRequirement] = []
    position = 0
    while position < len(text.rstrip()) or (requirements and text[:position].endswith(",")):
        term = re.compile(_TERM).match(text, position)
        found = None if term is None else _requirement(term)
        if term is None or found is None:
            wrong = text[position:] or text  # nothing follows a comma
            raise ValueError(f'"{wrong}" is no label selector, expected key=value, key in (a,b), key or !key')
        requirements.append(found)
        position = term.end()
    return LabelSelector(match_expressions=tuple(requirements))


def _requirement(term: re.Match[str]) -> LabelRequirement | None:
    """Return what one term asks for, None where its key or one of its values can be on no object."""
    found = _asked(term)
    return found if _may_be_on_an_object(found.key, found.values) else None


def _may_be_on_an_object(key: str, values: Iterable[str]) -> bool:
    prefix = re.match(_PREFIX, key)
    name = key[prefix.end() :] if prefix is not None else key
    if key in _SYNTAX_WORDS or re.fullmatch(_NAME, name) is None:
        return False
    return all(not value or re.fullmatch(_NAME, value) for value in values)


def _asked(term: re.Match[str]) -> LabelRequirement:
    if term["absent"]:
        return LabelRequirement(term["absent"], "DoesNotExist")
    if term["set_key"]:
        values = tuple(value.strip() for value in term["values"].split(","))
        return LabelRequirement(term["set_key"], "In" if term["set_operator"] == "in" else "NotIn", values)
    if term["key"]:
        return LabelRequirement(term["key"], "NotIn" if term["operator"] == "!=" else "In", (term["value"],))
    if term["number_key"]:
        return LabelRequirement(term["number_key"], "Gt" if term["order"] == ">" else "Lt", (term["number"],))
    return LabelRequirement(term["present"], "Exists")


def selector_text(selector: LabelSelector | None) -> str:
    """Return `selector` as kubectl takes it, to list fewer objects: "" where there is none.

    It is "" too where a key or a value may be on no object. Custom kinds and files can hold such, and an API server
    would refuse the list, or read the comma of a value as the next term.
    """
    if selector is None:
        return ""
    sayable = all(_may_be_on_an_object(one.key, one.values) for one in selector.requirements)
    return ",".join(_terms(selector)) if sayable else ""


def _terms(selector: LabelSelector) -> Iterator[str]:
    yield from (f"{key}={value}" for key, value in selector.match_labels)
    for requirement in selector.match_expressions:
        if requirement.operator in ("Exists", "DoesNotExist"):
            yield requirement.key if requirement.operator == "Exists" else f"!{requirement.key}"
        elif requirement.operator in ("Gt", "Lt"):
            yield f"{requirement.key}{'>' if requirement.operator == 'Gt' else '<'}{requirement.values[0]}"
        else:
            operator, values = "in" if requirement.operator == "In" else "notin", ",".join(requirement.values)
            yield f"{requirement.key} {operator} ({values})"
