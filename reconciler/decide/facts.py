"""Facts: what holds of a workload and decides about it, why, and what would end it.

Each job looks for facts in the order of a table; the first that it finds is the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import Struct

from reconciler.decide.change_codes import ChangeIf, after
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.model import ObjectRef


class Fact(Struct, frozen=True):
    """What decides, and why. `until` it ends by itself; None: not by time. `lift` is what else would end it, or finds
    that; None: nothing that is known does.

    `neighbours` are the other workloads that it holds because of: it ends when they are decided otherwise.
    """

    why: Reasons
    lift: ChangeIf | Callable[[], ChangeIf | None] | None = None
    until: datetime | None = None
    neighbours: tuple[ObjectRef, ...] = ()

    @property
    def change_if(self) -> ChangeIf | None:
        """What would end it, None where that is not known."""
        if self.lift is None and self.until is not None:
            return after(self.until)
        return self.lift() if callable(self.lift) else self.lift


def fact(code: ReasonCode, lift: ChangeIf | None = None, /, **values: Any) -> Fact:
    """Return a fact with one reason."""
    return Fact((reason(code, **values),), lift)
