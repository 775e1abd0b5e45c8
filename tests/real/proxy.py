"""A proxy in front of a real API server, or any HTTP server: it counts what passes, and makes faults where told to.

    with Proxy(control_plane.access(), folder) as proxy:
        kubeconfig = proxy.kubeconfig("east")              # or token=...; client certificates do not pass, tokens do
        proxy.rule(faults.answer(429, retry_after=1), at=3)                        # at the third request
        proxy.rule(faults.cut(), matching=is_write, times=None)                    # at all writes
        rule = Rule(faults.before(kill), at=2, matching=is_write)                  # counted over several proxies
        east.rules.append(rule); west.rules.append(rule)
        ...
        assert proxy.writes() == []                        # proxy.requests has all, in the order they came

The first rule that is due acts; a request counts for every rule that it matches. Faults are in `faults.py`.
"""

from __future__ import annotations

import contextlib
import http.server
import re
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3

from tests.real import certificates
from tests.real.kubeconfig import Access, write_kubeconfig

_OF_ONE_CONNECTION = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade", "proxy-connection"}
)
_PIECE = 1 << 16


@dataclass
class Request:
    """One request that came, and what became of it."""

    number: int
    """Counted from 1, in the order in which they came."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    """What was answered; 0 when nothing was."""

    sent: int = 0
    """Bytes of the answer's body that were sent back."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} -> {self.status}"


Matching = Callable[[Request], bool]
Fault = Callable[["Exchange"], None]


def is_any(request: Request) -> bool:
    return True


def is_write(request: Request) -> bool:
    """Whether it changes objects; asking what one may do is a POST that changes nothing, and so is a dry run."""
    asks = request.path.rsplit("/", 1)[-1].startswith("selfsubject")
    return request.method in ("POST", "PUT", "PATCH", "DELETE") and not asks and "dryRun" not in request.query


@dataclass
class Rule:
    """Do `fault` at the `at`th request that matches and the following ones, `times` in all; None is without end."""

    fault: Fault
    at: int = 1
    matching: Matching = is_any
    times: int | None = 1
    seen: int = 0
    """How many requests matched so far."""

    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def is_due(self, request: Request) -> bool:
        if not self.matching(request):
            return False
        with self._lock:
            self.seen += 1
            return self.at <= self.seen and (self.times is None or self.seen < self.at + self.times)

    @property
    def acted(self) -> bool:
        return self.seen >= self.at


class Exchange:
    """A request and the ways to deal with it; what is not answered in the end is closed."""

    def __init__(self, request: Request, handler: _Handler) -> None:
        self.request = request
        self._handler = handler
        self.stopping = handler.server.stopping

    @contextlib.contextmanager
    def forwarded(self) -> Iterator[urllib3.BaseHTTPResponse]:
        """The real server's answer, its body not read yet."""
        answer = self._handler.forward(self.request)
        try:
            yield answer
        except BaseException:
            answer.close()
            raise
        finally:
            answer.release_conn()

    def pass_on(self) -> None:
        """Send the request to the real server and its answer back, piece by piece."""
        with self.forwarded() as answer:
            self._handler.pass_back(self.request, answer)

    def rewrite(self, pattern: str, by: str) -> None:
        """Ask the real server something else: what matches in the target of the request is replaced."""
        self._handler.path = re.sub(pattern, by, self._handler.path)

    def answer(self, status: int, body: bytes, headers: Mapping[str, str], *, length: int | None = None) -> None:
        """Send this; a `length` beyond that of `body` promises more than comes."""
        every = {"Content-Type": "application/json", **headers}
        every["Content-Length"] = str(len(body) if length is None else length)
        self._handler.send_head(self.request, status, every)
        self._handler.wfile.write(body)
        self._handler.wfile.flush()
        self.request.sent += len(body)

    def send(self, data: bytes) -> None:
        """Send this, after what was sent."""
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def drip(self, start: bytes, piece: bytes) -> None:
        """Send `start`, and then `piece` again and again, until the client leaves."""
        self.request.status = 200
        with contextlib.suppress(OSError):
            self._handler.wfile.write(start)
            while not self.stopping.wait(0.1):
                self._handler.wfile.write(piece)
                self._handler.wfile.flush()
        self.close()

    def close(self) -> None:
        """Cut the connection."""
        self._handler.cut()

    def wait_for_client_to_leave(self) -> None:
        """Return when the client has gone away, or the proxy stops."""
        connection = self._handler.connection
        connection.settimeout(0.1)
        while not self.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1):
                    return


