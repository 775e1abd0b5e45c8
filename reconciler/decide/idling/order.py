"""Wakes in order: lower tiers of a wake group first, and no more of it in one run than its policy allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.states import State
from reconciler.decide.idling.table import Action, Choice, Flag
from reconciler.model import ObjectRef
from reconciler.policy.types import WakeOrder

_DEFAULT_TIER = WakeOrder("").tier


def wake_group(ruling: Ruling) -> str:
    """Return the wake group of a scalable: that of the policy that wants it, else that of its record's policy."""
    policy = ruling.target.want.policy
    if policy is not None:
        return policy.wake_order.group or policy.name
    return ruling.record.policy if ruling.record is not None else ""


def tier(ruling: Ruling) -> int:
    """Return the tier of a scalable in its wake group."""
    policy = ruling.target.want.policy
    return _DEFAULT_TIER if policy is None else policy.wake_order.tier


def staggered(rulings: Mapping[ObjectRef, Ruling]) -> dict[ObjectRef, Ruling]:
    """Return the rulings where wakes above the `perRun` of their policy wait for the next run.

    A `perRun` binds the workloads of the policy that states it; policies of one wake group that state the same share
    it. So nobody slows down the wakes of another policy by naming its group. The namespaces take turns, so that many
    wakes in one of them do not keep those of the others waiting; in each, what was begun goes first, then by tier, then
    what somebody asked for, then by name.
    """
    result = dict(rulings)
    for (_, name, limit), waking in sorted(_limited(rulings.values()).items()):
        for ruling in _by_turns(waking)[limit:]:
            why = f"perRun {limit} of wake group {name}: the next run wakes it"
            result[ruling.ref] = replace(ruling, choice=Choice(Action.DEFER, why), flip=f"a perRun above {limit}")
    return result


def _limited(rulings: Iterable[Ruling]) -> dict[tuple[str, str, int], list[Ruling]]:
    """Return the wakes that a `perRun` binds, by (cluster, wake group, perRun): no cluster waits for another one."""
    found: dict[tuple[str, str, int], list[Ruling]] = {}
    for ruling in rulings:
        policy = ruling.target.want.policy
        limit = None if policy is None else policy.wake_order.per_run
        if ruling.action is Action.WAKE and limit is not None:
            found.setdefault((ruling.ref.cluster, wake_group(ruling), limit), []).append(ruling)
    return found


def _by_turns(waking: Iterable[Ruling]) -> list[Ruling]:
    """Return `waking` with the most urgent of each namespace first, then the second of each, and so on."""
    inside: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    ordered = sorted(waking, key=_urgency)
    for position, ruling in enumerate(ordered):
        turns.append((inside[ruling.ref.namespace], position))
        inside[ruling.ref.namespace] += 1
    return [ordered[position] for _, position in sorted(turns)]


def _urgency(ruling: Ruling) -> tuple[bool, int, bool, ObjectRef]:
    begun = ruling.standing.state is State.HALF_FREED
    return (not begun, tier(ruling), Flag.SIGNAL not in ruling.situation.flags, ruling.ref)


@dataclass(frozen=True, slots=True)
class WakeTier:
    """`name` is what others wait for, `after` what it waits for itself; "" for none."""

    name: str = ""
    after: str = ""


def wake_tiers(rulings: Iterable[Ruling]) -> dict[ObjectRef, WakeTier]:
    """Return the tier of each scalable that is woken together with others that wait for it, or that it waits for.

    Tiers are of one wake group in one namespace: no namespace waits for what runs in another one.
    """
    groups: dict[tuple[str, str, str], list[Ruling]] = {}
    for ruling in rulings:
        if ruling.action is Action.WAKE:
            groups.setdefault((ruling.ref.cluster, ruling.ref.namespace, wake_group(ruling)), []).append(ruling)
    result: dict[ObjectRef, WakeTier] = {}
    for (cluster, namespace, group), waking in groups.items():
        numbers = sorted({tier(ruling) for ruling in waking})
        names = [f"{cluster}/{namespace}/{group}/{number}" for number in numbers]
        tiers = dict(zip(numbers, map(WakeTier, [*names[:-1], ""], ["", *names[:-1]]), strict=True))
        result |= {ruling.ref: tiers[tier(ruling)] for ruling in waking}
    return result
