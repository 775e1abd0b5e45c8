"""All objects of a cluster's folder, by name, by kind and by owner."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from reconciler.backends.decode import objects, shapes
from reconciler.backends.decode.metadata import Metadata, Object, OwnerReference, controller_of
from reconciler.backends.decode.mismatches import FieldPath, json_words, problem_at, read_object
from reconciler.backends.patched_values import value_below
from reconciler.backends.protocols import NAMESPACES, Resource
from reconciler.backends.snapshot import served_manifests
from reconciler.backends.snapshot.file_content import Key, ManifestEntry, Named, api_group
from reconciler.errors import NotFoundError, Problem
from reconciler.labels import parse_label_selector
from reconciler.model import ObjectRef
from reconciler.workload_kinds import SCALABLE_KINDS, GroupKind, WorkloadKind

T = TypeVar("T")

_UIDS = uuid.UUID("6f2d1a0e-5f0b-5a54-9a57-0c2b6a1f3d7e")
_CRD: GroupKind = ("apiextensions.k8s.io", "CustomResourceDefinition")
_NAMESPACE: GroupKind = ("", "Namespace")
_CLUSTER_WIDE: frozenset[GroupKind] = frozenset({_CRD, _NAMESPACE, ("", "Node")})
"""Of the kinds that are read."""


@lru_cache(maxsize=65536)
def _derived_uid(cluster: str, key: Key) -> str:
    """Return the uid of an object whose manifest has none: UUIDv5 over cluster, group, kind, namespace and name."""
    return str(uuid.uuid5(_UIDS, "/".join((cluster, *key))))


class Index:
    """The objects `found` in all files. Built once; afterwards it follows each write."""

    def __init__(self, cluster: str, found: Sequence[ManifestEntry], switches: Iterable[WorkloadKind] = ()) -> None:
        self.cluster = cluster
        self._switches = tuple(switches)
        self.entries: dict[Key, ManifestEntry] = {}
        self.problems: list[Problem] = []
        self.scales: dict[GroupKind, WorkloadKind] = {}
        self._scopes: dict[GroupKind, bool] = {}
        self._kinds: dict[GroupKind, dict[Key, ManifestEntry]] = {}
        self._owned: dict[tuple[str, str], dict[Key, ManifestEntry]] = {}  # by (namespace, uid) of the owner
        self._naming: dict[tuple[str, str], dict[Key, ManifestEntry]] = {}  # by (namespace, name) of the pod
        self._views: dict[GroupKind, dict[str, tuple[ManifestEntry, ...]]] = {}
        self._lists: dict[GroupKind, dict[tuple[Resource[Any], str, str], tuple[Any, ...]]] = {}
        self._read_definitions(found)
        for entry in found:
            self._take(entry)
        for entry in self.entries.values():
            self._adopt(entry)

    def put(self, entry: ManifestEntry) -> None:
        """Take in an object that was written; an older one of its name was dropped before."""
        self._take(entry)
        self._adopt(entry)
        self._forget_lists(entry)

    def drop(self, entry: ManifestEntry) -> None:
        """Let go of an object that was deleted."""
        del self.entries[entry.key]
        del self._kinds[entry.group, entry.kind][entry.key]
        for owner in owner_references(entry):
            self._owned.get((entry.key.namespace, owner.uid or ""), {}).pop(entry.key, None)
        for name, _ in objects.pods_named_in(entry.decoded, entry.key.namespace):
            self._naming.get((entry.key.namespace, name), {}).pop(entry.key, None)
        self._forget_lists(entry)

    def has_any(self, kind: GroupKind) -> bool:
        """Return whether there is an object of `kind`."""
        return bool(self._kinds.get(kind))

    def find(self, ref: ObjectRef) -> ManifestEntry | None:
        """Return the object called `ref`, None where there is none."""
        return self.entries.get(Key(api_group(f"{ref.group}/", ref.kind), ref.kind, ref.namespace, ref.name))

    def owned_by(self, owner: ManifestEntry, kind: GroupKind | None = None) -> list[ManifestEntry]:
        """Return the objects of `kind` that `owner` controls, sorted; without a kind all that it owns.

        They are in its own namespace: an owner in another one is absent for the garbage collector and the controllers.
        """
        uid = self.uid_of(owner)
        owned = [entry for _, entry in sorted(self._owned.get((owner.key.namespace, uid), {}).items())]
        if kind is None:
            return owned
        return [
            entry for entry in owned if (entry.group, entry.kind) == kind and _controls(uid, entry.decoded.metadata)
        ]

    def naming(self, pod: ManifestEntry) -> list[ManifestEntry]:
        """Return the EndpointSlices and Endpoints that name a pod of the name of `pod`, sorted."""
        return [entry for _, entry in sorted(self._naming.get((pod.key.namespace, pod.key.name), {}).items())]

    def uid_of(self, entry: ManifestEntry) -> str:
        """Return the uid that its manifest states, or else the derived one."""
        return getattr(entry.decoded.metadata, "uid", None) or _derived_uid(self.cluster, entry.key)

    def objects(self, resource: Resource[T], namespace: str, labels: str) -> tuple[T, ...]:
        """Return the objects of `resource` that the selector `labels` matches, sorted by namespace and name."""
        lists, asked = self._lists.setdefault((resource.group, resource.kind), {}), (resource, namespace, labels)
        if asked not in lists:
            labelled = self._labelled(resource, namespace)
            lists[asked] = tuple(one for of, one in labelled if parse_label_selector(labels).matches(of))
        return lists[asked]

    def _labelled(self, resource: Resource[T], namespace: str) -> Iterator[tuple[Mapping[str, str], T]]:
        """Yield each object of `resource` with its labels, sorted by namespace and name."""
        kind = (resource.group, resource.kind)
        if kind == _NAMESPACE:
            yield from self._namespaces()
            return
        if not self.has_any(kind) or (kind not in shapes.SHAPES and kind not in self.scales):
            return
        for entry in self._view(kind).get(namespace, ()):
            yield entry.decoded.metadata.labels or {}, self.model_object(resource, entry)

    def one(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return one object as its type in model.py.

        Raises:
            NotFoundError: there is none.
        """
        kind = (resource.group, resource.kind)
        entry = self.entries.get(Key(*kind, namespace, name)) if kind in shapes.SHAPES or kind in self.scales else None
        if entry is not None:
            return self.model_object(resource, entry)
        if kind == _NAMESPACE and any(key.namespace == name for key in self.entries):
            implied: T = self._implied_namespace(name)
            return implied
        ref = ObjectRef(self.cluster, namespace, resource.kind, name, resource.group)
        raise NotFoundError(f"{ref}: is not there, expected to read it")

    def model_object(self, resource: Resource[T], entry: ManifestEntry) -> T:
        """Return `entry` as the type in model.py that `resource` is read as."""
        known, scale = entry.model_object, self.scales.get((entry.group, entry.kind))
        if known is None or known[0] != resource or known[1] != scale:  # a copy may have other switches
            known = (resource, scale, objects.model_object(resource, entry.decoded, self.cluster, scale))
            entry.model_object = known
        made: T = known[2]
        return made

    def key_of(self, entry: ManifestEntry) -> Key:
        """Return what identifies `entry`. Of kinds that are known its namespace is "default" where none is given, ""
        for cluster-wide ones.
        """
        kind = (entry.group, entry.kind)
        if not self._scopes.get(kind, kind not in _CLUSTER_WIDE):
            return Key(*kind, "", entry.name)
        is_known = kind in shapes.SHAPES or kind in self.scales or kind in self._scopes
        return Key(*kind, entry.namespace or ("default" if is_known else ""), entry.name)

    def wrong_with(self, entry: ManifestEntry) -> list[tuple[FieldPath, str]]:
        """Decode a custom resource with a scale, now that its definition is known; return all that is wrong with it."""
        scale = self.scales.get((entry.group, entry.kind))
        if scale is None or not isinstance(entry.decoded, Named):
            return []
        decoded = read_object(shapes.Custom, entry.value)
        if isinstance(decoded, list):
            return [(mismatch.path, mismatch.words()) for mismatch in decoded]
        found = None if scale.is_switch else value_below(entry.value, scale.replicas_path)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int)):
            return [(scale.replicas_path, f"is {json_words(found)}, expected a whole number of at least 0")]
        entry.decoded, entry.value = decoded, None
        return []

    def _read_definitions(self, found: Iterable[ManifestEntry]) -> None:
        for entry in found:
            if (entry.group, entry.kind) == _CRD:
                spec = entry.decoded.spec
                scale = objects.scale_kind_of(entry.decoded)
                kind = (spec.group, spec.names.kind)
                self._scopes[kind] = spec.scope != "Cluster"
                if scale is not None:
                    self.scales[kind] = scale
        self.scales |= {**SCALABLE_KINDS, **{(switch.group, switch.kind): switch for switch in self._switches}}

    def _take(self, entry: ManifestEntry) -> None:
        """Enter an object under its name, with its uid, namespace and settled status filled in."""
        entry.key = self.key_of(entry)
        first = self.entries.get(entry.key)
        if first is not None:
            words = f"{entry.key} is also in {first.place}, expected it once"
            self.problems.append(problem_at(entry.document, (), words, outer=entry.path))
            return
        for at, words in self.wrong_with(entry):
            self.problems.append(problem_at(entry.document, at, words, outer=entry.path))
        self.entries[entry.key] = entry
        kind = (entry.group, entry.kind)
        self._kinds.setdefault(kind, {})[entry.key] = entry
        metadata = entry.decoded.metadata
        if isinstance(metadata, Metadata):
            metadata.namespace = entry.key.namespace
            metadata.uid = metadata.uid or _derived_uid(self.cluster, entry.key)
            served_manifests.fill_status(entry.decoded, self.scales.get(kind))

    def _adopt(self, entry: ManifestEntry) -> None:
        """Enter an object under its owners, and under the pods that its endpoints name.

        An owner named without uid is the one of that name in its namespace.
        """
        for owner in owner_references(entry):
            if not owner.uid:
                group = api_group(owner.api_version or "", owner.kind or "")
                key = Key(group, owner.kind or "", entry.key.namespace, owner.name or "")
                known = self.entries.get(key)
                owner.uid = self.uid_of(known) if known is not None else _derived_uid(self.cluster, key)
            self._owned.setdefault((entry.key.namespace, owner.uid), {})[entry.key] = entry
        for name, _ in objects.pods_named_in(entry.decoded, entry.key.namespace):
            self._naming.setdefault((entry.key.namespace, name), {})[entry.key] = entry

    def _forget_lists(self, entry: ManifestEntry) -> None:
        """Forget the lists that `entry` may be in; its namespace is one where only it says so."""
        for kind in ((entry.group, entry.kind), _NAMESPACE):
            self._views.pop(kind, None)
            self._lists.pop(kind, None)

    def _view(self, kind: GroupKind) -> dict[str, tuple[ManifestEntry, ...]]:
        """The listed objects of `kind`, sorted, by namespace; those of all namespaces under ""."""
        if kind not in self._views:
            by_namespace: dict[str, list[ManifestEntry]] = {"": []}
            for key, entry in sorted(self._kinds.get(kind, {}).items()):
                if objects.is_listed(entry.decoded):
                    by_namespace[""].append(entry)
                    if key.namespace:
                        by_namespace.setdefault(key.namespace, []).append(entry)
            self._views[kind] = {name: tuple(entries) for name, entries in by_namespace.items()}
        return self._views[kind]

    def _namespaces(self) -> Iterator[tuple[Mapping[str, str], Any]]:
        """Those with a manifest, and those that have objects."""
        written = {entry.key.name: entry for entry in self._view(_NAMESPACE).get("", ())}
        for name in sorted({key.namespace for key in self.entries if key.namespace} | written.keys()):
            entry = written.get(name)
            if entry is not None:
                yield entry.decoded.metadata.labels or {}, self.model_object(NAMESPACES, entry)
                continue
            yield {}, self._implied_namespace(name)

    def _implied_namespace(self, name: str) -> Any:
        uid = _derived_uid(self.cluster, Key(*_NAMESPACE, "", name))
        return objects.model_object(NAMESPACES, Object(Metadata(name, uid=uid)), self.cluster)


def owner_references(entry: ManifestEntry) -> list[OwnerReference]:
    """Return the owner references of an object, [] for kinds that are not read."""
    found: list[OwnerReference] = getattr(entry.decoded.metadata, "owner_references", None) or []
    return found


def _controls(uid: str, metadata: Metadata) -> bool:
    controller = controller_of(metadata)
    return controller is not None and controller.uid == uid
