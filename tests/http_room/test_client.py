"""The HTTP client over real sockets: whatever hangs in whichever phase ends at the deadline, or once the run stops."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import re
import resource
import socket
import ssl
import subprocess
import sys
import termios
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from math import inf
from typing import Any
from uuid import uuid4

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler import redaction
from reconciler.http import resolver as http_resolver
from reconciler.http import sockets
from reconciler.http.client import ByteBudget, HttpClient, HttpRequest, HttpResponse
from reconciler.http.connections import _system_tls as system_tls
from reconciler.http.connections import connections, tls_context
from reconciler.http.errors import CertificateError, HttpError, ReadEnoughError, TimedOutError, TooLargeError
from reconciler.http.resolver import Resolver
from reconciler.time_limit import TimeLimit
from tests.backends.servers import BUNDLE, HELLO, Answer, Server, SocketServer, encrypted_key, hang, headers_in
from tests.laws import tries
from tests.real.cluster import wait_until
from tests.real.faults import gzipped_zeros


def cut(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_RDWR)


def dripping(start: bytes, piece: bytes = b"x") -> Answer:
    def drip(client: socket.socket) -> None:
        client.sendall(start)
        for _ in range(2400):
            time.sleep(0.05)
            client.sendall(piece)

    return drip


def an_answer(body: bytes, *headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def a_client(**limits: Any) -> HttpClient:
    return HttpClient(connections(tls=tls_context(ca_data=BUNDLE)), **limits)


def asked(url: str, seconds: float = 10, method: str = "GET", **limits: Any) -> HttpResponse:
    body = None if method == "GET" else b"[]"
    return a_client(**limits).exchange(HttpRequest(method, url + "/x", body=body), TimeLimit(seconds))


def test_a_header_may_repeat_its_name():
    groups = [("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")]
    with Server(HELLO) as server:
        a_client().exchange(HttpRequest("GET", server.url, groups), TimeLimit(5))
        assert [found for found in headers_in(server.requests[0]) if found[0].startswith(b"imp")] == [
            (b"impersonate-group", b"dev"),
            (b"impersonate-group", b"ops"),
        ]


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """An address where connecting hangs: nobody accepts, and the queue is full."""
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def silent(scheme: str) -> Iterator[str]:
    """An address that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def answering(answer: Answer, *, tls: bool = False) -> Iterator[str]:
    with Server(answer, tls=tls) as server:
        yield server.url


@contextlib.contextmanager
def unresolved() -> Iterator[str]:
    """A name whose lookup does not return, as a resolver does that nobody answers."""
    go_on = threading.Event()
    known = socket.getaddrinfo

    def blocking(host: str, *args: Any, **more: Any) -> Any:
        if host.endswith(".hanging"):
            go_on.wait(120)
        return known(host, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_resolver.socket, "getaddrinfo", blocking)
        try:
            yield f"http://{uuid4().hex}.hanging:80"
        finally:
            go_on.set()


HEAD = b"HTTP/1.1 200 OK\r\n"
LATE = "no answer in time"


def dripped(start: bytes, piece: bytes = b"x", **options: Any) -> Callable[[], contextlib.AbstractContextManager[str]]:
    return lambda: answering(dripping(start, piece), **options)


