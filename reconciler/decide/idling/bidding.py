"""Which policies select what on one cluster, and what they say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from reconciler.decide.idling.criteria import Answers, Judge, judge_of, wake_judge_of
from reconciler.decide.idling.wants import Bid, winning
from reconciler.decide.selectors import namespace_labels, selects_workload
from reconciler.model import ObjectRef, ObservedCluster, QueryAnswer, QueryKey, Service, Workload
from reconciler.policy.types import FleetCluster, IdlingPolicy


@dataclass(frozen=True, slots=True)
class Bids:
    """The bids that count for one object, and those of policies that others win over."""

    won: tuple[Bid, ...] = ()
    lost: tuple[Bid, ...] = ()


_NONE = Bids()


class Bidding:
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
        self._judges: dict[str, tuple[Judge, Judge]] = {}
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

    def on_service(self, service: Service) -> Bids:
        """Return the bids for `service`."""
        selecting = [policy for policy in self._in(service.ref.namespace) if policy.selector.selects_service(service)]
        return self._bids(service.ref, selecting, service.ref.name)

    def on_workload(self, workload: Workload) -> Bids:
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

    def _bids(self, subject: ObjectRef, selecting: list[IdlingPolicy], service: str | None) -> Bids:
        if not selecting:
            return _NONE
        winners = winning(selecting)
        rivals = tuple(policy.name for policy in winners) if len(winners) > 1 else ()
        losers = [policy for policy in selecting if policy not in winners]
        return Bids(
            tuple(self._bid(policy, subject, service, rivals) for policy in winners),
            tuple(self._bid(policy, subject, service, ()) for policy in losers),
        )

    def _bid(self, policy: IdlingPolicy, subject: ObjectRef, service: str | None, rivals: tuple[str, ...]) -> Bid:
        if policy.name not in self._judges:
            answers = self._answers[policy.name]
            self._judges[policy.name] = (judge_of(policy, answers), wake_judge_of(policy, answers))
        judge, wakes = self._judges[policy.name]
        return Bid(policy, subject, judge(subject.namespace, service), wakes(subject.namespace, service), rivals)
