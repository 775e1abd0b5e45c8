"""The choice of the pods that go when somebody else scales a workload down: as a run does, within the time of a review.

Nothing is denied: whatever goes wrong, the decrease goes through, and the controller chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.access import Access, unlocked
from reconciler.apply.deletion_costs import Task, clean_up, live_workload, open_journal, set_costs
from reconciler.apply.events import decrease_event
from reconciler.apply.scale_down import chosen_scale_down, victim_costs
from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.pod_picker import HttpPodPicker
from reconciler.backends.protocols import (
    BUILT_IN_SCALES,
    CONFIG_MAPS,
    NAMESPACES,
    Cluster,
    PodPickerClient,
    RequestSettings,
    Resource,
    workloads_of,
)
from reconciler.decide.annotations import PICKER_ENABLED, Key, digest
from reconciler.decide.downscale.decreases_by_others import RECORD, every_decrease, record_text
from reconciler.decide.downscale.journal import PICKER_RUN, read_entry
from reconciler.decide.downscale.victim_choice import VictimStrategy, decrease_of
from reconciler.decide.freeze import CONFIG_MAP
from reconciler.decide.owners_and_rollouts import replaces_replica_sets
from reconciler.errors import NotFoundError, ReconcilerError, reason_of
from reconciler.model import ConfigMap, Namespace, ObservedCluster, ObservedState, Run, Workload, Write
from reconciler.picker_webhook.admission_review import ScaleReview
from reconciler.plan.model import Action
from reconciler.policy.types import PolicySet
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool
from reconciler.workload_kinds import WorkloadKind

T = TypeVar("T")

_WRITE_SECONDS = 0.4
"""So much of the time of a review is kept from the pod picker, for the deletion costs."""

_SETTLE_SECONDS = 0.25
"""For so long at most the controller has time to see the deletion costs, before it sees the decrease."""


class Result(StrEnum):
    """What became of a review. All of them are admitted."""

    PASSED = "passed"  # there was nothing to choose
    PICKED = "picked"
    UNPICKED = "unpicked"  # a policy wants a choice, and there was none


class ReviewAnswer(Struct, frozen=True):
    """`why` is for people: what was picked, or why nothing was. `event` is what is said of it on the object."""

    result: Result
    why: str = ""
    event: Write | None = None


class ReviewedCluster(KubernetesCluster):
    """The cluster as a review reads and writes it: of kinds that every cluster serves."""

    def __init__(self, name: str, connection: ApiServerConnection, settings: RequestSettings) -> None:
        super().__init__(name, ApiClient(connection, settings))

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        return BUILT_IN_SCALES

    def _serves(self, resource: Resource[T], namespace: str) -> bool:  # noqa: ARG002 - each of them, anywhere
        return True


View = Callable[[TimeLimit], Cluster]
Client = Callable[[Cluster, PolicySet, TimeLimit], PodPickerClient]


def _http_picker(cluster: Cluster, policies: PolicySet, limit: TimeLimit) -> PodPickerClient:
    """Return what asks pod pickers over HTTP within `limit`."""
    return HttpPodPicker(cluster.secret, policies.fleet.pod_pickers.allowed_hosts, limit)


class Picker:
    """Chooses pods on `cluster`, one of the Fleet, by `policies`, which may be replaced at any time.

    Any thread may call it. `view` gives the cluster within a time limit. Of `users`, and of our own ServiceAccounts,
    requests pass: runs choose by themselves.
    """

    def __init__(
        self, policies: PolicySet, cluster: str, view: View, users: Collection[str] = (), client: Client = _http_picker
    ) -> None:
        self.policies = policies
        self.cluster = cluster
        self._view = view
        self._users = frozenset(users)
        self._client = client
        self._pool = WorkerPool()

    def review(self, review: ScaleReview, limit: TimeLimit, now: datetime | None = None) -> ReviewAnswer:
        """Choose the pods for `review` within `limit`, write their deletion costs, and return what became of it."""
        if review.after >= review.before or review.dry_run or self._is_ours(review.user):
            return ReviewAnswer(Result.PASSED)
        at = (now or datetime.now(UTC)).replace(microsecond=0)
        run = Run(at, f"{PICKER_RUN}{digest([review.uid], 8)}")
        is_there = False  # of what is not known to be there no Event speaks: anybody in the cluster may send reviews
        try:
            choice = _Choice(self, review, limit, run)
            namespace = choice.namespace()
            if namespace is None:
                return ReviewAnswer(Result.PASSED)
            workload = choice.workload()
            is_there = True
            return choice.made(workload, namespace)
        except ReconcilerError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - a bug too leaves the choice to the controller, and is said
            why = reason_of(error)
        why = f"{why}{f' ({limit.why})' if limit.over else ''}"
        return unpicked(review, run, why) if is_there else ReviewAnswer(Result.UNPICKED, why)

    def begin(self, limit: TimeLimit) -> None:
        """Let runs know that there is a picker: they say then which decreases it did not see.

        Raises:
            ClusterError: it could not be written.
        """
        store = self.access(limit).store
        if store.read(RECORD) is None:
            store.write(RECORD, record_text({}), None)

    def tell(self, event: Write, limit: TimeLimit) -> None:
        """Write `event`.

        Raises:
            ClusterError: it could not be written.
        """
        self._view(limit).write(event)

    def access(self, limit: TimeLimit) -> Access:
        """Return how the cluster is read and written within `limit`."""
        cluster = self._view(limit)
        found = unlocked(cluster, self.policies.fleet.namespace, limit, self._pool)
        asking = limit.within(max(0.0, limit.left() - _WRITE_SECONDS))
        return replace(found, picker=self._client(cluster, self.policies, asking))

    def _is_ours(self, user: str) -> bool:
        own = f"system:serviceaccount:{self.policies.fleet.namespace}:reconciler"
        return user == own or user.startswith(f"{own}-") or user in self._users


def unpicked(review: ScaleReview, run: Run, why: str) -> ReviewAnswer:
    """Return that the controller chooses, though a policy wants a choice."""
    return ReviewAnswer(Result.UNPICKED, why, _event(review, run, f"decreased without a picker: {why}", picked=False))


def _event(review: ScaleReview, run: Run, what: str, *, picked: bool) -> Write:
    by = f" by {review.user}" if review.user else ""
    message = f"replicas {review.before} -> {review.after}{by}; {what}"
    return decrease_event(review.ref, review.object_uid, run, message, picked=picked)


class _Unpicked(ReconcilerError):
    """The controller chooses, and why."""


class _Choice:
    """The choice for one review."""

    def __init__(self, picker: Picker, review: ScaleReview, limit: TimeLimit, run: Run) -> None:
        self._policies, self._name = picker.policies, picker.cluster
        self._review, self._limit, self._run = review, limit, run
        self._access = picker.access(limit)
        self._cluster = self._access.cluster

    def namespace(self) -> Namespace | None:
        """Return the namespace of what is scaled down, None where it did not let us in."""
        found = self._cluster.get(NAMESPACES, "", self._review.ref.namespace)
        return found if found.labels.get(Key.PICKER_LABEL) == PICKER_ENABLED else None

    def workload(self) -> Workload:
        """Return what is scaled down.

        Raises:
            NotFoundError: the review is about another object.
        """
        ref = self._review.ref
        kind = next(kind for kind in BUILT_IN_SCALES if (kind.group, kind.kind) == (ref.group, ref.kind))
        found = self._cluster.get(workloads_of(kind), ref.namespace, ref.name)
        if found.uid != self._review.object_uid:
            raise NotFoundError(f"{ref}: is another object, expected the one of the review")
        return found

    def made(self, workload: Workload, namespace: Namespace) -> ReviewAnswer:
        """Choose the pods of `workload`, which is in `namespace`.

        Raises:
            ReconcilerError: the controller chooses, and why.
        """
        state = self._state(workload, namespace)
        strategy_of = every_decrease(self._policies, state, self._name, self._run)
        strategy = VictimStrategy() if strategy_of is None else strategy_of(workload)
        if not (strategy.chooses or strategy.note):
            return ReviewAnswer(Result.PASSED)
        decision = decrease_of(workload, self._review.before, self._review.after, strategy.settings)
        task = Task(Action(1, decision), self._access, self._run)
        try:
            if strategy.note:
                raise _Unpicked(strategy.note)
            return self._picked(task)
        except ReconcilerError:
            self._write_down(task)
            raise

    def _state(self, workload: Workload, namespace: Namespace) -> ObservedState:
        """Return what decides whether the pods of `workload` are ours to choose."""
        freezes: tuple[ConfigMap, ...] = ()
        with suppress(NotFoundError):  # nothing is frozen
            freezes = (self._cluster.get(CONFIG_MAPS, self._policies.fleet.namespace, CONFIG_MAP),)
        found = ObservedCluster(self._name, "", workloads=(workload,), namespaces=(namespace,), config_maps=freezes)
        return ObservedState({self._name: found})

    def _picked(self, task: Task) -> ReviewAnswer:
        """Choose, and write the deletion costs.

        Raises:
            ReconcilerError: the controller chooses, and why.
        """
        written = self._access.store.read(task.uid)
        entry = None if written is None else read_entry(written, self._name)
        if entry is not None and not entry.by_picker:
            if (entry.before, entry.after) == (task.before, task.after):
                return ReviewAnswer(Result.PASSED)  # a run scales it down, as somebody else than our ServiceAccount
            raise _Unpicked(f"run {entry.run} scales it down, or was interrupted meanwhile")
        live = live_workload(task)
        if live.workload.uid != task.uid or live.workload.spec_replicas != task.before:
            raise _Unpicked(f"its replicas are {live.workload.spec_replicas} by now")
        if clean_up(task, live.pods):  # not for a review of other replicas: the costs may be about to be needed
            live = live_workload(task)
        if live.group.split or replaces_replica_sets(live.workload):
            raise _Unpicked("it is in the middle of a rollout, so which of its ReplicaSets shrinks is not known")
        chosen = chosen_scale_down(task, live)
        if not chosen.selection.open:
            self._write_down(task)
            return ReviewAnswer(Result.PASSED)
        if not chosen.victims:
            raise _Unpicked(chosen.note)
        costs, entry = victim_costs(chosen)
        open_journal(task, entry)
        set_costs(task, costs)
        self._limit.sleep(min(_SETTLE_SECONDS, task.settings.settle_seconds))
        names = ", ".join(pod.name for pod in chosen.going)
        note = f"; {chosen.note}" if chosen.note else ""
        why = f"deletes {names} ({task.settings.policy}, {task.settings.strategy}){note}"
        return ReviewAnswer(Result.PICKED, why, _event(self._review, self._run, why, picked=True))

    def _write_down(self, task: Task) -> None:
        """Write into the journal that the decrease was seen, so that the next run does not take it for another one."""
        with suppress(ReconcilerError):  # then the next run says so once more
            if self._access.store.read(task.uid) is None:
                open_journal(task, task.entry())
