"""The admission webhook over HTTPS: it answers in time, whatever comes, renews its certificate, and ends orderly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import urllib3
from cryptography.hazmat.primitives import serialization

from reconciler.errors import UsageError
from reconciler.model import ObjectRef, Write
from reconciler.picker_webhook.admission_review import ScaleReview
from reconciler.picker_webhook.picker import Result, ReviewAnswer
from reconciler.picker_webhook.webhook import CertificateFiles, Webhook
from reconciler.time_limit import TimeLimit
from tests.picker_webhook.reviews import UID, a_review

EVENT = Write("event", ObjectRef("east", "shop", "Event", "web"), "v1")


class Chooser:
    """In place of what chooses: says what it is told to, and keeps what it was asked and what it told."""

    cluster = "east"

    def __init__(self, choose: Callable[[TimeLimit], ReviewAnswer] = lambda _: ReviewAnswer(Result.PASSED)) -> None:
        self.choose = choose
        self.asked: list[ScaleReview] = []
        self.told: list[Write] = []
        self.begun = 0

    def review(self, review: ScaleReview, limit: TimeLimit) -> ReviewAnswer:
        self.asked.append(review)
        return self.choose(limit)

    def tell(self, event: Write, _: TimeLimit) -> None:
        self.told.append(event)

    def begin(self, _: TimeLimit) -> None:
        self.begun += 1


class HeldChooser(Chooser):
    """Picks when it is told to go on; `entered` says that it was asked."""

    def __init__(self) -> None:
        super().__init__(self._held)
        self.entered, self.go_on = threading.Event(), threading.Event()

    def _held(self, _: TimeLimit) -> ReviewAnswer:
        self.entered.set()
        self.go_on.wait(30)
        return ReviewAnswer(Result.PICKED, "deletes web-0", EVENT)


def write_pair(folder: Path, authority: trustme.CA) -> tuple[str, str]:
    issued = authority.issue_cert("127.0.0.1")
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(folder / "tls.key")
    return str(folder / "tls.crt"), str(folder / "tls.key")


class Play:
    """A webhook that runs while `asked` is called, in a thread of its own."""

    def __init__(self, folder: Path, chooser: Chooser, **settings: Any) -> None:
        self.authority = trustme.CA()
        self.folder, self.chooser = folder, chooser
        self.said: list[str] = []
        self.errors: list[dict[str, Any]] = []
        self.limit = TimeLimit()
        self.webhook = Webhook(
            picker=chooser,  # type: ignore[arg-type]
            files=CertificateFiles(*write_pair(folder, self.authority)),
            limit=self.limit,
            renew=settings.pop("renew", lambda: None),
            tell=self.said.append,
            address="127.0.0.1",
            port=0,
            **{"grace": 0.2, **settings},
        )

    def run(self, asked: Callable[[], object]) -> None:
        async def story() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, found: self.errors.append(found))
            ended = asyncio.Event()
            running = asyncio.get_running_loop().create_task(self.webhook.run(ended))
            while not self.webhook.is_ready:
                await asyncio.sleep(0.005)
            try:
                await asyncio.wait_for(asyncio.to_thread(asked), 60)
            finally:
                ended.set()
                await running

        asyncio.run(story())

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())

    @contextlib.contextmanager
    def connected(self) -> Iterator[ssl.SSLSocket]:
        with (
            socket.create_connection(("127.0.0.1", self.webhook.port), 10) as plain,
            self.trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            yield connection

    def post(self, body: bytes, method: str = "POST", **headers: str) -> urllib3.BaseHTTPResponse:
        with urllib3.PoolManager(ssl_context=self.trust, retries=False, timeout=60) as pool:
            return pool.request(method, f"https://127.0.0.1:{self.webhook.port}/", body=body, headers=headers or None)


def answer(said: urllib3.BaseHTTPResponse) -> dict[str, Any]:
    assert said.status == 200
    response: dict[str, Any] = json.loads(said.data)["response"]
    assert (response["uid"], response["allowed"]) == (UID, True)
    return response


def test_what_was_picked_is_told_and_counted(tmp_path: Path) -> None:
    play = Play(tmp_path, Chooser(lambda _: ReviewAnswer(Result.PICKED, "deletes web-0", EVENT)))
    play.run(lambda: answer(play.post(a_review())))
    assert play.chooser.told == [EVENT]
    assert play.chooser.begun == 1
    text = play.webhook.metrics_text()[1]
    assert 'reconciler_picker_reviews_total{result="picked"} 1\n' in text
    assert "reconciler_picker_review_seconds_count 1\n" in text
    assert "shop/Deployment/web: replicas 6 -> 3: picked: deletes web-0" in play.said


def test_who_asked_is_warned_of_what_nobody_chose(tmp_path: Path) -> None:
    play = Play(tmp_path, Chooser(lambda _: ReviewAnswer(Result.UNPICKED, "no answer", EVENT)))
    said: list[dict[str, Any]] = []
    play.run(lambda: said.append(answer(play.post(a_review()))))
    assert said[0]["warnings"] == ["reconciler chose no pods: no answer"]
    assert 'reconciler_picker_unpicked_total{reason="error"} 1\n' in play.webhook.metrics_text()[1]


@pytest.mark.parametrize(
    ("body", "method", "length", "status"),
    [
        pytest.param(b"{", "POST", "", 400, id="malformed"),
        pytest.param(b"", "POST", "", 400, id="empty"),
        pytest.param(b"", "GET", "", 405, id="not posted"),
        pytest.param(b" " * (9 << 20), "POST", "", 413, id="too large"),
        pytest.param(b"{}", "POST", "9" * 5000, 413, id="a length of thousands of digits"),
    ],
)
def test_what_is_no_review_is_refused(tmp_path: Path, body: bytes, method: str, length: str, status: int) -> None:
    play = Play(tmp_path, Chooser())
    found: list[int] = []

    def asked() -> None:
        try:
            found.append(play.post(body, method, **({"Content-Length": length} if length else {})).status)
        except (
            urllib3.exceptions.ProtocolError,
            urllib3.exceptions.SSLError,
        ):  # closed while a body that is too large is still sent
            found.append(413)

    play.run(asked)
    assert found == [status]
    assert play.chooser.asked == []


def test_a_choice_that_takes_too_long_goes_through_in_time(tmp_path: Path) -> None:
    play = Play(tmp_path, chooser := HeldChooser(), deadline=0.3)

    def asked() -> None:
        assert "no choice within 0.3 s" in answer(play.post(a_review()))["warnings"][0]
        chooser.go_on.set()

    play.run(asked)
    assert 'reconciler_picker_unpicked_total{reason="late"} 1\n' in play.webhook.metrics_text()[1]


def test_the_time_of_a_choice_ends_before_the_deadline(tmp_path: Path) -> None:
    left: list[float] = []

    def noted(limit: TimeLimit) -> ReviewAnswer:
        left.append(limit.left())
        return ReviewAnswer(Result.PASSED)

    play = Play(tmp_path, Chooser(noted))
    play.run(lambda: answer(play.post(a_review())))
    assert 1.0 < left[0] <= 1.4


def test_one_review_too_many_passes_at_once(tmp_path: Path) -> None:
    play = Play(tmp_path, chooser := HeldChooser(), at_once=1, deadline=20.0)

    def asked() -> None:
        first = threading.Thread(target=lambda: answer(play.post(a_review())))
        first.start()
        chooser.entered.wait(60)
        assert "more than 1 reviews" in answer(play.post(a_review()))["warnings"][0]
        chooser.go_on.set()
        first.join()

    play.run(asked)
    assert len(play.chooser.asked) == 1
    assert 'reconciler_picker_unpicked_total{reason="busy"} 1\n' in play.webhook.metrics_text()[1]


def test_many_connections_close_none_of_which_the_review_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.picker_webhook.webhook._MOST_OPEN", 2)
    play = Play(tmp_path, chooser := HeldChooser(), deadline=20.0)
    found: list[dict[str, Any]] = []

    def asked() -> None:
        first = threading.Thread(target=lambda: found.append(answer(play.post(a_review()))))
        first.start()
        chooser.entered.wait(60)
        with contextlib.ExitStack() as stack:
            for _ in range(110):
                stack.enter_context(play.connected()).sendall(b"POST / HTTP/1.1\r\n")
            chooser.go_on.set()
            first.join()

    play.run(asked)
    assert len(found) == 1


def test_large_bodies_fill_no_memory_and_small_ones_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.picker_webhook.webhook._MOST_LARGE_BYTES", 300 << 10)
    play = Play(tmp_path, Chooser())

    def asked() -> None:
        head = f"POST / HTTP/1.1\r\nContent-Length: {200 << 10}\r\n\r\n".encode()
        with play.connected() as first, play.connected() as second:
            first.sendall(head)
            answer(play.post(a_review()))
            second.sendall(head)
            assert second.recv(100).startswith(b"HTTP/1.1 503 ")
            answer(play.post(a_review()))
        answer(play.post(a_review() + b" " * (200 << 10)))

    play.run(asked)


def test_a_connection_is_used_again(tmp_path: Path) -> None:
    play = Play(tmp_path, Chooser())

    def asked() -> None:
        with urllib3.HTTPSConnectionPool("127.0.0.1", play.webhook.port, ssl_context=play.trust, maxsize=1) as pool:
            for _ in range(3):
                answer(pool.request("POST", "/", body=a_review()))
            assert pool.num_connections == 1

    play.run(asked)


def test_a_renewed_certificate_is_read_again_and_a_broken_one_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.picker_webhook.webhook._LOOK_SECONDS", 0.02)
    play = Play(tmp_path, Chooser())

    def until(true: Callable[[], bool]) -> None:
        for _ in range(500):
            if true():
                return
            threading.Event().wait(0.02)
        raise TimeoutError

    def asked() -> None:
        answer(play.post(a_review()))
        (tmp_path / "tls.crt").write_text("nothing")
        until(lambda: any("the former certificate counts" in line for line in play.said))
        assert "reconciler_picker_stale 1\n" in play.webhook.metrics_text()[1]
        answer(play.post(a_review()))
        play.authority = trustme.CA()
        write_pair(tmp_path, play.authority)

        def renewed() -> bool:
            try:
                return play.post(a_review()).status == 200
            except urllib3.exceptions.SSLError:
                return False

        until(renewed)

    play.run(asked)
    assert "reconciler_picker_stale 0\n" in play.webhook.metrics_text()[1]


def test_policies_that_cannot_be_read_again_leave_the_former_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.picker_webhook.webhook._LOOK_SECONDS", 0.02)

    def renew() -> None:
        raise UsageError("policies/all.yaml: broken")

    play = Play(tmp_path, Chooser(), renew=renew)

    def asked() -> None:
        while not play.said or "broken" not in play.said[-1]:
            threading.Event().wait(0.01)
        threading.Event().wait(0.1)
        answer(play.post(a_review()))

    play.run(asked)
    assert sum("the former policies count: policies/all.yaml: broken" in line for line in play.said) == 1


def test_without_a_certificate_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory, expected a certificate and its key in PEM"):
        CertificateFiles(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))


ASK = "import sys; from reconciler.picker_webhook.webhook import CertificateFiles; CertificateFiles(*sys.argv[1:])"


def test_a_key_that_is_encrypted_asks_nobody_for_its_password(tmp_path: Path) -> None:
    """Without a terminal OpenSSL would take it from the standard input."""
    certificate, key = write_pair(tmp_path, trustme.CA())
    made = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    Path(key).write_bytes(made.private_bytes(serialization.Encoding.PEM, form, encryption))
    ask = [sys.executable, "-c", ASK, certificate, key]
    said = subprocess.run(ask, input=b"secret\n", capture_output=True, start_new_session=True)
    assert b"expected a certificate and its key in PEM" in said.stderr


def test_reviews_under_way_end_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.picker_webhook.webhook._DRAIN_SECONDS", 0.1)
    play = Play(tmp_path, chooser := HeldChooser(), grace=60.0)
    found: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: found.append(answer(play.post(a_review()))))

    def asked() -> None:
        asking.start()
        chooser.entered.wait(60)
        threading.Timer(0.5, chooser.go_on.set).start()

    play.run(asked)
    asking.join()
    assert "warnings" not in found[0]
    assert play.chooser.told == [EVENT]
    assert play.webhook.readiness()[0] == 503


def test_events_that_hang_and_connections_that_are_open_do_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.picker_webhook.webhook._EVENT_SECONDS", 90.0)

    class Hanging(Chooser):
        def tell(self, event: Write, limit: TimeLimit) -> None:
            limit.sleep(90)
            assert limit.over, "else the end waited for it"
            super().tell(event, limit)

    play = Play(tmp_path, Hanging(lambda _: ReviewAnswer(Result.UNPICKED, "no answer", EVENT)))
    with urllib3.PoolManager(ssl_context=play.trust, retries=False, timeout=60) as pool:

        def asked() -> None:
            for _ in range(110):
                assert pool.request("POST", f"https://127.0.0.1:{play.webhook.port}/", body=a_review()).status == 200
            assert len(play.webhook._untold) == 100

        play.run(asked)
    assert len(play.chooser.told) <= 2
    assert play.errors == []
