"""Whether a set of victims is still the same when the pods are a little older.

Ages are compared on a logarithmic scale, so the order of two pods changes each time one of them passes a power of the
base. A plan is read by people before it is applied, and the controller's clock is not ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from reconciler.decide.ages import age_scale
from reconciler.decide.victim_rules import RankingRules
from reconciler.model import Pod

_SECOND = 10**9
_BEFORE = 10 * _SECOND  # how far the controller's clock may be behind ours
_AFTER = 3_600 * _SECOND  # how old a saved plan may be by default when it is applied
_MOST = 200  # moments that are looked at


@dataclass(frozen=True, slots=True)
class Span:
    """The time in which the victims of a plan made at `now_ns` may be chosen."""

    now_ns: int

    @property
    def begins(self) -> int:
        return self.now_ns - _BEFORE

    @property
    def ends(self) -> int:
        return self.now_ns + _AFTER


def is_steady(
    pods: Iterable[Pod], now_ns: int, rules: RankingRules, victims_at: Callable[[int], frozenset[str] | None]
) -> bool:
    """Return whether `victims_at` gives the same set of uids whenever the plan is carried out; None: not certain then.

    Where the scales of `pods` change too often to look at each time, it counts as not steady.
    """
    expected = victims_at(now_ns)
    if expected is None:
        return False
    span = Span(now_ns)
    moments = {span.begins}
    for pod in pods:
        for time_ns in (pod.ready_since_ns, pod.created_ns):
            if time_ns is None or not rules.logarithmic:
                continue
            for moment in _moments_of(time_ns, span, rules.base):
                moments.add(moment)
                if len(moments) > _MOST:
                    return False
    return all(victims_at(moment) == expected for moment in moments)


def _moments_of(time_ns: int, span: Span, base: float) -> Iterator[int]:
    """Yield when the scale of the age since `time_ns` changes within `span`."""
    first = age_scale(span.begins - time_ns, base) + 1
    powers = (_past_power(base, exponent) for exponent in count(max(0, first)))
    return (time_ns + age for age in takewhile(lambda age: time_ns + age <= span.ends, powers))


def _past_power(base: float, exponent: int) -> int:
    """Return the first age in nanoseconds of that scale."""
    age = int(base**exponent)
    return next(later for later in count(age) if age_scale(later, base) >= exponent)
