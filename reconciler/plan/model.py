"""A plan as data: actions in a total order, the request of each, the notices beside them, and their counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import OUR_ANNOTATIONS
from reconciler.decide.decisions import (
    Decision,
    FieldChange,
    HeldBack,
    LimitUse,
    Notice,
    Overridden,
    PlacementView,
    PolicyExplanation,
    Undecided,
    Verb,
)
from reconciler.model import NOTHING, ObjectRef, PatchOperation, QueryKey, Write
from reconciler.untrusted_text import short


class Action(Struct, frozen=True):
    """One write of the plan. `id` counts from 1 in the plan's order; `needs` are ids, `wait_ready` is a wake tier."""

    id: int
    decision: Decision
    needs: tuple[int, ...] = ()
    wait_ready: str = ""

    @property
    def ref(self) -> ObjectRef:
        return self.decision.ref

    @property
    def verb(self) -> str:
        return str(self.decision.verb)

    @property
    def policy(self) -> str:
        return self.decision.cause.policy

    @property
    def before(self) -> dict[str, Any]:
        """JSON pointer -> value before; None: absent."""
        return {pointer(change.path): change.before for change in self.decision.changes}

    @property
    def after(self) -> dict[str, Any]:
        """JSON pointer -> value after; None: taken off."""
        return {pointer(change.path): change.after for change in self.decision.changes}


@lru_cache(1024)  # a plan has the same few for each object
def pointer(path: tuple[str, ...]) -> str:
    """Return the RFC 6901 JSON pointer of `path`."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


class Awake(Struct, frozen=True):
    """A workload that was woken, or released, lately: since when, how many replicas it has, and which field manager
    wrote them last ("": nobody knows).
    """

    ref: ObjectRef
    since: datetime
    replicas: int
    by: str = ""


class KeptUp(Struct, frozen=True):
    """A workload that only time keeps from being idled: `by` minAge, minAwake or an annotation, and when that ends.

    `until` None: not before the policies call it idle no longer.
    """

    by: str
    until: datetime | None = None


class Plan(Struct, frozen=True):
    """The whole plan."""

    made_at: datetime
    run: str
    fleet: str
    policy_digest: str
    input_digest: str
    clusters: Mapping[str, str]  # name -> identity, of the clusters that answered
    actions: tuple[Action, ...] = ()
    held_back: tuple[HeldBack, ...] = ()
    observed: tuple[Decision, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    unknown: Mapping[str, str] = NOTHING  # cluster (or cluster/what) -> why it could not be read
    notices: tuple[Notice, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    placements: tuple[PlacementView, ...] = ()
    explanations: tuple[PolicyExplanation, ...] = ()  # for `explain`; not part of its JSON
    unknown_since: Mapping[str, datetime] = NOTHING  # cluster that did not answer -> since when; not part of its JSON
    places: Mapping[str, str] = NOTHING  # "Kind name" of policies and the Fleet -> file:line; not part of its JSON
    unanswered: tuple[QueryKey, ...] = ()  # queries without any answer; in its JSON they are part of `unknown`
    awake: tuple[Awake, ...] = ()  # what woke in the last two days, for the history; not part of its JSON
    kept_up: tuple[KeptUp, ...] = ()  # one for each workload that may be idled later; not in its JSON
    without_workloads: tuple[str, ...] = ()  # the policies that select nothing, where all was read; not in its JSON
    dropped: int = 0  # actions dropped by filters
    revision: str = ""
    shard: str = ""  # which part of the Fleet was decided, "2/8"; not part of its JSON
    source: str = "live"  # or "snapshot"
    time_zones: tuple[str, ...] = ()  # of the calendars of its policies, by name


class Effect(StrEnum):
    """What a change means for the workload, whatever its verb."""

    DELETE = "delete"
    OVERWRITE = "overwrite"
    IDLE = "idle"
    DOWN = "down"
    UP = "up"
    CREATE = "create"
    WAKE = "wake"
    UPDATE = "update"  # the object changes, but not how many replicas it has
    METADATA = "metadata"  # only annotations, labels and ConfigMaps of our own change


_BY_VERB = {
    Verb.DELETE: Effect.DELETE,
    Verb.OVERWRITE: Effect.OVERWRITE,
    Verb.CREATE: Effect.CREATE,
}
_RECORDS = (Verb.RECORD, Verb.CLEAR, Verb.REMEMBER)
_STEPS = {Verb.IDLE: Effect.IDLE, Verb.WAKE: Effect.WAKE}


def effect_of(decision: Decision) -> Effect:
    """Return what `decision` means; a repair that changes replicas counts as the change it makes.

    The bounds of a HorizontalPodAutoscaler, changed so that its target can be idled or woken, are an update: the target
    is what is idled. Adopting and releasing are updates too.
    """
    if decision.ref.kind == "ConfigMap":
        return Effect.METADATA
    if decision.verb in _BY_VERB:
        return _BY_VERB[decision.verb]
    if decision.verb in _STEPS and decision.ref.kind != "HorizontalPodAutoscaler":
        return _STEPS[decision.verb]
    if decision.verb not in _RECORDS and (decision.removed or added(decision)):
        return Effect.DOWN if decision.removed else Effect.UP
    if any(map(is_acted_on, decision.changes)):
        return Effect.UPDATE
    stated = decision.verb in (*_STEPS, Verb.RELEASE) or decision.event == "Adopted"
    return Effect.UPDATE if stated and decision.verb not in _RECORDS else Effect.METADATA


def is_acted_on(change: FieldChange) -> bool:
    """Return whether somebody else than us acts on what changes: the spec, and annotations that are not ours."""
    if change.before == change.after:
        return False
    if change.path[:2] == ("metadata", "annotations"):
        return not change.path[-1].startswith(OUR_ANNOTATIONS)
    return change.path[:1] == ("spec",)


def added(decision: Decision) -> int:
    """Return how many replicas `decision` adds; 0 for anything but an increase."""
    return max(0, (decision.replicas_after or 0) - (decision.replicas_before or 0))


def fewer(decisions: Iterable[Decision]) -> int:
    """Return how many replicas `decisions` take away in all."""
    return sum(decision.removed for decision in decisions)


def more(decisions: Iterable[Decision]) -> int:
    """Return how many replicas `decisions` add in all."""
    return sum(map(added, decisions))


# The request that carries a decision out, made from the plan alone.


def write_of(decision: Decision) -> Write:
    """Return the request that carries out `decision`, with a test of everything the decision rests on."""
    if decision.verb is Verb.CREATE or (decision.uid is None and decision.manifest is not None):
        return Write("create", decision.ref, decision.api_version, manifest=decision.manifest)
    if decision.verb is Verb.DELETE:
        return Write("delete", decision.ref, decision.api_version, uid=decision.uid, orphan=decision.orphan)
    return Write(
        "patch",
        decision.ref,
        decision.api_version,
        uid=decision.uid,
        patch=tuple(patch_of(decision.changes, missing_maps(decision))),
    )


def missing_maps(decision: Decision) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the maps that the object does not have yet: nothing in them is tested one by one."""
    present = {("metadata", "annotations"): decision.has_annotations, ("metadata", "labels"): decision.has_labels}
    return tuple(path for path, there in present.items() if not there)


