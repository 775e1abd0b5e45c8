"""The decisions of a run as limits see them: the pools that count them, what each counts, and what is not held back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.limit_counts import LimitBases, PolicyKey
from reconciler.policy.types import Limits, ReplicasLimits

_BOUND = (Phase.MOVE, Phase.DECREASE)


class LimitedPolicy(Struct, frozen=True):
    """What limits know of a policy: its tenant, "" for the platform, its numbers, and where they are stated, or would
    be ("": nowhere). `lifted`: no limit counts it in this run, or only `limits`. `weights` divide its numbers among
    shards, () where it has them whole.
    """

    limits: Limits | ReplicasLimits = Limits()
    tenant: str = ""
    place: str = ""
    lifted: bool = False
    weights: tuple[int, ...] = ()


class LimitPool(Struct, frozen=True):
    """The number that the policies of a pool share, in one `cluster`, or in all of them (""). `base` is what a share
    is taken of, 0 where the number is `stated`.

    They are the one policy `owner`, those of `tenant`, or those of the platform that state nothing. Replicas of what
    idles count only where replicas are stated.
    """

    name: str
    unit: str
    allowed: int
    base: int = 0
    cluster: str = ""
    owner: PolicyKey | None = None
    tenant: str = ""
    stated: bool = False

    def has(self, owner: PolicyKey, policy: LimitedPolicy) -> bool:
        """Return whether `owner`, which is `policy`, is one of those that share it."""
        if self.owner is not None:
            return owner == self.owner
        if policy.lifted or policy.tenant != self.tenant:
            return False
        if self.unit == "replicas" and owner[0] == "idling":
            return self.stated
        return bool(self.tenant) or policy.limits.of(self.unit) is None


def owner_of(decision: Decision) -> PolicyKey:
    """Return whose decision it is."""
    return (decision.job, decision.policy)


class CountedDecisions:
    """What each decision counts, by unit, whose it is and where."""

    def __init__(
        self, decisions: Sequence[Decision], policy: Callable[[PolicyKey], LimitedPolicy], bases: LimitBases
    ) -> None:
        self._policy = policy
        self._weights: dict[tuple[str, str], int] = {}
        self._taking: dict[tuple[str, str], dict[PolicyKey, list[Decision]]] = {}
        for decision in decisions:
            if decision.phase not in _BOUND or decision.known:
                continue
            owner = owner_of(decision)
            for unit, weight in (("workloads", int(decision.idles)), ("replicas", bases.removed_by(decision))):
                if weight:
                    self._weights[unit, decision.key] = weight
                    for cluster in ("", decision.ref.cluster):
                        self._taking.setdefault((unit, cluster), {}).setdefault(owner, []).append(decision)
        again = {decision.ref for decision in decisions if ("workloads", decision.key) in self._weights}
        idled = [(ref, owner) for ref, owner in bases.idled.items() if ref not in again]
        self._spent = Counter((cluster, owner) for ref, owner in idled for cluster in ("", ref.cluster))

    def in_pool(self, pool: LimitPool) -> Iterator[tuple[PolicyKey, list[Decision]]]:
        """Yield what each of those that share `pool` takes of it."""
        taking = self._taking.get((pool.unit, pool.cluster), {})
        for owner in taking if pool.owner is None else taking.keys() & {pool.owner}:
            if pool.has(owner, self._policy(owner)):
                yield owner, taking[owner]

    def sum(self, decisions: Iterable[Decision], unit: str) -> int:
        return sum(self._weights.get((unit, decision.key), 0) for decision in decisions)

    def spent(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it in the last 24 hours, as far as records say so."""
        if pool.unit != "workloads":
            return 0
        spent = ((owner, number) for (cluster, owner), number in self._spent.items() if cluster == pool.cluster)
        return sum(number for owner, number in spent if pool.has(owner, self._policy(owner)))

    def wanted(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it, and all that they want."""
        return self.spent(pool) + sum(self.sum(found, pool.unit) for _, found in self.in_pool(pool))

    def spent_by(self, owner: PolicyKey, unit: str) -> int:
        return self._spent["", owner] if unit == "workloads" else 0

    def needed(self, owner: PolicyKey, unit: str) -> int:
        """Return what `owner` took, and all that it wants."""
        return self.sum(self._taking.get((unit, ""), {}).get(owner, ()), unit) + self.spent_by(owner, unit)


class RemainingDecisions:
    """The decisions that no limit holds back yet, and what is bound to them."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._decisions = decisions
        self._gone: set[str] = set()

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {decision.key: position for position, decision in enumerate(self._decisions)}

    @cached_property
    def _decreases(self) -> dict[str, list[str]]:
        """The keys of the decreasing steps of each group."""
        found: dict[str, list[str]] = {}
        for decision in self._decisions:
            if decision.phase in _BOUND:
                found.setdefault(decision.group, []).append(decision.key)
        return found

    @cached_property
    def _needed_by(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for decision in self._decisions:
            for key in decision.needs:
                found.setdefault(key, []).append(decision.key)
        return found

    def with_keys(self, keys: Iterable[str]) -> list[Decision]:
        """Return the decisions of `keys` that there are."""
        return self.left_of(self._decisions[self._positions[key]] for key in keys if key in self._positions)

    def left_of(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Return those of `decisions` that are left."""
        return [decision for decision in decisions if decision.key not in self._gone]

    def take_out(self, taking: Iterable[Decision]) -> tuple[Decision, ...]:
        """Take out `taking` and everything bound to them, and return all of that: the other decreasing steps of an
        idling group, and whatever needs one of them, so that no half step is left.
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
        return tuple(self._decisions[self._positions[key]] for key in out)

    def in_order(self, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
        """Return `decisions` in the order in which they were decided."""
        return tuple(sorted(decisions, key=lambda decision: self._positions[decision.key]))

    def all(self) -> tuple[Decision, ...]:
        """Return everything that is left, in that order."""
        return tuple(self.left_of(self._decisions))
