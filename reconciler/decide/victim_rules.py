"""The rules by which one pod goes before another.

Source: kubernetes pkg/controller/controller_utils.go, ActivePodsWithRanks.Less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from reconciler.decide.ages import age_scale
from reconciler.decide.shown_values import shown
from reconciler.errors import PolicyError
from reconciler.model import Pod
from reconciler.whole_numbers import whole_number_in

Bucket = tuple[bool, int, bool, int, int, int]
"""A pod by the first six rules, the last one being the scale of the time Ready; lower goes first."""

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER = -(1 << 100)  # before every time and every age
_COST = re.compile(r"-[0-9]+|0|[1-9][0-9]*")


class Rule(StrEnum):
    """What puts one pod before another, in the order in which it is asked."""

    UNASSIGNED = "no node"
    PHASE = "phase"
    NOT_READY = "not Ready"
    COST = "deletion cost"
    COLOCATION = "pods on the same node"
    READY_TIME = "shorter time Ready"
    RESTARTS = "more restarts"
    SIDECAR_RESTARTS = "more sidecar restarts"
    CREATION_TIME = "younger"
    UID = "smaller uid among equal ages"
    CACHE = "order of the controller's cache"
    ALL = "all pods go"


_BUCKET_RULES = (Rule.UNASSIGNED, Rule.PHASE, Rule.NOT_READY, Rule.COST, Rule.COLOCATION, Rule.READY_TIME)
_LATER_RULES = (Rule.RESTARTS, Rule.SIDECAR_RESTARTS, Rule.CREATION_TIME)


@dataclass(frozen=True, slots=True)
class RankingRules:
    """`logarithmic` False compares times plainly, newest first; `base` is the logarithm's. False leaves a rule out.

    Raises:
        PolicyError: `base` is no finite number above 1.
    """

    logarithmic: bool = True
    base: float = 2
    deletion_cost: bool = True
    sidecar_restarts: bool = True

    def __post_init__(self) -> None:
        if type(self.base) not in (int, float) or not 1 < self.base < math.inf:
            raise PolicyError(f"base: {shown(self.base)}, expected a finite number above 1")


ALL_RULES = RankingRules()


class Comparison(NamedTuple):
    """`sign` is negative when the first pod goes before the second, positive when after it, 0 for neither."""

    sign: int
    rule: Rule


def deletion_cost(text: str | None) -> int:
    """Return the cost that the controller reads from the annotation's text; 0 for none and for what it refuses.

    Source: kubernetes pkg/apis/core/v1/helper/helpers.go, GetDeletionCostFromPodAnnotations.
    """
    if text is None or not _COST.fullmatch(text):
        return 0
    size = whole_number_in(text.removeprefix("-")) or 0
    cost = -size if text.startswith("-") else size
    return cost if -(1 << 31) <= cost < 1 << 31 else 0


def since_of(pod: Pod) -> int:
    """Return since when `pod` is Ready; before all times where it is not or where that is not known."""
    return _NEVER if pod.ready_since_ns is None or not pod.ready else pod.ready_since_ns


class Measure:
    """Pods by the rules at one time. Pods of one bucket with different times Ready compare by uid alone, those with the
    same by what is `later`.
    """

    def __init__(self, now_ns: int, rules: RankingRules) -> None:
        self._rules = rules
        self._scale = _scale_at(now_ns, rules)

    def bucket(self, pod: Pod, rank: int) -> Bucket:
        """Return the bucket of a pod with `rank` active pods on its node."""
        cost = deletion_cost(pod.deletion_cost) if self._rules.deletion_cost else 0
        scale = self._scale(pod.ready_since_ns) if pod.ready else 0
        return (pod.node != "", _PHASES.get(pod.phase, 0), pod.ready, cost, -rank, scale)

    def later(self, pod: Pod) -> tuple[int, int, int]:
        """Return a pod by the rules after the time Ready; lower goes first."""
        sidecars = pod.sidecar_restarts if self._rules.sidecar_restarts else 0
        return (-pod.restarts, -sidecars, self._scale(pod.created_ns))

    def in_bucket(self, left: Pod, right: Pod) -> Comparison:
        """Return which of two pods of one bucket goes first."""
        if since_of(left) != since_of(right):
            return _by_uid(left, right)
        one, other = self.later(left), self.later(right)
        if one != other:
            return _by_first_difference(one, other, _LATER_RULES)
        return _by_uid(left, right) if left.created_ns != right.created_ns else Comparison(0, Rule.CACHE)


def by_bucket(left: Bucket, right: Bucket) -> Comparison:
    """Return which of two pods of different buckets goes first."""
    return _by_first_difference(left, right, _BUCKET_RULES)


def _by_first_difference(left: Sequence[int], right: Sequence[int], rules: Sequence[Rule]) -> Comparison:
    at = next(position for position, one in enumerate(left) if one != right[position])
    return Comparison(-1 if left[at] < right[at] else 1, rules[at])


def _by_uid(left: Pod, right: Pod) -> Comparison:
    if left.uid == right.uid:
        return Comparison(0, Rule.CACHE)
    return Comparison(-1 if left.uid < right.uid else 1, Rule.UID)


def _scale_at(now_ns: int, rules: RankingRules) -> Callable[[int | None], int]:
    """Return what times are compared by: lower goes first, a missing time before all."""
    if not rules.logarithmic:
        return lambda at: _NEVER if at is None else -at
    if rules.base == 2:
        return lambda at: _NEVER if at is None else (now_ns - at).bit_length() - 1 if at < now_ns else -1
    return lambda at: _NEVER if at is None else age_scale(now_ns - at, rules.base)
