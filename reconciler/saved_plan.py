"""A plan that was saved, and perhaps approved by somebody, is carried out as it is: what changed since is stale."""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.pipeline import Applied, Control, ProgressCallbacks, Stage, carry_out
from reconciler.plan.build import doable
from reconciler.plan.differences import Compared
from reconciler.plan.model import Action, Plan
from reconciler.policy.types import Fleet
from reconciler.world import World


def apply_saved(
    saved: Plan, fleet: Fleet, world: World, control: Control, callbacks: ProgressCallbacks = ProgressCallbacks()
) -> Applied:
    """Carry out exactly what `saved` says, but for what differs from a fresh plan: that is stale."""
    from reconciler.apply.cluster_locks import Locks

    callbacks.stage(Stage.LOCK)
    with Locks(world.accesses, world.readers.pool, control.lock_timeout, world.readers.limit) as locks:
        locks.take({action.ref.cluster for action in saved.actions})
        assert control.compare is not None
        found = control.compare()
        callbacks.stage(Stage.APPLY)

        def same(made: Plan) -> tuple[Action, ...]:
            chosen = [action for action in control.choose(made) if action.id not in found.differing]
            return tuple(_explained(action, found) for action in doable(chosen))

        return _with_stale(carry_out(saved, fleet, world, replace(control, choose=same), locks.left_out), found)


def _explained(action: Action, found: Compared) -> Action:
    """Return `action` with the reason that the fresh plan has for it, which is written to clusters, and with what a pod
    requests, which no file says.
    """
    fresh = found.fresh.get(action.id)
    if fresh is None:
        return action
    return replace(action, decision=replace(action.decision, cause=fresh.cause, requests=fresh.requests))


def _with_stale(applied: Applied, found: Compared) -> Applied:
    """Return `applied` with an outcome for what differs, and for what cannot be done without that."""
    done = {outcome.action: outcome for outcome in applied.outcomes}
    for action in applied.plan.actions:
        needed = [need for need in action.needs if need in found.differing]
        if action.id in found.differing:
            done[action.id] = Outcome(action.id, OutcomeStatus.STALE, f"{action.ref}: {found.differing[action.id]}")
        elif needed and action.id not in done:
            done[action.id] = Outcome(
                action.id, OutcomeStatus.SKIPPED, f"needs action {needed[0]}, which was not applied"
            )
    outcomes = tuple(done[action.id] for action in applied.plan.actions if action.id in done)
    return replace(applied, outcomes=outcomes, dropped=len(applied.plan.actions) - len(outcomes))
