"""The pod picker contract, over real sockets."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends import pod_picker
from reconciler.backends.pod_picker import HttpPodPicker, Refused, answer_in
from reconciler.connection_settings import PickerAnswer, PickerHeader, PickerRequest, PodPicker, SecretKey
from reconciler.errors import ForbiddenError, NotFoundError, PickerError
from reconciler.forbidden_addresses import is_forbidden
from reconciler.http import resolver as http_resolver
from reconciler.http.errors import TimedOutError
from reconciler.time_limit import TimeLimit
from tests import builders
from tests.backends.servers import BUNDLE, PickerServer, drip, raw, reply, says, secured, silent
from tests.real.cluster import wait_until

SECRET = "s3cr3t-T0ken"
PODS = ("web-1", "web-2", "web-3", "web-4")


class FakeClock(TimeLimit):
    """Waits no time, and tells how long."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.slept.append(seconds)
        return True


def secrets(namespace: str, name: str, key: str) -> str:
    known = {
        ("shop", "picker", "token"): SECRET,
        ("shop", "picker", "lines"): f"{SECRET}\r\nX-Other: 1",
        ("shop", "picker", "wide"): f"{SECRET}–ü",
    }
    if name == "forbidden":
        raise ForbiddenError("east: get secrets is forbidden")
    if (namespace, name, key) not in known:
        raise NotFoundError(f"east/{namespace}/Secret/{name}: has no key {key}")
    return known[namespace, name, key]


def a_picker(server: PickerServer, **fields: Any) -> PodPicker:
    defaults = {"host": "127.0.0.1", "port": server.port, "scheme": "http", "path": "/pick", "max_retries": 0}
    return builders.a_picker(**(defaults | {"timeout_seconds": 20} | fields))


def ask(
    picker: PodPicker, *, count: int = 2, allowed: tuple[str, ...] = ("127.0.0.1", "localhost"), clock: Any = None
) -> PickerAnswer:
    client = HttpPodPicker(secrets, allowed, clock or FakeClock())
    return client.pick(PickerRequest(picker, "shop", count, PODS))


def refusal(picker: PodPicker, **options: Any) -> str:
    """Return the words of the error; whatever happened, no secret is in them."""
    with pytest.raises(PickerError) as caught:
        ask(picker, **options)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    assert caught.value.__suppress_context__
    return str(caught.value)


def test_the_request_is_exactly_the_contract():
    with PickerServer(says(["web-2", "web-1"])) as server:
        assert ask(a_picker(server)) == PickerAnswer(("web-2", "web-1"))
        [received] = server.received
    assert received.line == "POST /pick HTTP/1.1"
    assert received.json == {"number_of_pods_requested": 2, "candidate_pods": list(PODS)}
    assert received.headers["host"] == f"127.0.0.1:{server.port}"
    assert received.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        pytest.param('{"chosen_pods": ["web-1"]}', PickerAnswer(("web-1",)), id="a missing list is empty"),
        pytest.param('{"tied_pods": ["web-1"]}', PickerAnswer((), ("web-1",)), id="only tied"),
        pytest.param('{"chosen_pods": [], "tied_pods": []}', PickerAnswer(), id="no opinion"),
        pytest.param(
            '{"chosen_pods": ["web-1", "web-1"], "tied_pods": ["web-2", "web-2"]}',
            PickerAnswer(("web-1",), ("web-2",)),
            id="duplicates count once",
        ),
        pytest.param(
            '{"chosen_pods": ["web-1"], "tied_pods": ["web-1", "web-3"]}',
            PickerAnswer(("web-1",), ("web-3",)),
            id="chosen and tied at once is chosen",
        ),
        pytest.param('{"chosen_pods": ["web-1"], "because": {"a": [1]}}', PickerAnswer(("web-1",)), id="more is said"),
        pytest.param(' {"chosen_pods":["web\\u002d1"]}\r\n', PickerAnswer(("web-1",)), id="escapes and white space"),
    ],
)
def test_answers(body, answer):
    assert answer_in(body.encode(), PODS) == answer


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "no JSON object", id="empty"),
        pytest.param(b"[]", "no JSON object", id="a list"),
        pytest.param(b"{}", "neither chosen_pods nor tied_pods", id="both lists missing"),
        pytest.param(b'{"chosen_pods": ["web-9"]}', "names 1 pod that is no candidate", id="no candidate"),
        pytest.param(b'{"chosen_pods": ["web-1", "web-9"]}', "no candidate", id="one of two is no candidate"),
        pytest.param(b'{"chosen_pods": ["x", "y"]}', "names 2 pods that are no candidates", id="no candidates"),
        pytest.param(b'{"tied_pods": ["shop/web-1"]}', "no candidate", id="a name with its namespace"),
        pytest.param(b'{"chosen_pods": "web-1"}', "no list of strings", id="a string for a list"),
        pytest.param(b'{"chosen_pods": null}', "no list of strings", id="null for a list"),
        pytest.param(b'{"chosen_pods": [1]}', "no list of strings", id="a number"),
        pytest.param(b'{"chosen_pods": [["web-1"]]}', "no list of strings", id="a list in the list"),
        pytest.param(b'{"chosen_pods": [], "chosen_pods": ["web-1"]}', "each key once", id="duplicate keys"),
        pytest.param(b'{"chosen_pods": [], "x": {"a": 1, "a": 1}}', "each key once", id="duplicate keys inside"),
        pytest.param(b'{"chosen_pods": ["web-1"]}{}', "no JSON object", id="two objects"),
        pytest.param(b'{"chosen_pods": [], "x": NaN}', "no JSON object", id="NaN"),
        pytest.param(b'\xff\xfe{"chosen_pods": []}', "no JSON object", id="not UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"chosen_pods": []}', "no JSON object", id="a byte order mark"),
        pytest.param('{"chosen_pods": []}'.encode("utf-16"), "no JSON object", id="UTF-16"),
        pytest.param(b'{"chosen_pods": ' + b"[" * 100_000, "no JSON object", id="deep"),
        pytest.param(b'{"chosen_pods": [], "x": ' + b"9" * 10_000 + b"}", "no JSON object", id="a number too long"),
    ],
)
def test_broken_contract(body, words):
    with pytest.raises(Refused, match=words):
        answer_in(body, PODS)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_no_body_is_more_than_refused(body):
    try:
        answer = answer_in(body, PODS)
    except Refused:
        return
    assert {*answer.chosen, *answer.tied} <= set(PODS)


