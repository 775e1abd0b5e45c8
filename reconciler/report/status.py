"""The state of a Fleet on one screen: its clusters, what is idle, what is placed where, what needs attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.decide.annotations import Key, format_time, read_time
from reconciler.decide.decisions import (
    Decision,
    HeldBack,
    Notice,
    NoticeKind,
    PlacementRow,
    PlacementView,
    PolicyExplanation,
)
from reconciler.decide.freeze import frozen
from reconciler.decide.reasons import ReasonCode, Reasons, text_of
from reconciler.messages import counted, first_of
from reconciler.model import HorizontalPodAutoscaler, ObjectRef, ObservedState, Service, Workload
from reconciler.plan.model import Plan
from reconciler.policy.types import Fleet
from reconciler.report.change_words import is_metadata, name_of
from reconciler.report.groups import columns, made_at, placement_rows
from reconciler.report.times import age, ago, reasons_in
from reconciler.untrusted_text import one_line, whole_number_in
from reconciler.version import OUTPUT_VERSION

_CLUSTERS, _PLACEMENTS, _RUNS = 8, 4, 3
"""How many lines each part has at most, so that all of it fits a screen of 24."""
_DUE = (ReasonCode.WAKE_DUE, ReasonCode.WAKE_DEFERRED)


class IdleObject(Struct, frozen=True):
    """Something that is idle because of us: since when, until when it is planned (None: without end), what it had.

    `asleep` are the replicas that it has fewer for that, `reasons` why it stays as it is or what becomes of it. Of what
    somebody else idled only `ref`, `since` and `previous` are known, as far as they stand on it, and who: `by` is
    another Fleet, or whoever else, such as `oc idle`.
    """

    ref: ObjectRef
    policy: str
    since: datetime | None
    until: datetime | None
    previous: str
    asleep: int = 0
    reasons: Reasons = ()
    by: str = ""

    def saved_by(self, at: datetime) -> float:
        """Return the replica-hours that it has not run by `at`; 0 where nobody knows since when."""
        hours = 0.0 if self.since is None else (at - self.since) / timedelta(hours=1)
        return self.asleep * max(0.0, hours)


class RunSummary(Struct, frozen=True):
    """A run that changed something: how many objects of each verb."""

    run: str
    at: datetime
    changes: Mapping[str, int]


class ClusterSummary(Struct, frozen=True, rename="camel"):
    """One cluster. `next_wake` is when the first of its idle objects is due; `problem` why it is unknown, else ""."""

    name: str
    state: str
    workloads: int = 0
    idle: int = 0
    next_wake: datetime | None = None
    pending: int = 0
    held_back: int = 0
    problem: str = ""

    @property
    def rank(self) -> tuple[bool, bool, int, int, str]:
        """Which clusters come first: those that are unknown, restricted, or of which most is pending."""
        return (not self.problem, self.state == "Active", -self.held_back, -self.pending, self.name)


class FleetStatus(Struct, frozen=True):
    """Everything that `status` shows."""

    plan: Plan
    clusters: tuple[ClusterSummary, ...]
    idle: tuple[IdleObject, ...]
    runs: tuple[RunSummary, ...]
    foreign: tuple[IdleObject, ...] = ()


def fleet_status(fleet: Fleet, state: ObservedState, plan: Plan, runs: Sequence[RunSummary]) -> FleetStatus:
    """Return the status of `fleet`, whose clusters look like `state`; `plan` is what a run would do now."""
    idle = _idle_objects(state, plan)
    clusters, foreign = tuple(_clusters(fleet, state, plan, idle)), tuple(_foreign_idles(state, plan))
    return FleetStatus(plan, clusters, idle, tuple(runs), foreign)


def _idle_objects(state: ObservedState, plan: Plan) -> tuple[IdleObject, ...]:
    explained = {one.idled[0]: one for one in plan.explanations if one.idled is not None}
    workloads: dict[ObjectRef, Workload | HorizontalPodAutoscaler] = {}
    for cluster in state.clusters.values():
        workloads.update((workload.ref, workload) for workload in cluster.workloads)
        workloads.update((autoscaler.ref, autoscaler) for autoscaler in cluster.autoscalers)
    return tuple(
        _idle_object(workloads[ref], explained[ref], plan.made_at) for ref in sorted(explained) if ref in workloads
    )


def _idle_object(
    workload: Workload | HorizontalPodAutoscaler, explanation: PolicyExplanation, now: datetime
) -> IdleObject:
    annotations = workload.annotations
    since, until = read_time(annotations.get(Key.IDLED_AT)), read_time(annotations.get(Key.WAKE_DUE))
    is_due = any(why.code in _DUE for why in explanation.reasons)
    if until is not None and until <= now and not is_due:  # its criteria keep it idle beyond the end of its schedule
        until = None
    policy, previous = explanation.idled[1] if explanation.idled else "", annotations.get(Key.PREVIOUS_SCALE, "")
    return IdleObject(workload.ref, policy, since, until, previous, explanation.asleep, explanation.reasons)


def _foreign_idles(state: ObservedState, plan: Plan) -> Iterator[IdleObject]:
    """Yield what others idled, in the order of names; what others place gives reasons, and is none of it."""
    found = {notice.subject: notice.words for notice in _notices(plan, "foreignRecord") if not notice.reasons}
    if not found:
        return
    objects: list[Workload | Service] = []
    for cluster in state.clusters.values():
        objects += [*cluster.workloads, *cluster.services]
    for one in sorted(objects, key=lambda target: target.ref):
        words, annotations = found.get(str(one.ref)), one.annotations
        idled_to = whole_number_in(annotations.get(Key.IDLED_TO, "")) or 0
        runs = isinstance(one, Workload) and one.spec_replicas > idled_to  # scaled up since
        if words is not None and not runs:
            since = read_time(annotations.get(Key.IDLED_AT)) or read_time(annotations.get(Key.OPENSHIFT_IDLED_AT))
            previous = annotations.get(Key.PREVIOUS_SCALE) or annotations.get(Key.OPENSHIFT_PREVIOUS_SCALE, "")
            yield IdleObject(one.ref, "", since, None, previous, by=words.removeprefix("was idled by "))


def _clusters(fleet: Fleet, state: ObservedState, plan: Plan, idle: Sequence[IdleObject]) -> Iterator[ClusterSummary]:
    pending = Counter(action.ref.cluster for action in plan.actions)
    held = Counter(decision.ref.cluster for limited in plan.held_back for decision in _changes(limited))
    for cluster in frozen(fleet, state, plan.made_at).clusters:
        name = cluster.name
        asleep = [sleeping for sleeping in idle if sleeping.ref.cluster == name]
        observed = state.clusters.get(name)
        restricted = {cluster.state, cluster.fleet_state} & {"ReadOnly", "Frozen"}
        word = "Frozen" if any(not freeze.namespace for freeze in cluster.freezes) else cluster.state
        yield ClusterSummary(
            name,
            "ReadOnly" if "ReadOnly" in restricted else "Frozen" if restricted else word,
            0 if observed is None else sum(workload.owner is None for workload in observed.workloads),
            len(asleep),
            _first(asleep),
            pending[name],
            held[name],
            state.unreachable.get(name, ""),
        )


def _changes(held: HeldBack) -> list[Decision]:
    """Return what is held back, without what only our records say of it, as plans count it."""
    return [decision for decision in held.decisions if not is_metadata(decision)]


def status_lines(status: FleetStatus) -> Iterator[str]:
    """Yield the status in at most 24 lines; what is more is counted, and -o json has it all."""
    plan = status.plan
    yield f"{_heading(plan)}: {counts_line(status)}"
    yield from _cluster_lines(status)
    yield from _placement_lines(plan)
    yield from (_named(title, names) for title, names in pressing(plan).items())
    if status.foreign:
        yield _named("Idled by others", [f"{idle.ref} ({idle.by})" for idle in status.foreign])
    yield from run_lines(status.plan, status.runs[:_RUNS])


def counts_line(status: FleetStatus) -> str:
    """Return how many clusters there are, how much of them is idle, and when the first of it wakes."""
    due = _first(status.idle)
    waking = f", next wake {reasons_in(status.plan).time(due)}" if due else ""
    return f"{counted(len(status.clusters), 'cluster')}, {len(status.idle)} idle{waking}"


def _heading(plan: Plan) -> str:
    return one_line(f"Fleet {plan.fleet} ({plan.source}, {made_at(plan)})")


def _first(idle: Iterable[IdleObject]) -> datetime | None:
    return min((one.until for one in idle if one.until is not None), default=None)


def cluster_rows(status: FleetStatus) -> Iterator[tuple[str, ...]]:
    """Yield the heads of the columns, then a row for each cluster, those that need somebody first."""
    words = reasons_in(status.plan)
    yield "Cluster", "State", "Workloads", "Idle", "Next wake", "Pending", "Held back"
    for cluster in sorted(status.clusters, key=lambda cluster: cluster.rank):
        until = words.time(cluster.next_wake) if cluster.next_wake else "-"
        numbers = map(str, (cluster.pending, cluster.held_back))
        yield one_line(cluster.name), _state(cluster), str(cluster.workloads), str(cluster.idle), until, *numbers


def _cluster_lines(status: FleetStatus) -> Iterator[str]:
    head, *rows = cluster_rows(status)
    shown = rows if len(rows) <= _CLUSTERS else rows[: _CLUSTERS - 1]
    yield from columns([word.upper() for word in head], shown)
    rest = sorted(status.clusters, key=lambda cluster: cluster.rank)[len(shown) :]
    if rest:
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(_state(one) for one in rest).items()))
        workloads, idle = sum(cluster.workloads for cluster in rest), sum(cluster.idle for cluster in rest)
        pending, held = sum(cluster.pending for cluster in rest), sum(cluster.held_back for cluster in rest)
        numbers = f"{idle} idle, {pending} pending, {held} held back"
        yield f"and {len(rest)} more ({states}): {counted(workloads, 'workload')}, {numbers}"


def _state(cluster: ClusterSummary) -> str:
    return "Unknown" if cluster.problem else cluster.state


def _placement_lines(plan: Plan) -> Iterator[str]:
    moving = sorted(plan.placements, key=lambda view: (all(row.current == row.desired for row in view.rows), view.key))
    shown = moving if len(moving) <= _PLACEMENTS else moving[: _PLACEMENTS - 1]
    yield from map(placement_line, shown)
    if len(moving) > len(shown):
        yield f"and {len(moving) - len(shown)} more FederatedReplicaSets; status NAMESPACE/NAME shows one"


def placement_line(view: PlacementView) -> str:
    """Return one federated ReplicaSet with its replicas in each cluster, which may be others than it asks for."""
    own = _own_rows(view)
    layout = ", ".join(_replicas_in(row) for row in own if row.desired != 0 or row.current)
    desired = [row.desired for row in own]
    placed = view.total if None in desired else sum(filter(None, desired))
    total = f"{view.total} =" if placed == view.total else f"{view.total} desired, {placed} placed:"
    return one_line(f"FederatedReplicaSet {view.key}: {total} {layout or 'nothing placed'}")


def _own_rows(view: PlacementView) -> list[PlacementRow]:
    """Return the rows of clusters without those where the workload of that name is left to others."""
    return [row for row in view.rows if row.desired is not None or row.current is None]


def _replicas_in(row: PlacementRow) -> str:
    """Return the replicas that a cluster has and gets: "east 3", "east 3 -> 2", "east ? -> 2"."""
    now, then = ("?" if one is None else str(one) for one in (row.current, row.desired))
    return f"{row.cluster} {now if now == then else f'{now} -> {then}'}"


_URGENT: Mapping[NoticeKind, str] = {"frozen": "Frozen", "overdueWake": "Overdue", "contested": "Contested"}
"""The titles of notices that need somebody, by their kinds; in JSON their key is the title."""


def pressing(plan: Plan) -> dict[str, list[str]]:
    """Return what needs somebody, by its sort; sorts of which there is none are left out."""
    words = reasons_in(plan)
    found = {
        **{
            title: [f"{one.subject} ({words.reason(one.reasons) or one.words})" for one in _notices(plan, kind)]
            for kind, title in _URGENT.items()
        },
        "Held back": [held.why for held in plan.held_back],
        "Unknown": [f"{name}: {why}" for name, why in plan.unknown.items()],
        "Undecided": [undecided.subject for undecided in plan.undecided],
    }
    return {title: names for title, names in found.items() if names}


def _notices(plan: Plan, kind: NoticeKind) -> list[Notice]:
    return [notice for notice in plan.notices if notice.kind == kind]


def _named(title: str, names: Sequence[str]) -> str:
    return one_line(f"{title}: {len(names)}: {first_of(names, 2, '; ')}")


def run_lines(plan: Plan, runs: Sequence[RunSummary]) -> Iterator[str]:
    """Yield one line for each of `runs`: what it changed, and how long before `plan`."""
    for run in runs:
        done = ", ".join(f"{count} {verb}" for verb, count in sorted(run.changes.items()))
        yield one_line(f"Run {run.run or '(no run)'} {ago(plan.made_at - run.at)}: {done}")


# One object.


def placement_lines(view: PlacementView, plan: Plan) -> Iterator[str]:
    """Yield one federated ReplicaSet as `kubectl describe` shows an object, with a line for each cluster.

    Source: seed federated-replicasets.md: "kubectl describe on federated replica set should also give some information
    about the subclusters".
    """
    namespace, _, name = view.key.partition("/")
    running = [row.running for row in _own_rows(view)]
    known = sum(number for number in running if number is not None)
    yield _heading(plan)
    yield f"Name:       {one_line(name)}"
    yield f"Namespace:  {one_line(namespace)}"
    yield f"Replicas:   {view.total} desired, {known} available{' (not all are known)' if None in running else ''}"
    yield "Clusters:"
    head, *rows = placement_rows(view, plan)
    shown = [(*numbers, reason or "-") for *numbers, reason in rows]
    yield from (f"  {line}" for line in columns([word.upper() for word in head], shown))


def idle_lines(found: Sequence[IdleObject], plan: Plan) -> Iterator[str]:
    """Yield what is idle, one line for each object."""
    words, foreign = reasons_in(plan), sum(bool(idle.by) for idle in found)
    by_others = f", {foreign} idled by others" if foreign else ""
    yield f"{_heading(plan)}: {len(found) - foreign} idle{by_others}"

    def row(idle: IdleObject) -> tuple[str, ...]:
        by = f"({idle.by})" if idle.by else idle.policy
        since = f"{words.time(idle.since)} ({age(plan.made_at - idle.since)})" if idle.since else "-"
        last = words.time(idle.until) if idle.until else "-"
        return name_of(idle.ref), one_line(by) or "-", since, last, one_line(idle.previous) or "-"

    yield from columns(("IDLE", "POLICY", "SINCE", "UNTIL", "PREVIOUS SCALE"), list(map(row, found)))


def status_values(status: FleetStatus) -> dict[str, Any]:
    """Return the whole status as JSON values."""
    plan = status.plan
    return {
        "schemaVersion": OUTPUT_VERSION,
        "kind": "Status",
        "fleet": plan.fleet,
        "at": format_time(plan.made_at),
        "clusters": [
            {**msgspec.to_builtins(cluster), "state": _state(cluster), "nextWake": _time(cluster.next_wake)}
            for cluster in status.clusters
        ],
        "idle": [
            {
                "object": str(idle.ref),
                "policy": idle.policy,
                "since": _time(idle.since),
                "until": _time(idle.until),
                "previousScale": idle.previous,
                "reason": text_of(idle.reasons),
            }
            for idle in status.idle
        ],
        "idledByOthers": [
            {"object": str(idle.ref), "by": idle.by, "since": _time(idle.since), "previousScale": idle.previous}
            for idle in status.foreign
        ],
        "placements": [
            {
                "name": view.key,
                "replicas": view.total,
                "clusters": [
                    {
                        "cluster": row.cluster,
                        "current": row.current,
                        "desired": row.desired,
                        "specReplicas": row.spec_replicas,
                        "available": row.running,
                        "capacity": row.capacity,
                        "reason": row.why,
                    }
                    for row in view.rows
                ],
            }
            for view in plan.placements
        ],
        **{
            title.lower(): [{"object": notice.subject, "text": notice.text} for notice in _notices(plan, kind)]
            for kind, title in _URGENT.items()
        },
        "heldBack": [
            {"allow": held.policy, "why": held.why, "changes": len(_changes(held))} for held in plan.held_back
        ],
        "unknown": dict(plan.unknown),
        "undecided": [{"object": undecided.subject, "why": undecided.why} for undecided in plan.undecided],
        "runs": [{"run": run.run, "at": format_time(run.at), "changes": dict(run.changes)} for run in status.runs],
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)
