"""The limits of what policies take down for the first time, and what is held back because it would exceed one.

Every limit is a pool: a number, and the policies that share it. A policy that states a number has a pool of its own;
all that state none share one in each cluster and one in the Fleet; the policies of a tenant share that of the tenant.
Wakes and increases are never held back, nor what is known (see `last_idled`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec import UNSET, Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, LimitUse, Notice
from reconciler.decide.limit_counts import (
    UNITS,
    CountedDecisions,
    LimitBases,
    LimitedPolicy,
    LimitPool,
    PolicyKey,
    RemainingDecisions,
    limit_bases,
    owner_of,
)
from reconciler.decide.removal_guard import REMOVED_FLAG
from reconciler.model import NOTHING, ObjectRef, ObservedState, Run
from reconciler.policy.types import (
    DefaultLimit,
    DownscalePolicy,
    FederatedReplicaSet,
    Fleet,
    IdlingPolicy,
    Limits,
    PolicySet,
    ReplicasLimits,
    Shard,
    Tenant,
)

FLEET_DEFAULT = "fleet default"  # the names of pools that no policy can have: no policy has a space in its name
_TENANT = "tenant "
_TENANT_SHARE = 0.25
_LEAST_REPLICAS = 10  # of a default, whatever the Fleet states
_TENANT_LEAST = {"workloads": 3, "replicas": _LEAST_REPLICAS}
_NOTHING_YET = DesiredState()


def within_limits(
    desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run, before: DesiredState = _NOTHING_YET
) -> DesiredState:
    """Return `desired` with what exceeds a limit held back.

    `before` is what was decided before: the idles that a limit held back there stay held back, so that what the other
    jobs decide since, as these workloads stay awake, is true.
    """
    known, gone = limited_policies(policies, run.allow_exceed), LimitedPolicy(lifted=run.allow_removed)
    limits = RunLimits(known, gone, limit_bases(policies, state, run), policies.fleet, policies.shard)
    guarded = tuple(held for held in desired.held_back if not held.limits)
    still = [held for held in before.held_back if held.limits]
    limited = limits.hold_back(desired.wanted, still)
    uses = limited.limits
    if still:  # of the same pools
        uses = tuple(max(both, key=lambda use: use.used) for both in zip(before.limits, uses, strict=True))
    return replace(
        desired,
        decisions=limited.decisions,
        held_back=(*guarded, *limited.held_back),
        limits=uses,
        notices=(
            *(notice for notice in desired.notices if notice.kind != "wouldBeHeldBack"),
            *_observing(desired, limits),
        ),
    )


def _observing(desired: DesiredState, limits: RunLimits) -> Iterator[Notice]:
    """Yield what would be held back of policies that only observe, which no limit counts."""
    if not desired.observed:
        return
    owners = {owner_of(decision) for decision in desired.observed}
    for held in limits.hold_back((*desired.wanted, *desired.observed)).held_back:
        if any(decision.policy == held.policy and owner_of(decision) in owners for decision in held.decisions):
            text = f"{held.policy}: with mode: Enforce {held.why.removeprefix(f'{held.policy}: ')}"
            yield Notice("wouldBeHeldBack", held.policy, text, held.policy)


def held_idles(desired: DesiredState) -> frozenset[ObjectRef]:
    """Return the workloads that limits keep from going idle."""
    held = (held for held in desired.held_back if held.limits)
    return frozenset(decision.ref for limited in held for decision in limited.decisions if decision.idles)


def policy_names(policies: PolicySet) -> frozenset[str]:
    """Return the names of all policies that take something away: "namespace/name" of a FederatedReplicaSet."""
    return frozenset(name for _, name in limited_policies(policies, NOTHING))


def spellings_of(policy: str, job: str = "placement") -> tuple[str, ...]:
    """Return how `policy` may be named: a FederatedReplicaSet, "shop/web", by its name alone too."""
    bare = policy.rpartition("/")[2]
    return (policy,) if bare == policy or job != "placement" else (policy, bare)


def limited_policies(policies: PolicySet, lifted: Mapping[str, int | None]) -> dict[PolicyKey, LimitedPolicy]:
    """Return what limits know of each policy. `lifted` are the names given to --allow-exceed, with their bounds."""
    found: dict[PolicyKey, LimitedPolicy] = {}
    for owner, policy in _named(policies):
        limits, place = policy.limits, "" if policy.limits_place is None else str(policy.limits_place)
        bounds = [lifted[name] for name in spellings_of(owner[1], owner[0]) if name in lifted]
        if bounds:
            bound = UNSET if bounds[0] is None else bounds[0]
            limits = Limits(workloads=bound) if owner[0] == "idling" else Limits(replicas=bound)
        weights = () if policies.shard is None else _weights(policy, policies.shard)
        found[owner] = LimitedPolicy(limits, policy.tenant, place, bool(bounds), weights)
    return found


def _weights(policy: IdlingPolicy | DownscalePolicy | FederatedReplicaSet, shard: Shard) -> tuple[int, ...]:
    """Return how the numbers that `policy` states are divided among shards: one decides all of placement."""
    if isinstance(policy, FederatedReplicaSet):
        return ()
    return shard.weights(policy.selector.selects_cluster, policy.selector.namespaces.include)


def _named(policies: PolicySet) -> Iterator[tuple[PolicyKey, IdlingPolicy | DownscalePolicy | FederatedReplicaSet]]:
    yield from ((("idling", policy.name), policy) for policy in policies.idling)
    yield from ((("downscale", policy.name), policy) for policy in policies.downscale)
    yield from ((("placement", federated.key), federated) for federated in policies.federated)


class RunLimits(Struct, frozen=True):
    """The limits of a run: what they know of policies, of each that is `gone`, and of clusters.

    Those of a `shard` together are never more than those of the Fleet: what is stated is divided, a share of what each
    sees is rounded down (only in one of them up), and only what it sees the whole of has a least.
    """

    policies: Mapping[PolicyKey, LimitedPolicy]
    gone: LimitedPolicy
    bases: LimitBases
    fleet: Fleet
    shard: Shard | None = None

    def policy(self, owner: PolicyKey) -> LimitedPolicy:
        return self.policies.get(owner, self.gone)

    def _own_pools(self) -> Iterator[LimitPool]:
        """Yield the pools of single policies, which hold back before those that are shared."""
        for owner, policy in self.policies.items():
            numbers = ((unit, policy.limits.of(unit)) for unit in UNITS)
            yield from (
                LimitPool(owner[1], unit, self._part(number, policy.weights), owner=owner)
                for unit, number in numbers
                if number is not None
            )

    def _shared_pools(self) -> Iterator[LimitPool]:
        """Yield the pools of several policies, in the order in which they hold back."""
        default = self.fleet.limits.default
        together = {unit: sum(base[unit] for base in self.bases.clusters.values()) for unit in UNITS}
        for unit in UNITS:
            for name, base in self.bases.clusters.items():
                whole = self.shard is None or not self.shard.placed
                allowed = self._share(default.per_cluster.share, base[unit], _least(default.per_cluster, unit), whole)
                yield LimitPool(FLEET_DEFAULT, unit, allowed, base[unit], name)
            allowed = self._share(default.fleet.share, together[unit], _least(default.fleet, unit))
            yield LimitPool(FLEET_DEFAULT, unit, allowed, together[unit])
        for tenant in self.fleet.tenants:
            for unit, least in _TENANT_LEAST.items():
                stated, inside = tenant.limits.of(unit), self.bases.tenants[tenant.name][unit]
                number = self._share(_TENANT_SHARE, inside, least)
                if stated is not None:
                    number = self._part(stated, self._weights_of(tenant))
                pool = LimitPool(f"{_TENANT}{tenant.name}", unit, number, inside, tenant=tenant.name)
                yield pool if stated is None else replace(pool, base=0, stated=True)

    def _share(self, share: float, base: int, least: int, whole: bool = False) -> int:
        if self.shard is None or whole:
            return max(math.ceil(share * base - 1e-9), least)
        return math.ceil(share * base - 1e-9) if self.shard.is_placing else math.floor(share * base + 1e-9)

    def _part(self, number: int, weights: Sequence[int]) -> int:
        return self.shard.part(number, weights) if self.shard is not None and weights else number

    def _weights_of(self, tenant: Tenant) -> tuple[int, ...]:
        if self.shard is None:
            return ()
        return self.shard.weights(lambda cluster: tenant.has_cluster(cluster.name), tenant.namespaces)

    def _whole(self, needs: Mapping[str, int], weights: Sequence[int]) -> dict[str, int]:
        """Return what to state for the Fleet so that this shard's part of it is what it `needs`."""
        part = weights[self.shard.index] if self.shard is not None and weights else 0
        return {unit: -(-number * sum(weights) // part) if part else number for unit, number in needs.items()}

    def hold_back(self, decisions: Sequence[Decision], before: Sequence[HeldBack] = ()) -> DesiredState:
        """Return what the limits leave of `decisions`. What idles in `before` is held back again, and not counted."""
        counted, remaining = CountedDecisions(decisions, self.policy, self.bases), RemainingDecisions(decisions)
        taken, uses = list(_held_again(before, decisions, remaining)), []
        shared = tuple(self._shared_pools())
        for pool in (*self._own_pools(), *shared):
            use, over = _fitted(pool, counted, remaining)
            uses.append(use)
            taken += over
        exceeded: dict[PolicyKey, list[LimitUse]] = {}
        for owner, limits in taken:
            exceeded.setdefault(owner, []).extend(limits)
        held: dict[PolicyKey, list[Decision]] = {owner: [] for owner in exceeded}
        left: list[Decision] = []
        for decision in decisions:
            holder = remaining.held.get(decision.key)
            (left if holder is None else held[holder]).append(decision)
        whole = (self._held_back(owner, tuple(out), exceeded[owner], counted, shared) for owner, out in held.items())
        held_back = tuple(sorted(whole, key=lambda held: held.policy))
        return DesiredState(tuple(left), held_back=held_back, limits=tuple(uses))

    def _held_back(
        self,
        owner: PolicyKey,
        decisions: tuple[Decision, ...],
        exceeded: Sequence[LimitUse],
        counted: CountedDecisions,
        shared: Sequence[LimitPool],
    ) -> HeldBack:
        own = [decision for decision in decisions if owner_of(decision) == owner]
        words = []
        for unit in UNITS:
            uses = [use for use in exceeded if use.unit == unit]
            if uses:
                whole = self.shard is None or all(use.cluster for use in uses)
                of_shard = "" if whole else f", of shard {self.shard}"
                words.append(_exceeds(unit, owner, own, counted, uses) + of_shard)
        why = f"{owner[1]}: {'; '.join(words)}; to allow: {self._remedy(owner, exceeded, counted, shared)}"
        return HeldBack(owner[1], why, decisions, tuple(dict.fromkeys(exceeded)))

    def _remedy(
        self, owner: PolicyKey, exceeded: Sequence[LimitUse], counted: CountedDecisions, pools: Sequence[LimitPool]
    ) -> str:
        """Return what to state where, so that everything that `owner` wants now goes through at once."""
        policy = self.policy(owner)
        needs = self._whole({unit: counted.needed(owner, unit) for unit in UNITS}, policy.weights)
        tenant, states = self.fleet.tenant(policy.tenant), any(policy.limits.of(unit) is not None for unit in UNITS)
        # What a number of its own holds back the limits that it shares have not seen yet. All lines about a tenant are
        # about one place, and state the same.
        whole = [pool for pool in pools if pool.tenant == policy.tenant]
        shared = [pool for pool in whole if tenant is not None or (needs[pool.unit] and pool.has(owner, policy))]
        full = [pool for pool in shared if (tenant or states) and counted.wanted(pool) > pool.allowed]
        over = {pool.unit for pool in full}
        own = over | {use.unit for use in exceeded} if tenant is None else set[str]()
        found = [_to_state(policy.limits, needs, own, policy.place)]
        if tenant is not None:  # once its replicas are stated, those of what idles count there too
            wanted = {pool.unit: counted.wanted(replace(pool, stated=True)) for pool in full}
            all_need = needs | self._whole(wanted, self._weights_of(tenant))
            found.append(_to_state(tenant.limits, all_need, over, str(tenant.limits_place)))
        return " and ".join(filter(None, found)) or f"once {self._flag(owner, needs)}"

    def _flag(self, owner: PolicyKey, needs: Mapping[str, int]) -> str:
        """Return what lets `owner` exceed limits once; a name that policies of several kinds have takes a number."""
        if owner not in self.policies:
            return REMOVED_FLAG
        kinds = {kind for kind, name in self.policies if owner[1] in spellings_of(name, kind)}
        number = f"={needs['workloads' if owner[0] == 'idling' else 'replicas']}" if len(kinds) > 1 else ""
        return f"--allow-exceed {owner[1]}{number}"


_Taken = tuple[PolicyKey, Sequence[LimitUse]]
"""Whose decisions are held back, and the limits that they exceed."""


def _held_again(
    before: Sequence[HeldBack], decisions: Sequence[Decision], remaining: RemainingDecisions
) -> Iterator[_Taken]:
    """Hold back what idles in `before` and is among `decisions`, and yield whose that is."""
    current = {decision.key: decision for decision in decisions} if before else {}
    for held in before:
        idles = remaining.left_of(current[one.key] for one in held.decisions if one.idles and one.key in current)
        for owner in {owner_of(decision) for decision in idles if decision.policy == held.policy}:
            remaining.hold_back(idles, owner)
            yield owner, held.limits


def _fitted(pool: LimitPool, counted: CountedDecisions, remaining: RemainingDecisions) -> tuple[LimitUse, list[_Taken]]:
    """Hold back what exceeds `pool`, and return how much is wanted of it, and whose decisions that were.

    Of those that share it the one that takes most is held back first, until the others fit.
    """
    taking = {owner: remaining.left_of(found) for owner, found in counted.in_pool(pool)}
    takes = {owner: counted.sum(found, pool.unit) for owner, found in taking.items()}
    used = sum(takes.values()) + counted.spent(pool)
    use = LimitUse(pool.name, pool.unit, used, pool.allowed, pool.base, pool.cluster, "")
    if used <= pool.allowed:
        return use, []
    taken: list[_Taken] = []
    inside = {decision.key: decision for found in taking.values() for decision in found}
    for owner in sorted(takes, key=lambda key: (-takes[key], key)):
        found = remaining.left_of(taking[owner])
        if used <= pool.allowed:
            break
        if found:  # what was held back may have taken some of it along
            gone = remaining.hold_back(found, owner)
            taken.append((owner, (replace(use, used=used, policy=owner[1]),)))
            used -= counted.sum((inside[key] for key in gone & inside.keys()), pool.unit)
    return use, taken


def _least(limit: DefaultLimit, unit: str) -> int:
    return limit.at_least if unit == "workloads" else max(limit.at_least, _LEAST_REPLICAS)


def _to_state(limits: Limits | ReplicasLimits, needs: Mapping[str, int], over: Set[str], place: str) -> str:
    """Return the limits to state at `place`: what is needed with 10 % of headroom; "" where all is stated already."""
    stated = {unit: limits.of(unit) for unit in UNITS}
    short = {unit for unit, number in stated.items() if unit in over or (number is not None and needs[unit] > number)}
    numbers = {unit: -(-needs[unit] * 11 // 10) if unit in short else number for unit, number in stated.items()}
    if not short or not place:
        return ""
    text = ", ".join(f"{unit}: {number}" for unit, number in numbers.items() if number is not None)
    verb, to = ("add", "to") if set(stated.values()) == {None} else ("set", "in")
    return f"{verb} `limits: {{{text}}}` {to} {place}"


_WOULD = {"workloads": "would go idle for the first time", "replicas": "would be removed"}


def _exceeds(
    unit: str, owner: PolicyKey, own: Sequence[Decision], counted: CountedDecisions, uses: Sequence[LimitUse]
) -> str:
    """Return how much it is, and the limit: of all clusters, where that is one of those that are exceeded."""
    number = counted.sum(own, unit)
    named = [use for use in uses if not use.cluster][-1:] or uses
    least, most = min(use.allowed for use in named), max(use.allowed for use in named)
    spent = sum(counted.spent_by(owner, unit, cluster) for cluster in {use.cluster for use in named})
    where = f" of {named[0].name}" if named[0].name.startswith(_TENANT) else ""
    if named[0].cluster:
        where = " per cluster" if len(named) > 1 else f" in {named[0].cluster}"
        own = [decision for decision in own if decision.ref.cluster == named[0].cluster]
    elif named[0].name == FLEET_DEFAULT:
        where = " in all clusters"
    together = len(named) == 1 and named[0].used > counted.sum(own, unit) + spent
    return "".join(
        (
            f"{number} {unit if number != 1 else unit.removesuffix('s')} {_WOULD[unit]}",
            f" after {spent} in the last 24 hours" if spent else "",
            f", limit {least}" if least == most else f", limit {least} to {most}",
            where,
            " for it and other policies together" if together else "",
        )
    )