def test_a_broken_contract_is_not_asked_again():
    with PickerServer(says(["web-9"]), says(["web-1"])) as server:
        assert "no candidate" in refusal(a_picker(server, max_retries=3))
    assert server.connections == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_statuses_that_are_asked_again(status):
    clock = FakeClock()
    with PickerServer(reply("", status), reply("", status), says(["web-1"])) as server:
        assert ask(a_picker(server, max_retries=2), clock=clock).chosen == ("web-1",)
    assert server.connections == 3
    assert all(0.25 <= slept <= 1.5 for slept in clock.slept)


@pytest.mark.parametrize("status", [201, 204, 400, 401, 403, 404, 409, 422, 501, 505])
def test_statuses_that_are_final(status):
    with PickerServer(reply("", status), says(["web-1"])) as server:
        assert f"status {status}, expected 200" in refusal(a_picker(server, max_retries=3))
    assert server.connections == 1


def test_attempts_are_the_retries_and_one():
    clock = FakeClock()
    with PickerServer(reply("", 503)) as server:
        assert "status 503, expected an answer; tried 4 times" in refusal(a_picker(server, max_retries=3), clock=clock)
    assert server.connections == 4
    assert len(clock.slept) == 3


def test_the_limit_is_for_the_whole_exchange():
    with PickerServer(drip(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 400, 0.05), says(["web-1"])) as server:
        assert ask(a_picker(server, timeout_seconds=0.8, max_retries=1)).chosen == ("web-1",)
        assert server.connections == 2


def test_what_hung_is_not_asked_again():
    with PickerServer(silent, says(["web-1"])) as server:
        client = HttpPodPicker(secrets, ("127.0.0.1",), FakeClock())
        for words in ("no whole answer within 0.3 s", "it did not answer before in this run"):
            with pytest.raises(PickerError, match=words):
                client.pick(PickerRequest(a_picker(server, timeout_seconds=0.3), "shop", 2, PODS))
        assert server.connections == 1
        longer = PickerRequest(a_picker(server, timeout_seconds=5), "shop", 2, PODS)
        assert client.pick(longer).chosen == ("web-1",), "who waits longer is none of who did not"


def test_pickers_whose_names_hang_delay_no_cluster_and_those_beyond_a_number_are_refused_at_once(monkeypatch):
    release = threading.Event()
    known = http_resolver.socket.getaddrinfo

    def hanging(host, *args, **more):
        if host.endswith(".example"):
            release.wait(60)
        return known("127.0.0.1" if host.endswith(".example") else host, *args, **more)

    monkeypatch.setattr(http_resolver.socket, "getaddrinfo", hanging)
    pod_picker._resolver.cache_clear()
    with PickerServer(says(["web-1"])) as server:
        for number in range(64):
            with pytest.raises(TimedOutError):
                pod_picker._resolver().addresses(f"picker-{number}.example", server.port, TimeLimit(0))
        asked = a_picker(server, host="picker-64.example")
        assert "waits behind 64 others" in refusal(asked, allowed=("*.example",))
        assert http_resolver.RESOLVER.addresses("localhost", server.port, TimeLimit(20))
    release.set()
    pod_picker._resolver.cache_clear()


