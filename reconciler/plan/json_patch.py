"""The request that carries a decision out, made from the plan alone: a JSON Patch with its tests, or a manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.decide.decisions import ANNOTATIONS, Decision, FieldChange, Verb
from reconciler.model import PatchOperation, Pod, Service, Workload, Write, pointer


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


def annotation_patch(target: Service | Workload, changes: Sequence[FieldChange]) -> Write:
    """Return the request that makes `changes` of the annotations of `target`, with a test of what they were."""
    version = target.api_version if isinstance(target, Workload) else "v1"
    missing = () if target.has_annotations else (ANNOTATIONS,)
    return Write("patch", target.ref, version, uid=target.uid, patch=tuple(patch_of(changes, missing)))


def missing_maps(changed: Decision | Pod) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the maps that the object does not have yet: nothing in them is tested one by one."""
    present = {ANNOTATIONS: changed.has_annotations, ("metadata", "labels"): changed.has_labels}
    return tuple(path for path, there in present.items() if not there)


def patch_of(changes: Sequence[FieldChange], missing: Sequence[tuple[str, ...]] = ()) -> Iterator[PatchOperation]:
    """Yield a JSON Patch: all tests first, then the changes; maps in `missing` are made whole.

    An `add` into a map that is absent is refused, so such a map is tested to be absent and added at once.
    """
    whole = [(parent, [change for change in changes if change.path[:-1] == parent]) for parent in missing]
    single = [(pointer(change.path), change) for change in changes if change.path[:-1] not in missing]
    yield from (PatchOperation("test", pointer(parent), None) for parent, entries in whole if entries)
    yield from (PatchOperation("test", path, change.before) for path, change in single)
    for parent, entries in whole:
        added = {change.path[-1]: change.after for change in entries if change.after is not None}
        if added:
            yield PatchOperation("add", pointer(parent), added)
    for path, change in single:
        if change.after is None and change.before is not None:
            yield PatchOperation("remove", path)
        elif change.before != change.after:
            yield PatchOperation("add" if change.before is None else "replace", path, change.after)
