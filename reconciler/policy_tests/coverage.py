"""Which policies, and which of their decisions, no case looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from reconciler.policy.types import Place, PolicySet
from reconciler.policy_tests.judgement import Touched

_DECISIONS = {
    "IdlingPolicy": ("idle", "wake"),
    "FederatedReplicaSet": ("scale up", "scale down"),
    "DownscalePolicy": ("scale down",),
}
_SAME = {"move in": "scale up", "move out": "scale down", "create": "scale up"}


@dataclass(frozen=True, slots=True)
class PolicyCoverage:
    """One policy: whether a workload that it selects was judged, and which decisions were seen and not seen there."""

    kind: str
    name: str
    place: Place
    is_touched: bool
    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def coverage(policies: PolicySet, touched: Collection[Touched]) -> tuple[PolicyCoverage, ...]:
    """Return the coverage of each policy, in the order of kinds and names."""
    found: dict[tuple[str, str], set[str]] = {}
    for kind, name, decision in touched:
        found.setdefault((kind, name), set()).add(_SAME.get(decision, decision))
    return tuple(
        PolicyCoverage(
            kind,
            name,
            place,
            (kind, name) in found,
            tuple(one for one in _DECISIONS[kind] if one in found.get((kind, name), ())),
            tuple(one for one in _DECISIONS[kind] if one not in found.get((kind, name), ())),
        )
        for kind, name, place in _policies(policies)
    )


def _policies(policies: PolicySet) -> Iterator[tuple[str, str, Place]]:
    """Yield kind, name and place of each policy, called as plans call it."""
    for kind, found in (("IdlingPolicy", policies.idling), ("DownscalePolicy", policies.downscale)):
        for one in found:
            yield kind, one.name, one.place
    for federated in policies.federated:
        yield "FederatedReplicaSet", f"{federated.namespace}/{federated.name}", federated.place
