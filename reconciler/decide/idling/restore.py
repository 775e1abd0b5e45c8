"""What `reconciler restore` gives back: what we idled gets its replicas, without any policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase

from reconciler.decide.idling.building import decisions_of
from reconciler.decide.idling.guard import Guards
from reconciler.decide.idling.looking import Setting, scenes_of
from reconciler.decide.idling.making import Making
from reconciler.decide.idling.marks import parsed
from reconciler.decide.idling.records import salvaged
from reconciler.decide.idling.situations import Ruling, rule_all
from reconciler.decide.idling.states import NOT_OURS, State
from reconciler.decide.idling.table import Action, Choice
from reconciler.decide.idling.targets import Target
from reconciler.decide.idling.telling import notices
from reconciler.decide.types import DesiredState
from reconciler.errors import AnnotationError
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, Writes


def _everything(_ref: ObjectRef) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Restoration:
    """What is given back: what `objects` accepts (the scalable, or a Service in front of it), of policies that match
    one of the globs `policies`, idled by one of the `runs`. An empty part does not narrow.

    `adopt`: also what somebody else idled. `hold_until`: it is not idled again before then.
    """

    objects: Callable[[ObjectRef], bool] = _everything
    policies: tuple[str, ...] = ()
    runs: frozenset[str] = frozenset()
    adopt: bool = False
    hold_until: datetime | None = None


def decide_restore(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> DesiredState:
    """Return the wakes that give everything in `restoration` its replicas back; nothing else is put right.

    What was asked for and cannot be given back, because its record cannot be read, makes the run partial.
    """
    scenes = scenes_of(Setting(fleet, state, run, blind=True))
    alone = rule_all([target for scene in scenes for target in scene.targets], Guards(), run.now)
    rulings = {ref: _restored(ruling, restoration, run) for ref, ruling in alone.items()}
    fronts = [(front, scene.inventory) for scene in scenes for front in scene.fronts]
    making = Making(fleet, run, repairs=False, hold_until=restoration.hold_until)
    chosen = [ruling for ruling in rulings.values() if _is_chosen(ruling, restoration)]
    told = notices([ruling for ruling in chosen if not _is_put_right(ruling)], (), run)
    return DesiredState(
        decisions=decisions_of(rulings, fronts, making),
        notices=tuple(replace(one, partial=one.partial or one.kind == "setAside") for one in told),
    )


def _is_put_right(ruling: Ruling) -> bool:
    """Return whether what could not be read of it does not matter any more."""
    return ruling.standing.state is State.SET_ASIDE and ruling.action is Action.WAKE


def _restored(ruling: Ruling, restoration: Restoration, run: Run) -> Ruling:
    if not _is_chosen(ruling, restoration):
        return _left(ruling)
    written = ruling.target.cluster.writes is not Writes.NOTHING
    if ruling.was_asleep or _is_adopted(ruling, restoration):
        action = Action.WAKE if written else Action.OVERDUE
        return replace(ruling, choice=Choice(action, "restored"))
    if ruling.standing.state is State.SET_ASIDE and written:
        return _salvaged(ruling, run)
    if ruling.standing.state is State.HAND and written:
        return ruling
    if ruling.standing.state is State.STALE and written:
        return replace(ruling, choice=Choice(Action.CLEAR, ruling.why))
    return _left(ruling)


def _salvaged(ruling: Ruling, run: Run) -> Ruling:
    """Return the wake to the number that can still be read in a broken record, where there is one."""
    record = salvaged(ruling.target.scale.written, run.now)
    if record is None or not ruling.target.scale.stands_at(0):
        return _left(ruling)
    standing = replace(ruling.standing, record=record)
    return replace(ruling, standing=standing, choice=Choice(Action.WAKE, "restored from what can be read"))


def _left(ruling: Ruling) -> Ruling:
    """Return the ruling that leaves it as it is, idle or not."""
    action = Action.KEEP if ruling.was_asleep else Action.LEAVE
    return replace(ruling, choice=Choice(action, ruling.why))


def _is_adopted(ruling: Ruling, restoration: Restoration) -> bool:
    record = ruling.record
    if not restoration.adopt or ruling.standing.state not in NOT_OURS or record is None or ruling.target.protected:
        return False
    return ruling.target.scale.stands_at(record.idled_to)


def _is_chosen(ruling: Ruling, restoration: Restoration) -> bool:
    policy, run = _origin(ruling)
    named = not restoration.policies or any(fnmatchcase(policy, pattern) for pattern in restoration.policies)
    return named and (not restoration.runs or run in restoration.runs) and _is_named(ruling.target, restoration.objects)


def _is_named(target: Target, objects: Callable[[ObjectRef], bool]) -> bool:
    return any(objects(ref) for ref in _names(target))


def _names(target: Target) -> Iterable[ObjectRef]:
    return (target.ref, target.scale.runs.ref, *(front.ref for front in target.fronts))


def _origin(ruling: Ruling) -> tuple[str, str]:
    """Return (policy, run) that idled it, as its record tells; "" for what it does not tell."""
    record = ruling.record
    if record is None:
        return "", ""
    try:
        cause = parsed(record.cause, "") if record.cause else {}
    except AnnotationError:
        cause = {}
    run = cause.get("run", "") if isinstance(cause, Mapping) else ""
    return record.policy, run if isinstance(run, str) else ""
