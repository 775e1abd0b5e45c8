"""Our ConfigMaps, as decisions: made where they are missing, changed key by key where they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, annotation_changes
from reconciler.model import NOTHING, ConfigMap, ObjectRef


@dataclass(frozen=True, slots=True)
class Wish:
    """What a ConfigMap of ours should say. None takes a key off; what is not named stays."""

    ref: ObjectRef
    data: Mapping[str, str | None] = NOTHING
    annotations: Mapping[str, str | None] = NOTHING


def remember(
    wish: Wish, found: ConfigMap | None, group: str, cause: Cause, needs: tuple[str, ...] = ()
) -> tuple[Decision, ...]:
    """Return the decision that makes `found` (None: there is none) say what `wish` says, () where it does."""
    changes = _changes(wish, found)
    if not changes:
        return ()
    data = ",".join(sorted(wish.data))
    return (
        Decision(
            key=f"{group}/{wish.ref}/{Verb.REMEMBER}{'/' + data if data else ''}",
            job="placement",
            verb=Verb.REMEMBER,
            phase=Phase.RECORD,
            ref=wish.ref,
            api_version="v1",
            uid=None if found is None else found.uid,
            changes=() if found is None else changes,
            cause=cause,
            group=group,
            needs=needs,
            manifest=_manifest(wish) if found is None else None,
            has_annotations=found is None or found.has_annotations,
        ),
    )


def forget(found: ConfigMap, group: str, cause: Cause, needs: tuple[str, ...] = ()) -> Decision:
    """Return the decision that deletes a ConfigMap of ours."""
    return Decision(
        key=f"{group}/{found.ref}/{Verb.DELETE}",
        job="placement",
        verb=Verb.DELETE,
        phase=Phase.RECORD,
        ref=found.ref,
        api_version="v1",
        uid=found.uid,
        changes=(),
        cause=cause,
        group=group,
        needs=needs,
    )


def _changes(wish: Wish, found: ConfigMap | None) -> tuple[FieldChange, ...]:
    data = {} if found is None else found.data
    entries = [
        FieldChange(("data", key), data.get(key), wish.data[key])
        for key in sorted(wish.data)
        if data.get(key) != wish.data[key]
    ]
    if found is not None and not data and entries:
        entries = [FieldChange(("data",), None, {change.path[-1]: change.after for change in entries})]
    return tuple(entries) + annotation_changes({} if found is None else found.annotations, wish.annotations)


def _manifest(wish: Wish) -> dict[str, object]:
    metadata: dict[str, object] = {"name": wish.ref.name, "namespace": wish.ref.namespace}
    if wish.annotations:
        metadata["annotations"] = _said(wish.annotations)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _said(wish.data)}


def _said(wish: Mapping[str, str | None]) -> dict[str, str]:
    return {key: text for key, text in sorted(wish.items()) if text is not None}
