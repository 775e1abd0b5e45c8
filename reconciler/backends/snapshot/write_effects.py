"""One write of a run as changes of manifests: what it tests, what it changes, and what the controllers do then, at once
(controllers.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from reconciler.backends.decode.mismatches import json_path
from reconciler.backends.patched_values import equal, patched, value_below
from reconciler.backends.protocols import AUTOSCALERS, BOUNDS, VictimOrder
from reconciler.backends.snapshot.controllers import Controllers, replicas_of, settle_endpoints
from reconciler.backends.snapshot.file_content import ManifestEntry, entry_of
from reconciler.backends.snapshot.index import Index, owner_references
from reconciler.backends.snapshot.manifest_store import Changes
from reconciler.backends.snapshot.served_manifests import (
    as_served,
    as_written,
    plain,
    with_generation,
    with_writer,
    without_empty_maps,
)
from reconciler.errors import AlreadyExistsError, NotFoundError, RefusedError, StaleError
from reconciler.model import PatchOperation, Write

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_FIXED = ("apiVersion", "kind")
_FIXED_METADATA = ("name", "namespace", "uid")
_KEPT_METADATA = ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion")


class PlannedWrite:
    """Works out what `write` changes, with what controllers do then; nothing is written here."""

    def __init__(self, index: Index, write: Write, victim_order: VictimOrder) -> None:
        self._changes = Changes()
        self._index = index
        self._write = write
        self._controllers = Controllers(index, self._changes, victim_order)

    def changes(self) -> Changes:
        """Return the changes.

        Raises:
            StaleError: the object is not what the write expects. NotFoundError: it is gone.
            AlreadyExistsError: create, and one is there. RefusedError: what would be written is no such object.
        """
        verbs: dict[str, Callable[[], None]] = {
            "patch": self._patch,
            "create": self._create,
            "delete": self._delete,
            "event": self._event,
        }
        verbs[self._write.verb]()
        settle_endpoints(self._index, self._changes)
        return self._changes

    def _patch(self) -> None:
        entry = self._found()
        self._test_uid(entry)
        stored = entry.file.value_of(entry)
        served = as_served(stored, self._index.uid_of(entry), entry.key.namespace)
        operations = [
            PatchOperation(change.op, change.path, plain(change.value)) if change.value is not None else change
            for change in self._write.patch
        ]
        changed = patched(served, operations, str(self._write.ref))
        self._check_fixed(served, changed)
        for operation in operations:
            self._check_json(operation.value)
        new = as_written(changed, stored)
        self._changes.checked = (new, self._check(new, entry))
        self._put(entry, new, stored)

    def _put(self, entry: ManifestEntry, new: dict[str, Any], old: dict[str, Any]) -> None:
        """Put `new` with what follows from the change; the object itself is written before those that follow."""
        self._changes[entry.key] = new
        self._changes[entry.key] = self._controlled(entry, new, old)

    def _controlled(self, entry: ManifestEntry, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        """Return `new` with what follows from the change: generation, writer, and where replicas changed the rest."""
        new = with_generation(new, old)
        if (entry.group, entry.kind) == (AUTOSCALERS.group, AUTOSCALERS.kind):
            return _with_writer_of_bounds(new, old)
        scale = self._index.scales.get((entry.group, entry.kind))
        if scale is None or equal(value_below(new, scale.replicas_path), value_below(old, scale.replicas_path)):
            return new
        new = with_writer(new, scale.replicas_path)
        if not scale.status_path or replicas_of(new, scale) == replicas_of(old, scale):
            return new
        return self._controllers.settle(entry, new, scale)

    def _create(self) -> None:
        manifest = self._manifest()
        entry = self._index.find(self._write.ref)
        if entry is None and self._write.uid is not None:
            raise StaleError(f"{self._write.ref}: is gone, expected the one with uid {self._write.uid}; plan again")
        if entry is None:
            self._changes[self._check(manifest, None).key] = manifest
            return
        if self._write.uid is None:
            raise AlreadyExistsError(f"{self._write.ref}: is there already, expected none of that name; plan again")
        self._test_uid(entry)
        self._check(manifest, entry)
        stored = entry.file.value_of(entry)
        kept = {key: value for key, value in stored["metadata"].items() if key in _KEPT_METADATA}
        status = {"status": stored["status"]} if "status" in stored else {}
        new = {**status, **manifest, "metadata": {**manifest["metadata"], **kept}}
        self._put(entry, new, stored)

    def _delete(self) -> None:
        entry = self._found()
        self._test_uid(entry)
        self._collect(entry)

    def _collect(self, entry: ManifestEntry) -> None:
        """Delete an object and, as the garbage collector does, what only it owned; orphans lose the reference."""
        self._changes[entry.key] = None
        uid = self._index.uid_of(entry)
        for owned in self._index.owned_by(entry):
            others = [owner for owner in owner_references(owned) if owner.uid != uid]
            if self._write.orphan or others:
                self._disown(owned, uid)
            else:
                self._collect(owned)

    def _disown(self, entry: ManifestEntry, uid: str) -> None:
        value = self._changes.manifest_of(entry)
        references = value["metadata"]["ownerReferences"]
        gone = {index for index, owner in enumerate(owner_references(entry)) if owner.uid == uid}
        left = [reference for index, reference in enumerate(references) if index not in gone]
        metadata = {key: inside for key, inside in value["metadata"].items() if key != "ownerReferences"}
        if left:
            metadata["ownerReferences"] = left
        self._changes[entry.key] = {**value, "metadata": metadata}

    def _event(self) -> None:
        """Write an Event; the same one again counts on."""
        manifest = self._manifest()
        if not manifest["metadata"].get("name"):
            digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:12]
            involved = manifest.get("involvedObject") or {}
            manifest["metadata"]["name"] = f"{involved.get('name', 'event')}.{digest}"
        read = self._check(manifest, None)
        known = self._index.entries.get(self._index.key_of(read))
        if known is None:
            self._changes[read.key] = manifest
            return
        found = known.file.value_of(known)
        seen = found.get("count")
        count = {"count": seen + 1} if isinstance(seen, int) else {}
        since = {key: found[key] for key in ("firstTimestamp",) if key in found}
        self._changes[read.key] = manifest | since | count

    def _found(self) -> ManifestEntry:
        entry = self._index.find(self._write.ref)
        if entry is None:
            raise NotFoundError(f"{self._write.ref}: is not there, expected to {self._write.verb} it; plan again")
        if entry.kind == "Secret":
            raise RefusedError(f"{self._write.ref}: is a Secret, expected an object that may be written")
        return entry

    def _test_uid(self, entry: ManifestEntry) -> None:
        uid = self._index.uid_of(entry)
        if self._write.uid not in (None, uid):
            raise StaleError(f"{self._write.ref}: uid is {uid}, expected {self._write.uid}; plan again")

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest of the write as it is written: apiVersion and kind first, its namespace stated."""
        given = plain(self._write.manifest or {})
        metadata = {"name": self._write.ref.name, **(given.get("metadata") or {})}
        if self._write.ref.namespace:
            metadata["namespace"] = metadata.get("namespace") or self._write.ref.namespace
        head = {"apiVersion": self._write.api_version, "kind": self._write.ref.kind}
        self._check_json(given)
        return without_empty_maps(head | given | {"metadata": metadata})

    def _check_json(self, given: Any) -> None:
        """Refuse what cannot be written as JSON: a number that is none, or half a surrogate pair."""
        if given is None:
            return
        try:
            (given if type(given) is str else _JSON.encode(given)).encode()
        except ValueError as error:
            raise RefusedError(f"{self._write.ref}: cannot be written as JSON: {error}") from error

    def _check(self, manifest: dict[str, Any], entry: ManifestEntry | None) -> ManifestEntry:
        """Refuse a manifest that the API server would refuse for its types."""
        version, kind = (entry.api_version, entry.kind) if entry is not None else ("", "")
        read = entry_of(manifest, version, kind)
        if isinstance(read, ManifestEntry):
            read.key = self._index.key_of(read)
            wrong = self._index.wrong_with(read)
        else:
            wrong = read or [((), "is no manifest")]
        if wrong or not isinstance(read, ManifestEntry):
            words = "; ".join(f"{json_path(path)} {words}".strip() for path, words in wrong)
            raise RefusedError(f"{self._write.ref}: {words}")
        return read

    def _check_fixed(self, old: dict[str, Any], new: Any) -> None:
        ref = self._write.ref
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise RefusedError(f"{ref}: would be no object any more, expected a manifest")
        for holder, changed, names in ((old, new, _FIXED), (old["metadata"], new["metadata"], _FIXED_METADATA)):
            for name in names:
                if holder.get(name) != changed.get(name):
                    raise RefusedError(f"{ref}: {name} would change, expected it to stay {holder.get(name)}")


def _with_writer_of_bounds(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    for path in BOUNDS:
        if not equal(value_below(new, path), value_below(old, path)):
            new = with_writer(new, path)
    return new
