"""The Events of a run on what it changed or failed to: they are written once nothing waits for them any more."""

from __future__ import annotations

from concurrent.futures import wait
from functools import partial

from reconciler.apply.access import Access
from reconciler.apply.events import event_of, failure_event
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.errors import NotFoundError, reason_of
from reconciler.model import Run
from reconciler.plan.model import Action
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool


class PendingEvents:
    """What is to be said of the actions of a run. Each thread adds its own action; it is written once all are over."""

    def __init__(self, run: Run, limit: TimeLimit, pool: WorkerPool) -> None:
        self._run = run
        self._limit = limit
        self._pool = pool
        self._pending: dict[int, tuple[Action, Outcome, Access]] = {}

    def add(self, action: Action, outcome: Outcome, access: Access) -> None:
        """Remember what is to be said of `action`, where something is, by whoever has `access`."""
        if action.decision.event and (outcome.status is OutcomeStatus.APPLIED or outcome.event):
            self._pending[action.id] = action, outcome, access

    def written(self) -> dict[int, str]:
        """Write them, and return by action why one was not written."""
        pending, self._pending = self._pending, {}  # they know of this run: let go, all of it goes with its last reader
        futures = {
            number: self._pool.submit(one[0].ref.cluster, partial(self._written, *one), urgent=True)
            for number, one in pending.items()
        }
        limit, waiting = self._limit.for_what_is_in_flight(), set(futures.values())
        while waiting and not limit.over:
            _, waiting = wait(waiting, limit.step())
        late = f"no Event was written: {limit.why}"
        return {
            number: late if future.cancel() or not future.done() else future.result()
            for number, future in futures.items()
        }

    def _written(self, action: Action, outcome: Outcome, access: Access) -> str:
        """Write one; return why it was not written, "" where all is well: no action fails for that."""
        event = failure_event(action, self._run, outcome) if outcome.event else event_of(action, self._run)
        try:
            access.cluster.write(event)
        except NotFoundError:
            return ""  # its namespace is not there, which is why it failed
        except Exception as error:  # noqa: BLE001 - whatever it is, the action itself was done
            return f"no Event was written: {reason_of(error)}"
        return ""
