"""The clusters of the Fleet as placement finds them, with what every federated ReplicaSet of a run is decided in, and
what is known of one of them on one cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from reconciler.decide.annotations import ObservedCapacity, fleet_names, placement_owner_text
from reconciler.decide.autoscalers import AUTOSCALER_LISTS, ClusterAutoscalers, autoscalers_of, first_unread
from reconciler.decide.change_codes import Fact
from reconciler.decide.decisions import Notice, Undecided
from reconciler.decide.owners_and_rollouts import Settled, SettledWorkloads
from reconciler.decide.placement.home_config_maps import MEMORY, REPLACED, UNREACHABLE, Home, home_of, known_since
from reconciler.decide.placement.pod_counts import PodCounts
from reconciler.decide.placement.recorded_status import (
    PlacementStatus,
    Rejection,
    placement_group,
    read_rejection,
    rejection_key,
)
from reconciler.decide.reasons import Reasons
from reconciler.decide.selectors import key_of, local_key, namespace_labels
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedCluster, ObservedState, PodsQuestion, Run, Workload
from reconciler.policy.types import FederatedReplicaSet, Fleet, FleetCluster, PolicySet


class ClusterPlacement(Struct, frozen=True):
    """One cluster of the Fleet. `observed` None: it did not answer.

    `lost_since`: since when it does not answer; None where it does (also where its answer may not be used), or where
    nothing records that time (home is read-only, or no cluster answers): such a cluster is never given up.
    """

    cluster: FleetCluster
    observed: ObservedCluster | None
    lost_since: datetime | None = None
    workloads: Mapping[ObjectRef, Workload] = NOTHING  # those that a federated ReplicaSet may be about
    autoscalers: ClusterAutoscalers = ClusterAutoscalers({}, {})
    space_labels: Mapping[str, Mapping[str, str]] = NOTHING  # of the Namespaces that were read, by name

    @property
    def name(self) -> str:
        return self.cluster.name

    @property
    def unread_autoscalers(self) -> str:
        """The list of autoscalers that could not be read, "" where both were."""
        return "" if self.observed is None else first_unread(self.observed, AUTOSCALER_LISTS)


class PlacementInputs(Struct, frozen=True):
    """What every federated ReplicaSet of a run is decided in.

    `settled` is what idling leaves of workloads, `idling` the names of the IdlingPolicies. `ours` are the Fleet names
    whose annotations are ours. `replaced` are ConfigMaps beside local ReplicaSets whose replacement may not exist yet.
    """

    fleet: Fleet
    run: Run
    placements: tuple[ClusterPlacement, ...]
    home: Home
    settled: SettledWorkloads
    idling: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    replaced: Mapping[ObjectRef, ConfigMap] = NOTHING

    def rejection(self, ref: ObjectRef) -> Rejection | None:
        """Return the recorded refusals of writes to `ref`, None without any."""
        kept = self.home.newest.get(MEMORY)
        if kept is None or len(kept.data) <= (UNREACHABLE in kept.data):
            return None
        return read_rejection(kept.data.get(rejection_key(ref)))


class PlacementCase(Struct, frozen=True):
    """One federated ReplicaSet in a run; `inputs` have the clusters that it is about."""

    federated: FederatedReplicaSet
    inputs: PlacementInputs
    status: PlacementStatus

    @property
    def owner(self) -> str:
        """What says on a workload that it is of this federated ReplicaSet."""
        return placement_owner_text(self.inputs.fleet, self.federated.key)

    @property
    def group(self) -> str:
        """The group of its decisions."""
        return placement_group(self.federated.key)


def placement_inputs(policies: PolicySet, state: ObservedState, run: Run, settled: SettledWorkloads) -> PlacementInputs:
    """Return the clusters of the Fleet and what is remembered, ready to be asked."""
    home = home_of(policies.fleet, state)
    since = known_since(home)
    wanted = frozenset(local_key(federated) for federated in policies.federated)

    def placement(cluster: FleetCluster) -> ClusterPlacement:
        observed = state.clusters.get(cluster.name)
        if observed is not None:
            found = {workload.ref: workload for workload in observed.workloads if key_of(workload.ref) in wanted}
            return ClusterPlacement(
                cluster,
                observed,
                workloads=found,
                autoscalers=autoscalers_of(observed),
                space_labels=namespace_labels(observed),
            )
        since_now = run.now if home.cluster else None
        lost_since = None if cluster.name in state.wakes_only else since.get(cluster.name, since_now)
        return ClusterPlacement(cluster, None, lost_since)

    replaced = {
        found.ref: found
        for name in sorted(state.clusters)
        for found in state.clusters[name].config_maps
        if found.ref.name.startswith(REPLACED)
    }
    return PlacementInputs(
        fleet=policies.fleet,
        run=run,
        placements=tuple(placement(cluster) for cluster in policies.fleet.clusters),
        home=home,
        settled=settled,
        idling=frozenset(policy.name for policy in policies.idling),
        ours=fleet_names(policies.fleet),
        replaced=replaced,
    )


_CapacityLimit = Literal["", "learned", "refused", "draining", "missing"]


class LocalWorkload(Struct, frozen=True):
    """One federated ReplicaSet on one cluster. `workload` is as observed, `settled` what idling leaves of it.

    `part`: "placed" takes part in the allocation; "held" is left out, its replicas (`spec_replicas`) taken off the
    total; "out" is left out and counts as nothing. `spec_replicas` is what it asks for now, None where that is unknown.
    While any of its `pods` are late it lags: it keeps what it has, and receives nothing from elsewhere. `limit` says
    where `capacity` comes from. `idle_by` names what keeps it idle; where that cannot be read, what kept it idle when
    its status was written.
    """

    cluster: str
    ref: ObjectRef
    part: Literal["placed", "held", "out"] = "placed"
    workload: Workload | None = None
    spec_replicas: int | None = 0
    pods: PodCounts = PodCounts()
    capacity: int | None = None
    limit: _CapacityLimit = ""
    remembered: ObservedCapacity | None = None
    rejection: Rejection | None = None
    idle_by: str = ""
    idle_until: datetime | None = None
    settled: Settled | None = None
    why: Fact = Fact(())
    left_out: bool = False  # production that the policy leaves out
    unread: bool = False  # whether there is one is not known
    for_now: bool = False  # left alone for now: later it may take replicas
    question: PodsQuestion | None = None  # which pods must be read first
    problem: Undecided | Notice | None = None

    @property
    def reasons(self) -> Reasons:
        return self.why.why

    @property
    def replicas(self) -> int:
        """spec.replicas as idling leaves them, 0 where there is no workload."""
        if self.settled is not None:
            return self.settled.replicas
        return 0 if self.workload is None else self.workload.spec_replicas

    @property
    def wakes(self) -> bool:
        """Whether idling wakes it from no replicas in this run."""
        changed = self.settled is not None and self.settled.state != "Asleep" and bool(self.settled.needs)
        return changed and self.workload is not None and 0 == self.workload.spec_replicas < self.replicas

    @property
    def kept(self) -> int:
        """The replicas that belong there already: those placed, and those that do not wait for too long."""
        return max(0, (self.spec_replicas or 0) - self.pods.unschedulable)


# Production, which a federated ReplicaSet leaves as it is unless it says `production: true`.


def production_of_pattern(case: PlacementCase, placement: ClusterPlacement, workload: Workload | None) -> str:
    """Return what makes the local workload production that is left out as it is, "" for nothing.

    "*" stands for no cluster where it is production, unless the policy says so: what is there stays.
    """
    if case.federated.preference(placement.name) is None or case.federated.is_named(placement.name):
        return ""
    return production_of(case, placement, workload)


def production_of(case: PlacementCase, placement: ClusterPlacement, workload: Workload | None) -> str:
    """Return what makes the local workload production that the policy leaves out, "" for nothing."""
    federated = case.federated
    if federated.production:
        return ""
    space, labels = federated.namespace, federated.labels if workload is None else workload.labels
    return case.inputs.fleet.production.why(placement.cluster, space, placement.space_labels.get(space), labels)
