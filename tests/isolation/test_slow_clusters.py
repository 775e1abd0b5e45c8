"""A cluster that keeps the run waiting: wakes on the others do not wait with it, nor does anything for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import ExitCode
from reconciler.observe.cluster_readers import TOO_SLOW, Readers
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool
from tests.fakes import Intercepted
from tests.isolation import fleet
from tests.isolation.fleet import AFTER, BEFORE, CLUSTERS, Faults

SICK = "north"
WELL = [name for name in CLUSTERS if name != SICK]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wakes wait for nobody longer than a moment."""
    monkeypatch.setattr("reconciler.observe.cluster_readers.READ_DELAY_SECONDS", 0.1)
    monkeypatch.setattr("reconciler.apply.run_locks.LOCK_DELAY_SECONDS", 0.1)


def until(is_so: Callable[[], bool]) -> bool:
    """Wait until something is so; return whether it is. What is looked at may be replaced meanwhile."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(FileNotFoundError, KeyError):
            if is_so():
                return True
        time.sleep(0.02)
    return is_so()


def is_woken(folder: Path) -> bool:
    found = fleet.replicas(folder)
    return all(found[name]["due"] == 3 and found[name]["asked"] == 4 for name in WELL)


def run(folder: Path, faults: Faults, readers: Readers, **control: Any):
    policies, world = fleet.opened(folder, faults, SICK)
    return fleet.run(policies, replace(world, readers=readers), **control)


@pytest.mark.parametrize(
    ("method", "at"),
    [
        pytest.param("scale_kinds", 0, id="the reading hangs at its beginning"),
        pytest.param("list", 7, id="the reading hangs at a list"),
        pytest.param("list", 14, id="the pods of what shrinks hang, after all lists"),
        pytest.param("query", 0, id="the metrics hang"),
        pytest.param("acquire", 0, id="the lock hangs"),
    ],
)
def test_wakes_on_the_others_are_done_while_a_cluster_hangs(method: str, at: int, tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "world")
    seen: list[bool] = []

    def fault(_: str) -> None:
        seen.append(until(lambda: is_woken(folder)))

    faults = Faults(at, fault, only=method)
    code, applied = run(folder, faults, Readers(WorkerPool()))
    assert seen == [True]
    assert faults.calls.count("list") > 14
    assert code is ExitCode.DONE
    assert fleet.replicas(folder) == dict.fromkeys(CLUSTERS, AFTER)
    assert [action.id for action in applied.plan.actions] == [outcome.action for outcome in applied.outcomes]
    assert len({action.decision.key for action in applied.plan.actions}) == len(applied.plan.actions)


@pytest.mark.parametrize("only", ["scale_kinds", "list", "identity"])
def test_a_cluster_whose_reading_takes_too_long_is_unknown_and_given_up(only: str, tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "world")
    ends = threading.Event()
    reading = TimeLimit()
    faults = Faults(0, lambda _: ends.wait(60), lasts=True, only=only)
    policies, world = fleet.opened(folder, faults, SICK)
    sources = {**world.sources, SICK: replace(world.sources[SICK], reading=reading)}
    readers = Readers(WorkerPool(), seconds=1)
    code, applied = fleet.run(policies, replace(world, sources=sources, readers=readers))
    ends.set()
    assert code is ExitCode.PARTIAL
    assert applied.plan.unknown[SICK] == TOO_SLOW
    assert reading.why == TOO_SLOW
    assert fleet.replicas(folder) == {**dict.fromkeys(WELL, AFTER), SICK: BEFORE}


def test_a_lock_that_hangs_is_left_out_and_given_back_should_it_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.apply.run_locks._LATE_SECONDS", 0.5)
    folder = fleet.write(tmp_path / "world")
    ends = threading.Event()
    faults = Faults(0, lambda _: ends.wait(60), only="acquire")
    code, applied = run(folder, faults, Readers(WorkerPool()), lock_timeout=0.5)
    assert code is ExitCode.PARTIAL
    assert fleet.replicas(folder) == {**dict.fromkeys(WELL, AFTER), SICK: BEFORE}
    assert applied.left_out[SICK].why == "its lock could not be taken in time, no answer about it"
    ends.set()
    assert until(lambda: "release" in faults.calls)
    assert until(lambda: not (folder / "snapshot" / SICK / ".reconciler.lock").exists())


def test_a_write_that_hangs_is_told_as_such_when_the_run_is_stopped(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "world")
    ends, limit = threading.Event(), TimeLimit()
    seen: list[bool] = []

    def fault(_: str) -> None:
        seen.append(until(lambda: all(fleet.replicas(folder)[name] == AFTER for name in WELL)))
        limit.cut("stopped by SIGTERM")
        ends.wait(300)

    began = time.monotonic()
    code, applied = run(folder, Faults(0, fault, only="write"), Readers(WorkerPool(), limit=limit))
    ends.set()
    assert seen == [True], "the others are done by then, whatever hangs"
    assert time.monotonic() - began < 200  # the write alone hangs for longer
    assert code is ExitCode.PARTIAL
    told = [one.message for one in applied.outcomes if one.message]
    assert "stopped by SIGTERM; no answer by then, whether it was done is not known" in told
    assert is_woken(folder)


def test_more_clusters_take_no_more_threads_than_the_pool_has(tmp_path: Path) -> None:
    names = [f"c{number:02}" for number in range(30)]
    folder = fleet.write(tmp_path / "world", names)
    most: list[int] = []
    before = set(threading.enumerate())  # those of earlier pools end meanwhile

    def counted(_: str, call: Callable[[], Any]) -> Any:
        most.append(len(set(threading.enumerate()) - before))
        return call()

    policies, world = fleet.opened(folder)
    sources = {
        name: replace(one, cluster=Intercepted(one.cluster, counted), metrics=Intercepted(one.metrics, counted))
        for name, one in world.sources.items()
    }
    pool = WorkerPool(size=16)
    accesses = {
        name: replace(one, cluster=Intercepted(one.cluster, counted), lock=Intercepted(one.lock, counted), pool=pool)
        for name, one in world.accesses.items()
    }
    world = replace(world, sources=sources, accesses=accesses, readers=Readers(pool))
    code, _ = fleet.run(policies, world)
    assert code is ExitCode.DONE
    assert fleet.replicas(folder) == dict.fromkeys(names, AFTER)
    assert 1 < max(most) <= 16


def test_a_cluster_that_gets_no_thread_while_others_hang_is_read_once_they_are_given_up(tmp_path: Path) -> None:
    names = [f"c{number:02}" for number in range(12)]
    folder = fleet.write(tmp_path / "world", names)
    policies, world = fleet.opened(folder)
    readings = {name: TimeLimit(60) for name in names[:8]}

    class Hanging:
        def __init__(self, name: str) -> None:
            self._name = name

        def scale_kinds(self) -> Any:
            readings[self._name].sleep(60)
            assert readings[self._name].why == TOO_SLOW
            raise TimeoutError("cut")

    hanging = {
        name: replace(world.sources[name], cluster=Hanging(name), reading=reading) for name, reading in readings.items()
    }
    readers = Readers(WorkerPool(size=8), seconds=1)
    code, applied = fleet.run(policies, replace(world, sources={**world.sources, **hanging}, readers=readers))
    assert code is ExitCode.PARTIAL
    assert applied.plan.unknown == dict.fromkeys(readings, TOO_SLOW)
    assert fleet.replicas(folder) == {name: BEFORE if name in readings else AFTER for name in names}


def test_what_never_begins_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """Those that hang do not let go of their threads, although nobody waits for them any more."""
    names = [f"c{number:02}" for number in range(12)]
    folder = fleet.write(tmp_path / "world", names)
    policies, world = fleet.opened(folder)
    ends = threading.Event()

    faults = Faults(0, lambda _: ends.wait(300), lasts=True, only="scale_kinds")
    hanging = {name: replace(one, cluster=faults.of(one.cluster)) for name, one in list(world.sources.items())[:8]}
    readers = Readers(WorkerPool(size=8), seconds=1)
    began = time.monotonic()
    _, applied = fleet.run(policies, replace(world, sources={**world.sources, **hanging}, readers=readers))
    assert time.monotonic() - began < 200  # they hang for longer
    ends.set()
    assert applied.plan.unknown == dict.fromkeys(names, TOO_SLOW)
