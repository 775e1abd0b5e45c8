"""What all builders of policies need: a document of good shape, read field by field, with problems gathered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from reconciler.errors import Problem
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.documents import Document, Path
from reconciler.policy.durations import parse_duration, parse_share
from reconciler.policy.queries import query_fault
from reconciler.policy.types import Limit, Limits, Place
from reconciler.policy.words import shown

_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_DURATION = "a duration like 90s, 30m, 1h30m or 2d"
_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


class Reading:
    """One document while a policy is made of it; what is wrong with its values is gathered in `problems`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    @property
    def place(self) -> Place:
        return Place(self.document.file, self.document.line, self.document.column)

    @property
    def name(self) -> str:
        return str(self.document.value["metadata"]["name"])

    def get(self, path: Path, default: Any = None) -> Any:
        """Return the value at `path`; `default` where it, or anything above it, is missing or null."""
        value = self.document.value
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return default
            if value is None:
                return default
        return value

    def whole(self, path: Path, default: int) -> int:
        """Return a whole number; the schema has seen to it that it is one (3.0 counts as 3)."""
        return int(self.get(path, default))

    def add(self, path: Path, message: str, *, key: bool = False) -> None:
        self.problems.append(self.document.problem(path, message, key=key))

    def duration(self, path: Path, default: timedelta) -> timedelta:
        text = self.get(path)
        if text is None:
            return default
        found = parse_duration(text)
        if found is None:
            self.add(path, f"is {shown(text)}, expected {_DURATION}")
        return found or default

    def duration_text(self, path: Path, default: str) -> str:
        """Return a duration as written, for queries; it must not be zero."""
        text = str(self.get(path, default))
        if not parse_duration(text):
            self.add(path, f"is {shown(text)}, expected {_DURATION}, above zero")
        return text

    def query(self, path: Path) -> str:
        text = str(self.get(path, ""))
        fault = query_fault(text)
        if fault is not None:
            self.add(path, fault)
        return text

    def limits(self, path: Path, default: Limits) -> Limits:
        return Limits(
            self._limit((*path, "idledWorkloads"), default.idled_workloads),
            self._limit((*path, "removedReplicas"), default.removed_replicas),
        )

    def _limit(self, path: Path, default: Limit | None) -> Limit | None:
        if self.get(path) is None:
            return default
        base = default or Limit()
        text = self.get((*path, "share"))
        share = base.share if text is None else parse_share(text)
        if share is None:
            self.add((*path, "share"), f'is {shown(text)}, expected a share from "0%" to "100%"')
        return Limit(base.share if share is None else share, self.whole((*path, "atLeast"), base.at_least))

    def label_selector(self, path: Path) -> LabelSelector:
        """Return a Kubernetes label selector: matchLabels and matchExpressions at `path`."""
        labels = self.labels((*path, "matchLabels"))
        count = len(self.get((*path, "matchExpressions"), ()))
        requirements = [self._requirement((*path, "matchExpressions", position)) for position in range(count)]
        return LabelSelector(tuple(sorted(labels.items())), tuple(requirements))

    def labels(self, path: Path) -> dict[str, str]:
        """Return a map of labels, keys and values as Kubernetes allows them."""
        found: Mapping[str, Any] = self.get(path, {})
        for key, value in found.items():
            if not is_label_key(key):
                self.add(
                    (*path, key), "is no label key, expected [prefix/]name of letters, digits, -, _ and .", key=True
                )
            if not isinstance(value, str):
                self.add((*path, key), f"is {shown(value)}, expected a text; put it in quotes")
            elif not is_label_value(value):
                self.add(
                    (*path, key), f"is {shown(value)}, expected a label value of at most 63 letters, digits, -, _ and ."
                )
        return {key: value for key, value in found.items() if isinstance(value, str)}

    def _requirement(self, path: Path) -> LabelRequirement:
        operator = self.get((*path, "operator"), "Exists")
        values = tuple(str(value) for value in self.get((*path, "values"), ()))
        key = str(self.get((*path, "key"), ""))
        if not is_label_key(key):
            self.add((*path, "key"), f"is {shown(key)}, expected a label key")
        if _OPERATORS[operator] and not values:
            self.add((*path, "values"), f"is missing, expected at least one value for {operator}")
        if not _OPERATORS[operator] and values:
            self.add((*path, "values"), f"has values, expected none for {operator}")
        return LabelRequirement(key, operator, values)


def is_label_key(key: str) -> bool:
    """Source: apimachinery pkg/util/validation, IsQualifiedName."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _LABEL_PREFIX.fullmatch(prefix):
        return False
    return _LABEL_NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Source: apimachinery pkg/util/validation, IsValidLabelValue."""
    return value == "" or _LABEL_NAME.fullmatch(value) is not None
