"""The clusters of the Fleet as placement looks at them: read once, then asked for each federated ReplicaSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.annotations import fleet_names
from reconciler.decide.autoscalers import Autoscalers, autoscalers_of
from reconciler.decide.placement.home import Home, home_of
from reconciler.decide.placement.memory import (
    MEMORY,
    REPLACED,
    UNREACHABLE,
    Rejection,
    read_rejection,
    read_unreachable,
    rejection_key,
)
from reconciler.decide.selectors import key_of, local_key
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import Fleet, FleetCluster, PolicySet


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster of the Fleet. `observed` None: it did not answer, and `error` says how.

    `lost_since`: since when it does not answer; None where it does (also where its answer may not be used), or where
    nothing records that time (home is read-only, or no cluster answers): such a cluster is never given up.
    """

    cluster: FleetCluster
    observed: ObservedCluster | None
    error: str = ""
    lost_since: datetime | None = None
    workloads: Mapping[ObjectRef, Workload] = NOTHING  # those that a federated ReplicaSet may be about
    autoscalers: Autoscalers = Autoscalers({}, {})

    @property
    def name(self) -> str:
        return self.cluster.name

    def unread(self, group: str, kind: str) -> str:
        """Return the name under which objects of that kind are unreadable, "" where all were listed."""
        return "" if self.observed is None else self.observed.unread(group, kind)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every federated ReplicaSet of a run is decided in.

    `claims` are the workloads that idling decides, with its policy's name. `ours` are the Fleet names whose marks are
    ours. `replaced` are ConfigMaps beside local ReplicaSets whose replacement may not exist yet.
    """

    fleet: Fleet
    run: Run
    sites: tuple[Site, ...]
    home: Home
    claims: Mapping[ObjectRef, str] = NOTHING
    ours: frozenset[str] = frozenset()
    replaced: Mapping[ObjectRef, ConfigMap] = NOTHING
    counterfactuals: bool = False  # whether it is asked what would give a cluster another number

    def rejection(self, ref: ObjectRef) -> Rejection | None:
        """Return what is remembered about refused writes of `ref`, None for nothing."""
        kept = self.home.newest.get(MEMORY)
        if kept is None or len(kept.data) <= (UNREACHABLE in kept.data):
            return None
        return read_rejection(kept.data.get(rejection_key(ref)))


def surroundings(policies: PolicySet, state: ObservedState, run: Run, claims: Mapping[ObjectRef, str]) -> Surroundings:
    """Return the clusters of the Fleet and what is remembered, ready to be asked."""
    home = home_of(policies.fleet, state)
    since = _known_since(home)
    wanted = frozenset(local_key(federated) for federated in policies.federated)

    def site(cluster: FleetCluster) -> Site:
        observed = state.clusters.get(cluster.name)
        if observed is not None:
            found = {one.ref: one for one in observed.workloads if key_of(one.ref) in wanted}
            return Site(cluster, observed, workloads=found, autoscalers=autoscalers_of(observed))
        since_now = run.now if home.cluster else None
        clock = None if cluster.name in state.wakes_only else since.get(cluster.name, since_now)
        return Site(cluster, None, state.unreachable.get(cluster.name, "it was not read"), clock)

    replaced = {
        found.ref: found
        for name in sorted(state.clusters)
        for found in state.clusters[name].config_maps
        if found.ref.name.startswith(REPLACED)
    }
    sites = tuple(site(cluster) for cluster in policies.fleet.clusters)
    return Surroundings(policies.fleet, run, sites, home, claims, fleet_names(policies.fleet), replaced)


def unknown_since(fleet: Fleet, state: ObservedState, now: datetime) -> dict[str, datetime]:
    """Return since when each unknown cluster is known to be; `now` where nothing is remembered."""
    kept = _known_since(home_of(fleet, state))
    return {name: kept.get(name, now) for name in sorted(state.unreachable)}


def _known_since(home: Home) -> dict[str, datetime]:
    kept = home.newest.get(MEMORY)
    return {} if kept is None else read_unreachable(kept.data)
