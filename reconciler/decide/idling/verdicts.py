"""The verdict of each policy on one scalable, and all of them combined."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.idling.criteria import (
    Answers,
    CriterionResult,
    Evaluation,
    Evaluator,
    evaluator_of,
    wake_evaluator_of,
    window_end,
)
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.decide.selectors import (
    SelectingPolicies,
    exclusions_by,
    namespace_labels,
    of_highest_priority,
)
from reconciler.model import NOTHING, ObservedCluster, QueryAnswer, QueryKey, Service, Workload
from reconciler.policy.types import FleetCluster, IdlingPolicy

UNDONE_HOLDS = timedelta(hours=2)  # minAwake by default, where no policy is known


class PolicyVerdict(Struct, frozen=True):
    """What `policy` says of what it selects: of the Service named `service`, or with None of a scalable itself.

    `wake_when` is BUSY where it holds and IDLE where it does not. `equal_policies` are the names of all policies of the
    same, highest priority, () where there is just this one.
    """

    policy: IdlingPolicy
    service: str | None
    evaluation: Evaluation
    wake_when: Evaluation
    equal_policies: tuple[str, ...] = ()

    @property
    def wakes(self) -> bool:
        """Whether what it says wakes: not with `wake: OnSignal`."""
        return self.policy.wake == "Automatic"


def deciding_policies(selecting: Sequence[IdlingPolicy]) -> tuple[IdlingPolicy, ...]:
    """Return those of the policies that select one object which decide there: several only with equal priority.

    One that only observes decides nothing, so it never stands in the way of one that enforces.
    """
    enforcing = [policy for policy in selecting if policy.mode == "Enforce"]
    return tuple(sorted(of_highest_priority(enforcing or selecting), key=lambda policy: policy.name))


class Verdict(Struct, frozen=True, dict=True):  # so that what is asked often can be kept
    """What all policies say of a Service or a scalable: `won` counts, `lost` is of those that others win over.

    Without any that won, no policy selects it, or all that do exclude it.
    """

    won: tuple[PolicyVerdict, ...] = ()
    lost: tuple[PolicyVerdict, ...] = ()
    without_policies: bool = False  # the policies are not known: nothing can be said of what they want
    excluded: tuple[Reason, ...] = ()  # by which policies that would select it otherwise

    @cached_property
    def policy(self) -> IdlingPolicy | None:
        """The policy that owns the records: of the highest priority, then the first by name."""
        highest = of_highest_priority([verdict.policy for verdict in self.won])
        return min(highest, key=lambda policy: policy.name, default=None)

    @cached_property
    def policies(self) -> tuple[IdlingPolicy, ...]:
        """Every policy that verdicts, once, by name."""
        found = {verdict.policy.name: verdict.policy for verdict in self.won}
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def result(self) -> CriterionResult:
        """Idle where all verdicts are, busy where any is, else unknown."""
        if self.without_policies:
            return CriterionResult.UNKNOWN
        if not self.won:
            return CriterionResult.NOT_SELECTED
        said = {verdict.evaluation.result for verdict in self.won}
        if CriterionResult.BUSY in said:
            return CriterionResult.BUSY
        return CriterionResult.IDLE if said == {CriterionResult.IDLE} else CriterionResult.UNKNOWN

    @cached_property
    def deciding(self) -> tuple[Evaluation, ...]:
        """The verdicts that make it say what it says."""
        return tuple(verdict.evaluation for verdict in self.won if verdict.evaluation.result is self.result)

    @cached_property
    def deciding_names(self) -> tuple[str, ...]:
        """The policies of these verdicts, each once."""
        names = (verdict.policy.name for verdict in self.won if verdict.evaluation.result is self.result)
        return tuple(dict.fromkeys(names))

    @cached_property
    def reasons(self) -> Reasons:
        if self.without_policies:
            return (reason(ReasonCode.POLICIES_UNREADABLE),)
        said = dict.fromkeys(chain.from_iterable(evaluation.reasons for evaluation in self.deciding))
        return tuple(said) or self.excluded or (reason(ReasonCode.NOT_SELECTED),)

    @cached_property
    def until(self) -> datetime | None:
        """When the first schedule that keeps it idle ends."""
        return _first_end(self.won)

    @cached_property
    def wake_due(self) -> datetime | None:
        """When it is to be woken: as the first schedule ends of a policy that wakes automatically."""
        return _first_end(verdict for verdict in self.won if verdict.wakes)

    @cached_property
    def wakes_on_requests_only(self) -> bool:
        """Whether policies select it, and all of them have `wake: OnSignal`."""
        return bool(self.won) and not any(verdict.wakes for verdict in self.won)

    @cached_property
    def busy(self) -> PolicyVerdict | None:
        """The first verdict of a policy that wakes automatically and calls it busy, None where none does."""
        return next(
            (verdict for verdict in self.won if verdict.wakes and verdict.evaluation.result is CriterionResult.BUSY),
            None,
        )

    @cached_property
    def wake_when(self) -> PolicyVerdict | None:
        """The first verdict of a policy that wakes automatically and whose `wakeWhen` holds, None for none."""
        return next(
            (verdict for verdict in self.won if verdict.wakes and verdict.wake_when.result is CriterionResult.BUSY),
            None,
        )

    @cached_property
    def wake_when_blocker(self) -> Evaluation | None:
        """A `wakeWhen` that holds or is unknown, of any policy."""
        return next(
            (verdict.wake_when for verdict in self.won if verdict.wake_when.result is not CriterionResult.IDLE),
            None,
        )

    @cached_property
    def equal_policies(self) -> tuple[str, ...]:
        """The policies of equal priority that select the same object, () where no two do."""
        return next((verdict.equal_policies for verdict in self.won if verdict.equal_policies), ())

    @cached_property
    def observing(self) -> tuple[PolicyVerdict, ...]:
        """The verdicts of policies that only observe: it is not idled while there is one."""
        return tuple(verdict for verdict in self.won if verdict.policy.mode == "Observe")

    @cached_property
    def enforcing(self) -> tuple[PolicyVerdict, ...]:
        return tuple(verdict for verdict in self.won if verdict.policy.mode == "Enforce")

    @cached_property
    def idle_replicas(self) -> int:
        return max((verdict.policy.idle_replicas for verdict in self.won), default=0)

    @cached_property
    def min_age(self) -> timedelta:
        return max((verdict.policy.min_age for verdict in self.won), default=timedelta(0))

    @cached_property
    def min_awake(self) -> timedelta:
        return max((verdict.policy.min_awake for verdict in self.won), default=UNDONE_HOLDS)

    def window_end(self, now: datetime) -> datetime | None:
        """Return when the last of the schedule windows open now ends."""
        ends = [window_end(policy, now) for policy in self.policies]
        return max((end for end in ends if end is not None), default=None)

    def without(self, policies: Container[str]) -> Verdict:
        """Return the verdicts there would be without `policies`, by name: where all that won go, the next ones win."""
        won = tuple(one for one in self.won if one.policy.name not in policies)
        lost = tuple(one for one in self.lost if one.policy.name not in policies)
        if not won:
            deciding = deciding_policies([one.policy for one in lost])
            won = tuple(one for one in lost if one.policy in deciding)
            lost = tuple(one for one in lost if one.policy not in deciding)
        names = tuple(sorted(one.policy.name for one in won))
        equal = names if len(names) > 1 else ()
        return Verdict(tuple(replace(one, equal_policies=equal) for one in won), lost)

    @property
    def names(self) -> set[str]:
        """The policies that say something, those that others win over included."""
        return {one.policy.name for one in (*self.won, *self.lost)}


def _first_end(verdicts: Iterable[PolicyVerdict]) -> datetime | None:
    ends = (verdict.evaluation.until for verdict in verdicts)
    return min((end for end in ends if end is not None), default=None)


# Which policies select what on one cluster, and what they say of it.


Exclusions = Mapping[str, Reason]
"""The policies that exclude something which they select otherwise, each with how."""

_NONE = Verdict()


class ClusterVerdicts:
    """Keeps what was found once for all: the policies of each namespace, and how each policy judges."""

    def __init__(
        self,
        policies: Iterable[IdlingPolicy],
        cluster: ObservedCluster,
        fleet_cluster: FleetCluster,
        said: Mapping[QueryKey, QueryAnswer],
        now: datetime,
    ) -> None:
        self._fleet_cluster = fleet_cluster
        self._selecting = SelectingPolicies(policies, fleet_cluster, cluster)
        self._reaching = self._selecting.reaching
        self._excluding = tuple(policy for policy in self._reaching if policy.exclude)
        self._labels = namespace_labels(cluster)
        self._evaluators: dict[str, tuple[Evaluator, Evaluator]] = {}
        self._evaluated: dict[tuple[str, str, str | None], tuple[Evaluation, Evaluation]] = {}
        self._on_workloads: dict[tuple[str, ...], Verdict] = {}
        self._services = {(service.ref.namespace, service.ref.name): service for service in cluster.services}
        self._answers = {
            policy.name: Answers(cluster.name, policy.name, said, now, partial(self._selects, policy))
            for policy in self._reaching
        }

    def problems(self) -> Iterator[tuple[str, str, Reason]]:
        """Yield (policy, query, why) for every query that cannot be used as a whole."""
        for policy in self._reaching:
            for query, why in self._answers[policy.name].problems(policy):
                yield policy.name, query, why

    def exclusions(self, *found: Workload | Service) -> Exclusions:
        """Return which policies exclude one of `found`, all in one namespace, whether they select it or not."""
        if not self._excluding:
            return NOTHING
        result: dict[str, Reason] = {}
        for policy in self._excluding:
            labels = self._labels.get(found[0].ref.namespace, {})
            for one in found:
                for field in exclusions_by(policy, self._fleet_cluster, labels, one):
                    service = one.ref.name if isinstance(one, Service) else ""
                    why = reason(ReasonCode.EXCLUDED_BY_POLICY, policy=policy.name, service=service, field=field)
                    result.setdefault(policy.name, why)
        return result

    def on_service(self, service: Service) -> Verdict:
        """Return the verdicts for `service`."""
        selecting = self._selecting.on_service(service)
        return self._verdicts(service.ref.namespace, selecting, service.ref.name)

    def on_workload(self, workload: Workload) -> Verdict:
        """Return the verdicts for `workload` of policies that select it directly, those that exclude it included.

        Of the workloads of one namespace, all that the same policies select share one value.
        """
        selecting = self._selecting.on_workload(workload)
        about = (workload.ref.namespace, *(policy.name for policy in selecting))
        if about not in self._on_workloads:
            self._on_workloads[about] = self._verdicts(workload.ref.namespace, selecting, None)
        return self._on_workloads[about]

    def _selects(self, policy: IdlingPolicy, namespace: str, name: str) -> bool:
        service = self._services.get((namespace, name))
        if service is None or not policy.selector.selects_service(service):
            return False
        return policy.selector.namespaces.matches(namespace, self._labels.get(namespace, {}))

    def _verdicts(self, namespace: str, selecting: list[IdlingPolicy], service: str | None) -> Verdict:
        if not selecting:
            return _NONE
        winners = deciding_policies(selecting)
        equal_policies = tuple(policy.name for policy in winners) if len(winners) > 1 else ()
        losers = [policy for policy in selecting if policy not in winners]
        return Verdict(
            tuple(self._verdict(policy, namespace, service, equal_policies) for policy in winners),
            tuple(self._verdict(policy, namespace, service, ()) for policy in losers),
        )

    def _verdict(
        self, policy: IdlingPolicy, namespace: str, service: str | None, equal_policies: tuple[str, ...]
    ) -> PolicyVerdict:
        about = (policy.name, namespace, service)
        if about not in self._evaluated:
            evaluate, wakes = self._evaluators_of(policy)
            self._evaluated[about] = (evaluate(namespace, service), wakes(namespace, service))
        return PolicyVerdict(policy, service, *self._evaluated[about], equal_policies)

    def _evaluators_of(self, policy: IdlingPolicy) -> tuple[Evaluator, Evaluator]:
        if policy.name not in self._evaluators:
            answers = self._answers[policy.name]
            self._evaluators[policy.name] = (evaluator_of(policy, answers), wake_evaluator_of(policy, answers))
        return self._evaluators[policy.name]
