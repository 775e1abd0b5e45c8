"""What limits count: what runs and what is idle, by cluster and tenant, and each decision of a run; and which decisions
are left, as limits hold some back.

What was idled before on the same hours is not counted (see `last_idled`): a limit does not stop what happened last
night as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property
from itertools import chain

from msgspec import Struct

from reconciler.decide.annotations import LAST_IDLED, fleet_names, idling_owner
from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.last_idled import last_idled
from reconciler.decide.selectors import namespace_labels
from reconciler.model import NOTHING, HorizontalPodAutoscaler, ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import IdlingPolicy, Limits, PolicySet, ReplicasLimits

PolicyKey = tuple[str, str]
"""(job, policy) that decides a decrease; two kinds of policies may have the same name.

A FederatedReplicaSet is "namespace/name", as people see it.
"""

UNITS = ("workloads", "replicas")
DAY = timedelta(hours=24)
_BOUND = (Phase.MOVE, Phase.DECREASE)


class LimitBases(Struct, frozen=True):
    """What limits count with: the replicas that run of each workload, the bases of each cluster and tenant by unit,
    and what policies idled for the first time in the last 24 hours.
    """

    running: Mapping[ObjectRef, int] = NOTHING
    clusters: Mapping[str, Mapping[str, int]] = NOTHING
    tenants: Mapping[str, Mapping[str, int]] = NOTHING
    idled: Mapping[ObjectRef, PolicyKey] = NOTHING

    def removed_by(self, decision: Decision) -> int:
        """Return how many replicas that really run a decision takes away."""
        running = self.running.get(decision.ref)
        if running is None or decision.replicas_after is None:
            return decision.removed
        return min(decision.removed, max(0, running - decision.replicas_after))


def limit_bases(policies: PolicySet, state: ObservedState, run: Run) -> LimitBases:
    """Return what limits count with: a base is what runs and what this Fleet idled, whose replicas count as 1."""
    fleet, fleets = policies.fleet, fleet_names(policies.fleet)
    clusters = {name: dict.fromkeys(UNITS, 0) for name in sorted(state.clusters)}
    tenants = {tenant.name: dict.fromkeys(UNITS, 0) for tenant in fleet.tenants}
    tenant_at = cache(fleet.tenant_at)
    workloads = list(chain.from_iterable(_unowned(cluster.workloads) for cluster in state.clusters.values()))
    running = {workload.ref: weight_of(workload) for workload in workloads if workload.kind.scaled_by != "Pause"}
    for workload in workloads:
        ref, annotations = workload.ref, workload.annotations
        owner = idling_owner(annotations) if annotations else None
        is_idle = owner is not None and owner[0] in fleets
        if ref in running and (is_idle or workload.spec_replicas > 0):
            tenant = tenant_at(ref.cluster, ref.namespace)
            for base in (clusters[ref.cluster], *((tenants[tenant.name],) if tenant else ())):
                base["workloads"] += 1
                base["replicas"] += 1 if is_idle else running[ref]
    return LimitBases(running, clusters, tenants, dict(_idled(policies, state, run.now)))


def _idled(policies: PolicySet, state: ObservedState, now: datetime) -> Iterator[tuple[ObjectRef, PolicyKey]]:
    """Yield what was idled for the first time in the last 24 hours, and by which policy.

    Anybody may write that on their workloads, and other Fleets do: it counts for a policy of this one that reaches
    them. What is still idle counts for the policy that owns it; where that is not there any more, as after a rename,
    for the one of the highest priority that reaches it.
    """
    fleets, names = fleet_names(policies.fleet), {policy.name for policy in policies.idling}
    ordered = sorted(policies.idling, key=lambda policy: (-policy.priority, policy.name))
    for cluster in state.clusters.values():
        labels, found = namespace_labels(cluster), policies.fleet.cluster(cluster.name)
        there = [policy for policy in ordered if found is not None and policy.selector.selects_cluster(found)]
        reaching: dict[str, dict[str, IdlingPolicy]] = {}
        holders: Iterator[Workload | HorizontalPodAutoscaler] = chain(_unowned(cluster.workloads), cluster.autoscalers)
        for holder in holders:
            last = last_idled(holder.annotations) if LAST_IDLED in holder.annotations else None
            if last is None or last.first is None or not now - DAY < last.first <= now:
                continue
            space, owner = holder.ref.namespace, idling_owner(holder.annotations)
            if space not in reaching:
                own = labels.get(space, NOTHING)
                reaching[space] = {one.name: one for one in there if one.selector.namespaces.matches(space, own)}
            is_ours = owner is not None and owner[0] in fleets
            name = owner[1] if is_ours and owner is not None else last.policy
            if is_ours and name not in names:
                name = next(iter(reaching[space]), "")
            if name in reaching[space]:
                yield holder.ref, ("idling", name)


def weight_of(workload: Workload) -> int:
    """Return the replicas that a workload counts: what really runs, and no more than is asked for.

    Whoever may write a number of replicas must not move a limit by it. A kind that does not say what runs counts 1.
    """
    if not workload.kind.counts:
        return 0
    return min(workload.spec_replicas, 1 if workload.status_replicas is None else workload.status_replicas)


def scalable_workloads(state: ObservedState) -> list[Workload]:
    """Return what limits count: everything with a scale that nothing else with a scale owns or scales."""
    return [
        workload
        for name in sorted(state.clusters)
        for workload in _unowned(state.clusters[name].workloads)
        if workload.kind.scaled_by != "Pause"
    ]


def _unowned(workloads: Sequence[Workload]) -> Iterator[Workload]:
    """Yield those of the `workloads` of a cluster that none of the others owns.

    A Deployment's annotations are copied to its ReplicaSets: what they say, the Deployment says too.
    """
    names = {(workload.ref.namespace, workload.ref.kind, workload.ref.name) for workload in workloads}
    for workload in workloads:
        if workload.owner is None or (workload.ref.namespace, workload.owner.kind, workload.owner.name) not in names:
            yield workload


# The decisions of a run, as the pools of limits count them.


class LimitedPolicy(Struct, frozen=True):
    """What limits know of a policy: its tenant, "" for the platform, its numbers, and where they are stated, or would
    be ("": nowhere). `lifted`: no limit counts it in this run, or only `limits`. `weights` divide its numbers among
    shards, () where it has them whole.
    """

    limits: Limits | ReplicasLimits = Limits()
    tenant: str = ""
    place: str = ""
    lifted: bool = False
    weights: tuple[int, ...] = ()


class LimitPool(Struct, frozen=True):
    """The number that the policies of a pool share, in one `cluster`, or in all of them (""). `base` is what a share
    is taken of, 0 where the number is `stated`.

    They are the one policy `owner`, those of `tenant`, or those of the platform that state nothing. Replicas of what
    idles count only where replicas are stated.
    """

    name: str
    unit: str
    allowed: int
    base: int = 0
    cluster: str = ""
    owner: PolicyKey | None = None
    tenant: str = ""
    stated: bool = False

    def has(self, owner: PolicyKey, policy: LimitedPolicy) -> bool:
        """Return whether `owner`, which is `policy`, is one of those that share it."""
        if self.owner is not None:
            return owner == self.owner
        if policy.lifted or policy.tenant != self.tenant:
            return False
        if self.unit == "replicas" and owner[0] == "idling":
            return self.stated
        return bool(self.tenant) or policy.limits.of(self.unit) is None


def owner_of(decision: Decision) -> PolicyKey:
    """Return whose decision it is."""
    return (decision.job, decision.policy)


class CountedDecisions:
    """What each decision counts, by unit, whose it is and where."""

    def __init__(
        self, decisions: Sequence[Decision], policy: Callable[[PolicyKey], LimitedPolicy], bases: LimitBases
    ) -> None:
        self._policy = policy
        self._weights: dict[tuple[str, str], int] = {}
        self._taking: dict[tuple[str, str], dict[PolicyKey, list[Decision]]] = {}
        for decision in decisions:
            if decision.phase not in _BOUND or decision.known:
                continue
            owner = owner_of(decision)
            for unit, weight in (("workloads", int(decision.idles)), ("replicas", bases.removed_by(decision))):
                if weight:
                    self._weights[unit, decision.key] = weight
                    for cluster in ("", decision.ref.cluster):
                        self._taking.setdefault((unit, cluster), {}).setdefault(owner, []).append(decision)
        again = {decision.ref for decision in decisions if ("workloads", decision.key) in self._weights}
        idled = [(ref, owner) for ref, owner in bases.idled.items() if ref not in again]
        self._wanted: dict[LimitPool, int] = {}
        self._spent: defaultdict[str, Counter[PolicyKey]] = defaultdict(Counter)
        for ref, owner in idled:
            self._spent[""][owner] += 1
            self._spent[ref.cluster][owner] += 1

    def in_pool(self, pool: LimitPool) -> Iterator[tuple[PolicyKey, list[Decision]]]:
        """Yield what each of those that share `pool` takes of it."""
        taking = self._taking.get((pool.unit, pool.cluster), {})
        return ((owner, taking[owner]) for owner in self._sharing(pool, taking))

    def _sharing(self, pool: LimitPool, owners: Mapping[PolicyKey, object]) -> Iterator[PolicyKey]:
        """Yield those of `owners` that share `pool`."""
        found = owners if pool.owner is None else owners.keys() & {pool.owner}
        return (owner for owner in found if pool.has(owner, self._policy(owner)))

    def sum(self, decisions: Iterable[Decision], unit: str) -> int:
        return sum(self._weights.get((unit, decision.key), 0) for decision in decisions)

    def spent(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it in the last 24 hours, as far as records say so."""
        if pool.unit != "workloads":
            return 0
        spent = self._spent[pool.cluster]
        return sum(spent[owner] for owner in self._sharing(pool, spent))

    def wanted(self, pool: LimitPool) -> int:
        """Return what those that share `pool` took of it, and all that they want."""
        if pool not in self._wanted:
            self._wanted[pool] = self.spent(pool) + sum(self.sum(found, pool.unit) for _, found in self.in_pool(pool))
        return self._wanted[pool]

    def spent_by(self, owner: PolicyKey, unit: str, cluster: str = "") -> int:
        return self._spent[cluster][owner] if unit == "workloads" else 0

    def needed(self, owner: PolicyKey, unit: str) -> int:
        """Return what `owner` took, and all that it wants."""
        return self.sum(self._taking.get((unit, ""), {}).get(owner, ()), unit) + self.spent_by(owner, unit)


