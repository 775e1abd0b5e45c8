"""What an action may use of its cluster, and as whom: as the ServiceAccount of a tenant, or as the run itself.

What our own checks of tenants should let through by mistake is then refused by the API server.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.apply.outcomes import Outcome
from reconciler.backends.protocols import Cluster, Lock, PodPickerClient, workloads_of
from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.reasons import ReasonCode
from reconciler.errors import NotFoundError
from reconciler.model import JOURNAL, ObjectRef, ServiceAccount, Workload
from reconciler.plan.model import Action
from reconciler.policy.types import Fleet, Tenant
from reconciler.time_limit import TimeLimit
from reconciler.untrusted_text import whole_number_in
from reconciler.worker_pool import WorkerPool


class Access(Struct, frozen=True):
    """What apply has of one cluster. `limit` is the run's, by the clock of the cluster. `pool`: the threads in which
    one action may write to several objects.
    """

    cluster: Cluster
    store: ConfigMapStore
    lock: Lock
    picker: PodPickerClient
    limit: TimeLimit
    pool: WorkerPool = field(default_factory=WorkerPool)

    def workload(self, ref: ObjectRef) -> Workload:
        """Return the workload `ref` as it is now.

        Raises:
            NotFoundError: it is gone, or its kind has no scale. ClusterError: it cannot be read.
        """
        for kind in self.cluster.scale_kinds():
            if (kind.group, kind.kind) == (ref.group, ref.kind):
                return self.cluster.get(workloads_of(kind), ref.namespace, ref.name)
        raise NotFoundError(f"{ref}: {ref.kind} has no scale in this cluster, expected one")

    def of(self, decision: Decision, fleet: Fleet | None) -> Access:
        """Return it as whoever carries out `decision` has it: a tenant with a ServiceAccount is impersonated."""
        tenant = tenant_of(decision, fleet)
        if fleet is None or tenant is None or tenant.service_account is None:
            return self
        account = ServiceAccount(fleet.namespace, tenant.service_account)
        return replace(self, cluster=self.cluster.writing_as(account))


class _Unlocked:
    """In place of the lock of what is written without one."""

    def look(self) -> None:
        return

    def acquire(self, limit: TimeLimit) -> bool:  # noqa: ARG002 - it is free
        return False

    def held(self) -> bool:
        return True

    def release(self) -> None:
        return


class _NoOpinion:
    """In place of a pod picker, which is somebody else's service: the controller's order decides."""

    def pick(self, request: PickerRequest) -> PickerAnswer:  # noqa: ARG002 - whatever it is
        return PickerAnswer()


def unlocked(cluster: Cluster, namespace: str, limit: TimeLimit, pool: WorkerPool | None = None) -> Access:
    """Return what is written without a lock, and without asking pickers; `namespace` is our own."""
    store = ConfigMapStore(cluster, namespace, JOURNAL)
    return Access(cluster, store, _Unlocked(), _NoOpinion(), limit, pool or WorkerPool(0))


def carried_out(
    action: Action, access: Access, fleet: Fleet | None, attempt: Callable[[Access], Outcome]
) -> tuple[Outcome, Access]:
    """Return what became of `action`, which `attempt` carries out, and the access of who did: its tenant, or ourselves,
    whose `access` is. Whatever a tenant does with its rights, what is idle wakes.
    """
    own = access.of(action.decision, fleet)
    outcome = attempt(own)
    forbidden = outcome.failure.forbidden if outcome.failure else ""
    tenant = tenant_of(action.decision, fleet) if forbidden else None
    if tenant is not None and wakes_as_recorded(action.decision):
        return attempt(access), access
    if tenant is not None and forbidden == "write":
        who = f"as serviceAccount {tenant.service_account} of tenant {tenant.name}, at {tenant.place}"
        fault = "" if action.decision.phase is Phase.WAKE else tenant.name  # what stays down is ours to tell
        outcome = replace(outcome, message=f"{outcome.message}; {who}", tenant=fault)
    return outcome, own


_RECORDED = tuple(("metadata", "annotations", key) for key in (Key.PREVIOUS_SCALE, Key.OPENSHIFT_PREVIOUS_SCALE))


def tenant_of(decision: Decision, fleet: Fleet | None) -> Tenant | None:
    """Return the tenant as which `decision` is carried out, None for the run itself; without a Fleet that does all.

    It is the tenant whose policy decides, or that of the namespace where the policy is the platform's, or there is none
    (any more). Annotations have no say in it. ConfigMaps are what a run tells the next one.
    """
    if fleet is None or decision.ref.kind == "ConfigMap":
        return None
    found = fleet.tenant(decision.cause.tenant) or fleet.tenant_at(decision.ref.cluster, decision.ref.namespace)
    return None if found is None or found.service_account is None else found


def wakes_as_recorded(decision: Decision) -> bool:
    """Return whether `decision` is part of a wake, and asks for no other replicas than records say.

    The record on its object is tested with the write, and its number counts also where the bounds of the autoscaler
    keep from it: the autoscaler would do the same. Where none can be read there, that of its Services counts, as far as
    the object bears it out. The bounds of an autoscaler, and what suspends or pauses, are those of records in
    any wake; a template is none of it.
    """
    if decision.job != "idling" or decision.phase is not Phase.WAKE:
        return False
    numbers = (whole_number_in(str(change.before)) for change in decision.changes if change.path in _RECORDED)
    recorded = [number for number in numbers if number is not None]
    bounded = [
        reason.values["recorded"] for reason in decision.cause.reasons if reason.code == ReasonCode.WITHIN_HPA_BOUNDS
    ]
    return decision.replicas_after is None or not recorded or (*bounded, decision.replicas_after)[0] in recorded
