"""Checks of one cluster before anything runs on it: its API server, its clock, our rights, who holds its lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.decode.shapes import LeaseSpec
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster_lock import NAME, LockManifest
from reconciler.backends.kubernetes.pages import answer_to, decoded
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation, object_request
from reconciler.backends.kubernetes.rights import Right, is_allowed, own_user
from reconciler.backends.kubernetes.tokens import TokenClaims, claims_of
from reconciler.backends.protocols import LEASES
from reconciler.errors import NotFoundError
from reconciler.model import ServiceAccount
from reconciler.worker_pool import WorkerPool

_AT_ONCE = 8
_HALF_A_SECOND = timedelta(seconds=0.5)  # a Date has whole seconds, cut off


class _ServerVersion(msgspec.Struct, rename="camel"):
    git_version: str = ""


class Server(Struct, frozen=True):
    """`ahead` is how far its clock is before ours, None where it does not say its time."""

    version: str
    ahead: timedelta | None


class Preflight:
    """Asks an API server about itself and about us; it changes nothing."""

    def __init__(self, client: ApiClient, connection: ApiServerConnection) -> None:
        self._client = client
        self.connection = connection

    def server(self) -> Server:
        """Return what the server says of itself.

        Raises:
            ClusterError: it says nothing.
        """
        operation = Operation(self._client.cluster, "get", "/version")
        began = datetime.now(UTC)
        answer = self._client.send(ApiRequest("GET", "/version", operation))
        middle = began + (datetime.now(UTC) - began) / 2
        ahead = None if answer.date is None else answer.date - (middle - _HALF_A_SECOND)
        return Server(decoded(answer.body, _ServerVersion, operation).git_version, ahead)

    def token(self) -> TokenClaims | None:
        """Return what the token in the kubeconfig says of itself; None where it has none, or one without an end.

        Raises:
            ClusterError: the kubeconfig cannot be used.
        """
        return claims_of(self.connection.access(self._client.limit).token)

    def serves(self, group: str) -> bool:
        """Return whether the cluster has this API group.

        Raises:
            ClusterError: it does not say.
        """
        operation = Operation(self._client.cluster, "get", f"/apis/{group}")
        try:
            self._client.send(ApiRequest("GET", f"/apis/{group}", operation))
        except NotFoundError:
            return False
        return True

    def impersonated(self, account: ServiceAccount) -> str:
        """Return whom the server takes us for where we impersonate `account`.

        Raises:
            ForbiddenError: we may not. ClusterError: it does not say.
        """
        return own_user(self._client, account)

    def missing(
        self, asked: Sequence[tuple[Right, str]], account: ServiceAccount | None = None
    ) -> list[tuple[Right, str]]:
        """Return those of `asked`, rights each in a namespace or in all (""), that we, or `account`, do not have.

        Raises:
            ClusterError: the server does not say.
        """

        def may(right: tuple[Right, str]) -> bool:
            return is_allowed(self._client, *right, account)

        allowed = WorkerPool(_AT_ONCE).each(self._client.cluster, may, asked, _AT_ONCE)
        return [right for right, may in zip(asked, allowed, strict=True) if not may]

    def lock(self, namespace: str) -> LeaseSpec:
        """Return what our Lease in `namespace` says; without a holder nobody has it.

        Raises:
            ClusterError: it cannot be read.
        """
        request = object_request(self._client.cluster, "get", LEASES.key, namespace, NAME)
        try:
            return answer_to(self._client, request, LockManifest).spec
        except NotFoundError:
            return LeaseSpec()
