"""Deletion costs of a scale down: the workload and its pods as they are now, and what is written before and removed
after: the costs, our label and the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.protocols import AUTOSCALERS, NODES, PODS, REPLICA_SETS, SCALED_OBJECT, workloads_of
from reconciler.decide.annotations import Key
from reconciler.decide.autoscalers import autoscalers_of, shrunk_by
from reconciler.decide.decisions import FieldChange
from reconciler.decide.downscale.journal import (
    JournalEntry,
    JournalPod,
    entry_text,
    former_changes,
    read_entry,
    victim_changes,
)
from reconciler.decide.downscale.planned_victims import domains_of
from reconciler.decide.downscale.victim_choice import DEFAULT, PodGroup, pod_group
from reconciler.decide.owners_and_rollouts import own_key, owner_key
from reconciler.decide.victim_fields import DownscaleSettings
from reconciler.errors import LockLostError, NotFoundError, StaleError
from reconciler.labels import selector_text
from reconciler.model import ObjectRef, ObservedCluster, Pod, Run, Workload, Write
from reconciler.plan.json_patch import missing_maps, patch_of
from reconciler.plan.model import Action
from reconciler.workload_kinds import workload_kind


class Task(Struct, frozen=True):
    """One workload to scale down."""

    action: Action
    access: Access
    run: Run

    @property
    def ref(self) -> ObjectRef:
        return self.action.ref

    @property
    def settings(self) -> DownscaleSettings:
        return self.action.decision.downscale or DEFAULT

    @property
    def before(self) -> int:
        return self.action.decision.replicas_before or 0

    @property
    def after(self) -> int:
        return self.action.decision.replicas_after or 0

    @property
    def uid(self) -> str:
        return self.action.decision.uid or ""

    def entry(self, pods: tuple[JournalPod, ...] = ()) -> JournalEntry:
        """Return the entry of the journal about it, with the `pods` whose costs it changes."""
        run, policy = self.run, self.settings.policy
        return JournalEntry(self.ref, self.uid, self.before, self.after, pods, run.now, run.id, policy)

    def applied(self, message: str, hit: int = 0, missed: int = 0, substituted: int = 0) -> Outcome:
        """Return that it was done; the numbers are the victims that went, that did not, and other pods that went."""
        return Outcome(self.action.id, OutcomeStatus.APPLIED, message, hit, missed, substituted)


class LiveWorkload(Struct, frozen=True):
    """The workload and all of its pods."""

    workload: Workload
    pods: tuple[Pod, ...]

    @property
    def group(self) -> PodGroup:
        return pod_group(self.workload.ref.kind, self.pods)


def live_workload(task: Task) -> LiveWorkload:
    """Return what is there now.

    Raises:
        NotFoundError: the workload is gone. ClusterError: it cannot be read.
    """
    cluster, ref = task.access.cluster, task.ref
    workload = task.access.workload(ref)
    owners = {workload.uid}
    if workload_kind(ref.kind).pods == "ReplicaSets":
        sets = cluster.list(REPLICA_SETS, namespace=ref.namespace)
        owners |= {replica_set.uid for replica_set in sets if owner_key(replica_set) == own_key(workload)}
    pods = cluster.list(PODS, namespace=ref.namespace, labels=selector_text(workload.selector))
    return LiveWorkload(workload, tuple(pod for pod in pods if pod.owner_uid in owners))


def check_as_planned(task: Task, workload: Workload) -> None:
    """Check that `workload` is still what the plan saw.

    Raises:
        StaleError: it is not.
    """
    if workload.uid != task.action.decision.uid or workload.terminating:
        raise StaleError(f"{task.ref}: is another object or being deleted, expected the one of the plan; plan again")
    if workload.spec_replicas != task.before:
        raise StaleError(f"{task.ref}: replicas are {workload.spec_replicas}, expected {task.before}; plan again")


def autoscaler_of(task: Task) -> str | None:
    """Return the name of the autoscaler that scales the workload down too, None where there is none."""
    cluster, namespace = task.access.cluster, task.ref.namespace
    around = ObservedCluster(
        name=cluster.name,
        identity="",
        workloads=cluster.list(workloads_of(SCALED_OBJECT), namespace=namespace),
        autoscalers=cluster.list(AUTOSCALERS, namespace=namespace),
    )
    return shrunk_by(autoscalers_of(around), task.ref)


def domains(task: Task) -> dict[str, str]:
    """Return the domain of each node by its name."""
    return domains_of(task.access.cluster.list(NODES), task.settings.topology_key)


_AT_ONCE = 16
_ATTEMPTS = 3


def check_lock(task: Task) -> None:
    """Check that the cluster is still ours to write to.

    Raises:
        LockLostError: it is not.
    """
    if not task.access.lock.held():
        raise LockLostError(task.ref)


def open_journal(task: Task, entry: JournalEntry) -> None:
    """Write down what is about to be done."""
    check_lock(task)
    task.access.store.write(entry.uid, entry_text(entry), None)


def close_journal(task: Task, entry: JournalEntry) -> None:
    """Take the entry off the journal."""
    check_lock(task)
    task.access.store.write(entry.uid, None, entry_text(entry))


def set_costs(task: Task, costs: Mapping[Pod, str]) -> None:
    """Give each pod its cost of `costs`, and our label.

    Raises:
        ClusterError: some could not be written; the others may be.
    """
    _each(task, costs, lambda pod: _patch(task, pod, victim_changes(pod, costs[pod], task.run.id)))


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
    text = task.access.store.read(task.uid)
    strays = [pod for pod in pods if Key.VICTIM_LABEL in pod.labels]
    if text is None and not strays:
        return False
    former: dict[str, str | None] = {pod.uid: None for pod in strays}
    if text is not None:
        former |= read_entry(text, task.ref.cluster).costs
    restore_costs(task, former)
    if text is not None:
        task.access.store.write(task.uid, None, text)
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
    ref = ObjectRef(task.ref.cluster, pod.namespace or task.ref.namespace, "Pod", pod.name)
    task.access.cluster.write(Write("patch", ref, "v1", uid=pod.uid, patch=tuple(patch_of(changes, missing_maps(pod)))))


def _each(task: Task, pods: Iterable[Pod], do: Callable[[Pod], None]) -> None:
    """Do it for all, side by side; the first error in their order is raised once all are done."""
    for error in filter(None, task.access.pool.failures(task.ref.cluster, do, list(pods), _AT_ONCE)):
        raise error
