"""A federated ReplicaSet is idle only if it is idle on every cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.decide.idling.blockers import Blocker, blocker
from reconciler.decide.idling.transition_rules import Flag
from reconciler.decide.idling.transitions import Transition
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import LocalKey, federated_by_local_key, key_of
from reconciler.model import ObjectRef, ObservedState
from reconciler.policy.types import FederatedReplicaSet


class FederatedMembers(Struct, frozen=True):
    """The local workloads of one federated ReplicaSet that transitions are about.

    `running` are clusters where it runs and no transition is about it; `held` says why it may not be idled now, None
    for nothing; `all` are its local workloads on every cluster that answered.
    """

    refs: tuple[ObjectRef, ...]
    all: tuple[ObjectRef, ...]
    running: tuple[str, ...] = ()
    held: Blocker | None = None


def federated_members(
    federated: Iterable[FederatedReplicaSet], state: ObservedState, transitions: Mapping[ObjectRef, Transition]
) -> dict[LocalKey, FederatedMembers]:
    """Return the members of each federated ReplicaSet of which a transition concerns at least one."""
    by_key = federated_by_local_key(federated)
    ruled: dict[LocalKey, list[ObjectRef]] = {}
    for ref, transition in transitions.items():
        key = key_of(transition.scalable.scale.runs.ref)
        if key in by_key:
            ruled.setdefault(key, []).append(ref)
    local = _local_workloads(state, ruled)
    return {key: _members(by_key[key], ruled[key], local.get(key, {}), state) for key in sorted(ruled)}


def _local_workloads(state: ObservedState, keys: Mapping[LocalKey, object]) -> dict[LocalKey, dict[ObjectRef, int]]:
    """Return the replicas of the local workloads with one of `keys`."""
    found: dict[LocalKey, dict[ObjectRef, int]] = {}
    for name in sorted(state.clusters) if keys else ():
        for workload in state.clusters[name].workloads:
            key = key_of(workload.ref)
            if key in keys:
                found.setdefault(key, {})[workload.ref] = workload.spec_replicas
    return found


def _members(
    federated: FederatedReplicaSet, refs: list[ObjectRef], local: Mapping[ObjectRef, int], state: ObservedState
) -> FederatedMembers:
    ruled = {ref.cluster for ref in refs}
    unread = next((name for name in sorted(state.unreachable) if _may_run_on(federated, name)), "")
    held = blocker(ReasonCode.CLUSTER_UNREAD, cluster=unread) if unread else None
    if federated.paused:
        held = blocker(ReasonCode.FEDERATED_PAUSED, policy=federated.name)
    running = tuple(ref.cluster for ref, replicas in local.items() if ref.cluster not in ruled and replicas > 0)
    return FederatedMembers(tuple(refs), tuple(local), running, held)


def _may_run_on(federated: FederatedReplicaSet, cluster: str) -> bool:
    own = federated.preference(cluster)
    return own is not None and bool(own.weight or own.min_replicas)


def idle_together(
    transitions: Mapping[ObjectRef, Transition], federated: Mapping[LocalKey, FederatedMembers]
) -> dict[ObjectRef, Transition]:
    """Return the transitions where no member of a federated ReplicaSet is idle while another one runs."""
    result = dict(transitions)
    for members in federated.values():
        # Who is awake is settled before any flag is set: a member that others keep up must not keep them up in turn.
        inside = [result[ref] for ref in members.refs]
        awake = {*members.running, *(transition.ref.cluster for transition in inside if transition.holds_others_up)}
        for transition in inside:
            elsewhere = min(awake - {transition.ref.cluster}, default="")
            if elsewhere:
                result[transition.ref] = transition.with_flag(
                    Flag.RUNS_ELSEWHERE, blocker(ReasonCode.RUNS_ELSEWHERE, cluster=elsewhere)
                )
            elif members.held is not None and not transition.was_idle:
                result[transition.ref] = transition.with_flag(Flag.BLOCKED, members.held)
    return result
