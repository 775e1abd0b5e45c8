"""Plan and backends -> outcomes. Every action is one write that tests what it rests on.

Clusters are written to side by side: what of a plan comes before what is `Precedence`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate, takewhile
from queue import Empty, SimpleQueue

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.apply.events import event_of, failure_event
from reconciler.apply.identity import account_of, tenant_of, wakes_as_recorded
from reconciler.apply.locks import FreezeCheck, LeftOut
from reconciler.apply.outcomes import Access, Outcome, OutcomeStatus, failed
from reconciler.apply.readiness import POLL_SECONDS, Acceptance, Readiness
from reconciler.apply.scale_down import shrink
from reconciler.decide.decisions import Decision, Phase, Verb
from reconciler.errors import (
    AlreadyExistsError,
    LockLostError,
    NotFoundError,
    ReconcilerError,
    StaleError,
    StoppedError,
    reason_of,
)
from reconciler.model import Run
from reconciler.plan.model import Action, write_of
from reconciler.policy.types import Fleet
from reconciler.time_limit import GRACE_SECONDS, STEP_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool


def group_sequences(actions: Sequence[Action]) -> list[Sequence[Action]]:
    """Return the groups of a plan, each in the plan's order: in it every action waits for the one before.

    So placement raises on one cluster before it shrinks on another.
    """
    groups: dict[str, list[Action]] = {}
    for action in actions:
        groups.setdefault(action.decision.group, []).append(action)
    return list(groups.values())


class Precedence:
    """Which phases of `groups` are under way on each cluster: there an action waits for the earlier ones of all groups.

    What still waits for another cluster, because its group has something to do there first, is not under way, so that
    nothing waits for a cluster that hangs but the groups that write to it. What its group puts behind a later phase
    counts as of that phase: else both would wait for each other.
    """

    def __init__(self, groups: Iterable[Sequence[Action]]) -> None:
        self._phases: dict[int, int] = {}
        self._under_way: dict[str, Counter[int]] = {}
        for actions in groups:
            phases = accumulate((int(action.decision.phase) for action in actions), max)
            self._phases |= {action.id: phase for action, phase in zip(actions, phases, strict=True)}
            self.enter(actions)

    def enter(self, actions: Sequence[Action]) -> None:
        """Note that what a group does first, as far as it goes on one cluster, waits for nothing elsewhere any more."""
        cluster = actions[0].ref.cluster
        here = takewhile(lambda action: action.ref.cluster == cluster, actions)
        self._under_way.setdefault(cluster, Counter()).update(self._phases[action.id] for action in here)

    def may_begin(self, action: Action) -> bool:
        """Return whether nothing of an earlier phase is under way on its cluster."""
        return min(self._under_way[action.ref.cluster]) >= self._phases[action.id]

    def leave(self, action: Action) -> bool:
        """Note that an action is over; return whether its phase is over on its cluster with it."""
        phases, phase = self._under_way[action.ref.cluster], self._phases[action.id]
        phases[phase] -= 1
        if phases[phase]:
            return False
        del phases[phase]
        return True


TIER_WAIT_SECONDS = 600.0

OutcomeProgress = Callable[[Action, Outcome], None]


def no_progress(_: Action, __: Outcome) -> None:
    """Report to nobody."""


class Applying(Struct, frozen=True):
    """What one apply works with. `left_out` maps a cluster to the reason why nothing may be written there.

    `fleet` says which tenants have ServiceAccounts, None: everything is written as ourselves.
    """

    accesses: Mapping[str, Access]
    run: Run
    namespace: str
    limit: TimeLimit
    progress: OutcomeProgress
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    pool: WorkerPool = field(default_factory=lambda: WorkerPool(0))
    fleet: Fleet | None = None

    def access(self, decision: Decision) -> Access:
        """Return how the object of `decision` is written to, and as whom."""
        found, account = self.accesses[decision.ref.cluster], account_of(decision, self.fleet)
        return found if account is None else replace(found, cluster=found.cluster.writing_as(account))


class _Work(Struct, frozen=True):
    """The plan being carried out: what became of its actions so far, and the groups that are left alone.

    `tiers` are the wakes of each wake tier in their order, `ready` says how many of them, from the first, nobody need
    wait for any more. `waits` says how long an action waits for its tier, and for how many seconds that was; `begun`
    which were tried.
    `recorded` are the Services whose connections an activator is to accept, by the ids of the actions that say so.
    """

    applying: Applying
    barred: Mapping[str, LeftOut]
    freezes: FreezeCheck
    tiers: Mapping[str, Sequence[Action]]
    ready: dict[str, int] = field(default_factory=dict)
    done: dict[int, Outcome] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    waits: dict[int, tuple[TimeLimit, float]] = field(default_factory=dict)
    readiness: Readiness = field(default_factory=Readiness)
    acceptance: Acceptance = field(default_factory=Acceptance)
    recorded: Mapping[int, Action] = field(default_factory=dict)


def apply_actions(actions: Sequence[Action], applying: Applying) -> tuple[Outcome, ...]:
    """Carry out `actions` and return an outcome for each, in their order.

    Groups go side by side, each in its own order, and each cluster phase by phase; what waits occupies no thread.
    """
    freezes = FreezeCheck(applying.accesses, applying.namespace, applying.run.now)
    recorded = {action.id: action for action in actions if action.decision.phase is Phase.ANNOTATE}
    work = _Work(applying, _barred(actions, applying.left_out), freezes, _tiers(actions), recorded=recorded)
    groups = group_sequences(actions)
    _GroupRuns(work, Precedence(groups)).carry_out(groups)
    done = dict(work.done)
    return tuple(done.get(action.id) or _unfinished(action, work) for action in actions)


def _tiers(actions: Iterable[Action]) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = {}
    for action in actions:
        if action.decision.wake_tier:
            found.setdefault(action.decision.wake_tier, []).append(action)
    return found


def _unfinished(action: Action, work: _Work) -> Outcome:
    """Return the outcome of an action that was not over when the run had to end."""
    if action.id in work.begun:
        why = f"{work.applying.limit.why}; no answer by then, whether it was done is not known"
        return Outcome(action.id, OutcomeStatus.FAILED, why)
    return Outcome(action.id, OutcomeStatus.SKIPPED, work.applying.limit.why)


class _Rest(Struct, frozen=True):
    """Which actions of a group are over, and what is left of it; `waits`: its first waits for others to be ready.

    `cluster` is where those that are over were carried out.
    """

    cluster: str
    over: Sequence[Action]
    left: Sequence[Action]
    waits: bool = False


class _GroupRuns:
    """The groups of a plan, each at one action at a time, in a thread of that action's cluster.

    What may begin does so in the plan's order, which without threads is the order of all actions.
    """

    def __init__(self, work: _Work, precedence: Precedence) -> None:
        self._work = work
        self._precedence = precedence
        self._ready: list[tuple[int, Sequence[Action]]] = []  # a heap: the id of the first, and the actions
        self._running = 0
        self._ended: SimpleQueue[Future[_Rest]] = SimpleQueue()
        self._waiting: list[Sequence[Action]] = []  # for others to be ready
        self._held: dict[str, list[Sequence[Action]]] = {}  # by earlier phases, by their cluster
        self._looks = TimeLimit(0)

    def carry_out(self, groups: Sequence[Sequence[Action]]) -> None:
        """Return when all actions are over, or the run is to end and what is in flight had its time."""
        limit = self._work.applying.limit
        for actions in groups:
            self._go_on(actions)
        while self._ready or ((self._running or self._waiting) and limit.left(GRACE_SECONDS) > 0):
            if self._ready:
                self._begin(heappop(self._ready)[1])
            else:
                self._end_one()

    def _go_on(self, actions: Sequence[Action]) -> None:
        """Let `actions` begin as soon as nothing comes before them."""
        if self._precedence.may_begin(actions[0]):
            heappush(self._ready, (actions[0].id, actions))
        else:
            self._held.setdefault(actions[0].ref.cluster, []).append(actions)

    def _begin(self, actions: Sequence[Action]) -> None:
        self._running += 1
        work = partial(_advanced, actions, self._work)
        future = self._work.applying.pool.submit(actions[0].ref.cluster, work, urgent=True)
        future.add_done_callback(self._ended.put)
        with suppress(Empty):
            self._end(self._ended.get_nowait())

    def _end_one(self) -> None:
        """See what became of whoever ends next; those who wait look again from time to time."""
        looks = self._looks.over
        if self._running:
            with suppress(Empty):
                self._end(self._ended.get(timeout=STEP_SECONDS))
        elif self._waiting:
            self._work.applying.accesses[self._waiting[0][0].ref.cluster].limit.sleep(POLL_SECONDS)
            looks = True
        if self._waiting and looks:
            waiting, self._waiting = self._waiting, []
            self._looks = TimeLimit(POLL_SECONDS)
            for actions in waiting:
                self._go_on(actions)

    def _end(self, ended: Future[_Rest]) -> None:
        rest = ended.result()
        self._running -= 1
        if rest.left and rest.left[0].ref.cluster != rest.cluster:
            self._precedence.enter(rest.left)
        freed = [action.ref.cluster for action in rest.over if self._precedence.leave(action)]
        for actions in [held for cluster in freed for held in self._held.pop(cluster, ())]:
            self._go_on(actions)
        if rest.waits:
            self._waiting.append(rest.left)
        elif rest.left:
            self._go_on(rest.left)


def _barred(actions: Iterable[Action], left_out: Mapping[str, LeftOut]) -> dict[str, LeftOut]:
    """Return the groups that are left out whole, because one of their clusters may not be written to."""
    return {
        action.decision.group: left_out[action.ref.cluster].of(action.ref.cluster)
        for action in actions
        if action.ref.cluster in left_out
    }


def _advanced(actions: Sequence[Action], work: _Work) -> _Rest:
    """Carry out what stands first in `actions`, one phase on one cluster, and return what is left of them."""
    cluster, phase = actions[0].ref.cluster, actions[0].decision.phase
    for position, action in enumerate(actions):
        over, left = actions[:position], actions[position:]
        if (action.ref.cluster, action.decision.phase) != (cluster, phase):
            return _Rest(cluster, over, left)
        outcome = _outcome(action, work)
        if outcome is None:
            return _Rest(cluster, over, left, waits=True)
        work.done[action.id] = outcome
        work.applying.progress(action, outcome)
    return _Rest(cluster, actions, ())


def _outcome(action: Action, work: _Work) -> Outcome | None:
    """Return what became of an action, None where it waits for others to be ready, or for what it needs elsewhere."""
    try:
        if not work.applying.limit.over and any(need not in work.done for need in action.needs):
            return None
        why = _why_not(action, work)
        if why is None and _waits(action, work):
            return None
        return why or _apply_one(action, work)
    except Exception as error:  # noqa: BLE001 - the one place where an action fails unexpectedly: it alone has failed
        return Outcome(action.id, OutcomeStatus.FAILED, reason_of(error))


def _why_not(action: Action, work: _Work) -> Outcome | None:
    """Return why an action is not even tried, None where it is."""
    if work.applying.limit.over:
        return Outcome(action.id, OutcomeStatus.SKIPPED, work.applying.limit.why)
    barred = work.barred.get(action.decision.group)
    if barred is not None:
        return Outcome(action.id, OutcomeStatus.SKIPPED, barred.why, locked=barred.held)
    missing = [
        need for need in action.needs if need not in work.done or work.done[need].status is not OutcomeStatus.APPLIED
    ]
    if missing:
        why, before = f"needs action {missing[0]}, which was not applied", work.done.get(missing[0])
        return Outcome(action.id, OutcomeStatus.SKIPPED, why, tenant="" if before is None else before.tenant)
    if not work.applying.accesses[action.ref.cluster].lock.held():
        why = f"{action.ref.cluster}: the lock was lost, nothing more is written there"
        return Outcome(action.id, OutcomeStatus.SKIPPED, why)
    frozen = work.freezes.why_not(action.decision)
    return Outcome(action.id, OutcomeStatus.SKIPPED, frozen) if frozen else None


def _apply_one(action: Action, work: _Work) -> Outcome:
    late = _late(action, work) or _unaccepted(action, work)
    work.begun.add(action.id)
    applying = work.applying
    outcome = _tried(action, applying)
    tenant = tenant_of(action.decision, applying.fleet) if outcome.forbidden else None
    if tenant is not None and wakes_as_recorded(action.decision):
        applying = replace(applying, fleet=None)  # whatever a tenant does with its rights, what is idle wakes
        outcome = _tried(action, applying)
    elif tenant is not None and outcome.forbidden == "write":
        words = (
            f"{outcome.message}; as serviceAccount {tenant.service_account} of tenant {tenant.name}, at {tenant.place}"
        )
        fault = "" if action.decision.phase is Phase.WAKE else tenant.name  # what stays down is ours to tell
        outcome = replace(outcome, message=words, tenant=fault)
    if outcome.status in (OutcomeStatus.SKIPPED, OutcomeStatus.STALE):
        return outcome
    untold = _tell(action, outcome, applying)
    return replace(outcome, message="; ".join(part for part in (outcome.message, late, untold) if part))


def _tried(action: Action, applying: Applying) -> Outcome:
    """Carry out an action, and return what became of it."""
    try:
        return _carry_out(action, applying)
    except (StoppedError, LockLostError) as error:
        return Outcome(action.id, OutcomeStatus.SKIPPED, str(error))
    except (StaleError, NotFoundError, AlreadyExistsError) as error:
        if not _has_no_namespace(action, error):
            return Outcome(action.id, OutcomeStatus.STALE, str(error))
        return Outcome(action.id, OutcomeStatus.FAILED, str(error), refused=True)
    except ReconcilerError as error:
        return failed(action.id, error)


def _has_no_namespace(action: Action, error: ReconcilerError) -> bool:
    """Return whether a create failed for want of its namespace: that is a refusal, which does not mend itself.

    Source: seed federated-replicasets.md, E1.
    """
    return isinstance(error, NotFoundError) and action.decision.verb is Verb.CREATE


def _carry_out(action: Action, applying: Applying) -> Outcome:
    access = applying.access(action.decision)
    if action.decision.downscale is not None:
        return shrink(action.id, action.decision, access, applying.run, applying.namespace)
    access.cluster.write(write_of(action.decision))
    return Outcome(action.id, OutcomeStatus.APPLIED)


def _tell(action: Action, outcome: Outcome, applying: Applying) -> str:
    """Write the Event of an action that was applied, or failed; one that cannot be written is not worth failing for.

    Return why one was not written, "" where all is well.
    """
    if not action.decision.event or not (outcome.status is OutcomeStatus.APPLIED or outcome.failure):
        return ""
    event = failure_event(action, applying.run, outcome) if outcome.failure else event_of(action, applying.run)
    try:
        applying.access(action.decision).cluster.write(event)
    except NotFoundError:
        return ""  # its namespace is not there, which is why it failed
    except Exception as error:  # noqa: BLE001 - whatever it is, the action itself was done
        return f"no Event was written: {reason_of(error)}"
    return ""


def _waits(action: Action, work: _Work) -> bool:
    """Return whether the action still waits for others to be ready.

    It does for ten minutes at most, and for no more than half of what the run has left, so that the wake is done in it.
    """
    if action.decision.wait_activator and _is_unaccepted(action, work):
        return True
    if _first_not_ready(action.wait_ready, work) is None:
        work.waits.pop(action.id, None)
        return False
    if action.id not in work.waits:
        seconds = min(TIER_WAIT_SECONDS, work.applying.limit.left() / 2)
        work.waits[action.id] = work.applying.accesses[action.ref.cluster].limit.within(seconds), seconds
    return not work.waits[action.id][0].over


def _is_unaccepted(action: Action, work: _Work) -> bool:
    """Return whether an activator is still waited for: what was recorded as idle in this run is not accepted yet."""
    cluster = action.ref.cluster
    outcomes = tuple(work.done.values())
    applied = (one.action for one in outcomes if one.status is OutcomeStatus.APPLIED and one.action in work.recorded)
    done = (work.recorded[one] for one in applied)
    services = frozenset(one.ref for one in done if one.ref.cluster == cluster)
    return work.acceptance.is_waited_for(services, work.applying.accesses[cluster])


def _unaccepted(action: Action, work: _Work) -> str:
    """Return the remark on an action that went on although no activator accepts the connections of its Services."""
    if not action.decision.wait_activator:
        return ""
    needed = {work.recorded[need].ref for need in action.needs if need in work.recorded}
    missing = sorted(needed & work.acceptance.missing(action.ref.cluster))
    return f"went on without an activator: it has no EndpointSlice for {missing[0]} yet" if missing else ""


def _late(action: Action, work: _Work) -> str:
    """Return the remark on an action that went on although what it waited for was not ready."""
    if action.id not in work.waits:
        return ""
    waiting = _first_not_ready(action.wait_ready, work)
    waited = f"{work.waits[action.id][1] / 60:.3g} minutes"
    return "" if waiting is None else f"went on after {waited}, {waiting.ref} of the tier below not ready yet"


def _first_not_ready(tier: str, work: _Work) -> Action | None:
    """Return the first action of a wake tier that is to be waited for, None where there is none (any more).

    What nobody need wait for stays so: whoever asks goes on where the last one stopped, not from the beginning.
    """
    inside = work.tiers.get(tier, ())
    for position in range(work.ready.get(tier, 0), len(inside)):
        if not _is_up(inside[position], work):
            return inside[position]
        work.ready[tier] = position + 1
    return None


def _is_up(action: Action, work: _Work) -> bool:
    """Return whether nobody need wait for an action (any more): it did not happen, or what it woke is ready."""
    outcome = work.done.get(action.id)
    if outcome is None:
        return False
    if outcome.status is not OutcomeStatus.APPLIED:
        return True
    return work.readiness.of(action, work.applying.accesses[action.ref.cluster])
