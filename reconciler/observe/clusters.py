"""The observed state of the clusters of a Fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import (
    AUTOSCALERS,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    HISTORY_LABEL,
    NAMESPACES,
    NODES,
    OF_DEPLOYMENT,
    OUR_CONFIG_MAPS,
    PODS,
    REPLICA_SETS,
    SCALED_OBJECT,
    SERVICES,
    MetricsSource,
    workloads_of,
)
from reconciler.decide.annotations import Key
from reconciler.decide.idling.records import may_lack_record
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError, NotFoundError, reason_of
from reconciler.model import (
    Endpoints,
    Namespace,
    ObservedCluster,
    ObservedState,
    QueryAnswer,
    QueryKey,
    Service,
    by_key,
    unreadable_key,
)
from reconciler.observe.cluster_readers import LISTS_AT_ONCE, TOO_SLOW, ListKey, Readers
from reconciler.observe.needed_objects import EVERYTHING, NeededObjects, Scope, needed_objects, placed_names
from reconciler.policy.globs import is_pattern
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.types import Fleet, PolicySet, Tenant
from reconciler.worker_pool import WorkerPool
from reconciler.workload_kinds import SCALABLE_KINDS


class ReadStep(Struct, frozen=True):
    """One step of the reading: `objects` of the list `what` were read, or with `what` "" the whole cluster is through.

    `error` then says why it is unknown, "" where it answered.
    """

    cluster: str
    what: str = ""
    objects: int = 0
    error: str = ""


ReadProgress = Callable[[ReadStep], None]
"""Called from the threads that read, as each step is over."""


def no_progress(_: ReadStep) -> None:
    """Report to nobody."""


METRICS = "metrics"
"""The lane of all metrics sources: many that hang occupy no more threads than one cluster."""


def observe(
    policies: PolicySet,
    sources: Mapping[str, Backend],
    tell: ReadProgress = no_progress,
    scope: Scope = EVERYTHING,
    readers: Readers | None = None,
) -> ObservedState:
    """Return what the clusters of the Fleet look like now, and what their metrics sources say to the queries."""
    chosen = readers or Readers()
    reading = Observation(policies, sources, tell, scope, chosen.pool)
    chosen.wait(reading.asked, lambda: None, reading.give_up)
    return reading.ended()


class Observation:
    """The clusters of a Fleet and their metrics sources while they are read, in the threads of `pool`.

    Whatever goes wrong in the reading of one cluster makes that one unknown, with the reason.
    """

    def __init__(
        self, policies: PolicySet, sources: Mapping[str, Backend], tell: ReadProgress, scope: Scope, pool: WorkerPool
    ) -> None:
        self._policies = policies
        self._sources = sources
        self._tell = tell
        self._given_up: set[str] = set()
        placed = placed_names(policies)
        wanted = {
            cluster.name: needed_objects(policies.on(cluster), cluster.name, scope, placed)
            for cluster in policies.fleet.clusters
        }
        names = list(wanted)
        self._clusters: dict[str, Future[ObservedCluster | str]] = {}
        self._answers: dict[str, Future[Mapping[QueryKey, QueryAnswer]]] = {}
        opened = {name: sources.get(name, Backend(name, error="not opened")) for name in names}
        for name, source in opened.items():
            self._clusters[name] = pool.submit(name, partial(_read, name, source, wanted[name], self._report, pool))
        for name, source in opened.items():
            self._answers[name] = pool.submit(METRICS, partial(_ask, name, source.metrics, policies))

    @property
    def asked(self) -> list[Future[Any]]:
        """Return what is being asked: each cluster, and each metrics source."""
        return [*self._clusters.values(), *self._answers.values()]

    def so_far(self) -> ObservedState:
        """Return what is known now: clusters that are not read yet are unknown, queries have no answer."""
        read = {
            name: future.result() if future.done() and name not in self._given_up else TOO_SLOW
            for name, future in self._clusters.items()
        }
        answers = [
            asking.result() if asking.done() and not asking.cancelled() else _unanswered(name, self._policies)
            for name, asking in self._answers.items()
        ]
        return ObservedState(
            clusters={name: found for name, found in read.items() if isinstance(found, ObservedCluster)},
            unreachable={name: found for name, found in read.items() if isinstance(found, str)},
            answers={key: answer for part in answers for key, answer in part.items()},
        )

    def give_up(self, asked: Future[Any]) -> None:
        """Wait no longer for one of `asked`: a cluster is cut off, so that its threads are free for the others."""
        asked.cancel()
        for name in [name for name, future in self._clusters.items() if future is asked and name not in self._given_up]:
            self._given_up.add(name)
            self._sources.get(name, Backend(name)).reading.cut(TOO_SLOW)
            self._tell(ReadStep(name, error=TOO_SLOW))

    def ended(self) -> ObservedState:
        """Return what is known, and give up whatever is not read by now."""
        state = self.so_far()
        for name, future in self._clusters.items():
            if state.unreachable.get(name) is TOO_SLOW:
                self.give_up(future)
        return state

    def _report(self, step: ReadStep) -> None:
        if step.cluster not in self._given_up:
            self._tell(step)


_OF_SERVICES = ("idling.", "reconciler/")
"""How annotations begin for which a run looks at what is behind a Service, whatever policies select."""


def _is_about_idling(found: Service | Endpoints) -> bool:
    return any(key.startswith(_OF_SERVICES) for key in found.annotations)


def _read(
    name: str, source: Backend, wanted: NeededObjects, tell: ReadProgress, pool: WorkerPool
) -> ObservedCluster | str:
    """Return what was read of one cluster, or why it is unknown."""
    found: ObservedCluster | str = source.error
    if source.cluster is not None:
        try:
            source.begin()
            found = _ClusterReader(name, source, wanted, tell, pool).observed()
        except Exception as error:  # noqa: BLE001 - the one place where a reading fails: its cluster alone is unknown
            found = reason_of(error).removeprefix(f"{name}: ")
        finally:
            source.end()
    tell(ReadStep(name, error=found if isinstance(found, str) else ""))
    return found


_ALWAYS = (
    ListKey(SERVICES),
    ListKey(ENDPOINTS),
    ListKey(ENDPOINT_SLICES),
    ListKey(NAMESPACES),
    ListKey(AUTOSCALERS),
    ListKey(EVENTS),
)
_VICTIM_PODS = ListKey(PODS, labels=Key.VICTIM_LABEL)
_DEPLOYMENTS = ListKey(workloads_of(SCALABLE_KINDS["apps", "Deployment"]))
_OF_DEPLOYMENTS = ListKey(REPLICA_SETS, labels=OF_DEPLOYMENT)
_NOT_OF_DEPLOYMENTS = ListKey(REPLICA_SETS, labels=f"!{OF_DEPLOYMENT}")


class _ClusterReader:
    """Reads one cluster, several lists side by side. What is forbidden is kept as unreadable; anything worse fails
    the cluster.
    """

    def __init__(self, name: str, source: Backend, wanted: NeededObjects, tell: ReadProgress, pool: WorkerPool) -> None:
        assert source.cluster is not None
        self._name = name
        self._cluster = source.cluster
        self._wanted = wanted
        self._scope = wanted.scope
        self._tell = tell
        self._pool = pool

    def observed(self) -> ObservedCluster:
        wanted = self._wanted
        served = self._cluster.scale_kinds()
        replica_sets = ListKey(REPLICA_SETS) if wanted.of_deployments else _NOT_OF_DEPLOYMENTS
        resources = dict.fromkeys(map(workloads_of, (*served, SCALED_OBJECT)))
        scalables = [replica_sets if resource == REPLICA_SETS else ListKey(resource) for resource in resources]
        optional = {ListKey(workloads_of(kind)): kind for kind in served if wanted.forgoes(kind)}
        nodes = ListKey(NODES)
        own = ListKey(CONFIG_MAPS, namespace=wanted.own_namespace, labels=f"!{HISTORY_LABEL}")
        identity, found = self._read([*scalables, *_ALWAYS, own, _VICTIM_PODS, *([nodes] if wanted.nodes else [])])
        forgone = [kind for asked, kind in optional.items() if isinstance(found[asked], ForbiddenError)]
        for kind in forgone:
            del found[ListKey(workloads_of(kind))]

        def of(asked: ListKey) -> tuple[Any, ...]:
            read = found.get(asked, ())
            if isinstance(read, ClusterError):
                return ()
            if asked.namespace or asked.resource == NODES or not wanted.decides:
                return read
            return tuple(filter(wanted.keeps, read))

        services, endpoints, events = of(ListKey(SERVICES)), of(ListKey(ENDPOINTS)), of(ListKey(EVENTS))
        is_narrowed = replica_sets == _NOT_OF_DEPLOYMENTS
        about_idling = events or any(map(_is_about_idling, (*services, *endpoints)))
        if is_narrowed and (about_idling or any(map(may_lack_record, of(_DEPLOYMENTS)))):
            is_narrowed = False
            found[_OF_DEPLOYMENTS] = self._list(_OF_DEPLOYMENTS)
            scalables.append(_OF_DEPLOYMENTS)
        return ObservedCluster(
            name=self._name,
            identity=identity,
            scale_kinds=tuple(kind for kind in served if kind not in forgone),
            workloads=tuple(map(wanted.reduced, chain.from_iterable(map(of, scalables)))),
            services=services,
            endpoints=endpoints,
            endpoint_slices=of(ListKey(ENDPOINT_SLICES)),
            namespaces=of(ListKey(NAMESPACES)),
            nodes=of(nodes),
            autoscalers=of(ListKey(AUTOSCALERS)),
            events=events,
            config_maps=tuple(config_map for config_map in of(own) if config_map.ref.name.startswith(OUR_CONFIG_MAPS)),
            victim_pods=of(_VICTIM_PODS),
            unlisted_replica_sets=OF_DEPLOYMENT if is_narrowed else None,
            unreadable={
                unreadable_key(asked.resource.group, asked.resource.plural): self._scope.words(why)
                for asked, why in found.items()
                if isinstance(why, ClusterError)
            },
        )

    def _read(self, asked: Sequence[ListKey]) -> tuple[str, dict[ListKey, tuple[Any, ...] | ClusterError]]:
        """Return the cluster's identity, and for each list its objects, or why it cannot be read."""
        parts: list[Callable[[], Any]] = [*(partial(self._list, key) for key in asked), self._identity]
        *found, identity = self._pool.each(self._name, lambda part: part(), parts, LISTS_AT_ONCE)
        return identity, dict(zip(asked, found, strict=True))

    def _list(self, asked: ListKey) -> tuple[Any, ...] | ClusterError:
        try:
            found = self._found(asked)
        except (ForbiddenError, MalformedAnswerError) as error:
            return error
        self._tell(ReadStep(self._name, asked.resource.plural, len(found)))
        return found

    def _found(self, asked: ListKey) -> tuple[Any, ...]:
        if asked.namespace or asked.resource == NODES:
            return self._apart(asked)
        tenant, names = self._wanted.tenant, self._wanted.namespaces
        if names is None and self._scope.namespace:
            names = (self._scope.namespace,)
        if tenant is not None:
            spaces = self._spaces_of(tenant)
            names = tuple(space.ref.name for space in spaces)
        if names is None:
            return self._cluster.list(asked.resource, labels=asked.labels)
        if asked.resource == NAMESPACES:
            return spaces if tenant is not None else tuple(chain.from_iterable(map(self._namespace, names)))
        lists = (self._cluster.list(asked.resource, namespace=name, labels=asked.labels) for name in names)
        return tuple(chain.from_iterable(lists))

    def _apart(self, asked: ListKey) -> tuple[Any, ...]:
        """Return what is read the same whose run it is; of our own namespace a tenant need not be able to read."""
        try:
            return self._cluster.list(asked.resource, namespace=asked.namespace, labels=asked.labels)
        except ForbiddenError:
            if self._wanted.tenant is None or not asked.namespace:
                raise
            return ()

    def _spaces_of(self, tenant: Tenant) -> tuple[Namespace, ...]:
        """Return its namespaces; only patterns of names need the right to list all."""
        if not any(map(is_pattern, tenant.namespaces)):
            return tuple(chain.from_iterable(map(self._namespace, tenant.namespaces)))
        return tuple(space for space in self._cluster.list(NAMESPACES) if tenant.has_namespace(space.ref.name))

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
            if not self._scope.alone and self._wanted.tenant is None:
                raise
            return ""


