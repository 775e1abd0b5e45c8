"""How far a cluster takes part in a federated ReplicaSet, also an unreachable one: as the first guard says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from reconciler.decide.annotations import ObservedCapacity, read_capacity
from reconciler.decide.change_codes import ChangeIfCode, Fact, after, change_if, fact
from reconciler.decide.decisions import Notice, NoticeKind, Undecided
from reconciler.decide.freeze import restriction
from reconciler.decide.owners_and_rollouts import Settled, replaces_replica_sets, rollout_of
from reconciler.decide.placement.cluster_capacity import with_capacity
from reconciler.decide.placement.ownership import why_not_placed
from reconciler.decide.placement.placement_inputs import (
    ClusterPlacement,
    LocalWorkload,
    PlacementCase,
    production_of_pattern,
)
from reconciler.decide.placement.pod_counts import PodCounts, available_replicas, is_calm, pod_counts
from reconciler.decide.reasons import ReasonCode, shared_reason, text_of
from reconciler.decide.selectors import left_out, local_ref
from reconciler.model import ObjectRef, ObservedCluster, PodsQuestion, Workload, unreadable_pods_key


class _Case(PlacementCase, frozen=True):
    """One federated ReplicaSet on one cluster, before it is known in which way it takes part."""

    placement: ClusterPlacement
    ref: ObjectRef
    workload: Workload | None
    settled: Settled | None

    def local(self, **known: Any) -> LocalWorkload:
        """Return a `LocalWorkload` with what is `known`; its replicas are those that idling leaves of the workload."""
        local = LocalWorkload(self.placement.name, self.ref, workload=self.workload, settled=self.settled)
        return replace(local, **({"spec_replicas": local.replicas} | known))

    def held(self, why: Fact, **known: Any) -> LocalWorkload:
        """Return the `LocalWorkload` of a workload that is left alone for now, with what its status says."""
        found = {"part": "held", "pods": PodCounts(available=self.available), "why": why, "for_now": True}
        return self.local(**(found | known))

    @property
    def observed(self) -> ObservedCluster:
        """The cluster; it answers, as `_unreachable` is the first guard."""
        assert self.placement.observed is not None
        return self.placement.observed

    @property
    def available(self) -> int:
        """How many replicas are available now, of those that idling leaves: what wakes in this run is not ready yet."""
        found = 0 if self.workload is None else available_replicas(self.workload)
        return found if self.settled is None else min(found, self.settled.replicas)

    def as_recorded(self, why: Fact) -> LocalWorkload:
        """Return the `LocalWorkload` of what cannot be read, with what an earlier run wrote of it."""
        status, name = self.status, self.placement.name
        idle_by = status.idle_by(name)
        until = status.idle_until(name) if idle_by else None
        asked = status.spec_replicas(name)
        return self.held(why, spec_replicas=asked, idle_by=idle_by, idle_until=until, unread=True)

    def undecided(self, local: LocalWorkload) -> LocalWorkload:
        """Return `local`, with why nothing could be decided there."""
        return replace(local, problem=Undecided(str(local.ref), "placement", self.federated.name, local.reasons))

    def with_notice(self, local: LocalWorkload, kind: NoticeKind) -> LocalWorkload:
        """Return `local`, with a notice of why nothing is done there."""
        text = text_of(local.reasons)
        return replace(local, problem=Notice(kind, str(local.ref), text, self.federated.name, reasons=local.reasons))


def local_workload(whole: PlacementCase, placement: ClusterPlacement) -> LocalWorkload:
    """Return how one cluster takes part: as the first guard that finds something says."""
    ref = local_ref(whole.federated, placement.name)
    workload = placement.workloads.get(ref)
    settled = None if workload is None else whole.inputs.settled(ref)
    case = _Case(whole.federated, whole.inputs, whole.status, placement, ref, workload, settled)
    for guard in _GUARDS:
        found = guard(case)
        if found is not None:
            return found
    return _placed(case)


def _unreachable(case: _Case) -> LocalWorkload | None:
    placement = case.placement
    if placement.observed is not None:
        return None
    # Unknown is not empty: until the grace period is over its replicas count as running there.
    since, now = placement.lost_since, case.inputs.run.now
    if since is None or restriction(placement.cluster, case.ref.namespace) is not None:
        return case.as_recorded(fact(ReasonCode.CLUSTER_UNREACHABLE))
    given_up = since + case.federated.cluster_grace_period
    nothing = case.federated.preference(placement.name) is None and not case.status.spec_replicas(placement.name)
    if now < given_up:
        ends = None if nothing else after(given_up)
        return case.as_recorded(fact(ReasonCode.CLUSTER_UNREACHABLE, ends, since=since))
    code = ReasonCode.CLUSTER_UNREACHABLE if nothing else ReasonCode.CLUSTER_LOST  # what never ran there does not move
    lost = replace(case.as_recorded(fact(code, since=since)), part="out")
    asleep = lost.idle_until is not None and lost.idle_until > now and lost.idle_by in case.inputs.idling
    return lost if asleep else replace(lost, idle_by="", idle_until=None)


def _unreadable(case: _Case) -> LocalWorkload | None:
    """Whether it is there is not known where its kind could not be listed."""
    found = case.observed.unread(case.ref.group, case.ref.kind)
    return case.undecided(case.as_recorded(_list_unreadable(case, found))) if found else None


def _list_unreadable(case: _Case, name: str) -> Fact:
    return fact(ReasonCode.LIST_UNREADABLE, list=name, problem=case.observed.unreadable[name])


def _not_ours(case: _Case) -> LocalWorkload | None:
    """One that another controller owns is never touched, nor one that belongs to somebody else."""
    why = None if case.workload is None else why_not_placed(case.workload, case.federated, case.inputs.ours)
    if why is None:
        return None
    is_of_another = why.why[0].code == ReasonCode.OWNED_BY
    return case.with_notice(case.held(why, part="out"), "foreignRecord" if is_of_another else "conflict")


def _idle(case: _Case) -> LocalWorkload | None:
    """What idling decides, keeps idle, or leaves to who scaled it down is left alone; what it had is taken off the
    total.
    """
    settled = case.settled
    if settled is None or settled.state == "Waking":
        return None
    why, awake = Fact((shared_reason(ReasonCode.IDLE, policy=settled.owner),)), settled.awake_replicas
    if settled.state == "ScaledDown":
        why = fact(ReasonCode.SCALED_DOWN_BY_OTHERS, by=settled.owner)
    return case.held(why, spec_replicas=awake, idle_by=settled.owner, idle_until=settled.until)


def _autoscalers_unreadable(case: _Case) -> LocalWorkload | None:
    """What else might scale it could not be listed, so it keeps what it has."""
    found = case.placement.unread_autoscalers
    return case.undecided(case.held(_list_unreadable(case, found))) if found else None


def _restricted(case: _Case) -> LocalWorkload | None:
    found = restriction(case.placement.cluster, case.ref.namespace)
    return None if found is None else case.held(found)


def _production(case: _Case) -> LocalWorkload | None:
    what = production_of_pattern(case, case.placement, case.workload)
    name, key = case.federated.name, case.federated.key
    return case.held(left_out(what, (name,), (key,)), left_out=True, for_now=False) if what else None


def _autoscaled(case: _Case) -> LocalWorkload | None:
    controller = None if case.workload is None else case.placement.autoscalers.name_of(case.ref)
    if controller is None:
        return None
    return case.with_notice(case.held(fact(ReasonCode.AUTOSCALED, autoscaler=controller), for_now=False), "autoscaler")


def _in_rollout(case: _Case) -> LocalWorkload | None:
    workload = case.workload
    if workload is None:
        return None
    if workload.terminating:
        return case.held(fact(ReasonCode.TERMINATING))
    return case.held(rollout_of(workload)) if replaces_replica_sets(workload) else None


def _missing(case: _Case) -> LocalWorkload | None:
    if case.workload is not None:
        return None
    if not _has_namespace(case):
        exists = change_if(ChangeIfCode.OBJECT_EXISTS, object=f"namespace {case.ref.namespace}")
        why = fact(ReasonCode.NO_NAMESPACE, exists, namespace=case.ref.namespace)
    elif case.federated.target is None:
        return _with_room(case, PodCounts(), None)
    else:
        exists = change_if(ChangeIfCode.OBJECT_EXISTS, object=f"{case.ref.kind} {case.ref.name}")
        why = fact(ReasonCode.NO_OBJECT, exists, kind=case.ref.kind, name=case.ref.name)
    return case.undecided(case.local(capacity=0, limit="missing", why=why))


def _has_namespace(case: _Case) -> bool:
    """Return whether the namespace is there, as far as is known.

    A cluster that shows its namespaces shows "default", which nobody can delete.
    """
    names = {found.ref.name for found in case.observed.namespaces}
    return "default" not in names or case.ref.namespace in names


def _placed(case: _Case) -> LocalWorkload:
    """Return the counts of a workload that takes part, or the question that must be answered first."""
    workload, observed = case.workload, case.observed
    assert workload is not None
    remembered = read_capacity(workload.annotations)
    if case.settled is not None:  # it wakes: its pods are on their way, and none is missing yet
        return _with_room(case, PodCounts(case.settled.replicas, case.available), remembered)
    if is_calm(workload) and remembered is None:
        return _with_room(case, PodCounts(workload.spec_replicas, case.available), None)
    failed = observed.unreadable.get(unreadable_pods_key(case.ref))
    if failed is not None:
        return case.undecided(case.held(fact(ReasonCode.LIST_UNREADABLE, list="its pods", problem=failed)))
    pods = observed.pods.get(case.ref)
    if pods is None:
        return case.local(question=PodsQuestion(case.ref))
    return _with_room(case, pod_counts(workload, pods, case.federated, case.inputs.run.now), remembered)


def _with_room(case: _Case, counts: PodCounts, remembered: ObservedCapacity | None) -> LocalWorkload:
    return with_capacity(case.local(pods=counts, remembered=remembered), case, case.placement)


_GUARDS: tuple[Callable[[_Case], LocalWorkload | None], ...] = (
    _unreachable,
    _unreadable,
    _not_ours,
    _idle,  # before the next ones: what is idle stays idling's, and starts nowhere else
    _autoscalers_unreadable,
    _restricted,
    _production,
    _autoscaled,
    _in_rollout,
    _missing,
)
