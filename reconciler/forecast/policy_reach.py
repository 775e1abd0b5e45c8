"""What the policies reach on a snapshot: on each cluster, of production, and in their first night."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import policy_title
from reconciler.decide.limit_amounts import scalable_workloads
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import namespace_labels
from reconciler.forecast.simulation import Simulation, Step
from reconciler.messages import counted
from reconciler.model import NOTHING, ObjectRef
from reconciler.plan.model import Plan
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.change_words import name_of
from reconciler.report.summary import Held, held_of
from reconciler.report.times import common_zone, time_and_zone
from reconciler.untrusted_text import one_line

NIGHT = timedelta(hours=12)
SEARCHED = timedelta(days=8)
"""A schedule of a week has begun by then."""


class ClusterReach(Struct, frozen=True):
    """Which workloads of a cluster are `selected` by a policy that may idle them or take replicas away.

    `production` are those that are production.
    """

    name: str
    workloads: frozenset[ObjectRef]
    production: frozenset[ObjectRef]
    selected: frozenset[ObjectRef]


def left_out_by(plan: Plan) -> Mapping[str, int]:
    """Return how many workloads of production each policy leaves out, by kind and name, without those of none."""
    pairs = {
        (policy_title(explanation.job, explanation.policy), explanation.ref)
        for explanation in plan.explanations
        if not explanation.selected and any(why.code == ReasonCode.PRODUCTION for why in explanation.reasons)
    }
    return dict(sorted(Counter(policy for policy, _ in pairs).items()))


def left_out_lines(left_out: Mapping[str, int], places: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each policy that leaves out production, with what would let it select that."""
    if left_out:
        yield "Production that policies leave out; to select it they need spec.production: true"
    for policy, number in left_out.items():
        yield f"  {one_line(policy)} ({places.get(policy, '')}): {counted(number, 'workload')}"


def selecting_policies(plan: Plan) -> Mapping[ObjectRef, tuple[str, ...]]:
    """Return the policies that may idle a workload or take replicas away, by kind and name, for each that has some.

    Whether a limit holds that back does not matter. A FederatedReplicaSet is none of them.
    """
    found: dict[ObjectRef, dict[str, None]] = {}
    for explanation in plan.explanations:
        orders_only = any(why.code == ReasonCode.NO_TARGET for why in explanation.reasons)
        if explanation.selected and explanation.policy and explanation.job != "placement" and not orders_only:
            found.setdefault(explanation.ref, {})[policy_title(explanation.job, explanation.policy)] = None
    return {ref: tuple(sorted(names)) for ref, names in found.items()}


def reach_of(fleet: Fleet, step: Step) -> tuple[ClusterReach, ...]:
    """Return what the policies reach on each cluster that `step` saw, in the order of the Fleet."""
    selected = frozenset(selecting_policies(step.plan))
    workloads = scalable_workloads(step.state)
    found = []
    for cluster in fleet.clusters:
        observed = step.state.clusters.get(cluster.name)
        if observed is None:
            continue
        spaces, own = namespace_labels(observed), [one for one in workloads if one.ref.cluster == cluster.name]
        production = frozenset(
            one.ref
            for one in own
            if fleet.production.why(cluster, one.ref.namespace, spaces.get(one.ref.namespace), one.labels)
        )
        refs = frozenset(workload.ref for workload in own)
        found.append(ClusterReach(cluster.name, refs, production, refs & selected))
    return tuple(found)


def reach_lines(reaches: Iterable[ClusterReach]) -> Iterator[str]:
    """Yield for each cluster how many workloads may be idled, and how much of it is production."""
    yield "What may be idled, or lose replicas to a target:"
    for reach in reaches:
        inside, production = len(reach.production & reach.selected), len(reach.production)
        known = f"; of production {inside} of {production}" if production else ""
        yield f"  {reach.name}: {len(reach.selected)} of {counted(len(reach.workloads), 'workload')}{known}"


def guards(fleet: Fleet, reaches: Iterable[ClusterReach]) -> list[dict[str, object]]:
    """Return the expectations of a policy test that no policy selects production which none selects now.

    A cluster that is production whole is one expectation, of all namespaces that it may have; other production is named
    by its namespace where all there is production, else by its name.
    """
    whole: list[str] = []
    found: list[dict[str, object]] = []
    for reach in reaches:
        free = reach.production - reach.selected
        if free and free == reach.workloads and not fleet.production.except_namespaces:
            whole.append(reach.name)
            continue
        spaces = sorted({ref.namespace for ref in free} - {ref.namespace for ref in reach.workloads - free})
        if spaces:
            found.append({"clusters": [reach.name], "namespaces": spaces, "never": "selected"})
        single = sorted(ref for ref in free if ref.namespace not in spaces)
        found += [{"object": name_of(ref), "never": "selected"} for ref in single]
    return [{"clusters": whole, "namespaces": ["*"], "never": "selected"}, *found] if whole else found


# The first night


