"""JSON -> plan. Nothing that `apply` could trip over gets through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reconciler.decide.decisions import (
    Cause,
    Decision,
    DownscaleSettings,
    FieldChange,
    Notice,
    Overridden,
    Phase,
    PlacementRow,
    PlacementView,
    Undecided,
    Verb,
    VictimForecast,
)
from reconciler.errors import PlanFileError
from reconciler.model import ObjectRef, PickerHeader, PodPicker
from reconciler.plan.documents import (
    SCHEMA_VERSION,
    ChangeDocument,
    Document,
    DownscaleDocument,
    HeaderDocument,
    HeldBackDocument,
    OverriddenDocument,
    PlacementDocument,
    PlanDocument,
    PodPickerDocument,
    VictimsDocument,
)
from reconciler.plan.model import Action, HeldBackActions, LimitUse, Plan, pointer
from reconciler.untrusted_text import one_line


def plan_from_dict(value: Any, *, where: str = "plan") -> Plan:
    """Return the plan that the JSON values in `value` describe; `where` names it in errors, a file for instance.

    Raises:
        PlanFileError: it is of another schema version, or not a plan that could be applied.
    """
    check_version(value, where, expected="Plan")
    try:
        document = msgspec.convert(value, PlanDocument)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PlanFileError(
            f"{where}: is no plan ({one_line(str(error))}), expected one as `plan --out` writes it"
        ) from error
    return plan_of(document, where)


def check_version(value: Any, where: str, expected: str) -> None:
    """Refuse anything but a JSON object of our schema version and of kind `expected`.

    Raises:
        PlanFileError: it is something else.
    """
    if not isinstance(value, dict):
        raise PlanFileError(f"{where}: $ is {_named(value)}, expected a JSON object with a {expected.lower()}")
    for key, wanted in (("schemaVersion", SCHEMA_VERSION), ("kind", expected)):
        found = value.get(key)
        if found != wanted:
            raise PlanFileError(f'{where}: $.{key} is {_named(found)}, expected "{wanted}"; plan again')


def _named(value: Any) -> str:
    if isinstance(value, str):
        return f'"{one_line(value[:80])}"'
    return "absent" if value is None else f"a {type(value).__name__}"


def plan_of(document: PlanDocument, where: str) -> Plan:
    """Return the plan that `document` describes.

    Raises:
        PlanFileError: its actions do not fit together.
    """
    for path, what in _misfits(document):
        raise PlanFileError(f"{where}: $.{path}{what}; plan again")
    return Plan(
        made_at=document.made_at,
        run=document.run,
        fleet=document.fleet,
        policy_digest=document.digests.policies,
        input_digest=document.digests.inputs,
        clusters=document.clusters,
        actions=_actions(document.actions),
        held_back=tuple(_held_back(held) for held in document.held_back),
        observed=_decisions(document.observed),
        undecided=tuple(Undecided(**_fields(one)) for one in document.undecided),
        overridden=tuple(_overridden(one) for one in document.overridden),
        unknown=document.unknown,
        notices=tuple(Notice(**_fields(one)) for one in document.notices),
        limits=tuple(LimitUse(**_fields(one)) for one in document.limits),
        placements=tuple(_placement(one) for one in document.placements),
        dropped=document.dropped,
        revision=document.revision,
        source=document.source,
    )


def _misfits(document: PlanDocument) -> Iterator[tuple[str, str]]:
    """Yield what the types alone do not tell, each as its path in the document and what is wrong."""
    lists = {
        "actions": document.actions,
        "observed": document.observed,
        **{f"heldBack[{n}].changes": held.changes for n, held in enumerate(document.held_back)},
    }
    for name, changes in lists.items():
        yield from _misfits_of(name, changes)
    for n, change in enumerate(document.actions):
        if change.cluster not in document.clusters:
            yield f"actions[{n}].cluster", f' is "{one_line(change.cluster)}", expected one of $.clusters'


def _misfits_of(name: str, changes: Sequence[ChangeDocument]) -> Iterator[tuple[str, str]]:
    groups: dict[int, str] = {}
    keys: set[str] = set()
    tiers: set[str] = set()
    awaited: set[str] = set()
    for n, change in enumerate(changes):
        at = f"{name}[{n}]"
        if change.id in groups or change.key in keys:
            yield at, " has the id or key of an earlier change, expected its own"
        if any(groups.get(need) != change.group for need in change.needs):
            yield f"{at}.needs", f" is {change.needs}, expected ids of earlier changes of its group"
        if change.wait_ready and change.wait_ready not in tiers:
            yield f"{at}.waitReady", f' is "{one_line(change.wait_ready)}", expected the wakeTier of earlier changes'
        awaited.add(change.wait_ready)
        if change.wake_tier and change.wake_tier in awaited:
            yield f"{at}.wakeTier", f' is "{one_line(change.wake_tier)}", which an earlier change waits for'
        tiers.add(change.wake_tier)
        yield from _misfitting_fields(at, change)
        groups[change.id] = change.group
        keys.add(change.key)


def _misfitting_fields(at: str, change: ChangeDocument) -> Iterator[tuple[str, str]]:
    if list(change.before) != list(change.after):
        yield f"{at}.after", " has other fields than before, expected the same in the same order"
    if change.verb is Verb.CREATE and change.manifest is None:
        yield f"{at}.manifest", " is null, expected the object to create"
    for text in change.before:
        if pointer(_path(text)) != text:
            yield f"{at}.before", f' has the field "{one_line(text)}", expected a JSON pointer'


def _fields(document: Document) -> dict[str, Any]:
    return {name: getattr(document, name) for name in document.__struct_fields__}


def _actions(changes: Sequence[ChangeDocument]) -> tuple[Action, ...]:
    keys = {change.id: change.key for change in changes}
    return tuple(
        Action(change.id, _decision(change, keys), tuple(change.needs), change.wait_ready) for change in changes
    )


def _decisions(changes: Sequence[ChangeDocument]) -> tuple[Decision, ...]:
    return tuple(action.decision for action in _actions(changes))


def _decision(change: ChangeDocument, keys: Mapping[int, str]) -> Decision:
    found = change.object
    return Decision(
        key=change.key,
        job=change.job,
        verb=change.verb,
        phase=Phase[change.phase.upper()],
        ref=ObjectRef(change.cluster, found.namespace, found.kind, found.name, found.group),
        api_version=found.api_version,
        uid=found.uid,
        changes=tuple(FieldChange(_path(text), change.before[text], change.after[text]) for text in change.before),
        cause=Cause(**_fields(change.cause)),
        group=change.group,
        order=tuple(change.order),
        needs=tuple(keys[need] for need in change.needs),
        manifest=change.manifest,
        orphan=change.orphan,
        replicas_before=None if change.replicas is None else change.replicas.before,
        replicas_after=None if change.replicas is None else change.replicas.after,
        victims=None if change.victims is None else _victims(change.victims),
        downscale=None if change.downscale is None else _downscale(change.downscale),
        wake_tier=change.wake_tier,
        wait_ready=change.wait_ready,
        event=change.event,
        idles=change.idles,
        has_annotations=change.has_annotations,
        has_labels=change.has_labels,
    )


def _path(text: str) -> tuple[str, ...]:
    """Return the keys of an RFC 6901 JSON pointer."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in text.split("/")[1:])


