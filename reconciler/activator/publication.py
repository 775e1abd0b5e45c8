"""What an activator writes for itself: its Lease, its EndpointSlices, and the end of those of activators that died."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.activator.objects import WatchedSlice
from reconciler.backends.decode.wire import Instant, Metadata, Wire
from reconciler.backends.http.client import HttpResponse
from reconciler.backends.kubernetes.client import ApiClient, ApiRequest, collection, one
from reconciler.backends.kubernetes.errors import Operation
from reconciler.backends.kubernetes.pages import ReadBudget, decoded, listed
from reconciler.errors import NotFoundError
from reconciler.model import ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL, MANAGED_BY_LABEL

LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
_RENEWAL_SECONDS = 5.0
"""How long one attempt to renew may take, so that the next one begins before the Lease expires."""

_LATE = timedelta(seconds=2)
"""A server tells its time in whole seconds."""

_SLICES = ("discovery.k8s.io", "v1", "endpointslices")
_LEASES = ("coordination.k8s.io", "v1", "leases")
_COMPONENT = {"app.kubernetes.io/managed-by": "reconciler", "app.kubernetes.io/component": "activator"}
_APPLY = "application/apply-patch+yaml"
_MANAGER = {"fieldManager": "reconciler-activator", "force": "true"}


class ActivatorPod(Struct, frozen=True):
    """The Pod of this process; `addresses` are its IPs, at most one of each family."""

    namespace: str
    name: str
    uid: str
    addresses: tuple[str, ...]


class _LeaseSpec(Wire):
    renew_time: Instant | None = None
    lease_duration_seconds: int | None = None


class _Lease(Wire):
    metadata: Metadata
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class Publication:
    """Writes through `client` to the cluster called `cluster`, on behalf of `pod`; any thread may call it.

    All Leases are written, and judged, by the time of the API server: no two machines' clocks are compared.
    """

    def __init__(self, client: ApiClient, cluster: str, pod: ActivatorPod) -> None:
        self._client = client
        self._cluster = cluster
        self._pod = pod
        self._offset = timedelta()

    def renew(self) -> None:
        """Write the Lease anew. Without a fresh one, the others remove our slices."""
        answer = self._apply(_LEASES, self._pod.namespace, self._lease_manifest(), _RENEWAL_SECONDS)
        drift = timedelta() if answer.date is None else answer.date - datetime.now(UTC) - self._offset
        if abs(drift) > _LATE:
            self._offset += drift
            self._apply(_LEASES, self._pod.namespace, self._lease_manifest(), _RENEWAL_SECONDS)

    def _lease_manifest(self) -> Mapping[str, Any]:
        at = datetime.now(UTC) + self._offset
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._lease, "labels": {**_COMPONENT, ACTIVATOR_POD_LABEL: self._pod.uid}},
            "spec": {
                "holderIdentity": self._pod.name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Write one of our slices, whatever is there of that name."""
        self._apply(_SLICES, manifest["metadata"]["namespace"], manifest)

    def withdraw(self, namespace: str, name: str) -> None:
        """Delete one of our slices; nothing happens where it is gone."""
        self._delete(_SLICES, namespace, name)

    def withdraw_all(self, uid: str) -> int:
        """Delete all slices of the activator whose Pod has `uid`; return how many there were."""
        labels = f"{MANAGED_BY_LABEL}={ACTIVATOR_MANAGER},{ACTIVATOR_POD_LABEL}={uid}"
        operation = Operation(self._cluster, "list", "endpointslices.discovery.k8s.io")
        request = ApiRequest("GET", collection(*_SLICES), operation, query={"labelSelector": labels})
        found = listed(self._client, request, WatchedSlice, lambda one: one, ReadBudget())
        for item in found:
            self.withdraw(item.service[0], item.metadata.name)
        return len(found)

    def end(self) -> None:
        """Delete all our slices, then the Lease."""
        self.withdraw_all(self._pod.uid)
        self._delete(_LEASES, self._pod.namespace, self._lease)

    def withdraw_dead(self, uids: Collection[str]) -> frozenset[str]:
        """Delete the slices of those of `uids` that have no fresh Lease, and their Leases; return who they were."""
        others = set(uids) - {self._pod.uid}
        leases, now = self._leases()
        alive = {uid for uid, (_, at) in leases.items() if now - at <= timedelta(seconds=LEASE_SECONDS) + _LATE}
        dead = frozenset((others | leases.keys()) - alive - {self._pod.uid})
        for uid in dead:
            self.withdraw_all(uid)
            if uid in leases:
                self._delete(_LEASES, self._pod.namespace, leases[uid][0])
        return dead

    def _leases(self) -> tuple[dict[str, tuple[str, datetime]], datetime]:
        """Return name and time of each activator's Lease by the uid of its Pod, and the server's time."""
        operation = Operation(self._cluster, "list", "leases.coordination.k8s.io", self._pod.namespace)
        labels = ",".join(f"{key}={value}" for key, value in _COMPONENT.items())
        path = collection(*_LEASES, self._pod.namespace)
        answer = self._client.send(ApiRequest("GET", path, operation, query={"labelSelector": labels}))
        found = decoded(answer, _LeaseList, operation).items or []
        long_ago = datetime(1970, 1, 1, tzinfo=UTC)
        times = {
            uid: (
                one.metadata.name,
                long_ago if one.spec.renew_time is None else one.spec.renew_time.as_datetime(),
            )
            for one in found
            if (uid := (one.metadata.labels or {}).get(ACTIVATOR_POD_LABEL))
        }
        return times, answer.date or datetime.now(UTC) + self._offset

    @property
    def _lease(self) -> str:
        return f"reconciler-activator-{self._pod.name}"[:253]

    def _apply(
        self, resource: tuple[str, str, str], namespace: str, manifest: Mapping[str, Any], seconds: float | None = None
    ) -> HttpResponse:
        return self._client.send(
            ApiRequest(
                "PATCH",
                one(*resource, namespace, manifest["metadata"]["name"]),
                self._operation("patch", resource, namespace, manifest["metadata"]["name"]),
                query=_MANAGER,
                body=msgspec.json.encode(manifest),
                content_type=_APPLY,
                writes=True,
                seconds=seconds,
            )
        )

    def _delete(self, resource: tuple[str, str, str], namespace: str, name: str) -> None:
        operation = self._operation("delete", resource, namespace, name)
        try:
            self._client.send(ApiRequest("DELETE", one(*resource, namespace, name), operation, writes=True))
        except NotFoundError:
            return  # it went with its Service, or another replica was faster

    def _operation(self, verb: str, resource: tuple[str, str, str], namespace: str, name: str) -> Operation:
        return Operation(self._cluster, verb, f"{resource[2]}.{resource[0]}", namespace, name)


class _LeaseList(Wire):
    items: list[_Lease] | None = None
