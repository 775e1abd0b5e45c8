"""Questions about pods, asked after the decisions, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.backends.base import PODS
from reconciler.decide.owners import OwnerKey, own_key, owner_key
from reconciler.errors import ClusterError
from reconciler.labels import selector_text
from reconciler.model import ObjectRef, ObservedCluster, ObservedState, Pod, PodsQuestion, Workload
from reconciler.observe.lists import Asked, Source, each


def answer(state: ObservedState, questions: Sequence[PodsQuestion], sources: Mapping[str, Source]) -> ObservedState:
    """Return `state` with the pods that `questions` ask for; what cannot be listed is named in `unreadable`."""
    asked: dict[str, list[ObjectRef]] = {}
    for question in questions:
        asked.setdefault(question.workload.cluster, []).append(question.workload)
    names = [name for name in sorted(asked) if name in state.clusters and sources[name].cluster is not None]
    workers = len(names) if any(sources[name].workers > 1 for name in names) else 1
    found = each(lambda name: _with_pods(state.clusters[name], sources[name], asked[name]), names, workers)
    return replace(state, clusters={**state.clusters, **dict(zip(names, found, strict=True))})


def _with_pods(observed: ObservedCluster, source: Source, asked: Sequence[ObjectRef]) -> ObservedCluster:
    cluster = source.cluster
    assert cluster is not None

    def listed(one: Asked) -> tuple[Pod, ...] | str:
        try:
            return cluster.list(PODS, namespace=one.namespace, labels=one.labels)
        except ClusterError as error:
            return str(error)

    lists = _pod_lists(observed.workloads, asked)
    read = dict(zip(lists, each(listed, list(lists), source.workers), strict=True))
    owners = owners_of(observed.workloads, asked)
    pods = dict(observed.pods)
    unreadable = dict(observed.unreadable)
    for one, refs in lists.items():
        found = read[one]
        if isinstance(found, str):
            unreadable |= {f"pods of {ref.namespace}/{ref.kind}/{ref.name}": found for ref in refs}
        else:
            pods |= {ref: _chosen(found, ref, owners[ref], observed) for ref in refs}
    return replace(observed, pods=pods, unreadable=unreadable)


def _pod_lists(workloads: Iterable[Workload], asked: Sequence[ObjectRef]) -> dict[Asked, list[ObjectRef]]:
    """Return the lists to ask for, sorted by namespace, and whose pods are to be found in each.

    It is one for each namespace; where that is for one workload alone, it asks for no more than what that selects.
    """
    inside: dict[str, list[ObjectRef]] = {}
    for ref in sorted(asked, key=lambda ref: ref.namespace):
        inside.setdefault(ref.namespace, []).append(ref)
    alone = {refs[0] for refs in inside.values() if len(refs) == 1}
    labels = {one.ref: selector_text(one.selector) for one in workloads if one.ref in alone}
    return {
        Asked(PODS, namespace, labels.get(refs[0], "") if len(refs) == 1 else ""): refs
        for namespace, refs in inside.items()
    }


def owners_of(workloads: Iterable[Workload], asked: Sequence[ObjectRef]) -> dict[ObjectRef, frozenset[str]]:
    """Return for each workload of `asked` the uids that own its pods: its own, and those of its ReplicaSets."""
    by_ref: dict[ObjectRef, set[str]] = {ref: set() for ref in asked}
    by_owner: dict[OwnerKey, set[str]] = {}
    found = list(workloads)
    for workload in found:
        if workload.ref in by_ref:
            by_ref[workload.ref].add(workload.uid)
            by_owner[own_key(workload)] = by_ref[workload.ref]
    for workload in found:
        owner = owner_key(workload)
        if owner is not None and owner in by_owner:
            by_owner[owner].add(workload.uid)
    return {ref: frozenset(uids) for ref, uids in by_ref.items()}


def _chosen(pods: Sequence[Pod], ref: ObjectRef, owners: frozenset[str], observed: ObservedCluster) -> tuple[Pod, ...]:
    """Return the pods that `owners` own, or those that the EndpointSlices of a Service name."""
    if ref.kind != "Service":
        return tuple(pod for pod in pods if pod.owner_uid in owners)
    slices = [one for one in observed.endpoint_slices if (one.ref.namespace, one.service) == (ref.namespace, ref.name)]
    named = {text for one in slices for target in one.pods for text in target if text}
    return tuple(pod for pod in pods if pod.uid in named or pod.name in named)
