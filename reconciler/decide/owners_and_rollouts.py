"""Facts of a workload for all three jobs: its owner and what it owns, what its status says about its rollout, and what
idling leaves of it to the other two.

An owner reference has a uid and no namespace, and whoever may create a ReplicaSet or a Pod may write any uid into it.
Kubernetes takes an owner in another namespace for absent; to follow it would let one namespace scale another one. So
owners are looked up within one namespace only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from reconciler.decide.change_codes import ChangeIfCode, Fact, change_if, fact
from reconciler.decide.reasons import ReasonCode
from reconciler.model import ObjectRef, OwnerReference, Pod, Workload

OwnerKey = tuple[str, str]
"""(namespace, uid) of an owner: the uid alone must never be looked up."""


class Owners(Struct, frozen=True):
    """The workloads of one cluster, as owners."""

    by_uid: Mapping[OwnerKey, Workload]
    by_name: Mapping[tuple[str, str, str], Workload]  # (namespace, kind, name)

    def of(self, namespace: str, reference: OwnerReference) -> Workload | None:
        """Return the owner of an object in `namespace`, None where it is not among the workloads of that namespace."""
        found = self.by_uid.get((namespace, reference.uid)) if reference.uid else None
        return found or self.by_name.get((namespace, reference.kind, reference.name))

    def of_pod(self, pod: Pod) -> Workload | None:
        """Return the workload that owns `pod` itself, for most a ReplicaSet; None where it is not known."""
        return self.of(pod.namespace, OwnerReference("", pod.owner_kind, pod.owner_name, pod.owner_uid))


def owners_in(workloads: Iterable[Workload]) -> Owners:
    """Return the workloads of one cluster, ready to be found by what they own."""
    found = tuple(workloads)
    return Owners(
        by_uid={(workload.ref.namespace, workload.uid): workload for workload in found},
        by_name={(workload.ref.namespace, workload.ref.kind, workload.ref.name): workload for workload in found},
    )


def own_key(workload: Workload) -> OwnerKey:
    """Return the key under which `workload` owns others."""
    return (workload.ref.namespace, workload.uid)


def owner_key(workload: Workload) -> OwnerKey | None:
    """Return the key of the controller of `workload`, which need not be a workload itself; None without one."""
    return None if workload.owner is None else (workload.ref.namespace, workload.owner.uid)


def is_lagging(workload: Workload) -> bool:
    """Return whether the workload's controller has not looked at its spec yet."""
    observed, generation = workload.observed_generation, workload.generation
    return observed is not None and generation is not None and observed < generation


_UNDER_WAY = frozenset({"NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"})
"""Reasons of the condition Progressing while a rollout goes on; what is only scaled keeps the one of its end.

Source: kubernetes pkg/controller/deployment/util/deployment_util.go.
"""


def in_rollout(workload: Workload) -> bool:
    """Return whether the pods of `workload` are being replaced, also where the old ones are gone first. One past its
    progress deadline is not, nor a StatefulSet up to its partition or with OnDelete.
    """
    if is_lagging(workload):
        return True
    progressing = workload.condition("Progressing")
    if progressing is not None and progressing.status == "False":
        return False
    if workload.updated_replicas is None or workload.partition is None:
        return False
    is_under_way = progressing is not None and progressing.reason in _UNDER_WAY
    pods = workload.spec_replicas if workload.partition or is_under_way else workload.status_replicas or 0
    return workload.updated_replicas < pods - workload.partition


def rollout_of(workload: Workload) -> Fact:
    """Return what is said of `workload`, which is in a rollout: one that somebody paused does not end by itself."""
    progressing = workload.condition("Progressing")
    if progressing is not None and progressing.reason == "DeploymentPaused" and not is_lagging(workload):
        return fact(ReasonCode.ROLLOUT_PAUSED, change_if(ChangeIfCode.ROLLOUT_RESUMED))
    return fact(ReasonCode.ROLLOUT_IN_PROGRESS, change_if(ChangeIfCode.ROLLOUT_ENDS))


def replaces_replica_sets(workload: Workload) -> bool:
    """Return whether a rollout moves the pods of `workload` from one ReplicaSet to another now."""
    return workload.kind.pods == "ReplicaSets" and in_rollout(workload)


class Settled(Struct, frozen=True):
    """What idling leaves of one workload after this run: what is asked for, never what is ready.

    "Asleep": a record of ours says that it is idle, or cannot be read; "Foreign": somebody else's. "HandsOff": it is
    not idle, and idling decides it all the same. "ScaledDown": `owner` scaled it down while it was idle. "Waking": this
    run changes it, and it is not idle then. `replicas` is spec.replicas after this run, `awake_replicas` what it has
    awake, as recorded where it is or was idle, `until` when it is due to wake. `owner` is the policy, or what else says
    so; `needs` are the keys of the decisions that change it in this run.
    """

    state: Literal["Asleep", "Foreign", "HandsOff", "ScaledDown", "Waking"]
    replicas: int
    awake_replicas: int
    owner: str
    until: datetime | None = None
    needs: tuple[str, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether idling decides it in this run: not what only stays idle, or is somebody else's."""
        return self.state != "Foreign" and (self.state in ("HandsOff", "Waking") or bool(self.needs))


SettledWorkloads = Callable[[ObjectRef], Settled | None]
"""Says what idling leaves of a workload, None where it has nothing to do with it."""
