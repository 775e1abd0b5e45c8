"""Deletion costs of victims, and the journal that records them for the next run.

A victim gets a deletion cost and a label in one patch, and loses both in another. The journal is the ConfigMap
`reconciler-journal` in our namespace of each cluster, with an entry for each workload that is being shrunk:

    <uid of the workload>: {"at": "2026-11-20T15:41:23Z", "from": 6, "group": "apps", "kind": "Deployment",
                            "name": "web", "namespace": "shop", "policy": "workers", "run": "0123456789ab", "to": 4,
                            "pods": [{"cost": null, "name": "web-1", "uid": "..."}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.decide.annotations import SPARED_COST, VICTIM_COST, Key, annotated_time, compact, format_time
from reconciler.decide.decisions import (
    Cause,
    Decision,
    DesiredState,
    FieldChange,
    Notice,
    Phase,
    PolicyExplanation,
    Verb,
    group_name,
)
from reconciler.decide.downscale.deletion_order import deletion_cost, goes_first
from reconciler.decide.downscale.victim_choice import PodGroup, VictimSelection
from reconciler.decide.owners_and_rollouts import replaces_replica_sets
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.decide.victim_fields import PlanNumber
from reconciler.errors import AnnotationError
from reconciler.model import (
    DELETION_COST,
    JOURNAL,
    ConfigMap,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Pod,
    Run,
    Workload,
)
from reconciler.policy.types import Fleet, Shard, Writes
from reconciler.untrusted_text import parse_json

_COST_PATH = ("metadata", "annotations", DELETION_COST)
_LABEL_PATH = ("metadata", "labels", Key.VICTIM_LABEL)


PICKER_RUN = "picker-"
"""How the run begins in what the admission webhook writes, which is no run."""

LIFE = timedelta(hours=1)
"""After that a scale-down that was begun is not waited for any more."""

_ADMITTED = timedelta(minutes=1)
"""After that what the admission webhook let through is done, or never will be."""


class JournalPod(Struct, frozen=True):
    """A pod whose deletion cost is changed, and the text of the one it had before, None for none."""

    name: str
    uid: str
    cost: str | None


class JournalEntry(Struct, frozen=True):
    """A scale-down that has begun: `workload` goes from `before` to `after` replicas. `at` is the run's time."""

    workload: ObjectRef
    uid: str
    before: int
    after: int
    pods: tuple[JournalPod, ...]
    at: datetime
    run: str = ""
    policy: str = ""

    @property
    def by_picker(self) -> bool:
        """Whether somebody else scales it down, and our admission webhook has chosen the victims."""
        return self.run.startswith(PICKER_RUN)

    @property
    def costs(self) -> dict[str, str | None]:
        """The former costs, by the uid of the pod."""
        return {pod.uid: pod.cost for pod in self.pods}


