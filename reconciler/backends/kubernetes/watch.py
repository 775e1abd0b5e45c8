"""All objects of one resource as they are and as they change: a list, then a watch, again and again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, field

from reconciler.backends.decode.values import Wire, decoded_json
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.errors import NOT_JSON
from reconciler.backends.kubernetes.pages import decoded, listed
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation, object_request
from reconciler.backends.kubernetes.request_limits import ReadBudget
from reconciler.errors import (
    ForbiddenError,
    GoneError,
    MalformedAnswerError,
    ThrottledError,
    UnauthorisedError,
    UnreachableError,
    reason_of,
)
from reconciler.redaction import without_credentials
from reconciler.time_limit import TimeLimit

_WATCH_SECONDS = 30
"""How long one watch lasts. A connection that was cut without a word is noticed soon after."""

_LATE_SECONDS = 10
_AT_ONCE_SECONDS = 1.0
"""A watch that ends sooner is not begun anew at once: some proxies cut each one."""

_LONGEST_PAUSE = 15.0

_PASSES = (UnreachableError, ThrottledError, UnauthorisedError, ForbiddenError)
"""After these a watch goes on from where it was. Only a server that no longer knows that place is asked for all."""

W = TypeVar("W", bound=Wire)


class WatchedResource(Struct, Generic[W], frozen=True):
    """A resource in all namespaces, and the `shape` of one object; `labels` is a selector as kubectl takes it."""

    group: str
    version: str
    plural: str
    shape: type[W]
    labels: str = ""

    def request(self, cluster: str, query: Mapping[str, str]) -> ApiRequest:
        """Return what asks for a page of them, or watches them."""
        verb, key = "watch" if "watch" in query else "list", (self.group, self.version, self.plural)
        selected = {"labelSelector": self.labels} if self.labels else {}
        return object_request(cluster, verb, key, query={**selected, **query})


class WatchHandlers(Struct, Generic[W], frozen=True):
    """Called with all objects that could be read, and then with each that changed; the name is (namespace, name).

    `changed` gets None for one that is gone. `failed` gets why nothing can be read, `""` once it can again.
    """

    replaced: Callable[[list[W]], None]
    changed: Callable[[tuple[str, str], W | None], None]
    failed: Callable[[str], None]


class _WatchEvent(Wire):
    type: str
    object: msgspec.Raw


class _EventMetadata(Wire):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Reference(Wire):
    """What every object of an event has; a Status, which an ERROR has, has a code."""

    metadata: _EventMetadata = field(default_factory=_EventMetadata)
    code: int = 0
    message: str = ""


class Watch(Generic[W]):
    """Follows one resource of a cluster until it is asked to stop; one object that cannot be read is left out."""

    def __init__(self, resource: WatchedResource[W], client: ApiClient, handlers: WatchHandlers[W]) -> None:
        self._resource = resource
        self._client = client
        self._handlers = handlers
        self._version = ""

    def follow(self, limit: TimeLimit) -> None:
        """Return when `limit` is over. Whatever fails, or ends at once, is tried again, after pauses that grow."""
        pause = 0.0
        while not limit.over:
            if self._lasted(limit):
                pause = 0.0
                continue
            pause = min(_LONGEST_PAUSE, max(0.5, 2 * pause))
            limit.sleep(pause * random.uniform(0.5, 1.0))

    def _lasted(self, limit: TimeLimit) -> bool:
        """List, where that is needed, and watch once; return whether that went on for a while, and did not fail."""
        began = limit.now()
        try:
            if not self._version:
                self._list()
                began = limit.now()
            self._watch()
        except GoneError:
            self._version = ""
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
            self._handlers.failed(reason_of(error))
            if not isinstance(error, _PASSES):
                self._version = ""
            return False
        return limit.now() - began >= _AT_ONCE_SECONDS

    def _list(self) -> None:
        request = self._resource.request(self._client.cluster, {})
        # What is too large is not absent: nothing is replaced then, and all is listed again.
        found, self._version = listed(self._client, request, msgspec.Raw, self._read, ReadBudget())
        self._handlers.replaced([read for read in found if read is not None])

    def _watch(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        request = self._resource.request(self._client.cluster, query)
        with self._client.watched(request, _WATCH_SECONDS + _LATE_SECONDS) as lines:
            self._handlers.failed("")
            for event, about in self._events(lines, request.operation):
                self._version = about.metadata.resource_version or self._version
                if event.type == "BOOKMARK":
                    continue
                name = (about.metadata.namespace, about.metadata.name)
                self._handlers.changed(name, None if event.type == "DELETED" else self._read(event.object))

    def _events(self, lines: Iterator[bytes], operation: Operation) -> Iterator[tuple[_WatchEvent, _Reference]]:
        for line in lines:
            if not line.strip():
                continue
            event = decoded(line, _WatchEvent, operation)
            about = decoded(bytes(event.object), _Reference, operation)
            if event.type == "ERROR":
                kind = GoneError if about.code == 410 else MalformedAnswerError
                words = without_credentials(about.message) or "an error without words"
                raise kind(f"{operation}: {words}, expected changes")
            yield event, about

    def _read(self, raw: msgspec.Raw) -> W | None:
        try:
            return decoded_json(self._resource.shape, raw)
        except NOT_JSON:
            return None
