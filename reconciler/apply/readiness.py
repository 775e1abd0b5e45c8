"""Whether what was woken is up."""

from __future__ import annotations

from reconciler.apply.outcomes import Access
from reconciler.backends.base import workloads_of
from reconciler.errors import ClusterError
from reconciler.model import ScaleKind
from reconciler.plan.actions import Action


def is_ready(action: Action, access: Access) -> bool:
    """Return whether all pods of the action's workload are ready.

    A kind that does not say, or a workload that is gone, does not keep anybody waiting.
    """
    try:
        kinds = access.cluster.scale_kinds()
        kind = next((kind for kind in kinds if _is_kind_of(kind, action)), None)
        if kind is None:
            return True
        workload = access.cluster.get(workloads_of(kind), action.ref.namespace, action.ref.name)
    except ClusterError:
        return True
    return workload.ready_replicas is None or workload.ready_replicas >= workload.wanted


def _is_kind_of(kind: ScaleKind, action: Action) -> bool:
    return (kind.group, kind.kind) == (action.ref.group, action.ref.kind)
