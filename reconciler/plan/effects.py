"""What a change means for the workload, whatever its verb, and how many replicas changes add or take away."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from reconciler.decide.annotations import OUR_ANNOTATIONS
from reconciler.decide.decisions import Decision, FieldChange, Verb


class Effect(StrEnum):
    """What a change means for the workload, whatever its verb; the worst first: reports sort changes by this order."""

    DELETE = "delete"
    OVERWRITE = "overwrite"
    IDLE = "idle"
    DOWN = "down"
    UP = "up"
    CREATE = "create"
    WAKE = "wake"
    UPDATE = "update"  # the object changes, but not how many replicas it has
    METADATA = "metadata"  # only annotations, labels and ConfigMaps of our own change


_BY_VERB = {
    Verb.DELETE: Effect.DELETE,
    Verb.OVERWRITE: Effect.OVERWRITE,
    Verb.CREATE: Effect.CREATE,
    Verb.IDLE: Effect.IDLE,
    Verb.WAKE: Effect.WAKE,
}
_RECORDS = (Verb.RECORD, Verb.CLEAR, Verb.REMEMBER)


def effect_of(decision: Decision) -> Effect:
    """Return what `decision` means; a repair that changes replicas counts as the change it makes.

    The bounds of a HorizontalPodAutoscaler, changed so that its target can be idled or woken, are an update: the target
    is what is idled. Adopting and releasing are updates too. One that stands for its target is idled itself.
    """
    if decision.ref.kind == "ConfigMap":
        return Effect.METADATA
    if decision.verb in _BY_VERB:
        return _BY_VERB[decision.verb]
    if decision.verb not in _RECORDS and (decision.removed or added(decision)):
        return Effect.DOWN if decision.removed else Effect.UP
    if any(map(is_acted_on, decision.changes)):
        return Effect.UPDATE
    stated = decision.verb is Verb.RELEASE or decision.event == "Adopted"
    return Effect.UPDATE if stated and decision.verb not in _RECORDS else Effect.METADATA


def is_acted_on(change: FieldChange) -> bool:
    """Return whether somebody else than us acts on what changes: the spec, and annotations that are not ours."""
    return change.before != change.after and is_read_by_others(change.path)


@lru_cache(1024)  # a plan has the same few for each object
def is_read_by_others(path: tuple[str, ...]) -> bool:
    """Return whether `path` is below the spec, or that of an annotation that is not ours."""
    if path[:2] == ("metadata", "annotations"):
        return not path[-1].startswith(OUR_ANNOTATIONS)
    return path[:1] == ("spec",)


def added(decision: Decision) -> int:
    """Return how many replicas `decision` adds; 0 for anything but an increase."""
    return max(0, (decision.replicas_after or 0) - (decision.replicas_before or 0))


def fewer(decisions: Iterable[Decision]) -> int:
    """Return how many replicas `decisions` take away in all."""
    return sum(decision.removed for decision in decisions)


def more(decisions: Iterable[Decision]) -> int:
    """Return how many replicas `decisions` add in all."""
    return sum(map(added, decisions))
