"""Which of two pods goes first, by the rules of the product: the relation that its order of many is compared with."""

from __future__ import annotations

from reconciler.decide.downscale.deletion_order import (
    ALL_RULES,
    BUCKET_RULES,
    Measure,
    PodRule,
    RankingRules,
    first_difference,
)
from reconciler.model import Pod


def compared(
    one: Pod, other: Pod, *, ranks: tuple[int, int] = (0, 0), now_ns: int, rules: RankingRules = ALL_RULES
) -> tuple[int, PodRule]:
    """Return -1 where `one` goes first, 1 where the other does, 0 for neither, and by which rule; `ranks` are the
    numbers of active pods on their nodes.
    """
    measure = Measure(now_ns, rules)
    buckets = measure.bucket(one, ranks[0]), measure.bucket(other, ranks[1])
    if buckets[0] != buckets[1]:
        return (-1 if buckets[0] < buckets[1] else 1), first_difference(*buckets, BUCKET_RULES)
    there, back = measure.rule(one, other), measure.rule(other, one)
    assert PodRule.CACHE in (there, back)
    if there is back:
        return 0, there
    return (1, back) if there is PodRule.CACHE else (-1, there)
