"""The actions of a plan, each carried out, skipped, or put off until what it waits for; and the outcome of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from reconciler.apply.access import Access, carried_out
from reconciler.apply.events import PendingEvents
from reconciler.apply.outcomes import Outcome, OutcomeStatus, outcome_of
from reconciler.apply.parallel_actions import ParallelActions
from reconciler.apply.run_locks import LeftOut
from reconciler.apply.scale_down import scale_down
from reconciler.apply.skipped_actions import FreezeCheck, SkippedActions
from reconciler.apply.waits import WaitingActions
from reconciler.errors import ReconcilerError, reason_of
from reconciler.model import Run
from reconciler.plan.json_patch import write_of
from reconciler.plan.model import Action
from reconciler.policy.types import Fleet
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool

OutcomeProgress = Callable[[Action, Outcome], None]


@dataclass
class ActionRuns:
    """The actions of a plan being carried out, in the order of their `ParallelActions`.

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
        freezes = {name: FreezeCheck(access, self.namespace, self.run.now) for name, access in self.accesses.items()}
        self._done: dict[int, Outcome] = {}
        self._begun: set[int] = set()
        self._events = PendingEvents(self.run, self.limit, self.pool)
        self._waiting = WaitingActions(self.actions, self.accesses, self.limit, self._done)
        self._skipped = SkippedActions(self.actions, self.accesses, self.left_out, freezes, self._done)

    def carry_out(self) -> tuple[Outcome, ...]:
        """Carry out all actions, as far as there is time, and return the outcome of each."""
        ParallelActions(
            self.actions,
            self._is_over,
            self.pool,
            lambda cluster, seconds: self.accesses[cluster].limit.sleep(seconds),
        ).carry_out(self.limit)
        unwritten = self._events.written()
        done = dict(self._done)
        return tuple(
            _remarked(done[action.id], unwritten.get(action.id, "")) if action.id in done else self._unfinished(action)
            for action in self.actions
        )

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
            if self.limit.over:
                return self._unfinished(action)
            if any(need not in self._done for need in action.needs):
                return None
            skipped = self._skipped.outcome(action)
            if skipped is None and self._waiting.must_wait(action):
                return None
            return skipped or self._apply_one(action)
        except Exception as error:  # noqa: BLE001 - the one place where an action fails unexpectedly: it alone has failed
            return Outcome(action.id, OutcomeStatus.FAILED, reason_of(error))

    def _apply_one(self, action: Action) -> Outcome:
        late = self._waiting.remark(action)
        self._begun.add(action.id)
        own = self.accesses[action.ref.cluster]
        outcome, access = carried_out(action, own, self.fleet, partial(self._tried, action))
        if outcome.status in (OutcomeStatus.SKIPPED, OutcomeStatus.STALE):
            return outcome
        if self.writes_events:
            self._events.add(action, outcome, access)
        return _remarked(outcome, late)

    def _tried(self, action: Action, access: Access) -> Outcome:
        try:
            if action.decision.downscale is not None:
                return scale_down(action, access, self.run, self.namespace)
            access.cluster.write(write_of(action.decision))
            return Outcome(action.id, OutcomeStatus.APPLIED)
        except ReconcilerError as error:
            return outcome_of(action, error)


def _remarked(outcome: Outcome, remark: str) -> Outcome:
    return (
        replace(outcome, message="; ".join(part for part in (outcome.message, remark) if part)) if remark else outcome
    )
