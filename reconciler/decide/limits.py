"""The limits of one run, and the changes that are held back because they would exceed one.

Limits bind decreases only; wakes, increases and repairs are never held back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, LimitUse, Phase
from reconciler.decide.fleet_guard import FLEET
from reconciler.model import NOTHING, ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import Fleet, Limit, Limits, PolicySet, Tenant
from reconciler.workload_kinds import workload_kind

PolicyKey = tuple[str, str]
"""(job, policy) that decides a decrease; two kinds of policies may have the same name.

A FederatedReplicaSet is "namespace/name", as people see it.
"""

CEILING, CLUSTER_CEILING = "ceiling", "clusterCeiling"  # that of the Fleet, and of one of its clusters
CEILINGS = (CEILING, CLUSTER_CEILING)
TENANT = "tenant "  # before the name of one, in the name of its limit; no policy has a space in its name
_BOUND = (Phase.MOVE, Phase.DECREASE)
_WORDS = {"workloads": "idle", "replicas": "remove"}


_NOTHING_YET = DesiredState()


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


def within_limits(
    desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run, before: DesiredState = _NOTHING_YET
) -> DesiredState:
    """Return `desired` with what exceeds a limit held back.

    `before` is what was decided before: the idles that a limit held back there stay held back, so that what the other
    jobs decide since, as these workloads stay awake, is true. They count there, and not again.
    """
    guarded = tuple(one for one in desired.held_back if one.limit is None)
    remaining = _Remaining(desired.wanted)
    still = tuple(
        replace(one, decisions=remaining.take_out(taking))
        for one in _limited(before)
        if (taking := remaining.left_of(remaining.with_keys(idle.key for idle in one.decisions if idle.idles)))
    )
    limited = hold_back(remaining.all(), policies, _bases(policies, state, desired), run.allow_exceed)
    uses = {(one.name, one.unit, one.cluster): one for one in limited.uses}
    for one in before.limits if still else ():
        key = (one.name, one.unit, one.cluster)
        uses[key] = max(one, uses.get(key, one), key=lambda use: use.used)
    held_back = (*guarded, *still, *limited.held_back)
    return replace(desired, decisions=limited.decisions, held_back=held_back, limits=tuple(uses.values()))


def _limited(desired: DesiredState) -> Iterator[HeldBack]:
    """Yield what a limit holds back, and not a guard."""
    return (one for one in desired.held_back if one.limit is not None)


def held_idles(desired: DesiredState) -> frozenset[ObjectRef]:
    """Return the workloads that limits keep from going idle."""
    return frozenset(decision.ref for one in _limited(desired) for decision in one.decisions if decision.idles)


class Limited(Struct, frozen=True):
    """What is left of the decisions, what is held back, and how much of each limit is used by all of them."""

    decisions: tuple[Decision, ...]
    held_back: tuple[HeldBack, ...]
    uses: tuple[LimitUse, ...]


def allowed(limit: Limit, base: int) -> int:
    """Return max(floor(share * base), at_least)."""
    return max(math.floor(limit.share * base + 1e-9), limit.at_least)


def weight_of(workload: Workload) -> int:
    """Return what a workload counts in limits: what really runs, and no more than is asked for.

    Whoever may write a number of replicas must not move a limit by it. A kind that does not say what runs counts 1.
    """
    if not workload_kind(workload.ref.kind).counts:
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
    checks = _Checks(_Remaining(decisions), bases, lifted, policy_names(policies))
    own = own_limits(policies)
    for owner, limits in own.items():
        for unit, limit in _units(limits):
            base = bases.policies.get(owner, _EMPTY).of(unit)
            checks.one_policy(_Rule(owner[1], unit, limit, base, owner))
    for rule in _of_the_fleet(policies.fleet, bases.clusters):
        checks.each_policy(rule, {owner for owner, limits in own.items() if rule.unit in dict(_units(limits))})
    for tenant in policies.fleet.tenants:
        members = frozenset(_policies_of(tenant, policies))
        for unit, limit in _units(tenant.limits):
            base = bases.tenants.get(tenant.name, _EMPTY).of(unit)
            checks.together(_Rule(f"{TENANT}{tenant.name}", unit, limit, base, tenant=tenant, members=members))
    for cluster in policies.fleet.clusters:
        if cluster.name in bases.clusters:
            limit, base = cluster.ceiling or policies.fleet.limits.ceiling, bases.clusters[cluster.name].workloads
            name = CEILING if cluster.ceiling is None else CLUSTER_CEILING
            checks.together(_Rule(name, "workloads", limit, base, None, cluster.name))
    return checks.result()


_EMPTY = Base(0, 0)


def policy_names(policies: PolicySet) -> frozenset[str]:
    """Return the names of all policies that take something away: "namespace/name" of a FederatedReplicaSet."""
    names = {one.name for kind in (policies.idling, policies.downscale) for one in kind}
    return frozenset(names | {one.key for one in policies.federated})


def _policies_of(tenant: Tenant, policies: PolicySet) -> Iterator[PolicyKey]:
    for job, kind in (("idling", policies.idling), ("downscale", policies.downscale)):
        yield from ((job, one.name) for one in kind if one.tenant == tenant.name)
    yield from (("placement", one.key) for one in policies.federated if one.tenant == tenant.name)


def spellings_of(policy: str) -> tuple[str, ...]:
    """Return how `policy` may be named: a FederatedReplicaSet, "shop/web", by its name alone too."""
    bare = policy.rpartition("/")[2]
    return (policy,) if bare == policy else (policy, bare)


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
        """Return whether `decision`, one that it may count by policy and cluster, takes away what it counts."""
        counted = decision.idles if self.unit == "workloads" else decision.removed > 0
        tenant, ref = self.tenant, decision.ref
        return counted and not decision.known and (tenant is None or tenant.has(ref.cluster, ref.namespace))


def owner_of(decision: Decision) -> PolicyKey:
    """Return whose decision it is."""
    return (decision.job, decision.policy)


def _of_the_fleet(fleet: Fleet, clusters: Mapping[str, Base]) -> Iterator[_Rule]:
    for cluster in sorted(clusters):
        for unit, limit in _units(fleet.limits):
            yield _Rule(FLEET, unit, limit, clusters[cluster].of(unit), None, cluster)
    together = sum(clusters.values(), _EMPTY)
    for unit, limit in _units(fleet.limits.fleet):
        yield _Rule(FLEET, unit, limit, together.of(unit))


def _units(limits: Limits) -> list[tuple[str, Limit]]:
    pairs = (("workloads", limits.idled_workloads), ("replicas", limits.removed_replicas))
    return [(unit, limit) for unit, limit in pairs if limit]


class _Remaining:
    """The decisions that no limit holds back yet, found by whose they are, where they are and what is bound to them.

    Each limit looks only at those that it may count, so that many policies on many clusters cost no more than their
    decisions.
    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._decisions = decisions
        self._positions = {decision.key: position for position, decision in enumerate(decisions)}
        self._gone: set[str] = set()
        self._of_owner: dict[PolicyKey, list[Decision]] = {}
        self._on_cluster: dict[str, list[Decision]] = {}
        self._decreases: dict[str, list[str]] = {}  # keys of the decreasing steps of a group
        self._needed_by: dict[str, list[str]] = {}
        for decision in decisions:
            if decision.phase in _BOUND:
                self._of_owner.setdefault(owner_of(decision), []).append(decision)
                self._on_cluster.setdefault(decision.ref.cluster, []).append(decision)
                self._decreases.setdefault(decision.group, []).append(decision.key)
            for key in decision.needs:
                self._needed_by.setdefault(key, []).append(decision.key)

    def counted_by(self, rule: _Rule) -> dict[PolicyKey, list[Decision]]:
        """Return what is left that a limit counts, by whose it is."""
        found: dict[PolicyKey, list[Decision]] = {}
        for decision in self._candidates(rule):
            if decision.key not in self._gone and rule.binds(decision):
                found.setdefault(owner_of(decision), []).append(decision)
        return found

    def _candidates(self, rule: _Rule) -> Iterable[Decision]:
        if rule.owner is not None:
            return self._of_owner.get(rule.owner, ())
        if rule.tenant is not None:
            return chain.from_iterable(self._of_owner.get(owner, ()) for owner in sorted(rule.members))
        if rule.cluster:
            return self._on_cluster.get(rule.cluster, ())
        return chain.from_iterable(self._on_cluster.values())

    def with_keys(self, keys: Iterable[str]) -> list[Decision]:
        """Return the decisions of `keys` that there are."""
        return [self._decisions[self._positions[key]] for key in keys if key in self._positions]

    def left_of(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Return those of `decisions` that are left."""
        return [decision for decision in decisions if decision.key not in self._gone]

    def take_out(self, taking: Iterable[Decision]) -> tuple[Decision, ...]:
        """Take out `taking` and everything bound to them, and return all of that in the order of the decisions: the
        other decreasing steps of an idling group, and whatever needs one of them, so that no half step is left.
        """
        out: set[str] = set()
        more = [decision.key for decision in taking]
        for group in {decision.group for decision in taking if decision.job == "idling"}:
            more += self._decreases[group]
        while more:
            key = more.pop()
            if key not in self._gone and key not in out:
                out.add(key)
                more += self._needed_by.get(key, ())
        self._gone |= out
        return tuple(self._decisions[position] for position in sorted(self._positions[key] for key in out))

    def all(self) -> tuple[Decision, ...]:
        """Return everything that is left, in the order of the decisions."""
        return tuple(self.left_of(self._decisions))


class _Checks:
    """Holds back, one limit after the other. `known` are the names that --allow-exceed takes."""

    def __init__(self, remaining: _Remaining, bases: Bases, lifted: frozenset[str], known: frozenset[str]) -> None:
        self._remaining = remaining
        self._bases = bases
        self._lifted = lifted
        self._known = known
        self._held_back: list[HeldBack] = []
        self._uses: list[LimitUse] = []

    def result(self) -> Limited:
        return Limited(self._remaining.all(), tuple(self._held_back), tuple(self._uses))

    def one_policy(self, rule: _Rule) -> None:
        """Hold back what exceeds a limit that a policy states itself."""
        taking = [decision for counted in self._remaining.counted_by(rule).values() for decision in counted]
        self._uses.append(self._check(rule, taking))

    def each_policy(self, rule: _Rule, excepted: Set[PolicyKey]) -> None:
        """Hold back what exceeds a limit of the Fleet, policy by policy but for those `excepted`.

        Of its use the policy that comes nearest to it is reported.
        """
        counted = self._remaining.counted_by(rule)
        uses = []
        for owner in sorted(counted.keys() - excepted):
            taking = self._remaining.left_of(counted[owner])
            uses.append(self._check(replace(rule, owner=owner), taking))
        self._uses.append(max(uses, key=lambda use: use.used, default=rule.use(0)))

    def together(self, rule: _Rule) -> None:
        """Hold back what exceeds a limit for all policies together: whoever takes most is held back first.

        Its use, of all of them, is reported only where something is held back.
        """
        counted = self._remaining.counted_by(rule)
        weights = {
            decision.key: weight
            for taking in counted.values()
            for decision, weight in zip(taking, self._weights(rule, taking), strict=True)
        }
        takes = {owner: sum(weights[decision.key] for decision in taking) for owner, taking in counted.items()}
        used, first = sum(takes.values()), len(self._held_back)
        for owner in sorted(counted, key=lambda owner: (-takes[owner], owner)):
            taking = self._remaining.left_of(counted[owner])
            if taking:  # what was held back may have taken some of it along
                beside = used - sum(weights[decision.key] for decision in taking)
                before = len(self._held_back)
                self._check(replace(rule, owner=owner, beside=beside), taking)
                gone = (decision.key for held in self._held_back[before:] for decision in held.decisions)
                used -= sum(weights.get(key, 0) for key in gone)
        self._uses += [held.limit for held in self._held_back[first:] if held.limit is not None][:1]

    def _weights(self, rule: _Rule, taking: Sequence[Decision]) -> list[int]:
        return [1 if rule.unit == "workloads" else self._bases.removed_by(decision) for decision in taking]

    def _check(self, rule: _Rule, taking: Sequence[Decision]) -> LimitUse:
        """Hold back `taking`, those of one policy that a limit counts, if they exceed it, and return its use."""
        weights = self._weights(rule, taking)
        use = rule.use(sum(weights) + rule.beside)
        lifts = {*rule.spellings, FLEET if rule.name in CEILINGS or rule.tenant is not None else rule.name}
        if use.used > rule.allowed and not lifts & self._lifted:
            held = HeldBack(
                allow=rule.policy if rule.policy in self._known else FLEET,
                why=_why(rule, taking, weights),
                decisions=self._remaining.take_out(taking),
                limit=use,
            )
            self._held_back.append(held)
        return use


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


def _bases(policies: PolicySet, state: ObservedState, desired: DesiredState) -> Bases:
    running = {workload.ref: weight_of(workload) for workload in scalable_workloads(state)}
    inside: dict[str, list[ObjectRef]] = {name: [] for name in state.clusters}
    for ref in running:
        inside[ref.cluster].append(ref)
    selected: dict[PolicyKey, list[ObjectRef]] = {}
    for one in desired.explanations:
        if one.selected:
            selected.setdefault((one.job, one.policy), []).append(one.ref)
    return Bases(
        clusters={name: base_of(running, refs) for name, refs in inside.items()},
        policies={owner: base_of(running, selected.get(owner, ())) for owner in sorted(own_limits(policies))},
        tenants={
            tenant.name: base_of(running, (ref for ref in running if tenant.has(ref.cluster, ref.namespace)))
            for tenant in policies.fleet.tenants
            if tenant.limits != Limits()
        },
        running=running,
    )


def scalable_workloads(state: ObservedState) -> list[Workload]:
    """Return what limits count: everything with a scale that nothing else with a scale owns or steers."""
    return [
        workload
        for name in sorted(state.clusters)
        for workload in state.clusters[name].workloads
        if workload.owner is None and workload_kind(workload.ref.kind).scaled_by != "Pause"
    ]