PHASES: dict[str, tuple[Callable[[], contextlib.AbstractContextManager[str]], str]] = {
    "lookup": (unresolved, "its host name was not looked up in time"),
    "connect": (full_backlog, "no connection in time"),
    "TLS": (lambda: silent("https"), "no TLS handshake in time"),
    "no answer": (lambda: silent("http"), LATE),
    "status dripped": (dripped(b"HTTP/1.1 200 "), LATE),
    "headers dripped": (dripped(HEAD + b"X-Slow: "), LATE),
    "headers dripped over TLS": (dripped(HEAD + b"X-Slow: ", tls=True), LATE),
    "headers without end": (dripped(HEAD, b"A: b\r\n"), LATE),
    "100 Continue without end": (dripped(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), LATE),
    "body dripped": (dripped(HEAD + b"Content-Length: 9999\r\n\r\n"), "in time|too long"),
    "body in chunks": (dripped(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"), "in time|too long"),
    "body until it closes": (dripped(HEAD + b"Connection: close\r\n\r\n"), "in time|too long"),
    "gzip dripped": (
        dripped(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10], b"\0"),
        "in time|too long|cannot|is not",
    ),
}


@pytest.mark.parametrize("phase", PHASES)
def test_whatever_hangs_ends_at_the_deadline(phase):
    opened, words = PHASES[phase]
    for seconds in (0.3, 1.5, 6):  # a busy machine needs more to get as far as the phase
        with opened() as url, pytest.raises(HttpError) as refused:
            asked(url, seconds, "PATCH")
        if re.search(words, str(refused.value)):
            return
    raise refused.value


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "gzip dripped"])
def test_whatever_hangs_ends_once_the_run_stops(phase):
    """What hangs goes on, with another error, long before the limit is over."""
    opened, _ = PHASES[phase]
    limit = TimeLimit(600)
    threading.Timer(0.6, limit.cut, ["stopped"]).start()
    with opened() as url, pytest.raises(TimedOutError):
        a_client().exchange(HttpRequest("GET", url), limit)


def test_no_exchange_makes_a_thread_and_names_are_looked_up_once():
    def made():
        return [thread.name for thread in threading.enumerate() if thread not in before and thread.name != "test"]

    def time_out(url):
        with contextlib.suppress(TimedOutError):
            asked(url, 1.0)

    with unresolved() as url, Server(HELLO) as server:
        before = threading.enumerate()
        askers = [threading.Thread(target=time_out, args=(url,), name="test") for _ in range(20)]
        for asker in askers:
            asker.start()
        wait_until(made, "the lookup")
        assert made() == ["resolver"]
        for asker in askers:
            asker.join()
        asked(server.url)
        asked(server.url, method="PATCH")
        assert made() == ["resolver"]


def test_names_that_hang_delay_no_other_name():
    with unresolved():
        resolver = Resolver()
        for number in range(100):
            with pytest.raises(TimedOutError):
                resolver.addresses(f"{number}.hanging", 80, TimeLimit(0))
        assert resolver.addresses("localhost", 80, TimeLimit(20))


def test_of_names_that_anybody_may_invent_only_so_many_hang_and_the_next_ones_are_refused_at_once():
    resolver = Resolver(2)

    def is_looked_up():
        with contextlib.suppress(HttpError):
            return bool(resolver.addresses("localhost", 80, TimeLimit(20)))
        return False

    with unresolved():
        for name in ("a.hanging", "b.hanging", "a.hanging"):
            with pytest.raises(TimedOutError):
                resolver.addresses(name, 80, TimeLimit(0))
        with pytest.raises(HttpError, match="its host name waits behind 2 others that nobody answers for") as refused:
            resolver.addresses("localhost", 80, TimeLimit(inf))
        assert refused.value.passes
    wait_until(is_looked_up, "room for a name")


