"""What all builders of policies need: a document of good shape, read field by field, with problems gathered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from reconciler.errors import Problem
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.durations import MOST_DURATION, parse_duration, parse_share, spelt_duration
from reconciler.policy.queries import VARIABLES, query_fault
from reconciler.policy.types import Limit, Limits, Place
from reconciler.yaml.documents import Document
from reconciler.yaml.words import Path, shown


class Reading:
    """One document while a policy is made of it; what is wrong with its values is gathered in `problems`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    @property
    def place(self) -> Place:
        return Place(self.document.file, self.document.line, self.document.column)

    @property
    def name(self) -> str:
        return str(self.get(("metadata", "name"), ""))

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
        """Add a problem, unless one at the same value, around it or inside it has been told already."""
        if self.document.is_judged(path):
            self.problems.append(self.document.problem(path, message, key=key))

    def warn(self, path: Path, message: str) -> None:
        """Add a warning: what is allowed, but hardly meant."""
        problem = self.document.problem(path, message)
        self.warnings.append(f"{problem.file}:{problem.line}: {problem.field}: {message}")

    def duration(self, path: Path, default: timedelta) -> timedelta:
        text = self.get(path)
        if text is None:
            return default
        found = parse_duration(text)
        if found is None:
            self.add(path, f"is {shown(text)}, expected a duration of at most {spelt_duration(MOST_DURATION)}")
        return default if found is None else found

    def duration_text(self, path: Path, default: str) -> str:
        """Return a duration as written, for queries."""
        self.duration(path, MOST_DURATION)
        return str(self.get(path, default))

    def query(self, path: Path, variables: Collection[str] = VARIABLES) -> str:
        text = str(self.get(path, ""))
        fault = query_fault(text, variables)
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
        return Limit(base.share if share is None else share, self.whole((*path, "atLeast"), base.at_least))

    def label_selector(self, path: Path) -> LabelSelector:
        """Return a Kubernetes label selector: matchLabels and matchExpressions at `path`."""
        labels = self.labels((*path, "matchLabels"))
        count = len(self.get((*path, "matchExpressions"), ()))
        requirements = [self._requirement((*path, "matchExpressions", position)) for position in range(count)]
        return LabelSelector(tuple(sorted(labels.items())), tuple(requirements))

    def texts(self, path: Path, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts; "" stands where one was no text."""
        return tuple("" if text is None else str(text) for text in self.get(path, default))

    def labels(self, path: Path) -> dict[str, str]:
        found: Mapping[str, str] = self.get(path, {})
        return dict(found)

    def _requirement(self, path: Path) -> LabelRequirement:
        operator = self.get((*path, "operator"))
        values = self.texts((*path, "values"))
        key = str(self.get((*path, "key"), ""))
        if operator in ("In", "NotIn") and not values:
            self.add((*path, "values"), f"is missing, expected at least one value for {operator}")
        if operator in ("Exists", "DoesNotExist") and values:
            self.add((*path, "values"), f"has values, expected none for {operator}")
        return LabelRequirement(key, operator or "Exists", values)


def check_own_name(reading: Reading) -> None:
    """Add a problem where a policy is called like what `--allow-exceed fleet` means."""
    if reading.name == "fleet":
        reading.add(("metadata", "name"), 'is "fleet", expected another name; --allow-exceed fleet means the Fleet')
