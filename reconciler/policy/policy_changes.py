"""The differences between two sets of policies, in the words of the policy language: fields, names, removals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.policy.compiled import compile_policies
from reconciler.policy.types import PolicySet

_Rule = Mapping[str, Any]
_ABSENT = object()


class PolicyFieldChange(Struct, frozen=True, order=True):
    """One field of one policy: its value before and after as JSON text, "none" where it has none."""

    policy: str
    field: str
    before: str
    after: str


class Renamed(Struct, frozen=True, order=True):
    """A policy with the same content under another name; both with their kind."""

    before: str
    after: str


class PolicyChanges(Struct, frozen=True):
    """All differences, sorted. Policies are called by kind and name."""

    fields: tuple[PolicyFieldChange, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        return not (self.fields or self.renamed or self.removed or self.added)


def policy_changes(base: PolicySet, head: PolicySet) -> PolicyChanges:
    """Return how `head` differs from `base`."""
    before, after = _rules(base), _rules(head)
    renamed = _renamed(
        {name: rule for name, rule in before.items() if name not in after},
        {name: rule for name, rule in after.items() if name not in before},
    )
    old, new = {pair.before for pair in renamed}, {pair.after for pair in renamed}
    fields = [
        PolicyFieldChange(name, path, _shown(was), _shown(now))
        for name in sorted(before.keys() & after.keys())
        for path, was, now in _differences(_content(before[name]), _content(after[name]), "")
    ]
    return PolicyChanges(
        fields=tuple(fields),
        renamed=tuple(renamed),
        removed=tuple(sorted(before.keys() - after.keys() - old)),
        added=tuple(sorted(after.keys() - before.keys() - new)),
    )


def _rules(policies: PolicySet) -> dict[str, _Rule]:
    """Return every rule by kind and name; there is one Fleet, whatever it is called."""
    return {_name(rule): rule for rule in compile_policies(policies)["rules"]}


def _name(rule: _Rule) -> str:
    metadata = rule["metadata"]
    if rule["kind"] == "Fleet":
        return "Fleet"
    scope = metadata.get("namespace") or rule.get("tenant")
    return f"{rule['kind']} {'/'.join(filter(None, (scope, metadata['name'])))}"


def _content(rule: _Rule) -> Mapping[str, Any]:
    return {"metadata": rule["metadata"], "spec": rule["spec"]}


def _renamed(gone: Mapping[str, _Rule], fresh: Mapping[str, _Rule]) -> list[Renamed]:
    """Return those of `gone` that are in `fresh` with the same content, each once."""
    twins: dict[str, list[str]] = {}
    for name, rule in sorted(fresh.items(), reverse=True):
        twins.setdefault(_nameless(rule), []).append(name)
    return [Renamed(name, same.pop()) for name, rule in sorted(gone.items()) if (same := twins.get(_nameless(rule)))]


def _nameless(rule: _Rule) -> str:
    """Return what a rule says apart from its name; a wake group that is called like it counts as its name."""
    spec, name = dict(rule["spec"]), rule["metadata"]["name"]
    order = spec.get("wakeOrder")
    if isinstance(order, dict) and order.get("group") == name:
        spec["wakeOrder"] = {**order, "group": None}
    metadata = {key: value for key, value in rule["metadata"].items() if key != "name"}
    return json.dumps([rule["kind"], metadata, spec], sort_keys=True)


def _differences(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, before, after) of the smallest parts that differ; what has a name is found by it in a list."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            inside = f"{path}.{key}" if path else key
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), inside)
        return
    if isinstance(before, list) and isinstance(after, list):
        pairs = _paired(before, after)
        if pairs is not None:
            for key, was, now in pairs:
                yield from _differences(was, now, f"{path}[{key}]")
            return
    yield path, before, after


def _paired(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[str, Any, Any]] | None:
    """Return what stands for one another in two lists of mappings, None where that is not known."""
    if not all(isinstance(entry, dict) for entry in (*before, *after)):
        return None
    was, now = ({str(entry.get("name")): entry for entry in found} for found in (before, after))
    if len(was) == len(before) and len(now) == len(after) and all("name" in entry for entry in (*before, *after)):
        return [(key, was.get(key, _ABSENT), now.get(key, _ABSENT)) for key in sorted({*was, *now})]
    if len(before) == len(after):
        return [(str(place), entry, other) for place, (entry, other) in enumerate(zip(before, after, strict=True))]
    return None


def _shown(value: Any) -> str:
    if value is _ABSENT or value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
