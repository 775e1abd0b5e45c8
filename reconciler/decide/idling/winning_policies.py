"""Which policies select or exclude what on one cluster, and what they say of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial

from reconciler.decide.decisions import Notice
from reconciler.decide.idling.criteria import Evaluator, Exclusions, PolicyVerdict, Verdict, evaluator_of
from reconciler.decide.idling.scale import Scale
from reconciler.decide.idling.subjects import ServiceState
from reconciler.decide.query_answers import Answers
from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.decide.selectors import SelectingPolicies, of_highest_priority
from reconciler.model import NOTHING, ObjectRef, ObservedCluster, QueryAnswer, QueryKey, Service, Workload
from reconciler.policy.types import FleetCluster, IdlingPolicy

_NOT_SELECTED = Verdict()


def _decided(said: Sequence[PolicyVerdict]) -> Verdict:
    """Return what the policies that select one object come to: several count only with equal priority.

    One that only observes decides nothing, so it never stands in the way of one that enforces.
    """
    enforcing = [verdict.policy for verdict in said if verdict.policy.mode == "Enforce"]
    deciding = of_highest_priority(enforcing or [verdict.policy for verdict in said])
    names = tuple(sorted(policy.name for policy in deciding))
    won = tuple(sorted((one for one in said if one.policy.name in names), key=lambda one: one.policy.name))
    lost = tuple(verdict for verdict in said if verdict.policy.name not in names)
    return Verdict(won, lost, equal_policies=names if len(names) > 1 else ())


def without(verdict: Verdict, policies: Collection[str]) -> Verdict:
    """Return what is said where `policies`, by name, say nothing: where all that won go, the next ones win."""
    if not policies:
        return verdict
    return _decided([own for own in (*verdict.won, *verdict.lost) if own.policy.name not in policies])


class ClusterVerdicts:
    """Keeps what was found once for all: the policies of each namespace, and how each policy judges.

    `policies` None: they cannot be read, so nothing is known of what they want.
    """

    def __init__(
        self,
        policies: Sequence[IdlingPolicy] | None,
        cluster: ObservedCluster,
        fleet_cluster: FleetCluster,
        said: Mapping[QueryKey, QueryAnswer],
        now: datetime,
    ) -> None:
        self._cluster = cluster
        self._without_policies = policies is None
        self._selecting = SelectingPolicies(policies or (), fleet_cluster, cluster)
        self._reaching = self._selecting.reaching
        self._excludes = any(policy.exclude for policy in self._reaching)
        # What these say is about one Service; all else is the same for all that they select.
        self._by_service = {policy.name for policy in self._reaching if any(policy.queries)}
        self._evaluators: dict[str, Evaluator] = {}
        self._verdicts_by_names: dict[tuple[str, ...], Verdict] = {}
        services = {(service.ref.namespace, service.ref.name): service for service in cluster.services}
        self._answers = {
            policy.name: Answers(
                cluster.name, policy.name, said, now, partial(_selects, policy, services, self._selecting)
            )
            for policy in self._reaching
        }

    def problems(self) -> Iterator[Notice]:
        """Yield, for each query that cannot be used as a whole, that what it would decide is unknown."""
        cluster = self._cluster.name
        for policy in self._reaching:
            for query, why in self._answers[policy.name].problems(policy):
                text = f"{cluster}: a query is unknown: {query}: {why}"
                yield Notice("unknownQuery", f"{cluster}/{policy.name}", text, policy.name, reasons=(why,))

    def exclusions(self, *found: Workload | Service) -> Exclusions:
        """Return which policies exclude one of `found`, all in one namespace, whether they select it or not."""
        if not self._excludes:
            return NOTHING
        result: dict[str, Reason] = {}
        for excluded in found:
            service = excluded.ref.name if isinstance(excluded, Service) else ""
            for policy, field in self._selecting.excluding(excluded):
                why = reason(ReasonCode.EXCLUDED_BY_POLICY, policy=policy.name, service=service, field=field)
                result.setdefault(policy.name, why)
        return result

    @cached_property
    def direct(self) -> dict[ObjectRef, Verdict]:
        """The verdicts on each workload that some policy selects by itself, those that exclude it included."""
        found = ((workload.ref, self._selecting.on_workload(workload)) for workload in self._cluster.workloads)
        return {ref: self._shared_verdicts(selecting) for ref, selecting in found if selecting}

    def on_scalable(self, scale: Scale, behind: Sequence[ServiceState]) -> tuple[Verdict, frozenset[str]]:
        """Return what is said of `scale` by itself and through the Services that it is `behind` as one, of each policy
        once; and the policies that select it by itself.
        """
        if not (behind or self._excludes or self._without_policies) and scale.runs is scale.written:
            verdict = self.direct.get(scale.ref, _NOT_SELECTED)  # one value for all that the same policies select
            return verdict, verdict.names
        itself = [self.direct[ref] for ref in dict.fromkeys((scale.ref, scale.runs.ref)) if ref in self.direct]
        excluded = self.exclusions(scale.written, scale.runs)
        for service in behind:
            excluded = {**service.excluded, **excluded} if service.excluded else excluded
        told: tuple[Reason, ...] = ()
        if excluded:  # said of those that would select it otherwise
            selecting = [*itself, *(self.on_service(service.service) for service in behind)]
            names = {own.policy.name for verdict in selecting for own in (*verdict.won, *verdict.lost)}
            told = tuple(excluded[name] for name in sorted(names & excluded.keys()))
        itself = [without(verdict, excluded) for verdict in itself]
        through = [without(service.verdict, excluded) for service in behind]
        direct = frozenset[str]().union(*(verdict.names for verdict in itself))
        if len(itself) + len(through) == 1 and not (told or self._without_policies):
            return (*itself, *through)[0], direct
        won = [verdict for said in through for verdict in said.won]
        known = {verdict.policy.name for verdict in won}
        won += [verdict for said in itself for verdict in said.won if verdict.policy.name not in known]
        lost = [verdict for said in (*through, *itself) for verdict in said.lost]
        if enforcing := [verdict for verdict in won if verdict.policy.mode == "Enforce"]:
            lost += [verdict for verdict in won if verdict not in enforcing]
            won = enforcing
        equals = (said.equal_policies for said in (*through, *itself) if said.won and said.won[0] in won)
        equal = next(filter(None, equals), ())
        return Verdict(tuple(won), tuple(lost), self._without_policies, told, equal), direct

    def on_service(self, service: Service) -> Verdict:
        """Return the verdicts for `service`, of those that exclude it too."""
        selecting = self._selecting.on_service(service)
        if any(policy.name in self._by_service for policy in selecting):
            return self._verdicts(selecting, service.ref.namespace, service.ref.name)
        return self._shared_verdicts(selecting)

    def _shared_verdicts(self, selecting: list[IdlingPolicy]) -> Verdict:
        """Return the verdicts of `selecting`, one value for all that these policies select."""
        names = tuple(policy.name for policy in selecting)
        if names not in self._verdicts_by_names:
            self._verdicts_by_names[names] = self._verdicts(selecting)
        return self._verdicts_by_names[names]

    def _verdicts(self, selecting: list[IdlingPolicy], namespace: str = "", service: str | None = None) -> Verdict:
        for policy in selecting:
            if policy.name not in self._evaluators:
                self._evaluators[policy.name] = evaluator_of(policy, self._answers[policy.name])
        return _decided([self._evaluators[policy.name](namespace, service) for policy in selecting])


def _selects(
    policy: IdlingPolicy,
    services: Mapping[tuple[str, str], Service],
    selecting: SelectingPolicies[IdlingPolicy],
    namespace: str,
    name: str,
) -> bool:
    service = services.get((namespace, name))
    return service is not None and any(one is policy for one in selecting.on_service(service))
