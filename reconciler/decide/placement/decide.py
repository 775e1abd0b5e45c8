"""Placement, one pass: every federated ReplicaSet on every cluster of the Fleet."""

from __future__ import annotations

from reconciler.decide.decisions import Cause, DesiredState, Verb
from reconciler.decide.owners_and_rollouts import SettledWorkloads
from reconciler.decide.placement.home_config_maps import (
    MEMORY,
    UNREACHABLE,
    ConfigMapContent,
    known_since,
    unreachable_text,
)
from reconciler.decide.placement.placement_inputs import PlacementInputs, placement_inputs
from reconciler.decide.placement.recorded_status import REJECTED, rejection_key
from reconciler.decide.placement.removed_policies import removed_policies
from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.decide.selectors import local_ref
from reconciler.model import ConfigMap, ObjectRef, ObservedState, Run
from reconciler.policy.types import PolicySet


def decide_placement(
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    settled: SettledWorkloads,
) -> DesiredState:
    """Return the decisions and statuses of all federated ReplicaSets.

    `settled` is what idling leaves: what is said of it needs the decisions that make it so. A federated ReplicaSet
    whose pods must be read first has its questions in `questions`, and nothing decided. Other shards than the first
    only release what was removed where nothing is placed.
    """
    inputs = placement_inputs(policies, state, run, settled)
    if policies.shard is not None and not policies.shard.is_placing:
        return removed_policies(policies, inputs, with_statuses=False)
    parts = _placed(policies, inputs)
    return DesiredState().joined(*parts, removed_policies(policies, inputs), _memory(policies, inputs))


def made_anew(placement: DesiredState, settled: SettledWorkloads) -> frozenset[ObjectRef]:
    """Return what `placement` makes anew and idling would wake in this run: the next one does, by the record on it."""
    deleted = (decision.ref for decision in placement.decisions if decision.verb is Verb.DELETE)
    return frozenset(ref for ref in deleted if (left := settled(ref)) is not None and left.needs)


def _placed(policies: PolicySet, inputs: PlacementInputs) -> list[DesiredState]:
    """Return what is decided of each federated ReplicaSet. A Fleet that has none does not load how."""
    if not policies.federated:
        return []
    from reconciler.decide.placement.federated_replica_set import decide_one

    return [decide_one(federated, inputs) for federated in policies.federated]


def _memory(policies: PolicySet, inputs: PlacementInputs) -> DesiredState:
    """Return the decision that remembers since when clusters do not answer, where that changed, and forgets refusals of
    what no federated ReplicaSet is about any more.
    """
    if not inputs.home.cluster:
        return DesiredState()
    kept = inputs.home.newest.get(MEMORY)
    data: dict[str, str | None] = {}
    why: list[Reason] = []
    after = {
        placement.name: placement.lost_since for placement in inputs.placements if placement.lost_since is not None
    }
    if after != known_since(inputs.home) or (kept is not None and UNREACHABLE not in kept.data):
        data[UNREACHABLE] = unreachable_text(after)
        clusters = ", ".join(sorted(after))
        lost = reason(ReasonCode.CLUSTERS_UNREACHABLE, clusters=clusters)
        why.append(lost if after else reason(ReasonCode.CLUSTERS_REACHABLE))
    if stale := _stale(policies, inputs, kept):
        data |= dict.fromkeys(stale)
        why.append(reason(ReasonCode.REFUSALS_OF_REMOVED))
    cause = Cause("", str(inputs.fleet.place), tuple(why) or (reason(ReasonCode.RECORDS_MOVE),))
    content = ConfigMapContent(inputs.home.ref(MEMORY), data=data)
    return DesiredState(decisions=inputs.home.written(content, inputs.run.now, "placement/memory", cause))


def _stale(policies: PolicySet, inputs: PlacementInputs, kept: ConfigMap | None) -> list[str]:
    """Return the keys of refusals of what no federated ReplicaSet of git is about; none while a tenant is stopped."""
    if policies.stopped:
        return []
    refusals = [key for key in (kept.data if kept is not None else ()) if key.startswith(REJECTED)]
    known = {
        rejection_key(local_ref(federated, placement.name))
        for federated in (policies.federated if refusals else ())
        for placement in inputs.placements
    }
    return [key for key in refusals if key not in known]
