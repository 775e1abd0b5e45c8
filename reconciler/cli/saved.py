"""Saved plans: read, and refused as a whole where they no longer fit."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from reconciler.cli.options import duration_of
from reconciler.cli.running import Call
from reconciler.errors import ClusterError, PlanFileError
from reconciler.plan.actions import Action, Plan
from reconciler.plan.plan import doable
from reconciler.plan.serialise import plan_from_dict
from reconciler.policy.types import Fleet
from reconciler.world import World


def read_json(file: str) -> Any:
    """Return the JSON value in `file`.

    Raises:
        PlanFileError: it cannot be read, or holds no JSON.
    """
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanFileError(f"{file}: {error.strerror}, expected a saved plan") from error
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{file}: is no JSON ({error}), expected a saved plan") from error


def read_saved(file: str, fleet: Fleet, world: World, call: Call, *, max_age: str, live: bool) -> Plan:
    """Return the saved plan in `file`, when it may be applied to `world` now.

    Raises:
        PlanFileError: it is unreadable, too old, of another schema version, or of other clusters.
    """
    made = plan_from_dict(read_json(file), where=file)
    _check_age(made, file, call, max_age)
    if made.source == "snapshot" and world.origin == "live" and not live:
        raise PlanFileError(
            f"{file}: was made from a snapshot, expected a plan of live clusters; add --live to apply it all the same"
        )
    if made.fleet not in (fleet.name, *fleet.former_names):
        raise PlanFileError(f'{file}: is of Fleet "{made.fleet}", expected "{fleet.name}"; plan again')
    for name in sorted({action.ref.cluster for action in made.actions}):
        _check_identity(made, name, world, file)
    return made


def still_allowed(made: Plan, fleet: Fleet) -> tuple[Action, ...]:
    """Return the actions that the Fleet still allows, by whole groups: freezing or protecting counts at once."""
    frozen = {cluster.name for cluster in fleet.clusters if cluster.state == "frozen"}
    protected = fleet.protected - {fleet.namespace}
    barred = {
        action.decision.group
        for action in made.actions
        if action.ref.cluster in frozen or action.ref.namespace in protected
    }
    return doable([action for action in made.actions if action.decision.group not in barred])


def _check_age(made: Plan, file: str, call: Call, max_age: str) -> None:
    allowed = duration_of("--max-plan-age", max_age)
    age = call.now - made.made_at
    if not timedelta(0) <= age <= allowed:
        raise PlanFileError(
            f"{file}: was made at {made.made_at.isoformat()}, expected at most {max_age} before "
            f"{call.now.isoformat()}; plan again"
        )


def _check_identity(made: Plan, name: str, world: World, file: str) -> None:
    access = world.accesses.get(name)
    if access is None:
        raise PlanFileError(f'{file}: writes to cluster "{name}", expected one of {", ".join(sorted(world.accesses))}')
    try:
        identity = access.cluster.identity()
    except ClusterError:
        return
    if made.clusters.get(name) != identity:
        raise PlanFileError(
            f'{file}: cluster "{name}" was {made.clusters.get(name)}, expected {identity}; it is another cluster now'
        )