def _ask(name: str, metrics: MetricsSource, policies: PolicySet) -> dict[QueryKey, QueryAnswer]:
    """Return the answers of one cluster; each distinct query text is sent once."""
    texts = {key: render_query(key) for key in policies.query_keys(name)}
    said = {text: _answer(metrics, text) for text in sorted(set(texts.values()))}
    return {key: said[text] for key, text in texts.items()}


def _unanswered(name: str, policies: PolicySet) -> dict[QueryKey, QueryAnswer]:
    """Return what one cluster's queries are answered with while its metrics source does not."""
    return dict.fromkeys(policies.query_keys(name), QueryAnswer(error="the metrics source did not answer in time"))


def _answer(metrics: MetricsSource, text: str) -> QueryAnswer:
    try:
        return metrics.query(text)
    except Exception as error:  # noqa: BLE001 - the one place where a query fails: it alone has no answer
        return QueryAnswer(error=reason_of(error))


# Whether clusters are what the Fleet takes them for, by the uid of kube-system.


def identified(fleet: Fleet, state: ObservedState) -> ObservedState:
    """Return `state` without the clusters that are not, or may not be, what the Fleet takes them for.

    A cluster that shows another identity than the Fleet pins for it is unknown. Of several with the same identity the
    one for which it is pinned is that cluster, and the others are unknown; where none is, any of them may be, and they
    are all among `wakes_only`. One whose identity is not known ("") is like no other.
    """
    foreign = dict(_foreign(fleet, state))
    twins = dict(_twins(state, foreign))
    wrong = {**foreign, **twins}
    if not wrong:
        return state
    return replace(
        state,
        clusters={name: found for name, found in state.clusters.items() if name not in wrong},
        unreachable={**state.unreachable, **wrong},
        wakes_only={name: state.clusters[name] for name in twins},
    )


