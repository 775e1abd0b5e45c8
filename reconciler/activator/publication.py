"""What an activator writes about itself: its Lease, its EndpointSlices, and the removal of those of dead activators."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

import msgspec

from reconciler.activator.activation import Activation
from reconciler.activator.activation_context import ActivatorPod
from reconciler.activator.background import BackgroundTasks
from reconciler.activator.objects import WatchedSlice
from reconciler.backends.decode.objects import model_object, shape_of
from reconciler.backends.decode.values import micro_time
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import listed
from reconciler.backends.kubernetes.request_form import APPLY_PATCH, ApiRequest, When, object_request
from reconciler.backends.kubernetes.request_limits import ReadBudget
from reconciler.backends.protocols import ACTIVATOR_SELECTOR, ENDPOINT_SLICES, LEASES, Resource
from reconciler.errors import NotFoundError
from reconciler.model import (
    ACTIVATOR_FRESH_FOR,
    ACTIVATOR_LABELS,
    ACTIVATOR_LEASE_SECONDS,
    ACTIVATOR_MANAGER,
    ACTIVATOR_POD_LABEL,
    MANAGED_BY_LABEL,
    SERVER_TIME_STEP,
    Lease,
)
from reconciler.worker_pool import WorkerPool

RENEW_SECONDS = 5.0

_JUDGES_AFTER = ACTIVATOR_FRESH_FOR.total_seconds()
"""For how many seconds our own Lease is fresh before we judge those of others: an outage makes all of them old."""

_DELETIONS = 16
"""How many slices are deleted at a time."""

_MANAGER = {"fieldManager": "reconciler-activator", "force": "true"}


class Publication:
    """Writes through `client`, on behalf of `pod`; any thread may call it.

    All Leases are written, and judged, by the time of the API server: no two machines' clocks are compared.
    """

    def __init__(self, client: ApiClient, pod: ActivatorPod) -> None:
        self._client = client
        self.pod = pod
        self._renewed_at, self._fresh_since = -inf, inf

    def renew(self) -> None:
        """Write the Lease anew. Without a fresh one, the others remove our slices."""
        began = self._client.limit.now()
        ahead = self._client.ahead
        self._write_lease(self._client.now())
        if abs(self._client.ahead - ahead) > SERVER_TIME_STEP:
            self._write_lease(self._client.now())
        if began - self._renewed_at > ACTIVATOR_LEASE_SECONDS:
            self._fresh_since = began
        self._renewed_at = began

    @property
    def is_fresh(self) -> bool:
        """Whether the others know by our Lease that we live."""
        return self._client.limit.now() - self._renewed_at <= ACTIVATOR_LEASE_SECONDS

    @property
    def may_judge(self) -> bool:
        """Whether our Lease has been fresh for so long that theirs could be."""
        return self.is_fresh and self._client.limit.now() - self._fresh_since >= _JUDGES_AFTER

    def expire(self) -> None:
        """Write the Lease as one that is not renewed any more: from now on whoever looks deletes our slices."""
        self._write_lease(datetime.fromtimestamp(0, UTC))

    def _write_lease(self, renewed_at: datetime) -> None:
        manifest = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._lease, "labels": {**ACTIVATOR_LABELS, ACTIVATOR_POD_LABEL: self.pod.uid}},
            "spec": {
                "holderIdentity": self.pod.name,
                "leaseDurationSeconds": ACTIVATOR_LEASE_SECONDS,
                "renewTime": micro_time(renewed_at),
            },
        }
        self._apply(LEASES, self.pod.namespace, manifest, "at once")

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Write one of our slices, whatever is there of that name."""
        self._apply(ENDPOINT_SLICES, manifest["metadata"]["namespace"], manifest)

    def withdraw(self, namespace: str, name: str) -> None:
        """Delete one of our slices; nothing happens where it is gone."""
        self._delete(ENDPOINT_SLICES, namespace, name)

    def withdraw_all(self, uid: str) -> int:
        """Delete all slices of the activator whose Pod has `uid`, several at a time; return how many there were.

        Raises:
            ClusterError: one could not be deleted; all were tried.
        """
        labels = f"{MANAGED_BY_LABEL}={ACTIVATOR_MANAGER},{ACTIVATOR_POD_LABEL}={uid}"
        found, _ = listed(
            self._client, self._list(ENDPOINT_SLICES, labels), WatchedSlice, lambda item: item, ReadBudget()
        )

        def withdraw(item: WatchedSlice) -> None:
            self.withdraw(item.service[0], item.metadata.name)

        for failure in filter(None, WorkerPool().failures(self._client.cluster, withdraw, found, _DELETIONS)):
            raise failure
        return len(found)

    def end(self) -> None:
        """Delete all our slices, then the Lease, which is one of the dead by then: see `expire`."""
        self.withdraw_all(self.pod.uid)
        self._delete(LEASES, self.pod.namespace, self._lease)

    def withdraw_dead(self, uids: Collection[str]) -> frozenset[str]:
        """Delete the slices of those of `uids` that have no fresh Lease, and their Leases; return who they were.

        Raises:
            ClusterError: one could not be deleted; all were tried.
        """
        others = set(uids) - {self.pod.uid}
        leases = self._leases()
        now = self._client.now()
        alive = {uid for uid, lease in leases.items() if lease.is_fresh(now)}
        dead = frozenset((others | leases.keys()) - alive - {self.pod.uid})

        def remove(uid: str) -> None:
            self.withdraw_all(uid)
            if uid in leases:
                self._delete(LEASES, self.pod.namespace, leases[uid].ref.name)

        for failure in filter(None, WorkerPool(0).failures(self._client.cluster, remove, sorted(dead), 1)):
            raise failure
        return dead

    def _leases(self) -> Mapping[str, Lease]:
        """Return each activator's Lease by the uid of its Pod."""
        request = self._list(LEASES, ACTIVATOR_SELECTOR, self.pod.namespace)
        lease_of = partial(model_object, LEASES, cluster=self._client.cluster)
        found, _ = listed(self._client, request, shape_of(LEASES), lease_of, ReadBudget())
        return {lease.activator: lease for lease in found if lease.activator}

    @property
    def _lease(self) -> str:
        return f"reconciler-activator-{self.pod.name}"[:253]

    def _apply(
        self, resource: Resource[Any], namespace: str, manifest: Mapping[str, Any], when: When = "in turn"
    ) -> None:
        request = object_request(
            self._client.cluster,
            "patch",
            resource.key,
            namespace,
            manifest["metadata"]["name"],
            query=_MANAGER,
            body=msgspec.json.encode(manifest),
            content_type=APPLY_PATCH,
            writes=True,
            when=when,
        )
        self._client.send(request)

    def _delete(self, resource: Resource[Any], namespace: str, name: str) -> None:
        request = object_request(self._client.cluster, "delete", resource.key, namespace, name, writes=True)
        with suppress(NotFoundError):  # it went with its Service, or another replica was faster
            self._client.send(request)

    def _list(self, resource: Resource[Any], labels: str, namespace: str = "") -> ApiRequest:
        return object_request(self._client.cluster, "list", resource.key, namespace, query={"labelSelector": labels})


