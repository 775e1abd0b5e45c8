"""The admission webhook: reviews over HTTPS, health and metrics; it ends orderly."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.errors import UsageError, reason_of
from reconciler.http.server import response
from reconciler.model import Write
from reconciler.picker_webhook.admission_review import admitted, review_in
from reconciler.picker_webhook.picker import Picker, Result, ReviewAnswer
from reconciler.report.metrics import Distribution, Family, open_metrics_text
from reconciler.time_limit import TimeLimit

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""The upper bounds of the buckets of `reconciler_picker_review_seconds`."""

FAILURES = ("busy", "late", "error")

_MOST_BYTES = 8 << 20  # an object of 1.5 MB, twice
_MOST_DIGITS = 18  # int() itself fails on thousands
_LARGE_BYTES = 128 << 10  # what is smaller is read at any time: the review of a Scale has 2 KB
_MOST_LARGE_BYTES = 64 << 20  # of all that is larger, at a time
_MOST_HEAD = 64 << 10
_MOST_OPEN = 256
_READ_SECONDS = 10.0
_KEPT_SECONDS = 120.0
_EVENT_SECONDS = 5.0
_MOST_EVENTS = 100  # that wait to be written; one more is not written
_PASSWORD = ""  # of an encrypted key: without one OpenSSL asks on the terminal, and waits

_ANSWER_SECONDS = 0.1
"""What is left of the deadline once a choice must have ended."""

_LOOK_SECONDS = 5.0
_DRAIN_SECONDS = 5.0
"""For so long new reviews come after SIGTERM, until the API servers know."""


@dataclass
class CertificateFiles:
    """Certificate and key in files, which are read again when they change: cert-manager renews them."""

    certificate: str
    key: str

    def __post_init__(self) -> None:
        self.context = self._context()
        self._seen = self._stamp()

    def look(self) -> None:
        """Read the files again where they changed; new connections get the new certificate.

        Raises:
            UsageError: they cannot be used; the former certificate stays.
        """
        now = self._stamp()
        if now != self._seen:
            self._context()  # what does not fit together must not reach the one in use
            self.context.load_cert_chain(self.certificate, self.key, _PASSWORD)
            self._seen = now

    def _context(self) -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            made.load_cert_chain(self.certificate, self.key, _PASSWORD)
        except (OSError, ValueError) as error:  # an SSLError is one
            where = f"{self.certificate}, {self.key}"
            what = getattr(error, "strerror", None) or error
            raise UsageError(f"{where}: {what}, expected a certificate and its key in PEM") from error
        return made

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        try:
            found = [Path(file).stat() for file in (self.certificate, self.key)]
        except OSError:
            return ()
        return tuple((status.st_mtime_ns, status.st_size, status.st_ino) for status in found)