class Proxy:
    """A server on a free loopback port, in threads of this process; https with a certificate of our authority."""

    def __init__(self, real: Access, folder: Path, *, tls: bool = True) -> None:
        self.requests: list[Request] = []
        self.rules: list[Rule] = []
        self.ca_file = certificates.write_authority(_made(folder) / "ca.crt")
        self._real = real
        self._folder = folder
        self._server = _Server(self, real)
        if tls:
            context = certificates.server_context(folder / "proxy")
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._lock = threading.Lock()

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join(5)

    def access(self, token: str | None = None) -> Access:
        """What a kubeconfig says of it; with the rights of the real `Access` without a `token`."""
        return Access(self.url, self.ca_file, {"token": token} if token else self._real.user)

    def kubeconfig(self, name: str = "member", *, token: str | None = None) -> Path:
        """A kubeconfig file with one context called `name`, through this proxy."""
        return write_kubeconfig(self._folder / f"{name}-{secrets.token_hex(4)}.yaml", {name: self.access(token)})

    def rule(self, fault: Fault, at: int = 1, matching: Matching = is_any, times: int | None = 1) -> Rule:
        """A new rule, in force from now on."""
        rule = Rule(fault, at, matching, times)
        self.rules.append(rule)
        return rule

    def cut_all(self) -> None:
        """Cut all connections that are open now: what is watched ends in the middle of a line."""
        self._server.cut_all()

    def reset(self) -> None:
        """Forget requests and rules."""
        self.requests, self.rules = [], []

    def writes(self) -> list[Request]:
        """The requests that change objects, answered or not."""
        return [request for request in self.requests if is_write(request)]

    def counted(self) -> Counter[tuple[str, str]]:
        """How many requests came, by method and path."""
        return Counter((request.method, request.path) for request in self.requests)

    def sent(self) -> int:
        """Bytes of all answers' bodies."""
        return sum(request.sent for request in self.requests)

    def record(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Note a request that came."""
        split = urlsplit(target)
        query = parse_qs(split.query, keep_blank_values=True)
        with self._lock:
            request = Request(len(self.requests) + 1, method, split.path, query, headers, body)
            self.requests.append(request)
        return request

    def deal_with(self, exchange: Exchange) -> None:
        """Pass it on, or do what the first rule that is due says."""
        due = [rule for rule in self.rules if rule.is_due(exchange.request)]
        if due:
            due[0].fault(exchange)
        else:
            exchange.pass_on()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: Proxy, real: Access) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy
        self.real = real
        self.stopping = threading.Event()
        self.connections: set[socket.socket] = set()
        self.pool = urllib3.PoolManager(
            maxsize=64,
            ca_certs=str(real.authority) if real.authority else None,
            retries=False,
            timeout=urllib3.Timeout(120),
        )

    def stop(self) -> None:
        self.stopping.set()
        self.shutdown()
        self.server_close()
        self.cut_all()
        self.pool.clear()

    def cut_all(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no error of ours."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = _PIECE

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        """Nothing: `Proxy.requests` says more."""

    def deal(self) -> None:
        """One request, from its head on."""
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            self.cut()  # the client went away before it had sent everything: no server would act on that
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
        request = self.server.proxy.record(self.command, self.path, headers, body)
        try:
            self.server.proxy.deal_with(Exchange(request, self))
        except (OSError, urllib3.exceptions.HTTPError):
            self.cut()  # the real server, or the client, went away: so do we
        if not request.status:
            self.cut()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = deal

    def forward(self, request: Request) -> urllib3.BaseHTTPResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        return self.server.pool.request(
            request.method,
            self.server.real.server + self.path,
            body=request.body or None,
            headers=headers,
            preload_content=False,
            decode_content=False,
            redirect=False,
        )

    def pass_back(self, request: Request, answer: urllib3.BaseHTTPResponse) -> None:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
        length = answer.headers.get("Content-Length")
        has_body = request.method != "HEAD" and answer.status not in (204, 304)
        headers |= {"Content-Length": length} if length else {"Transfer-Encoding": "chunked"} if has_body else {}
        self.send_head(request, answer.status, headers)
        for piece in answer.stream(_PIECE, decode_content=False) if has_body else ():
            self.wfile.write(piece if length else b"%x\r\n%b\r\n" % (len(piece), piece))
            request.sent += len(piece)
            if not length:
                self.wfile.flush()  # a watch is read as it comes
        self.wfile.write(b"0\r\n\r\n" if has_body and not length else b"")
        self.wfile.flush()

    def send_head(self, request: Request, status: int, headers: Mapping[str, str]) -> None:
        request.status = status
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError, ValueError):
            self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
