"""Service -> the scalables behind it.

Source: seed idling-and-unidling.md, "Idling" (endpoints, their pods, the pods' owners).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.decide.owners import Owners, owners_in
from reconciler.model import (
    SCALABLE_KINDS,
    EndpointSlice,
    ObjectRef,
    ObservedCluster,
    OwnerReference,
    Pod,
    PodsQuestion,
    Service,
    Workload,
    unreadable_key,
)

_PLURALS = {
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "ReplicaSet"): "replicasets",
    ("", "ReplicationController"): "replicationcontrollers",
    ("batch", "CronJob"): "cronjobs",
    ("keda.sh", "ScaledObject"): "scaledobjects",
}

Kind = tuple[str, str]
"""(group, kind)."""


@dataclass(frozen=True, slots=True)
class Found:
    """The top objects behind a Service, sorted by name.

    `undecided` says why they are not all known; `question` asks for the pods that would tell. `by_labels`: labels told,
    so that what is not among them is not behind the Service; otherwise what its mark lists is.
    """

    workloads: tuple[Workload, ...] = ()
    undecided: str = ""
    question: PodsQuestion | None = None
    by_labels: bool = False


@dataclass(frozen=True, slots=True)
class Inventory:
    """The scalables of one cluster, to be found by name, by what they own and by template label."""

    by_ref: Mapping[ObjectRef, Workload]
    owners: Owners
    by_label: Mapping[tuple[str, str, str], tuple[Workload, ...]]  # (namespace, key, value)
    slices: Mapping[tuple[str, str], tuple[EndpointSlice, ...]]  # (namespace, Service)
    kinds: Mapping[Kind, str]  # with their plurals
    cluster: ObservedCluster

    @property
    def groups(self) -> dict[str, str]:
        """The API group of each known kind; a built-in kind wins over a custom one of its name."""
        return {kind: group for group, kind in reversed(list(self.kinds))}

    def is_listed(self, kind: Kind) -> bool:
        """Return whether all objects of `kind` were read, so that one that is not there is gone."""
        plural = self.kinds.get(kind)
        return plural is not None and unreadable_key(kind[0], plural) not in self.cluster.unreadable


def inventory_of(cluster: ObservedCluster) -> Inventory:
    """Return the scalables of `cluster`, ready to be looked up."""
    kinds = {kind: _PLURALS[kind] for kind in SCALABLE_KINDS}
    kinds |= {(kind.group, kind.kind): kind.plural for kind in cluster.scale_kinds}
    return Inventory(
        by_ref={workload.ref: workload for workload in cluster.workloads},
        owners=owners_in(cluster.workloads),
        by_label=_by_label(cluster.workloads),
        slices=_by_service(cluster.endpoint_slices),
        kinds=kinds,
        cluster=cluster,
    )


def _by_label(workloads: Iterable[Workload]) -> dict[tuple[str, str, str], tuple[Workload, ...]]:
    found: dict[tuple[str, str, str], list[Workload]] = {}
    for workload in workloads:
        if workload.owner is None or _has_pods(workload):
            for key, value in workload.template_labels.items():
                found.setdefault((workload.ref.namespace, key, value), []).append(workload)
    return {key: tuple(inside) for key, inside in found.items()}


def _has_pods(workload: Workload) -> bool:
    return workload.wanted > 0 or bool(workload.status_replicas)


def _by_service(slices: Iterable[EndpointSlice]) -> dict[tuple[str, str], tuple[EndpointSlice, ...]]:
    found: dict[tuple[str, str], list[EndpointSlice]] = {}
    for one in slices:
        found.setdefault((one.ref.namespace, one.service), []).append(one)
    return {key: tuple(inside) for key, inside in found.items()}


_OWNERS = ("deployments", "statefulsets", "replicasets", "replicationcontrollers")
"""What can be behind any Service. Only together do the targets of a Service sleep."""


class _OwnerUnknownError(Exception):
    """An owner on the way up is no known scalable, or cannot be read."""


def scalables_behind(service: Service, inventory: Inventory) -> Found:
    """Return what is behind `service`: by its selector and the template labels, else by its endpoints."""
    if service.type == "ExternalName":
        return Found(by_labels=True)
    unread = [plural for plural in _OWNERS if plural in inventory.cluster.unreadable]
    if unread:
        return Found(undecided=f"{unread[0]} cannot be read, and some may be behind it", by_labels=True)
    matching = _matching(service, inventory)
    try:
        if matching:
            return Found(_tops(matching, inventory), by_labels=True)
        return _by_endpoints(service, inventory)
    except _OwnerUnknownError as unknown:
        return Found(undecided=str(unknown), by_labels=bool(matching))


def _matching(service: Service, inventory: Inventory) -> list[Workload]:
    """Return the workloads whose template labels the selector matches; an empty selector selects nothing."""
    pairs = sorted(service.selector.items())
    if not pairs:
        return []
    candidates = inventory.by_label.get((service.ref.namespace, *pairs[0]), ())
    return [w for w in candidates if all(w.template_labels.get(key) == value for key, value in pairs[1:])]


def _tops(workloads: Iterable[Workload], inventory: Inventory) -> tuple[Workload, ...]:
    tops = {top.ref: top for top in (top_of(workload, inventory) for workload in workloads)}
    return tuple(tops[ref] for ref in sorted(tops))


def top_of(workload: Workload, inventory: Inventory) -> Workload:
    """Return the topmost object above `workload` that has a scale.

    Raises:
        _OwnerUnknownError: an owner is no known scalable, or cannot be read.
    """
    seen: set[ObjectRef] = set()
    while workload.owner is not None and workload.ref not in seen:
        seen.add(workload.ref)
        workload = _owner(workload.ref.namespace, workload.owner, f"{_short(workload.ref)}", inventory)
    return workload


def _owner(namespace: str, owner: OwnerReference, owned: str, inventory: Inventory) -> Workload:
    found = inventory.owners.of(namespace, owner)
    if found is None:
        known = (_group(owner.api_version), owner.kind) in inventory.kinds
        why = "which was not found" if known else "which is not a known scalable"
        raise _OwnerUnknownError(f"{owned} is owned by {owner.kind}/{owner.name}, {why}")
    return found


def is_owned_by_scalable(workload: Workload, inventory: Inventory) -> bool:
    """Return whether the controller owner of `workload` is itself a scalable."""
    owner = workload.owner
    return owner is not None and (_group(owner.api_version), owner.kind) in inventory.kinds


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _short(ref: ObjectRef) -> str:
    return f"{ref.kind}/{ref.name}"


def _by_endpoints(service: Service, inventory: Inventory) -> Found:
    if "endpointslices" in inventory.cluster.unreadable:
        return Found(undecided="its EndpointSlices cannot be read")
    named = _named_pods(inventory.slices.get((service.ref.namespace, service.ref.name), ()))
    if not named:
        return Found()
    problem = inventory.cluster.unreadable.get(pods_of(service.ref))
    if problem is not None:
        return Found(undecided=f"the pods behind it cannot be read: {problem}")
    answered = inventory.cluster.pods.get(service.ref)
    if answered is None:
        return Found(question=PodsQuestion(service.ref))
    return Found(_tops(_owners_of_pods(named, answered, inventory), inventory))


def pods_of(ref: ObjectRef) -> str:
    """Return the key in `ObservedCluster.unreadable` for the pods of `ref`."""
    return f"pods of {ref.namespace}/{ref.kind}/{ref.name}"


def _named_pods(slices: Iterable[EndpointSlice]) -> dict[str, str]:
    """Return the names of the pods in `slices` by uid, each once."""
    return {uid or name: name for one in slices for name, uid in one.pods}


def _owners_of_pods(named: Mapping[str, str], pods: Iterable[Pod], inventory: Inventory) -> Iterator[Workload]:
    by_uid = {pod.uid or pod.name: pod for pod in pods}
    by_name = {pod.name: pod for pod in by_uid.values()}
    for uid in sorted(named):
        pod = by_uid.get(uid) or by_name.get(named[uid])
        if pod is None:
            raise _OwnerUnknownError(f"Pod/{named[uid]} behind it could not be read")
        yield _owner_of_pod(pod, inventory)


def _owner_of_pod(pod: Pod, inventory: Inventory) -> Workload:
    if not pod.owner_uid and not pod.owner_name:
        raise _OwnerUnknownError(f"Pod/{pod.name} has no owner")
    found = inventory.owners.of_pod(pod)
    if found is None:
        raise _OwnerUnknownError(
            f"Pod/{pod.name} is owned by {pod.owner_kind}/{pod.owner_name}, which is not a known scalable"
        )
    return found
