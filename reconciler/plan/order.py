"""The order of a plan: by phase, group and needs; what of it can be done without some, and what is over by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from datetime import datetime

from msgspec.structs import replace

from reconciler.decide.annotations import Key, read_time
from reconciler.decide.decisions import Decision, Phase
from reconciler.plan.model import Action

_WAKE_DUE = ("metadata", "annotations", Key.WAKE_DUE)


def in_order(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return `decisions` in the order of a plan: by phase, then group; nothing before its needs.

    Wakes go by tier in each namespace, and the namespaces take turns: many wakes in one of them do not keep those of
    the others waiting.
    """
    turns = _turns(decisions)
    ordered = sorted(decisions, key=lambda decision: (decision.phase, turns.get(decision.key, 0), _position(decision)))
    known = {decision.key for decision in ordered}
    below = Counter(decision.wake_tier for decision in ordered if decision.wake_tier)
    done: set[str] = set()
    result: list[Decision] = []
    waiting = ordered
    while waiting:
        later: list[Decision] = []
        for decision in waiting:
            needed = not decision.needs or all(need in done or need not in known for need in decision.needs)
            if needed and below[decision.wait_ready] <= 0:
                done.add(decision.key)
                below[decision.wake_tier] -= 1
                result.append(decision)
            else:
                later.append(decision)
        if len(later) == len(waiting):
            raise ValueError(f"decisions need each other in a circle: {[decision.key for decision in later]}")
        waiting = later
    return tuple(result)


def _turns(decisions: Sequence[Decision]) -> dict[str, int]:
    """Return the turn of its namespace at which each wake comes, by key: one turn for a group at one tier."""
    units: dict[tuple[str, str], set[tuple[tuple[int, ...], str]]] = {}
    wakes = [decision for decision in decisions if decision.phase is Phase.WAKE]
    for decision in wakes:
        units.setdefault(_namespace_of(decision), set()).add(_unit(decision))
    turns = {space: {unit: turn for turn, unit in enumerate(sorted(inside))} for space, inside in units.items()}
    return {decision.key: turns[_namespace_of(decision)][_unit(decision)] for decision in wakes}


def _namespace_of(decision: Decision) -> tuple[str, str]:
    return (decision.ref.cluster, decision.ref.namespace)


def _unit(decision: Decision) -> tuple[tuple[int, ...], str]:
    return (decision.order[:1], decision.group)


def _position(decision: Decision) -> tuple[tuple[int, ...], str, tuple[int, ...], str]:
    tier = decision.order[:1] if decision.phase is Phase.WAKE else ()
    return (tier, decision.group, decision.order, decision.key)


def numbered_actions(decisions: Sequence[Decision]) -> tuple[Action, ...]:
    """Return the actions of `decisions`, numbered from 1 in their order; needs that are not among them are dropped."""
    ids = {decision.key: position for position, decision in enumerate(decisions, start=1)}
    tiers = {"", *(decision.wake_tier for decision in decisions)}
    return tuple(
        Action(
            id=ids[decision.key],
            decision=_waiting_for(tiers, decision),
            needs=tuple(ids[key] for key in decision.needs if key in ids),
        )
        for decision in decisions
    )


def _waiting_for(tiers: Container[str], decision: Decision) -> Decision:
    """Return `decision` as one that waits for none but `tiers`."""
    return decision if decision.wait_ready in tiers else replace(decision, wait_ready="")


def doable(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return those of `actions` that can still be done: what needs an action that is not among them goes too."""
    kept: dict[int, Action] = {}
    tiers = {""}
    for action in actions:
        if all(need in kept for need in action.needs):
            kept[action.id] = replace(action, decision=_waiting_for(tiers, action.decision))
            tiers.add(action.decision.wake_tier)
    return tuple(kept.values())


def ended(actions: Sequence[Action], now: datetime) -> dict[int, datetime]:
    """Return when the schedule ended of those of `actions` that idle although that is over at `now`, and of what is
    done together with them, but for wakes: by id.
    """
    ends: dict[str, datetime] = {}
    for action in actions:
        due = [change.after for change in action.decision.changes if change.path == _WAKE_DUE]
        at = read_time(due[0]) if due and action.decision.idles else None
        if at is not None and at <= now:
            ends[action.decision.group] = at
    return {
        action.id: ends[action.decision.group]
        for action in actions
        if action.decision.group in ends and action.decision.phase is not Phase.WAKE
    }
