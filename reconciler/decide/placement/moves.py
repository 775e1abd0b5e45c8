"""From what a cluster asks for to what it should ask for, in steps that never cost a replica that is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reconciler.decide.placement.facts import Local


def next_step(placed: Sequence[Local], targets: Mapping[str, int], available: int, wanted: int) -> dict[str, int]:
    """Return what each placed cluster asks for after this run.

    Increases are made at once. A decrease costs the available replicas it takes; together they cost no more than
    `available` has above `wanted` (all clusters together), largest first, the rest waits for a later run. Replicas that
    are not available cost nothing. `wanted` 0 has no bound.
    """
    left = available if wanted == 0 else available - min(available, wanted)
    result = {local.cluster: targets[local.cluster] for local in placed}
    for local in sorted(placed, key=lambda local: (-_cost(local, targets), local.cluster)):
        cost = _cost(local, targets)
        paid = min(cost, left)
        left -= paid
        result[local.cluster] += cost - paid
    return result


def _cost(local: Local, targets: Mapping[str, int]) -> int:
    """Return how many available replicas it costs to bring `local` down to its target; 0 for an increase."""
    if targets[local.cluster] >= (local.asked or 0):
        return 0
    return max(0, local.available - targets[local.cluster])


def available_in_all(locals_: Iterable[Local]) -> int:
    """Return how many replicas are available; clusters that cannot be read count as 0."""
    return sum(local.available for local in locals_ if local.part != "out")
