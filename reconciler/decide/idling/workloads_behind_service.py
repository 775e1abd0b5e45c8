"""Service -> the scalables behind it.

Source: seed idling-and-unidling.md, "Idling" (endpoints, their pods, the pods' owners).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.decide.owners_and_rollouts import Owners, owners_in
from reconciler.model import (
    Endpoints,
    EndpointSlice,
    ObjectRef,
    ObservedCluster,
    Pod,
    PodsQuestion,
    Service,
    Workload,
    by_key,
    unreadable_key,
    unreadable_pods_key,
)
from reconciler.workload_kinds import SCALABLE_KINDS, GroupKind


class DiscoveredTargets(Struct, frozen=True):
    """The top objects behind a Service, sorted by name, as far as they are known.

    `undecided` says why they are not all known; `question` asks for the pods that would show it. `by_labels`: some are
    known by labels, so that what is not found needs a proof to be behind the Service; else what its record lists is.
    `nothing` says where was looked for them, set where nothing at all was found.
    """

    workloads: tuple[Workload, ...] = ()
    undecided: str = ""
    question: PodsQuestion | None = None
    by_labels: bool = False
    nothing: str = ""


class Inventory(Struct, frozen=True):
    """The scalables of one cluster, to be found by name, by what they own and by template label."""

    by_ref: Mapping[ObjectRef, Workload]
    owners: Owners
    by_label: Mapping[tuple[str, str, str], Sequence[Workload]]  # (namespace, key, value)
    slices: Mapping[tuple[str, str], Sequence[EndpointSlice]]  # (namespace, Service)
    endpoints: Mapping[tuple[str, str], Endpoints]  # (namespace, Service)
    kinds: Mapping[GroupKind, str]  # with their plurals
    cluster: ObservedCluster

    @property
    def groups(self) -> dict[str, str]:
        """The API group of each known kind; a built-in kind wins over a custom one of its name."""
        return {kind: group for group, kind in reversed(list(self.kinds))}

    def is_listed(self, kind: GroupKind) -> bool:
        """Return whether all objects of `kind` were read, so that one that is not there is gone."""
        plural = self.kinds.get(kind)
        return plural is not None and unreadable_key(kind[0], plural) not in self.cluster.unreadable


def inventory_of(cluster: ObservedCluster) -> Inventory:
    """Return the scalables of `cluster`, ready to be looked up."""
    kinds = {key: kind.plural for key, kind in SCALABLE_KINDS.items()}
    kinds |= {(kind.group, kind.kind): kind.plural for kind in cluster.scale_kinds}
    labelled = (one for one in cluster.workloads if one.owner is None or one.spec_replicas > 0 or one.status_replicas)
    return Inventory(
        by_ref={workload.ref: workload for workload in cluster.workloads},
        owners=owners_in(cluster.workloads),
        by_label=by_key(
            ((one.ref.namespace, key, value), one) for one in labelled for key, value in one.template_labels.items()
        ),
        slices=by_key(((one.ref.namespace, one.service), one) for one in cluster.endpoint_slices),
        endpoints={(endpoints.ref.namespace, endpoints.ref.name): endpoints for endpoints in cluster.endpoints},
        kinds=kinds,
        cluster=cluster,
    )


_OWNERS = tuple(kind.plural for kind in SCALABLE_KINDS.values() if kind.pods != "None")
"""What can be behind any Service, whose targets go idle only together."""


class _UnknownTargetError(Exception):
    """What is behind the Service cannot be read, or has an owner that is no known scalable."""


def discover_targets(service: Service, inventory: Inventory) -> DiscoveredTargets:
    """Return the targets of `service`: the workloads whose template labels it selects, and the owners of the pods that
    its endpoints name.

    A pod may carry labels that the template of its owner does not have, so that labels alone do not show all.
    """
    if service.type == "ExternalName":
        return DiscoveredTargets(by_labels=True)
    unread = [plural for plural in _OWNERS if plural in inventory.cluster.unreadable]
    if unread:
        return DiscoveredTargets(undecided=f"{unread[0]} cannot be read, and some may be behind it")
    matching = _matching(service, inventory)
    tops: tuple[Workload, ...] = ()
    try:
        tops = _top_owners(matching, inventory)
        named = _named_pods(service, inventory)
        pods = _pods(service, named, inventory)
        if pods is None:
            return DiscoveredTargets(tops, question=PodsQuestion(service.ref), by_labels=bool(matching))
        if named:
            tops = _top_owners((*matching, *_owners_of_pods(named, pods, inventory)), inventory)
    except _UnknownTargetError as unknown:
        return DiscoveredTargets(tops, undecided=str(unknown), by_labels=bool(matching))
    looked = "no workload has the labels that it selects" if service.selector else "it has no selector"
    nothing = "" if tops else f"{looked}, and its endpoints name no pods"
    return DiscoveredTargets(tops, by_labels=bool(matching), nothing=nothing)


def _matching(service: Service, inventory: Inventory) -> list[Workload]:
    """Return the workloads whose template labels the selector matches; an empty selector selects nothing."""
    pairs = service.selector.items()
    labelled = [inventory.by_label.get((service.ref.namespace, *pair), ()) for pair in pairs]
    # Of many releases of a chart in one namespace most labels are the same: the rarest leaves few to look at.
    candidates = min(labelled, key=len, default=())
    return [workload for workload in candidates if pairs <= workload.template_labels.items()]


def _top_owners(workloads: Iterable[Workload], inventory: Inventory) -> tuple[Workload, ...]:
    tops = {top.ref: top for top in (_top_owner(workload, inventory) for workload in workloads)}
    return tuple(tops[ref] for ref in sorted(tops))


def _top_owner(workload: Workload, inventory: Inventory) -> Workload:
    """Return the topmost object above `workload` that has a scale.

    Raises:
        _UnknownTargetError: an owner is no known scalable, is switched off in place of being scaled, or cannot be read.
    """
    seen: set[ObjectRef] = set()
    while workload.owner is not None and workload.ref not in seen:
        seen.add(workload.ref)
        owner = inventory.owners.of(workload.ref.namespace, workload.owner)
        if owner is None:
            why = (
                "which was not found" if is_owned_by_scalable(workload, inventory) else "which is not a known scalable"
            )
            owned, by = f"{workload.ref.kind}/{workload.ref.name}", f"{workload.owner.kind}/{workload.owner.name}"
            raise _UnknownTargetError(f"{owned} is owned by {by}, {why}")
        workload = owner
    if workload.switch is not None and not workload.template_labels:
        what = f"{workload.ref.kind}/{workload.ref.name}"
        raise _UnknownTargetError(f"{what} has a switch and is not woken by traffic; select it by its kind")
    return workload


def is_owned_by_scalable(workload: Workload, inventory: Inventory) -> bool:
    """Return whether the controller owner of `workload` is itself a scalable."""
    owner = workload.owner
    return owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) in inventory.kinds


def _pods(service: Service, named: Mapping[str, str], inventory: Inventory) -> tuple[Pod, ...] | None:
    """Return the pods behind `service`, whose names are `named`; None where they have to be read first.

    Raises:
        _UnknownTargetError: they cannot be read.
    """
    if not named:
        return ()
    problem = inventory.cluster.unreadable.get(unreadable_pods_key(service.ref))
    if problem is not None:
        raise _UnknownTargetError(f"the pods behind it cannot be read: {problem}")
    return inventory.cluster.pods.get(service.ref)


def _named_pods(service: Service, inventory: Inventory) -> dict[str, str]:
    """Return the names of the pods in the EndpointSlices of `service` by uid, each once; without any in its Endpoints.

    Raises:
        _UnknownTargetError: they cannot be read.
    """
    key = (service.ref.namespace, service.ref.name)
    unreadable = inventory.cluster.unreadable
    if "endpointslices" in unreadable:
        raise _UnknownTargetError("its EndpointSlices cannot be read")
    slices = inventory.slices.get(key, ())
    if not slices and not service.selector and "endpoints" in unreadable:
        raise _UnknownTargetError("its Endpoints cannot be read")
    endpoints = inventory.endpoints.get(key)
    found = slices or (() if endpoints is None else (endpoints,))
    return {uid or name: name for endpoints in found for name, uid in endpoints.pods}


def _owners_of_pods(named: Mapping[str, str], pods: Iterable[Pod], inventory: Inventory) -> Iterator[Workload]:
    by_uid = {pod.uid or pod.name: pod for pod in pods}
    by_name = {pod.name: pod for pod in by_uid.values()}
    for uid in sorted(named):
        pod = by_uid.get(uid) or by_name.get(named[uid])
        if pod is None:
            raise _UnknownTargetError(f"Pod/{named[uid]}, which its endpoints name, is not there")
        found = inventory.owners.of_pod(pod)
        if found is not None:
            yield found
        elif not pod.terminating:  # one that is going may have outlived its owner
            by = f"is owned by {pod.owner_kind}/{pod.owner_name}, which is not a known scalable"
            raise _UnknownTargetError(f"Pod/{pod.name} {by if pod.owner_uid or pod.owner_name else 'has no owner'}")
