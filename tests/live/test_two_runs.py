"""Two applies at once: each cluster is written by one of them, and one that slept through its lock writes no more."""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.live import everything
from tests.live.stage import Run, Stage
from tests.real import faults
from tests.real.proxy import Proxy, Request, is_write

LEASE = "/apis/coordination.k8s.io/v1/namespaces/reconciler/leases"
HISTORY = "reconciler-history-"
OUTLAST = 60.0
IDLED = re.compile("/namespaces/(dev|ci|floor)/")


def is_work(request: Request) -> bool:
    """Whether it writes something else than the lock, and than the history, which tests what it adds to."""
    is_history = HISTORY in request.path or HISTORY.encode() in request.body
    return is_write(request) and not request.path.startswith(LEASE) and not is_history


@pytest.fixture
def other(stage: Stage) -> Iterator[Stage]:
    """A second run's way to the same clusters, so that it is known who writes what."""
    folder = stage.folder.path / "other"
    folder.mkdir(exist_ok=True)
    with (
        Proxy(stage.planes["east"].access(), folder / "east") as east,
        Proxy(stage.planes["west"].access(), folder / "west") as west,
    ):
        made = Stage.set_up(stage.planes, {"east": east, "west": west}, folder)
        made.write_policies(everything.policies())
        made.clear()
        yield made
        made.stop()


def work(stage: Stage) -> dict[str, int]:
    """How many writes beside the lock each cluster got."""
    return {name: len([one for one in proxy.requests if is_work(one)]) for name, proxy in stage.proxies.items()}


def test_each_cluster_is_written_by_one_of_two_runs(stage, other):
    """The first stands still in its work, with both locks; the second does not wait for it for long."""
    waiting, go_on = threading.Event(), threading.Event()

    def hold(_: Request) -> None:
        waiting.set()
        go_on.wait(OUTLAST)

    stage.rule(faults.before(hold), matching=is_work)
    first = stage.start(*stage.apply_words())
    assert waiting.wait(OUTLAST)
    second = other.start(*other.apply_words("--lock-timeout", "1"))
    said = second.ended()
    assert (said.code, said.err) == (7, "")
    assert f"process {first.process.pid}, " in said.out
    assert "expected it free; try again later" in said.out
    assert work(other) == {"east": 0, "west": 0}
    go_on.set()
    assert first.ended().code == 0
    assert work(stage)["east"] > 20


def test_two_that_start_together_both_end_and_what_is_left_is_nothing(stage, other):
    runs = [stage.start(*stage.apply_words()), other.start(*other.apply_words())]
    codes = [run.ended().code for run in runs]
    assert set(codes) <= {0, 6}, "6 twice: each holds the lock of one cluster"
    assert stage.holders() == {"east": "", "west": ""}
    idled = Counter(
        (name, request.path)
        for one in (stage, other)
        for name, proxy in one.proxies.items()
        for request in proxy.requests
        if request.method == "PATCH" and request.status < 300 and IDLED.search(request.path)
    )
    assert len(idled) > 8
    assert set(idled.values()) == {1}, "written twice"


def test_one_that_slept_through_its_lock_writes_nothing_more_when_it_wakes(stage, other):
    asleep = threading.Event()
    runs: list[Run] = []

    def stop(_: Request) -> None:
        runs[0].signal(signal.SIGSTOP)
        asleep.set()

    runs.append(stage.start(*stage.apply_words()))
    stage.rule(faults.before(stop), at=5, matching=is_work)
    assert asleep.wait(OUTLAST)
    second = other.start(*other.apply_words("--lock-timeout", "60")).ended(120)
    assert second.code in (0, 6), second.out
    assert work(other)["east"] > 0
    stage.calm()
    before = work(stage)
    runs[0].signal(signal.SIGCONT)
    said = runs[0].ended()
    assert said.code == 6, said.out
    assert "the lock was lost, nothing more is written there" in said.out
    assert work(stage) == before
    assert stage.holders() == {"east": "", "west": ""}
