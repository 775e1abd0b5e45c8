"""How one piece of work is measured, and what growth.py needs to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SHARES = (100, 10, 1)
"""Each work is measured at a hundredth, at a tenth and at all of its size."""


@dataclass(frozen=True)
class Work:
    """`size` None: it has none. `beside` is what it is measured against, `budget` how many times as long it may be;
    `growth` is the largest exponent with which its time may grow, None for any.
    """

    name: str
    size: int | None = None
    beside: str = ""
    budget: float | None = None
    rounds: int = 5
    growth: float | None = None


def measured(benchmark, work: Work, function: Callable[[], object], before: Callable[[], None] | None = None) -> object:
    """Measure `function` after one run that does not count, and return what it returned; each time `before` first."""
    benchmark.extra_info.update(
        work=work.name, size=work.size, beside=work.beside, budget=work.budget, growth=work.growth
    )
    return benchmark.pedantic(function, rounds=work.rounds, iterations=1, warmup_rounds=1, setup=before)
