"""Label selectors, as Kubernetes and kubectl know them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One matchExpressions entry. Source: apimachinery meta/v1 LabelSelectorRequirement."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether `labels` meet this; NotIn also holds where the key is absent."""
        present = self.key in labels
        if self.operator == "Exists":
            return present
        if self.operator == "DoesNotExist":
            return not present
        inside = present and labels[self.key] in self.values
        return inside if self.operator == "In" else not inside


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector; all parts must hold. Without any part it matches everything (`empty` tells)."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[LabelRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


_TERM = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s,=!()]+)
        | (?P<set_key>[^\s,=!()]+)\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\)
        | (?P<key>[^\s,=!()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s,=!()]*)
        | (?P<present>[^\s,=!()]+)
    )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector that kubectl would read from `text` (`a=b,c!=d,e in (f,g),h notin (i),j,!k`).

    Raises:
        ValueError: it cannot be read; the message tells where.

    Source: apimachinery pkg/labels, Parse.
    """
    requirements: list[LabelRequirement] = []
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise ValueError(f'"{text[position:]}" is no label selector, expected key=value, key in (a,b), key or !key')
        requirements.append(_requirement(term))
        position = term.end()
    return LabelSelector(match_expressions=tuple(requirements))


def _requirement(term: re.Match[str]) -> LabelRequirement:
    if term["absent"]:
        return LabelRequirement(term["absent"], "DoesNotExist")
    if term["set_key"]:
        values = tuple(value.strip() for value in term["values"].split(","))
        return LabelRequirement(term["set_key"], "In" if term["set_operator"] == "in" else "NotIn", values)
    if term["key"]:
        return LabelRequirement(term["key"], "NotIn" if term["operator"] == "!=" else "In", (term["value"],))
    return LabelRequirement(term["present"], "Exists")


def selector_text(selector: LabelSelector | None) -> str:
    """Return `selector` as kubectl takes it; "" where there is none."""
    return ",".join(_terms(selector)) if selector is not None else ""


def _terms(selector: LabelSelector) -> Iterator[str]:
    yield from (f"{key}={value}" for key, value in selector.match_labels)
    for one in selector.match_expressions:
        if one.operator in ("Exists", "DoesNotExist"):
            yield one.key if one.operator == "Exists" else f"!{one.key}"
        else:
            yield f"{one.key} {'in' if one.operator == 'In' else 'notin'} ({','.join(one.values)})"
