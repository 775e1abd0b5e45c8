"""Which replicas rest on a metric: its recorded value is held as fresh, and nobody knows what it will be."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.decide.idling.criteria import (
    Answers,
    CriterionResult,
    evaluator_of,
    wake_evaluator_of,
)
from reconciler.decide.metrics import value_for
from reconciler.forecast.simulation import Step
from reconciler.model import NOTHING, ObjectRef
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion, PolicySet


class Assumptions:
    """What is assumed at the time of the last run that was shown to it."""

    def __init__(self, policies: PolicySet) -> None:
        self._idling = {f"IdlingPolicy {policy.name}": policy for policy in policies.idling}
        self._downscale = {
            f"DownscalePolicy {policy.name}": policy.target.query
            for policy in policies.downscale
            if policy.target is not None and policy.target.query is not None
        }
        self._step: Step | None = None
        self._resting: dict[str, str] = {}
        self._behind: dict[ObjectRef, tuple[ObjectRef, ...]] = {}
        self._known: dict[tuple[str, ObjectRef], str] = {}

    def at(self, step: Step) -> None:
        """Take the time, and what was measured, from `step`."""
        self._step = step
        self._resting = {name: _resting(policy, step) for name, policy in self._idling.items()}
        self._behind |= {one.ref: one.services for one in step.plan.explanations if one.job == "idling"}

    def of(self, ref: ObjectRef, policy: str, *, idle: bool) -> str:
        """Return on which recorded value the replicas of `ref` rest: "requests = 0"; "" for none."""
        if policy in self._downscale:
            return "the value of its target query"
        resting = self._resting.get(policy, "")
        if not resting or (resting == "wakeWhen" and not idle):
            return ""
        if resting == "wakeWhen":
            return "wakeWhen does not hold"
        key = (policy, ref)
        if key not in self._known:
            self._known[key] = ", ".join(self._values(ref, self._idling[policy])) or "metrics as recorded"
        return self._known[key]

    def _values(self, ref: ObjectRef, policy: IdlingPolicy) -> Iterator[str]:
        step = self._step
        assert step is not None
        answers = Answers(ref.cluster, policy.name, step.state.answers, step.at)
        services = [one.name for one in self._behind.get(ref, ())] or [ref.name]
        for metric in _metrics(policy.idle_when):
            series = answers.series(metric.query, metric.window)
            found = {value_for(series, ref.namespace, name) for name in services}
            values = sorted({0.0 if one is None and metric.no_series == "Zero" else one for one in found}, key=str)
            known = [f"{one:.12g}" for one in values if isinstance(one, float)]
            yield f"{metric.name or 'metric'} = {', '.join(known) or 'unknown'}"


def _resting(policy: IdlingPolicy, step: Step) -> str:
    """Return "metric" where the schedules alone do not decide, "wakeWhen" where only that could wake, "" else."""
    blind = Answers("", policy.name, NOTHING, step.at)
    result = evaluator_of(policy, blind)("", None).result
    if result is CriterionResult.UNKNOWN:
        return "metric"
    woken = wake_evaluator_of(policy, blind)("", None).result
    return "wakeWhen" if woken is CriterionResult.UNKNOWN else ""


def _metrics(criterion: Criterion) -> Iterator[MetricCriterion]:
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from _metrics(inner)
    elif isinstance(criterion, MetricCriterion):
        yield criterion
