"""A saved plan, checked against its Fleet, its clusters and the policies, and carried out as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.protocols import AUTOSCALERS, ENDPOINTS, SERVICES, Cluster, Resource, workloads_of
from reconciler.decide.decisions import Phase
from reconciler.errors import ClusterError, PlanFileError
from reconciler.model import ObjectRef
from reconciler.pipeline import Applied, Control, ProgressCallbacks, RunRequest, Stage, carry_out, plan
from reconciler.plan.json import plan_from_dict
from reconciler.plan.model import Action, Plan
from reconciler.plan.order import doable, ended
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import Fleet, PolicySet, Writes
from reconciler.report.times import age
from reconciler.saved_plan.allowed_changes import check_allowed, is_custom
from reconciler.saved_plan.beyond_approval import (
    deletions_and_pickers,
    kept_awake,
    more_replicas,
    not_as_stated,
    refuse,
    replicas_of,
)
from reconciler.saved_plan.differences import Compared, compared
from reconciler.untrusted_text import short
from reconciler.workload_kinds import SCALABLE_KINDS
from reconciler.world import World


def read_saved(document: Any, file: str, now: datetime, max_age: timedelta) -> Plan:
    """Return the plan that the JSON values in `document` describe, when a run of ours may have made it not long ago.

    Raises:
        PlanFileError: it is none, too old, of another schema version, or changes what no plan changes.
    """
    if isinstance(document, dict) and document.get("kind") == "Report":
        raise PlanFileError(f"{file}: is the report of an apply, expected a saved plan; `reconciler show` shows it")
    found = plan_from_dict(document, where=file)
    check_allowed(found, file, None)
    old = now - found.made_at
    if not timedelta(0) <= old <= max_age:
        when = f"{age(abs(old))} {'after now' if old < timedelta(0) else 'ago'}"
        raise PlanFileError(f"{file}: was made {when}, expected at most {spelt_duration(max_age)} ago; plan again")
    return found


def check_fleet(saved: Plan, fleet: Fleet, file: str) -> None:
    """Check that `saved` is of `fleet`, changes only what its switches say, and writes ConfigMaps nowhere but in its
    own namespace.

    Raises:
        PlanFileError: it is not.
    """
    if saved.fleet not in (fleet.name, *fleet.former_names):
        raise PlanFileError(f'{file}: is of Fleet "{short(saved.fleet)}", expected "{fleet.name}"; plan again')
    check_allowed(saved, file, fleet.switch_kinds)
    for action in saved.actions:
        if action.ref.kind == "ConfigMap" and action.ref.namespace != fleet.namespace:
            raise PlanFileError(
                f'{file}: action {action.id}: object.namespace is "{action.ref.namespace}", '
                f'expected "{fleet.namespace}", where our ConfigMaps are; plan again'
            )


class SavedPlan(Struct, frozen=True):
    """The saved `plan` in `file`, with what it is checked against. `policies` None: there are none at hand, only
    `fleet`. `request` asks for a fresh plan of the same time.
    """

    plan: Plan
    file: str
    fleet: Fleet
    policies: PolicySet | None
    world: World
    request: RunRequest

    def not_doable(self, *, live: bool) -> dict[int, str]:
        """Check that the clusters are those that the plan is for; return why actions may not be done, by id.

        A cluster that cannot say now which kinds it serves loses the groups with custom kinds, and nothing else.
        `live`: it may be made from a snapshot.

        Raises:
            PlanFileError: they are not.
        """
        if self.plan.source == "snapshot" and self.world.origin == "live" and not live:
            raise PlanFileError(
                f"{self.file}: was made from a snapshot, expected a plan of live clusters; "
                "add --live to apply it all the same"
            )
        for name in sorted({action.ref.cluster for action in self.plan.actions}):
            self._check_identity(name)
        unserved: dict[str, str] = {}
        for action in self.plan.actions:
            if is_custom(action.ref.group, action.ref.kind):
                try:
                    self._check_served(action)
                except ClusterError as error:
                    unserved[action.decision.group] = f"its kind cannot be checked: {error}; plan again"
        return self._of_groups(unserved)

    def ended(self, now: datetime) -> dict[int, str]:
        """Return why idles whose schedule has ended at `now` may not be done, by id: a fresh plan for the time of this
        one makes them too, so that nothing else tells.
        """
        found = ended(self.plan.actions, now)
        return {number: f"its schedule ended {age(now - at)} ago; plan again" for number, at in found.items()}

    def compared(self) -> Compared:
        """Return how it differs from a fresh plan."""
        if self.policies is None:
            return compared(self.plan, None)
        return compared(self.plan, plan(self.policies, self.world, self.request))

    def check_policies(self) -> None:
        """Check that the policies state its pod templates.

        Raises:
            PlanFileError: they do not.
        """
        refuse(not_as_stated(self.plan, self.policies or PolicySet(self.fleet)), self.file)

    def unread_of(self, approved: Collection[int], seen: Compared) -> dict[int, str]:
        """Check the `approved` actions, which a fresh plan does not have (`seen`), against what is there now; return
        why actions may not be done, by id: of an object that is gone, or cannot be read, nobody can tell.

        Raises:
            PlanFileError: one asks for more replicas than there are, deletes a workload, asks another pod picker, or
                keeps an object awake.
        """
        there: dict[ObjectRef, int] = {}
        unread: dict[str, str] = {}
        for action in self.plan.actions:
            if action.id not in approved or action.decision.uid is None:
                continue
            ref, cluster = action.ref, self.world.accesses[action.ref.cluster].cluster
            try:
                resource = _counted(ref, cluster)
                if resource is not None:
                    there[ref] = replicas_of(cluster.get(resource, ref.namespace, ref.name))
            except ClusterError as error:
                unread[action.decision.group] = f"what is there cannot be checked: {error}; plan again"
        left_out = self._of_groups(unread)
        checked = [action for action in self.plan.actions if action.id in approved and action.id not in left_out]
        policies = self.policies or PolicySet(self.fleet)
        refuse(more_replicas(checked, policies, there), self.file)
        refuse(deletions_and_pickers(checked, policies), self.file)
        refuse(kept_awake(checked, seen, self.plan.made_at), self.file)
        return left_out

    def _of_groups(self, why: Mapping[str, str]) -> dict[int, str]:
        """Return by the id of each action what `why` says of its group."""
        return {action.id: why[action.decision.group] for action in self.plan.actions if action.decision.group in why}

    def _check_identity(self, name: str) -> None:
        accesses = self.world.accesses
        if name not in accesses:
            known = ", ".join(sorted(accesses))
            raise PlanFileError(f'{self.file}: writes to cluster "{name}", expected one of {known}')
        try:
            identity = accesses[name].cluster.identity()
        except ClusterError:
            return
        was = self.plan.clusters.get(name)
        if was != identity:
            raise PlanFileError(
                f'{self.file}: cluster "{name}" was {was}, expected {identity}; it is another cluster now'
            )

    def _check_served(self, action: Action) -> None:
        """Check that a custom kind has its replicas where `action` writes them.

        Raises:
            PlanFileError: it has not. ClusterError: the cluster does not say now.
        """
        kinds = self.world.accesses[action.ref.cluster].cluster.scale_kinds()
        places = {(kind.group, kind.kind, kind.replicas_path) for kind in kinds}
        places |= {(kind.group, kind.kind, kind.replicas_path[:-1]) for kind in kinds if kind.in_map}
        written = [change.path for change in action.decision.changes if change.path[0] == "spec"]
        if not all((action.ref.group, action.ref.kind, path) in places for path in written):
            raise PlanFileError(
                f"{self.file}: action {action.id} ({action.ref}): is of no kind that has its scale there; plan again"
            )


def _counted(ref: ObjectRef, cluster: Cluster) -> Resource[Any] | None:
    """Return as what an object is read that says a number of replicas, None where it never does."""
    kinds = cluster.scale_kinds() if is_custom(ref.group, ref.kind) else SCALABLE_KINDS.values()
    resources: tuple[Resource[Any], ...] = (SERVICES, ENDPOINTS, AUTOSCALERS, *map(workloads_of, kinds))
    return next((resource for resource in resources if (resource.group, resource.kind) == (ref.group, ref.kind)), None)


def still_allowed(saved: Plan, fleet: Fleet) -> tuple[Action, ...]:
    """Return the actions that the Fleet still allows, by whole groups but for wakes: freezing or protecting counts at
    once.
    """
    protected = fleet.protected - {fleet.namespace}
    writes = {cluster.name: cluster.writes for cluster in fleet.clusters}
    allowed = [
        action
        for action in saved.actions
        if action.decision.writes <= writes.get(action.ref.cluster, Writes.EVERYTHING)
        and (action.ref.namespace not in protected or action.decision.phase is Phase.WAKE)
    ]
    whole = {action.decision.group for action in saved.actions}
    whole -= {action.decision.group for action in saved.actions if action not in allowed}
    return doable([one for one in allowed if one.decision.group in whole or one.decision.phase is Phase.WAKE])


def apply_saved(
    saved: SavedPlan,
    control: Control,
    approved: Callable[[Compared], Compared],
    not_doable: Mapping[int, str],
    callbacks: ProgressCallbacks,
) -> Applied:
    """Carry out exactly what `saved` says, but for what is stale: what a fresh plan does otherwise, less what
    `approved` leaves of it, and what is `not_doable`, by id with the reason.
    """
    from reconciler.apply.run_locks import Locks

    made, world = saved.plan, saved.world
    callbacks.stage(Stage.LOCK)
    with Locks(world.accesses, world.readers.pool, control.lock_timeout, world.readers.limit) as locks:
        locks.take({action.ref.cluster for action in made.actions})
        seen = saved.compared()
        left = approved(seen)
        unread = saved.unread_of(seen.differing.keys() - left.differing.keys(), seen)
        found = replace(left, differing={**left.differing, **unread, **not_doable})
        callbacks.stage(Stage.APPLY)

        def same(made: Plan) -> tuple[Action, ...]:
            chosen = [action for action in control.choose(made) if action.id not in found.differing]
            return tuple(_explained(action, found) for action in doable(chosen))

        return _with_stale(carry_out(made, saved.fleet, world, replace(control, choose=same), locks.left_out), found)


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
    refs = {action.id: action.ref for action in applied.plan.actions}
    for action in applied.plan.actions:
        needed = [refs[need] for need in action.needs if need in found.differing]
        if action.id in found.differing:
            done[action.id] = Outcome(action.id, OutcomeStatus.STALE, f"{action.ref}: {found.differing[action.id]}")
        elif needed and action.id not in done:
            done[action.id] = Outcome(action.id, OutcomeStatus.SKIPPED, f"needs {needed[0]}, which was not applied")
    outcomes = tuple(done[action.id] for action in applied.plan.actions if action.id in done)
    return replace(applied, outcomes=outcomes, dropped=len(applied.plan.actions) - len(outcomes))
