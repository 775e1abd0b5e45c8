"""The whole way on one screen: policies -> observed state -> desired state -> plan -> outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from reconciler.apply.locks import LeftOut, locked
from reconciler.apply.outcomes import Access, Outcome
from reconciler.apply.pickers import asked_pickers
from reconciler.apply.refusals import remember_refusals
from reconciler.apply.run import Applying, Progress, apply_actions
from reconciler.backends.stop import Stop, StoppedClock
from reconciler.decide.desired_state import decide
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.types import DesiredState, Job, Undecided
from reconciler.model import ObservedState, PodsQuestion, Run
from reconciler.observe.clusters import EVERYTHING, Scope, Tell, nobody, observe
from reconciler.observe.pods import answer
from reconciler.plan.actions import Action, Plan
from reconciler.plan.clusters import check_identities
from reconciler.plan.digest import run_id, state_digest
from reconciler.plan.filters import Filters, check_namespaces
from reconciler.plan.plan import Inputs, make_plan
from reconciler.policy.types import Fleet, PolicySet
from reconciler.world import World

_ROUNDS = 8

Decide = Callable[[PolicySet, ObservedState, Run], DesiredState]
Ask = Callable[[ObservedState, Sequence[PodsQuestion]], ObservedState]


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


@dataclass(frozen=True)
class Watch:
    """Who looks on; a run does the same without. `stage` is called as a stage begins, which ends the one before."""

    stage: Callable[[Stage], None] = _nothing
    reading: Tell = nobody


@dataclass(frozen=True)
class Request:
    """What a person asked of one run."""

    now: datetime
    run_id: str = ""
    revision: str = ""
    allow_exceed: frozenset[str] = frozenset()
    filters: Filters = Filters()
    call_pickers: bool = False
    watch: Watch = Watch()
    scope: Scope = EVERYTHING


@dataclass(frozen=True)
class Control:
    """How an apply is steered.

    `approve` sees the plan made without locks; `choose` gets the one made under the locks and returns what may be done.
    """

    choose: Callable[[Plan], tuple[Action, ...]]
    progress: Progress
    approve: Callable[[Plan], bool] = lambda _: True
    stop: Stop = field(default_factory=Stop)
    lock_timeout: float = 30.0


@dataclass(frozen=True)
class Applied:
    """`plan` is the one that was carried out; `outcomes` has one for each action that was chosen of it."""

    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)  # cluster -> why nothing was written there
    dropped: int = 0  # actions that were not chosen
    declined: bool = False  # somebody said no; nothing was done
    lost: tuple[str, ...] = ()  # what the next run should know, and could not be written down


def plan(policies: PolicySet, world: World, request: Request, decide: Decide = decide) -> Plan:
    """Return what `policies` would do now; nothing is written."""
    watch = request.watch
    watch.stage(Stage.OBSERVE)
    state = observe(policies, world.sources, watch.reading, request.scope)
    check_identities(policies.fleet, state)
    check_namespaces(request.filters, state)
    watch.stage(Stage.DECIDE)
    observed, digest = state, state_digest(state)
    run = _run(policies, digest, request)
    state, desired = _decided(policies, state, run, _asking(world, watch), decide)
    if state is not observed:
        digest = state_digest(state)
    if run != _run(policies, digest, request):
        run = _run(policies, digest, request)
        desired = decide(policies, state, run)
    if request.call_pickers:
        watch.stage(Stage.PICK)
        desired = asked_pickers(desired, policies, state, run, world.accesses)
    watch.stage(Stage.PLAN)
    return make_plan(policies, state, desired, run, Inputs(digest, world.origin, request.filters))


def apply(policies: PolicySet, world: World, request: Request, control: Control, decide: Decide = decide) -> Applied:
    """Plan, take the locks of what is to be written, plan again and carry that out. Nothing to do takes no lock."""
    first = plan(policies, world, request, decide)
    if not first.actions:
        return Applied(first)
    if control.stop.asked:
        return carry_out(first, policies.fleet, world, control, {})
    request.watch.stage(Stage.APPROVE)
    if not control.approve(first):
        return Applied(first, declined=True)
    request.watch.stage(Stage.LOCK)
    with locked(world.accesses, first, control.lock_timeout, control.stop) as left_out:
        unreachable = {name: first.unknown[name] for name in first.unknown_since}
        again = plan(policies, world.without(unreachable), request, decide)
        request.watch.stage(Stage.APPLY)
        return carry_out(again, policies.fleet, world, control, left_out)


def apply_wakes_due(fleet: Fleet, world: World, request: Request, control: Control) -> Applied:
    """Wake what is due by its own mark, where the policies cannot be used but the Fleet can."""
    return apply(PolicySet(fleet), world, request, control, _due)


def _due(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    return decide_wakes_due(policies.fleet, state, run)


def apply_saved(saved: Plan, fleet: Fleet, world: World, control: Control, watch: Watch = Watch()) -> Applied:
    """Carry out exactly what `saved` says."""
    watch.stage(Stage.LOCK)
    with locked(world.accesses, saved, control.lock_timeout, control.stop) as left_out:
        watch.stage(Stage.APPLY)
        return carry_out(saved, fleet, world, control, left_out)


def carry_out(made: Plan, fleet: Fleet, world: World, control: Control, left_out: Mapping[str, LeftOut]) -> Applied:
    """Carry out the chosen actions of `made`, except on the clusters in `left_out`."""
    chosen = control.choose(made)
    applying = Applying(
        accesses={name: _stoppable(access, control.stop) for name, access in world.accesses.items()},
        run=Run(made.made_at, made.run, made.revision),
        namespace=fleet.namespace,
        stop=control.stop,
        progress=control.progress,
        left_out=left_out,
        workers=world.workers,
    )
    outcomes = apply_actions(chosen, applying)
    lost = remember_refusals(chosen, outcomes, world.accesses, fleet, applying.run)
    return Applied(made, outcomes, left_out, len(made.actions) - len(chosen), lost=lost)


def _stoppable(access: Access, stop: Stop) -> Access:
    return replace(access, stop=stop, clock=StoppedClock(access.clock, stop))


def _run(policies: PolicySet, digest: str, request: Request) -> Run:
    run = Run(request.now, request.run_id, request.revision, request.allow_exceed)
    return run if run.id else replace(run, id=run_id(policies.digest, digest, run))


def _asking(world: World, watch: Watch) -> Ask:
    """Return what answers the questions of a decision; that is reading, not deciding."""

    def ask(state: ObservedState, questions: Sequence[PodsQuestion]) -> ObservedState:
        watch.stage(Stage.OBSERVE)
        answered = answer(state, questions, world.sources)
        watch.stage(Stage.DECIDE)
        return answered

    return ask


def _decided(
    policies: PolicySet, state: ObservedState, run: Run, ask: Ask, decide: Decide
) -> tuple[ObservedState, DesiredState]:
    """Decide, answer what that asks for, and decide again, until nothing is asked or nothing can be answered."""
    asked: set[object] = set()
    desired = decide(policies, state, run)
    for _ in range(_ROUNDS):
        questions = [question for question in desired.questions if question not in asked]
        if not questions:
            break
        asked.update(questions)
        state = ask(state, questions)
        desired = decide(policies, state, run)
    return state, replace(desired, undecided=desired.undecided + _unanswered(desired))


def _unanswered(desired: DesiredState) -> tuple[Undecided, ...]:
    return tuple(
        Undecided(str(question.workload), _job_of(desired, question), "", "its pods could not be read")
        for question in desired.questions
    )


def _job_of(desired: DesiredState, question: PodsQuestion) -> Job:
    """Return whose question it is: that of a decrease's victims where there is one, else placement's."""
    shrinks = any(decision.ref == question.workload and decision.removed for decision in desired.decisions)
    return "downscale" if shrinks else "placement"
