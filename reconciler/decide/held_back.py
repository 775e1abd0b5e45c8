"""What is held back of a run because it would exceed a limit, and what to state where so that it goes through.

Wakes and increases are never held back, nor what is known: what was idled before on the same hours is not counted (see
`last_idled`), as a limit does not stop what happened last night as well. How much a limit allows: `limit_amounts.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, LimitUse, Notice, Phase
from reconciler.decide.limit_amounts import (
    FLEET_DEFAULT,
    TENANT,
    UNITS,
    LimitedPolicy,
    LimitPool,
    PolicyKey,
    RunLimits,
    limit_bases,
    limited_policies,
    spellings_of,
)
from reconciler.decide.removal_guard import REMOVED_FLAG
from reconciler.model import ObjectRef, ObservedState, Run, by_key
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


class CountedDecisions:
    """What each decision counts by `limits`: by unit, whose it is and where."""

    def __init__(self, decisions: Sequence[Decision], limits: RunLimits) -> None:
        self.limits = limits
        self.shared_pools = tuple(limits.shared_pools())
        self._weights: dict[tuple[str, str], int] = {}
        self._taking: dict[tuple[str, str], dict[PolicyKey, list[Decision]]] = {}
        found: dict[tuple[str, PolicyKey, str], list[Decision]] = {}
        for decision in decisions:
            if decision.phase not in _BOUND or decision.known:
                continue
            owner, cluster = owner_of(decision), decision.ref.cluster
            if decision.idles:
                self._weights["workloads", decision.key] = 1
                found.setdefault(("workloads", owner, cluster), []).append(decision)
            if removed := limits.bases.removed_by(decision):
                self._weights["replicas", decision.key] = removed
                found.setdefault(("replicas", owner, cluster), []).append(decision)
        for (unit, owner, cluster), taking in found.items():
            for where in ("", cluster):
                self._taking.setdefault((unit, where), {}).setdefault(owner, []).extend(taking)
        again = {decision.ref for decision in decisions if ("workloads", decision.key) in self._weights}
        idled = [(ref, owner) for ref, owner in limits.bases.idled.items() if ref not in again]
        self._wanted: dict[LimitPool, int] = {}
        self._spent: defaultdict[str, Counter[PolicyKey]] = defaultdict(Counter)
        for ref, owner in idled:
            self._spent[""][owner] += 1
            self._spent[ref.cluster][owner] += 1

    def in_pool(self, pool: LimitPool) -> Iterator[tuple[PolicyKey, list[Decision]]]:
        """Yield what each of those that share `pool` takes of it."""
        taking = self._taking.get((pool.unit, pool.cluster), {})
        return ((owner, taking[owner]) for owner in self._sharing(pool, taking))

    def _sharing(self, pool: LimitPool, owners: Mapping[PolicyKey, object]) -> Iterator[PolicyKey]:
        """Yield those of `owners` that share `pool`."""
        found = owners if pool.owner is None else owners.keys() & {pool.owner}
        return (owner for owner in found if pool.has(owner, self.limits.policy(owner)))

    def sum(self, decisions: Iterable[Decision], unit: str) -> int:
        return sum(self._weights.get((unit, decision.key), 0) for decision in decisions)

    def spent(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it in the last 24 hours, as far as records say so."""
        if pool.unit != "workloads":
            return 0
        spent = self._spent[pool.cluster]
        return sum(spent[owner] for owner in self._sharing(pool, spent))

    def wanted(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it, and all that they want."""
        if pool not in self._wanted:
            self._wanted[pool] = self.spent(pool) + sum(self.sum(found, pool.unit) for _, found in self.in_pool(pool))
        return self._wanted[pool]

    def spent_by(self, owner: PolicyKey, unit: str, cluster: str = "") -> int:
        return self._spent[cluster][owner] if unit == "workloads" else 0

    def needed(self, owner: PolicyKey, unit: str) -> int:
        """Return what `owner` took, and all that it wants."""
        return self.sum(self._taking.get((unit, ""), {}).get(owner, ()), unit) + self.spent_by(owner, unit)


class RemainingDecisions:
    """The decisions that no limit holds back yet, and what is bound to them. `held` are the keys of the others, each
    with the policy that it is held back for.
    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._decisions = decisions
        self.held: dict[str, PolicyKey] = {}

    @cached_property
    def _decreases(self) -> dict[str, list[str]]:
        """The keys of the decreasing steps of each group."""
        return by_key((decision.group, decision.key) for decision in self._decisions if decision.phase in _BOUND)

    @cached_property
    def _needed_by(self) -> dict[str, list[str]]:
        return by_key((need, decision.key) for decision in self._decisions for need in decision.needs)

    def left_of(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Return those of `decisions` that are left."""
        return [decision for decision in decisions if decision.key not in self.held]

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


# What exceeds a limit.


def hold_back(limits: RunLimits, decisions: Sequence[Decision], before: Sequence[HeldBack] = ()) -> DesiredState:
    """Return what `limits` leave of `decisions`. What idles in `before` is held back again, and not counted."""
    counted, remaining = CountedDecisions(decisions, limits), RemainingDecisions(decisions)
    taken, uses = list(_held_again(before, decisions, remaining)), []
    for pool in (*limits.own_pools(), *counted.shared_pools):
        use, over = _fitted(pool, counted, remaining)
        uses.append(use)
        taken += over
    exceeded: dict[PolicyKey, list[LimitUse]] = {}
    for owner, exceeding in taken:
        exceeded.setdefault(owner, []).extend(exceeding)
    held: dict[PolicyKey, list[Decision]] = {owner: [] for owner in exceeded}
    left: list[Decision] = []
    for decision in decisions:
        holder = remaining.held.get(decision.key)
        (left if holder is None else held[holder]).append(decision)
    whole = (_held_back(owner, tuple(out), exceeded[owner], counted) for owner, out in held.items())
    held_back = tuple(sorted(whole, key=lambda held: held.policy))
    return DesiredState(tuple(left), held_back=held_back, limits=tuple(uses))


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


# What is said of it.


def _held_back(
    owner: PolicyKey, decisions: tuple[Decision, ...], exceeded: Sequence[LimitUse], counted: CountedDecisions
) -> HeldBack:
    own, shard = [decision for decision in decisions if owner_of(decision) == owner], counted.limits.shard
    words = []
    for unit in UNITS:
        uses = [use for use in exceeded if use.unit == unit]
        if uses:
            of_shard = "" if shard is None or all(use.cluster for use in uses) else f", of shard {shard}"
            words.append(_exceeds(unit, owner, own, counted, uses) + of_shard)
    why = f"{owner[1]}: {'; '.join(words)}; to allow: {_remedy(owner, exceeded, counted)}"
    return HeldBack(owner[1], why, decisions, tuple(dict.fromkeys(exceeded)))


def _remedy(owner: PolicyKey, exceeded: Sequence[LimitUse], counted: CountedDecisions) -> str:
    """Return what to state where, so that everything that `owner` wants now goes through at once."""
    limits, policy = counted.limits, counted.limits.policy(owner)
    needs = _whole({unit: counted.needed(owner, unit) for unit in UNITS}, policy.weights, limits.shard)
    tenant, states = limits.fleet.tenant(policy.tenant), any(policy.limits.of(unit) is not None for unit in UNITS)
    # What a number of its own holds back the limits that it shares have not seen yet. All lines about a tenant are
    # about one place, and state the same.
    whole = [pool for pool in counted.shared_pools if pool.tenant == policy.tenant]
    shared = [pool for pool in whole if tenant is not None or (needs[pool.unit] and pool.has(owner, policy))]
    full = [pool for pool in shared if (tenant or states) and counted.wanted(pool) > pool.allowed]
    over = {pool.unit for pool in full}
    own = over | {use.unit for use in exceeded} if tenant is None else set[str]()
    found = [_to_state(policy.limits, needs, own, policy.place)]
    if tenant is not None:  # once its replicas are stated, those of what idles count there too
        wanted = {pool.unit: counted.wanted(replace(pool, stated=True)) for pool in full}
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


def _exceeds(
    unit: str, owner: PolicyKey, own: Sequence[Decision], counted: CountedDecisions, uses: Sequence[LimitUse]
) -> str:
    """Return how much it is, and the limit: of all clusters, where that is one of those that are exceeded."""
    number = counted.sum(own, unit)
    named = [use for use in uses if not use.cluster][-1:] or uses
    least, most = min(use.allowed for use in named), max(use.allowed for use in named)
    spent = sum(counted.spent_by(owner, unit, cluster) for cluster in {use.cluster for use in named})
    where = f" of {named[0].name}" if named[0].name.startswith(TENANT) else ""
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
