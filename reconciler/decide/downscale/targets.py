"""The replicas that the target of a DownscalePolicy asks for, for each workload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from reconciler.decide.autoscalers import Autoscalers, Bounds
from reconciler.decide.decisions import Decision, Notice, Overridden, PolicyExplanation, Undecided
from reconciler.decide.idling.after_idling import Settled
from reconciler.decide.query_answers import why_unusable
from reconciler.decide.reasons import Counterfactual, Reason, ReasonCode, Reasons, reason
from reconciler.decide.selectors import key_of
from reconciler.messages import replica_count
from reconciler.model import (
    NOTHING,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    QueryAnswer,
    QueryKey,
    Run,
    Workload,
)
from reconciler.policy.types import DownscalePolicy, DownscaleTarget, Fleet, FleetCluster
from reconciler.untrusted_text import MOST_REPLICAS


class TargetReplicas(Struct, frozen=True):
    """The target of `policy`, and why; `replicas` None: not known. `values` are what it depends on."""

    policy: DownscalePolicy
    replicas: int | None
    reasons: Reasons
    values: Mapping[str, Any] = NOTHING


def target_replicas(policy: DownscalePolicy, cluster: str, state: ObservedState, run: Run) -> TargetReplicas:
    """Return the replicas that `policy` asks for in `cluster`, within its minimum and maximum."""
    target = policy.target or DownscaleTarget()
    if not target.query:
        wanted = target.replicas or 0
        return _within(policy, target, wanted, reason(ReasonCode.TARGET, replicas=wanted))
    answer = state.answers.get(QueryKey(cluster, policy.name, target.query, ""))
    value = value_in_answer(answer, run.now)
    if isinstance(value, Reason):
        return TargetReplicas(policy, None, (reason(ReasonCode.QUERY_UNKNOWN), value))
    return _within(policy, target, math.ceil(value), reason(ReasonCode.QUERY, value=value))


def value_in_answer(answer: QueryAnswer | None, now: datetime) -> float | Reason:
    """Return the one number of replicas in `answer`, or why there is none: a negative value is none either."""
    why = why_unusable(answer, now)
    if why is not None:
        return why
    samples = () if answer is None else answer.samples
    if len(samples) != 1:
        return reason(ReasonCode.NOT_ONE_SERIES, count=len(samples))
    value = samples[0].value
    if not 0 <= value <= MOST_REPLICAS:  # nor does NaN
        return reason(ReasonCode.NO_NUMBER_OF_REPLICAS, value=f"{value:g}")
    return value


def _within(policy: DownscalePolicy, target: DownscaleTarget, wanted: int, why: Reason) -> TargetReplicas:
    bounded = max(wanted, target.minimum)
    reasons: Reasons = (why,)
    if bounded > wanted:
        reasons = (why, reason(ReasonCode.AT_LEAST, min=bounded))
    elif target.maximum is not None and wanted > target.maximum:
        bounded = target.maximum
        reasons = (why, reason(ReasonCode.AT_MOST, max=bounded))
    return TargetReplicas(
        policy, bounded, reasons, {name: value for one in reasons for name, value in one.values.items()}
    )


Result = Decision | Undecided | Overridden | Notice | PolicyExplanation


class DownscaleInputs(Struct, frozen=True):
    """One cluster, and everything that is looked at beside a workload in it."""

    fleet: Fleet
    cluster: FleetCluster
    observed: ObservedCluster
    state: ObservedState
    run: Run
    settled: Mapping[ObjectRef, Settled]
    placed: Mapping[ObjectRef, str]
    autoscalers: Autoscalers
    namespaces: Mapping[str, Mapping[str, str]]  # annotations by name
    space_labels: Mapping[str, Mapping[str, str]]  # of Namespaces, by name

    def production_of(self, workload: Workload) -> str:
        """Return what makes `workload` production, "" where nothing does."""
        space = workload.ref.namespace
        return self.fleet.production.why(self.cluster, space, self.space_labels.get(space), workload.labels)


class WorkloadTarget(Struct, frozen=True):
    """One workload, and the target of one policy for it."""

    inputs: DownscaleInputs
    workload: Workload
    wanted: TargetReplicas

    @property
    def ref(self) -> ObjectRef:
        return self.workload.ref

    @property
    def policy(self) -> str:
        return self.wanted.policy.name

    @property
    def autoscaler(self) -> HorizontalPodAutoscaler | None:
        """The HorizontalPodAutoscaler that leaves scaling down to us, None where none does."""
        found = self.inputs.autoscalers.horizontal.get(key_of(self.ref))
        return found if found is not None and found.scale_down_disabled else None

    @property
    def desired(self) -> int:
        """The desired replicas, not below the minimum of an autoscaler; the current ones where none are known."""
        if self.wanted.replicas is None:
            return self.workload.spec_replicas
        least = 0 if self.autoscaler is None else Bounds(self.autoscaler.minimum, self.autoscaler.maximum).least
        return max(self.wanted.replicas, least)

    @property
    def changes(self) -> bool:
        """Whether the wish differs from what is there, in a direction that the policy takes."""
        if self.desired > self.workload.spec_replicas:
            target = self.wanted.policy.target
            return target is not None and target.direction == "Both" and self.autoscaler is None
        return self.desired < self.workload.spec_replicas

    def stays(self, *reasons: Reason, counterfactual: Counterfactual | None = None) -> PolicyExplanation:
        """Return that the workload keeps its replicas because of `reasons`."""
        outcome = f"stays at {self.workload.spec_replicas}"
        return PolicyExplanation(self.ref, "downscale", self.policy, outcome, reasons, counterfactual)

    def undecided(self, *reasons: Reason) -> Undecided:
        return Undecided(str(self.ref), "downscale", self.policy, reasons)

    def overridden(self, winner: str, why: Reason) -> Overridden:
        return Overridden(self.ref, "downscale", self.policy, replica_count(self.desired), winner, (why,))
