"""Deletion costs of pods, our label and the journal: written before a workload is scaled down, then removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from reconciler.apply.downscale.live_workload import Task, live_workload
from reconciler.backends.protocols import PODS
from reconciler.decide.annotations import VICTIM_LABEL
from reconciler.decide.decisions import FieldChange
from reconciler.decide.downscale.journal import JournalEntry, entry_text, former_changes, read_entry, victim_changes
from reconciler.errors import LockHeldError, NotFoundError, StaleError
from reconciler.model import ObjectRef, Pod, Write
from reconciler.plan.model import patch_of

_AT_ONCE = 16
_ATTEMPTS = 3


def check_lock(task: Task) -> None:
    """Check that the cluster is still ours to write to.

    Raises:
        LockHeldError: it is not.
    """
    if not task.access.lock.held():
        raise LockHeldError(f"{task.ref}: the lock was lost, nothing more is written there")


def open_journal(task: Task, entry: JournalEntry) -> None:
    """Write down what is about to be done."""
    check_lock(task)
    task.access.store.write(entry.uid, entry_text(entry), None)


def close_journal(task: Task, entry: JournalEntry) -> None:
    """Take the entry off the journal."""
    check_lock(task)
    task.access.store.write(entry.uid, None, entry_text(entry))


def set_costs(task: Task, pods: Sequence[Pod], costs: Mapping[str, str]) -> None:
    """Give each pod its cost of `costs` (by uid), and our label.

    Raises:
        ClusterError: some could not be written; the others may be.
    """
    _each(task, pods, lambda pod: _patch(task, pod, victim_changes(pod, costs[pod.uid], task.run.id)))


def restore_costs(task: Task, former: Mapping[str, str | None]) -> None:
    """Restore the costs of the workload's pods in `former` (cost before, by uid), but for those that are going.

    Raises:
        ClusterError: some are not restored.
    """
    marked = [pod for pod in live_workload(task).pods if pod.uid in former]
    _each(task, marked, lambda pod: _restore_cost(task, pod, former[pod.uid]))


def clean_up(task: Task, pods: Iterable[Pod]) -> bool:
    """Restore what an earlier run left on the workload and its `pods`; return whether there was anything.

    Raises:
        AnnotationError: the journal's entry cannot be read.
    """
    uid = task.decision.uid or ""
    text = task.access.store.read(uid)
    strays = [pod for pod in pods if VICTIM_LABEL in pod.labels]
    if text is None and not strays:
        return False
    former: dict[str, str | None] = {pod.uid: None for pod in strays}
    if text is not None:
        former |= read_entry(text, task.ref.cluster).costs
    restore_costs(task, former)
    if text is not None:
        task.access.store.write(uid, None, text)
    return True


def _restore_cost(task: Task, pod: Pod, former: str | None) -> None:
    """Restore the cost of one pod as it is now; one that is gone or going needs none."""
    for attempt in range(1, _ATTEMPTS + 1):
        changes = () if pod.terminating else former_changes(pod, former)
        if not changes:
            return
        try:
            _patch(task, pod, changes)
            return
        except NotFoundError:
            return
        except StaleError:
            if attempt == _ATTEMPTS:
                raise
        found = _found(task, pod)
        if found is None:
            return
        pod = found


def _found(task: Task, pod: Pod) -> Pod | None:
    """Return the pod as it is now, None where it is gone or another one has its name."""
    try:
        now = task.access.cluster.get(PODS, pod.namespace, pod.name)
    except NotFoundError:
        return None
    return now if now.uid == pod.uid else None


def _patch(task: Task, pod: Pod, changes: Sequence[FieldChange]) -> None:
    check_lock(task)
    maps = ((pod.has_annotations, ("metadata", "annotations")), (pod.has_labels, ("metadata", "labels")))
    missing = [path for there, path in maps if not there]
    ref = ObjectRef(task.ref.cluster, pod.namespace or task.ref.namespace, "Pod", pod.name)
    task.access.cluster.write(Write("patch", ref, "v1", uid=pod.uid, patch=tuple(patch_of(changes, missing))))


def _each(task: Task, pods: Iterable[Pod], do: Callable[[Pod], None]) -> None:
    """Do it for all, side by side; the first error in their order is raised once all are done."""

    def done(pod: Pod) -> Exception | None:
        try:
            do(pod)
        except Exception as error:  # noqa: BLE001 - raised below
            return error
        return None

    errors = task.access.pool.each(task.ref.cluster, done, list(pods), _AT_ONCE)
    for error in filter(None, errors):
        raise error
