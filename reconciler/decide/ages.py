"""Ages on a logarithmic scale, as KEP-2185 compares them."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

_DIGITS = 60  # enough to tell any power of a base from any int64 of nanoseconds
_DOUBT = 1e-9  # a floating logarithm this close to a whole number is settled by exact arithmetic


def age_scale(age_ns: int, base: float = 2) -> int:
    """Return `floor(log(age_ns))` to `base`; -1 for an age of 0 or less.

    Exact for every base; `math.e` stands for e itself, not for the nearest float.

    Source: seed kep-2185-random-pod-selection.md, Design Details; kubernetes pkg/controller/controller_utils.go,
    logarithmicRankDiff (base 2).
    """
    if age_ns <= 0:
        return -1
    if base == 2:
        return age_ns.bit_length() - 1
    estimate = math.log(age_ns) / math.log(base)
    nearest = round(estimate)
    if abs(estimate - nearest) > _DOUBT * max(1.0, estimate):
        return math.floor(estimate)
    return nearest if _power(base, nearest) <= age_ns else nearest - 1


def _power(base: float, exponent: int) -> Decimal:
    with localcontext() as context:
        context.prec = _DIGITS
        return Decimal(exponent).exp() if base == math.e else Decimal(base) ** exponent
