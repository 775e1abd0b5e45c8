"""Which autoscaler controls a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.decide.selectors import LocalKey, key_of
from reconciler.model import HorizontalPodAutoscaler, ObjectRef, ObservedCluster, Workload


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


def shrunk_by(autoscalers: Autoscalers, ref: ObjectRef) -> str | None:
    """Return the name of the autoscaler that scales `ref` down, None where none does or its way down is disabled."""
    horizontal = autoscalers.horizontal.get(key_of(ref))
    if horizontal is not None and horizontal.scale_down_disabled:
        return None
    return autoscalers.name_of(ref)
