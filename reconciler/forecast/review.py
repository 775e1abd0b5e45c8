"""What a change of policies does: two forecasts of the same days on the same snapshot, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.selectors import namespace_labels
from reconciler.forecast.timelines import Forecast, HeldBackPeriod, WorkloadTimeline
from reconciler.model import NOTHING, ObjectRef, ObservedState
from reconciler.plan.filters import Filters, matches_any
from reconciler.plan.model import Plan
from reconciler.policy.compiled import PolicyChanges, policy_changes
from reconciler.policy.types import Fleet, PolicySet

LabelsByRef = Mapping[ObjectRef, Mapping[str, str]]


DifferenceKind = Literal[
    "created",  # it is there with the change only
    "not created",  # it is there without the change only
    "not woken",  # it is idle at the start and wakes without the change, and with it does not
    "idles",  # it goes idle, or runs with less than without policies, and would not without the change
    "idles no longer",  # the reverse
    "goes lower",  # it goes down in either case, and with the change to fewer replicas
    "stays higher",  # it goes down in either case, and with the change to more replicas
    "runs more",  # no policy lowers it, and it gets more replicas
    "at other times",  # its least is the same
]


class Difference(Struct, frozen=True):
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
    differences: tuple[Difference, ...] = ()
    owned: tuple[Owned, ...] = ()
    newly_selected: tuple[ObjectRef, ...] = ()
    no_longer_selected: tuple[ObjectRef, ...] = ()
    newly_protected: tuple[ObjectRef, ...] = ()
    production: frozenset[ObjectRef] = frozenset()
    fleet_from_base: bool = False
    fleet_changed: tuple[str, ...] = ()
    snapshot_age: timedelta | None = None
    problem: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)
    differing_outside: int | None = None

    @property
    def held_back(self) -> tuple[HeldBackPeriod, ...]:
        """What limits hold back with the change, and not without."""
        if self.head is None:
            return ()
        before = self.base.held_back if self.base else ()
        known = {(one.start, one.end, one.allow, one.clusters): one.number for one in before}  # reasons name files
        return tuple(
            one
            for one in self.head.held_back
            if one.number > known.get((one.start, one.end, one.allow, one.clusters), 0)
        )

    @property
    def before_hours(self) -> float:
        """The replica-hours of all workloads without the change."""
        return sum(hours_of(one) for one in self.base.timelines) if self.base else 0.0


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
    (base, head), (before, after), (without, made) = policies, played, plans
    changes = policy_changes(base, head)
    selected, selected_now = selected_in(without), selected_in(made)
    known = {**labels, **{one.ref: one.labels for some in played if some is not None for one in some.timelines}}
    named = {*known, *(one.ref for some in plans for one in some.explanations)}
    production = frozenset(
        ref for ref in named if any(_is_production(ref, known.get(ref), one.fleet) for one in policies)
    )
    found = Review(
        head=after,
        base=before,
        next_head=made,
        next_base=without,
        changes=changes,
        newly_selected=tuple(sorted({ref for _, ref in selected_now - selected})),
        no_longer_selected=tuple(sorted({ref for _, ref in selected - selected_now})),
        newly_protected=protected_in(without, base.fleet, head.fleet),
        production=production,
        fleet_changed=tuple(sorted({_top(one.field) for one in changes.fields if one.policy == "Fleet"})),
    )
    if before is None or after is None:
        return found
    owners = [*(one.before for one in changes.renamed), *changes.removed]
    return replace(
        found,
        differences=differences_of(before, after, production),
        owned=tuple(owned_by(owners, before, after)),
    )


def _is_production(ref: ObjectRef, labels: Mapping[str, str] | None, fleet: Fleet) -> bool:
    """Return whether `fleet` calls a workload production; `labels` are its own and those of its Namespace."""
    cluster = fleet.cluster(ref.cluster)
    return cluster is not None and bool(fleet.production.why(cluster, ref.namespace, labels, labels or NOTHING))


def _top(field: str) -> str:
    """Return the first two names of a field: "spec.clusters" of "spec.clusters[east].state"."""
    return ".".join(field.partition("[")[0].split(".")[:2])


def hours_of(one: WorkloadTimeline | None, *, certain: bool = False) -> float:
    """Return the replica-hours of a workload; `certain`: where fewer rest on a metric, those without policies count."""
    if one is None or not one.runs:
        return 0.0
    return sum(
        segment.hours * (max(segment.replicas, one.without) if certain and segment.assumes else segment.replicas)
        for segment in one.segments
    )


def differences_of(base: Forecast, head: Forecast, production: Iterable[ObjectRef]) -> tuple[Difference, ...]:
    """Return every workload that runs in another way: production first, then those that change most."""
    before, after = ({one.ref: one for one in made.timelines} for made in (base, head))
    named, idle = frozenset(production), {one.ref for one in base.first.explanations if one.idled is not None}
    found = [
        Difference(ref, before.get(ref), after.get(ref), at, ref in named, ref in idle)
        for ref in {*before, *after}
        if (at := _first_difference(before.get(ref), after.get(ref), head.start)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (not one.production, -abs(one.hours), one.ref)))


def _first_difference(
    before: WorkloadTimeline | None, after: WorkloadTimeline | None, start: datetime
) -> datetime | None:
    was, now = (() if one is None else one.steps for one in (before, after))
    if was == now:
        return None
    moments = sorted({at for at, _ in (*was, *now)})
    return next((at for at in moments if _at(was, at) != _at(now, at)), start)


def _at(steps: Iterable[tuple[datetime, int]], moment: datetime) -> int | None:
    found = None
    for at, replicas in steps:
        if at <= moment:
            found = replicas
    return found


def _lowest(one: WorkloadTimeline) -> int:
    return min((segment.replicas for segment in one.segments), default=0)


def _is_lowered(one: WorkloadTimeline) -> bool:
    return _lowest(one) < one.without


def _stays_dark(one: Difference) -> bool:
    """Whether it is idle, is woken without the change, and never gets, with it, what it has without policies."""
    if not one.idle or one.before is None or one.after is None or _wakes_at(one.before) is None:
        return False
    return _highest(one.after) < one.before.without


def _highest(one: WorkloadTimeline) -> int:
    return max((segment.replicas for segment in one.segments), default=0)


def owned_by(policies: Iterable[str], base: Forecast, head: Forecast) -> Iterator[Owned]:
    """Yield what each of `policies`, by kind and name, keeps idle at the start, and what becomes of that."""
    owners: dict[str, list[ObjectRef]] = {}
    for one in base.first.explanations:
        if one.idled is not None:
            owners.setdefault(f"IdlingPolicy {one.idled[1]}", []).append(one.ref)
    before, after = ({one.ref: one for one in made.timelines} for made in (base, head))
    for policy in policies:
        refs = sorted(set(owners.get(policy, ())))
        changed = [ref for ref in refs if _first_difference(before.get(ref), after.get(ref), head.start) is not None]
        woken = Counter(at for ref in changed if (at := _wakes_at(after.get(ref))) is not None)
        yield Owned(policy, len(refs), len(refs) - len(changed), tuple(sorted(woken.items())))


def _wakes_at(one: WorkloadTimeline | None) -> datetime | None:
    return None if one is None else next((at for at, replicas in one.steps if replicas >= max(1, one.without)), None)


def selected_in(made: Plan) -> frozenset[tuple[str, ObjectRef]]:
    """Return the workloads that some policy selects, by job."""
    return frozenset((one.job, one.ref) for one in made.explanations if one.selected and one.ref.kind != "Service")


def labels_in(state: ObservedState) -> dict[ObjectRef, Mapping[str, str]]:
    """Return the labels of each workload; what it does not say itself, its namespace says."""
    clusters = [(one, namespace_labels(one)) for one in state.clusters.values()]
    return {
        found.ref: {**spaces.get(found.ref.namespace, NOTHING), **found.labels}
        for one, spaces in clusters
        for found in one.workloads
    }


def narrowed(review: Review, filters: Filters, labels: LabelsByRef) -> Review:
    """Return what `review` says of the workloads that `filters` leave, by a policy before the change or with it.

    Policies are compared as a whole. The days were played with everything, so that limits count as they do in a run.
    """
    if filters.empty:
        return review
    plans = [one for one in (review.next_base, review.next_head) if one is not None]
    played = [one for one in (review.base, review.head) if one is not None]
    known = {**{one.ref: one.labels for some in played for one in some.timelines}, **labels}
    pairs = {(one.policy, one.ref) for some in plans for one in some.explanations if one.selected}
    pairs |= {(one.policy.partition(" ")[2], one.ref) for some in played for one in some.timelines if one.policy}
    kept = frozenset(ref for policy, ref in pairs if filters.keep(policy, ref, known.get(ref, NOTHING)))
    differences = tuple(one for one in review.differences if one.ref in kept)
    return replace(
        review,
        base=_narrowed(review.base, kept, filters),
        head=_narrowed(review.head, kept, filters),
        differences=differences,
        differing_outside=len(review.differences) - len(differences),
        newly_selected=tuple(ref for ref in review.newly_selected if ref in kept),
        no_longer_selected=tuple(ref for ref in review.no_longer_selected if ref in kept),
        newly_protected=tuple(ref for ref in review.newly_protected if ref in kept),
    )


def _narrowed(made: Forecast | None, kept: frozenset[ObjectRef], filters: Filters) -> Forecast | None:
    if made is None:
        return None
    held = [
        one
        for one in made.held_back
        if matches_any(filters.policies, one.allow)
        and (not one.clusters or any(matches_any(filters.clusters, name) for name in one.clusters))
    ]
    return replace(made, timelines=tuple(one for one in made.timelines if one.ref in kept), held_back=tuple(held))


def protected_in(made: Plan, before: Fleet, after: Fleet) -> tuple[ObjectRef, ...]:
    """Return the workloads that `made`, the plan without the change, selects and that the Fleet protects now."""
    namespaces = after.protected - before.protected
    return tuple(sorted({ref for _, ref in selected_in(made) if ref.namespace in namespaces}))
