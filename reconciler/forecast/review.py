"""What a change of policies does: two forecasts of the same days on the same snapshot, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import namespace_labels
from reconciler.forecast.text import compared_replays
from reconciler.forecast.timelines import Forecast, HeldBackPeriod, Segment, WorkloadTimeline, held_back_in
from reconciler.model import NOTHING, ObjectRef, ObservedState, by_key
from reconciler.plan.filters import Filters, matches_any
from reconciler.plan.model import Action, Plan
from reconciler.policy.policy_changes import PolicyChanges, policy_changes
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.change_words import what_of
from reconciler.report.times import common_zone

LabelsByRef = Mapping[ObjectRef, Mapping[str, str]]
DifferenceKind = Literal[
    "created",  # it is there with the change only
    "not created",  # it is there without the change only
    "deleted",  # it is deleted, or earlier than without the change
    "deleted no longer",  # the reverse
    "not woken",  # it is idle at the start and wakes without the change, and with it does not
    "idles",  # it goes idle, or runs with less than without policies, and would not without the change
    "idles no longer",  # the reverse
    "goes lower",  # it goes down in either case, and with the change to fewer replicas
    "stays higher",  # it goes down in either case, and with the change to more replicas
    "runs more",  # no policy lowers it, and it gets more replicas
    "at other times",  # its least is the same
]


class ChangedWorkload(Struct, frozen=True):
    """One workload that runs in another way; None: it is not there. `idle`: a policy keeps it idle at the start."""

    ref: ObjectRef
    before: WorkloadTimeline | None
    after: WorkloadTimeline | None
    at: datetime  # the first moment
    production: bool
    idle: bool = False

    @property
    def hours(self) -> float:
        """How many replica-hours more it runs; fewer are negative."""
        return hours_of(self.after) - hours_of(self.before)

    @property
    def kind(self) -> DifferenceKind:
        """What the change does to it."""
        if self.before is None or self.after is None:
            return "created" if self.before is None else "not created"
        if self.before.end != self.after.end:
            return "deleted" if self.after.end < self.before.end else "deleted no longer"
        if _stays_dark(self):
            return "not woken"
        deeper = _lowest(self.before) - _lowest(self.after)
        if not deeper:
            return "at other times"
        if deeper > 0:
            return "goes lower" if _is_lowered(self.before) else "idles"
        if not _is_lowered(self.before):
            return "runs more"
        return "stays higher" if _is_lowered(self.after) else "idles no longer"

    @property
    def certain_hours(self) -> float:
        """The same without what rests on a metric."""
        return hours_of(self.after, certain=True) - hours_of(self.before, certain=True)


class Owned(Struct, frozen=True):
    """What a policy that goes, or has another name, keeps idle now, and what becomes of it.

    Of `idle` workloads `unchanged` run as they would without the change. Of the others `woken` says when how many wake;
    the rest stays idle.
    """

    policy: str
    idle: int
    unchanged: int
    woken: tuple[tuple[datetime, int], ...]


class SelectionChange(StrEnum):
    """What else than its replicas changes of a workload, as the JSON form calls it."""

    NEWLY_SELECTED = "newlySelected"
    NO_LONGER_SELECTED = "noLongerSelected"
    NEWLY_PROTECTED = "newlyProtected"  # selected without the change, in a namespace that the Fleet protects now
    LEFT_OUT = "leftOut"  # production that a policy would select if it said `production: true`, and not so before
    NEWLY_PRODUCTION = "newlyProduction"
    NO_LONGER_PRODUCTION = "noLongerProduction"


class Review(Struct, frozen=True):
    """`base` None: its policies cannot be used, so that only what the head does is known; `problem` says why.

    `next_base` and `next_head` are the plans of the next run. `differing_outside` is the number of workloads that run
    in another way and that filters leave out, None without filters.
    """

    head: Forecast | None
    base: Forecast | None
    next_head: Plan
    next_base: Plan | None
    changes: PolicyChanges = PolicyChanges()
    differences: tuple[ChangedWorkload, ...] = ()
    owned: tuple[Owned, ...] = ()
    selection: Mapping[SelectionChange, frozenset[ObjectRef]] = NOTHING
    production: frozenset[ObjectRef] = frozenset()
    fleet_from_base: bool = False
    fleet_changed: tuple[str, ...] = ()
    snapshot_age: timedelta | None = None
    problem: str = ""
    differing_outside: int | None = None
    replayed: tuple[Forecast | None, Forecast] | None = None

    @property
    def held_back(self) -> tuple[HeldBackPeriod, ...]:
        """What limits hold back with the change, of workloads that they do not hold back, or for less long, without.

        Without a forecast it is what the next run holds back.
        """
        found = _held_back(self.head, self.next_head)
        known, now = (_held_seconds(some) for some in (_held_back(self.base, self.next_base), found))
        return tuple(period for period in found if any(now[ref] > known[ref] for ref in period.refs))

    @property
    def effect(self) -> bool:
        """Whether a workload is selected, released, changed or production in another way, something is held back, the
        next run differs, or nobody knows, as the Fleet of the base was taken in place of one that is changed.
        """
        runs = self.differences or self.held_back or next_run_differs(self)
        return bool(any(self.selection.values()) or runs or self.past or self.problem or self.without_its_fleet)

    @property
    def past(self) -> tuple[str, ...]:
        """Where the past would have been another one with the change; none without a history in the snapshot."""
        return () if self.replayed is None else tuple(compared_replays(*self.replayed))

    @property
    def without_its_fleet(self) -> bool:
        """Whether the change is one of the Fleet too, and was judged with the Fleet of the base."""
        return self.fleet_from_base and bool(self.fleet_changed)

    @property
    def zone(self) -> tzinfo:
        """The zone in which times are shown: that of all calendars before the change and with it, else UTC."""
        return common_zone(self.next_head.time_zones)

    @property
    def before_hours(self) -> float:
        """The replica-hours of all workloads without the change."""
        return sum(hours_of(timeline) for timeline in self.base.timelines) if self.base else 0.0


def review_of(
    policies: tuple[PolicySet, PolicySet],
    played: tuple[Forecast | None, Forecast | None],
    plans: tuple[Plan, Plan],
    labels: LabelsByRef = NOTHING,
) -> Review:
    """Return the review of a change: `policies`, forecasts and plans of the next run are those before and after.

    `labels` are those of workloads, and of their namespaces; those that a forecast has need not be there. Production is
    what one of the two Fleets calls so.
    Where the Fleet of the base was taken, forecast and plan are made with that, and the policies as they are written.
    """
    base, head = policies
    zones = tuple(sorted({zone for plan in plans for zone in plan.time_zones}))
    without, plan = (replace(plan, time_zones=zones) for plan in plans)
    before, after = (
        None if one is None else replace(one, first=replace(one.first, time_zones=zones)) for one in played
    )
    changes = policy_changes(base, head)
    known: dict[ObjectRef, Mapping[str, str] | None] = {one.ref: None for some in plans for one in some.explanations}
    known |= labels
    known |= {one.ref: one.labels for some in played if some is not None for one in some.timelines}
    was = frozenset(ref for ref, found in known.items() if _is_production(ref, found, base.fleet))
    now = was
    if head.fleet != base.fleet:
        now = frozenset(ref for ref, found in known.items() if _is_production(ref, found, head.fleet))
    production = was | now
    fleet_fields = (change.field for change in changes.fields if change.policy == "Fleet")
    found = Review(
        head=after,
        base=before,
        next_head=plan,
        next_base=without,
        changes=changes,
        selection={
            **_selection_changes(policies, without, plan),
            SelectionChange.NEWLY_PRODUCTION: now - was,
            SelectionChange.NO_LONGER_PRODUCTION: was - now,
        },
        production=production,
        fleet_changed=tuple(sorted({".".join(field.partition("[")[0].split(".")[:2]) for field in fleet_fields})),
    )
    if before is None or after is None:
        return found
    after = _with_idle_left(before, after)
    owners = [*(renamed.before for renamed in changes.renamed), *changes.removed]
    return replace(
        found,
        differences=_differences_of(before, after, production),
        owned=tuple(_owned_by(owners, before, after)),
    )


def _selection_changes(
    policies: tuple[PolicySet, PolicySet], without: Plan, plan: Plan
) -> dict[SelectionChange, frozenset[ObjectRef]]:
    base, head = policies
    before, after = _selected_in(without), _selected_in(plan)
    namespaces = head.fleet.protected - base.fleet.protected
    pairs = {
        SelectionChange.NEWLY_SELECTED: after - before,
        SelectionChange.NO_LONGER_SELECTED: before - after,
        SelectionChange.NEWLY_PROTECTED: {pair for pair in before if pair[1].namespace in namespaces},
        SelectionChange.LEFT_OUT: _left_out_in(plan) - _left_out_in(without),
    }
    return {change: frozenset(ref for _, ref in some) for change, some in pairs.items()}


def _selected_in(plan: Plan) -> frozenset[tuple[str, ObjectRef]]:
    """Return the workloads that some policy selects, by job."""
    return frozenset((one.job, one.ref) for one in plan.explanations if one.selected and not one.ref.is_service)


def _is_production(ref: ObjectRef, labels: Mapping[str, str] | None, fleet: Fleet) -> bool:
    """Return whether `fleet` calls a workload production; `labels` are its own and those of its Namespace."""
    cluster = fleet.cluster(ref.cluster)
    return cluster is not None and bool(fleet.production.why(cluster, ref.namespace, labels, labels or NOTHING))


def _left_out_in(plan: Plan) -> frozenset[tuple[str, ObjectRef]]:
    """Return the workloads that policies leave out because they are production, by job."""
    return frozenset(
        (explanation.job, explanation.ref)
        for explanation in plan.explanations
        if not explanation.ref.is_service and any(why.code == ReasonCode.PRODUCTION for why in explanation.reasons)
    )


def _held_back(forecast: Forecast | None, plan: Plan | None) -> tuple[HeldBackPeriod, ...]:
    """Return what is held back in the days to come; without a forecast in the next run, which counts a second."""
    if forecast is not None or plan is None:
        return () if forecast is None else forecast.held_back
    return tuple(held_back_in(plan, plan.made_at, plan.made_at + timedelta(seconds=1)).values())


def _held_seconds(periods: Iterable[HeldBackPeriod]) -> Counter[ObjectRef]:
    found = Counter[ObjectRef]()
    for period in periods:
        found.update(dict.fromkeys(period.refs, int((period.end - period.start).total_seconds())))
    return found


def hours_of(timeline: WorkloadTimeline | None, *, certain: bool = False) -> float:
    """Return the replica-hours of a workload; `certain`: where fewer rest on a metric, those without policies count."""
    if timeline is None or not timeline.runs:
        return 0.0
    return sum(
        segment.hours * (max(segment.replicas, timeline.without) if certain and segment.assumes else segment.replicas)
        for segment in timeline.segments
    )


def idle_in(forecast: Forecast) -> frozenset[ObjectRef]:
    """Return the workloads that a policy keeps idle at the start."""
    return frozenset(one.ref for one in forecast.first.explanations if one.idled is not None)


def _with_idle_left(base: Forecast, head: Forecast) -> Forecast:
    """Return `head` with what is idle, and what no run knows as that any more: it stays as it is."""
    left = idle_in(base) - idle_in(head)
    stay = [
        replace(one, policy="", segments=(Segment(head.start, head.end, _lowest(one)),))
        for one in base.timelines
        if one.ref in left
    ]
    return replace(head, timelines=(*(one for one in head.timelines if one.ref not in left), *stay))


def _differences_of(base: Forecast, head: Forecast, production: Iterable[ObjectRef]) -> tuple[ChangedWorkload, ...]:
    """Return every workload that runs in another way: production first, then those that change most."""
    named, idle = frozenset(production), idle_in(base)
    after = {timeline.ref: timeline for timeline in head.timelines}
    pairs = [(one.ref, one, after.pop(one.ref, None)) for one in base.timelines]
    found = [
        ChangedWorkload(ref, before, later, at, ref in named, ref in idle)
        for ref, before, later in (*pairs, *((ref, None, one) for ref, one in after.items()))
        if (at := _first_difference(before, later)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (not one.production, -abs(one.hours), one.ref)))


def _first_difference(before: WorkloadTimeline | None, after: WorkloadTimeline | None) -> datetime | None:
    if before is not None and after is not None and before.segments == after.segments:
        return None
    return next((start for start, _, was, now in stretches(before, after) if was != now), None)


def stretches(
    before: WorkloadTimeline | None, after: WorkloadTimeline | None
) -> Iterator[tuple[datetime, datetime, int | None, int | None]]:
    """Yield from when to before when a workload runs with how many replicas before and after a change, None: it is not
    there.
    """
    both = [() if timeline is None else timeline.segments for timeline in (before, after)]
    moments = sorted({at for segments in both for segment in segments for at in (segment.start, segment.end)})
    for start, end in pairwise(moments):
        was, now = (None if timeline is None else timeline.at(start) for timeline in (before, after))
        yield start, end, None if was is None else was.replicas, None if now is None else now.replicas


def _lowest(timeline: WorkloadTimeline) -> int:
    return min((segment.replicas for segment in timeline.segments), default=0)


def _is_lowered(timeline: WorkloadTimeline) -> bool:
    return _lowest(timeline) < timeline.without


def _stays_dark(one: ChangedWorkload) -> bool:
    """Whether it is idle, is woken without the change, and never gets, with it, what it has without policies."""
    if not one.idle or one.before is None or one.after is None or _wakes_at(one.before) is None:
        return False
    return max((segment.replicas for segment in one.after.segments), default=0) < one.before.without


def _wakes_at(one: WorkloadTimeline | None) -> datetime | None:
    return None if one is None else next((at for at, replicas in one.steps if replicas >= max(1, one.without)), None)


def identity_of(decision: Decision) -> Hashable:
    """Return what makes a change of base and one of head the same: the object and what becomes of it."""
    return (decision.ref, decision.verb, what_of(decision))


def next_run_differs(review: Review) -> tuple[list[Action], list[Action]] | None:
    """Return what only the next run with the change does, and what only that without it does; None: the same."""
    if review.next_base is None:
        return None
    known = {identity_of(action.decision) for action in review.next_base.actions}
    wanted = {identity_of(action.decision) for action in review.next_head.actions}
    new = [action for action in review.next_head.actions if identity_of(action.decision) not in known]
    changed = {action.ref for action in new}
    before = (planned for planned in review.next_base.actions if planned.ref not in changed)
    gone = [action for action in before if identity_of(action.decision) not in wanted]
    return (new, gone) if new or gone else None


def _owned_by(policies: Iterable[str], base: Forecast, head: Forecast) -> Iterator[Owned]:
    """Yield what each of `policies`, by kind and name, keeps idle at the start, and what becomes of that."""
    idle = ((one.idled[1], one.ref) for one in base.first.explanations if one.idled is not None)
    owners = by_key((f"IdlingPolicy {name}", ref) for name, ref in idle)
    before, after = ({timeline.ref: timeline for timeline in forecast.timelines} for forecast in (base, head))
    for policy in policies:
        refs = sorted(set(owners.get(policy, ())))
        changed = [ref for ref in refs if _first_difference(before.get(ref), after.get(ref)) is not None]
        woken = Counter(at for ref in changed if (at := _wakes_at(after.get(ref))) is not None)
        yield Owned(policy, len(refs), len(refs) - len(changed), tuple(sorted(woken.items())))


def labels_in(state: ObservedState) -> dict[ObjectRef, Mapping[str, str]]:
    """Return the labels of each workload; what it does not say itself, its namespace says."""
    clusters = [(cluster, namespace_labels(cluster)) for cluster in state.clusters.values()]
    return {
        found.ref: {**spaces.get(found.ref.namespace, NOTHING), **found.labels}
        for cluster, spaces in clusters
        for found in cluster.workloads
    }


def narrowed(review: Review, filters: Filters, labels: LabelsByRef) -> Review:
    """Return what `review` says of the workloads that `filters` leave, by a policy before the change or with it.

    Policies are compared as a whole. The days were played with everything, so that limits count as they do in a run.
    """
    if filters.empty:
        return review
    plans = [plan for plan in (review.next_base, review.next_head) if plan is not None]
    played = [forecast for forecast in (review.base, review.head) if forecast is not None]
    known = {**{timeline.ref: timeline.labels for some in played for timeline in some.timelines}, **labels}
    pairs = {(one.policy, one.ref) for some in plans for one in some.explanations if one.selected}
    pairs |= {(one.policy.partition(" ")[2], one.ref) for some in played for one in some.timelines if one.policy}
    kept = frozenset(ref for policy, ref in pairs if filters.keep(policy, ref, known.get(ref, NOTHING)))
    differences = tuple(difference for difference in review.differences if difference.ref in kept)
    return replace(
        review,
        base=_narrowed(review.base, kept, filters),
        head=_narrowed(review.head, kept, filters),
        differences=differences,
        differing_outside=len(review.differences) - len(differences),
        selection={change: refs & kept for change, refs in review.selection.items()},
    )


def _narrowed(forecast: Forecast | None, kept: frozenset[ObjectRef], filters: Filters) -> Forecast | None:
    if forecast is None:
        return None
    held = [
        period
        for period in forecast.held_back
        if matches_any(filters.policies, period.policy)
        and (not period.clusters or any(matches_any(filters.clusters, name) for name in period.clusters))
    ]
    return replace(
        forecast, timelines=tuple(one for one in forecast.timelines if one.ref in kept), held_back=tuple(held)
    )
