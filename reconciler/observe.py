"""Policies and backends -> observed state. Clusters are read side by side; one that fails is unknown, never empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from reconciler.backends.base import (
    AUTOSCALERS,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    NAMESPACES,
    NO_METRICS,
    NODES,
    OUR_CONFIG_MAPS,
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
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError, NotFoundError
from reconciler.labels import selector_text
from reconciler.model import (
    Namespace,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Pod,
    PodsQuestion,
    QueryAnswer,
    QueryKey,
    Workload,
    unreadable_key,
)
from reconciler.policy.queries import render_query
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion, PolicySet

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Source:
    """What one cluster is read through. `error` set: it could not even be opened, the others are None then.

    `workers` is how many of its lists are read side by side.
    """

    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    error: str = ""
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is looked at. `namespace` set: only what is in it, so that rights there are enough.

    `alone`: there is one cluster, so nothing rests on its identity, and that may stay unknown.
    """

    namespace: str = ""
    alone: bool = False

    def words(self, error: ClusterError) -> str:
        """Return what is told of a list that cannot be read."""
        hint = self.alone and not self.namespace and isinstance(error, ForbiddenError)
        return f"{error}, or look at one namespace: -n NAMESPACE" if hint else str(error)


EVERYTHING = Scope()


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


def observe(
    policies: PolicySet, sources: Mapping[str, Source], tell: Tell = nobody, scope: Scope = EVERYTHING
) -> ObservedState:
    """Return what the clusters of the Fleet look like now, and what their metrics sources say to the queries."""
    names = [cluster.name for cluster in policies.fleet.clusters]
    wanted = _Wanted(
        policies.fleet.namespace, any(policy.strategy == "zoneBalanced" for policy in policies.downscale), scope
    )
    with ThreadPoolExecutor(max_workers=max(1, 2 * len(names))) as pool:
        # Side by side: a cluster that hangs must not take the time to ask for the metrics of the others.
        asked = [pool.submit(_ask, name, sources.get(name, Source()), policies) for name in names]
        read = list(
            pool.map(
                lambda name: _read(name, sources.get(name, Source(error="not opened")), wanted, tell),
                names,
            )
        )
        answers = [one.result() for one in asked]
    return ObservedState(
        clusters={found.name: found for found in read if isinstance(found, ObservedCluster)},
        unreachable={name: found for name, found in zip(names, read, strict=True) if isinstance(found, str)},
        answers={key: answer for part in answers for key, answer in part.items()},
    )


def answer(state: ObservedState, questions: Sequence[PodsQuestion], sources: Mapping[str, Source]) -> ObservedState:
    """Return `state` with the pods that `questions` ask for; what cannot be listed is named in `unreadable`."""
    asked: dict[str, list[ObjectRef]] = {}
    for question in questions:
        asked.setdefault(question.workload.cluster, []).append(question.workload)
    names = [name for name in sorted(asked) if name in state.clusters and sources[name].cluster is not None]
    workers = len(names) if any(sources[name].workers > 1 for name in names) else 1
    found = _each(lambda name: _with_pods(state.clusters[name], sources[name], asked[name]), names, workers)
    return replace(state, clusters={**state.clusters, **dict(zip(names, found, strict=True))})


