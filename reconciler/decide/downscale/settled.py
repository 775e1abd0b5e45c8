"""Whether marked victims are still exactly the pods that will go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.decide.annotations import VICTIM_COST
from reconciler.decide.downscale.cut import Cut
from reconciler.decide.downscale.groups import Group
from reconciler.decide.downscale.journal import Entry, is_marked
from reconciler.decide.victim_rules import deletion_cost
from reconciler.decide.victims import goes_first
from reconciler.decide.workload_status import replaces_replica_sets
from reconciler.model import Pod, Workload


def why_unsettled(workload: Workload, group: Group, cut: Cut, victims: Iterable[Pod], entry: Entry) -> str:
    """Return what has changed since `cut` was made and its `victims` were marked as `entry` says, "" for nothing.

    `workload` and `group` are as they are now.
    """
    chosen = {pod.uid for pod in victims}
    return next(_changes(workload, group, cut, chosen, entry), "")


def _changes(workload: Workload, group: Group, cut: Cut, chosen: set[str], entry: Entry) -> Iterator[str]:
    if workload.uid != entry.uid or workload.wanted != entry.before:
        yield f"its replicas are {workload.wanted}, expected {entry.before}"
    if group.split or replaces_replica_sets(workload):
        yield "a rollout has begun"
    now = {pod.uid: pod for pod in group.active}
    before = {pod.uid: pod for pod in (*cut.first, *cut.candidates)}
    yield from (f"{before[uid].name} is gone" for uid in before if uid not in now)
    yield from (f"{now[uid].name} is new" for uid in now if uid not in before)
    waiting = {pod.uid for pod in cut.first}
    for uid, pod in now.items():
        if goes_first(pod) != (uid in waiting):
            yield f"{pod.name} is {'not Ready any more' if goes_first(pod) else 'Ready now'}"
        if uid in chosen and not is_marked(pod, entry.run):
            yield f"{pod.name} has lost its mark"
        if uid not in chosen and not goes_first(pod) and deletion_cost(pod.deletion_cost) <= int(VICTIM_COST):
            yield f"{pod.name} has a cost of {pod.deletion_cost} by now"
