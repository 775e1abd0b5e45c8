"""The three jobs joined: idling wins over placement, placement over a downscale target."""

from __future__ import annotations

from dataclasses import replace

from reconciler.decide.downscale.forecast import with_victims
from reconciler.decide.downscale.recovery import decide_recovery
from reconciler.decide.downscale.targets import decide_downscale
from reconciler.decide.idling.decide import decide_idling
from reconciler.decide.membership import local_key
from reconciler.decide.placement.decide import decide_placement
from reconciler.decide.types import DesiredState
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import PolicySet


def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    """Return what should be. Where `questions` are left, it is final only once they are answered in `state`."""
    idling = decide_idling(policies, state, run)
    placement = decide_placement(policies, state, run, idling.claims)
    claims = {**placed_workloads(policies), **idling.claims}
    downscale = decide_downscale(policies, state, run, claims)
    recovery = decide_recovery(policies.fleet, state, run)
    joined = recovery.joined(idling.desired, placement, downscale)
    return _with_forecasts(joined, policies, state, run)


def placed_workloads(policies: PolicySet) -> dict[ObjectRef, str]:
    """Return the policy's name for every workload that placement decides, on every cluster of the Fleet."""
    found: dict[ObjectRef, str] = {}
    for federated in policies.federated:
        namespace, kind, name = local_key(federated)
        group = "apps" if federated.target is None else federated.target.api_version.rpartition("/")[0]
        for cluster in policies.fleet.clusters:
            found[ObjectRef(cluster.name, namespace, kind, name, group)] = federated.name
    return found


def _with_forecasts(desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    decisions, questions, notices = with_victims(desired.decisions, policies, state, run)
    return replace(
        desired,
        decisions=decisions,
        questions=tuple(sorted({*desired.questions, *questions})),
        notices=desired.notices + notices,
    )
