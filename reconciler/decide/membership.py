"""Who else has a say in a workload's replicas: the federated ReplicaSet it belongs to, or an autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.model import HorizontalPodAutoscaler, ObjectRef, ObservedCluster, Workload
from reconciler.policy.types import FederatedReplicaSet

LocalKey = tuple[str, str, str]
"""(namespace, kind, name) of the local workload of a federated ReplicaSet, the same in every cluster."""


def local_key(federated: FederatedReplicaSet) -> LocalKey:
    """Return the key of the local workloads of `federated`."""
    if federated.target is not None:
        return (federated.namespace, federated.target.kind, federated.target.name)
    return (federated.namespace, "ReplicaSet", federated.name)


def federated_by_local_key(federated: Iterable[FederatedReplicaSet]) -> dict[LocalKey, FederatedReplicaSet]:
    """Return the federated ReplicaSets by the key of their local workloads."""
    return {local_key(one): one for one in federated}


def key_of(ref: ObjectRef) -> LocalKey:
    """Return the local key of an object."""
    return (ref.namespace, ref.kind, ref.name)


@dataclass(frozen=True, slots=True)
class Autoscalers:
    """The autoscalers of one cluster by the workload they control: (namespace, kind, name)."""

    horizontal: Mapping[LocalKey, HorizontalPodAutoscaler]
    keda: Mapping[LocalKey, Workload]

    def name_of(self, ref: ObjectRef) -> str | None:
        """Return "HorizontalPodAutoscaler/web" or "ScaledObject/web" for what controls `ref`, None for nothing."""
        found = self.keda.get(key_of(ref)) or self.horizontal.get(key_of(ref))
        return None if found is None else f"{found.ref.kind}/{found.ref.name}"


def autoscalers_of(cluster: ObservedCluster) -> Autoscalers:
    """Return the autoscalers of `cluster`; a ScaledObject's target kind is Deployment where it names none."""
    return Autoscalers(
        horizontal={(hpa.ref.namespace, *hpa.target): hpa for hpa in cluster.autoscalers},
        keda={
            (workload.ref.namespace, *workload.scale_target): workload
            for workload in cluster.workloads
            if workload.ref.kind == "ScaledObject" and workload.scale_target is not None
        },
    )
