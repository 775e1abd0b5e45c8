"""What controllers do once a manifest of a snapshot changes: statuses follow, and surplus pods are deleted, which leave
the EndpointSlices and Endpoints that name them.

No pod is made up: where replicas grow, only the numbers do. A pod on record that is not ready stays not ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.backends.decode.values import Instant
from reconciler.backends.decode.workloads import count_at
from reconciler.backends.patched_values import value_below
from reconciler.backends.protocols import PODS, VictimOrder
from reconciler.backends.snapshot.file_content import ManifestEntry
from reconciler.backends.snapshot.index import Index, owner_references
from reconciler.backends.snapshot.manifest_store import Changes
from reconciler.backends.snapshot.served_manifests import put_at, with_generation
from reconciler.model import Pod
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import WorkloadKind, workload_kind

_POD = ("", "Pod")
_REPLICA_SET = ("apps", "ReplicaSet")
_ADDRESSES = ("addresses", "notReadyAddresses")
_REPLICAS = ("spec", "replicas")
_REVISION = "deployment.kubernetes.io/revision"
_FOLLOWS_ALWAYS = ("readyReplicas", "availableReplicas")
_FOLLOWS_WHERE_RECORDED = ("replicas", "currentReplicas", "updatedReplicas", "updatedReadyReplicas", "HPAReplicas")


class Controllers:
    """The controllers of one write."""

    def __init__(self, index: Index, changes: Changes, victim_order: VictimOrder) -> None:
        self._index = index
        self._changes = changes
        self._victim_order = victim_order

    def settle(self, entry: ManifestEntry, manifest: dict[str, Any], scale: WorkloadKind) -> dict[str, Any]:
        """Return `manifest`, the new one of `entry`, once its controllers are done; theirs go into the changes."""
        wanted = replicas_of(manifest, scale)
        sets = [] if entry.kind == "ReplicaSet" else self._index.owned_by(entry, _REPLICA_SET)
        for replica_set, share in self._shares(sets, wanted):
            self._scale(replica_set, share)
        pods = self._active(entry)
        named = workload_kind(scale.kind).victims_path
        chosen = _pods_to_delete(manifest, named)
        for victim in self._victims(entry, pods, wanted, chosen):
            self._changes[victim.key] = None
        left = [pod for owner in (entry, *sets) for pod in self._active(owner)]
        unready = sum(not pod.ready for _, pod in left)
        return with_settled_status(_without_gone(manifest, named) if chosen else manifest, scale, wanted, unready)

    def _scale(self, replica_set: ManifestEntry, share: int) -> None:
        """Put `replica_set` of a Deployment with `share` replicas into the changes, and what follows from that."""
        old = self._changes.manifest_of(replica_set)
        scale = self._index.scales[_REPLICA_SET]
        new = with_generation(put_at(old, _REPLICAS, share), old)
        self._changes[replica_set.key] = self.settle(replica_set, new, scale)

    def _shares(self, sets: Sequence[ManifestEntry], wanted: int) -> list[tuple[ManifestEntry, int]]:
        """Return the ReplicaSets of `sets` whose replicas change, and to what, so that they have `wanted` together.

        The only active one follows; of several the oldest shrinks first. Where none is active the newest gets all.
        """
        scale = self._index.scales[_REPLICA_SET]
        have = {id(entry): replicas_of(self._changes.manifest_of(entry), scale) for entry in sets}
        by_age = sorted(sets, key=self._age)
        active = [entry for entry in by_age if have[id(entry)] or self._active(entry)] or by_age[-1:]
        more = wanted - sum(have[id(entry)] for entry in active)
        shares = {id(entry): have[id(entry)] for entry in active}
        if active and more > 0:
            shares[id(active[-1])] += more
        for entry in active:
            less = min(shares[id(entry)], max(0, -more))
            shares[id(entry)] -= less
            more += less
        return [
            (entry, shares[id(entry)]) for entry in active if shares[id(entry)] != have[id(entry)] or len(active) == 1
        ]

    def _age(self, entry: ManifestEntry) -> tuple[int, int, str]:
        metadata = entry.decoded.metadata
        revision = (metadata.annotations or {}).get(_REVISION, "")
        return (
            whole_number_in(revision) or 0,
            metadata.creation_timestamp or Instant(0),
            entry.key.name,
        )

    def _active(self, owner: ManifestEntry) -> list[tuple[ManifestEntry, Pod]]:
        """Return the pods that count: neither finished nor going, and not among those these changes remove."""
        pods = [(entry, self._index.model_object(PODS, entry)) for entry in self._index.owned_by(owner, _POD)]
        return [(entry, pod) for entry, pod in pods if pod.is_active and self._changes.get(entry.key, pod) is not None]

    def _victims(
        self, entry: ManifestEntry, pods: Sequence[tuple[ManifestEntry, Pod]], wanted: int, chosen: Sequence[str]
    ) -> list[ManifestEntry]:
        if workload_kind(entry.kind).pods == "Ordinals":
            return [owned for owned, pod in pods if pod.ordinal >= _first_ordinal(entry, self._changes) + wanted]
        first = [owned for owned, pod in pods if pod.name in chosen]
        rest = [pod for _, pod in pods if pod.name not in chosen]
        by_name = {pod.name: owned for owned, pod in pods}
        count = len(rest) - wanted
        if count <= 0:
            return first
        return first + [by_name[pod.name] for pod in self._victim_order(rest, count, bool(owner_references(entry)))]


def settle_endpoints(index: Index, changes: Changes) -> None:
    """Take every pod that `changes` remove out of the EndpointSlices and Endpoints that name it."""
    gone = [index.entries[key] for key, value in changes.items() if value is None and (key.group, key.kind) == _POD]
    for pod in gone:
        for entry in index.naming(pod):
            if changes.get(entry.key, pod) is not None:
                changes[entry.key] = _without_pod(changes.manifest_of(entry), pod, index.uid_of(pod))


def _without_pod(manifest: dict[str, Any], pod: ManifestEntry, uid: str) -> dict[str, Any]:
    """Return an EndpointSlice or Endpoints without `pod`; a subset without addresses goes as well."""

    def left(addresses: Sequence[Any] | None) -> list[Any]:
        return [address for address in addresses or () if not _is_pod(address.get("targetRef"), pod, uid)]

    if "endpoints" in manifest:
        return {**manifest, "endpoints": left(manifest["endpoints"])}
    subsets = []
    for subset in manifest.get("subsets") or ():
        kept = {name: left(subset[name]) for name in _ADDRESSES if name in subset}
        if any(kept.values()):
            others = {name: value for name, value in subset.items() if name not in _ADDRESSES}
            subsets.append({name: value for name, value in kept.items() if value} | others)
    without = {name: value for name, value in manifest.items() if name != "subsets"}
    return {**without, "subsets": subsets} if subsets else without


def _is_pod(target: Any, pod: ManifestEntry, uid: str) -> bool:
    """Return whether `target`, of an endpoint, is `pod`: one with another uid is an older pod of that name."""
    return (
        isinstance(target, dict)
        and (target.get("kind"), target.get("name")) == ("Pod", pod.key.name)
        and target.get("namespace") in (None, "", pod.key.namespace)
        and target.get("uid") in (None, "", uid)
    )


def replicas_of(manifest: dict[str, Any], scale: WorkloadKind) -> int:
    """Return the replicas a manifest asks for; 1 where it says nothing."""
    found = count_at(manifest, scale.replicas_path)
    return 1 if found is None else found


def with_settled_status(manifest: dict[str, Any], scale: WorkloadKind, wanted: int, unready: int) -> dict[str, Any]:
    """Return `manifest` with a status that says `wanted` replicas are there, all but `unready` ready and available.

    A manifest without status is settled as it is.
    """
    status = manifest.get("status")
    if not isinstance(status, dict) or not status:
        return manifest
    ready = max(0, wanted - unready)
    recorded = [name for name in _FOLLOWS_WHERE_RECORDED if name in status]
    numbers = dict.fromkeys((*workload_kind(scale.kind).follow, *recorded), wanted) | dict.fromkeys(
        _FOLLOWS_ALWAYS, ready
    )
    kept = {key: value for key, value in status.items() if key != "unavailableReplicas"}
    missing = {"unavailableReplicas": wanted - ready} if scale.kind == "Deployment" and wanted > ready else {}
    settled = put_at({**manifest, "status": {**kept, **numbers, **missing}}, scale.status_path, wanted)
    generation = manifest["metadata"].get("generation")
    if isinstance(generation, int) and not isinstance(status.get("observedGeneration"), str):
        settled["status"]["observedGeneration"] = generation
    return settled


def _pods_to_delete(manifest: dict[str, Any], path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pods that are deleted first; `path` names them, () where nothing does."""
    chosen = value_below(manifest, path)
    return tuple(map(str, chosen)) if isinstance(chosen, list) else ()


def _without_gone(value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return `value` without what stands at `path`, nor its parents that are empty then.

    Source: openkruise.io, CloneSet, Selective Pod deletion: `podsToDelete` is cleared once they are gone.
    """
    below = _without_gone(value[path[0]], path[1:]) if len(path) > 1 else {}
    kept = {key: inside for key, inside in value.items() if key != path[0]}
    return {**kept, path[0]: below} if below else kept


def _first_ordinal(entry: ManifestEntry, changes: Changes) -> int:
    """Source: apps/v1 StatefulSetSpec, ordinals.start."""
    return count_at(changes.manifest_of(entry), ("spec", "ordinals", "start")) or 0
