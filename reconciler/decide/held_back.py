"""What is held back of a run because it would exceed a limit, and what to state where so that it goes through.

Wakes and increases are never held back, nor what is known: what was idled before on the same hours is not counted (see
`last_idled`), as a limit does not stop what happened last night as well. How much a limit allows: `limit_amounts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, LimitUse, Notice, Phase
from reconciler.decide.limit_amounts import (
    FLEET_DEFAULT,
    TENANT,
    UNITS,
    LimitBases,
    LimitedPolicy,
    LimitPool,
    PolicyKey,
    RunLimits,
    limit_bases,
    limited_policies,
    spellings_of,
)
from reconciler.decide.removal_guard import REMOVED_FLAG
from reconciler.model import NOTHING, ObjectRef, ObservedState, Run, by_key
from reconciler.policy.types import Limits, PolicySet, ReplicasLimits, Shard

_BOUND = (Phase.MOVE, Phase.DECREASE)
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
    limited = hold_back(limits, desired.wanted, still)
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
    for held in hold_back(limits, (*desired.wanted, *desired.observed)).held_back:
        if any(decision.policy == held.policy and owner_of(decision) in owners for decision in held.decisions):
            text = f"{held.policy}: with mode: Enforce {held.why.removeprefix(f'{held.policy}: ')}"
            yield Notice("wouldBeHeldBack", held.policy, text, held.policy)


def held_idles(desired: DesiredState) -> frozenset[ObjectRef]:
    """Return the workloads that limits keep from going idle."""
    held = (held for held in desired.held_back if held.limits)
    return frozenset(decision.ref for limited in held for decision in limited.decisions if decision.idles)


# What each decision takes of a limit, and what is bound to it.


def owner_of(decision: Decision) -> PolicyKey:
    """Return whose decision it is."""
    return (decision.job, decision.policy)


class _Taken(Struct, frozen=True, gc=False):
    """What `owner` takes of limits in `cluster`: by `decision`, None for what it took in the last 24 hours."""

    owner: PolicyKey
    unit: str
    cluster: str
    number: int
    decision: Decision | None = None


def _all_taken(decisions: Iterable[Decision], bases: LimitBases) -> Iterator[_Taken]:
    again: set[ObjectRef] = set()
    for decision in decisions:
        if decision.phase not in _BOUND or decision.known:
            continue
        owner, cluster = owner_of(decision), decision.ref.cluster
        if decision.idles:
            again.add(decision.ref)
            yield _Taken(owner, "workloads", cluster, 1, decision)
        if removed := bases.removed_by(decision):
            yield _Taken(owner, "replicas", cluster, removed, decision)
    yield from (_Taken(owner, "workloads", ref.cluster, 1) for ref, owner in bases.idled.items() if ref not in again)


def _sum(taken: Iterable[_Taken]) -> int:
    return sum(one.number for one in taken)


class LimitedDecisions:
    """What decisions take of `limits`, and which of them are held back: `held` are the keys of these, each with the
    policy that it is held back for.
    """

    def __init__(self, decisions: Sequence[Decision], limits: RunLimits) -> None:
        self.limits = limits
        self.shared_pools = tuple(limits.shared_pools())
        self.held: dict[str, PolicyKey] = {}
        self._decisions = decisions
        self._wanted: dict[LimitPool, int] = {}
        self._taken: dict[tuple[str, str], dict[PolicyKey, list[_Taken]]] = {}
        for one in _all_taken(decisions, limits.bases):
            for where in ("", one.cluster):
                self._taken.setdefault((one.unit, where), {}).setdefault(one.owner, []).append(one)

    def taken_by(self, owner: PolicyKey, unit: str, cluster: str = "") -> Sequence[_Taken]:
        return self._taken.get((unit, cluster), NOTHING).get(owner, ())

    def in_pool(self, pool: LimitPool) -> dict[PolicyKey, list[_Taken]]:
        """Return what each of those that share `pool` takes of it."""
        taken = self._taken.get((pool.unit, pool.cluster), {})
        owners = taken if pool.owner is None else taken.keys() & {pool.owner}
        return {owner: taken[owner] for owner in owners if pool.has(owner, self.limits.policy(owner))}

    def wanted(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it, and all that they want."""
        if pool not in self._wanted:
            self._wanted[pool] = sum(map(_sum, self.in_pool(pool).values()))
        return self._wanted[pool]

    def left_of(self, decisions: Iterable[Decision | None]) -> list[Decision]:
        """Return those of `decisions` that are not held back."""
        return [decision for decision in decisions if decision is not None and decision.key not in self.held]

    def hold_back(self, taking: Iterable[Decision], owner: PolicyKey) -> set[str]:
        """Hold back `taking` for `owner`, and everything bound to them: the other decreasing steps of an idling group,
        and whatever needs one of them, so that no half step is left. Return the keys of all of that.
        """
        out: set[str] = set()
        more = [decision.key for decision in taking]
        for group in {decision.group for decision in taking if decision.job == "idling"}:
            more += self._decreases[group]
        while more:
            key = more.pop()
            if key not in self.held and key not in out:
                out.add(key)
                more += self._needed_by.get(key, ())
        self.held.update(dict.fromkeys(out, owner))
        return out

    @cached_property
    def _decreases(self) -> dict[str, list[str]]:
        """The keys of the decreasing steps of each group."""
        return by_key((decision.group, decision.key) for decision in self._decisions if decision.phase in _BOUND)

    @cached_property
    def _needed_by(self) -> dict[str, list[str]]:
        return by_key((need, decision.key) for decision in self._decisions for need in decision.needs)