def a_body(size: int) -> bytes:
    body = b'{"chosen_pods": ["web-1"], "x": "'
    return body + b"a" * (size - len(body) - 2) + b'"}'


def test_one_mebibyte_and_no_more():
    with PickerServer(reply(a_body(1 << 20)), reply(a_body((1 << 20) + 1))) as server:
        assert ask(a_picker(server)).chosen == ("web-1",)
        assert "the answer is longer than 1 MiB" in refusal(a_picker(server, max_retries=3))
    assert server.connections == 2


def test_no_proxy_from_the_environment(monkeypatch):
    with PickerServer(reply("", 500)) as proxy, PickerServer(says(["web-1"])) as server:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert ask(a_picker(server)).chosen == ("web-1",)
    assert proxy.connections == 0


# Headers


def token(name: str = "picker", key: str = "token") -> PickerHeader:
    return PickerHeader("authentication", None, SecretKey(name, key))


def plain(name: str, value: str) -> PickerHeader:
    return PickerHeader(name, value, None)


def test_headers_are_sent_with_the_secret():
    with PickerServer(says(["web-1"])) as server:
        headers = (token(key="wide"), plain("X-Plain", "a b"), plain("accept", "text/json"))
        ask(a_picker(server, headers=headers, allow_insecure_auth=True))
        [received] = server.received
    assert received.headers["authentication"] == f"{SECRET}–ü", "in UTF-8"
    assert received.headers["x-plain"] == "a b"
    assert received.headers["accept"] == "text/json"


@pytest.mark.parametrize(
    ("header", "insecure", "words"),
    [
        pytest.param(token(), False, "authentication is a secret, expected https", id="a secret over plain http"),
        pytest.param(plain("Host", "x"), False, '"Host" is no header that may be set', id="ours"),
        pytest.param(plain("content-LENGTH", "x"), False, "no header that may be set", id="ours in another case"),
        pytest.param(plain("a b", "x"), False, '"a b" is no header', id="no token"),
        pytest.param(plain("", "x"), False, '"" is no header', id="no name"),
        pytest.param(plain("x", "a\nb"), False, "x has control characters", id="a line break"),
        pytest.param(plain("x", "a\x00"), False, "x has control characters", id="a NUL"),
        pytest.param(token(key="lines"), True, "control characters", id="a secret with line breaks"),
        pytest.param(
            token(key="other"), True, "Secret shop/picker key other cannot be read (NotFound)", id="no such key"
        ),
        pytest.param(token(name="forbidden"), True, "cannot be read (Forbidden)", id="may not be read"),
    ],
)
def test_refused_headers(header, insecure, words):
    with PickerServer(says(["web-1"])) as server:
        picker = a_picker(server, headers=(header,), allow_insecure_auth=insecure, max_retries=3)
        assert words in refusal(picker)
    assert server.connections == 0


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(reply(SECRET), id="as the body"),
        pytest.param(says([SECRET]), id="as a pod"),
        pytest.param(reply("", 500, X=SECRET), id="as a header"),
        pytest.param(raw(f"HTTP/1.1 403 {SECRET}\r\n\r\n".encode()), id="as the reason"),
        pytest.param(raw(SECRET.encode() + b"\r\n\r\n"), id="as anything"),
        pytest.param(reply("", 302, Location=f"http://{SECRET}/"), id="as a location"),
        pytest.param(reply("", 429, Retry_After=SECRET), id="as a time"),
    ],
)
def test_a_picker_that_echoes_the_secret_puts_it_into_no_error(script):
    with PickerServer(script) as server:
        refusal(a_picker(server, headers=(token(),), allow_insecure_auth=True))  # asserts it
        assert server.received[0].headers["authentication"] == SECRET


# Where a picker may be


@pytest.mark.parametrize(
    ("host", "allowed", "passes"),
    [
        pytest.param("127.0.0.1", ("127.0.0.1",), True, id="named"),
        pytest.param("LocalHost", ("local*",), True, id="glob, whatever the case"),
        pytest.param("127.0.0.1", ("*.svc",), False, id="another"),
        pytest.param("127.0.0.1", (), False, id="none"),
    ],
)
def test_allowed_hosts(host, allowed, passes):
    with PickerServer(says(["web-1"])) as server:
        if passes:
            assert ask(a_picker(server, host=host), allowed=allowed).chosen == ("web-1",)
        else:
            assert "the host is not allowed" in refusal(a_picker(server, host=host), allowed=allowed)
    assert server.connections == passes


