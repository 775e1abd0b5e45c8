"""One writer at a time, within a process and between two."""

from __future__ import annotations

import pytest

from reconciler.errors import LockHeldError
from reconciler.time_limit import TimeLimit


def test_a_lock_is_held_until_it_is_given_back_and_who_has_it_may_ask_again(place):
    lock = place.lock("first")
    assert lock.held() is False
    for _ in range(2):
        lock.acquire(TimeLimit(0))
        assert lock.held() is True
    lock.release()
    assert lock.held() is False


def test_the_second_is_told_who_holds_it(place):
    first, second = place.lock("run 3f2c on host a"), place.lock("second")
    first.acquire(TimeLimit(0))
    with pytest.raises(LockHeldError, match="run 3f2c on host a"):
        second.acquire(TimeLimit(0))
    assert (first.held(), second.held()) == (True, False)
    second.release()
    assert first.held() is True
    first.release()
    second.acquire(TimeLimit(0))
    assert second.held() is True
    second.release()
