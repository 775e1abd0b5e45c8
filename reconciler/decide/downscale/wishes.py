"""How many replicas a DownscalePolicy wants for a workload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconciler.decide.metrics import why_unusable
from reconciler.model import NOTHING, ObservedState, QueryAnswer, QueryKey, Run
from reconciler.policy.types import DownscalePolicy, DownscaleTarget

_LARGEST = 2**31 - 1  # spec.replicas is an int32


@dataclass(frozen=True, slots=True)
class Wish:
    """What `policy` wants; `replicas` None: not known. `why` is a phrase, `values` what it rests on."""

    policy: DownscalePolicy
    replicas: int | None
    why: str
    values: Mapping[str, Any] = NOTHING

    @property
    def target(self) -> DownscaleTarget:
        return self.policy.target or DownscaleTarget()


def wish_of(policy: DownscalePolicy, cluster: str, state: ObservedState, run: Run) -> Wish:
    """Return what the target of `policy` wants in `cluster`, within its minimum and maximum."""
    target = policy.target or DownscaleTarget()
    if target.query is None:
        wanted = target.replicas or 0
        return _within(policy, wanted, f"the target is {wanted}", {"replicas": wanted})
    answer = state.answers.get(QueryKey(cluster, policy.name, target.query, ""))
    value = value_of(answer, run.now)
    if isinstance(value, str):
        return Wish(policy, None, f"its query is unknown: {value}")
    return _within(policy, math.ceil(value), f"its query gives {value:g}", {"value": value})


def value_of(answer: QueryAnswer | None, now: datetime) -> float | str:
    """Return the one number in `answer`, or why there is none."""
    why = why_unusable(answer, now)
    if answer is None or why:
        return why
    if len(answer.samples) != 1:
        return f"it gives {len(answer.samples) or 'no'} series, expected one"
    value = answer.samples[0].value
    if not math.isfinite(value) or math.ceil(value) > _LARGEST:
        return f"it gives {value:g}, expected a number of replicas"
    return value


def _within(policy: DownscalePolicy, wanted: int, why: str, values: dict[str, Any]) -> Wish:
    target = policy.target or DownscaleTarget()
    if wanted < target.minimum:
        return Wish(policy, target.minimum, f"{why}, at least {target.minimum}", values | {"min": target.minimum})
    if target.maximum is not None and wanted > target.maximum:
        return Wish(policy, target.maximum, f"{why}, at most {target.maximum}", values | {"max": target.maximum})
    return Wish(policy, wanted, why, values)