def _foreign(fleet: Fleet, state: ObservedState) -> Iterator[tuple[str, str]]:
    """Yield the clusters that are surely not what the Fleet takes them for, each with the reason."""
    owners = {cluster.identity: cluster.name for cluster in fleet.clusters if cluster.identity}
    pinned = {name: identity for identity, name in owners.items()}
    for name, cluster in state.clusters.items():
        owner = owners.get(cluster.identity, name)
        if name in pinned and cluster.identity != pinned[name]:
            yield name, f"{_shown(cluster.identity)}, expected {pinned[name]} (its identity in the Fleet)"
        elif owner != name:
            yield name, f"{_shown(cluster.identity)}, which the Fleet pins for {owner}; expected another cluster"


def _twins(state: ObservedState, foreign: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the clusters that share an identity that is pinned for none of them, each with the reason."""
    shown = ((cluster.identity, name) for name, cluster in state.clusters.items() if name not in foreign)
    for identity, names in by_key((identity, name) for identity, name in shown if identity).items():
        for name in names if len(names) > 1 else ():
            others = " and ".join(other for other in names if other != name)
            words = (
                "only wakes that are due or requested are done there; name it once, or set its `identity` in the Fleet"
            )
            yield name, f"{_shown(identity)}, as {others} has, expected each cluster once; {words}"


def _shown(identity: str) -> str:
    return f"kube-system has uid {identity}" if identity else "the uid of kube-system is not known"
