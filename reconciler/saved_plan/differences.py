"""A saved plan compared with a fresh one of the same clusters and time: which of its changes are no longer planned."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from msgspec import Struct, structs

from reconciler.decide.annotations import Key, json_object
from reconciler.decide.decisions import Decision, Verb
from reconciler.model import NOTHING, pointer
from reconciler.plan.change_json import CauseDocument, ChangeDocument, change_document
from reconciler.plan.model import Action, Plan, json_value
from reconciler.untrusted_text import short

NO_POLICIES = "there are no policies to compare it with"
NOT_PLANNED = "a fresh plan does not make this change; plan again"
OTHERWISE = "a fresh plan makes another change of it; plan again"
NOT_WHOLE = "a fresh plan makes other changes together with it; plan again"

WRITTEN = ("after", "manifest")
"""What the names of the fields of a change that is written begin with."""

_CAUSE = pointer(("metadata", "annotations", Key.CAUSE))
_WORDS = {"id": 1, "cause": CauseDocument(policy="", at="", why="", values={}), "victims": None}
"""The number of a change, and the words for it: whatever they are, it does the same."""

_WITHOUT_ACTIVATOR = {"phase": "decrease", "wait_activator": False}
"""Whether an activator lives changes no write either, only when it is done."""


class _Difference(Struct, frozen=True):
    """One field of an action: its value in the saved plan, and in the fresh one; None where there is none."""

    field: str
    saved: Any
    fresh: Any

    def __str__(self) -> str:
        fresh = "nothing" if self.fresh is None else short(repr(self.fresh))
        return f"{short(self.field)} is {short(repr(self.saved))}, a fresh plan has {fresh}"


class Compared(Struct, frozen=True):
    """`differing`: why actions of a saved plan are not those of a fresh one, by id, and `fields` in what. `fresh`: the
    decisions of the fresh plan on the others, in its words.
    """

    differing: Mapping[int, str] = NOTHING
    fresh: Mapping[int, Decision] = NOTHING
    fields: Mapping[int, tuple[_Difference, ...]] = NOTHING


def compared(saved: Plan, fresh: Plan | None) -> Compared:
    """Return how the actions of `saved` differ from those of `fresh`; None: there is no fresh plan, so that all do.

    Equal is what is written, what that rests on, and what must be done before. Where an action differs, or is missing
    in one of the plans, its whole group differs; records of our own aside.
    """
    keys = frozenset(action.decision.key for action in saved.actions)
    here = _contents(saved, keys)
    if fresh is None:
        differing = {action.id: NO_POLICIES for action in saved.actions}
        return Compared(differing, fields=_fields(saved, here, NOTHING))
    there = _contents(fresh, keys)
    planned = {action.decision.key: action.decision for action in fresh.actions}
    odd = {key for key in here.keys() | there.keys() if key not in here or key not in there or here[key] != there[key]}
    broken = _groups(fresh.actions, odd) | _groups(
        [action for action in saved.actions if action.decision.key not in there], odd
    )
    differing = {}
    for action in saved.actions:
        key = action.decision.key
        if key not in there:
            differing[action.id] = NOT_PLANNED
        elif key in odd:
            differing[action.id] = OTHERWISE
        elif planned[key].group in broken:
            differing[action.id] = NOT_WHOLE
    same = {action.id: planned[action.decision.key] for action in saved.actions if action.id not in differing}
    return Compared(differing, same, _fields(saved, here, there))


def _fields(saved: Plan, here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[int, tuple[_Difference, ...]]:
    """Return in what the actions of `saved` differ, by id: of one that only `here` has, what it writes."""
    found: dict[int, tuple[_Difference, ...]] = {}
    for action in saved.actions:
        key = action.decision.key
        ours, fresh = _flat(here[key]), _flat(there[key]) if key in there else None
        if fresh is None:
            ours, fresh = {name: value for name, value in ours.items() if name.startswith(WRITTEN)}, {}
        names = [name for name in {**ours, **fresh} if ours.get(name) != fresh.get(name)]
        found[action.id] = tuple(_Difference(name, ours.get(name), fresh.get(name)) for name in names)
    return found


def _flat(document: ChangeDocument) -> dict[str, Any]:
    """Return the values in `document` by the names of their fields."""
    waiting: list[tuple[str, Any]] = list(structs.asdict(document).items())
    found: dict[str, Any] = {}
    for name, value in waiting:
        inside = structs.asdict(value) if isinstance(value, Struct) else value
        if isinstance(inside, dict):
            waiting += [(f"{name} {key}", value) for key, value in inside.items()]
        else:
            found[name] = json_value(inside)
    return found


def _groups(actions: Iterable[Action], odd: Container[str]) -> set[str]:
    """Return the groups of those `actions` with a key in `odd` that are no mere records."""
    return {
        action.decision.group
        for action in actions
        if action.decision.key in odd and action.decision.verb is not Verb.REMEMBER
    }


def _contents(plan: Plan, keys: frozenset[str]) -> dict[str, ChangeDocument]:
    """Return what each action does by its key; what it needs is named by keys too.

    It waits for `keys` alone, and a wake needs the change of its pod template only where that is among them: what else
    is needed is never filtered out alone.
    """
    names = {action.id: action.decision.key for action in plan.actions}
    templates = (action for action in plan.actions if action.decision.verb is Verb.OVERWRITE)
    filtered = {action.id for action in templates if action.decision.key not in keys}
    tiers = {action.decision.wake_tier for action in plan.actions if action.decision.key in keys}
    found = {}
    for action in plan.actions:
        document = change_document(action)
        found[document.key] = structs.replace(
            document,
            **_WORDS,
            **(_WITHOUT_ACTIVATOR if document.phase == "annotate" or document.wait_activator else {}),
            after={path: _placeless(value) if path == _CAUSE else value for path, value in document.after.items()},
            needs=sorted(names[other] for other in action.needs if other not in filtered),
            wait_ready=document.wait_ready if document.wait_ready in tiers else "",
        )
    return found


def _placeless(text: Any) -> Any:
    """Return what our annotation says of the cause, without the place in the files: they may lie elsewhere now."""
    said = json_object(text) if isinstance(text, str) else {}
    return {**said, "at": ""} if said else text
