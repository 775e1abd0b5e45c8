"""`Lock` as one Lease in a cluster: renewed while it is held, taken over from a holder that died."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Unpack

import msgspec

from reconciler.backends.decode.shapes import LeaseSpec
from reconciler.backends.decode.values import Wire, micro_time
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import decoded
from reconciler.backends.kubernetes.request_form import JSON_PATCH, ApiRequest, RequestFields, object_request
from reconciler.backends.protocols import LEASES
from reconciler.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    InvalidError,
    LockHeldError,
    NotFoundError,
    ThrottledError,
    UnreachableError,
)
from reconciler.http.client import HttpResponse
from reconciler.model import OUR_LABELS
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import started

NAME = "reconciler"

# As in the leader election of Kubernetes: how long a Lease holds without being renewed, how long after a renewal its
# holder may still rely on it, and the pause between two tries to take it, or to renew it after one that failed.
LEASE_DURATION = 15
_RENEW_DEADLINE = 10
"""A renewal that fails takes three seconds at most (`ApiClient`), so that two more can be tried in what is left: one
finds out that it was done all the same, the next one renews.
"""
_RETRY_PERIOD = 0.5
_RENEW_PERIOD = LEASE_DURATION / 3

_LONGEST_DURATION = 25
"""A Lease is waited for at most so long, whatever it says: an apply waits 30 s for a lock, so a longer one that nobody
renews would keep every run away. Nor less than ours, since its holder may be a run.
"""

_CLOCK_SKEW = 60
"""By so much the clocks of API servers and holders may differ: what they say counts only beyond."""

_ANOTHER = "another holder"


class _LockMetadata(Wire):
    resource_version: str


class LockManifest(Wire):
    """The Lease that is the lock. Source: kubernetes/api coordination/v1 types.go."""

    metadata: _LockMetadata
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)

    @property
    def seconds(self) -> int:
        """Return how long it holds without being renewed."""
        return min(max(self.spec.lease_duration_seconds or LEASE_DURATION, LEASE_DURATION), _LONGEST_DURATION)


class LeaseLock:
    """The Lease `reconciler` in `namespace`.

    One that is not renewed any more is free once nobody has touched it for as long as it holds, measured here: no two
    clocks are compared. Only what ran out long ago is free at once, by the time of the API server (its Date header).
    How long ours still holds is measured here too, by a clock that runs on while the process is stopped. While it is
    held, `client` sends writes only as long as it is.
    """

    def __init__(self, client: ApiClient, namespace: str, holder: str) -> None:
        self._client = client
        self._namespace = namespace
        self._holder = holder
        self._guard = threading.Lock()
        self._sure_until = 0.0
        self._version = ""
        self._acquired_at = ""  # as we last wrote it, to know a lease of ours by where no answer came
        self._seen = ""  # the version that somebody else holds, and since when we know it
        self._seen_at = 0.0
        self._looked_at = ""  # the version that nobody held when the cluster was begun to be read
        self._is_undisturbed = False
        self._done = threading.Event()
        self._renewing: threading.Thread | None = None

    def look(self) -> None:
        """Note the version of the Lease, where it was given back: whoever takes it makes another one."""
        if self.held():
            return
        self._looked_at = ""
        with suppress(ClusterError):  # whoever takes it says why it cannot be read
            lease = self._lease(self._ask("get"), "get")
            self._looked_at = "" if lease.spec.holder_identity else lease.metadata.resource_version

    def acquire(self, limit: TimeLimit) -> bool:
        """Take the lease, at least try once; nothing happens when it is ours already; see `Lock.acquire`.

        Raises:
            LockHeldError: somebody else held it all that time. ThrottledError: the server was busy at its end.
            ClusterError: it cannot be read or written.
        """
        while not self.held():
            try:
                holder = self._try()
            except ThrottledError:
                if limit.over:
                    raise
                limit.sleep(_RETRY_PERIOD)
                continue
            if not holder:
                self._begin()
                return self._is_undisturbed
            if limit.over:
                raise LockHeldError(
                    f"{self._client.cluster}: Lease {self._namespace}/{NAME} is held by {holder}, expected it free; "
                    "try again later"
                )
            limit.sleep(_RETRY_PERIOD)
        return self._is_undisturbed

    def held(self) -> bool:
        """Return whether it is still ours, surely: nobody else can have taken it yet."""
        with self._guard:
            return self._client.limit.now() < self._sure_until

    def release(self) -> None:
        """Give it back; nothing happens when it is not ours."""
        if self._renewing is None:
            return
        self._done.set()
        self._renewing.join()
        self._renewing = None
        held = self.held()
        self._lose()
        self._client.turns.fence = None
        if held:
            with suppress(ClusterError):  # one that cannot be given back runs out by itself
                self._change(self._version, {"holderIdentity": "", "leaseDurationSeconds": 1}, last=True)

    def _begin(self) -> None:
        self._done.clear()
        self._client.turns.fence = self.held
        renewing = threading.Thread(target=self._renew, name=f"lease of {self._client.cluster}", daemon=True)
        if not started(renewing):
            self._lose()
            raise UnreachableError(
                f"{self._client.cluster}: no thread is left to renew its lock, expected one; run it again"
            )
        self._renewing = renewing

    def _renew(self) -> None:
        """Runs beside the writing until the lock is given back or lost."""
        pause = _RENEW_PERIOD
        while not self._done.wait(pause):
            if not self.held():
                return
            pause = _RETRY_PERIOD
            try:
                self._hold(self._version, {})
                pause = _RENEW_PERIOD
            except (ConflictError, InvalidError, NotFoundError):
                if not self._is_still_ours():
                    self._lose()
                    return
            except ClusterError:
                continue  # as long as it is surely ours we try again

    def _is_still_ours(self) -> bool:
        """Look who has it after a renewal that did not fit; one whose answer was lost may have been done."""
        try:
            lease = self._lease(self._ask("get"), "get")
        except NotFoundError:
            return False
        except ClusterError:  # nobody knows
            return True
        if lease.spec.holder_identity != self._holder:
            return False
        with self._guard:
            self._version = lease.metadata.resource_version
        return self.held()

    def _lose(self) -> None:
        with self._guard:
            self._sure_until = 0.0

    def _try(self) -> str:
        """Try to take it once; return who has it, "" where we do."""
        began = self._client.limit.now()
        try:
            answer = self._ask("get")
        except NotFoundError:
            self._create()
            answer = self._ask("get")
        lease = self._lease(answer, "get")
        is_ours = lease.spec.holder_identity == self._holder and lease.spec.acquire_time == self._acquired_at
        if not is_ours and not self._is_free(lease, began):
            return lease.spec.holder_identity or _ANOTHER
        try:
            self._hold(lease.metadata.resource_version, {} if is_ours else self._taking(lease.spec))
        except (ConflictError, InvalidError, NotFoundError):
            return _ANOTHER
        self._is_undisturbed = lease.metadata.resource_version == self._looked_at
        return ""

    def _is_free(self, lease: LockManifest, began: float) -> bool:
        """Return whether nobody holds it: given back, or not renewed for longer than it holds; it was read after
        `began`.
        """
        spec = lease.spec
        if not spec.holder_identity or spec.renew_time is None:
            return True
        if self._seen != lease.metadata.resource_version:
            self._seen, self._seen_at = lease.metadata.resource_version, self._client.limit.now()
        age = self._client.now().timestamp() - spec.renew_time / 1e9
        return began - self._seen_at > lease.seconds or age > lease.seconds + _CLOCK_SKEW

    def _taking(self, free: LeaseSpec) -> dict[str, Any]:
        self._acquired_at = micro_time(self._client.now())
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": LEASE_DURATION,
            "acquireTime": self._acquired_at,
            "leaseTransitions": (free.lease_transitions or 0) + 1,
        }

    def _create(self) -> None:
        """Create a Lease that nobody holds, to be taken like any other: only an answer has the server's time."""
        manifest = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": NAME, "namespace": self._namespace, "labels": OUR_LABELS},
            "spec": {"leaseTransitions": 0},
        }
        try:
            self._ask("create", manifest)
        except AlreadyExistsError:
            return  # somebody made it a moment before
        except NotFoundError as error:
            raise NotFoundError(
                f'{self._client.cluster}: there is no namespace "{self._namespace}", expected it for the lock; '
                f"create it: kubectl create namespace {self._namespace}"
            ) from error

    def _hold(self, version: str, changes: dict[str, Any]) -> None:
        """Write a new renewTime, and `changes`; how long it is ours counts from before the request."""
        began = self._client.limit.now()
        answer = self._change(version, {**changes, "renewTime": micro_time(self._client.now())})
        lease = self._lease(answer, "patch")
        with self._guard:
            self._version = lease.metadata.resource_version
            self._sure_until = began + _RENEW_DEADLINE

    def _change(self, version: str, changes: dict[str, Any], *, last: bool = False) -> HttpResponse:
        """Write fields of the spec, where the Lease is still of that version; `last`: the run ends with it."""
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            *({"op": "add", "path": f"/spec/{key}", "value": value} for key, value in changes.items()),
        ]
        return self._ask("patch", patch, content_type=JSON_PATCH, when="at the end" if last else "at once")

    def _ask(self, verb: str, manifest: Any = None, **how: Unpack[RequestFields]) -> HttpResponse:
        if manifest is not None:
            how["body"] = msgspec.json.encode(manifest)
        return self._client.send(self._request(verb, **how))

    def _request(self, verb: str, **how: Unpack[RequestFields]) -> ApiRequest:
        how.setdefault("when", "at once")
        return object_request(self._client.cluster, verb, LEASES.key, self._namespace, NAME, **how)

    def _lease(self, answer: HttpResponse, verb: str) -> LockManifest:
        return decoded(answer.body, LockManifest, self._request(verb).operation)