def _each(read: Callable[[T], R], things: Sequence[T], workers: int) -> list[R]:
    """Return what `read` gives for each of `things`, in their order; `workers` are read side by side."""
    if workers == 1:
        return [read(thing) for thing in things]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        return list(pool.map(read, things))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read of each cluster."""

    own_namespace: str
    nodes: bool
    scope: Scope


def _read(name: str, source: Source, wanted: _Wanted, tell: Tell) -> ObservedCluster | str:
    if source.cluster is None:
        tell(ReadStep(name, error=source.error))
        return source.error
    try:
        found = _Reader(name, source, wanted.scope, tell).observed(wanted)
    except ClusterError as error:
        words = str(error).removeprefix(f"{name}: ")
        tell(ReadStep(name, error=words))
        return words
    tell(ReadStep(name))
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """One list that is asked for."""

    resource: Resource[Any]
    namespace: str = ""
    labels: str = ""


_ALWAYS = (
    _Asked(SERVICES),
    _Asked(ENDPOINTS),
    _Asked(ENDPOINT_SLICES),
    _Asked(NAMESPACES),
    _Asked(AUTOSCALERS),
    _Asked(EVENTS),
)
_MARKED_PODS = _Asked(PODS, labels=VICTIM_LABEL)


class _Reader:
    """Reads one cluster, `workers` lists side by side. What is forbidden is kept as unreadable; anything worse fails
    the cluster.
    """

    def __init__(self, name: str, source: Source, scope: Scope, tell: Tell) -> None:
        assert source.cluster is not None
        self._name = name
        self._cluster = source.cluster
        self._workers = source.workers
        self._scope = scope
        self._tell = tell

    def observed(self, wanted: _Wanted) -> ObservedCluster:
        kinds = self._cluster.scale_kinds()
        scalables = [_Asked(resource) for resource in dict.fromkeys(map(workloads_of, (*kinds, SCALED_OBJECT)))]
        own, nodes = _Asked(CONFIG_MAPS, namespace=wanted.own_namespace), _Asked(NODES)
        found = self._lists([*scalables, *_ALWAYS, own, _MARKED_PODS, *([nodes] if wanted.nodes else [])])

        def of(asked: _Asked) -> tuple[Any, ...]:
            read = found.get(asked, ())
            return () if isinstance(read, str) else read

        return ObservedCluster(
            name=self._name,
            identity=self._identity(),
            scale_kinds=kinds,
            workloads=tuple(chain.from_iterable(map(of, scalables))),
            services=of(_Asked(SERVICES)),
            endpoints=of(_Asked(ENDPOINTS)),
            endpoint_slices=of(_Asked(ENDPOINT_SLICES)),
            namespaces=of(_Asked(NAMESPACES)),
            nodes=of(nodes),
            autoscalers=of(_Asked(AUTOSCALERS)),
            events=of(_Asked(EVENTS)),
            config_maps=tuple(one for one in of(own) if one.ref.name.startswith(OUR_CONFIG_MAPS)),
            marked_pods=of(_MARKED_PODS),
            unreadable={
                unreadable_key(asked.resource.group, asked.resource.plural): why
                for asked, why in found.items()
                if isinstance(why, str)
            },
        )

    def _lists(self, asked: Sequence[_Asked]) -> dict[_Asked, tuple[Any, ...] | str]:
        """Return for each list its objects, or why it cannot be read."""
        return dict(zip(asked, _each(self._list, asked, self._workers), strict=True))

    def _list(self, asked: _Asked) -> tuple[Any, ...] | str:
        try:
            found = self._found(asked)
        except (ForbiddenError, MalformedAnswerError) as error:
            return self._scope.words(error)
        self._tell(ReadStep(self._name, asked.resource.plural, len(found)))
        return found

    def _found(self, asked: _Asked) -> tuple[Any, ...]:
        within = "" if asked.resource == NODES else self._scope.namespace
        if not within or asked.resource != NAMESPACES:
            return self._cluster.list(asked.resource, namespace=asked.namespace or within, labels=asked.labels)
        return self._namespace(within)

    def _namespace(self, name: str) -> tuple[Namespace, ...]:
        """A Role in a namespace may give the right to read that Namespace, a ClusterRole only that to list them."""
        try:
            return (self._cluster.get(NAMESPACES, "", name),)
        except NotFoundError:
            return ()
        except ForbiddenError as error:
            try:
                return tuple(found for found in self._cluster.list(NAMESPACES) if found.ref.name == name)
            except ForbiddenError:
                raise error from None

    def _identity(self) -> str:
        try:
            return self._cluster.identity()
        except ForbiddenError:
            if not self._scope.alone:
                raise
            return ""


def _with_pods(observed: ObservedCluster, source: Source, asked: Sequence[ObjectRef]) -> ObservedCluster:
    cluster = source.cluster
    assert cluster is not None

    def listed(one: _Asked) -> tuple[Pod, ...] | str:
        try:
            return cluster.list(PODS, namespace=one.namespace, labels=one.labels)
        except ClusterError as error:
            return str(error)

    lists = _pod_lists(observed.workloads, asked)
    read = dict(zip(lists, _each(listed, list(lists), source.workers), strict=True))
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


def _pod_lists(workloads: Iterable[Workload], asked: Sequence[ObjectRef]) -> dict[_Asked, list[ObjectRef]]:
    """Return the lists to ask for, sorted by namespace, and whose pods are to be found in each.

    It is one for each namespace; where that is for one workload alone, it asks for no more than what that selects.
    """
    inside: dict[str, list[ObjectRef]] = {}
    for ref in sorted(asked, key=lambda ref: ref.namespace):
        inside.setdefault(ref.namespace, []).append(ref)
    alone = {refs[0] for refs in inside.values() if len(refs) == 1}
    labels = {one.ref: selector_text(one.selector) for one in workloads if one.ref in alone}
    return {
        _Asked(PODS, namespace, labels.get(refs[0], "") if len(refs) == 1 else ""): refs
        for namespace, refs in inside.items()
    }


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


def _chosen(pods: Sequence[Pod], ref: ObjectRef, owners: frozenset[str], observed: ObservedCluster) -> tuple[Pod, ...]:
    """Return the pods that `owners` own, or those that the EndpointSlices of a Service name."""
    if ref.kind != "Service":
        return tuple(pod for pod in pods if pod.owner_uid in owners)
    slices = [one for one in observed.endpoint_slices if (one.ref.namespace, one.service) == (ref.namespace, ref.name)]
    named = {text for one in slices for target in one.pods for text in target if text}
    return tuple(pod for pod in pods if pod.uid in named or pod.name in named)


def _ask(name: str, source: Source, policies: PolicySet) -> dict[QueryKey, QueryAnswer]:
    """Return the answers of one cluster; each distinct query text is sent once."""
    texts = {key: rendered(key) for key in query_keys(name, policies)}
    if source.metrics is None:
        return {key: QueryAnswer(error=NO_METRICS) for key in texts}
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
