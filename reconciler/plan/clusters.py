"""One cluster is in a Fleet once."""

from __future__ import annotations

from reconciler.errors import PolicyError, Problem
from reconciler.model import ObservedState
from reconciler.policy.types import Fleet


def check_identities(fleet: Fleet, state: ObservedState) -> None:
    """Refuse a Fleet that names one cluster twice: what is decided for the one would be undone for the other.

    Raises:
        PolicyError: with all clusters that are the same. One whose identity is not known ("") is like no other.
    """
    same: dict[str, list[str]] = {}
    for name, cluster in state.clusters.items():
        if cluster.identity:
            same.setdefault(cluster.identity, []).append(name)
    problems = [
        Problem(
            fleet.place.file,
            fleet.place.line,
            fleet.place.column,
            "spec.clusters",
            f"{' and '.join(names)} are the same cluster (kube-system has uid {identity}), expected each once",
        )
        for identity, names in same.items()
        if len(names) > 1
    ]
    if problems:
        raise PolicyError.of(problems)
