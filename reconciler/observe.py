"""Policies and backends -> observed state. Clusters are read side by side; one that fails is unknown, never empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from reconciler.backends.base import (
    AUTOSCALERS,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SCALED_OBJECT,
    SERVICES,
    Cluster,
    MetricsSource,
    Resource,
    workloads_of,
)
from reconciler.decide.selection import selects_cluster
from reconciler.decide.victims import VICTIM_LABEL
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError
from reconciler.model import (
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Pod,
    PodsQuestion,
    QueryAnswer,
    QueryKey,
    Workload,
)
from reconciler.policy.queries import render_query
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion, PolicySet


@dataclass(frozen=True, slots=True)
class Source:
    """What one cluster is read through. `error` set: it could not even be opened, the others are None then."""

    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReadStep:
    """One step of the reading: `objects` of the list `what` were read, or with `what` "" the whole cluster is through.

    `error` then says why it is unknown, "" where it answered.
    """

    cluster: str
    what: str = ""
    objects: int = 0
    error: str = ""


Tell = Callable[[ReadStep], None]
"""Called from the threads that read, as each step is over."""


def nobody(_: ReadStep) -> None:
    """Tell nobody."""


def observe(policies: PolicySet, sources: Mapping[str, Source], tell: Tell = nobody) -> ObservedState:
    """Return what the clusters of the Fleet look like now, and what their metrics sources say to the queries."""
    names = [cluster.name for cluster in policies.fleet.clusters]
    wants_nodes = any(policy.strategy == "zoneBalanced" for policy in policies.downscale)
    with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
        read = list(
            pool.map(
                lambda name: _read(name, sources.get(name, Source(error="not opened")), policies, wants_nodes, tell),
                names,
            )
        )
        answers = list(pool.map(lambda name: _ask(name, sources.get(name, Source()), policies), names))
    return ObservedState(
        clusters={found.name: found for found in read if isinstance(found, ObservedCluster)},
        unreachable={name: found for name, found in zip(names, read, strict=True) if isinstance(found, str)},
        answers={key: answer for part in answers for key, answer in part.items()},
    )


def answer(state: ObservedState, questions: Sequence[PodsQuestion], sources: Mapping[str, Source]) -> ObservedState:
    """Return `state` with the pods that `questions` ask for; what cannot be listed is named in `unreadable`."""
    clusters = dict(state.clusters)
    for name in sorted({question.workload.cluster for question in questions}):
        cluster = sources[name].cluster
        asked = [question.workload for question in questions if question.workload.cluster == name]
        if cluster is not None and name in clusters:
            clusters[name] = _with_pods(clusters[name], cluster, asked)
    return replace(state, clusters=clusters)


def _read(name: str, source: Source, policies: PolicySet, wants_nodes: bool, tell: Tell) -> ObservedCluster | str:
    if source.cluster is None:
        tell(ReadStep(name, error=source.error))
        return source.error
    try:
        found = _Reader(name, source.cluster, tell).observed(policies.fleet.namespace, wants_nodes)
    except ClusterError as error:
        words = str(error).removeprefix(f"{name}: ")
        tell(ReadStep(name, error=words))
        return words
    tell(ReadStep(name))
    return found


class _Reader:
    """Reads one cluster. What is forbidden is kept as unreadable; anything worse fails the cluster."""

    def __init__(self, name: str, cluster: Cluster, tell: Tell) -> None:
        self._name = name
        self._cluster = cluster
        self._tell = tell
        self._unreadable: dict[str, str] = {}

    def observed(self, own_namespace: str, wants_nodes: bool) -> ObservedCluster:
        kinds = self._cluster.scale_kinds()
        return ObservedCluster(
            name=self._name,
            identity=self._cluster.identity(),
            scale_kinds=kinds,
            workloads=tuple(self._workloads(workloads_of(kind) for kind in (*kinds, SCALED_OBJECT))),
            services=self._list(SERVICES),
            endpoints=self._list(ENDPOINTS),
            endpoint_slices=self._list(ENDPOINT_SLICES),
            namespaces=self._list(NAMESPACES),
            nodes=self._list(NODES) if wants_nodes else (),
            autoscalers=self._list(AUTOSCALERS),
            events=self._list(EVENTS),
            config_maps=self._list(CONFIG_MAPS, namespace=own_namespace),
            marked_pods=self._list(PODS, labels=VICTIM_LABEL),
            unreadable=self._unreadable,
        )

    def _workloads(self, resources: Iterable[Resource[Workload]]) -> Iterator[Workload]:
        for resource in dict.fromkeys(resources):
            yield from self._list(resource)

    def _list(self, resource: Resource[Any], *, namespace: str = "", labels: str = "") -> tuple[Any, ...]:
        try:
            found = self._cluster.list(resource, namespace=namespace, labels=labels)
        except (ForbiddenError, MalformedAnswerError) as error:
            self._unreadable[resource.plural] = str(error)
            return ()
        self._tell(ReadStep(self._name, resource.plural, len(found)))
        return found


def _with_pods(observed: ObservedCluster, cluster: Cluster, asked: Sequence[ObjectRef]) -> ObservedCluster:
    owners = owners_of(observed.workloads, asked)
    pods = dict(observed.pods)
    unreadable = dict(observed.unreadable)
    for namespace in sorted({ref.namespace for ref in asked}):
        inside = [ref for ref in asked if ref.namespace == namespace]
        try:
            listed = cluster.list(PODS, namespace=namespace)
        except ClusterError as error:
            unreadable |= {f"pods of {ref.namespace}/{ref.kind}/{ref.name}": str(error) for ref in inside}
            continue
        pods |= {ref: _owned(listed, owners[ref]) for ref in inside}
    return replace(observed, pods=pods, unreadable=unreadable)


def owners_of(workloads: Iterable[Workload], asked: Sequence[ObjectRef]) -> dict[ObjectRef, frozenset[str]]:
    """Return for each workload of `asked` the uids that own its pods: its own, and those of its ReplicaSets."""
    by_ref: dict[ObjectRef, set[str]] = {ref: set() for ref in asked}
    by_uid: dict[str, set[str]] = {}
    found = list(workloads)
    for workload in found:
        if workload.ref in by_ref:
            by_ref[workload.ref].add(workload.uid)
            by_uid[workload.uid] = by_ref[workload.ref]
    for workload in found:
        if workload.owner is not None and workload.owner.uid in by_uid:
            by_uid[workload.owner.uid].add(workload.uid)
    return {ref: frozenset(uids) for ref, uids in by_ref.items()}


def _owned(pods: Sequence[Pod], owners: frozenset[str]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.owner_uid in owners)


def _ask(name: str, source: Source, policies: PolicySet) -> dict[QueryKey, QueryAnswer]:
    """Return the answers of one cluster; each distinct query text is sent once."""
    texts = {key: rendered(key) for key in query_keys(name, policies)}
    if source.metrics is None:
        return {key: QueryAnswer(error="the cluster has no metrics source") for key in texts}
    said = {text: source.metrics.query(text) for text in sorted(set(texts.values()))}
    return {key: said[text] for key, text in texts.items()}


def rendered(key: QueryKey) -> str:
    """Return the query text that goes to the metrics source for `key`."""
    return render_query(key.template, window=key.window, cluster=key.cluster, policy=key.policy)


def query_keys(cluster: str, policies: PolicySet) -> tuple[QueryKey, ...]:
    """Return every query of the policies that may concern `cluster`, sorted."""
    fleet_cluster = policies.fleet.cluster(cluster)
    if fleet_cluster is None:
        return ()
    idling = {
        QueryKey(cluster, policy.name, template, window)
        for policy in policies.idling
        if selects_cluster(policy.selector, fleet_cluster)
        for template, window in _queries_of(policy)
    }
    targets = {
        QueryKey(cluster, policy.name, policy.target.query)
        for policy in policies.downscale
        if policy.target is not None
        and policy.target.query is not None
        and selects_cluster(policy.selector, fleet_cluster)
    }
    return tuple(sorted(idling | targets))


def _queries_of(policy: IdlingPolicy) -> Iterator[tuple[str, str]]:
    yield from ((metric.query, metric.window) for metric in policy.wake_when)
    yield from _criterion_queries(policy.idle_when)


def _criterion_queries(criterion: Criterion) -> Iterator[tuple[str, str]]:
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from _criterion_queries(inner)
    elif isinstance(criterion, MetricCriterion):
        yield (criterion.query, criterion.window)
        if criterion.coverage is not None:
            yield (criterion.coverage, criterion.window)
