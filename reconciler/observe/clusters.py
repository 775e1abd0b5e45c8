"""What the clusters of a Fleet look like now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from reconciler.backends.base import (
    AUTOSCALERS,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    NAMESPACES,
    NODES,
    OUR_CONFIG_MAPS,
    PODS,
    SCALED_OBJECT,
    SERVICES,
    workloads_of,
)
from reconciler.decide.victims import VICTIM_LABEL
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError, NotFoundError
from reconciler.model import Namespace, ObservedCluster, ObservedState, unreadable_key
from reconciler.observe.lists import Asked, Source, each
from reconciler.observe.queries import ask
from reconciler.policy.types import PolicySet


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
        asked = [pool.submit(ask, name, sources.get(name, Source()), policies) for name in names]
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


_ALWAYS = (
    Asked(SERVICES),
    Asked(ENDPOINTS),
    Asked(ENDPOINT_SLICES),
    Asked(NAMESPACES),
    Asked(AUTOSCALERS),
    Asked(EVENTS),
)
_MARKED_PODS = Asked(PODS, labels=VICTIM_LABEL)


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
        scalables = [Asked(resource) for resource in dict.fromkeys(map(workloads_of, (*kinds, SCALED_OBJECT)))]
        own, nodes = Asked(CONFIG_MAPS, namespace=wanted.own_namespace), Asked(NODES)
        found = self._lists([*scalables, *_ALWAYS, own, _MARKED_PODS, *([nodes] if wanted.nodes else [])])

        def of(asked: Asked) -> tuple[Any, ...]:
            read = found.get(asked, ())
            return () if isinstance(read, str) else read

        return ObservedCluster(
            name=self._name,
            identity=self._identity(),
            scale_kinds=kinds,
            workloads=tuple(chain.from_iterable(map(of, scalables))),
            services=of(Asked(SERVICES)),
            endpoints=of(Asked(ENDPOINTS)),
            endpoint_slices=of(Asked(ENDPOINT_SLICES)),
            namespaces=of(Asked(NAMESPACES)),
            nodes=of(nodes),
            autoscalers=of(Asked(AUTOSCALERS)),
            events=of(Asked(EVENTS)),
            config_maps=tuple(one for one in of(own) if one.ref.name.startswith(OUR_CONFIG_MAPS)),
            marked_pods=of(_MARKED_PODS),
            unreadable={
                unreadable_key(asked.resource.group, asked.resource.plural): why
                for asked, why in found.items()
                if isinstance(why, str)
            },
        )

    def _lists(self, asked: Sequence[Asked]) -> dict[Asked, tuple[Any, ...] | str]:
        """Return for each list its objects, or why it cannot be read."""
        return dict(zip(asked, each(self._list, asked, self._workers), strict=True))

    def _list(self, asked: Asked) -> tuple[Any, ...] | str:
        try:
            found = self._found(asked)
        except (ForbiddenError, MalformedAnswerError) as error:
            return self._scope.words(error)
        self._tell(ReadStep(self._name, asked.resource.plural, len(found)))
        return found

    def _found(self, asked: Asked) -> tuple[Any, ...]:
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