class PickerMetrics:
    """Counts reviews; everything that changes them runs in the thread of the event loop."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.stale = 0
        self._seconds = Distribution.of(SECONDS)

    def reviewed(self, result: Result, seconds: float) -> None:
        """Count a review that was answered."""
        self.results[result] += 1
        self._seconds.add(seconds, SECONDS)

    def families(self) -> Iterator[Family]:
        """Yield all of them."""
        results = [({"result": str(result)}, float(self.results[result])) for result in Result]
        yield Family(
            "reconciler_picker_reviews", "Reviews that were answered, by what became of them.", results, counts=True
        )
        failures = [({"reason": reason}, float(self.failures[reason])) for reason in FAILURES]
        yield Family(
            "reconciler_picker_unpicked", "Decreases of which the controller chose the pods.", failures, counts=True
        )
        words = "How long reviews took."
        yield Family("reconciler_picker_review_seconds", words, [({}, self._seconds)], "seconds", SECONDS)
        words = "1 while the policies or the certificate cannot be read again, and the former ones count."
        yield Family("reconciler_picker_stale", words, [({}, float(self.stale))])


@dataclass(eq=False)
class Webhook:
    """Serves reviews on `address` and `port` in one event loop; what a choice asks runs in threads, `at_once` of them.

    A review takes `deadline` seconds at most. `renew` reads the policies again where they changed. `tell` says a line.
    `grace`: how many seconds are left after SIGTERM.
    """

    picker: Picker
    files: CertificateFiles
    limit: TimeLimit
    renew: Callable[[], None]
    tell: Callable[[str], None]
    address: str | None = None
    port: int = 8443
    deadline: float = 1.5
    at_once: int = 16
    grace: float = 20.0

    def __post_init__(self) -> None:
        self.metrics = PickerMetrics()
        self.is_ready = False
        self._threads = ThreadPoolExecutor(self.at_once, thread_name_prefix="review")
        self._events = ThreadPoolExecutor(2, thread_name_prefix="event")
        self._untold: set[asyncio.Future[None]] = set()
        self._under_way = 0
        self._large_bytes = 0
        self._is_ending = False
        self._open: dict[asyncio.StreamWriter, None] = {}  # those without a review under way, the last used last
        self._stale: dict[str, str] = {}

    async def run(self, until: asyncio.Event) -> None:
        """Return when `until` is set, and everything has ended orderly.

        Raises:
            UsageError: the port is taken.
        """
        try:
            server = await asyncio.start_server(
                self._serve,
                self.address,
                self.port,
                ssl=self.files.context,
                ssl_handshake_timeout=_READ_SECONDS,
                limit=_MOST_HEAD,
            )
        except OSError as error:
            raise UsageError(f"--port: {self.port}: {error.strerror}, expected a free port") from error
        self.port = server.sockets[0].getsockname()[1]
        beginning = asyncio.get_running_loop().create_task(self._begin())
        looking = asyncio.get_running_loop().create_task(self._look_again())
        self.is_ready = True
        self.tell(f"picker of cluster {self.picker.cluster} on port {self.port}")
        await until.wait()
        self._is_ending = True
        loop = asyncio.get_running_loop()
        ended = loop.time() + self.grace
        await asyncio.sleep(min(_DRAIN_SECONDS, self.grace / 2))  # the API servers hear of it, meanwhile reviews go on
        beginning.cancel()
        looking.cancel()
        server.close()
        while (self._under_way or self._untold) and loop.time() < ended:
            await asyncio.sleep(0.05)
        while self._open:
            for writer in self._open:
                writer.transport.abort()
            await asyncio.sleep(0.01)  # until what serves them has ended by itself
        self.limit.cut("the picker ends")
        self._events.shutdown(wait=False, cancel_futures=True)

    # health and metrics

    def health(self) -> tuple[int, str]:
        """Return that the event loop runs."""
        return 200, "ok\n"

    def readiness(self) -> tuple[int, str]:
        """Return whether reviews should come here."""
        if self._is_ending or not self.is_ready:
            return 503, "ending\n" if self._is_ending else "not listening yet\n"
        return 200, "ok\n"

    def metrics_text(self) -> tuple[int, str]:
        """Return all metrics."""
        self.metrics.stale = int(bool(self._stale))
        return 200, open_metrics_text(self.metrics.families())

    # what changes meanwhile

    async def _begin(self) -> None:
        """Let runs know that there is a picker."""
        while True:
            try:
                return await asyncio.to_thread(self.picker.begin, self.limit.within(_EVENT_SECONDS))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                self.tell(f"warning: {reason_of(error)}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for what, look in (("certificate counts", self.files.look), ("policies count", self.renew)):
                try:
                    await asyncio.to_thread(look)
                except Exception as error:  # noqa: BLE001 - whatever it is, the former ones count, and it is said once
                    why = reason_of(error)
                    if self._stale.get(what) != why:
                        self.tell(f"warning: the former {what}: {why}")
                    self._stale[what] = why
                else:
                    self._stale.pop(what, None)

    # reviews

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST_OPEN:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            while True:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _KEPT_SECONDS)
                answer, keeps = await self._answer(head, reader, writer)
                writer.write(answer)
                await asyncio.wait_for(writer.drain(), _READ_SECONDS)
                if not keeps:
                    break
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks like that gets no answer
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[bytes, bool]:
        """Return the answer to a request, and whether the connection stays open after it."""
        method, headers = _parsed(head)
        length = headers.get("content-length", "")
        if method != "POST" or not length.isdecimal() or len(length) > _MOST_DIGITS or int(length) > _MOST_BYTES:
            status = 405 if method != "POST" else 413 if length.isdecimal() else 411
            return response(status, b""), False
        large = int(length) if int(length) > _LARGE_BYTES else 0
        if large and self._large_bytes + large > _MOST_LARGE_BYTES:
            return response(503, b""), False
        self._large_bytes += large
        try:
            body = await asyncio.wait_for(reader.readexactly(int(length)), _READ_SECONDS)
        finally:
            self._large_bytes -= large
        keeps = not self._is_ending and headers.get("connection", "").lower() != "close"
        self._open.pop(writer, None)  # whoever opens many connections closes none of which the review is under way
        try:
            answer = await self._reviewed(body)
        except ValueError as error:
            return response(400, f"{error}\n".encode(), keeps=keeps), keeps
        finally:
            self._open[writer] = None
        return response(200, answer, "application/json", keeps=keeps), keeps

    async def _reviewed(self, body: bytes) -> bytes:
        """Return the answer to a review.

        Raises:
            ValueError: `body` is none.
        """
        began = asyncio.get_running_loop().time()
        review = review_in(body, self.picker.cluster)
        self._under_way += 1
        try:
            verdict = await self._verdict(partial(self.picker.review, review))
        finally:
            self._under_way -= 1
        self.metrics.reviewed(verdict.result, asyncio.get_running_loop().time() - began)
        if verdict.event is not None and len(self._untold) < _MOST_EVENTS:
            untold = asyncio.get_running_loop().run_in_executor(self._events, self._write_event, verdict.event)
            self._untold.add(untold)
            untold.add_done_callback(self._untold.discard)
        where = f"{review.ref.namespace}/{review.ref.kind}/{review.ref.name}"
        if verdict.result is not Result.PASSED:
            self.tell(f"{where}: replicas {review.before} -> {review.after}: {verdict.result}: {verdict.why}")
        is_unpicked = verdict.result is Result.UNPICKED
        return admitted(review.uid, f"reconciler chose no pods: {verdict.why}" if is_unpicked else "")

    async def _verdict(self, review: Callable[[TimeLimit], ReviewAnswer]) -> ReviewAnswer:
        """Return what became of a review; one too many, or one that takes too long, is unpicked, and no Event says so:
        whether a policy wants a choice is not known.
        """
        if self._under_way > self.at_once:
            self.metrics.failures["busy"] += 1
            return ReviewAnswer(Result.UNPICKED, f"more than {self.at_once} reviews are under way")
        limit = self.limit.within(self.deadline - _ANSWER_SECONDS)
        running = asyncio.get_running_loop().run_in_executor(self._threads, review, limit)
        try:
            verdict = await asyncio.wait_for(asyncio.shield(running), self.deadline)
        except TimeoutError:
            self.metrics.failures["late"] += 1
            return ReviewAnswer(Result.UNPICKED, f"no choice within {self.deadline:g} s")
        self.metrics.failures["late" if limit.over else "error"] += verdict.result is Result.UNPICKED
        return verdict

    def _write_event(self, event: Write) -> None:
        try:
            self.picker.tell(event, self.limit.within(_EVENT_SECONDS))
        except Exception as error:  # noqa: BLE001 - whatever it is, only the Event is missing
            self.tell(f"warning: {reason_of(error)}")


def _parsed(head: bytes) -> tuple[str, Mapping[str, str]]:
    """Return the method of a request, and its headers by their names in small letters."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first.partition(" ")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}