# What exceeds a limit.


def hold_back(limits: RunLimits, decisions: Sequence[Decision], before: Sequence[HeldBack] = ()) -> DesiredState:
    """Return what `limits` leave of `decisions`. What idles in `before` is held back again, and not limited."""
    limited, uses = LimitedDecisions(decisions, limits), []
    exceeded = by_key(_held_again(before, decisions, limited))
    for pool in (*limits.own_pools(), *limited.shared_pools):
        use, over = _fitted(pool, limited)
        uses.append(use)
        for owner, exceeding in over:
            exceeded.setdefault(owner, []).append(exceeding)
    held: dict[PolicyKey | None, list[Decision]] = {owner: [] for owner in (None, *exceeded)}
    for decision in decisions:
        held[limited.held.get(decision.key)].append(decision)
    whole = (_held_back(owner, tuple(held[owner]), uses, limited) for owner, uses in exceeded.items())
    held_back = tuple(sorted(whole, key=lambda held: held.policy))
    return DesiredState(tuple(held[None]), held_back=held_back, limits=tuple(uses))


def _held_again(
    before: Sequence[HeldBack], decisions: Sequence[Decision], limited: LimitedDecisions
) -> Iterator[tuple[PolicyKey, LimitUse]]:
    """Hold back what idles in `before` and is among `decisions`; yield whose that is, with each limit it exceeds."""
    current = {decision.key: decision for decision in decisions} if before else {}
    for held in before:
        idles = limited.left_of(current.get(one.key) for one in held.decisions if one.idles)
        for owner in {owner_of(decision) for decision in idles if decision.policy == held.policy}:
            limited.hold_back(idles, owner)
            yield from ((owner, use) for use in held.limits)


def _fitted(pool: LimitPool, limited: LimitedDecisions) -> tuple[LimitUse, list[tuple[PolicyKey, LimitUse]]]:
    """Hold back what exceeds `pool`, and return how much is wanted of it, and whose decisions that were.

    Of those that share it the one that takes most is held back first, until the others fit.
    """
    inside = [one for taken in limited.in_pool(pool).values() for one in taken]
    left = [one for one in inside if one.decision is None or one.decision.key not in limited.held]
    used = _sum(left)
    use = LimitUse(pool.name, pool.unit, used, pool.allowed, pool.base, pool.cluster, "")
    if used <= pool.allowed:
        return use, []
    exceeding: list[tuple[PolicyKey, LimitUse]] = []
    numbers = {one.decision.key: one.number for one in left if one.decision is not None}
    taking = by_key((one.owner, one) for one in left if one.decision is not None)
    for owner in sorted(taking, key=lambda key: (-_sum(taking[key]), key)):
        found = limited.left_of(one.decision for one in taking[owner])
        if used <= pool.allowed:
            break
        if found:  # what was held back may have taken some of it along
            gone = limited.hold_back(found, owner)
            exceeding.append((owner, replace(use, used=used, policy=owner[1])))
            used -= sum(numbers.get(key, 0) for key in gone)
    return use, exceeding


# What is said of it.


