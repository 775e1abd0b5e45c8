"""`Cluster` over one API server.

A write tests what it rests on, so that it is done whole or not at all, also when it has to be sent twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from datetime import datetime
from typing import Any, TypeVar

from reconciler.backends.decode.metadata import Object
from reconciler.backends.decode.objects import model_object, secret_value, shape_of
from reconciler.backends.decode.shapes import Secret
from reconciler.backends.decode.values import Wire
from reconciler.backends.kubernetes import object_write
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.discovery import ServedKinds, discover
from reconciler.backends.kubernetes.pages import METADATA_ONLY, answer_to, listed
from reconciler.backends.kubernetes.request_form import ApiRequest, object_request
from reconciler.backends.kubernetes.request_limits import ReadBudget
from reconciler.backends.kubernetes.rights import own_user
from reconciler.backends.protocols import BUILT_IN_SCALES, EVENTS, NAMESPACES, NODES, RESOURCES, SCALED_OBJECT, Resource
from reconciler.errors import MalformedAnswerError, NotFoundError, RefusedError, UnreachableError
from reconciler.model import NEED_PODS, ServiceAccount, Write
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind

T = TypeVar("T")


OnRead = Callable[[Resource[Any], Sequence[Wire]], None]
"""Gets objects that were read of a resource, as they were decoded."""

_PLURALS = {(found.group, found.kind): found.plural for found in RESOURCES} | {
    key: kind.plural for key, kind in SCALABLE_KINDS.items()
}
_BUILT_IN = _PLURALS.keys() - {(SCALED_OBJECT.group, SCALED_OBJECT.kind)}
_CLUSTER_WIDE = frozenset((found.group, found.kind) for found in (NAMESPACES, NODES))


class KubernetesCluster:
    """The cluster `name`, asked through `client`. What it serves is asked once; lists are taken from `budget`.

    `switches` are the kinds that are switched off in place of being scaled, whether it serves them or not. `on_read`,
    where it is set, gets whatever is read.
    """

    def __init__(
        self,
        name: str,
        client: ApiClient,
        budget: ReadBudget | None = None,
        switches: tuple[WorkloadKind, ...] = (),
    ) -> None:
        self._name = name
        self._client = client
        self.on_read: OnRead | None = None
        self._budget = budget or ReadBudget()
        self._switches = switches
        self._account: ServiceAccount | None = None
        self._guard = threading.Lock()
        self._discovery: ServedKinds | None = None

    @property
    def name(self) -> str:
        return self._name

    def identity(self) -> str:
        """Return the uid of Namespace kube-system."""
        return self.get(NAMESPACES, "", "kube-system").uid

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        """Return the built-in kinds, and every other served kind with /scale."""
        return self._discovered().scale_kinds

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        """Return all objects of `resource`, sorted by namespace and name; a kind that is not served gives ().

        Raises:
            ForbiddenError, MalformedAnswerError: this kind cannot be read. ClusterError: the cluster cannot.
        """
        if resource.group and not self._serves(resource, namespace):  # the core group is always there
            return ()
        rows = self._listed(resource, self._list_request(resource, namespace, labels))
        return tuple(read for *_, read in sorted(rows, key=lambda row: row[:2]))

    def _serves(self, resource: Resource[Any], namespace: str) -> bool:
        """Return whether there is such a resource, in namespaces where one is given."""
        discovery = self._discovered()
        unreadable = discovery.unreadable.get((resource.group, resource.plural))
        if unreadable is not None:
            raise unreadable
        return discovery.serves(*resource.key) and (not namespace or discovery.is_namespaced(*resource.key))

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return one object as it is now; see `Cluster.get` for what it raises."""
        request = object_request(self._name, "get", resource.key, namespace, name)
        read: Any = answer_to(self._client, request, shape_of(resource))
        if self.on_read is not None:
            self.on_read(resource, [read])
        return model_object(resource, read, self._name, self._scale(resource.group, resource.kind))

    def now(self) -> datetime:
        """Return what time it is by the clock of the API server."""
        return self._client.now()

    def user(self) -> str:
        """Return whom the API server takes us for.

        Raises:
            ClusterError: it does not answer.
        """
        return own_user(self._client)

    def secret(self, namespace: str, name: str, key: str) -> str:
        """Return one value of a Secret; see `secret_value`."""
        request = object_request(self._name, "get", ("", "v1", "secrets"), namespace, name)
        found = answer_to(self._client, request, Secret)
        return secret_value(found, key, f"{self._name}/{namespace}/Secret/{name}")

    def write(self, write: Write) -> None:
        """Carry out `write`, whole or not at all; see `ObjectWrite.carry_out` for what it raises."""
        key = (write.ref.group, write.ref.kind)
        scale = self._scale(*key)
        plural = _PLURALS.get(key) or (scale.plural if scale is not None else self._plural(*key))
        object_write.ObjectWrite(self._client, write, plural, scale, self._account).carry_out()

    def writing_as(self, account: ServiceAccount) -> KubernetesCluster:
        """Return this cluster, where `write` impersonates `account`."""
        found = copy(self)
        found._account = account
        return found

    def forget_kinds(self) -> None:
        """Ask anew what it serves."""
        with self._guard:
            self._discovery = None

    def _discovered(self) -> ServedKinds:
        with self._guard:
            if self._discovery is None:
                self._discovery = discover(self._client, self._switches)
            return self._discovery

    def _scale(self, group: str, kind: str) -> WorkloadKind | None:
        kinds = BUILT_IN_SCALES if (group, kind) in _BUILT_IN else self._discovered().scale_kinds
        return next((found for found in kinds if (found.group, found.kind) == (group, kind)), None)

    def _plural(self, group: str, kind: str) -> str:
        served = self._discovered().served.values()
        found = next((resource.plural for resource in served if (resource.group, resource.kind) == (group, kind)), None)
        if found is None:
            raise NotFoundError(f"{self._name}: serves no {kind} of {group}, expected one; install what defines it")
        return found

    def _list_request(self, resource: Resource[Any], namespace: str, labels: str) -> ApiRequest:
        inside = "" if (resource.group, resource.kind) in _CLUSTER_WIDE else namespace
        query = {"labelSelector": labels} if labels else {}
        if (resource.group, resource.kind) == (EVENTS.group, EVENTS.kind):
            query["fieldSelector"] = f"reason={NEED_PODS}"
        accept = METADATA_ONLY if shape_of(resource) is Object else "application/json"
        return object_request(self._name, "list", resource.key, inside, query=query, accept=accept)

    def _listed(self, resource: Resource[T], request: ApiRequest) -> Iterable[tuple[str, str, T]]:
        """Return the items as (namespace, name, object)."""
        scale = self._scale(resource.group, resource.kind)
        keeps = self.on_read is not None

        def reduced(item: Any) -> tuple[tuple[str, str, T], Wire | None]:
            metadata = item.metadata
            made = model_object(resource, item, self._name, scale)
            return (metadata.namespace or "", metadata.name, made), item if keeps else None

        try:
            found, _ = listed(self._client, request, shape_of(resource), reduced, self._budget)
        except (NotFoundError, RefusedError) as error:
            raise MalformedAnswerError(f"{error}; the cluster says that it serves it") from error
        except UnreachableError as error:
            if (resource.group, resource.kind) in _BUILT_IN:
                raise
            # A custom resource can fail by itself, when its conversion webhook does.
            raise MalformedAnswerError(str(error)) from error
        if self.on_read is not None:
            self.on_read(resource, [item for _, item in found if item is not None])
        return [row for row, _ in found]
