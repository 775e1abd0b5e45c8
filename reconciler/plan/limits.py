"""The limits of one run, and the changes that are held back because they would exceed one.

Limits bind decreases only; wakes, increases and repairs are never held back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.fleet_guard import FLEET
from reconciler.model import NOTHING, ObjectRef, Workload
from reconciler.plan.filters import spellings_of
from reconciler.plan.model import HeldBackActions, LimitUse
from reconciler.policy.types import Fleet, Limit, Limits, PolicySet, Tenant

PolicyKey = tuple[str, str]
"""(job, policy) that decides a decrease; two kinds of policies may have the same name.

A FederatedReplicaSet is "namespace/name", as people see it.
"""

CEILING, CLUSTER_CEILING = "ceiling", "clusterCeiling"  # that of the Fleet, and of one of its clusters
CEILINGS = (CEILING, CLUSTER_CEILING)
TENANT = "tenant "  # before the name of one, in the name of its limit; no policy has a space in its name
_BOUND = (Phase.MOVE, Phase.DECREASE)
_WORDS = {"workloads": "idle", "replicas": "remove"}


class Base(Struct, frozen=True):
    """What shares are taken of: workloads, and the sum of what runs of them."""

    workloads: int
    replicas: int

    def of(self, unit: str) -> int:
        return self.workloads if unit == "workloads" else self.replicas

    def __add__(self, other: Base) -> Base:
        return Base(self.workloads + other.workloads, self.replicas + other.replicas)


class Bases(Struct, frozen=True):
    """What limits are taken of: `clusters` for the Fleet's, `policies` for those that have limits of their own.

    `running` is what every counted workload weighs (see `weight_of`).
    """

    clusters: Mapping[str, Base]
    policies: Mapping[PolicyKey, Base] = NOTHING
    tenants: Mapping[str, Base] = NOTHING  # of those with limits, by name: over everything in their namespaces
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


def own_limits(policies: PolicySet) -> dict[PolicyKey, Limits]:
    """Return the limits of those policies that state some."""
    found = {("idling", policy.name): policy.limits for policy in policies.idling}
    found |= {("downscale", policy.name): policy.limits for policy in policies.downscale}
    return {owner: limits for owner, limits in found.items() if limits != Limits()}


def hold_back(decisions: Sequence[Decision], policies: PolicySet, bases: Bases, lifted: frozenset[str]) -> Limited:
    """Return what the limits leave of `decisions`: each policy's own first, then the Fleet's over what is left.

    The Fleet's limits hold for each policy that has no such limit of its own: on each cluster, and on all of them.
    `lifted` are names given to --allow-exceed.
    """
    checks = _Checks(bases, lifted, policy_names(policies))
    own = own_limits(policies)
    result = Limited(tuple(decisions), (), ())
    for owner, limits in own.items():
        for unit, limit in _units(limits):
            base = bases.policies.get(owner, _EMPTY).of(unit)
            rule = _Rule(owner[1], unit, limit, base, owner)
            bound = _bound_by(rule, result.decisions)
            result = result.then(checks.one(result.decisions, rule, bound.get(owner, ())))
    for rule in _of_the_fleet(policies.fleet, bases.clusters):
        excepted = {owner for owner, limits in own.items() if rule.unit in dict(_units(limits))}
        result = result.then(checks.each_policy(result.decisions, rule, excepted))
    for tenant in policies.fleet.tenants:
        members = frozenset(_policies_of(tenant, policies))
        for unit, limit in _units(tenant.limits):
            base = bases.tenants.get(tenant.name, _EMPTY).of(unit)
            rule = _Rule(f"{TENANT}{tenant.name}", unit, limit, base, tenant=tenant, members=members)
            result = result.then(checks.together(result.decisions, rule))
    for cluster in policies.fleet.clusters:
        if cluster.name in bases.clusters:
            limit, base = cluster.ceiling or policies.fleet.ceiling, bases.clusters[cluster.name].workloads
            name = CEILING if cluster.ceiling is None else CLUSTER_CEILING
            rule = _Rule(name, "workloads", limit, base, None, cluster.name)
            result = result.then(checks.together(result.decisions, rule))
    return result


_EMPTY = Base(0, 0)


def policy_names(policies: PolicySet) -> frozenset[str]:
    """Return the names of all policies that take something away: "namespace/name" of a FederatedReplicaSet."""
    names = {one.name for kind in (policies.idling, policies.downscale) for one in kind}
    return frozenset(names | {one.key for one in policies.federated})


def _policies_of(tenant: Tenant, policies: PolicySet) -> Iterator[PolicyKey]:
    for job, kind in (("idling", policies.idling), ("downscale", policies.downscale)):
        yield from ((job, one.name) for one in kind if one.tenant == tenant.name)
    yield from (("placement", one.key) for one in policies.federated if one.tenant == tenant.name)


class _Rule(Struct, frozen=True):
    """One limit for one policy: of the Fleet, its ceiling, its own or its tenant's (`name`).

    `cluster` "": on all clusters. `members` are the policies of `tenant`.
    """

    name: str
    unit: str
    limit: Limit
    base: int
    owner: PolicyKey | None = None
    cluster: str = ""
    beside: int = 0  # what others use of it
    tenant: Tenant | None = None
    members: frozenset[PolicyKey] = frozenset()

    @property
    def allowed(self) -> int:
        return allowed(self.limit, self.base)

    @property
    def policy(self) -> str:
        return self.owner[1] if self.owner is not None else ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """How --allow-exceed may name its policy."""
        placed = self.owner is not None and self.owner[0] == "placement"
        return spellings_of(self.policy) if placed else (self.policy,)

    def use(self, used: int) -> LimitUse:
        return LimitUse(self.name, self.unit, used, self.allowed, self.base, self.cluster, self.policy)

    def binds(self, decision: Decision) -> bool:
        """Return whether `decision` takes away what this limit counts."""
        counted = decision.idles if self.unit == "workloads" else decision.removed > 0
        here = self.cluster in ("", decision.ref.cluster)
        bound = decision.phase in _BOUND and not decision.known
        return counted and here and bound and self.owner in (None, owner_of(decision)) and self._is_of_tenant(decision)

    def _is_of_tenant(self, decision: Decision) -> bool:
        tenant, ref = self.tenant, decision.ref
        return tenant is None or (owner_of(decision) in self.members and tenant.has(ref.cluster, ref.namespace))


def owner_of(decision: Decision) -> PolicyKey:
    """Return whose decision it is."""
    return (decision.job, decision.policy)


def _of_the_fleet(fleet: Fleet, clusters: Mapping[str, Base]) -> Iterator[_Rule]:
    for cluster in sorted(clusters):
        for unit, limit in _units(fleet.limits):
            yield _Rule(FLEET, unit, limit, clusters[cluster].of(unit), None, cluster)
    together = sum(clusters.values(), _EMPTY)
    for unit, limit in _units(fleet.limits_of_all_clusters):
        yield _Rule(FLEET, unit, limit, together.of(unit))


def _units(limits: Limits) -> list[tuple[str, Limit]]:
    pairs = (("workloads", limits.idled_workloads), ("replicas", limits.removed_replicas))
    return [(unit, limit) for unit, limit in pairs if limit is not None]


class _Checks(Struct, frozen=True):
    """`known` are the names that --allow-exceed takes."""

    bases: Bases
    lifted: frozenset[str]
    known: frozenset[str]

    def each_policy(self, decisions: tuple[Decision, ...], rule: _Rule, excepted: Set[PolicyKey]) -> Limited:
        """Return what a limit of the Fleet leaves of the decisions, policy by policy but for those `excepted`.

        Of its use the policy that comes nearest to it is reported.
        """
        bound = _bound_by(rule, decisions)
        result = Limited(decisions, (), ())
        for owner in sorted(bound.keys() - excepted):
            left = _left(bound[owner], result)
            result = result.then(self.one(result.decisions, replace(rule, owner=owner), left))
        return replace(result, uses=(max(result.uses, key=lambda use: use.used, default=rule.use(0)),))

    def together(self, decisions: tuple[Decision, ...], rule: _Rule) -> Limited:
        """Return what a limit for all policies together leaves of the decisions: whoever takes most is held back first.

        Its use is reported only where it holds something back.
        """
        bound = _bound_by(rule, decisions)
        result = Limited(decisions, (), ())
        for owner in sorted(bound, key=lambda owner: (-len(bound[owner]), owner)):
            left = {one: _left(inside, result) for one, inside in bound.items()}
            if left[owner]:  # what was held back may have taken some of it along
                beside = sum(map(len, left.values())) - len(left[owner])
                step = self.one(result.decisions, replace(rule, owner=owner, beside=beside), left[owner])
                result = result.then(step if step.held_back else replace(step, uses=()))
        return result

    def one(self, decisions: tuple[Decision, ...], rule: _Rule, taking: Sequence[Decision]) -> Limited:
        """Return what one limit leaves of `decisions`; `taking` are those of one policy that it counts."""
        weights = [1 if rule.unit == "workloads" else self.bases.removed_by(decision) for decision in taking]
        used = sum(weights) + rule.beside
        use = rule.use(used)
        lifts = {*rule.spellings, FLEET if rule.name in CEILINGS or rule.tenant is not None else rule.name}
        if used <= rule.allowed or lifts & self.lifted:
            return Limited(decisions, (), (use,))
        out = _with_their_groups(decisions, taking)
        held = HeldBackActions(
            allow=rule.policy if rule.policy in self.known else FLEET,
            why=_why(rule, taking, weights),
            decisions=tuple(decision for decision in decisions if decision.key in out),
            limit=use,
        )
        return Limited(tuple(decision for decision in decisions if decision.key not in out), (held,), (use,))


def _bound_by(rule: _Rule, decisions: Sequence[Decision]) -> dict[PolicyKey, list[Decision]]:
    """Return the decisions that a limit counts, by whose they are."""
    found: dict[PolicyKey, list[Decision]] = {}
    for decision in decisions:
        if rule.binds(decision):
            found.setdefault(owner_of(decision), []).append(decision)
    return found


def _left(decisions: Sequence[Decision], result: Limited) -> Sequence[Decision]:
    """Return those of `decisions` that are not held back yet."""
    if not result.held_back:
        return decisions
    gone = {one.key for held in result.held_back for one in held.decisions}
    return [decision for decision in decisions if decision.key not in gone]


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
    used = sum(weights) + rule.beside
    share = f"{100 * used / rule.base:.0f} %" if rule.base else "all"
    limit = f"{CEILING if rule.name in CEILINGS else 'limit'} {100 * rule.limit.share:.4g} % or {rule.limit.at_least}"
    where = f" in {rule.cluster}" if rule.cluster else f" of {rule.name}" if rule.tenant is not None else ""
    by_place: Counter[str] = Counter()
    for decision, weight in sorted(zip(taking, weights, strict=True), key=lambda pair: pair[0].cause.at):
        by_place[decision.cause.at] += weight
    place = max(by_place, key=by_place.__getitem__)
    origin = f" {by_place[place]} come from {place}." if place else ""
    who, does = rule.policy or FLEET, _WORDS[rule.unit]
    if rule.beside:
        who = f"{who} with others"
    return f"{who} would {does} {used} of {rule.base} {rule.unit}{where} ({share}, {limit}).{origin}"
