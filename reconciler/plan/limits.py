"""What one run may take away, and what is held back because it would take more.

Limits bind decreases only; wakes, increases and repairs are never held back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.decide.types import Decision, Phase
from reconciler.model import ObjectRef
from reconciler.plan.actions import HeldBackActions, LimitUse
from reconciler.policy.types import Limit, Limits, PolicySet

FLEET = "fleet"
_BOUND = (Phase.MOVE, Phase.DECREASE)
_WORDS = {"workloads": "idle", "replicas": "remove"}


@dataclass(frozen=True, slots=True)
class Base:
    """What shares are taken of: workloads, and the sum of their replicas."""

    workloads: int
    replicas: int

    def of(self, unit: str) -> int:
        return self.workloads if unit == "workloads" else self.replicas


@dataclass(frozen=True, slots=True)
class Limited:
    """What is left of the decisions, what is held back, and how much of each limit is used by all of them."""

    decisions: tuple[Decision, ...]
    held_back: tuple[HeldBackActions, ...]
    uses: tuple[LimitUse, ...]


def allowed(limit: Limit, base: int) -> int:
    """Return max(floor(share * base), at_least)."""
    return max(math.floor(limit.share * base + 1e-9), limit.at_least)


def base_of(replicas: Mapping[ObjectRef, int], refs: Sequence[ObjectRef] | None = None) -> Base:
    """Return the base over `refs` (None: all) of the workloads whose wanted replicas are in `replicas`."""
    chosen = replicas if refs is None else {ref: replicas[ref] for ref in refs if ref in replicas}
    return Base(len(chosen), sum(chosen.values()))


def hold_back(
    decisions: Sequence[Decision], policies: PolicySet, bases: Mapping[str, Base], lifted: frozenset[str]
) -> Limited:
    """Return what the limits leave of `decisions`: first each policy's own limits, then the Fleet's over what is left.

    `bases` has FLEET and the name of each policy with limits of its own; `lifted` are names given to --allow-exceed.
    """
    left = tuple(decisions)
    held: list[HeldBackActions] = []
    uses: list[LimitUse] = []
    for name, limits in _all_limits(policies):
        for unit, limit in _units(limits):
            step = _check(left, _Rule(name, unit, limit, bases[name].of(unit)), lifted)
            left, held, uses = step.decisions, [*held, *step.held_back], [*uses, *step.uses]
    return Limited(left, tuple(held), tuple(uses))


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    unit: str
    limit: Limit
    base: int

    @property
    def allowed(self) -> int:
        return allowed(self.limit, self.base)


def _all_limits(policies: PolicySet) -> list[tuple[str, Limits]]:
    own = [(policy.name, policy.limits) for policy in policies.idling if policy.limits != Limits()]
    return [*own, (FLEET, policies.fleet.limits)]


def _units(limits: Limits) -> list[tuple[str, Limit]]:
    pairs = (("workloads", limits.idled_workloads), ("replicas", limits.removed_replicas))
    return [(unit, limit) for unit, limit in pairs if limit is not None]


def _check(decisions: tuple[Decision, ...], rule: _Rule, lifted: frozenset[str]) -> Limited:
    concerned = _concerned(rule)
    taking = [decision for decision in decisions if concerned(decision)]
    used = _used(taking, rule.unit)
    use = LimitUse(rule.name, rule.unit, used, rule.allowed, rule.base)
    if used <= rule.allowed or rule.name in lifted:
        return Limited(decisions, (), (use,))
    out = _with_their_groups(decisions, taking)
    held = HeldBackActions(
        allow=rule.name,
        why=_why(rule, used, taking),
        decisions=tuple(decision for decision in decisions if decision.key in out),
        unit=rule.unit,
        used=used,
        allowed=rule.allowed,
        base=rule.base,
    )
    return Limited(tuple(decision for decision in decisions if decision.key not in out), (held,), (use,))


def _concerned(rule: _Rule) -> Callable[[Decision], bool]:
    def takes_away(decision: Decision) -> bool:
        counted = decision.idles if rule.unit == "workloads" else decision.removed > 0
        own = decision.job == "idling" and decision.cause.policy == rule.name
        return counted and decision.phase in _BOUND and (own or rule.name == FLEET)

    return takes_away


def _used(taking: Sequence[Decision], unit: str) -> int:
    return len(taking) if unit == "workloads" else sum(decision.removed for decision in taking)


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


def _why(rule: _Rule, used: int, taking: Sequence[Decision]) -> str:
    share = f"{100 * used / rule.base:.0f} %" if rule.base else "all"
    limit = f"limit {100 * rule.limit.share:.4g} % or {rule.limit.at_least}"
    place, count = Counter(_unit_weights(taking, rule.unit)).most_common(1)[0]
    origin = f" {count} come from {place}." if place else ""
    return f"{rule.name} would {_WORDS[rule.unit]} {used} of {rule.base} {rule.unit} ({share}, {limit}).{origin}"


def _unit_weights(taking: Sequence[Decision], unit: str) -> dict[str, int]:
    weights: Counter[str] = Counter()
    for decision in sorted(taking, key=lambda decision: decision.cause.at):
        weights[decision.cause.at] += 1 if unit == "workloads" else decision.removed
    return weights
