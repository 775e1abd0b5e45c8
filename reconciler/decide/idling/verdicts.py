"""What the policies say of one scalable: each policy's verdict, and all of them combined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from reconciler.decide.idling.criteria import (
    Answers,
    CriterionResult,
    Evaluation,
    Evaluator,
    evaluator_of,
    wake_evaluator_of,
    window_end,
)
from reconciler.decide.selectors import namespace_labels, of_highest_priority, selects_workload
from reconciler.model import NOTHING, ObjectRef, ObservedCluster, QueryAnswer, QueryKey, Service, Workload
from reconciler.policy.types import FleetCluster, IdlingPolicy

UNDONE_HOLDS = timedelta(hours=2)  # minAwake by default, where no policy is known


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """What `policy` says of `subject`, a Service or a scalable that it selects.

    `wake_when` is BUSY where it holds and IDLE where it does not. `rivals` are the names of all policies of the same,
    highest priority, () where there is just this one.
    """

    policy: IdlingPolicy
    subject: ObjectRef
    verdict: Evaluation
    wake_when: Evaluation
    rivals: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class CombinedVerdict:
    """All bids for one scalable. Without any, nobody wants it idle."""

    bids: tuple[PolicyVerdict, ...] = ()
    blind: bool = False  # the policies are not known: nothing can be said of what they want

    @property
    def policy(self) -> IdlingPolicy | None:
        """The policy that owns the marks: of the highest priority, then the first by name."""
        return min((bid.policy for bid in self.bids), key=lambda policy: (-policy.priority, policy.name), default=None)

    @property
    def policies(self) -> tuple[IdlingPolicy, ...]:
        """Every policy that bids, once, by name."""
        found = {bid.policy.name: bid.policy for bid in self.bids}
        return tuple(found[name] for name in sorted(found))

    @property
    def says(self) -> CriterionResult:
        """Idle where all bids are, busy where any is, else unknown."""
        if self.blind:
            return CriterionResult.UNKNOWN
        if not self.bids:
            return CriterionResult.NOBODY
        said = {bid.verdict.says for bid in self.bids}
        if CriterionResult.BUSY in said:
            return CriterionResult.BUSY
        return CriterionResult.IDLE if said == {CriterionResult.IDLE} else CriterionResult.UNKNOWN

    @property
    def deciding(self) -> tuple[Evaluation, ...]:
        """The verdicts that make it say what it says."""
        return tuple(bid.verdict for bid in self.bids if bid.verdict.says is self.says)

    @property
    def words(self) -> str:
        if self.blind:
            return "the policies cannot be read"
        return ", ".join(dict.fromkeys(verdict.words for verdict in self.deciding)) or "no policy selects it"

    @property
    def flip(self) -> str:
        return " and ".join(dict.fromkeys(verdict.flip for verdict in self.deciding if verdict.flip))

    @property
    def values(self) -> Mapping[str, Any]:
        joined = {key: value for verdict in self.deciding for key, value in verdict.values.items()}
        return joined or NOTHING

    @property
    def until(self) -> datetime | None:
        """When the first schedule that keeps it idle ends."""
        return min((bid.verdict.until for bid in self.bids if bid.verdict.until is not None), default=None)

    @property
    def busy(self) -> PolicyVerdict | None:
        """The first bid of a policy that wakes by itself and calls it busy, None where none does."""
        return next((bid for bid in self.bids if bid.wakes and bid.verdict.says is CriterionResult.BUSY), None)

    @property
    def wake_when(self) -> PolicyVerdict | None:
        """The first bid of a policy that wakes by itself and whose `wakeWhen` holds, None for none."""
        return next((bid for bid in self.bids if bid.wakes and bid.wake_when.says is CriterionResult.BUSY), None)

    @property
    def unquiet(self) -> Evaluation | None:
        """A `wakeWhen` that holds or is unknown, of any policy."""
        return next((bid.wake_when for bid in self.bids if bid.wake_when.says is not CriterionResult.IDLE), None)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The policies of equal priority that select the same object, () where no two do."""
        return next((bid.rivals for bid in self.bids if bid.rivals), ())

    @property
    def observing(self) -> tuple[PolicyVerdict, ...]:
        """The bids of policies that only observe: it is not idled while there is one."""
        return tuple(bid for bid in self.bids if bid.policy.mode == "Observe")

    @property
    def enforcing(self) -> tuple[PolicyVerdict, ...]:
        return tuple(bid for bid in self.bids if bid.policy.mode == "Enforce")

    @property
    def idle_replicas(self) -> int:
        return max((bid.policy.idle_replicas for bid in self.bids), default=0)

    @property
    def min_age(self) -> timedelta:
        return max((bid.policy.min_age for bid in self.bids), default=timedelta(0))

    @property
    def min_awake(self) -> timedelta:
        return max((bid.policy.min_awake for bid in self.bids), default=UNDONE_HOLDS)

    @property
    def leaves_autoscalers(self) -> frozenset[str]:
        """Which kinds of autoscaler some policy leaves alone: "hpa", "keda"."""
        hpa = {"hpa" for bid in self.bids if bid.policy.hpa == "Leave"}
        return frozenset(hpa | {"keda" for bid in self.bids if bid.policy.keda == "Leave"})

    def window_end(self, now: datetime) -> datetime | None:
        """Return when the last of the schedule windows open now ends."""
        ends = [window_end(policy, now) for policy in self.policies]
        return max((end for end in ends if end is not None), default=None)


