"""A saved plan compared with a fresh one of the same clusters and time: which of its changes are no longer planned."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from reconciler.decide.annotations import (
    AWAKE_SINCE,
    AWAKE_UNTIL,
    CAUSE,
    CONTESTED,
    FEDERATED_LABEL,
    IDLED_TO,
    ON_DELETE,
    OPENSHIFT_PREVIOUS_SCALE,
    OPENSHIFT_UNIDLE_TARGETS,
    OUR_ANNOTATIONS,
    PLACED,
    PREVIOUS_BOUNDS,
    PREVIOUS_SCALE,
    SCALE_PREVIOUS,
    UNIDLE_TARGETS,
    read_time,
)
from reconciler.decide.decisions import Cause, Decision, Verb
from reconciler.decide.placement.local_replica_sets import Form, form_of
from reconciler.decide.selectors import local_ref
from reconciler.errors import PlanFileError
from reconciler.model import NOTHING, Endpoints, HorizontalPodAutoscaler, ObjectRef, Service, Workload
from reconciler.plan.documents import CauseDocument, ChangeDocument, json_value
from reconciler.plan.json import change_document
from reconciler.plan.model import Action, Plan, pointer
from reconciler.policy.types import PolicySet
from reconciler.untrusted_text import short, whole_number_in
from reconciler.workload_kinds import PAUSED_REPLICAS, workload_kind

NO_POLICIES = "there are no policies to compare it with"
NOT_PLANNED = "a fresh plan does not make this change; plan again"
OTHERWISE = "a fresh plan makes another change of it; plan again"
NOT_WHOLE = "a fresh plan makes other changes together with it; plan again"

_ANNOTATIONS = ("metadata", "annotations")
_RECORDS = (
    *(PREVIOUS_SCALE, OPENSHIFT_PREVIOUS_SCALE, SCALE_PREVIOUS, IDLED_TO, PLACED),
    *(UNIDLE_TARGETS, OPENSHIFT_UNIDLE_TARGETS, PREVIOUS_BOUNDS, PAUSED_REPLICAS),
)
_LISTS = ("Service", "Endpoints")  # what lists the replicas of others
_WRITTEN = ("after", "manifest")
_HOLDS = tuple(name for key in (CONTESTED, AWAKE_UNTIL) for name in (key, pointer((key,))))
_SINCE = (AWAKE_SINCE, pointer((AWAKE_SINCE,)))
_CAUSE = pointer(("metadata", "annotations", CAUSE))
_NO_CAUSE = CauseDocument(policy="", at="", why="", values={})


class Difference(Struct, frozen=True):
    """One field of an action: its value in the saved plan, and in the fresh one; None where there is none."""

    field: str
    saved: Any
    fresh: Any

    def __str__(self) -> str:
        fresh = "nothing" if self.fresh is None else short(repr(self.fresh))
        return f"{short(self.field)} is {short(repr(self.saved))}, a fresh plan has {fresh}"


class Compared(Struct, frozen=True):
    """`differing`: why actions of a saved plan are not those of a fresh one, by id, and `fields` in what. `causes`:
    those of the others, in the fresh plan's words.
    """

    differing: Mapping[int, str] = NOTHING
    causes: Mapping[int, Cause] = NOTHING
    fields: Mapping[int, tuple[Difference, ...]] = NOTHING


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
    broken = _groups(fresh.actions, odd) | _groups([one for one in saved.actions if one.decision.key not in there], odd)
    differing = {}
    for action in saved.actions:
        key = action.decision.key
        if key not in there:
            differing[action.id] = NOT_PLANNED
        elif key in odd:
            differing[action.id] = OTHERWISE
        elif planned[key].group in broken:
            differing[action.id] = NOT_WHOLE
    causes = {one.id: planned[one.decision.key].cause for one in saved.actions if one.id not in differing}
    return Compared(differing, causes, _fields(saved, here, there))


def _fields(saved: Plan, here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[int, tuple[Difference, ...]]:
    """Return in what the actions of `saved` differ, by id: of one that only `here` has, what it writes."""
    found: dict[int, tuple[Difference, ...]] = {}
    for action in saved.actions:
        key = action.decision.key
        ours, fresh = _flat(here[key]), _flat(there[key]) if key in there else None
        if fresh is None:
            ours, fresh = {name: value for name, value in ours.items() if name.startswith(_WRITTEN)}, {}
        names = [name for name in {**ours, **fresh} if ours.get(name) != fresh.get(name)]
        found[action.id] = tuple(Difference(name, ours.get(name), fresh.get(name)) for name in names)
    return found


def _flat(content: tuple[ChangeDocument, list[str], str]) -> dict[str, Any]:
    """Return the values in `content` by the names of their fields."""
    document, needs, wait_ready = content
    waiting: list[tuple[str, Any]] = [*{**structs.asdict(document), "needs": needs, "wait_ready": wait_ready}.items()]
    found: dict[str, Any] = {}
    for name, value in waiting:
        inside = structs.asdict(value) if isinstance(value, Struct) else value
        if isinstance(inside, dict):
            waiting += [(f"{name} {key}", one) for key, one in inside.items()]
        else:
            found[name] = json_value(inside)
    return found


def check_holds(actions: Iterable[Action], compared: Compared, now: datetime, where: str) -> None:
    """Check that none of `actions` sets what would keep its object from being idled, but as a fresh plan does: that is
    for people to say, on the object. `now` is when the plan was made.

    Raises:
        PlanFileError: one does; nobody can approve of that.
    """
    for action in actions:
        for one in compared.fields.get(action.id, ()):
            kind, _, field = one.field.partition(" ")
            if kind not in _WRITTEN or one.saved is None:
                continue
            held = field.endswith(_HOLDS)
            at = read_time(one.saved) if field.endswith(_SINCE) else None
            if held or (at is not None and at > now):
                raise PlanFileError(
                    f"{where}: action {action.id} ({short(str(action.ref))}): {one}; it would not be idled; plan again"
                )


def _groups(actions: Iterable[Action], odd: Container[str]) -> set[str]:
    """Return the groups of those `actions` with a key in `odd` that are no mere records."""
    return {
        action.decision.group
        for action in actions
        if action.decision.key in odd and action.decision.verb is not Verb.REMEMBER
    }


def _contents(plan: Plan, keys: frozenset[str]) -> dict[str, Any]:
    """Return what each action is by its key, whatever its number and the words for it; it waits for `keys` alone."""
    names = {action.id: action.decision.key for action in plan.actions}
    tiers = {action.decision.wake_tier for action in plan.actions if action.decision.key in keys}
    found = {}
    for action in plan.actions:
        document = change_document(action)
        after = {path: _placeless(value) if path == _CAUSE else value for path, value in document.after.items()}
        document = structs.replace(document, id=1, needs=[], wait_ready="", cause=_NO_CAUSE, victims=None, after=after)
        if document.phase == "annotate" or document.wait_activator:  # whether an activator lives changes no write
            document = structs.replace(document, phase="decrease", wait_activator=False)
        needs = sorted(names[other] for other in action.needs)
        found[action.decision.key] = (document, needs, action.wait_ready if action.wait_ready in tiers else "")
    return found


def _placeless(text: Any) -> Any:
    """Return what our annotation says of the cause, without the place in the files: they may lie elsewhere now."""
    said = _json(text)
    return {**said, "at": ""} if isinstance(said, dict) else text


def check_templates(plan: Plan, policies: PolicySet, where: str) -> None:
    """Check that local ReplicaSets that `plan` makes or changes get what `policies` say, replicas and our marks aside.

    Raises:
        PlanFileError: something does not; nobody can approve of that.
    """
    forms = {(one.namespace, one.name): form_of(one, policies.fleet) for one in policies.federated}
    for action in plan.actions:
        ref = action.ref
        if ref.kind == "ReplicaSet" and not _is_as_stated(action.decision, forms.get((ref.namespace, ref.name))):
            raise PlanFileError(
                f"{where}: action {action.id} ({short(str(ref))}): its template, labels, annotations or "
                "minReadySeconds are not those of the FederatedReplicaSet of its name in the policies; plan again"
            )


def check_replicas(actions: Sequence[Action], policies: PolicySet, there: Mapping[ObjectRef, int], where: str) -> None:
    """Check that none of `actions`, which a fresh plan does not have, asks for more replicas than its object, or its
    FederatedReplicaSet, says, or records more for a later run: also in the list of a Service, where the objects of its
    namespace that are changed together with it count, and as a bound of an autoscaler.

    `there` is what the objects say now (`replicas_of`): what a plan says of them may be forged as well as the rest.

    Raises:
        PlanFileError: one does; nobody can approve of that.
    """
    clusters = [one.name for one in policies.fleet.clusters]
    totals = {local_ref(one, name): one.replicas for one in policies.federated for name in clusters}
    most: dict[int, int] = {}
    together: dict[tuple[str, ...], int] = {}
    for action in actions:
        ref, decision = action.ref, action.decision
        placed = totals.get(ref, 0) if decision.job == "placement" else 0
        most[action.id] = max(there.get(ref, 0), placed, 0 if workload_kind(ref.kind).counts else 1)
        beside = (decision.group, ref.cluster, ref.namespace)
        together[beside] = max(together.get(beside, 0), most[action.id])
    for action in actions:
        decision, ref = action.decision, action.ref
        lists = ref.kind in _LISTS
        allowed = together[decision.group, ref.cluster, ref.namespace] if lists else most[action.id]
        asked = max(decision.replicas_after or 0, *_asked(decision), 0)
        if asked > allowed:
            raise PlanFileError(
                f"{where}: action {action.id} ({short(str(ref))}): asks for {asked} replicas, "
                f"expected at most {allowed}, which its record or its FederatedReplicaSet says; plan again"
            )


def replicas_of(found: Workload | HorizontalPodAutoscaler | Service | Endpoints) -> int:
    """Return the most replicas that an object says: those it has, its bounds, and those in its records."""
    counts = list(_recorded(found.annotations))
    if isinstance(found, Workload):
        counts.append(found.spec_replicas)
    elif isinstance(found, HorizontalPodAutoscaler):
        counts += [found.minimum or 0, found.maximum]
    return max(counts, default=0)


def _asked(decision: Decision) -> Iterator[int]:
    """Yield the replicas that `decision` writes as a record, or as the bounds of an autoscaler."""
    metadata = (decision.manifest or {}).get("metadata") or {}
    written = {change.path[-1]: change.after for change in decision.changes if change.path[:-1] == _ANNOTATIONS}
    yield from _recorded({**(metadata.get("annotations") or {}), **written})
    if decision.ref.kind == "HorizontalPodAutoscaler":
        yield from (one.after for one in decision.changes if isinstance(one.after, int))


def _recorded(annotations: Mapping[str, Any]) -> Iterator[int]:
    """Yield every number of replicas in the records among `annotations`."""
    for key in _RECORDS:
        yield from _whole_numbers(annotations.get(key))


def _whole_numbers(text: Any) -> Iterator[int]:
    """Yield every whole number in the text of a record: a number, or JSON."""
    number = whole_number_in(str(text))
    waiting = [_json(text) if number is None else number]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict | list):
            waiting += found.values() if isinstance(found, dict) else found
        elif type(found) is int:
            yield found


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def _is_as_stated(decision: Decision, form: Form | None) -> bool:
    written = {change.path: change.after for change in decision.changes if change.before != change.after}
    is_stated = all(_is_stated(path, after, form) for path, after in written.items())
    if decision.manifest is None or not is_stated:
        return is_stated
    annotations = (decision.manifest.get("metadata") or {}).get("annotations") or {}
    kept = {key: text for key, text in annotations.items() if key.startswith(OUR_ANNOTATIONS)}
    made = None if form is None or decision.replicas_after is None else form.manifest(decision.replicas_after, kept)
    return made is not None and json_value(made) == json_value(decision.manifest)


def _is_stated(path: tuple[str, ...], after: Any, form: Form | None) -> bool:
    """Return whether `form` says what is written at `path`; a label that it does not have may go."""
    *parent, key = path
    if path == ("spec", "template"):
        return form is not None and json_value(after) == json_value(form.federated.template)
    if path == ("spec", "minReadySeconds"):
        return bool(after == (form.federated.min_ready_seconds or None if form is not None else None))
    if parent == ["metadata", "labels"]:
        released = key == FEDERATED_LABEL and after is None
        return released or (form.labels if form is not None else NOTHING).get(key) == after
    if path == (*_ANNOTATIONS, ON_DELETE) and after is not None:
        return form is not None and bool(form.annotations[ON_DELETE] == after)
    if parent == ["metadata", "annotations"] and not key.startswith(OUR_ANNOTATIONS):
        return form is not None and key in form.annotations and form.annotations[key] == after
    return True
