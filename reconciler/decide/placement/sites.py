"""The clusters of the Fleet as placement looks at them: read once, then asked for each federated ReplicaSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.idling.marks import fleet_names
from reconciler.decide.membership import Autoscalers, autoscalers_of, key_of, local_key
from reconciler.decide.placement.marks import REPLACED
from reconciler.decide.placement.memory import MEMORY, read_unreachable
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import FederatedReplicaSet, Fleet, FleetCluster, PolicySet


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster of the Fleet. `observed` None: it did not answer, and `error` says how.

    `lost_since`: since when it does not answer; None where it does, or where nothing keeps that time (the home cluster
    itself, or all clusters while home cannot be read): such a cluster is never given up.
    """

    cluster: FleetCluster
    observed: ObservedCluster | None
    error: str = ""
    lost_since: datetime | None = None
    workloads: Mapping[ObjectRef, Workload] = NOTHING  # those that a federated ReplicaSet may be about
    autoscalers: Autoscalers = Autoscalers({}, {})
    replaced: Mapping[str, ConfigMap] = NOTHING  # by name: local ReplicaSets whose replacement may not exist yet

    @property
    def name(self) -> str:
        return self.cluster.name

    def plural(self, group: str, kind: str) -> str:
        """Return the name under which a list of that kind is unreadable."""
        kinds = self.observed.scale_kinds if self.observed is not None else ()
        return next((found.plural for found in kinds if (found.group, found.kind) == (group, kind)), f"{kind.lower()}s")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every federated ReplicaSet of a run is decided in.

    `home` holds our ConfigMaps of the home cluster by name, None where they cannot be read (nor written, then).
    `claims` are the workloads that idling decides, with its policy's name.
    """

    fleet: Fleet
    run: Run
    sites: tuple[Site, ...]
    home: Mapping[str, ConfigMap] | None
    claims: Mapping[ObjectRef, str] = NOTHING
    ours: frozenset[str] = frozenset()

    def site(self, name: str) -> Site:
        """Return the cluster of that name."""
        return next(site for site in self.sites if site.name == name)

    @property
    def memory(self) -> Mapping[str, str]:
        """What is remembered in home, by key."""
        kept = (self.home or {}).get(MEMORY)
        return {} if kept is None else kept.data


def surroundings(policies: PolicySet, state: ObservedState, run: Run, claims: Mapping[ObjectRef, str]) -> Surroundings:
    """Return the clusters of the Fleet and what is remembered, ready to be asked."""
    home = _home(policies.fleet, state)
    since = {} if home is None or MEMORY not in home else read_unreachable(home[MEMORY].data)
    wanted = frozenset(local_key(federated) for federated in policies.federated)

    def site(cluster: FleetCluster) -> Site:
        observed = state.clusters.get(cluster.name)
        if observed is not None:
            found = {one.ref: one for one in observed.workloads if key_of(one.ref) in wanted}
            replaced = {one.ref.name: one for one in observed.config_maps if one.ref.name.startswith(REPLACED)}
            return Site(cluster, observed, workloads=found, autoscalers=autoscalers_of(observed), replaced=replaced)
        clock = None if home is None or cluster.name == policies.fleet.home else since.get(cluster.name, run.now)
        return Site(cluster, None, state.unreachable.get(cluster.name, "it was not read"), clock)

    sites = tuple(site(cluster) for cluster in policies.fleet.clusters)
    return Surroundings(policies.fleet, run, sites, home, claims, fleet_names(policies.fleet))


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


def local_api_version(federated: FederatedReplicaSet) -> str:
    """Return the apiVersion of the local workloads of `federated`."""
    return "apps/v1" if federated.target is None else federated.target.api_version
