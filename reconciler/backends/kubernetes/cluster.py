"""`Cluster` over one API server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from reconciler.backends.decode.objects import is_listed, noun_of, secret_value, shape_of
from reconciler.backends.decode.shapes import SecretManifest
from reconciler.backends.decode.wire import Object, Wire
from reconciler.backends.kubernetes.client import ApiClient, ApiRequest, collection, one, resource_name
from reconciler.backends.kubernetes.discovery import ServedKinds, discover
from reconciler.backends.kubernetes.errors import Operation
from reconciler.backends.kubernetes.pages import METADATA_ONLY, ReadBudget, decoded, listed
from reconciler.backends.kubernetes.rbac import own_user
from reconciler.backends.kubernetes.writes import ObjectWriter
from reconciler.backends.protocols import (
    BUILT_IN_SCALES,
    EVENTS,
    NAMESPACES,
    NODES,
    RESOURCES,
    SCALED_OBJECT,
    Resource,
    workloads_of,
)
from reconciler.errors import MalformedAnswerError, NotFoundError, RefusedError, UnreachableError
from reconciler.model import NEED_PODS, ScaleKind, Write

T = TypeVar("T")

OnRead = Callable[[Resource[Any], Sequence[Wire]], None]
"""Told of every list and object that was read, as decoded: what a snapshot is made of."""

_SCALES = (*BUILT_IN_SCALES, SCALED_OBJECT)
_PLURALS = {(found.group, found.kind): found.plural for found in (*RESOURCES, *map(workloads_of, _SCALES))}
_BUILT_IN = _PLURALS.keys() - {(SCALED_OBJECT.group, SCALED_OBJECT.kind)}
_CLUSTER_WIDE = frozenset((found.group, found.kind) for found in (NAMESPACES, NODES))


class KubernetesCluster:
    """The cluster `name`, asked through `requests`. What it serves is asked once; lists are taken from `budget`."""

    def __init__(
        self, name: str, requests: ApiClient, recorder: OnRead | None = None, budget: ReadBudget | None = None
    ) -> None:
        self._name = name
        self._requests = requests
        self._recorder = recorder
        self._budget = budget or ReadBudget()
        self._guard = threading.Lock()
        self._discovery: ServedKinds | None = None

    @property
    def name(self) -> str:
        return self._name

    def identity(self) -> str:
        """Return the uid of Namespace kube-system."""
        return self.get(NAMESPACES, "", "kube-system").uid

    def scale_kinds(self) -> tuple[ScaleKind, ...]:
        """Return the built-in kinds, and every other served kind with /scale."""
        return self._discovered().scale_kinds

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        """Return all objects of `resource`, sorted by namespace and name; a kind that is not served gives ().

        Raises:
            ForbiddenError, MalformedAnswerError: this kind cannot be read. ClusterError: the cluster cannot.
        """
        discovery = self._discovered()
        unreadable = discovery.unreadable.get((resource.group, resource.plural))
        if unreadable is not None:
            raise unreadable
        key = resource.key
        if not discovery.serves(*key) or (namespace and not discovery.is_namespaced(*key)):
            return ()
        found = self._listed(resource, self._list_request(resource, namespace, labels))
        return tuple(noun for *_, noun, shown in sorted(found, key=lambda item: item[:2]) if shown)

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return one object as it is now; see `Cluster.get` for what it raises."""
        operation = self._question("get", resource, namespace, name)
        path = one(*resource.key, namespace, name)
        read: Any = decoded(self._requests.send(ApiRequest("GET", path, operation)), shape_of(resource), operation)
        if self._recorder is not None:
            self._recorder(resource, [read])
        return noun_of(resource, read, self._name, self._scale(resource.group, resource.kind))

    def now(self) -> datetime:
        """Return what time it is by the clock of the API server."""
        return self._requests.now()

    def user(self) -> str:
        """Return whom the API server takes us for, "" where it cannot tell (before Kubernetes 1.28).

        Raises:
            ClusterError: it does not answer.
        """
        return own_user(self._requests, self._name)

    def secret(self, namespace: str, name: str, key: str) -> str:
        """Return one value of a Secret; see `secret_value`."""
        operation = Operation(self._name, "get", "secrets", namespace, name)
        answer = self._requests.send(ApiRequest("GET", one("", "v1", "secrets", namespace, name), operation))
        return secret_value(decoded(answer, SecretManifest, operation), key, f"{self._name}/{namespace}/Secret/{name}")

    def write(self, write: Write) -> None:
        """Carry out `write`, whole or not at all; see `ObjectWriter.write` for what it raises."""
        key = (write.ref.group, write.ref.kind)
        scale = self._scale(*key)
        plural = _PLURALS.get(key) or (scale.plural if scale is not None else self._plural(*key))
        ObjectWriter(self._requests, plural, scale).write(write)

    def _discovered(self) -> ServedKinds:
        with self._guard:
            if self._discovery is None:
                self._discovery = discover(self._requests, self._name, self._budget)
            return self._discovery

    def _scale(self, group: str, kind: str) -> ScaleKind | None:
        kinds = BUILT_IN_SCALES if (group, kind) in _BUILT_IN else self._discovered().scale_kinds
        return next((found for found in kinds if (found.group, found.kind) == (group, kind)), None)

    def _plural(self, group: str, kind: str) -> str:
        served = self._discovered().served.values()
        found = next((one.plural for one in served if (one.group, one.kind) == (group, kind)), None)
        if found is None:
            raise NotFoundError(f"{self._name}: serves no {kind} of {group}, expected one; install what defines it")
        return found

    def _list_request(self, resource: Resource[Any], namespace: str, labels: str) -> ApiRequest:
        inside = "" if (resource.group, resource.kind) in _CLUSTER_WIDE else namespace
        query = {"labelSelector": labels} if labels else {}
        if (resource.group, resource.kind) == (EVENTS.group, EVENTS.kind):
            query["fieldSelector"] = f"reason={NEED_PODS}"
        return ApiRequest(
            "GET",
            collection(*resource.key, inside),
            self._question("list", resource, inside),
            query=query,
            accept=METADATA_ONLY if shape_of(resource) is Object else "application/json",
        )

    def _listed(self, resource: Resource[T], request: ApiRequest) -> Sequence[tuple[str, str, T, bool]]:
        """Return the items as (namespace, name, noun, whether a list shows it)."""
        scale = self._scale(resource.group, resource.kind)
        records = self._recorder is not None

        def reduced(item: Any) -> tuple[tuple[str, str, T, bool], Wire | None]:
            metadata = item.metadata
            noun = noun_of(resource, item, self._name, scale)
            return (metadata.namespace or "", metadata.name, noun, is_listed(item)), item if records else None

        try:
            found = listed(self._requests, request, shape_of(resource), reduced, self._budget)
        except (NotFoundError, RefusedError) as error:
            raise MalformedAnswerError(f"{error}; the cluster says that it serves it") from error
        except UnreachableError as error:
            if (resource.group, resource.kind) in _BUILT_IN:
                raise
            # A custom resource can fail by itself, when its conversion webhook does.
            raise MalformedAnswerError(str(error)) from error
        if self._recorder is not None:
            self._recorder(resource, [item for _, item in found if item is not None])
        return [row for row, _ in found]

    def _question(self, verb: str, resource: Resource[Any], namespace: str = "", name: str = "") -> Operation:
        return Operation(self._name, verb, resource_name(resource.group, resource.plural), namespace, name)
