"""Threads for all clusters together."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import wait

import pytest

from reconciler.worker_pool import WorkerPool

LANES = tuple(f"cluster-{number}" for number in range(20))


def test_no_more_threads_than_its_size_and_no_lane_has_more_than_its_share() -> None:
    pool = WorkerPool(size=8, share=3)
    guard = threading.Lock()
    busy: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def work(lane: str) -> None:
        with guard:
            busy[lane] += 1
            busy["all"] += 1
            for key in (lane, "all"):
                most[key] = max(most[key], busy[key])
        threading.Event().wait(0.001)
        with guard:
            busy[lane] -= 1
            busy["all"] -= 1

    futures = [pool.submit(lane, lambda lane=lane: work(lane)) for lane in LANES for _ in range(20)]
    for future in futures:
        future.result(60)
    assert most["all"] <= 8
    assert max(most[lane] for lane in LANES) <= 3


def test_a_lane_that_hangs_keeps_its_share_and_no_more() -> None:
    pool = WorkerPool(size=4, share=2)
    ends = threading.Event()
    hanging = [pool.submit("sick", lambda: ends.wait(60)) for _ in range(50)]
    well = [pool.submit("well", threading.get_ident) for _ in range(50)]
    wait(well, 60)
    assert all(future.done() for future in well)
    assert not any(future.done() for future in hanging)
    ends.set()
    assert all(future.result(60) for future in hanging)


def test_clusters_that_hang_leave_threads_for_others_and_for_what_is_urgent() -> None:
    """However many lanes hang, and however much they have queued."""
    pool = WorkerPool(size=16, share=8)
    ends = threading.Event()
    hanging = [pool.submit(f"sick-{number}", lambda: ends.wait(60)) for number in range(4) for _ in range(10)]
    well = [pool.submit(f"well-{number}", threading.get_ident) for number in range(20)]
    assert not wait(well, 30).not_done
    hanging += [pool.submit(f"more-{number}", lambda: ends.wait(60)) for number in range(50)]
    urgent = [pool.submit("sick-0", threading.get_ident, urgent=True) for _ in range(20)]
    assert not wait(urgent, 30).not_done
    ends.set()
    assert not wait(hanging, 60).not_done


def test_clusters_whose_writes_hang_leave_threads_for_the_writes_of_others() -> None:
    pool = WorkerPool(size=32, share=8)
    ends = threading.Event()
    hanging = [pool.submit(f"sick-{n}", lambda: ends.wait(60), urgent=True) for n in range(4) for _ in range(8)]
    well = [pool.submit(f"well-{number}", threading.get_ident, urgent=True) for number in range(20)]
    assert not wait(well, 30).not_done
    ends.set()
    assert not wait(hanging, 60).not_done


def test_lanes_take_turns() -> None:
    pool = WorkerPool(size=1, share=1)
    begins = threading.Event()
    order: list[str] = []
    pool.submit("first", lambda: begins.wait(60))
    futures = [pool.submit(lane, lambda lane=lane: order.append(lane)) for lane in ("a", "a", "a", "b", "c", "b")]
    begins.set()
    wait(futures, 60)
    assert order == ["a", "b", "c", "a", "b", "a"]


def test_what_is_done_for_each_may_be_asked_for_by_work_of_the_pool_however_small_it_is() -> None:
    pool = WorkerPool(size=2, share=2)

    def work(number: int) -> list[int]:
        return pool.each("lane", lambda inner: number * 10 + inner, range(5), workers=4)

    futures = [pool.submit("lane", lambda number=number: work(number)) for number in range(20)]
    assert [future.result(60) for future in futures] == [[n * 10 + i for i in range(5)] for n in range(20)]


@pytest.mark.parametrize("size", [0, 8])
def test_the_first_error_is_raised_and_nothing_more_is_begun(size: int) -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        raise KeyError(number)

    with pytest.raises(KeyError):
        WorkerPool(size).each("lane", work, range(1000), workers=4)
    assert len(begun) < 20


def test_threads_that_have_nothing_to_do_end_and_none_keeps_the_process() -> None:
    pool = WorkerPool(size=3)
    threads = {pool.submit("lane", threading.current_thread).result(60) for _ in range(10)}
    assert all(thread.daemon for thread in threads)
    for thread in threads:
        thread.join(60)
    assert pool.submit("lane", lambda: 7).result(60) == 7


def no_more_threads(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_the_system_lets_us_have_no_thread_whoever_asks_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    pool = WorkerPool()

    assert pool.submit("east", threading.get_ident).result(0) == threading.get_ident()
    assert pool.each("east", lambda number: 2 * number, range(50), 8) == [2 * number for number in range(50)]


def test_where_the_system_lets_us_have_one_thread_that_does_all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, ends = WorkerPool(), threading.Event()
    first = pool.submit("east", lambda: ends.wait(60) and threading.get_ident())
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    others = [pool.submit("west", threading.get_ident) for _ in range(5)]

    assert not any(one.done() for one in others)
    ends.set()
    assert {one.result(60) for one in others} == {first.result(60)}
    assert first.result() != threading.get_ident()
