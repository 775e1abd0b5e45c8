"""What a plan does, in numbers and in one word for each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from reconciler.decide.types import Decision, Verb
from reconciler.plan.actions import Plan


class Effect(StrEnum):
    """What a change means for the workload, whatever its verb."""

    DELETE = "delete"
    OVERWRITE = "overwrite"
    IDLE = "idle"
    DOWN = "down"
    UP = "up"
    CREATE = "create"
    WAKE = "wake"
    REPAIR = "repair"  # the object changes, but not how many replicas it has
    NOTE = "note"  # marks and memory


_BY_VERB = {
    Verb.DELETE: Effect.DELETE,
    Verb.OVERWRITE: Effect.OVERWRITE,
    Verb.CREATE: Effect.CREATE,
    Verb.MARK: Effect.NOTE,
    Verb.UNMARK: Effect.NOTE,
    Verb.REMEMBER: Effect.NOTE,
}
_STEPS = {Verb.IDLE: Effect.IDLE, Verb.WAKE: Effect.WAKE}


def effect_of(decision: Decision) -> Effect:
    """Return what `decision` means; a repair that changes replicas counts as the change it makes.

    The bounds of a HorizontalPodAutoscaler, changed so that its target can be idled or woken, are a repair: the target
    is what is idled.
    """
    if decision.verb in _BY_VERB:
        return _BY_VERB[decision.verb]
    if decision.verb in _STEPS and decision.ref.kind != "HorizontalPodAutoscaler":
        return _STEPS[decision.verb]
    if decision.removed:
        return Effect.DOWN
    return Effect.UP if added(decision) else Effect.REPAIR


def added(decision: Decision) -> int:
    """Return how many replicas `decision` adds; 0 for anything but an increase."""
    return max(0, (decision.replicas_after or 0) - (decision.replicas_before or 0))


@dataclass(frozen=True, slots=True)
class Counts:
    """How many changes of each kind a plan holds, and replicas they take and give."""

    to_idle: int = 0
    to_wake: int = 0
    to_scale_up: int = 0
    to_scale_down: int = 0
    to_create: int = 0
    to_overwrite: int = 0
    to_delete: int = 0
    to_repair: int = 0
    notes: int = 0
    held_back: int = 0
    observed: int = 0
    undecided: int = 0
    overridden: int = 0
    unknown: int = 0
    dropped: int = 0
    replicas_fewer: int = 0
    replicas_more: int = 0


def counts_of(plan: Plan) -> Counts:
    """Return the counts of `plan`; what is held back or only observed is counted apart."""
    decisions = [action.decision for action in plan.actions]
    effects = Counter(map(effect_of, decisions))
    return Counts(
        to_idle=effects[Effect.IDLE],
        to_wake=effects[Effect.WAKE],
        to_scale_up=effects[Effect.UP],
        to_scale_down=effects[Effect.DOWN],
        to_create=effects[Effect.CREATE],
        to_overwrite=effects[Effect.OVERWRITE],
        to_delete=effects[Effect.DELETE],
        to_repair=effects[Effect.REPAIR],
        notes=effects[Effect.NOTE],
        held_back=sum(len(held.decisions) for held in plan.held_back),
        observed=len(plan.observed),
        undecided=len(plan.undecided),
        overridden=len(plan.overridden),
        unknown=len(plan.unknown),
        dropped=plan.dropped,
        replicas_fewer=fewer(decisions),
        replicas_more=more(decisions),
    )


def fewer(decisions: Iterable[Decision]) -> int:
    """Return how many replicas `decisions` take away in all."""
    return sum(decision.removed for decision in decisions)


def more(decisions: Iterable[Decision]) -> int:
    """Return how many replicas `decisions` add in all."""
    return sum(map(added, decisions))
