"""The locks of the clusters that a plan writes to, always taken in one order, so that nobody waits in a circle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from reconciler.apply.outcomes import Access
from reconciler.backends.stop import Stop
from reconciler.errors import ClusterError, LockHeldError
from reconciler.plan.actions import Plan

_STEP_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why nothing may be written to a cluster. `held`: somebody has its lock; else nobody could ask for it."""

    why: str
    held: bool = True


@contextmanager
def locked(
    accesses: Mapping[str, Access], plan: Plan, timeout_seconds: float, stop: Stop
) -> Iterator[dict[str, LeftOut]]:
    """Hold the locks of the clusters that `plan` writes to; yields cluster -> why, for those that could not be taken.

    The yielded mapping names every other cluster of `accesses` too: nothing may be written where no lock is held.
    """
    wanted = {action.ref.cluster for action in plan.actions}
    unforeseen = LeftOut("changed since the plan, no lock was taken for it")
    left_out = {name: unforeseen for name in accesses if name not in wanted}
    taken: list[Access] = []
    try:
        for name in sorted(wanted, key=lambda name: (plan.clusters.get(name, ""), name)):
            why = _take(accesses.get(name), timeout_seconds, taken, stop)
            if why is not None:
                left_out[name] = why
        yield left_out
    finally:
        _release(taken)


def _release(taken: Sequence[Access]) -> None:
    """Give the locks back side by side: a cluster that hangs must not keep the others' locks, nor the end waiting."""
    if taken:
        with ThreadPoolExecutor(max_workers=len(taken)) as pool:
            for released in [pool.submit(access.lock.release) for access in taken]:
                released.result()


def _take(access: Access | None, timeout_seconds: float, taken: list[Access], stop: Stop) -> LeftOut | None:
    """Take one lock, in short steps, so that a stop is heard; return why it could not be taken, None where it was."""
    if access is None:
        return LeftOut("it cannot be reached", held=False)
    steps = max(1, math.ceil(timeout_seconds / _STEP_SECONDS))
    why = ""
    for _ in range(steps):
        if stop.asked:
            return LeftOut(stop.why)
        try:
            access.lock.acquire(min(_STEP_SECONDS, timeout_seconds))
        except LockHeldError as error:
            why = str(error)
            continue
        except ClusterError as error:
            return LeftOut(str(error), held=False)
        taken.append(access)
        return None
    return LeftOut(why)
