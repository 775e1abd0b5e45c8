"""What a crash left behind: marks that are taken off, and journal entries that are closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from reconciler.decide.decisions import Cause, Considered, Decision, DesiredState, FieldChange, Notice, Phase, Verb
from reconciler.decide.downscale.journal import JOURNAL, Entry, is_of_another, read_entry, unmark_changes
from reconciler.decide.downscale.targets import group_name
from reconciler.errors import AnnotationError
from reconciler.model import ConfigMap, ObjectRef, ObservedCluster, ObservedState, Pod, Run, Workload
from reconciler.policy.types import Fleet, Writes

LIFE = timedelta(hours=1)
"""After that a shrink that was begun is not waited for any more."""


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left in one cluster: the journal's entries by key, and marked pods by uid."""

    observed: ObservedCluster
    journal: ConfigMap | None
    entries: Mapping[str, Entry]
    marked: Mapping[str, Pod]
    workloads: Mapping[str, Workload]


def decide_recovery(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return what puts right what a run left that did not come to its end.

    Replicas still where they were: the marks go, the downscale is decided afresh. Replicas where they should be: the
    marks go once the status says so too. Neither: somebody else scaled, the marks go. Marks without an entry go.
    """
    parts = [
        _in_cluster(state.clusters[cluster.name], fleet.namespace, run)
        for cluster in sorted(fleet.clusters, key=lambda cluster: cluster.name)
        if cluster.name in state.clusters and cluster.writes is Writes.EVERYTHING
    ]
    return DesiredState().joined(*parts)


def former_costs(observed: ObservedCluster, namespace: str) -> dict[str, str | None]:
    """Return the costs that marked pods had before, by uid; None too for marks that no entry tells of."""
    _, entries, _ = _entries(observed, namespace)
    costs: dict[str, str | None] = {pod.uid: None for pod in observed.marked_pods}
    for entry in entries.values():
        costs |= {uid: cost for uid, cost in entry.costs.items() if uid in costs}
    return costs


def _in_cluster(observed: ObservedCluster, namespace: str, run: Run) -> DesiredState:
    journal, entries, notices = _entries(observed, namespace)
    left = _Left(
        observed=observed,
        journal=journal,
        entries=entries,
        marked={pod.uid: pod for pod in observed.marked_pods if not pod.terminating},
        workloads={workload.uid: workload for workload in observed.workloads} if entries else {},
    )
    told = {uid for entry in entries.values() for uid in entry.costs}
    strays = [pod for uid, pod in left.marked.items() if uid not in told]
    found = [one for key in sorted(entries) for one in _of_entry(left, key, run)]
    return DesiredState(
        decisions=(
            *(one for one in found if isinstance(one, Decision)),
            *(_unmark(pod, None, _stray_group(pod), _STRAY) for pod in sorted(strays, key=_pod_name)),
        ),
        notices=notices,
        considered=tuple(one for one in found if isinstance(one, Considered)),
    )


_STRAY = Cause("", "", "a mark without a journal entry")


def _pod_name(pod: Pod) -> tuple[str, str]:
    return (pod.namespace, pod.name)


def _stray_group(pod: Pod) -> str:
    return f"downscale/{pod.cluster}/{pod.namespace}/{pod.owner_kind}/{pod.owner_name}"


def _entries(
    observed: ObservedCluster, namespace: str
) -> tuple[ConfigMap | None, dict[str, Entry], tuple[Notice, ...]]:
    found = (one for one in observed.config_maps if (one.ref.namespace, one.ref.name) == (namespace, JOURNAL))
    journal = next(found, None)
    entries: dict[str, Entry] = {}
    notices: list[Notice] = []
    for key, text in sorted(journal.data.items()) if journal is not None else ():
        if is_of_another(text):
            continue
        try:
            entries[key] = read_entry(text, observed.name)
        except AnnotationError as error:
            subject = f"{observed.name}/{namespace}/ConfigMap/{JOURNAL}"
            notices.append(Notice("setAside", subject, f"{key}: {error}; take it off by hand", partial=True))
    return journal, entries, tuple(notices)


def _of_entry(left: _Left, key: str, run: Run) -> Iterator[Decision | Considered]:
    entry = left.entries[key]
    workload = left.workloads.get(entry.uid)
    why = _over(entry, workload, left.observed, run)
    if not why:
        outcome = "its marks stay for now"
        yield Considered(entry.workload, "downscale", entry.policy, outcome, "its last shrink has not come to its end")
        return
    cause = Cause(entry.policy, "", why, {"from": entry.before, "to": entry.after, "run": entry.run})
    group = group_name(entry.workload)
    marked = [left.marked[uid] for uid in entry.costs if uid in left.marked]
    unmarks = [_unmark(pod, entry.costs[pod.uid], group, cause) for pod in sorted(marked, key=_pod_name)]
    yield from unmarks
    if left.journal is not None:
        yield _closing(left.journal, key, group, cause, unmarks)


def _over(entry: Entry, workload: Workload | None, observed: ObservedCluster, run: Run) -> str:
    """Return why the marks of `entry` are of no use any more, "" while they are or while that is not known."""
    if workload is None:
        ref = entry.workload
        return "" if observed.unread(ref.group, ref.kind) else "the workload is gone"
    if workload.wanted == entry.before:
        return f"a shrink to {entry.after} was begun and not done"
    if workload.wanted != entry.after:
        return f"a shrink to {entry.after} was begun, then somebody scaled to {workload.wanted}"
    if workload.status_replicas in (entry.after, None) or run.now >= entry.at + LIFE:
        return f"the shrink to {entry.after} is done"
    return ""


def _unmark(pod: Pod, former: str | None, group: str, cause: Cause) -> Decision:
    ref = ObjectRef(pod.cluster, pod.namespace, "Pod", pod.name)
    return Decision(
        key=f"downscale/unmark/{ref}",
        job="downscale",
        verb=Verb.REPAIR,
        phase=Phase.REPAIR,
        ref=ref,
        api_version="v1",
        uid=pod.uid,
        changes=unmark_changes(pod, former),
        cause=cause,
        group=group,
    )


def _closing(journal: ConfigMap, key: str, group: str, cause: Cause, unmarks: Sequence[Decision]) -> Decision:
    return Decision(
        key=f"downscale/close/{journal.ref.cluster}/{key}",
        job="downscale",
        verb=Verb.REPAIR,
        phase=Phase.REPAIR,
        ref=journal.ref,
        api_version="v1",
        uid=journal.uid,
        changes=(FieldChange(("data", key), journal.data[key], None),),
        cause=cause,
        group=group,
        order=(1,),
        needs=tuple(decision.key for decision in unmarks),
    )