FORBIDDEN = """
169.254.169.254 169.254.170.2 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 fe80::1 fe80::1%eth0
fd00:ec2::254 fd20:ce::254 100.100.100.200 168.63.129.16 0.0.0.0 :: 224.0.0.1
"""
NAT64_OF_A_NETWORK = """
64:ff9b:1::a9fe:a9fe 64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1:a9:fe:a9fe:: 64:ff9b:1::a9:fea9:fe00:0
"""
TEREDO_OR_ISATAP = """
2001:0:a9fe:a9fe::1 2001:0:5db8:d822::5601:5601 2001:db8::5efe:a9fe:a9fe
"""
IPV4_IN_OTHER_FORMS = "::a9fe:a9fe ::ffff:0:a9fe:a9fe"
ALLOWED = """
10.0.0.1 127.0.0.1 ::1 fd00::1 ::ffff:10.0.0.1 192.168.7.7 93.184.216.34 64:ff9b:1::a00:1 2001:0:5db8:d822::a247:27dd
2001:db8::a9fe:a9fe
"""


def test_forbidden_addresses():
    """Link-local and metadata addresses, also where another address carries one."""
    refused = f"{FORBIDDEN} {NAT64_OF_A_NETWORK} {TEREDO_OR_ISATAP} {IPV4_IN_OTHER_FORMS}".split()
    addresses = [*refused, *ALLOWED.split()]
    assert [address for address in addresses if is_forbidden(ip_address(address))] == refused


@pytest.mark.parametrize("script", [silent, reply("", 503)], ids=["no answer", "refused"])
def test_a_run_that_stops_waits_for_no_picker(script):
    limit = TimeLimit(60)
    with PickerServer(script) as server, ThreadPoolExecutor(1) as threads:
        client = HttpPodPicker(secrets, ("127.0.0.1",), limit)
        picker = a_picker(server, timeout_seconds=30, max_retries=10)  # 330 s in all
        picked = threads.submit(client.pick, PickerRequest(picker, "shop", 2, PODS))
        wait_until(lambda: server.connections, "it is asked")
        limit.cut("stopped")
        with pytest.raises(PickerError, match=r"before the end of the run|status 503"):
            picked.result(20)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0"])
def test_a_forbidden_address_is_never_asked(host):
    with PickerServer(says(["web-1"])) as server:
        assert "which is a link-local or metadata address" in refusal(
            a_picker(server, host=host, max_retries=3), allowed=("*",)
        )


def test_one_forbidden_address_among_others_is_enough(monkeypatch):
    resolve = http_resolver.socket.getaddrinfo

    def rebinding(_, port, **options):
        return [*resolve("127.0.0.1", port, **options), *resolve("169.254.169.254", port, **options)]

    monkeypatch.setattr(http_resolver.socket, "getaddrinfo", rebinding)
    with PickerServer(says(["web-1"])) as server:
        assert "169.254.169.254" in refusal(a_picker(server, host="picker.svc", max_retries=2), allowed=("*.svc",))
    assert server.connections == 0


# TLS


@pytest.fixture
def secure() -> Iterator[PickerServer]:
    with PickerServer(says(["web-1"]), tls=True) as server:
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_https_with_a_bundle(secure, host):
    picker = a_picker(secure, host=host, scheme="https", ca_bundle=BUNDLE, headers=(token(),))
    assert ask(picker).chosen == ("web-1",)
    assert secure.received[0].headers["authentication"] == SECRET


@pytest.mark.parametrize(
    ("ca_bundle", "words"),
    [
        pytest.param(trustme.CA().cert_pem.bytes().decode(), "certificate is not valid", id="another authority"),
        pytest.param("no PEM", "caBundle cannot be read", id="no bundle"),
        pytest.param("", "caBundle is empty", id="an empty bundle"),
    ],
)
def test_certificates_are_verified_once(secure, ca_bundle, words):
    picker = a_picker(secure, scheme="https", ca_bundle=ca_bundle, headers=(token(),), max_retries=3)
    assert words in refusal(picker)
    assert secure.received == []
    assert secure.connections <= 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_tls_is_refused():
    context = secured()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with PickerServer(says(["web-1"]), tls=context) as server:
        assert "TLS failed" in refusal(a_picker(server, scheme="https", ca_bundle=BUNDLE, max_retries=3))
    assert (server.connections, server.received) == (1, [])