def patch_of(changes: Sequence[FieldChange], missing: Sequence[tuple[str, ...]] = ()) -> Iterator[PatchOperation]:
    """Yield a JSON Patch: all tests first, then the changes; maps in `missing` are made whole.

    An `add` into a map that is absent is refused, so such a map is tested to be absent and added at once.
    """
    whole = [(parent, [change for change in changes if change.path[:-1] == parent]) for parent in missing]
    single = [change for change in changes if change.path[:-1] not in missing]
    yield from (PatchOperation("test", pointer(parent), None) for parent, entries in whole if entries)
    yield from (PatchOperation("test", pointer(change.path), change.before) for change in single)
    for parent, entries in whole:
        added = {change.path[-1]: change.after for change in entries if change.after is not None}
        if added:
            yield PatchOperation("add", pointer(parent), added)
    yield from (_operation(change) for change in single if change.before != change.after)


def _operation(change: FieldChange) -> PatchOperation:
    path = pointer(change.path)
    if change.after is None:
        return PatchOperation("remove", path)
    return PatchOperation("add" if change.before is None else "replace", path, change.after)


# What differs between a saved plan and a fresh one.


class Difference(Struct, frozen=True):
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
    fields: Mapping[int, tuple[Difference, ...]] = NOTHING


# Any value as a JSON value.


def json_value(value: Any) -> Any:
    """Return `value` made of dict, list, str, int, float, bool and None alone; mappings sorted by key.

    A number JSON cannot hold becomes "NaN", "+Inf" or "-Inf" as Prometheus writes them, a time RFC 3339, a duration its
    seconds, a set a sorted list, anything else its text.
    """
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if isinstance(value, Mapping):
        return {str(key): json_value(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((json_value(item) for item in value), key=str)
    return _text(value)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return int(value) if isinstance(value, int) else str(value)