def _victims(document: VictimsDocument) -> VictimForecast:
    lists = {name: tuple(getattr(document, name)) for name in ("pods", "rules", "age_ratios")}
    return VictimForecast(**(_fields(document) | lists))


def _downscale(document: DownscaleDocument) -> DownscaleSettings:
    picker = None if document.picker is None else _picker(document.picker)
    return DownscaleSettings(**(_fields(document) | {"picker": picker}))


def _picker(document: PodPickerDocument) -> PodPicker:
    return PodPicker(**(_fields(document) | {"headers": tuple(_header(header) for header in document.headers)}))


def _header(document: HeaderDocument) -> PickerHeader:
    secret = None if document.secret is None else (document.secret.name, document.secret.key)
    return PickerHeader(document.name, document.value, secret)


def _held_back(document: HeldBackDocument) -> HeldBackActions:
    return HeldBackActions(
        allow=document.allow,
        why=document.why,
        decisions=_decisions(document.changes),
        unit=document.unit,
        used=document.used,
        allowed=document.allowed,
        base=document.base,
    )


def _overridden(document: OverriddenDocument) -> Overridden:
    return Overridden(
        ref=ObjectRef(document.cluster, document.namespace, document.kind, document.name, document.group),
        job=document.job,
        policy=document.policy,
        wish=document.wish,
        winner=document.winner,
        why=document.why,
    )


def _placement(document: PlacementDocument) -> PlacementView:
    return PlacementView(document.key, document.total, tuple(PlacementRow(**_fields(row)) for row in document.rows))