def test_a_name_for_which_there_is_no_thread_is_an_error_of_its_own_alone(monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    resolver = Resolver()
    with monkeypatch.context() as patch:
        patch.setattr(http_resolver.threading.Thread, "start", no_thread)
        with pytest.raises(HttpError, match="its host name cannot be looked up, no thread is left"):
            resolver.addresses("localhost", 80, TimeLimit(20))
    assert resolver.addresses("localhost", 80, TimeLimit(20))


ABANDONED = """
import socket, threading
from reconciler.http.client import HttpClient, HttpRequest
from reconciler.http.connections import connections
from reconciler.time_limit import TimeLimit
from reconciler.http.errors import HttpError
socket.getaddrinfo = lambda *_, **__: threading.Event().wait(60)
try:
    HttpClient(connections()).exchange(HttpRequest("GET", "http://api.hanging"), TimeLimit(0.3))
except HttpError as error:
    print(error)
"""


def test_a_process_ends_without_waiting_for_a_lookup():
    ended = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "its host name was not looked up in time\n"


def test_a_connection_is_kept_and_one_that_was_closed_meanwhile_is_made_anew():
    with Server(HELLO) as server:
        client = a_client()
        for _ in range(3):
            assert client.exchange(HttpRequest("GET", server.url), TimeLimit(5)).body == b"{}"
        assert (server.connections, len(server.requests)) == (1, 3)


def test_the_next_address_is_tried_also_where_the_first_one_hangs(monkeypatch):
    known = socket.getaddrinfo
    with full_backlog() as hanging, Server(HELLO) as server:
        port = int(hanging.rpartition(":")[2])

        def both(*_, **more):
            return [*known("127.0.0.1", port, **more), *known("127.0.0.1", server.port, **more)]

        monkeypatch.setattr(http_resolver.socket, "getaddrinfo", both)
        assert asked("http://two.addresses", 1.5).status == 200


def test_an_address_that_may_not_be_is_never_connected_to():
    def refuse(address):
        raise HttpError(f"it is at {address}")

    with Server(HELLO) as server:
        client = HttpClient(connections(resolver=Resolver(check=refuse)))
        with pytest.raises(HttpError, match=r"it is at 127\.0\.0\.1"):
            client.exchange(HttpRequest("GET", server.url), TimeLimit(5))
        assert server.connections == 0


@pytest.mark.parametrize(
    ("answer", "words", "passes"),
    [
        pytest.param(cut, "the connection was cut", True, id="no answer"),
        pytest.param(HELLO.replace(b"2", b"9") + b"", "the connection was cut", True, id="cut off"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "the answer is no HTTP", False, id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", "is no HTTP", False, id="many headers"),
        pytest.param(an_answer(b"x", "Content-Encoding: br"), "compressed in a way", False, id="brotli"),
        pytest.param(an_answer(b"xyz", "Content-Encoding: gzip"), "compressed, and is not", False, id="no gzip"),
        pytest.param(
            an_answer(gzip.compress(b"x" * 999)[:-9], "Content-Encoding: gzip"), "was cut off", True, id="half a gzip"
        ),
    ],
)
def test_what_is_no_answer(answer, words, passes):
    def then_close(client):
        client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)

    with Server(then_close if isinstance(answer, bytes) else answer) as server:
        with pytest.raises(HttpError, match=words) as raised:
            asked(server.url)
        assert raised.value.passes is passes


@pytest.mark.parametrize(
    ("url", "words", "passes"),
    [
        pytest.param("http://127.0.0.1:1", "the connection was refused", True, id="nobody listens"),
        pytest.param("http://no-such-host.invalid", "its host name is not known", True, id="no such name"),
        pytest.param(f"http://{'a' * 64}.svc", "cannot be", False, id="no name at all"),
        pytest.param("http://127.0.0.1:x", "the request cannot be sent", False, id="no URL"),
    ],
)
def test_where_nobody_answers(url, words, passes):
    with pytest.raises(HttpError, match=words) as raised:
        asked(url)
    assert raised.value.passes is passes


def test_the_certificates_of_the_system_are_loaded_for_tls_alone(monkeypatch):
    loaded = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: loaded.append(1))
    system_tls.cache_clear()
    with answering(HELLO) as url:
        HttpClient(connections()).exchange(HttpRequest("GET", url), TimeLimit(10))
    tls_context(verified=False)
    assert loaded == []
    with answering(HELLO, tls=True) as url, pytest.raises(HttpError):
        HttpClient(connections()).exchange(HttpRequest("GET", url), TimeLimit(10))
    system_tls.cache_clear()
    assert loaded == [1]


def test_certificates_are_verified():
    with Server(HELLO, tls=True) as server:
        assert asked(server.url).status == 200
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            other = HttpClient(connections(tls=tls_context(ca_data=trustme.CA().cert_pem.bytes().decode())))
            with pytest.raises(CertificateError, match=r"its certificate is not valid \("):
                other.exchange(HttpRequest("GET", url), TimeLimit(5))


