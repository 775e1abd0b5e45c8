"""Lists in pages, decoded to the few fields that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from reconciler.backends.decode.values import decoded_json
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.errors import NOT_JSON
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.kubernetes.request_limits import PAGE, ReadBudget
from reconciler.errors import AnswerTooLargeError, GoneError, MalformedAnswerError
from reconciler.http.client import HttpResponse
from reconciler.redaction import without_credentials
from reconciler.worker_pool import in_thread

T = TypeVar("T")
W = TypeVar("W", bound=msgspec.Struct | msgspec.Raw | dict[str, Any])

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""The `accept` of lists where only metadata is read: the server leaves out the rest."""

_ATTEMPTS = 3
_MOST_BEFORE_ITEMS = 4096


class _PageMetadata(msgspec.Struct):
    next: str | None = msgspec.field(default=None, name="continue")
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _PageHead(msgspec.Struct):
    metadata: _PageMetadata | None = None


class _Page(msgspec.Struct, Generic[W]):
    """Every list has items: what has none is no list, and not an empty one."""

    items: list[W] | None
    metadata: _PageMetadata = msgspec.field(default_factory=_PageMetadata)


def listed(
    client: ApiClient, request: ApiRequest, shape: type[W], reduced: Callable[[W], T], budget: ReadBudget
) -> tuple[list[T], str]:
    """Return all items of a list as they were at one moment, each as `reduced` makes it, and the version of the list,
    from which on its changes can be watched.

    The list begins again where the server no longer keeps that moment (410).

    Raises:
        ClusterError: a page could not be read, or is none, or there are more than `budget` has left.
    """
    for attempt in range(_ATTEMPTS):
        found: list[T] = []
        version = ""
        try:
            for page in _pages(client, request, shape, budget):
                found += map(reduced, page.items or ())
                version = page.metadata.resource_version
        except GoneError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return found, version
    raise AssertionError("the last attempt returns or raises")


class _PageRequests:
    """Asks for one page after another. One that is too large is asked for again with half as many items, and so are
    those after it: large objects of one namespace keep nobody from reading the others. What other lists needed does not
    count: large objects of one kind keep nobody from reading others. After pages that fitted the next one is twice as
    large: as soon as one has, and after twice as many each time that this was too large at once, as what does not fit
    is read for nothing. No API server has a single object that is too large: etcd keeps 1.5 MiB of one.
    """

    def __init__(self, client: ApiClient, request: ApiRequest, budget: ReadBudget) -> None:
        self._client = client
        self._request = request
        self._budget = budget
        self._begun = {""}
        self._asked = PAGE
        self.items = PAGE
        self._fitted = 0  # pages of this size
        self._enough = 1  # so many have to fit before a larger one is asked for
        self._has_grown = False

    def begin(self, token: str) -> Future[HttpResponse]:
        """Ask for the page that begins at `token` in a thread, once for each and where `budget` has one left."""
        operation = self._request.operation
        if token in self._begun:
            raise MalformedAnswerError(f"{operation}: goes on where it was already, expected another page")
        self._begun.add(token)
        self._budget.take_page(operation, self._asked, self.items)
        self._asked += self.items
        return in_thread(partial(self.send, token), "next page")

    def send(self, token: str) -> HttpResponse:
        """Return the page that begins at `token`.

        Raises:
            ClusterError: it could not be read, or nobody waits for it any more.
        """
        while True:
            self._client.turns.check_reading(self._request.operation)
            query = {**self._request.query, "limit": str(self.items)} | ({"continue": token} if token else {})
            try:
                answer = self._client.send(replace(self._request, query=query))
            except AnswerTooLargeError:
                if self.items == 1:
                    raise
                self._shrink()
            else:
                self._grow()
                return answer

    def _shrink(self) -> None:
        if self._has_grown and not self._fitted:
            self._enough *= 2
        self.items, self._fitted, self._has_grown = self.items // 2, 0, False

    def _grow(self) -> None:
        self._fitted += 1
        if self._fitted >= self._enough and self.items < PAGE:
            self.items, self._fitted, self._has_grown = min(PAGE, 2 * self.items), 0, True


def _pages(client: ApiClient, request: ApiRequest, shape: type[W], budget: ReadBudget) -> Iterator[_Page[W]]:
    """Yield page by page; while one is decoded and worked on, the server already makes the next one."""
    page_of: Any = _Page[shape]  # type: ignore[valid-type]
    pages = _PageRequests(client, request, budget)
    answer = pages.send("")
    while True:
        page: _Page[W] | None = None
        if (metadata := _metadata_before_items(answer.body)) is None:  # lists of custom resources have theirs last
            page = decoded(answer.body, page_of, request.operation)
            metadata = page.metadata
        following = pages.begin(metadata.next) if metadata.next else None
        yield page or decoded(answer.body, page_of, request.operation)
        if following is None:
            return
        answer = following.result()


def _metadata_before_items(body: bytes | bytearray) -> _PageMetadata | None:
    """Return what a page says of itself where that stands first, as API servers write it; None where it does not."""
    before, items, _ = body[:_MOST_BEFORE_ITEMS].partition(b'"items"')
    try:
        return decoded_json(_PageHead, before.rstrip(b", \n") + b"}").metadata if items else None
    except msgspec.DecodeError:  # what is wrong is said once all of it is decoded
        return None


def answer_to(client: ApiClient, request: ApiRequest, shape: type[W]) -> W:
    """Return the answer to `request` as `shape`.

    Raises:
        ClusterError: there is none, or it is not of that shape.
    """
    return decoded(client.send(request).body, shape, request.operation)


def decoded(body: bytes | bytearray, shape: type[W], operation: Operation) -> W:
    """Return the body of an answer, or a part of it such as an event of a watch, as `shape`.

    Raises:
        MalformedAnswerError: it is not of that shape; the message says where.
    """
    try:
        return decoded_json(shape, body)
    except msgspec.ValidationError as error:
        raise MalformedAnswerError(
            f"{operation}: the answer is malformed ({without_credentials(str(error))}), expected the API's form"
        ) from error
    except NOT_JSON as error:
        raise MalformedAnswerError(f"{operation}: the answer is not JSON ({error}), expected JSON") from error