class _Document(Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """An entry as it is kept."""

    at: str
    before: PlanNumber
    after: PlanNumber
    group: str
    kind: str
    name: str
    namespace: str
    pods: tuple[JournalPod, ...]
    policy: str
    run: str
    uid: str


def entry_text(entry: JournalEntry) -> str:
    """Return `entry` as it is kept."""
    ref, at = entry.workload, format_time(entry.at)
    names = (ref.group, ref.kind, ref.name, ref.namespace)
    document = _Document(at, entry.before, entry.after, *names, entry.pods, entry.policy, entry.run, entry.uid)
    return compact(msgspec.to_builtins(document))


def read_entry(text: str, cluster: str) -> JournalEntry:
    """Return the entry in `text`.

    Raises:
        AnnotationError: it cannot be read; the message says what is wrong with it.
    """
    try:
        found = msgspec.json.decode(text, type=_Document)
        at = annotated_time(found.at, "at")
    except (msgspec.MsgspecError, AnnotationError, ValueError, RecursionError) as error:
        raise AnnotationError(f"the journal entry cannot be read: {error}") from error
    ref = ObjectRef(cluster, found.namespace, found.kind, found.name, found.group)
    return JournalEntry(ref, found.uid, found.before, found.after, found.pods, at, found.run, found.policy)


def is_of_another(text: str) -> bool:
    """Return whether `text` is a record in the same place of something else than a scale-down."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "pods" not in value


def _is_victim(pod: Pod, run: str) -> bool:
    """Return whether `pod` has the deletion cost and the label of a victim of that run."""
    return pod.deletion_cost == VICTIM_COST and pod.labels.get(Key.VICTIM_LABEL) == run


def victim_changes(pod: Pod, cost: str, run: str) -> tuple[FieldChange, ...]:
    """Return the changes that give `pod` the deletion cost `cost` and our label, with tests of its present values."""
    return (
        FieldChange(_COST_PATH, pod.deletion_cost, cost),
        FieldChange(_LABEL_PATH, pod.labels.get(Key.VICTIM_LABEL), run),
    )


def former_changes(pod: Pod, former: str | None) -> tuple[FieldChange, ...]:
    """Return the changes that remove our label from `pod` and restore `former`; a cost that is not ours stays."""
    cost: tuple[FieldChange, ...] = ()
    label: tuple[FieldChange, ...] = ()
    if pod.deletion_cost in (VICTIM_COST, SPARED_COST) and pod.deletion_cost != former:
        cost = (FieldChange(_COST_PATH, pod.deletion_cost, former),)
    if Key.VICTIM_LABEL in pod.labels:
        label = (FieldChange(_LABEL_PATH, pod.labels[Key.VICTIM_LABEL], None),)
    return cost + label


# Whether the victims are still exactly the pods that will go.


def changes_since(
    workload: Workload, group: PodGroup, selection: VictimSelection, victims: Iterable[Pod], entry: JournalEntry
) -> Iterator[str]:
    """Yield what changed since `selection` was made and its `victims` got their costs as `entry` says; `workload` and
    `group` are as they are now.
    """
    chosen = {pod.uid for pod in victims}
    if workload.uid != entry.uid or workload.spec_replicas != entry.before:
        yield f"its replicas are {workload.spec_replicas}, expected {entry.before}"
    if group.split or replaces_replica_sets(workload):
        yield "a rollout has begun"
    now = {pod.uid: pod for pod in group.active}
    before = {pod.uid: pod for pod in (*selection.first, *selection.candidates)}
    yield from (f"{before[uid].name} is gone" for uid in before if uid not in now)
    yield from (f"{now[uid].name} is new" for uid in now if uid not in before)
    waiting = {pod.uid for pod in selection.first}
    for uid, pod in now.items():
        if goes_first(pod) != (uid in waiting):
            yield f"{pod.name} is {'not Ready any more' if goes_first(pod) else 'Ready now'}"
        if uid in chosen and not _is_victim(pod, entry.run):
            yield f"{pod.name} no longer has our deletion cost"
        if uid not in chosen and not goes_first(pod) and deletion_cost(pod.deletion_cost) <= int(VICTIM_COST):
            yield f"{pod.name} has a cost of {pod.deletion_cost} by now"


# What a crash left behind: deletion costs that are restored, and journal entries that are closed.


def decide_recovery(fleet: Fleet, state: ObservedState, run: Run, shard: Shard | None = None) -> DesiredState:
    """Return the repairs after a run that was interrupted during a scale-down, of what `shard` decides.

    Replicas still where they were: the costs go, the downscale is decided afresh. Replicas where they should be: the
    costs go once the status says so too. Neither: somebody else scaled, the costs go. Costs without an entry go.
    """
    parts = [
        _in_cluster(state.clusters[cluster.name], fleet.namespace, run, shard)
        for cluster in sorted(fleet.clusters, key=lambda cluster: cluster.name)
        if cluster.name in state.clusters and cluster.writes is Writes.EVERYTHING
    ]
    return DesiredState().joined(*parts)


def former_costs(observed: ObservedCluster, namespace: str) -> dict[str, str | None]:
    """Return the costs that victims had before, by uid; None too for victims without an entry."""
    _, entries, _ = journal_of(observed, namespace)
    costs: dict[str, str | None] = {pod.uid: None for pod in observed.victim_pods}
    for entry in entries.values():
        costs |= {uid: cost for uid, cost in entry.costs.items() if uid in costs}
    return costs


def _in_cluster(observed: ObservedCluster, namespace: str, run: Run, shard: Shard | None) -> DesiredState:
    journal, entries, notices = journal_of(observed, namespace)
    if shard is not None:
        decides = shard.decides_on(observed.name)
        entries = {key: entry for key, entry in entries.items() if decides(entry.workload.namespace)}
    victims = {pod.uid: pod for pod in observed.victim_pods if not pod.terminating}
    workloads = {workload.uid: workload for workload in observed.workloads} if entries else {}
    decisions: list[Decision] = []
    explanations: list[PolicyExplanation] = []
    for key in sorted(entries):
        entry = entries[key]
        why = _why_finished(entry, workloads.get(entry.uid), observed, run)
        if why and journal is not None:
            decisions += _finished(journal, key, entry, victims, why)
        else:
            outcome, progress = "its victims keep their deletion costs", reason(ReasonCode.SCALE_DOWN_IN_PROGRESS)
            explanations.append(PolicyExplanation(entry.workload, "downscale", entry.policy, outcome, (progress,)))
    recorded = {uid for entry in entries.values() for uid in entry.costs}
    strays = sorted((pod for uid, pod in victims.items() if uid not in recorded), key=_pod_name)
    decisions += [_cost_restored(pod, None, _stray_group(pod), _STRAY) for pod in strays]
    return DesiredState(decisions=tuple(decisions), notices=notices, explanations=tuple(explanations))


_STRAY = Cause("", "", (reason(ReasonCode.STRAY_VICTIM),))


def _pod_name(pod: Pod) -> tuple[str, str]:
    return (pod.namespace, pod.name)


def _stray_group(pod: Pod) -> str:
    return f"downscale/{pod.cluster}/{pod.namespace}/{pod.owner_kind}/{pod.owner_name}"


def journal_of(
    observed: ObservedCluster, namespace: str
) -> tuple[ConfigMap | None, dict[str, JournalEntry], tuple[Notice, ...]]:
    """Return the journal of a cluster, its entries by key, and a notice for each that cannot be read."""
    found = (
        config_map
        for config_map in observed.config_maps
        if (config_map.ref.namespace, config_map.ref.name) == (namespace, JOURNAL)
    )
    journal = next(found, None)
    entries: dict[str, JournalEntry] = {}
    notices: list[Notice] = []
    for key, text in sorted(journal.data.items()) if journal is not None else ():
        if is_of_another(text):
            continue
        try:
            entries[key] = read_entry(text, observed.name)
        except AnnotationError as error:
            subject = f"{observed.name}/{namespace}/ConfigMap/{JOURNAL}"
            notices.append(Notice("setAside", subject, f"{key}: {error}; remove it by hand", partial=True))
    return journal, entries, tuple(notices)


def _finished(
    journal: ConfigMap, key: str, entry: JournalEntry, victims: Mapping[str, Pod], why: Reasons
) -> Iterator[Decision]:
    """Yield what restores the costs of `entry`, whose key in `journal` is `key`, and closes it."""
    cause = Cause(entry.policy, "", why, {"from": entry.before, "to": entry.after, "run": entry.run})
    group = group_name("downscale", entry.workload)
    left = sorted((victims[uid] for uid in entry.costs if uid in victims), key=_pod_name)
    restored = [_cost_restored(pod, entry.costs[pod.uid], group, cause) for pod in left]
    yield from restored
    yield _entry_removed(journal, key, group, cause, restored)


def _why_finished(entry: JournalEntry, workload: Workload | None, observed: ObservedCluster, run: Run) -> Reasons:
    """Return why the costs of `entry` are of no use any more, () while they are or while that is not known."""
    if workload is None:
        ref = entry.workload
        return () if observed.unread(ref.group, ref.kind) else (reason(ReasonCode.WORKLOAD_GONE),)
    interrupted = reason(ReasonCode.SCALE_DOWN_INTERRUPTED, replicas=entry.after)
    if workload.spec_replicas == entry.before:
        return () if entry.by_picker and run.now < entry.at + _ADMITTED else (interrupted,)
    if workload.spec_replicas != entry.after:
        return (interrupted, reason(ReasonCode.SCALED_SINCE, replicas=workload.spec_replicas))
    if workload.status_replicas in (entry.after, None) or run.now >= entry.at + LIFE:
        return (reason(ReasonCode.SCALE_DOWN_COMPLETE, replicas=entry.after),)
    return ()


def _cost_restored(pod: Pod, former: str | None, group: str, cause: Cause) -> Decision:
    ref = ObjectRef(pod.cluster, pod.namespace, "Pod", pod.name)
    return _repair(f"clear/{ref}", ref, pod.uid, former_changes(pod, former), cause=cause, group=group)


def _entry_removed(journal: ConfigMap, key: str, group: str, cause: Cause, restored: Sequence[Decision]) -> Decision:
    removed = (FieldChange(("data", key), journal.data[key], None),)
    needs = tuple(decision.key for decision in restored)
    name = f"close/{journal.ref.cluster}/{key}"
    return _repair(name, journal.ref, journal.uid, removed, cause=cause, group=group, order=(1,), needs=needs)


def _repair(key: str, ref: ObjectRef, uid: str, changes: tuple[FieldChange, ...], **more: Any) -> Decision:
    return Decision(
        key=f"downscale/{key}",
        job="downscale",
        verb=Verb.REPAIR,
        phase=Phase.REPAIR,
        ref=ref,
        api_version="v1",
        uid=uid,
        changes=changes,
        **more,
    )
