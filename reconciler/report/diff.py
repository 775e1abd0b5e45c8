"""The fields that a plan reads or writes: as a unified diff of YAML, and one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import Any

from reconciler.decide.decisions import Decision, FieldChange, Verb
from reconciler.plan.model import Plan, json_value
from reconciler.report.change_words import name_of, names_with_group, value_text
from reconciler.untrusted_text import one_line

_COLORS = (("---", "1"), ("+++", "1"), ("@@", "36"), ("-", "31"), ("+", "32"))
_NOTHING = "/dev/null"

Manifest = dict[str, Any]


def render_diff(plan: Plan, *, color: bool = False) -> str:
    """Return the unified diff of all objects that `plan` changes, by name; "" where it changes none.

    Values of environment variables are masked; a created object is there whole.
    """
    ordered = sorted(plan.actions, key=lambda action: (action.ref, action.id))
    names = names_with_group(action.ref for action in ordered)
    lines = (
        line
        for ref, several in groupby(ordered, key=lambda action: action.ref)
        for line in _lines(names.get(ref, name_of(ref)), *_states([action.decision for action in several]))
    )
    return "".join(f"{_painted(line) if color else line}\n" for line in lines)


def _states(decisions: Sequence[Decision]) -> tuple[Manifest | None, Manifest | None]:
    """Return the object before the first and after the last of its decisions, None where it does not exist."""
    first: dict[tuple[str, ...], Any] = {}
    last: dict[tuple[str, ...], Any] = {}
    for change in (change for decision in decisions for change in decision.changes):
        first.setdefault(change.path, change.before)
        last[change.path] = change.after
    created = next((decided for decided in decisions if decided.uid is None and decided.manifest is not None), None)
    before = None if created is not None else _object(decisions[0], first)
    if any(decided.verb is Verb.DELETE for decided in decisions):
        return before, None
    return before, _object(created or decisions[0], last)


def _object(decision: Decision, fields: Mapping[tuple[str, ...], Any]) -> Manifest:
    """Return an object with `fields`: what identifies it, or the whole manifest where it is created, in front."""
    ref = decision.ref
    metadata = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    found: Manifest = {"apiVersion": decision.api_version, "kind": ref.kind, "metadata": metadata}
    if decision.uid is None and decision.manifest is not None:
        whole: Manifest = json_value(decision.manifest)
        found = {**found, **whole, "metadata": metadata | whole.get("metadata", {})}
    for path in sorted(fields):
        if fields[path] is not None:
            into = found
            for key in path[:-1]:
                into = into.setdefault(key, {})
            into[path[-1]] = json_value(fields[path])
    return found


def _lines(name: str, before: Manifest | None, after: Manifest | None) -> Iterator[str]:
    from difflib import unified_diff

    from reconciler.yaml.writer import block_text

    old = [] if before is None else block_text(masked(before, after, "before")).splitlines()
    new = [] if after is None else block_text(masked(after, before, "after")).splitlines()
    current = _NOTHING if before is None else f"current/{name}"
    desired = _NOTHING if after is None else f"desired/{name}"
    yield from unified_diff(old, new, current, desired, lineterm="")


def _painted(line: str) -> str:
    code = next((code for start, code in _COLORS if line.startswith(start)), "")
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


def fields_of(decision: Decision) -> Iterator[str]:
    """Yield every field the change is about, before and after; what is only tested says so."""
    for change in decision.changes:
        if change.before is None and change.after is None:
            continue  # a precondition that nothing is there
        yield f"{_path(change.path)}: {_fate(change)}"
    if decision.manifest is not None:
        yield f"manifest: {value_text(masked(json_value(decision.manifest), None, ''))}"


def masked(value: Any, other: Any, side: str) -> Any:
    """Return JSON values with "***" for the values of environment variables, also inside texts that hold JSON.

    `other` is the same before or after; a value that differs there is "*** (before)" or "*** (after)", by `side`.

    Source: kubernetes/kubectl pkg/cmd/diff/diff.go, Masker, which does so for the data of Secrets.
    """
    if isinstance(value, str):
        return _masked_text(value, other, side) if '"env"' in value else value
    if isinstance(value, Mapping):
        there = other if isinstance(other, Mapping) else {}
        return {
            key: _masked_env(inside, there.get(key), side)
            if key == "env" and isinstance(inside, list)
            else masked(inside, there.get(key), side)
            for key, inside in value.items()
        }
    if isinstance(value, list):
        others = other if isinstance(other, list) else []
        return [masked(inside, before, side) for inside, before in zip_longest(value, others[: len(value)])]
    return value


def _masked_env(variables: list[Any], other: Any, side: str) -> list[Any]:
    # Only the API server refuses what is no list of them, or a name that is no text.
    others = other if isinstance(other, list) else []
    there = {str(variable.get("name")): variable.get("value") for variable in others if isinstance(variable, Mapping)}
    return [
        {**one, "value": "***" if there.get(str(one.get("name")), one["value"]) == one["value"] else f"*** ({side})"}
        if isinstance(one, Mapping) and "value" in one
        else one
        for one in variables
    ]


def _masked_text(text: str, other: Any, side: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        there = json.loads(other) if isinstance(other, str) else None
    except (ValueError, RecursionError):
        there = None
    return json.dumps(masked(value, there, side), ensure_ascii=False)


@lru_cache(1024)  # most changes are of the same few fields
def _path(path: tuple[str, ...]) -> str:
    plain = [key if key.replace("-", "").replace("_", "").isalnum() else f'["{one_line(key)}"]' for key in path]
    return ".".join(plain).replace(".[", "[")


def _fate(change: FieldChange) -> str:
    before, after = json_value(change.before), json_value(change.after)
    words = value_text(masked(before, after, "before"))
    return f"{words} (precondition)" if before == after else f"{words} -> {value_text(masked(after, before, 'after'))}"
