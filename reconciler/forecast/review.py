"""What a change of policies does: two forecasts of the same days on the same snapshot, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, tzinfo

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.decisions import Decision
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import namespace_labels
from reconciler.forecast.differences import Difference, differences_of, first_difference, hours_of, wakes_at
from reconciler.forecast.timelines import Forecast, HeldBackPeriod, held_back_in
from reconciler.model import NOTHING, ObjectRef, ObservedState
from reconciler.plan.filters import Filters, matches_any
from reconciler.plan.model import Action, Plan
from reconciler.policy.compiled import PolicyChanges, policy_changes
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.wording import common_zone, what_of

LabelsByRef = Mapping[ObjectRef, Mapping[str, str]]


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
    run in another way and that filters leave out, None without filters. `left_out` are workloads of production that a
    policy would select, if it said `production: true`, and not without the change. `newly_production` and
    `no_longer_production` are what only one of the two Fleets calls production.
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
    left_out: tuple[ObjectRef, ...] = ()
    newly_production: tuple[ObjectRef, ...] = ()
    no_longer_production: tuple[ObjectRef, ...] = ()
    production: frozenset[ObjectRef] = frozenset()
    fleet_from_base: bool = False
    fleet_changed: tuple[str, ...] = ()
    snapshot_age: timedelta | None = None
    problem: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)
    differing_outside: int | None = None

    @property
    def held_back(self) -> tuple[HeldBackPeriod, ...]:
        """What limits hold back with the change, of workloads that they do not hold back, or for less long, without.

        Without a forecast it is what the next run holds back.
        """
        known = Counter[ObjectRef]()
        for one in _held_back(self.base, self.next_base):
            known.update(dict.fromkeys(one.refs, _seconds(one)))
        now = Counter[ObjectRef]()
        found = _held_back(self.head, self.next_head)
        for one in found:
            now.update(dict.fromkeys(one.refs, _seconds(one)))
        return tuple(one for one in found if any(now[ref] > known[ref] for ref in one.refs))

    @property
    def effect(self) -> bool:
        """Whether a workload is selected, released, changed or production in another way, something is held back, the
        next run differs, or nobody knows, as the Fleet of the base was taken in place of one that is changed.
        """
        selection = self.newly_selected or self.no_longer_selected or self.newly_protected or self.left_out
        production = self.newly_production or self.no_longer_production
        runs = self.differences or self.held_back or next_run_differs(self)
        return bool(selection or production or runs or self.problem or self.without_its_fleet)

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
    base, head = policies
    zones = tuple(sorted({zone for one in plans for zone in one.time_zones}))
    without, made = (replace(one, time_zones=zones) for one in plans)
    before, after = (
        None if one is None else replace(one, first=replace(one.first, time_zones=zones)) for one in played
    )
    changes = policy_changes(base, head)
    selected, selected_now = selected_in(without), selected_in(made)
    known = {**labels, **{one.ref: one.labels for some in played if some is not None for one in some.timelines}}
    named = {*known, *(one.ref for some in plans for one in some.explanations)}
    before_it, with_it = (
        frozenset(ref for ref in named if _is_production(ref, known.get(ref), one.fleet)) for one in policies
    )
    production = before_it | with_it
    found = Review(
        head=after,
        base=before,
        next_head=made,
        next_base=without,
        changes=changes,
        newly_selected=tuple(sorted({ref for _, ref in selected_now - selected})),
        no_longer_selected=tuple(sorted({ref for _, ref in selected - selected_now})),
        newly_protected=protected_in(without, base.fleet, head.fleet),
        left_out=tuple(sorted({ref for _, ref in _left_out_in(made) - _left_out_in(without)})),
        newly_production=tuple(sorted(with_it - before_it)),
        no_longer_production=tuple(sorted(before_it - with_it)),
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


def _left_out_in(made: Plan) -> frozenset[tuple[str, ObjectRef]]:
    """Return the workloads that policies leave out because they are production, by job."""
    return frozenset(
        (one.job, one.ref)
        for one in made.explanations
        if one.ref.kind != "Service" and any(why.code is ReasonCode.PRODUCTION for why in one.reasons)
    )


def _held_back(made: Forecast | None, plan: Plan | None) -> tuple[HeldBackPeriod, ...]:
    """Return what is held back in the days to come; without a forecast in the next run, which counts a second."""
    if made is not None or plan is None:
        return () if made is None else made.held_back
    return tuple(held_back_in(plan, plan.made_at, plan.made_at + timedelta(seconds=1)).values())


def _seconds(one: HeldBackPeriod) -> int:
    return int((one.end - one.start).total_seconds())


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
    before = (one for one in review.next_base.actions if one.ref not in changed)
    gone = [action for action in before if identity_of(action.decision) not in wanted]
    return (new, gone) if new or gone else None


def _top(field: str) -> str:
    """Return the first two names of a field: "spec.clusters" of "spec.clusters[east].state"."""
    return ".".join(field.partition("[")[0].split(".")[:2])


def owned_by(policies: Iterable[str], base: Forecast, head: Forecast) -> Iterator[Owned]:
    """Yield what each of `policies`, by kind and name, keeps idle at the start, and what becomes of that."""
    owners: dict[str, list[ObjectRef]] = {}
    for one in base.first.explanations:
        if one.idled is not None:
            owners.setdefault(f"IdlingPolicy {one.idled[1]}", []).append(one.ref)
    before, after = ({one.ref: one for one in made.timelines} for made in (base, head))
    for policy in policies:
        refs = sorted(set(owners.get(policy, ())))
        changed = [ref for ref in refs if first_difference(before.get(ref), after.get(ref), head.start) is not None]
        woken = Counter(at for ref in changed if (at := wakes_at(after.get(ref))) is not None)
        yield Owned(policy, len(refs), len(refs) - len(changed), tuple(sorted(woken.items())))


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
        left_out=tuple(ref for ref in review.left_out if ref in kept),
        newly_production=tuple(ref for ref in review.newly_production if ref in kept),
        no_longer_production=tuple(ref for ref in review.no_longer_production if ref in kept),
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
