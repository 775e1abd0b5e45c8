"""A run is ended at each of its writes, in three ways; the next ones end where an undisturbed one does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live.end_states import end_state, final_state, lost_scales, unanswered, unseen
from tests.live.stage import Key, Run, Stage
from tests.real import faults
from tests.real.api import Object
from tests.real.proxy import Fault, Request, is_write

WRITES = (46, 11)
"""How many writes the first run on the world of everything.py makes, and how many the second."""

EVERY = 30
"""Of how many writes `make test` takes one, in each way another one; `make soak` takes the others."""


def asked_to_stop(run: Run) -> Fault:
    return faults.before(lambda _: run.signal(signal.SIGTERM))


def numbers(ways: dict[str, Callable[[Run], Fault]]) -> Iterator[Any]:
    """Every write of both runs in each of the ways; the soak marker is on those that `make test` leaves out."""
    for first, (name, way) in enumerate(ways.items()):
        for earlier, count in enumerate(WRITES):
            for number in range(1, count + 1):
                is_taken = (number - 5 * first) % EVERY == 0
                marks = () if is_taken else (pytest.mark.soak, pytest.mark.xdist_group(f"kills-{name}"))
                words = f"{name}-run {earlier + 1}-write {number}"
                yield pytest.param(way, earlier, number, id=words, marks=marks)


def is_renewal(request: Request) -> bool:
    """Whether it keeps a lock that is held: how many there are is a matter of how long a run takes."""
    return request.method == "PATCH" and "/leases/" in request.path and b"holderIdentity" not in request.body


@pytest.fixture(scope="session")
def undisturbed(empty_stage: Stage) -> Callable[[Stage], Any]:
    """What the world is in the end when nothing goes wrong; asked for once."""
    known: list[Any] = []

    def state(stage: Stage) -> Any:
        if not known:
            for expected in WRITES:
                before = len(stage.writes())
                said = stage.apply()
                assert (said.code, said.err) == (0, "")
                written = [request for request in stage.writes()[before:] if not is_renewal(request)]
                assert len(written) == expected
                assert stage.holders() == {"east": "", "west": ""}
                stage.settle()
            known.append(final_state(stage))
            stage.fill()
        return known[0]

    return state


def test_an_undisturbed_run_leaves_no_mark_behind(stage, undisturbed):
    state = undisturbed(stage)
    pods = {name: pod["metadata"] for (_, _, kind, name), pod in state.items() if kind == "Pod"}
    assert list(pods) == ["worker-1-3", "worker-1-4", "worker-1-5", "worker-1-6"]
    assert not any("annotations" in pod or "reconciler/victim" in pod["labels"] for pod in pods.values())
    assert "data" not in state["east", "reconciler", "ConfigMap", "reconciler-journal"]


@pytest.mark.parametrize(("way", "earlier", "number"), list(numbers({"unseen": unseen, "unanswered": unanswered})))
def test_killed_at_a_write_the_next_runs_end_as_an_undisturbed_one(stage, undisturbed, ends, way, earlier, number):
    expected = undisturbed(stage)
    begun = run_before(stage, earlier)
    run = stage.start(*stage.apply_words())
    rule = stage.rule(way(run), at=number, matching=is_write)
    assert run.ended().code == -signal.SIGKILL
    stage.calm()
    assert rule.acted
    assert lost_scales(begun, stage.objects()) == []
    stage.expire_leases()
    assert end_state(stage, begun, ends) == expected


@pytest.mark.parametrize(("way", "earlier", "number"), list(numbers({"SIGTERM": asked_to_stop})))
def test_asked_to_stop_at_a_write_it_reports_and_gives_the_locks_back(stage, undisturbed, ends, way, earlier, number):
    expected = undisturbed(stage)
    begun = run_before(stage, earlier)
    run = stage.start(*stage.apply_words())
    rule = stage.rule(way(run), at=number, matching=is_write)
    said = run.ended()
    assert rule.acted
    assert (said.code, said.err) == (143, "")
    assert "\nApplied: " in said.out
    assert stage.holders() == {"east": "", "west": ""}
    assert lost_scales(begun, stage.objects()) == []
    assert end_state(stage, begun, ends) == expected


def test_the_lock_of_a_dead_run_is_waited_for_and_taken_over(stage, undisturbed, ends):
    expected = undisturbed(stage)
    begun = stage.objects()
    run = stage.start(*stage.apply_words())
    stage.rule(unanswered(run), at=20, matching=is_write)
    assert run.ended().code == -signal.SIGKILL
    stage.calm()
    dead = stage.holders()["east"]
    assert f"process {run.process.pid}" in dead

    stage.settle()
    stage.clear()
    soon = stage.apply("--lock-timeout", "0.5")
    assert soon.code == 7
    assert f"is held by {dead}, expected it free; try again later" in soon.out
    assert [request.path for request in stage.writes() if not request.path.endswith("/leases")] == []

    late = stage.apply("--lock-timeout", "60")
    assert (late.code, late.err) == (0, ""), late.out
    assert stage.holders() == {"east": "", "west": ""}
    assert end_state(stage, begun, ends) == expected


def run_before(stage: Stage, earlier: int) -> dict[Key, Object]:
    """Let that many runs pass, and return the world as it was at first."""
    begun = stage.objects()
    for _ in range(earlier):
        assert stage.apply().code == 0
        stage.settle()
    stage.clear()
    return begun
