"""Scales one workload down so that exactly the chosen pods are deleted: deletion costs, scale, verification, cleanup.

Whatever goes wrong before the scale, the costs are restored and no pod goes. Whatever stops us in between, the
journal says it to the next run (decide/downscale/journal.py).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.deletion_costs import (
    LiveWorkload,
    Task,
    autoscaler_of,
    check_as_planned,
    check_lock,
    clean_up,
    close_journal,
    domains,
    live_workload,
    open_journal,
    restore_costs,
    set_costs,
)
from reconciler.apply.outcomes import Outcome, OutcomeStatus, outcome_of
from reconciler.decide.annotations import SPARED_COST, VICTIM_COST, Key
from reconciler.decide.downscale.journal import JournalEntry, JournalPod, changes_since
from reconciler.decide.downscale.victim_choice import (
    ChosenVictims,
    VictimSelection,
    accepted,
    balanced,
    first_of,
    foreign_costs,
    of_strangers,
    picked,
    picker_request,
    victim_selection,
    without_domains,
)
from reconciler.decide.owners_and_rollouts import replaces_replica_sets
from reconciler.errors import (
    ClusterError,
    LockLostError,
    NotFoundError,
    PickerError,
    ReconcilerError,
    RefusedError,
    StaleError,
    UnreachableError,
)
from reconciler.model import PatchOperation, Pod, Run, Write, pointer
from reconciler.plan.json_patch import write_of
from reconciler.plan.model import Action
from reconciler.workload_kinds import workload_kind

_POLL_SECONDS = 1.0
_RESTORED = "the deletion costs were restored, left to the next run"


class _Deferred(ReconcilerError):
    """Nothing was done; the next run decides afresh."""


class _PickerFailed(_Deferred):
    """The pod picker gave no usable answer, and the policy says to wait for one."""


class _ScaleUnknown(UnreachableError):
    """It is not known whether the scale was done; the deletion costs stay for the next run."""


class ChosenScaleDown(Struct, frozen=True):
    """What was looked at, and which pods were chosen: none where the controller chooses, and the note says why."""

    task: Task
    live: LiveWorkload
    selection: VictimSelection
    victims: tuple[Pod, ...]
    note: str = ""
    picker_failed: bool = False

    @property
    def going(self) -> tuple[Pod, ...]:
        """All pods that go: those that go before all others, and the victims."""
        return (*self.selection.first, *self.victims)


def scale_down(action: Action, access: Access, run: Run, namespace: str) -> Outcome:
    """Carry out `action`, a decrease whose victims are ours to choose, and return what became of it.

    `namespace` is our own, in which nothing is scaled.
    """
    task = Task(action, access, run)
    if task.ref.namespace == namespace:
        return Outcome(action.id, OutcomeStatus.FAILED, f"{task.ref}: is in our own namespace, expected another")
    try:
        return _scaled_down(task)
    except _Deferred as error:
        return Outcome(action.id, OutcomeStatus.DEFERRED, str(error), picker_failed=isinstance(error, _PickerFailed))
    except ReconcilerError as error:
        return outcome_of(action, error)


def _scaled_down(task: Task) -> Outcome:
    chosen = chosen_scale_down(task, _current_workload(task))
    if not chosen.victims:
        return replace(_left_to_the_controller(task, chosen.note), picker_failed=chosen.picker_failed)
    victims_path = workload_kind(task.ref.kind).victims_path
    return _by_name(chosen, victims_path) if victims_path else _by_deletion_costs(chosen)


def chosen_scale_down(task: Task, live: LiveWorkload) -> ChosenScaleDown:
    """Return which pods of `live` go when it is scaled down as `task` says; pod pickers are asked.

    Raises:
        ReconcilerError: the policy says to leave it alone, or something cannot be read.
    """
    selection = victim_selection(live.group, task.after, task.run, task.settings)
    choice = _victims(task, selection) if selection.open else ChosenVictims(())
    return ChosenScaleDown(task, live, selection, choice.pods, choice.note, choice.picker_failed)


def _current_workload(task: Task) -> LiveWorkload:
    """Return the workload as it is now, ready to be scaled down, without anything that an earlier run left."""
    live = live_workload(task)
    check_as_planned(task, live.workload)
    if clean_up(task, live.pods):
        live = live_workload(task)
    name = autoscaler_of(task)
    if name is not None:
        raise _Deferred(f"{task.ref}: {name} scales it down too, expected none that does; left to the next run")
    if live.group.split or replaces_replica_sets(live.workload):
        raise _Deferred(f"{task.ref}: is in the middle of a rollout, expected its end; left to the next run")
    return live


def _victims(task: Task, selection: VictimSelection) -> ChosenVictims:
    """Return the victims; none where the choice is left to the controller, and the note says why."""
    picker = task.settings.picker
    if picker is None:
        return _by_strategy(task, selection)
    request = picker_request(selection, picker, task.ref.namespace)
    try:
        answer = accepted(task.access.picker.pick(request), request)
        return picked(selection, answer) or ChosenVictims((), "the picker has no opinion, the controller chose")
    except PickerError as error:
        if picker.on_error == "skip":
            raise _PickerFailed(f"{error}; left to the next run (onError: skip)") from error
        return ChosenVictims((), f"{error}; the controller chose (onError: fallback)", picker_failed=True)


def _by_strategy(task: Task, selection: VictimSelection) -> ChosenVictims:
    if task.settings.strategy != "ZoneBalanced":
        return first_of(selection)
    found = domains(task)
    why = without_domains(selection, found, task.settings.topology_key)
    return ChosenVictims((), f"{why}; the controller chose") if why else balanced(selection, found)


def _left_to_the_controller(task: Task, note: str) -> Outcome:
    check_lock(task)
    task.access.cluster.write(write_of(task.action.decision))
    return task.applied(note)


def _by_name(chosen: ChosenScaleDown, path: tuple[str, ...]) -> Outcome:
    """Name the pods at `path`, which may lack its last parent, in the same request that scales."""
    task = chosen.task
    check_lock(task)
    names = [pod.name for pod in chosen.going]
    parent = pointer(path[:-1])
    inside = PatchOperation("add", pointer(path), names)
    absent = PatchOperation("test", parent, None)
    try:
        task.access.cluster.write(_with(write_of(task.action.decision), inside))
    except (StaleError, RefusedError) as error:
        whole = PatchOperation("add", parent, {path[-1]: names})
        try:
            task.access.cluster.write(_with(write_of(task.action.decision), absent, whole))
        except StaleError:  # the parent is there: what was wrong is what the first answer says
            raise error from None
    return _verified(chosen, None)


def _with(write: Write, *operations: PatchOperation) -> Write:
    return replace(write, patch=(*write.patch, *operations))


def _by_deletion_costs(chosen: ChosenScaleDown) -> Outcome:
    task = chosen.task
    costs, entry = victim_costs(chosen)
    open_journal(task, entry)
    try:
        set_costs(task, costs)
        task.access.limit.sleep(task.settings.settle_seconds)
        if task.access.limit.over:
            raise _Deferred(f"{task.ref}: {task.access.limit.why}; {_RESTORED}")
        now = live_workload(task)
        why = next(changes_since(now.workload, now.group, chosen.selection, chosen.victims, entry), "")
        if why:
            raise _Deferred(f"{task.ref}: {why}; {_RESTORED}")
        check_lock(task)
        _scale(task)
    except (LockLostError, _ScaleUnknown):
        raise
    except ReconcilerError as error:
        raise _undone(task, entry, error) from error
    return _verified(chosen, entry)


def victim_costs(chosen: ChosenScaleDown) -> tuple[dict[Pod, str], JournalEntry]:
    """Return the costs that are written before `chosen` is carried out, and the journal's entry about them: victims get
    one, and of those that stay some do.

    Raises:
        ReconcilerError: somebody else's costs are in the way, and they are not to be overridden.
    """
    task = chosen.task
    foreign, spared = foreign_costs(chosen.selection, chosen.victims)
    strangers = of_strangers((*foreign, *spared))
    if strangers and task.settings.on_foreign_cost == "Skip":
        named = ", ".join(f"{pod.name} ({pod.deletion_cost})" for pod in strangers[:5])
        raise _Deferred(f"{task.ref}: foreign deletion costs on {named}, expected none (onForeignCost: Skip)")
    costs = dict.fromkeys(chosen.victims, VICTIM_COST) | dict.fromkeys(spared, SPARED_COST)
    # Ours, which another choice at the same time wrote, is no former cost: nobody would take it off again.
    pods = (
        JournalPod(pod.name, pod.uid, None if Key.VICTIM_LABEL in pod.labels else pod.deletion_cost) for pod in costs
    )
    return costs, task.entry(tuple(pods))


def _undone(task: Task, entry: JournalEntry, error: ReconcilerError) -> ReconcilerError:
    """Restore the deletion costs and return the error to end with."""
    try:
        restore_costs(task, entry.costs)
        close_journal(task, entry)
    except ReconcilerError as failure:
        return ClusterError(f"{error}; not all deletion costs could be restored, the next run restores them: {failure}")
    return error


def _scale(task: Task) -> None:
    """Scale, and find out whether it was done where the answer got lost."""
    try:
        task.access.cluster.write(write_of(task.action.decision))
    except (StaleError, NotFoundError, RefusedError):
        raise
    except ClusterError as error:
        unknown = _ScaleUnknown(f"{error}; whether it was scaled is not known, the next run corrects it")
        try:
            workload = live_workload(task).workload
        except ClusterError:
            raise unknown from error
        is_same = workload.uid == task.action.decision.uid
        if is_same and workload.spec_replicas == task.before and isinstance(error, UnreachableError):
            raise unknown from error  # what was sent may still arrive: without their costs other pods would go then
        if not is_same or workload.spec_replicas != task.after:
            raise


def _verified(chosen: ChosenScaleDown, entry: JournalEntry | None) -> Outcome:
    """Wait until the pods are going, then clean up; whatever fails now is left to the next run, the scale is done."""
    try:
        now, reached = _waited(chosen)
        if entry is not None and reached:
            _clean(chosen.task, now, entry)
    except ReconcilerError as error:
        return Outcome(
            chosen.task.action.id, OutcomeStatus.APPLIED, f"scaled, not verified; the next run cleans up: {error}"
        )
    there = {pod.uid for pod in now.pods if pod.is_active}
    going = {pod.uid for pod in chosen.going}
    staying = {pod.uid for pod in chosen.selection.candidates} - going
    missed, substituted = len(going & there), len(staying - there)
    remarks = [chosen.note]
    if missed or substituted:
        remarks.append(f"{len(going) - missed} of {len(going)} victims went, {substituted} other pods went")
    if not reached:
        remarks.append(f"its status did not reach {chosen.task.after} in {chosen.task.settings.verify_seconds:g} s")
    message = "; ".join(part for part in remarks if part)
    return chosen.task.applied(message, len(going) - missed, missed, substituted)


def _waited(chosen: ChosenScaleDown) -> tuple[LiveWorkload, bool]:
    """Return what is there once all victims are going and the status says so, or time is up."""
    task = chosen.task
    going = {pod.uid for pod in chosen.going}
    limit = task.access.limit.within(task.settings.verify_seconds)
    while True:
        now = live_workload(task)
        reached = now.workload.status_replicas in (task.after, None)
        if (reached and not any(pod.uid in going and pod.is_active for pod in now.pods)) or limit.over:
            return now, reached
        limit.sleep(_POLL_SECONDS)


def _clean(task: Task, now: LiveWorkload, entry: JournalEntry) -> None:
    """Restore the deletion costs of those that stay, and close the journal."""
    if any(pod.uid in entry.costs and pod.is_active for pod in now.pods):
        restore_costs(task, entry.costs)
    close_journal(task, entry)
