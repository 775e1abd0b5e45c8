"""The clusters of the Fleet as placement looks at them: read once, then asked for each federated ReplicaSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.idling.marks import fleet_names
from reconciler.decide.membership import Autoscalers, autoscalers_of, key_of, local_key
from reconciler.decide.placement.marks import REPLACED
from reconciler.decide.placement.memory import (
    MEMORY,
    UNREACHABLE,
    Rejection,
    read_rejection,
    read_unreachable,
    rejection_key,
)
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import FederatedReplicaSet, Fleet, FleetCluster, PolicySet


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster of the Fleet. `observed` None: it did not answer, and `error` says how.

    `lost_since`: since when it does not answer; None where it does (also where its answer may not be used), or where
    nothing keeps that time (the home cluster itself, or all clusters while home cannot be read): such a cluster is
    never given up.
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

    `home` holds our ConfigMaps of the home cluster by name, None where they cannot be read; `keeps` is False where
    nothing may be written there.
    `claims` are the workloads that idling decides, with its policy's name. `ours` are the Fleet names whose marks are
    ours. `replaced` are ConfigMaps beside local ReplicaSets whose replacement may not exist yet.
    """

    fleet: Fleet
    run: Run
    sites: tuple[Site, ...]
    home: Mapping[str, ConfigMap] | None
    claims: Mapping[ObjectRef, str] = NOTHING
    ours: frozenset[str] = frozenset()
    replaced: Mapping[ObjectRef, ConfigMap] = NOTHING
    keeps: bool = True
    counterfactuals: bool = False  # whether it is asked what would give a cluster another number

    def rejection(self, ref: ObjectRef) -> Rejection | None:
        """Return what is remembered about refused writes of `ref`, None for nothing."""
        kept = (self.home or {}).get(MEMORY)
        if kept is None or len(kept.data) <= (UNREACHABLE in kept.data):
            return None
        return read_rejection(kept.data.get(rejection_key(ref)))


def surroundings(policies: PolicySet, state: ObservedState, run: Run, claims: Mapping[ObjectRef, str]) -> Surroundings:
    """Return the clusters of the Fleet and what is remembered, ready to be asked."""
    home = _home(policies.fleet, state)
    since = {} if home is None or MEMORY not in home else read_unreachable(home[MEMORY].data)
    keeps = home is not None and _is_written_to(policies.fleet)
    wanted = frozenset(local_key(federated) for federated in policies.federated)

    def site(cluster: FleetCluster) -> Site:
        observed = state.clusters.get(cluster.name)
        if observed is not None:
            found = {one.ref: one for one in observed.workloads if key_of(one.ref) in wanted}
            return Site(cluster, observed, workloads=found, autoscalers=autoscalers_of(observed))
        answers = cluster.name in state.wakes_only
        timed = cluster.name != policies.fleet.home and not answers
        clock = since.get(cluster.name, run.now if keeps else None) if timed else None
        return Site(cluster, None, state.unreachable.get(cluster.name, "it was not read"), clock)

    replaced = {
        found.ref: found
        for name in sorted(state.clusters)
        for found in state.clusters[name].config_maps
        if found.ref.name.startswith(REPLACED)
    }
    sites = tuple(site(cluster) for cluster in policies.fleet.clusters)
    return Surroundings(policies.fleet, run, sites, home, claims, fleet_names(policies.fleet), replaced, keeps)


def unknown_since(fleet: Fleet, state: ObservedState, now: datetime) -> dict[str, datetime]:
    """Return since when each unknown cluster is known to be; `now` where nothing is remembered."""
    home = _home(fleet, state)
    kept = {} if home is None or MEMORY not in home else read_unreachable(home[MEMORY].data)
    return {name: kept.get(name, now) for name in sorted(state.unreachable)}


def _is_written_to(fleet: Fleet) -> bool:
    home = fleet.cluster(fleet.home)
    return home is not None and home.state != "frozen"


def _home(fleet: Fleet, state: ObservedState) -> dict[str, ConfigMap] | None:
    observed = state.clusters.get(fleet.home)
    if observed is None or "configmaps" in observed.unreadable:
        return None
    return {found.ref.name: found for found in observed.config_maps if found.ref.namespace == fleet.namespace}


def local_ref(federated: FederatedReplicaSet, cluster: str) -> ObjectRef:
    """Return the name of the local workload of `federated` on `cluster`."""
    namespace, kind, name = local_key(federated)
    group = "apps" if federated.target is None else federated.target.api_version.rpartition("/")[0]
    return ObjectRef(cluster, namespace, kind, name, group)
