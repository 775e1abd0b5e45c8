"""The policies of histories, by variant: small numbers stand for them in steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.types import (
    AllOf,
    AnyOf,
    ClusterPreference,
    DownscalePolicy,
    DownscaleTarget,
    FederatedReplicaSet,
    Fleet,
    IdlingPolicy,
    Limits,
    ObjectSelector,
    PolicySet,
    Selector,
    WakeMetric,
    WakeOrder,
    WorkloadSelector,
)
from tests.builders import NO_LIMITS, a_downscale_policy, a_fleet, a_policy_set, fleet_limits
from tests.decide.idling.idling_policies import REQUESTS, a_metric, a_policy, a_schedule
from tests.decide.placement.placements import a_federated
from tests.pipeline.loop_world import CLUSTERS

SERVICES = Selector(services=ObjectSelector())
WORKLOADS = Selector(workloads=WorkloadSelector())
NAMED = Selector(workloads=WorkloadSelector(("Deployment", "ScaledObject", "CronJob", "ReplicaSet", "StatefulSet")))
BOTH = Selector(services=ObjectSelector(), workloads=WorkloadSelector(("CronJob", "Deployment", "StatefulSet")))
SPREAD = Selector(workloads=WorkloadSelector(("ReplicaSet",)))
HOUR = timedelta(hours=1)
_IDLING: tuple[dict[str, Any], ...] = (
    {"selector": SERVICES},
    {"selector": SERVICES, "idle_when": AllOf((a_metric(),)), "wake": "OnSignal"},
    {"selector": SERVICES, "idle_when": AllOf((a_schedule(), a_metric()))},
    {"selector": WORKLOADS},
    {"selector": NAMED, "idle_replicas": 1},
    {"selector": BOTH, "wake": "OnSignal", "wake_when": (WakeMetric(REQUESTS, 0, "5m"),)},
    {"selector": SERVICES, "mode": "Observe"},
    {"selector": WORKLOADS, "wake_order": WakeOrder("shop", per_run=2)},
    {"selector": SERVICES, "idle_when": AllOf((AnyOf((a_schedule(), a_metric())),))},
    {"selector": SPREAD},
    {"selector": BOTH, "mark_endpoints": True, "min_age": HOUR},
    {"selector": SERVICES, "hpa": "Leave", "keda": "Leave", "min_awake": timedelta(0)},
    {"selector": SERVICES, "hpa": "LowerMinimum", "idle_replicas": 1},
    {"selector": NAMED, "hpa": "LowerMinimum", "idle_replicas": 1, "min_awake": timedelta(0)},
)
EVERYWHERE = {"*": ClusterPreference(weight=1)}
_SPREADS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"clusters": {"east": ClusterPreference(weight=1)}},
    {"clusters": {"west": ClusterPreference(weight=1), "north": ClusterPreference(weight=1)}},
    {"clusters": {"east": ClusterPreference(2, None, 1), **EVERYWHERE}},
    {"version": 2},
    {"selects": 2},
    {"rebalance": False},
    {"paused": True},
    {"rounding": "KubeFed", "clusters": {"west": ClusterPreference(0, 4, 3), **EVERYWHERE}},
)
_FRONTS: tuple[dict[str, Any], ...] = (
    {"clusters": EVERYWHERE},
    {"clusters": {"east": ClusterPreference(weight=1), "west": ClusterPreference(weight=1)}},
    {"clusters": {"north": ClusterPreference(1, None, 1)}},
    {"clusters": EVERYWHERE, "rebalance": False},
    {"clusters": EVERYWHERE, "paused": True},
)
_DOWNSCALES: tuple[tuple[tuple[str, ...], DownscaleTarget], ...] = (
    (("Deployment",), DownscaleTarget(replicas=2)),
    (("Deployment",), DownscaleTarget(replicas=2, direction="Both")),
    (("Deployment", "ReplicaSet"), DownscaleTarget(replicas=0)),
    (("StatefulSet",), DownscaleTarget(replicas=3, direction="Both")),
)
NAMES = ("production", "staging")


def an_idling(name: str, variant: int) -> IdlingPolicy:
    """The later of two names wins; those of variant 6 and up share a priority with others now and then."""
    return a_policy(name, **{"priority": ord(name), **_IDLING[variant]})


def a_spread(variant: int, total: int) -> FederatedReplicaSet:
    """Of local ReplicaSets that we make; of another version the template is another one, or the selector too."""
    fields = dict(_SPREADS[variant])
    version, selects = fields.pop("version", 1), fields.pop("selects", 1)
    labels = {"app": "spread"} if selects == 1 else {"app": "spread", "selects": str(selects)}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": f"spread:{version}"}]},
    }
    defaults = {"name": "spread", "selector": {"matchLabels": labels}, "template": template, "clusters": EVERYWHERE}
    return a_federated(total, **{**defaults, "digest": f"{variant:012}", **fields})


def a_front(variant: int, total: int) -> FederatedReplicaSet:
    """Of Deployments that were there before."""
    target = TargetRef("apps/v1", "Deployment", "front")
    fields = {"name": "front", "selector": None, "template": None, "target": target, "digest": f"f{variant:011}"}
    return a_federated(total, **{**fields, **_FRONTS[variant]})


def a_downscale(variant: int) -> DownscalePolicy:
    kinds, target = _DOWNSCALES[variant]
    names = ObjectSelector(("batch", "db", "spread"))
    return a_downscale_policy("shrink", selector=Selector(workloads=WorkloadSelector(kinds, names)), target=target)


class Policies:
    """What is in git now."""

    def __init__(self) -> None:
        self.name = NAMES[0]
        self.idling: dict[str, IdlingPolicy] = {}
        self.spread: FederatedReplicaSet | None = None
        self.front: FederatedReplicaSet | None = None
        self.downscale: DownscalePolicy | None = None
        self.states: dict[str, str] = dict.fromkeys(CLUSTERS, "Active")
        self.production: frozenset[str] = frozenset()  # which no policy says that it selects
        self.limit: int | None = None

    @property
    def fleet(self) -> Fleet:
        limits = NO_LIMITS if self.limit is None else fleet_limits(self.limit)
        made = a_fleet(*CLUSTERS, name=self.name, former_names=NAMES, limits=limits)
        clusters = (
            replace(one, state=self.states[one.name], production=one.name in self.production) for one in made.clusters
        )
        return replace(made, clusters=tuple(clusters))

    @property
    def all(self) -> PolicySet:
        federated = tuple(one for one in (self.front, self.spread) if one is not None)
        own = Limits(workloads=3, replicas=3) if self.limit == 3 else Limits()
        return a_policy_set(
            self.fleet,
            idling=tuple(replace(self.idling[name], limits=own) for name in sorted(self.idling)),
            federated=federated,
            downscale=(self.downscale,) if self.downscale is not None else (),
        )

    def clear(self) -> None:
        """Only the Fleet is left."""
        self.idling, self.spread, self.front, self.downscale = {}, None, None, None