class RemainingDecisions:
    """The decisions that no limit holds back yet, and what is bound to them. `held` are the keys of the others, each
    with the policy that it is held back for.
    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._decisions = decisions
        self.held: dict[str, PolicyKey] = {}

    @cached_property
    def _decreases(self) -> dict[str, list[str]]:
        """The keys of the decreasing steps of each group."""
        found: dict[str, list[str]] = {}
        for decision in self._decisions:
            if decision.phase in _BOUND:
                found.setdefault(decision.group, []).append(decision.key)
        return found

    @cached_property
    def _needed_by(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for decision in self._decisions:
            for key in decision.needs:
                found.setdefault(key, []).append(decision.key)
        return found

    def left_of(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Return those of `decisions` that are left."""
        return [decision for decision in decisions if decision.key not in self.held]

    def hold_back(self, taking: Iterable[Decision], owner: PolicyKey) -> set[str]:
        """Hold back `taking` for `owner`, and everything bound to them: the other decreasing steps of an idling group,
        and whatever needs one of them, so that no half step is left. Return the keys of all of that.
        """
        out: set[str] = set()
        more = [decision.key for decision in taking]
        for group in {decision.group for decision in taking if decision.job == "idling"}:
            more += self._decreases[group]
        while more:
            key = more.pop()
            if key not in self.held and key not in out:
                out.add(key)
                more += self._needed_by.get(key, ())
        self.held.update(dict.fromkeys(out, owner))
        return out