ASKED = """
import ssl, sys
from reconciler.http.connections import tls_context
try:
    tls_context(certificate=(sys.argv[1], None))
except ssl.SSLError:
    print("refused")
"""


def test_a_key_that_is_encrypted_asks_nobody_for_its_password(tmp_path):
    """OpenSSL would ask on the terminal, and wait for an answer."""
    (tmp_path / "both.pem").write_bytes(encrypted_key(trustme.CA().issue_cert("us")))
    terminal, ours = os.openpty()

    def have_terminal():
        fcntl.ioctl(ours, termios.TIOCSCTTY, 0)

    ask = [sys.executable, "-c", ASKED, str(tmp_path / "both.pem")]
    said = subprocess.run(ask, capture_output=True, start_new_session=True, preexec_fn=have_terminal, timeout=60)
    assert said.stdout == b"refused\n"
    os.close(terminal)
    os.close(ours)


def test_what_a_handshake_offers_is_never_set_again_while_others_begin_theirs():
    """urllib3 sets it for each connection; in OpenSSL that frees what the handshakes of other threads read."""
    context = tls_context()
    context.set_alpn_protocols(["something else"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="east.example").do_handshake()
    offered = outgoing.read()
    assert b"\x08http/1.1" in offered
    assert b"something else" not in offered


def test_tls_with_what_speaks_none():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet():
            client, _ = listener.accept()
            client.sendall(HELLO)

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(HttpError, match=r"TLS failed \("):
            asked(f"https://127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize("packed", [gzip.compress, zlib.compress])
@tries(30)
@given(body=st.binary(max_size=200_000))
def test_an_answer_is_unpacked(packed, body):
    header = f"Content-Encoding: {'gzip' if packed is gzip.compress else 'deflate'}"
    with Server(an_answer(packed(body), header)) as server:
        assert asked(server.url).body == body


@pytest.mark.parametrize("before", [[100], [103], [102, 103, 103]], ids=str)
def test_informational_answers_come_before_the_answer(before):
    early = "".join(f"HTTP/1.1 {status} Early\r\nLink: </style.css>\r\n\r\n" for status in before).encode()
    with Server(early + an_answer(b"late", "X-Own: 1")) as server:
        response = asked(server.url)
    assert (response.status, response.body, response.headers.get("x-own"), response.headers.get("link")) == (
        200,
        b"late",
        "1",
        None,
    )


def test_an_answer_of_several_gzip_members_is_read_to_its_end():
    members = b"".join(gzip.compress(part) for part in (b"one ", b"two ", b"three"))
    with Server(an_answer(members, "Content-Encoding: gzip")) as server:
        assert asked(server.url).body == b"one two three"
    with Server(an_answer(members + bytes(1000), "Content-Encoding: gzip")) as server:
        assert asked(server.url).body == b"one two three", "with padding behind it"
    with Server(an_answer(members[:-3], "Content-Encoding: gzip")) as server, pytest.raises(HttpError, match="cut off"):
        asked(server.url)


def test_what_a_server_sends_stays_as_it_is():
    """Also where it has credentials in it: data that were changed would be read as other data."""
    body = b'{"service": "checkout", "said": "checkout"}\nline checkout'
    request = HttpRequest("GET", "", {"Authorization": "Bearer checkout", "X-Token": "checkout"})
    redaction.remember("checkout")
    with Server(an_answer(body, "X-Said: checkout")) as server:
        sent = replace(request, url=server.url)
        found = a_client().exchange(sent, TimeLimit(10))
        with a_client().streamed(sent, TimeLimit(10), begins=10) as (_, lines):
            assert b"\n".join(lines) == body
    assert (found.body, found.headers["x-said"]) == (body, "checkout")


def test_an_answer_in_lines_that_does_not_begin_is_not_waited_for_as_long_as_one_that_does():
    limit = TimeLimit(100)
    with silent("http") as url, pytest.raises(TimedOutError), a_client().streamed(HttpRequest("GET", url), limit, 0.5):
        pass
    assert not limit.over


def bomb(unpacked: int) -> bytes:
    return an_answer(gzipped_zeros(unpacked), "Content-Encoding: gzip")


def large_bomb(client: socket.socket) -> None:
    client.sendall(bomb(1 << 30))


def endless(client: socket.socket) -> None:
    client.sendall(HEAD + b"Content-Length: 524288000\r\n\r\n")
    for _ in range(500):
        client.sendall(bytes(1 << 20))


@pytest.mark.parametrize(
    "answer", [pytest.param(large_bomb, id="gzip bomb"), pytest.param(endless, id="plain body of 500 MB")]
)
def test_an_answer_that_is_too_long_is_read_no_further(answer):
    with Server(answer) as server:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(TooLargeError, match="the answer is longer than 8 MiB"):
            asked(server.url, 60, largest=8 << 20)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10  # KiB


def test_all_answers_together_have_a_budget():
    budget = ByteBudget(3 << 20)
    with Server(bomb(1 << 20)) as server:
        for _ in range(3):
            asked(server.url, budget=budget)
        with pytest.raises(ReadEnoughError, match="all its answers together are longer than 3 MiB"):
            asked(server.url, budget=budget)


def test_an_answer_that_is_too_large_takes_nothing_from_the_others():
    """It is asked for in smaller pages, and each list of a cluster may need some."""
    budget = ByteBudget(3 << 20)
    with Server(bomb(1 << 20)) as server:
        for _ in range(5):
            with pytest.raises(TooLargeError):
                asked(server.url, largest=(1 << 20) - 1, budget=budget)
        asked(server.url, budget=budget)


def test_a_check_that_fails_keeps_the_body_back():
    class LostError(Exception):
        pass

    def lost():
        raise LostError

    with Server(HELLO) as server:
        with pytest.raises(LostError):
            a_client().exchange(HttpRequest("PATCH", server.url, body=b"[1]", check=lost), TimeLimit(5))
        checked = []

        def stands():
            wait_until(lambda: server.connections == 2, "the second connection stands")
            checked.append(b"before the body")

        request = HttpRequest("PATCH", server.url, body=b"[2]", check=stands)
        assert a_client().exchange(request, TimeLimit(60)).status == 200
        assert checked == [b"before the body"]
        assert len(server.requests) == 1
        assert server.requests[0].endswith(b"[2]")


@pytest.mark.parametrize("tls", [False, True])
def test_a_request_goes_out_in_one_piece(monkeypatch, tls):
    sent = []
    send = sockets.Socket.send
    monkeypatch.setattr(
        sockets.Socket,
        "send",
        lambda self, data, flags=0: sent.append(bytes(data)) or send(self, data, flags),
    )
    with Server(HELLO, tls=tls) as server:
        request = HttpRequest("PATCH", server.url, body=b"[1]", check=lambda: None)
        assert a_client().exchange(request, TimeLimit(60)).status == 200
        assert server.requests == sent
        assert sent[0].endswith(b"\r\n\r\n[1]")


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system chooses how often a peer is asked")
def test_a_connection_that_is_kept_is_known_to_load_balancers_all_the_time():
    """Else those that forget what is silent for four minutes let the next request hang."""
    with Server(HELLO) as server, sockets.within(TimeLimit(60)):
        found = Resolver().addresses("127.0.0.1", server.port, TimeLimit(60))
        with sockets.connected(found, TimeLimit(60)) as opened:
            assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            silent = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
            assert all(opened.getsockopt(socket.IPPROTO_TCP, option) <= 60 for option in silent)


# Proxies


def relay(client: socket.socket, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as server:

        def copy(one: socket.socket, other: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while piece := one.recv(65536):
                    other.sendall(piece)
                other.shutdown(socket.SHUT_WR)

        threading.Thread(target=copy, args=(server, client), daemon=True).start()
        copy(client, server)


def through(proxy: str, url: str, seconds: float = 5) -> HttpResponse:
    tls = tls_context(ca_data=BUNDLE)
    return HttpClient(connections(tls=tls, proxy=proxy)).exchange(HttpRequest("GET", url), TimeLimit(seconds))


def test_through_a_proxy_with_a_user():
    with Server(HELLO, tls=True) as server:

        def connect(client):
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            relay(client, server.port)

        with Server(connect) as proxy:
            address = proxy.url.replace("//", "//us:secret@")
            assert through(address, f"https://localhost:{server.port}").status == 200
            assert proxy.requests[0].startswith(b"CONNECT localhost:")
            assert b"basic dXM6c2VjcmV0" in proxy.requests[0].replace(b"Basic", b"basic")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(b"HTTP/1.1 407 Who\r\n\r\n", r"the proxy failed \(.*407", id="it refuses"),
        pytest.param(hang, "no answer in time", id="it hangs"),
        pytest.param(dripping(HEAD + b"X: "), "no answer in time", id="it drips"),
    ],
)
def test_a_proxy_that_does_not_connect(answer, words):
    with Server(answer) as proxy, pytest.raises(HttpError, match=words):
        through(proxy.url, "https://localhost:1", 0.6)


def test_a_proxy_where_nobody_listens():
    with pytest.raises(HttpError, match=r"the proxy failed \(the connection was refused\)"):
        through("http://127.0.0.1:1", "https://localhost:1")


class SocksServer(SocketServer):
    """A SOCKS5 proxy for one connection after another; `target` is where it connects, whatever it is asked."""

    def __init__(self, target: int, *, user: bytes = b"", reply: int = 0, mute: bool = False) -> None:
        self.asked: list[bytes] = []
        self._target, self._user, self._reply, self._mute = target, user, reply, mute
        super().__init__(self._serve)

    def _serve(self, client: socket.socket) -> None:
        offered = client.recv(100)
        if self._mute:
            client.recv(100)
        client.sendall(b"\x05" + (b"\x02" if self._user else b"\x00"))
        assert offered in (b"\x05\x01\x00", b"\x05\x01\x02")
        if self._user:
            given = client.recv(100)
            client.sendall(b"\x01" + (b"\x00" if given == self._user else b"\x01"))
        self.asked.append(client.recv(300))
        client.sendall(b"\x05" + bytes([self._reply]) + b"\x00\x01" + bytes(6))
        relay(client, self._target)


@pytest.mark.parametrize(
    ("login", "user"), [pytest.param("", b"", id="anybody"), pytest.param("us:pw@", b"\x01\x02us\x02pw", id="a user")]
)
def test_through_a_socks_proxy_which_looks_the_name_up(login, user):
    with Server(HELLO, tls=True) as server:
        proxy = SocksServer(server.port, user=user)
        assert through(f"socks5://{login}127.0.0.1:{proxy.port}", "https://localhost:6443").status == 200
        assert proxy.asked == [b"\x05\x01\x00\x03\x09localhost" + (6443).to_bytes(2, "big")]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param({"reply": 5}, r"the proxy failed \(it did not connect, SOCKS reply 5\)", id="it cannot"),
        pytest.param({"user": b"another"}, r"the proxy failed \(", id="it knows us not"),
        pytest.param({"mute": True}, r"the proxy failed \(no answer in time\)", id="it hangs"),
    ],
)
def test_a_socks_proxy_that_does_not_connect(more, words):
    proxy = SocksServer(1, **more)
    with pytest.raises(HttpError, match=words):
        through(f"socks5://127.0.0.1:{proxy.port}", "https://localhost:1", 0.6)


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        pytest.param("ftp://us:secret@proxy", "ftp://proxy", id="another kind"),
        pytest.param("us:secret@proxy:3128", "proxy:3128", id="no scheme"),
        pytest.param("http://us:secret@", "http://", id="no host"),
        pytest.param("http://us:secret@proxy:99999", "http://proxy:99999", id="no port"),
    ],
)
def test_a_proxy_that_cannot_be_one_is_refused_without_its_password(proxy, shown):
    with pytest.raises(ValueError, match="the proxy") as refused:
        connections(proxy=proxy)
    assert str(refused.value) == f'the proxy "{shown}" is no URL with http, https or socks5, such as http://proxy:3128'
