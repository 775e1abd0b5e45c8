"""Whether clusters are what the Fleet takes them for, by the uid of kube-system."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from reconciler.model import ObservedState
from reconciler.policy.types import Fleet


def identified(fleet: Fleet, state: ObservedState) -> ObservedState:
    """Return `state` without the clusters that are not, or may not be, what the Fleet takes them for.

    A cluster that shows another identity than the Fleet pins for it is unknown. Of several with the same identity the
    one for which it is pinned is that cluster, and the others are unknown; where none is, any of them may be, and they
    are all among `wakes_only`. One whose identity is not known ("") is like no other.
    """
    foreign = dict(_foreign(fleet, state))
    twins = dict(_twins(state, foreign))
    wrong = {**foreign, **twins}
    if not wrong:
        return state
    return replace(
        state,
        clusters={name: found for name, found in state.clusters.items() if name not in wrong},
        unreachable={**state.unreachable, **wrong},
        wakes_only={name: state.clusters[name] for name in twins},
    )


def _foreign(fleet: Fleet, state: ObservedState) -> Iterator[tuple[str, str]]:
    """Yield the clusters that are surely not what the Fleet takes them for, each with the reason."""
    owners = {cluster.identity: cluster.name for cluster in fleet.clusters if cluster.identity}
    pinned = {name: identity for identity, name in owners.items()}
    for name, cluster in state.clusters.items():
        owner = owners.get(cluster.identity, name)
        if name in pinned and cluster.identity != pinned[name]:
            yield name, f"{_shown(cluster.identity)}, expected {pinned[name]} (its identity in the Fleet)"
        elif owner != name:
            yield name, f"{_shown(cluster.identity)}, which the Fleet pins for {owner}; expected another cluster"


def _twins(state: ObservedState, foreign: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the clusters that share an identity that is pinned for none of them, each with the reason."""
    same: dict[str, list[str]] = {}
    for name, cluster in state.clusters.items():
        if cluster.identity and name not in foreign:
            same.setdefault(cluster.identity, []).append(name)
    for identity, names in same.items():
        for name in names if len(names) > 1 else ():
            others = " and ".join(other for other in names if other != name)
            yield (
                name,
                (
                    f"{_shown(identity)}, as {others} has, expected each cluster once; only wakes that are due or "
                    "requested are done there; name it once, or set its `identity` in the Fleet"
                ),
            )


def _shown(identity: str) -> str:
    return f"kube-system has uid {identity}" if identity else "the uid of kube-system is not known"
