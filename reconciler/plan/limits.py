"""What one run may take away, and what is held back because it would take more.

Limits bind decreases only; wakes, increases and repairs are never held back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, Phase
from reconciler.model import NOTHING, ObjectRef, Workload
from reconciler.plan.model import HeldBackActions, LimitUse
from reconciler.policy.types import Limit, Limits, PolicySet

FLEET = "fleet"
_BOUND = (Phase.MOVE, Phase.DECREASE)
_WORDS = {"workloads": "idle", "replicas": "remove"}


class Base(Struct, frozen=True):
    """What shares are taken of: workloads, and the sum of what runs of them."""

    workloads: int
    replicas: int

    def of(self, unit: str) -> int:
        return self.workloads if unit == "workloads" else self.replicas


class Bases(Struct, frozen=True):
    """What limits are taken of: `clusters` for the Fleet's, `policies` for those that have limits of their own.

    `running` is what every counted workload weighs (see `weight_of`).
    """

    clusters: Mapping[str, Base]
    policies: Mapping[str, Base] = NOTHING
    running: Mapping[ObjectRef, int] = NOTHING

    def removed_by(self, decision: Decision) -> int:
        """Return how many replicas that really run a decision takes away."""
        running = self.running.get(decision.ref)
        if running is None or decision.replicas_after is None:
            return decision.removed
        return min(decision.removed, max(0, running - decision.replicas_after))


class Limited(Struct, frozen=True):
    """What is left of the decisions, what is held back, and how much of each limit is used by all of them."""

    decisions: tuple[Decision, ...]
    held_back: tuple[HeldBackActions, ...]
    uses: tuple[LimitUse, ...]

    def then(self, step: Limited) -> Limited:
        """Return this and what one more check left of its decisions."""
        return Limited(step.decisions, self.held_back + step.held_back, self.uses + step.uses)


def allowed(limit: Limit, base: int) -> int:
    """Return max(floor(share * base), at_least)."""
    return max(math.floor(limit.share * base + 1e-9), limit.at_least)


def weight_of(workload: Workload) -> int:
    """Return what a workload counts in limits: what really runs, and no more than is asked for.

    Whoever may write a number of replicas must not move a limit by it. A kind that does not say what runs counts 1.
    """
    if workload.ref.kind == "CronJob":
        return 0
    return min(workload.spec_replicas, 1 if workload.status_replicas is None else workload.status_replicas)


def base_of(running: Mapping[ObjectRef, int], refs: Iterable[ObjectRef]) -> Base:
    """Return the base over those of `refs` that are in `running`."""
    chosen = {ref: running[ref] for ref in refs if ref in running}
    return Base(len(chosen), sum(chosen.values()))


def hold_back(decisions: Sequence[Decision], policies: PolicySet, bases: Bases, lifted: frozenset[str]) -> Limited:
    """Return what the limits leave of `decisions`: each policy's own first, then the Fleet's over what is left.

    The Fleet's limits hold for each policy on each cluster. `lifted` are names given to --allow-exceed.
    """
    names = {one.name for kind in (policies.idling, policies.federated, policies.downscale) for one in kind}
    checks = _Checks(bases, lifted, frozenset(names))
    result = Limited(tuple(decisions), (), ())
    for policy in policies.idling:
        for unit, limit in _units(policy.limits):
            base = bases.policies.get(policy.name, _EMPTY).of(unit)
            result = result.then(checks.one(result.decisions, _Rule(unit, limit, base, ("idling", policy.name))))
    for cluster in sorted(bases.clusters):
        for unit, limit in _units(policies.fleet.limits):
            rule = _Rule(unit, limit, bases.clusters[cluster].of(unit), None, cluster)
            result = result.then(checks.each_policy(result.decisions, rule))
    return result


PolicyKey = tuple[str, str]
"""(job, policy) that decides a decrease; two kinds of policies may have the same name."""

_EMPTY = Base(0, 0)


class _Rule(Struct, frozen=True):
    """One limit for one policy; `cluster` "": on all clusters."""

    unit: str
    limit: Limit
    base: int
    owner: PolicyKey | None = None
    cluster: str = ""

    @property
    def allowed(self) -> int:
        return allowed(self.limit, self.base)

    @property
    def policy(self) -> str:
        return self.owner[1] if self.owner is not None else ""

    def binds(self, decision: Decision) -> bool:
        """Return whether `decision` takes away what this limit counts."""
        counted = decision.idles if self.unit == "workloads" else decision.removed > 0
        here = self.cluster in ("", decision.ref.cluster)
        return counted and here and decision.phase in _BOUND and self.owner in (None, owner_of(decision))


def owner_of(decision: Decision) -> PolicyKey:
    """Return whose decision it is."""
    return (decision.job, decision.cause.policy)


def _units(limits: Limits) -> list[tuple[str, Limit]]:
    pairs = (("workloads", limits.idled_workloads), ("replicas", limits.removed_replicas))
    return [(unit, limit) for unit, limit in pairs if limit is not None]


class _Checks(Struct, frozen=True):
    """`known` are the names that --allow-exceed takes."""

    bases: Bases
    lifted: frozenset[str]
    known: frozenset[str]

    def each_policy(self, decisions: tuple[Decision, ...], rule: _Rule) -> Limited:
        """Return what a limit of the Fleet leaves of the decisions on one cluster, policy by policy.

        Of its use the policy that comes nearest to it is told.
        """
        none = LimitUse(FLEET, rule.unit, 0, rule.allowed, rule.base, rule.cluster)
        result = Limited(decisions, (), ())
        for owner in sorted({owner_of(decision) for decision in decisions if rule.binds(decision)}):
            result = result.then(self.one(result.decisions, replace(rule, owner=owner)))
        return replace(result, uses=(max(result.uses, key=lambda use: use.used, default=none),))

    def one(self, decisions: tuple[Decision, ...], rule: _Rule) -> Limited:
        """Return what one limit leaves of the decisions of one policy."""
        taking = [decision for decision in decisions if rule.binds(decision)]
        weights = [1 if rule.unit == "workloads" else self.bases.removed_by(decision) for decision in taking]
        used = sum(weights)
        name = FLEET if rule.cluster else rule.policy
        uses = (LimitUse(name, rule.unit, used, rule.allowed, rule.base, rule.cluster, rule.policy),)
        if used <= rule.allowed or {rule.policy, name} & self.lifted:
            return Limited(decisions, (), uses)
        out = _with_their_groups(decisions, taking)
        held = HeldBackActions(
            allow=rule.policy if rule.policy in self.known else FLEET,
            why=_why(rule, taking, weights),
            decisions=tuple(decision for decision in decisions if decision.key in out),
            unit=rule.unit,
            used=used,
            allowed=rule.allowed,
            base=rule.base,
        )
        return Limited(tuple(decision for decision in decisions if decision.key not in out), (held,), uses)


def _with_their_groups(decisions: Sequence[Decision], taking: Sequence[Decision]) -> frozenset[str]:
    """Return the keys of `taking` and of everything bound to them: the other decreasing steps of an idling group, and
    whatever needs one of them, so that no half step is left in the plan."""
    idling_groups = {decision.group for decision in taking if decision.job == "idling"}
    out = {decision.key for decision in taking}
    out |= {decision.key for decision in decisions if decision.group in idling_groups and decision.phase in _BOUND}
    grown = True
    while grown:
        more = {decision.key for decision in decisions if decision.key not in out and out & set(decision.needs)}
        out |= more
        grown = bool(more)
    return frozenset(out)


def _why(rule: _Rule, taking: Sequence[Decision], weights: Sequence[int]) -> str:
    used = sum(weights)
    share = f"{100 * used / rule.base:.0f} %" if rule.base else "all"
    limit = f"limit {100 * rule.limit.share:.4g} % or {rule.limit.at_least}"
    where = f" in {rule.cluster}" if rule.cluster else ""
    by_place: Counter[str] = Counter()
    for decision, weight in sorted(zip(taking, weights, strict=True), key=lambda pair: pair[0].cause.at):
        by_place[decision.cause.at] += weight
    place, count = by_place.most_common(1)[0]
    origin = f" {count} come from {place}." if place else ""
    who, does = rule.policy or FLEET, _WORDS[rule.unit]
    return f"{who} would {does} {used} of {rule.base} {rule.unit}{where} ({share}, {limit}).{origin}"
