"""Wakes in order: lower tiers of a wake group first, and no more of it in one run than its policy allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.states import State
from reconciler.decide.idling.table import Action, Choice, Flag
from reconciler.model import ObjectRef
from reconciler.policy.types import IdlingPolicy, WakeOrder

Group = tuple[str, str]
"""(cluster, wake group): no cluster waits for another one."""

_DEFAULT_TIER = WakeOrder("").tier


def wake_group(ruling: Ruling) -> Group:
    """Return the wake group of a scalable: that of the policy that wants it, else that of its record's policy."""
    policy = ruling.target.want.policy
    name = policy.wake_order.group or policy.name if policy else ruling.record.policy if ruling.record else ""
    return ruling.ref.cluster, name


def tier(ruling: Ruling) -> int:
    """Return the tier of a scalable in its wake group."""
    policy = ruling.target.want.policy
    return _DEFAULT_TIER if policy is None else policy.wake_order.tier


def staggered(rulings: Mapping[ObjectRef, Ruling]) -> dict[ObjectRef, Ruling]:
    """Return the rulings where a wake group's wakes above its `perRun` wait for the next run.

    What was begun goes first, then by tier, then what somebody asked for, then by name.
    """
    result = dict(rulings)
    for (_, name), waking in sorted(_by_group(rulings.values()).items()):
        limit = min((each for each in map(_per_run, waking) if each is not None), default=None)
        for ruling in sorted(waking, key=_urgency)[limit:] if limit is not None else ():
            why = f"perRun {limit} of wake group {name}: the next run wakes it"
            result[ruling.ref] = replace(ruling, choice=Choice(Action.DEFER, why), flip=f"a perRun above {limit}")
    return result


def _by_group(rulings: Iterable[Ruling]) -> dict[Group, list[Ruling]]:
    found: dict[Group, list[Ruling]] = {}
    for ruling in rulings:
        if ruling.action is Action.WAKE:
            found.setdefault(wake_group(ruling), []).append(ruling)
    return found


def _per_run(ruling: Ruling) -> int | None:
    policies: tuple[IdlingPolicy, ...] = ruling.target.want.policies
    return min((p.wake_order.per_run for p in policies if p.wake_order.per_run is not None), default=None)


def _urgency(ruling: Ruling) -> tuple[bool, int, bool, ObjectRef]:
    begun = ruling.standing.state is State.HALF_FREED
    return (not begun, tier(ruling), Flag.SIGNAL not in ruling.situation.flags, ruling.ref)


def waits_for(rulings: Mapping[ObjectRef, Ruling]) -> dict[ObjectRef, tuple[ObjectRef, ...]]:
    """Return for each scalable that is woken those of the next lower tier that are woken in the same run."""
    result: dict[ObjectRef, tuple[ObjectRef, ...]] = {}
    for waking in _by_group(rulings.values()).values():
        tiers = sorted({tier(ruling) for ruling in waking})
        below = dict(zip(tiers[1:], tiers, strict=False))
        for ruling in waking:
            lower = below.get(tier(ruling))
            result[ruling.ref] = tuple(sorted(other.ref for other in waking if tier(other) == lower))
    return result
