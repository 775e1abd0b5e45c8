"""Work in a process of its own: its result comes back, and where it fails it is done here."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from reconciler.cli.second_process import beside, in_processes
from reconciler.forecast.timelines import Forecast
from tests.forecast.nights import NIGHTS, REQUESTS, a_deployment, a_service, an_idling_policy, played

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies processes safely")


def test_the_result_is_that_of_another_process() -> None:
    assert beside(os.getpid)() != os.getpid()


@pytest.mark.parametrize("wrong", ["fails", "ends", "cannot be sent"])
def test_what_fails_there_is_done_here(wrong: str) -> None:
    here = os.getpid()

    def work() -> object:
        if os.getpid() == here:
            return "done here"
        if wrong == "ends":
            os._exit(1)
        return 1 // 0 if wrong == "fails" else work

    assert beside(work)() == "done here"


def test_what_is_shared_is_done_once_by_as_many_processes_as_there_are_processors() -> None:
    found = in_processes(lambda items: [(one, os.getpid()) for one in items], range(20))
    assert sorted(one for one, _ in found) == list(range(20))
    assert len({process for _, process in found}) == min(8, len(os.sched_getaffinity(0)))


STARTED = """
import os, signal
from reconciler.cli.run_time_limit import RunLimit, cut_by_signals
from reconciler.cli.second_process import beside
with cut_by_signals(RunLimit(None)):
    beside(lambda: b"more than a pipe holds" * 100_000)
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param("raise SystemExit(3)", 3, id="it fails meanwhile"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, id="it is killed"),
    ],
)
def test_the_process_ends_with_the_one_that_started_it(end: str, code: int) -> None:
    """It has the same stdout, which ends with the last of both."""
    command = [sys.executable, "-c", STARTED.format(end=end)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_an_error_is_that_of_the_work() -> None:
    with pytest.raises(ZeroDivisionError):
        beside(lambda: 1 // 0)()


def test_a_forecast_can_be_sent() -> None:
    criteria = {"anyOf": [NIGHTS, REQUESTS]}
    made = played([an_idling_policy(criteria)], [a_deployment("web"), a_service("web")], days=2)
    sent = pickle.dumps(made)
    assert b"Choice" not in sent  # a plan keeps no choices for what would change them: they are made again
    assert told(pickle.loads(sent)) == told(made)


def told(made: Forecast) -> Forecast:
    """A forecast with what would change each decision, in place of what finds that."""
    found = tuple(replace(one, change=one.change_if) for one in made.first.explanations)
    return replace(made, first=replace(made.first, explanations=found))
