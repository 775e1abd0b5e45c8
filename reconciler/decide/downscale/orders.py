"""Whose victim order serves a decrease: a federated ReplicaSet's own picker, a DownscalePolicy, or nobody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.decide.autoscalers import Autoscalers, autoscalers_of, shrunk_by
from reconciler.decide.decisions import DownscaleSettings
from reconciler.decide.downscale.governing import policies_by_workload, strategy_of
from reconciler.decide.selectors import LocalKey, federated_by_local_key, key_of, of_highest_priority
from reconciler.model import ObjectRef, ObservedCluster, ObservedState
from reconciler.policy.types import DownscalePolicy, FederatedReplicaSet, PolicySet

DEFAULT = DownscaleSettings(policy="", strategy="Logarithmic")
"""What the controller does by itself."""


def ours_to_choose(settings: DownscaleSettings) -> bool:
    """Return whether the controller would choose other victims, so that ours are marked."""
    return (settings.strategy, settings.logarithm_base) != (DEFAULT.strategy, DEFAULT.logarithm_base)


@dataclass(frozen=True, slots=True)
class Order:
    """How the victims of one workload are found. `note` tells what a person should know of it."""

    settings: DownscaleSettings = DEFAULT
    note: str = ""

    @property
    def chooses(self) -> bool:
        return ours_to_choose(self.settings)


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of the workloads of one cluster."""

    policies: Mapping[ObjectRef, list[DownscalePolicy]]
    federated: Mapping[LocalKey, FederatedReplicaSet]
    autoscalers: Autoscalers = field(repr=False)

    def order_of(self, ref: ObjectRef) -> Order:
        """Return the order for a workload; while an autoscaler scales it down too the choice is the controller's."""
        order = self._wanted(ref)
        if not order.chooses:
            return order
        name = shrunk_by(self.autoscalers, ref)
        if name is None:
            return order
        return Order(note=f"{order.settings.strategy} needs {name} to leave scaling down alone, the controller chooses")

    def _wanted(self, ref: ObjectRef) -> Order:
        federated = self.federated.get(key_of(ref))
        if federated is not None and federated.pod_picker is not None:
            return Order(DownscaleSettings(federated.name, "PodPicker", federated.pod_picker))
        best = of_highest_priority([policy for policy in self.policies.get(ref, ()) if policy.mode == "Enforce"])
        if len(best) > 1:
            names = " and ".join(policy.name for policy in best)
            return Order(note=f"{names} have the same priority, the controller chooses")
        return Order(settings_of(best[0])) if best else Order()


def orders_in(policies: PolicySet, state: ObservedState, cluster: str) -> Orders:
    """Return the orders of the workloads of `cluster`."""
    fleet_cluster, observed = policies.fleet.cluster(cluster), state.clusters.get(cluster)
    if fleet_cluster is None or observed is None:
        observed = ObservedCluster(cluster, "")
    return Orders(
        policies=policies_by_workload(policies.downscale, fleet_cluster, observed) if fleet_cluster else {},
        federated=federated_by_local_key(policies.federated),
        autoscalers=autoscalers_of(observed),
    )


def settings_of(policy: DownscalePolicy) -> DownscaleSettings:
    """Return what apply needs of `policy`."""
    return DownscaleSettings(
        policy=policy.name,
        strategy=strategy_of(policy),
        picker=policy.pod_picker,
        logarithm_base=policy.logarithm_base,
        topology_key=policy.topology_key,
        on_foreign_cost=policy.on_foreign_cost,
        settle_seconds=policy.settle_seconds,
        verify_seconds=policy.verify_seconds,
    )
