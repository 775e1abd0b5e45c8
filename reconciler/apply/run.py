"""Plan and backends -> outcomes. Every action is one write that tests what it rests on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count

from msgspec.structs import replace

from reconciler.apply.access import Access, tenant_of, wakes_as_recorded
from reconciler.apply.cluster_locks import LeftOut
from reconciler.apply.events import event_of, failure_event
from reconciler.apply.outcomes import Outcome, OutcomeStatus, outcome_of
from reconciler.apply.scale_down import scale_down
from reconciler.apply.schedule import Schedule
from reconciler.apply.waits import WaitingActions
from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.freeze import CONFIG_MAP, freeze_reason, freezes_in_force, unreadable
from reconciler.errors import LockLostError, NotFoundError, ReconcilerError, reason_of
from reconciler.model import Run
from reconciler.plan.json_patch import write_of
from reconciler.plan.model import Action
from reconciler.policy.types import Fleet, Freeze, Writes
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool

OutcomeProgress = Callable[[Action, Outcome], None]


@dataclass
class ActionRuns:
    """The actions of a plan being carried out, in the order of their `Schedule`.

    `left_out` maps a cluster to the reason why nothing may be written there. `fleet` says which tenants have
    ServiceAccounts, None: everything is written as ourselves.
    """

    actions: Sequence[Action]
    accesses: Mapping[str, Access]
    run: Run
    namespace: str
    limit: TimeLimit
    progress: OutcomeProgress = lambda _, __: None
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    pool: WorkerPool = field(default_factory=lambda: WorkerPool(0))
    fleet: Fleet | None = None
    writes_events: bool = True

    def __post_init__(self) -> None:
        # A group is left out whole where one of its clusters may not be written to.
        self._barred = {
            action.decision.group: self.left_out[action.ref.cluster].of(action.ref.cluster)
            for action in self.actions
            if action.ref.cluster in self.left_out
        }
        self._refs = {action.id: action.ref for action in self.actions}
        self._freezes = FreezeCheck(self.accesses, self.namespace, self.run.now)
        self._done: dict[int, Outcome] = {}
        self._begun: set[int] = set()
        self._events: dict[int, Callable[[], str]] = {}  # by the action's id, what writes its Event
        self._waiting = WaitingActions(self.actions, self.accesses, self.limit, self._done)

    def carry_out(self) -> tuple[Outcome, ...]:
        """Carry out all actions, as far as there is time, and return the outcome of each."""
        Schedule(
            self.actions,
            self._is_over,
            self.pool,
            lambda cluster, seconds: self.accesses[cluster].limit.sleep(seconds),
        ).carry_out(self.limit)
        unwritten = self._write_events()
        done = dict(self._done)
        return tuple(
            _remarked(done[action.id], unwritten.get(action.id, "")) if action.id in done else self._unfinished(action)
            for action in self.actions
        )

    def _write_events(self) -> dict[int, str]:
        """Write the Events, now that nothing waits for them any more; return by action why one was not written."""
        events, self._events = self._events, {}  # they know of this run: let go, all of it goes with its last reader
        futures = {
            number: self.pool.submit(self._refs[number].cluster, write, urgent=True) for number, write in events.items()
        }
        limit, waiting = self.limit.for_what_is_in_flight(), set(futures.values())
        while waiting and not limit.over:
            _, waiting = wait(waiting, limit.step())
        late = f"no Event was written: {limit.why}"
        return {
            number: late if future.cancel() or not future.done() else future.result()
            for number, future in futures.items()
        }

    def _unfinished(self, action: Action) -> Outcome:
        """Return the outcome of an action that was not over when the run had to end."""
        if action.id in self._begun:
            why = f"{self.limit.why}; no answer by then, whether it was done is not known"
            return Outcome(action.id, OutcomeStatus.FAILED, why)
        return Outcome(action.id, OutcomeStatus.SKIPPED, self.limit.why)

    def _is_over(self, action: Action) -> bool:
        """Carry out an action, and return whether it is over: else it waits."""
        outcome = self._outcome(action)
        if outcome is not None:
            self._done[action.id] = outcome
            self.progress(action, outcome)
        return outcome is not None

    def _outcome(self, action: Action) -> Outcome | None:
        """Return what became of an action; None: it waits for others to be ready, or for what it needs elsewhere."""
        try:
            if not self.limit.over and any(need not in self._done for need in action.needs):
                return None
            skipped = self._skipped(action)
            if skipped is None and self._waiting.must_wait(action):
                return None
            return skipped or self._apply_one(action)
        except Exception as error:  # noqa: BLE001 - the one place where an action fails unexpectedly: it alone has failed
            return Outcome(action.id, OutcomeStatus.FAILED, reason_of(error))

    def _skipped(self, action: Action) -> Outcome | None:
        """Return why an action is not even tried, None where it is."""
        skipped = partial(Outcome, action.id, OutcomeStatus.SKIPPED)
        if self.limit.over:
            return skipped(self.limit.why)
        barred = self._barred.get(action.decision.group)
        if barred is not None:
            return skipped(barred.why, locked=barred.held)
        if not self.accesses[action.ref.cluster].lock.held():
            return skipped(str(LockLostError(action.ref.cluster)))
        for need in action.needs:
            before = self._done.get(need)
            if before is None or before.status is not OutcomeStatus.APPLIED:
                tenant = "" if before is None else before.tenant
                return skipped(f"needs {self._refs[need]}, which was not applied", tenant=tenant)
        frozen = self._freezes.why_not(action.decision)
        return skipped(frozen) if frozen else None

    def _apply_one(self, action: Action) -> Outcome:
        late = self._waiting.remark(action)
        self._begun.add(action.id)
        access = self.accesses[action.ref.cluster]
        own = access.of(action.decision, self.fleet)
        outcome = self._tried(action, own)
        forbidden = outcome.failure.forbidden if outcome.failure else ""
        tenant = tenant_of(action.decision, self.fleet) if forbidden else None
        if tenant is not None and wakes_as_recorded(action.decision):
            own = access  # whatever a tenant does with its rights, what is idle wakes
            outcome = self._tried(action, own)
        elif tenant is not None and forbidden == "write":
            who = f"as serviceAccount {tenant.service_account} of tenant {tenant.name}, at {tenant.place}"
            fault = "" if action.decision.phase is Phase.WAKE else tenant.name  # what stays down is ours to tell
            outcome = replace(outcome, message=f"{outcome.message}; {who}", tenant=fault)
        if outcome.status in (OutcomeStatus.SKIPPED, OutcomeStatus.STALE):
            return outcome
        tells = self.writes_events and action.decision.event
        if tells and (outcome.status is OutcomeStatus.APPLIED or outcome.event):
            self._events[action.id] = partial(self._write_event, action, outcome, own)
        return _remarked(outcome, late)

    def _tried(self, action: Action, access: Access) -> Outcome:
        """Carry out an action, and return what became of it."""
        try:
            if action.decision.downscale is not None:
                return scale_down(action, access, self.run, self.namespace)
            access.cluster.write(write_of(action.decision))
            return Outcome(action.id, OutcomeStatus.APPLIED)
        except ReconcilerError as error:
            return outcome_of(action, error)

    def _write_event(self, action: Action, outcome: Outcome, access: Access) -> str:
        """Write the Event of an action that was applied, or failed; one that cannot be written is not worth failing
        for.

        Return why one was not written, "" where all is well.
        """
        event = failure_event(action, self.run, outcome) if outcome.event else event_of(action, self.run)
        try:
            access.cluster.write(event)
        except NotFoundError:
            return ""  # its namespace is not there, which is why it failed
        except Exception as error:  # noqa: BLE001 - whatever it is, the action itself was done
            return f"no Event was written: {reason_of(error)}"
        return ""


def _remarked(outcome: Outcome, remark: str) -> Outcome:
    return (
        replace(outcome, message="; ".join(part for part in (outcome.message, remark) if part)) if remark else outcome
    )


BATCH = 20
"""How many writes on a cluster one reading of its freezes is good for; as many more may begin while it is read anew."""

_FREEZE_SECONDS = 5.0
"""And for how long."""


class FreezeCheck:
    """Says of each write whether it may still be made; wakes always may."""

    def __init__(self, accesses: Mapping[str, Access], namespace: str, now: datetime) -> None:
        self._accesses = accesses
        self._namespace = namespace
        self._now = now
        self._reading = {cluster: threading.Lock() for cluster in accesses}
        self._writes = {cluster: count() for cluster in accesses}
        # By cluster what was read, for the writes below which number that is good, and for how long.
        self._read: dict[str, tuple[tuple[Freeze, ...], int, TimeLimit]] = {
            cluster: ((), 0, TimeLimit(0)) for cluster in accesses
        }

    def why_not(self, decision: Decision) -> str:
        """Return why `decision` may not be carried out any more, "" where it may."""
        if decision.writes is not Writes.EVERYTHING:
            return ""
        ref = decision.ref
        found = next(
            (freeze for freeze in self._freezes(ref.cluster) if freeze.covers(ref.cluster, ref.namespace)), None
        )
        return "" if found is None else f"{ref.cluster}: {freeze_reason(found)}"

    def _freezes(self, cluster: str) -> tuple[Freeze, ...]:
        number = next(self._writes[cluster])
        freezes, below, limit = self._read[cluster]
        must_wait = limit.over or number >= below + BATCH
        if (must_wait or number >= below) and self._reading[cluster].acquire(blocking=must_wait):
            try:
                freezes, below, limit = self._read[cluster]  # somebody may have read it meanwhile
                if limit.over or number >= below:
                    freezes = self._asked(cluster)
                    self._read[cluster] = freezes, number - number % BATCH + BATCH, TimeLimit(_FREEZE_SECONDS)
            finally:
                self._reading[cluster].release()
        return freezes

    def _asked(self, cluster: str) -> tuple[Freeze, ...]:
        try:
            found = self._accesses[cluster].cluster.get(CONFIG_MAPS, self._namespace, CONFIG_MAP)
        except NotFoundError:
            return ()
        except Exception as error:  # noqa: BLE001 - whatever it is: what cannot be read counts as frozen
            return (unreadable(reason_of(error)),)
        return freezes_in_force(found.data, self._now)
