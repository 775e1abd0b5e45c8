"""The whole way on one screen: policies -> observed state -> desired state -> plan -> outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.decisions import DesiredState
from reconciler.decide.desired_state import decide as decide_all
from reconciler.decide.desired_state import urgent, with_picked_pods
from reconciler.decide.downscale.decreases_by_others import seen_replicas
from reconciler.decide.downscale.planned_victims import picker_requests
from reconciler.decide.held_back import within_limits
from reconciler.decide.idling.activators import clusters_to_ask, with_activators
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.unexpected_errors import without_faulty
from reconciler.errors import reason_of
from reconciler.model import NOTHING, ObservedState, PodsQuestion, Run
from reconciler.observe.clusters import Observation, ReadProgress, identified, no_progress
from reconciler.observe.needed_objects import EVERYTHING, Scope
from reconciler.observe.pods import answer, answers_of_pickers, with_activators_read
from reconciler.plan.build import make_plan
from reconciler.plan.digests import digest_with_activators, run_id, state_digest
from reconciler.plan.filters import Filters, check_namespaces
from reconciler.plan.model import Action, Plan
from reconciler.plan.order import doable, ended, in_order, numbered_actions
from reconciler.policy.types import Fleet, PolicySet
from reconciler.time_limit import TimeLimit
from reconciler.world import World

if TYPE_CHECKING:  # what only apply needs is imported by it
    from reconciler.apply.action_runs import OutcomeProgress
    from reconciler.apply.run_locks import LeftOut, Locks

_ROUNDS = 8

_FRESH_SECONDS = 30.0
"""For so long what was read before the locks were taken may be written by."""

Decide = Callable[[PolicySet, ObservedState, Run], DesiredState]
T = TypeVar("T")


class Stage(StrEnum):
    """The parts of a run, for those who ask where its time went."""

    OBSERVE = "observe"
    DECIDE = "decide"
    PICK = "pick"  # pod pickers are asked
    PLAN = "plan"
    APPROVE = "approve"  # a person is asked
    LOCK = "lock"
    APPLY = "apply"


def _nothing(_: Stage) -> None:
    return


class ProgressCallbacks(Struct, frozen=True):
    """Called while a run goes on, which does the same without. `stage`: a stage begins, which ends the one before."""

    stage: Callable[[Stage], None] = _nothing
    reading: ReadProgress = no_progress


class RunRequest(Struct, frozen=True):
    """What a person asked of one run."""

    now: datetime
    run_id: str = ""
    revision: str = ""
    allow_exceed: Mapping[str, int | None] = NOTHING
    allow_removed: bool = False
    filters: Filters = Filters()
    call_pickers: bool = False
    callbacks: ProgressCallbacks = ProgressCallbacks()
    scope: Scope = EVERYTHING
    is_simulated: bool = False  # nobody saves the plan, to compare it with the clusters later


class Control(Struct, frozen=True):
    """How an apply goes on.

    `approve` sees the plan made without locks; `choose` gets the one made under the locks and returns what may be done.
    """

    choose: Callable[[Plan], tuple[Action, ...]]
    progress: OutcomeProgress = lambda _, __: None
    approve: Callable[[Plan], bool] = lambda _: True
    lock_timeout: float = 30.0
    clock: Callable[[], datetime] | None = None  # what the time is once a person was asked; None: that of the request
    wakes_early: bool = True  # False: a person is asked before anything is written
    commit: str = ""  # at which the policies are checked out, for the history where no revision is given
    caller: str = ""  # the user of this machine, where a person wakes or restores by hand
    report_dir: str | None = None  # where the history is written to as well
    keeps_history: bool = True  # False: in a simulation, whose history and Events nobody reads


class Applied(Struct, frozen=True):
    """`plan` is the one that was carried out; `outcomes` has one for each action that was chosen of it."""

    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)  # cluster -> why nothing was written there
    dropped: int = 0  # actions that were not chosen
    declined: bool = False  # somebody said no; nothing was done
    lost: tuple[str, ...] = ()  # what the next run should know, and could not be written down


def plan(policies: PolicySet, world: World, request: RunRequest, decide: Decide = decide_all) -> Plan:
    """Return what `policies` would do now; nothing is written.

    Raises:
        PolicyError: the policies cannot be decided, on whatever clusters.
    """
    return plan_and_state(policies, world, request, decide)[1]


def plan_and_state(
    policies: PolicySet, world: World, request: RunRequest, decide: Decide = decide_all
) -> tuple[ObservedState, Plan]:
    """Return the plan as `plan` does, behind the state of the clusters that it was made of."""
    return _Planner(policies, world, request, decide).planned()


class _Planner(Struct, frozen=True):
    """What a plan is made of. `delayed` is called with what is known so far while a cluster keeps the run waiting."""

    policies: PolicySet
    world: World
    request: RunRequest
    decide: Decide
    delayed: Callable[[ObservedState], None] = lambda _: None

    def planned(self) -> tuple[ObservedState, Plan]:
        """Return the plan, and what it was made of. A cluster that cannot be decided is unknown there."""
        policies, callbacks = self.policies, self.request.callbacks
        callbacks.stage(Stage.OBSERVE)
        observed = self._observed()
        if policies.shard is None:
            check_namespaces(self.request.filters, observed)
        callbacks.stage(Stage.DECIDE)
        state, (digest, run, desired) = self._decided(observed)
        if self.request.call_pickers:
            callbacks.stage(Stage.PICK)
            pickers = {name: access.picker for name, access in self.world.accesses.items()}
            requests = picker_requests(desired.decisions, policies, state, run)
            answers = answers_of_pickers(requests, pickers, self.world.readers.pool)
            desired = with_picked_pods(desired, policies, state, run, answers) if answers else desired
        state = self._with_activators(state, desired)
        callbacks.stage(Stage.PLAN)
        digest, whole = digest_with_activators(digest, state), not self.request.scope.namespace

        def made(tried: ObservedState) -> Plan:
            wanted = with_activators(desired if tried is state else self._desired(run, tried), policies, tried)
            seen = seen_replicas(policies, tried, wanted.decisions, run, whole=whole)
            return replace(self._made(tried, wanted, run), input_digest=digest, seen=seen)

        return without_faulty(state, made)

    def _made(self, state: ObservedState, desired: DesiredState, run: Run) -> Plan:
        made = make_plan(self.policies, state, desired, run, self.request.filters)
        return replace(made, source=self.world.origin)

    def wakes(self, state: ObservedState) -> Plan:
        """Return the plan of only the wakes that are due or requested on the clusters of `state`."""

        def made(state: ObservedState) -> Plan:
            run = _run(self.policies, state_digest(state), self.request)
            due = decide_wakes_due(self.policies.fleet, state, run)
            wanted = within_limits(urgent(self._desired(run, state), due), self.policies, state, run)
            return self._made(state, wanted, run)

        return without_faulty(state, made)[1]

    def _observed(self) -> ObservedState:
        readers, request = self.world.readers, self.request
        reading = Observation(self.policies, self.world.sources, request.callbacks.reading, request.scope, readers.pool)
        fleet = self.policies.fleet
        readers.wait(reading.asked, lambda: self.delayed(identified(fleet, reading.so_far())), reading.give_up)
        return identified(fleet, reading.ended())

    def _with_activators(self, state: ObservedState, desired: DesiredState) -> ObservedState:
        """Return `state` with the activators of those clusters where it matters whether one lives."""
        names = clusters_to_ask(desired, self.policies, state)
        if not names:
            return state
        self.request.callbacks.stage(Stage.OBSERVE)
        namespace = self.policies.fleet.namespace
        return with_activators_read(state, names, namespace, self.world.sources, self.world.readers)

    def _desired(self, run: Run, state: ObservedState) -> DesiredState:
        found = self.decide(self.policies, state, run)
        return found if found.limits else within_limits(found, self.policies, state, run)  # what people wake counts too

    def _decided(self, state: ObservedState) -> tuple[ObservedState, tuple[str, Run, DesiredState]]:
        """Decide, answer what that asks for, and decide again, until nothing is asked or nothing can be answered: with
        the digest of what was decided, and the run of that.
        """

        def decided(tried: ObservedState) -> tuple[str, Run, DesiredState]:
            digest = "" if self.request.is_simulated else state_digest(tried)
            run = _run(self.policies, digest, self.request)
            return digest, run, self._desired(run, tried)

        asked: set[object] = set()
        state, found = without_faulty(state, decided)
        for _ in range(_ROUNDS):
            questions = [question for question in found[2].questions if question not in asked]
            if not questions:
                break
            asked.update(questions)
            state, found = without_faulty(self._answered(state, questions), decided)
        return state, found

    def _answered(self, state: ObservedState, questions: Sequence[PodsQuestion]) -> ObservedState:
        """Return `state` with the answers to what a decision asks; that is reading, not deciding."""
        self.request.callbacks.stage(Stage.OBSERVE)
        answered = answer(state, questions, self.world.sources, self.world.readers, lambda: self.delayed(state))
        self.request.callbacks.stage(Stage.DECIDE)
        return answered


def apply(
    policies: PolicySet, world: World, request: RunRequest, control: Control, decide: Decide = decide_all
) -> Applied:
    """Plan, take the locks of what is to be written, and carry that out: planned again where somebody had one of them
    meanwhile, or was asked. Nothing to do takes no lock.

    While a cluster keeps the run waiting, the wakes that are due or requested on the others are carried out.
    """
    from reconciler.apply.run_locks import Locks

    with Locks(world.accesses, world.readers.pool, control.lock_timeout, world.readers.limit) as locks:
        early = _EarlyWakes(_Planner(policies, world.noting_locks(), request, decide), control, locks)
        applied = early.before(_applied(early, control, locks))
        if applied.declined or control.caller or world.readers.limit.over:
            return applied
        return replace(applied, lost=(*applied.lost, *_told(applied.plan, policies.fleet, world)))


def _told(made: Plan, fleet: Fleet, world: World) -> Iterator[str]:
    """Write the Events about what `made` leaves alone; yield why one was not written: no run fails for that."""
    from reconciler.apply.events import fleet_events
    from reconciler.history.config_maps import keeper

    home = keeper(made, world.accesses, fleet)
    if home is None:
        return
    try:
        for event in fleet_events(made, fleet, home.cluster.name, Run(made.made_at, made.run, made.revision)):
            home.cluster.write(event)
    except Exception as error:  # noqa: BLE001 - whatever it is, the run itself did what it could
        yield f"no Event of the Fleet was written: {reason_of(error)}"


def _applied(early: _EarlyWakes, control: Control, locks: Locks) -> Applied:
    from reconciler.apply.run_records import record_unseen_decreases

    planner = replace(early.planner, delayed=early.carry_out)
    fleet, world, callbacks = planner.policies.fleet, planner.world, planner.request.callbacks
    fresh = TimeLimit(_FRESH_SECONDS)
    state, first = planner.planned()
    if not first.actions:
        return Applied(first, lost=() if control.caller else record_unseen_decreases(first, world.accesses))
    if world.readers.limit.over:
        return carry_out(first, fleet, world, control, {})
    callbacks.stage(Stage.APPROVE)
    if not control.approve(first):
        return Applied(first, declined=True)
    callbacks.stage(Stage.LOCK)
    names = {action.ref.cluster for action in first.actions}
    locks.take(names, lambda: planner.delayed(state))
    left_out = locks.left_out
    if control.wakes_early and locks.were_free(names) and not (early.has_written or fresh.over):
        callbacks.stage(Stage.APPLY)
        return carry_out(first, fleet, world, control, left_out)
    unknown = {name: first.unknown[name] for name in first.unknown_since if name not in first.clusters}
    _, again = replace(planner, world=world.without(unknown)).planned()
    over = ended(again.actions, control.clock()) if control.clock else {}
    if over:
        left = doable([action for action in again.actions if action.id not in over])
        again = replace(again, actions=numbered_actions([action.decision for action in left]))
    callbacks.stage(Stage.APPLY)
    return carry_out(again, fleet, world, control, left_out)


class _EarlyWakes:
    """The wakes that were carried out before anything else, because a cluster kept the run waiting."""

    def __init__(self, planner: _Planner, control: Control, locks: Locks) -> None:
        self.planner = planner
        self._control = control
        self._locks = locks
        self._seen: set[str] = set()
        self._applied: list[Applied] = []

    @property
    def has_written(self) -> bool:
        """Whether something was carried out, so that the clusters are not what was read any more."""
        return bool(self._applied)

    def carry_out(self, state: ObservedState) -> None:
        """Wake what is due or requested on the clusters of `state`, each once in a run, where their locks are free."""
        fresh = {*state.clusters, *state.wakes_only} - self._seen
        if not fresh or self.planner.world.readers.limit.over or not self._control.wakes_early:
            return
        try:
            made = self.planner.wakes(state)
        except Exception:  # noqa: BLE001 - the plan of everything fails in the same way, and says why
            return
        wanted = {action.ref.cluster for action in made.actions} & fresh
        self._locks.take(wanted, briefly=True)
        barred = self._locks.left_out
        waiting = {name for name in wanted if name in barred}
        self._seen |= fresh - waiting
        groups = {action.decision.group for action in made.actions if action.ref.cluster not in fresh - waiting}
        free = [action.decision for action in made.actions if action.decision.group not in groups]
        if free:
            chosen = replace(made, actions=numbered_actions(in_order(free)))
            self._applied.append(
                carry_out(chosen, self.planner.policies.fleet, self.planner.world, self._control, barred)
            )

    def before(self, rest: Applied) -> Applied:
        """Return `rest` with what was carried out before it."""
        for early in reversed(self._applied):
            rest = _joined(early, rest)
        return rest


def _joined(early: Applied, rest: Applied) -> Applied:
    """Return both as one; what `rest` would have done once more, and did not, is left out."""
    statuses = {outcome.action: outcome.status for outcome in rest.outcomes}
    done = {one.decision.key for one in early.plan.actions}
    kept = [
        action
        for action in rest.plan.actions
        if action.decision.key not in done or statuses.get(action.id) is OutcomeStatus.APPLIED
    ]
    actions = numbered_actions([action.decision for action in (*early.plan.actions, *kept)])
    moved = {action.id: len(early.plan.actions) + place for place, action in enumerate(kept, start=1)}
    outcomes = [replace(one, action=moved[one.action]) for one in rest.outcomes if one.action in moved]
    return replace(
        rest,
        plan=replace(rest.plan, actions=actions),
        outcomes=(*early.outcomes, *outcomes),
        lost=(*early.lost, *rest.lost),
    )


def apply_wakes_due(fleet: Fleet, world: World, request: RunRequest, control: Control) -> Applied:
    """Wake what is due by its own record, where the policies cannot be used but the Fleet can."""
    return apply(PolicySet(fleet), world, request, control, lambda _, state, run: decide_wakes_due(fleet, state, run))


def carry_out(made: Plan, fleet: Fleet, world: World, control: Control, left_out: Mapping[str, LeftOut]) -> Applied:
    """Carry out the chosen actions of `made`, except on the clusters in `left_out`."""
    from reconciler.apply.action_runs import ActionRuns
    from reconciler.apply.run_records import record_unseen_decreases, remember_refusals
    from reconciler.history.changes import called_by, changes_of
    from reconciler.history.config_maps import record
    from reconciler.history.files import write_changes

    chosen = control.choose(made)
    run = Run(made.made_at, made.run, made.revision)
    unseen = () if control.caller else record_unseen_decreases(made, world.accesses)
    runs = ActionRuns(
        actions=chosen,
        accesses=world.accesses,
        run=run,
        namespace=fleet.namespace,
        limit=world.readers.limit,
        progress=control.progress,
        left_out=left_out,
        pool=world.readers.pool,
        fleet=None if control.caller else fleet,  # a person writes under their own name
        writes_events=control.keeps_history,
    )
    outcomes = runs.carry_out()
    lost = (*unseen, *remember_refusals(chosen, outcomes, world.accesses, fleet, run))
    if control.keeps_history:
        run = replace(run, revision=made.revision or control.commit)
        changes = called_by(changes_of(chosen, outcomes, run, fleet, made.shard), control.caller, world.accesses)
        recorded, problem = record(changes, made, world.accesses, fleet, run)
        unwritten = "" if control.report_dir is None else write_changes(control.report_dir, recorded, run)
        lost = (*lost, *filter(None, (problem, unwritten)))
    return Applied(made, outcomes, left_out, len(made.actions) - len(chosen), lost=lost)


def _run(policies: PolicySet, digest: str, request: RunRequest) -> Run:
    run = Run(request.now, request.run_id, request.revision, request.allow_exceed, request.allow_removed)
    return run if run.id else replace(run, id=run_id(policies.digest, digest, run))