# Which policies select what on one cluster, and what they say of it.


@dataclass(frozen=True, slots=True)
class PolicyVerdicts:
    """The bids that count for one object, and those of policies that others win over."""

    won: tuple[PolicyVerdict, ...] = ()
    lost: tuple[PolicyVerdict, ...] = ()


_NONE = PolicyVerdicts()


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
        self._reaching = tuple(policy for policy in policies if policy.selector.selects_cluster(fleet_cluster))
        self._labels = namespace_labels(cluster)
        self._spaces: dict[str, tuple[IdlingPolicy, ...]] = {}
        self._judges: dict[str, tuple[Evaluator, Evaluator]] = {}
        self._services = {(service.ref.namespace, service.ref.name): service for service in cluster.services}
        self._answers = {
            policy.name: Answers(cluster.name, policy.name, said, now, partial(self._selects, policy))
            for policy in self._reaching
        }

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (policy, why) for every query that cannot be used as a whole."""
        for policy in self._reaching:
            for problem in self._answers[policy.name].problems(policy):
                yield policy.name, problem

    def on_service(self, service: Service) -> PolicyVerdicts:
        """Return the bids for `service`."""
        selecting = [policy for policy in self._in(service.ref.namespace) if policy.selector.selects_service(service)]
        return self._bids(service.ref, selecting, service.ref.name)

    def on_workload(self, workload: Workload) -> PolicyVerdicts:
        """Return the bids for `workload` of policies that select it directly."""
        selecting = [
            policy
            for policy in self._in(workload.ref.namespace)
            if policy.selector.workloads is not None and selects_workload(policy.selector.workloads, workload)
        ]
        return self._bids(workload.ref, selecting, None)

    def _selects(self, policy: IdlingPolicy, namespace: str, name: str) -> bool:
        service = self._services.get((namespace, name))
        return service is not None and policy in self._in(namespace) and policy.selector.selects_service(service)

    def _in(self, namespace: str) -> tuple[IdlingPolicy, ...]:
        if namespace not in self._spaces:
            labels = self._labels.get(namespace, {})
            self._spaces[namespace] = tuple(
                policy for policy in self._reaching if policy.selector.namespaces.matches(namespace, labels)
            )
        return self._spaces[namespace]

    def _bids(self, subject: ObjectRef, selecting: list[IdlingPolicy], service: str | None) -> PolicyVerdicts:
        if not selecting:
            return _NONE
        winners = deciding_policies(selecting)
        rivals = tuple(policy.name for policy in winners) if len(winners) > 1 else ()
        losers = [policy for policy in selecting if policy not in winners]
        return PolicyVerdicts(
            tuple(self._bid(policy, subject, service, rivals) for policy in winners),
            tuple(self._bid(policy, subject, service, ()) for policy in losers),
        )

    def _bid(
        self, policy: IdlingPolicy, subject: ObjectRef, service: str | None, rivals: tuple[str, ...]
    ) -> PolicyVerdict:
        if policy.name not in self._judges:
            answers = self._answers[policy.name]
            self._judges[policy.name] = (evaluator_of(policy, answers), wake_evaluator_of(policy, answers))
        judge, wakes = self._judges[policy.name]
        return PolicyVerdict(
            policy, subject, judge(subject.namespace, service), wakes(subject.namespace, service), rivals
        )
