"""How much one run may take down for the first time: the limits that policies, tenants and the Fleet state, and the
defaults, which are shares of what there is.

Every limit is a pool: a number, and the policies that share it. A policy that states a number has a pool of its own;
all that state none share one in each cluster and one in the Fleet; the policies of a tenant share that of the tenant.
What exceeds a limit is held back: see `held_back.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import chain

from msgspec import UNSET, Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, fleet_names, idling_owner
from reconciler.decide.decisions import Decision
from reconciler.decide.last_idled import last_idled
from reconciler.decide.selectors import namespace_labels
from reconciler.model import NOTHING, HorizontalPodAutoscaler, ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import (
    DefaultLimit,
    DownscalePolicy,
    FederatedReplicaSet,
    Fleet,
    IdlingPolicy,
    Limits,
    PolicySet,
    ReplicasLimits,
    Shard,
    Tenant,
)

PolicyKey = tuple[str, str]
"""(job, policy) that decides a decrease; two kinds of policies may have the same name.

A FederatedReplicaSet is "namespace/name", as people see it.
"""

UNITS = ("workloads", "replicas")
DAY = timedelta(hours=24)
FLEET_DEFAULT = "fleet default"  # the names of pools that no policy can have: no policy has a space in its name
TENANT = "tenant "
_TENANT_SHARE = 0.25
_LEAST_REPLICAS = 10  # of a default, whatever the Fleet states
_TENANT_LEAST = {"workloads": 3, "replicas": _LEAST_REPLICAS}


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


# What policies state.


def policy_names(policies: PolicySet) -> frozenset[str]:
    """Return the names of all policies that take something away: "namespace/name" of a FederatedReplicaSet."""
    return frozenset(name for (_, name), _ in _named(policies))


def spellings_of(policy: str, job: str = "placement") -> tuple[str, ...]:
    """Return how `policy` may be named: a FederatedReplicaSet, "shop/web", by its name alone too."""
    bare = policy.rpartition("/")[2]
    return (policy,) if bare == policy or job != "placement" else (policy, bare)


def limited_policies(policies: PolicySet, lifted: Mapping[str, int | None]) -> dict[PolicyKey, LimitedPolicy]:
    """Return what limits know of each policy. `lifted` are the names given to --allow-exceed, with their bounds."""
    found: dict[PolicyKey, LimitedPolicy] = {}
    for owner, policy in _named(policies):
        limits, place = policy.limits, "" if policy.limits_place is None else str(policy.limits_place)
        bounds = [lifted[name] for name in spellings_of(owner[1], owner[0]) if name in lifted]
        if bounds:
            bound = UNSET if bounds[0] is None else bounds[0]
            limits = Limits(workloads=bound) if owner[0] == "idling" else Limits(replicas=bound)
        weights: tuple[int, ...] = ()
        if policies.shard is not None and not isinstance(policy, FederatedReplicaSet):  # one decides all of placement
            weights = policies.shard.weights(policy.selector.selects_cluster, policy.selector.namespaces.include)
        found[owner] = LimitedPolicy(limits, policy.tenant, place, bool(bounds), weights)
    return found


def _named(policies: PolicySet) -> Iterator[tuple[PolicyKey, IdlingPolicy | DownscalePolicy | FederatedReplicaSet]]:
    yield from ((("idling", policy.name), policy) for policy in policies.idling)
    yield from ((("downscale", policy.name), policy) for policy in policies.downscale)
    yield from ((("placement", federated.key), federated) for federated in policies.federated)


# The numbers.


class RunLimits(Struct, frozen=True):
    """The limits of a run: what they know of policies, of each that is `gone`, and of clusters.

    Those of a `shard` together are never more than those of the Fleet: what is stated is divided, a share of what each
    sees is rounded down (only in one of them up), and only what it sees the whole of has a least.
    """

    policies: Mapping[PolicyKey, LimitedPolicy]
    gone: LimitedPolicy
    bases: LimitBases
    fleet: Fleet
    shard: Shard | None = None

    def policy(self, owner: PolicyKey) -> LimitedPolicy:
        return self.policies.get(owner, self.gone)

    def own_pools(self) -> Iterator[LimitPool]:
        """Yield the pools of single policies, which hold back before those that are shared."""
        for owner, policy in self.policies.items():
            numbers = ((unit, policy.limits.of(unit)) for unit in UNITS)
            yield from (
                LimitPool(owner[1], unit, self._part(number, policy.weights), owner=owner)
                for unit, number in numbers
                if number is not None
            )

    def shared_pools(self) -> Iterator[LimitPool]:
        """Yield the pools of several policies, in the order in which they hold back."""
        default = self.fleet.limits.default
        together = {unit: sum(base[unit] for base in self.bases.clusters.values()) for unit in UNITS}
        for unit in UNITS:
            for name, base in self.bases.clusters.items():
                whole = self.shard is None or not self.shard.placed
                allowed = self._share(default.per_cluster.share, base[unit], _least(default.per_cluster, unit), whole)
                yield LimitPool(FLEET_DEFAULT, unit, allowed, base[unit], name)
            allowed = self._share(default.fleet.share, together[unit], _least(default.fleet, unit))
            yield LimitPool(FLEET_DEFAULT, unit, allowed, together[unit])
        for tenant in self.fleet.tenants:
            for unit, least in _TENANT_LEAST.items():
                stated, inside = tenant.limits.of(unit), self.bases.tenants[tenant.name][unit]
                number = self._share(_TENANT_SHARE, inside, least)
                if stated is not None:
                    number = self._part(stated, self.weights_of(tenant))
                pool = LimitPool(f"{TENANT}{tenant.name}", unit, number, inside, tenant=tenant.name)
                yield pool if stated is None else replace(pool, base=0, stated=True)

    def _share(self, share: float, base: int, least: int, whole: bool = False) -> int:
        if self.shard is None or whole:
            return max(math.ceil(share * base - 1e-9), least)
        return math.ceil(share * base - 1e-9) if self.shard.is_placing else math.floor(share * base + 1e-9)

    def _part(self, number: int, weights: Sequence[int]) -> int:
        return self.shard.part(number, weights) if self.shard is not None and weights else number

    def weights_of(self, tenant: Tenant) -> tuple[int, ...]:
        if self.shard is None:
            return ()
        return self.shard.weights(lambda cluster: tenant.has_cluster(cluster.name), tenant.namespaces)


def _least(limit: DefaultLimit, unit: str) -> int:
    return limit.at_least if unit == "workloads" else max(limit.at_least, _LEAST_REPLICAS)


# What they are shares of.


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
        there = {one.name: one for one in ordered if found is not None and one.selector.selects_cluster(found)}
        first = cache(partial(_first_reaching, tuple(there.values()), labels))
        holders: Iterator[Workload | HorizontalPodAutoscaler] = chain(_unowned(cluster.workloads), cluster.autoscalers)
        for holder in holders:
            last = last_idled(holder.annotations) if Key.LAST_IDLED in holder.annotations else None
            if last is None or last.first is None or not now - DAY < last.first <= now:
                continue
            space, owner = holder.ref.namespace, idling_owner(holder.annotations)
            is_ours = owner is not None and owner[0] in fleets
            name = owner[1] if is_ours and owner is not None else last.policy
            if is_ours and name not in names:
                name = first(space)
            if name in there and _first_reaching((there[name],), labels, space):
                yield holder.ref, ("idling", name)


def _first_reaching(policies: Iterable[IdlingPolicy], labels: Mapping[str, Mapping[str, str]], namespace: str) -> str:
    """Return the first of `policies` that selects `namespace`, "" for none; `labels` are those of all namespaces."""
    own = labels.get(namespace, NOTHING)
    return next((one.name for one in policies if one.selector.namespaces.matches(namespace, own)), "")


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
    if all(workload.owner is None for workload in workloads):
        yield from workloads
        return
    names = {(workload.ref.namespace, workload.ref.kind, workload.ref.name) for workload in workloads}
    for workload in workloads:
        if workload.owner is None or (workload.ref.namespace, workload.owner.kind, workload.owner.name) not in names:
            yield workload
