"""What is read once it is decided: the pods of a workload, those that pickers choose, and where activators run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import ACTIVATOR_SELECTOR, LEASES, PODS, REPLICA_SETS, Cluster, PodPickerClient
from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.decisions import Notice
from reconciler.decide.downscale.victim_choice import accepted
from reconciler.decide.owners_and_rollouts import OwnerKey, own_key, owner_key
from reconciler.errors import ClusterError, PickerError, reason_of
from reconciler.labels import selector_text
from reconciler.model import (
    ActivatorReplica,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Pod,
    PodsQuestion,
    Workload,
    unreadable_pods_key,
)
from reconciler.observe.cluster_readers import LISTS_AT_ONCE, TOO_SLOW, ListKey, Readers
from reconciler.worker_pool import WorkerPool


def answer(
    state: ObservedState,
    questions: Sequence[PodsQuestion],
    sources: Mapping[str, Backend],
    readers: Readers | None = None,
    delayed: Callable[[], None] = lambda: None,
) -> ObservedState:
    """Return `state` with the pods that `questions` ask for; what cannot be listed is named in `unreadable`."""
    chosen = readers or Readers()
    asked: dict[str, list[ObjectRef]] = {}
    for question in questions:
        asked.setdefault(question.workload.cluster, []).append(question.workload)
    work = {
        name: partial(_with_pods, state.clusters[name], sources[name], asked[name], chosen.pool)
        for name in sorted(asked)
        if name in state.clusters and sources[name].cluster is not None
    }
    found = chosen.each(work, delayed, lambda name: sources[name].reading.cut(TOO_SLOW))
    clusters = dict(state.clusters)
    for name, read in found.items():
        if isinstance(read, str):
            why = dict.fromkeys(map(unreadable_pods_key, asked[name]), read)
            clusters[name] = replace(clusters[name], unreadable={**clusters[name].unreadable, **why})
        else:
            clusters[name] = read
    return replace(state, clusters=clusters)


def with_activators_read(
    state: ObservedState, names: Sequence[str], namespace: str, sources: Mapping[str, Backend], readers: Readers
) -> ObservedState:
    """Return `state` with the activators of the clusters `names`, whose Leases are in `namespace`.

    Where they cannot be read there is none: nothing waits for them, and nothing they left is judged.
    """
    asked = {name: source.cluster for name in names if (source := sources[name]).cluster is not None}
    found = readers.each({name: partial(activators_of, cluster, namespace) for name, cluster in asked.items()})
    read = {
        name: replace(state.clusters[name], activators=activators)
        for name, activators in found.items()
        if not isinstance(activators, str)
    }
    return replace(state, clusters={**state.clusters, **read}) if read else state


def activators_of(cluster: Cluster, namespace: str) -> tuple[ActivatorReplica, ...]:
    """Return the activators of a cluster by their Leases in `namespace`, and which of them are fresh.

    Raises:
        ClusterError: they cannot be read.
    """
    leases = [
        lease for lease in cluster.list(LEASES, namespace=namespace, labels=ACTIVATOR_SELECTOR) if lease.activator
    ]
    return tuple(sorted(ActivatorReplica(lease.activator, lease.is_fresh(cluster.now())) for lease in leases))


def _with_pods(
    observed: ObservedCluster, source: Backend, asked: Sequence[ObjectRef], pool: WorkerPool
) -> ObservedCluster:
    cluster = source.cluster
    assert cluster is not None

    def listed(key: ListKey) -> tuple[Any, ...] | str:
        try:
            return cluster.list(key.resource, namespace=key.namespace, labels=key.labels)
        except ClusterError as error:
            return str(error)

    lists = _pod_lists(observed, asked)
    owners = {key: _owner_list(key, observed) for key in lists} if observed.unlisted_replica_sets else {}
    every = [*lists, *owners.values()]
    read = dict(zip(every, pool.each(observed.name, listed, every, LISTS_AT_ONCE), strict=True))
    workloads = {workload.ref: workload for workload in observed.workloads}
    workloads |= {owner.ref: owner for key in owners.values() for owner in read[key] if isinstance(owner, Workload)}
    observed = replace(observed, workloads=tuple(workloads.values()))
    owned, named = owner_uids(observed.workloads, asked), _named_pods(observed)
    pods = dict(observed.pods)
    unreadable = dict(observed.unreadable)
    for key, refs in lists.items():
        found = read[key]
        if not isinstance(found, str) and key in owners and isinstance(read[owners[key]], str):
            found = read[owners[key]]
        if isinstance(found, str):
            unreadable |= {unreadable_pods_key(ref): found for ref in refs}
        else:
            chosen = _pods_of(owned, named, found)
            pods |= {ref: chosen(ref) for ref in refs}
    return replace(observed, pods=pods, unreadable=unreadable)


def _owner_list(pods: ListKey, observed: ObservedCluster) -> ListKey:
    """Return the list of the ReplicaSets, not read before, that may own what is in the list `pods`: they have the
    labels of their pods.
    """
    labels = ",".join(filter(None, (pods.labels, observed.unlisted_replica_sets)))
    return replace(pods, resource=REPLICA_SETS, labels=labels)


_FEW_LISTS = 8
_PODS_OF_A_PAGE = 500
_PICKERS_AT_ONCE = 8


def _pod_lists(observed: ObservedCluster, asked: Sequence[ObjectRef]) -> dict[ListKey, list[ObjectRef]]:
    """Return the lists to ask for, sorted by namespace, and whose pods are to be found in each.

    It is one for each namespace, or one for the cluster where that takes fewer requests; where a list is for one
    workload alone, it asks for no more than what that selects.
    """
    inside: dict[str, list[ObjectRef]] = {}
    for ref in sorted(asked, key=lambda ref: ref.namespace):
        inside.setdefault(ref.namespace, []).append(ref)
    pages = 1 + sum(known.spec_replicas for known in observed.workloads if known.owner is None) // _PODS_OF_A_PAGE
    if len(inside) > max(_FEW_LISTS, pages) and "pods" not in observed.unreadable:
        return {ListKey(PODS): [ref for refs in inside.values() for ref in refs]}
    alone = {refs[0] for refs in inside.values() if len(refs) == 1}
    labels = {known.ref: selector_text(known.selector) for known in observed.workloads if known.ref in alone}
    return {
        ListKey(PODS, namespace, labels.get(refs[0], "") if len(refs) == 1 else ""): refs
        for namespace, refs in inside.items()
    }


def owner_uids(workloads: Iterable[Workload], asked: Sequence[ObjectRef]) -> dict[ObjectRef, frozenset[str]]:
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


def _named_pods(observed: ObservedCluster) -> dict[tuple[str, str], set[str]]:
    """Return the names and uids of the pods behind each Service, by (namespace, name), that its endpoints name."""
    behind = [((found.ref.namespace, found.service), found.pods) for found in observed.endpoint_slices]
    behind += [((old.ref.namespace, old.ref.name), old.pods) for old in observed.endpoints]
    named: dict[tuple[str, str], set[str]] = {}
    for service, pods in behind:
        named.setdefault(service, set()).update(text for pod in pods for text in pod if text)
    return named


def _pods_of(
    owners: Mapping[ObjectRef, frozenset[str]], named: Mapping[tuple[str, str], set[str]], pods: Sequence[Pod]
) -> Callable[[ObjectRef], tuple[Pod, ...]]:
    """Return what gives those of `pods` that the `owners` of a workload own, or that the endpoints of a Service name:
    looked up once for all.
    """
    by_text: dict[tuple[str, str], list[int]] = {}
    for position, pod in enumerate(pods):
        for text in {pod.owner_uid, pod.uid, pod.name} - {""}:
            by_text.setdefault((pod.namespace, text), []).append(position)

    def chosen(ref: ObjectRef) -> tuple[Pod, ...]:
        is_service = ref.is_service
        texts = named.get((ref.namespace, ref.name), set()) if is_service else owners[ref]
        positions = {position for text in texts for position in by_text.get((ref.namespace, text), ())}
        candidates = [pods[position] for position in sorted(positions)]
        return tuple(pod for pod in candidates if texts & ({pod.uid, pod.name} if is_service else {pod.owner_uid}))

    return chosen


def answers_of_pickers(
    requests: Mapping[ObjectRef, PickerRequest], pickers: Mapping[str, PodPickerClient], pool: WorkerPool
) -> dict[ObjectRef, PickerAnswer | Notice]:
    """Return what the pickers of clusters name now, by workload, or why they do not; some are asked side by side."""

    def answer_about(ref: ObjectRef) -> PickerAnswer | Notice:
        request = requests[ref]
        try:
            return accepted(pickers[ref.cluster].pick(request), request)
        except PickerError as error:
            return Notice("picker", str(ref), str(error), partial=request.picker.on_error == "skip")
        except Exception as error:  # noqa: BLE001 - the one place where a picker fails unexpectedly: it alone is unknown
            return Notice("picker", str(ref), reason_of(error), partial=True)

    answers = pool.each("pod pickers", answer_about, [*requests], _PICKERS_AT_ONCE)
    return dict(zip(requests, answers, strict=True))
