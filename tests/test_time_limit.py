"""How long something may take."""

from __future__ import annotations

from math import inf

import pytest

from reconciler.time_limit import GRACE_SECONDS, STEP_SECONDS, TimeLimit
from tests.fakes import FakeClock


class CutMeanwhile(FakeClock):
    """Cuts its limit once it is `at`."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at
        self.limit = TimeLimit(clock=self)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.now >= self.at:
            self.limit.cut("stopped")


def test_what_is_within_ends_with_it() -> None:
    clock = FakeClock()
    run = TimeLimit(10, clock)
    request, long = run.within(3), run.within(60)
    assert (run.left(), request.left(), long.left()) == (10, 3, 10)
    clock.sleep(4)
    assert (run.over, request.over, long.over) == (False, True, False)
    run.cut("stopped by SIGTERM")
    assert (run.why, long.why, run.left()) == ("stopped by SIGTERM", "stopped by SIGTERM", 0)


def test_what_is_within_is_cut_alone() -> None:
    run = TimeLimit()
    reading = run.within()
    reading.cut("too slow")
    assert (run.over, run.why, reading.over, reading.why) == (False, "", True, "too slow")


@pytest.mark.parametrize(
    ("seconds", "cut", "left"),
    [
        pytest.param(60, True, GRACE_SECONDS, id="cut"),
        pytest.param(2, True, 2, id="cut, and over by itself before the grace is"),
        pytest.param(0, False, 0, id="over by itself"),
        pytest.param(inf, False, inf, id="going on"),
    ],
)
def test_what_is_in_flight_has_some_seconds_after_a_cut(seconds: float, cut: bool, left: float) -> None:
    run = TimeLimit(seconds, FakeClock())
    in_flight = run.for_what_is_in_flight()
    if cut:
        run.cut("stopped")
    assert in_flight.left() == left


def test_whoever_is_first_is_the_reason() -> None:
    run = TimeLimit(0, ended="--timeout of 0 s reached")
    run.cut("stopped")
    assert run.why == "--timeout of 0 s reached"


def test_a_wait_that_does_not_fit_is_not_begun() -> None:
    clock = FakeClock()
    limit = TimeLimit(10, clock)
    assert limit.wait(9)
    assert not limit.wait(9)
    assert clock.now == pytest.approx(9)
    limit.sleep(9)
    assert clock.now == pytest.approx(10)


@pytest.mark.parametrize("way", ["wait", "sleep", "until"])
def test_a_cut_is_heard_within_a_step(way: str) -> None:
    clock = CutMeanwhile(at=5)
    ways = {"wait": lambda: clock.limit.wait(60), "sleep": lambda: clock.limit.sleep(60)}
    assert not ways.get(way, lambda: clock.limit.until(clock.sleep))()
    assert clock.now <= 5 + STEP_SECONDS