class FirstNight(Struct, frozen=True):
    """`start` is the first run that idles something, or would, None where nothing goes idle in the coming days.

    `idle` are workloads by policy, of `workloads` in all, `places` the file:line of the policies. `already` are those
    that are idle when the night begins: they do not count as going idle, even if a request wakes them for a while.
    `held_back` has each line about a policy of which something is held back once. `left_out` are the workloads of
    production that a policy leaves out, by policy. `warnings` say which policies select nothing, or far less than their
    limit, which Services wait for signals that no activator can give, and which CronJobs may start a missed run.
    """

    start: datetime | None = None
    time_zones: tuple[str, ...] = ()
    workloads: int = 0
    idle: Mapping[str, int] = NOTHING
    already: int = 0
    places: Mapping[str, str] = NOTHING
    held_back: tuple[Held, ...] = ()
    left_out: Mapping[str, int] = NOTHING
    warnings: tuple[str, ...] = ()


def first_night(simulation: Simulation, policies: PolicySet, now: datetime) -> FirstNight:
    """Return the first night of `policies` from `now` on; their `simulation` is played."""
    steps: list[Step] = []
    warnings: dict[str, None] = {}
    left_out: dict[str, int] = {}
    places: dict[str, str] = {}
    nothing: tuple[str, ...] = ()
    for number, step in enumerate(simulation.play(now, now + SEARCHED)):
        if steps and step.at >= steps[0].at + NIGHT:
            break
        left_out, places = {**left_out_by(step.plan), **left_out}, {**places, **step.plan.places}
        warnings |= dict.fromkeys(
            notice.text for notice in step.plan.notices if notice.kind in ("notHeld", "missedRun", "lostVolumes")
        )
        warnings |= dict.fromkeys(() if number else _wide_limits(policies, step.plan))
        without = step.plan.without_workloads  # a run may create what a policy selects
        nothing = tuple(one for one in nothing if one in without) if number else without
        if steps or _idles(step.plan) or step.plan.held_back:
            steps.append(step)
    found = _of(steps) if steps else FirstNight()
    for name in nothing:
        warnings[f"{places.get(name, '')}: {name} selects no workload of the snapshot"] = None
    return replace(found, places=places, left_out=left_out, warnings=tuple(warnings))


def _wide_limits(policies: PolicySet, plan: Plan) -> Iterator[str]:
    """Yield which limits are so far above what is selected that they hold nothing back."""
    selected = {(one.policy, one.ref) for one in plan.explanations if one.job == "idling" and one.selected}
    counts = Counter(policy for policy, _ in selected)
    for policy in policies.idling:
        stated, number = policy.limits.of("workloads"), counts[policy.name]
        if stated is not None and stated > 2 * number > 0:
            what = f"limits.workloads of IdlingPolicy {policy.name} is {stated}, and it selects {number}"
            yield f"{policy.limits_place}: {what}, expected at most twice as many"


def _of(steps: Sequence[Step]) -> FirstNight:
    first = steps[0]
    already = {str(explanation.idled[0]) for explanation in first.plan.explanations if explanation.idled is not None}
    owners = {ref: policy for step in steps for ref, policy in _idles(step.plan).items() if ref not in already}
    counts = Counter(owners.values())
    held: dict[tuple[str, str], Held] = {}  # of each policy the run that most of it is held back from
    for step in steps:
        for one, limited in zip(step.plan.held_back, held_of(step.plan), strict=True):
            key = (one.policy, one.decisions[0].job)
            held[key] = max(held.get(key, limited), limited, key=lambda some: some.number)
    return FirstNight(
        start=first.at,
        time_zones=first.plan.time_zones,
        workloads=len({workload.ref for step in steps for workload in scalable_workloads(step.state)}),
        idle=dict(sorted(counts.items())),
        already=len(already),
        held_back=tuple(held[key] for key in sorted(held)),
    )


def _idles(plan: Plan) -> dict[str, str]:
    return {str(action.ref): f"IdlingPolicy {action.policy}" for action in plan.actions if action.decision.idles}


def night_lines(night: FirstNight) -> Iterator[str]:
    """Yield the lines about the first night, and about production that is left out."""
    if night.start is None:
        yield f"First night: nothing goes idle in {SEARCHED.days} days"
        yield from left_out_lines(night.left_out, night.places)
        return
    total = sum(night.idle.values())
    verb = "goes" if total == 1 else "go"
    already = f", {night.already} {'is' if night.already == 1 else 'are'} idle already" if night.already else ""
    start = time_and_zone(night.start, common_zone(night.time_zones))
    yield f"First night ({start}): {total} of {counted(night.workloads, 'workload')} {verb} idle{already}"
    for policy, number in night.idle.items():
        yield f"  {one_line(policy)} ({night.places.get(policy, '')}): {counted(number, 'workload')}"
    for held in night.held_back:
        yield f"  held back: {held.what}"
    yield from left_out_lines(night.left_out, night.places)
