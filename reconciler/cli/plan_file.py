"""Saved plans: read back, refused as a whole where they no longer fit the clusters, and shown by `reconciler show`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from reconciler.backends.protocols import AUTOSCALERS, ENDPOINTS, SERVICES, Cluster, Resource, workloads_of
from reconciler.cli.options import DEFAULT_PATH, argument, output_option, verb
from reconciler.cli.output import FORMATS, show
from reconciler.cli.run_options import STYLE, RunOptions
from reconciler.decide.annotations import WAKE_DUE, read_time
from reconciler.decide.decisions import Phase
from reconciler.errors import ClusterError, PlanFileError, PolicyError
from reconciler.model import ObjectRef
from reconciler.plan.allowed_changes import check_allowed, is_custom
from reconciler.plan.build import doable
from reconciler.plan.json import plan_from_dict
from reconciler.plan.model import Action, Plan
from reconciler.plan.saved_plan_checks import replicas_of
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.load import read_fleet, read_policies
from reconciler.policy.types import Fleet, PolicySet, Writes
from reconciler.report.reason_words import age
from reconciler.untrusted_text import parse_json, short
from reconciler.workload_kinds import SCALABLE_KINDS
from reconciler.world import World

_WAKE_DUE = ("metadata", "annotations", WAKE_DUE)


def json_in_file(file: str) -> Any:
    """Return the JSON value in `file`.

    Raises:
        PlanFileError: it cannot be read, or holds no JSON.
    """
    try:
        return parse_json(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanFileError(f"{file}: {error.strerror}, expected a saved plan") from error
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{file}: is not JSON ({error}), expected a saved plan") from error


def read_saved(file: str, options: RunOptions, max_age: timedelta) -> Plan:
    """Return the saved plan in `file`, when it is one that a run of ours may have made not long ago.

    Raises:
        PlanFileError: it is unreadable, too old, of another schema version, or changes what no plan changes.
    """
    document = json_in_file(file)
    if isinstance(document, dict) and document.get("kind") == "Report":
        raise PlanFileError(f"{file}: is the report of an apply, expected a saved plan; `reconciler show` shows it")
    plan = plan_from_dict(document, where=file)
    check_allowed(plan, file, None)
    _check_age(plan, file, options, max_age)
    return plan


def policies_at_hand(policies: str | None) -> tuple[PolicySet | None, Fleet]:
    """Return what a saved plan is compared with, None where there is nothing, and the Fleet.

    `policies` is the flag of this name. Of a file that does not hold all policies only the Fleet is read.

    Raises:
        PolicyError: they, or the Fleet, cannot be used.
    """
    place = policies or DEFAULT_PATH
    fleet = read_fleet(place)
    try:
        return read_policies(place, partly=True), fleet
    except PolicyError:
        if Path(place).is_file():
            return None, fleet
        raise


def check_saved(plan: Plan, fleet: Fleet, file: str) -> None:
    """Check that `plan` is of the Fleet, changes only what its switches say, and writes ConfigMaps nowhere but in its
    own namespace.

    Raises:
        PlanFileError: it is not.
    """
    if plan.fleet not in (fleet.name, *fleet.former_names):
        raise PlanFileError(f'{file}: is of Fleet "{short(plan.fleet)}", expected "{fleet.name}"; plan again')
    check_allowed(plan, file, fleet.switch_kinds)
    for action in plan.actions:
        if action.ref.kind == "ConfigMap" and action.ref.namespace != fleet.namespace:
            raise PlanFileError(
                f'{file}: action {action.id}: object.namespace is "{action.ref.namespace}", '
                f'expected "{fleet.namespace}", where our ConfigMaps are; plan again'
            )


def check_world(plan: Plan, world: World, file: str, *, live: bool) -> dict[int, str]:
    """Check that the clusters of `world` are those that `plan` is for; return why actions may not be done, by id.

    A cluster that cannot say now which kinds it serves loses the groups with custom kinds, and nothing else.

    Raises:
        PlanFileError: they are not.
    """
    if plan.source == "snapshot" and world.origin == "live" and not live:
        raise PlanFileError(
            f"{file}: was made from a snapshot, expected a plan of live clusters; add --live to apply it all the same"
        )
    for name in sorted({action.ref.cluster for action in plan.actions}):
        _check_identity(plan, name, world, file)
    unchecked: dict[str, str] = {}
    for action in plan.actions:
        if is_custom(action.ref.group, action.ref.kind):
            try:
                _check_served(action, world, file)
            except ClusterError as error:
                unchecked[action.decision.group] = f"its kind cannot be checked: {error}; plan again"
    return _of_groups(plan, unchecked)


def _of_groups(plan: Plan, why: Mapping[str, str]) -> dict[int, str]:
    """Return by the id of each action what `why` says of its group."""
    return {action.id: why[action.decision.group] for action in plan.actions if action.decision.group in why}


def read_replicas(plan: Plan, approved: Collection[int], world: World) -> tuple[dict[ObjectRef, int], dict[int, str]]:
    """Return the most replicas that the objects of the `approved` actions say now (`replicas_of`), and why actions may
    not be done, by id: of an object that is gone, or cannot be read, nobody can tell.
    """
    there: dict[ObjectRef, int] = {}
    unread: dict[str, str] = {}
    for action in plan.actions:
        if action.id not in approved or action.decision.uid is None:
            continue
        ref, cluster = action.ref, world.accesses[action.ref.cluster].cluster
        try:
            resource = _counted(ref, cluster)
            if resource is not None:
                there[ref] = replicas_of(cluster.get(resource, ref.namespace, ref.name))
        except ClusterError as error:
            unread[action.decision.group] = f"what is there cannot be checked: {error}; plan again"
    return there, _of_groups(plan, unread)


def _counted(ref: ObjectRef, cluster: Cluster) -> Resource[Any] | None:
    """Return as what an object is read that says a number of replicas, None where it never does."""
    kinds = cluster.scale_kinds() if is_custom(ref.group, ref.kind) else SCALABLE_KINDS.values()
    resources: tuple[Resource[Any], ...] = (SERVICES, ENDPOINTS, AUTOSCALERS, *map(workloads_of, kinds))
    return next((resource for resource in resources if (resource.group, resource.kind) == (ref.group, ref.kind)), None)


def _check_served(action: Action, world: World, file: str) -> None:
    """Check that a custom kind has its replicas where `action` writes them.

    Raises:
        PlanFileError: it has not. ClusterError: the cluster does not say now.
    """
    kinds = world.accesses[action.ref.cluster].cluster.scale_kinds()
    places = {(kind.group, kind.kind, kind.replicas_path) for kind in kinds}
    places |= {(kind.group, kind.kind, kind.replicas_path[:-1]) for kind in kinds if kind.in_map}
    written = [change.path for change in action.decision.changes if change.path[0] == "spec"]
    if not all((action.ref.group, action.ref.kind, path) in places for path in written):
        raise PlanFileError(
            f"{file}: action {action.id} ({action.ref}): is of no kind that has its scale there; plan again"
        )


def ended_idles(plan: Plan, now: datetime) -> dict[int, str]:
    """Return why idles of `plan` are not done whose schedule has ended at `now`, and what is done with them, by id.

    A fresh plan for the time of `plan` makes them too, so that nothing else tells.
    """
    ended: dict[str, str] = {}
    for action in plan.actions:
        due = [change.after for change in action.decision.changes if change.path == _WAKE_DUE]
        at = read_time(due[0]) if due and action.decision.idles else None
        if at is not None and at <= now:
            ended[action.decision.group] = f"its schedule ended {age(now - at)} ago; plan again"
    wakes = {planned.id for planned in plan.actions if planned.decision.phase is Phase.WAKE}
    return {number: why for number, why in _of_groups(plan, ended).items() if number not in wakes}


def still_allowed(plan: Plan, fleet: Fleet) -> tuple[Action, ...]:
    """Return the actions that the Fleet still allows, by whole groups but for wakes: freezing or protecting counts at
    once.
    """
    protected = fleet.protected - {fleet.namespace}
    writes = {cluster.name: cluster.writes for cluster in fleet.clusters}
    allowed = [
        action
        for action in plan.actions
        if action.decision.writes <= writes.get(action.ref.cluster, Writes.EVERYTHING)
        and action.ref.namespace not in protected
    ]
    whole = {action.decision.group for action in plan.actions}
    whole -= {action.decision.group for action in plan.actions if action not in allowed}
    return doable([one for one in allowed if one.decision.group in whole or one.decision.phase is Phase.WAKE])


def _check_age(plan: Plan, file: str, options: RunOptions, max_age: timedelta) -> None:
    old = options.now - plan.made_at
    if not timedelta(0) <= old <= max_age:
        when = f"{age(abs(old))} {'after now' if old < timedelta(0) else 'ago'}"
        raise PlanFileError(f"{file}: was made {when}, expected at most {spelt_duration(max_age)} ago; plan again")


def _check_identity(plan: Plan, name: str, world: World, file: str) -> None:
    access = world.accesses.get(name)
    if access is None:
        raise PlanFileError(f'{file}: writes to cluster "{name}", expected one of {", ".join(sorted(world.accesses))}')
    try:
        identity = access.cluster.identity()
    except ClusterError:
        return
    if plan.clusters.get(name) != identity:
        raise PlanFileError(
            f'{file}: cluster "{name}" was {plan.clusters.get(name)}, expected {identity}; it is another cluster now'
        )


class ShowOptions(RunOptions):
    file: str = argument("FILE", type=click.Path())
    output: str = output_option(*FORMATS)


@verb("show", ShowOptions, *STYLE)
def show_command(options: ShowOptions) -> None:
    """Show the plan or report saved in FILE."""
    from reconciler.report.json import plan_and_outcomes

    plan, outcomes = plan_and_outcomes(json_in_file(options.file), where=options.file)
    check_allowed(plan, options.file, None)
    show(FORMATS[options.output](plan, outcomes, options.style), options.output, color=options.color)