def _held_back(
    owner: PolicyKey, decisions: tuple[Decision, ...], exceeded: Sequence[LimitUse], limited: LimitedDecisions
) -> HeldBack:
    words, shard = [], limited.limits.shard
    for unit in UNITS:
        uses = [use for use in exceeded if use.unit == unit]
        if uses:
            of_shard = "" if shard is None or all(use.cluster for use in uses) else f", of shard {shard}"
            words.append(_exceeds(unit, owner, limited, uses) + of_shard)
    why = f"{owner[1]}: {'; '.join(words)}; to allow: {_remedy(owner, exceeded, limited)}"
    return HeldBack(owner[1], why, decisions, tuple(dict.fromkeys(exceeded)))


def _remedy(owner: PolicyKey, exceeded: Sequence[LimitUse], limited: LimitedDecisions) -> str:
    """Return what to state where, so that everything that `owner` wants now goes through at once."""
    limits, policy = limited.limits, limited.limits.policy(owner)
    needs = _whole({unit: _sum(limited.taken_by(owner, unit)) for unit in UNITS}, policy.weights, limits.shard)
    tenant, states = limits.fleet.tenant(policy.tenant), any(policy.limits.of(unit) is not None for unit in UNITS)
    # What a number of its own holds back the limits that it shares have not seen yet. All lines about a tenant are
    # about one place, and state the same.
    whole = [pool for pool in limited.shared_pools if pool.tenant == policy.tenant]
    shared = [pool for pool in whole if tenant is not None or (needs[pool.unit] and pool.has(owner, policy))]
    full = [pool for pool in shared if (tenant or states) and limited.wanted(pool) > pool.allowed]
    over = {pool.unit for pool in full}
    own = over | {use.unit for use in exceeded} if tenant is None else set[str]()
    found = [_to_state(policy.limits, needs, own, policy.place)]
    if tenant is not None:  # once its replicas are stated, those of what idles count there too
        wanted = {pool.unit: limited.wanted(replace(pool, stated=True)) for pool in full}
        all_need = needs | _whole(wanted, limits.weights_of(tenant), limits.shard)
        found.append(_to_state(tenant.limits, all_need, over, str(tenant.limits_place)))
    return " and ".join(filter(None, found)) or f"once {_flag(owner, needs, limits)}"


def _whole(needs: Mapping[str, int], weights: Sequence[int], shard: Shard | None) -> dict[str, int]:
    """Return what to state for the Fleet so that the part of `shard` is what it `needs`."""
    part = weights[shard.index] if shard is not None and weights else 0
    return {unit: -(-number * sum(weights) // part) if part else number for unit, number in needs.items()}


def _flag(owner: PolicyKey, needs: Mapping[str, int], limits: RunLimits) -> str:
    """Return what lets `owner` exceed limits once; a name that policies of several kinds have takes a number."""
    if owner not in limits.policies:
        return REMOVED_FLAG
    kinds = {kind for kind, name in limits.policies if owner[1] in spellings_of(name, kind)}
    number = f"={needs['workloads' if owner[0] == 'idling' else 'replicas']}" if len(kinds) > 1 else ""
    return f"--allow-exceed {owner[1]}{number}"


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


def _exceeds(unit: str, owner: PolicyKey, limited: LimitedDecisions, uses: Sequence[LimitUse]) -> str:
    """Return how much it is, and the limit: of all clusters, where that is one of those that are exceeded."""

    def held_in(cluster: str) -> int:
        taken = limited.taken_by(owner, unit, cluster)
        return _sum(one for one in taken if one.decision and limited.held.get(one.decision.key) == owner)

    number, named = held_in(""), [use for use in uses if not use.cluster][-1:] or uses
    least, most = min(use.allowed for use in named), max(use.allowed for use in named)
    before = (limited.taken_by(owner, unit, cluster) for cluster in {use.cluster for use in named})
    spent = sum(_sum(one for one in taken if one.decision is None) for taken in before)
    where = f" of {named[0].name}" if named[0].name.startswith(TENANT) else ""
    if named[0].cluster:
        where = " per cluster" if len(named) > 1 else f" in {named[0].cluster}"
    elif named[0].name == FLEET_DEFAULT:
        where = " in all clusters"
    together = len(named) == 1 and named[0].used > held_in(named[0].cluster) + spent
    return "".join(
        (
            f"{number} {unit if number != 1 else unit.removesuffix('s')} {_WOULD[unit]}",
            f" after {spent} in the last 24 hours" if spent else "",
            f", limit {least}" if least == most else f", limit {least} to {most}",
            where,
            " for it and other policies together" if together else "",
        )
    )
