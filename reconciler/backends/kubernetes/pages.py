"""Lists in pages, decoded to the few fields that are read; how much of one cluster is read in one run, so that no
cluster takes the time and the memory of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from reconciler.backends.decode.values import decoded_json
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.errors import NOT_JSON
from reconciler.backends.kubernetes.requests import ApiRequest, Operation
from reconciler.errors import AnswerTooLargeError, GoneError, MalformedAnswerError, ReadLimitError
from reconciler.http.client import ByteBudget, HttpResponse
from reconciler.redaction import without_credentials
from reconciler.worker_pool import in_thread

T = TypeVar("T")
W = TypeVar("W", bound=msgspec.Struct | msgspec.Raw | dict[str, Any])

PAGE = 500
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""The `accept` of lists where only metadata is read: the server leaves out the rest."""

_MOST_PAGES = 1000
"""Of all lists of one cluster together, in one reading, each of `PAGE` objects: one that is asked for in a smaller size
counts as the part that it is. The first page of a list does not count, as that is asked for by us and not by the
server.
"""

_MOST_PAGES_OF_A_LIST = 400

MOST_BYTES = 1 << 30
"""Of all that one run reads of a cluster: 100,000 objects of 10 kB each fit. Answers to writes do not count."""

MOST_KINDS = 200
"""Custom kinds with a scale. With more of them none is read, and what has no custom kind is read all the same."""

_ATTEMPTS = 3


class ReadBudget(ByteBudget):
    """What may still be read of one cluster, pages and bytes; any thread may take from it."""

    def __init__(self, pages: int = _MOST_PAGES) -> None:
        super().__init__(MOST_BYTES)
        self._pages = pages
        self._items_left = pages * PAGE

    def renew(self) -> None:
        """Let another reading begin, with all that it may take."""
        super().renew()
        with self._guard:
            self._items_left = self._pages * PAGE

    def take_page(self, operation: Operation, before: int, items: int) -> None:
        """Count a page of at most so many `items` after the first one of a list, which had room for `before`.

        Raises:
            MalformedAnswerError: the list has more pages than one may have. ReadLimitError: the cluster has.
        """
        if before + items > _MOST_PAGES_OF_A_LIST * PAGE:
            raise MalformedAnswerError(f"{operation}: has more than {_MOST_PAGES_OF_A_LIST} pages, expected its end")
        with self._guard:
            self._items_left -= items
            if self._items_left < 0:
                raise ReadLimitError(f"{operation}: more than {self._pages} pages were read of this cluster")


class _PageMetadata(msgspec.Struct):
    next: str | None = msgspec.field(default=None, name="continue")
    resource_version: str = msgspec.field(default="", name="resourceVersion")


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

    def __init__(self, client: ApiClient, request: ApiRequest) -> None:
        self._client = client
        self._request = request
        self.items = PAGE
        self._fitted = 0  # pages of this size
        self._enough = 1  # so many have to fit before a larger one is asked for
        self._has_grown = False

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
    """Yield page by page; while one is worked on, the server already makes the next one."""
    page_of: Any = _Page[shape]  # type: ignore[valid-type]
    pages = _PageRequests(client, request)
    tokens = {""}
    asked = PAGE
    answer = pages.send("")
    while True:
        page: _Page[W] = decoded(answer.body, page_of, request.operation)
        token = page.metadata.next or ""
        if not token:
            yield page
            return
        if token in tokens:
            raise MalformedAnswerError(f"{request.operation}: goes on where it was already, expected another page")
        tokens.add(token)
        budget.take_page(request.operation, asked, pages.items)
        asked += pages.items
        following = in_thread(partial(pages.send, token), "next page")
        yield page
        answer = following.result()


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