@dataclass(eq=False)
class SlicePublisher:
    """Writes through `publication`, in `threads`; what fails is reported by `tasks`, and tried again."""

    publication: Publication
    tasks: BackgroundTasks
    threads: Executor

    def publish(self, activation: Activation) -> None:
        """Write what the slices of `activation` lack, soon."""
        if self._lacking(activation) is not None:
            about, publish = ("slices", activation.name), partial(self._publish, activation)
            self.tasks.start(about, partial(self.tasks.until_done, about, publish))

    def _lacking(self, activation: Activation) -> dict[str, Mapping[str, Any]] | None:
        """Return the slices that are to be there in place of those that are, None where nothing is to be done now.

        What one without a fresh Lease publishes, the others delete again and again.
        """
        wanted = activation.manifests()
        is_done = wanted == activation.published or self.tasks.is_ending
        return None if is_done or (wanted and not self.publication.is_fresh) else wanted

    def withdraw(self, namespace: str, name: str) -> None:
        """Delete a slice of ours that no activation knows, soon."""
        withdraw = partial(self.publication.withdraw, namespace, name)
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self.threads, withdraw)
        self.tasks.start(("stray", namespace, name), in_thread)

    async def _publish(self, activation: Activation) -> None:
        """Write and delete slices until they are as they should be."""
        while (wanted := self._lacking(activation)) is not None:
            published = activation.published
            published.update({name: {} for name in wanted if name not in published})
            write = partial(self._write, activation.name[0], wanted, tuple(published))
            await asyncio.get_running_loop().run_in_executor(self.threads, write)
            # What another activator deleted meanwhile may have been written before that: it is to be written again.
            activation.published = {name: made for name, made in wanted.items() if name in activation.published}
            if not wanted:
                activation.withdrawn()

    def _write(self, namespace: str, wanted: dict[str, Any], published: tuple[str, ...]) -> None:
        for manifest in wanted.values():
            self.publication.publish(manifest)
        for name in published:
            if name not in wanted:
                self.publication.withdraw(namespace, name)
