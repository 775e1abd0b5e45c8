"""Builders: values a test does not care about are filled in."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from reconciler.connection_settings import ClusterConnection, PodPicker
from reconciler.decide.decisions import LimitUse, PolicyExplanation
from reconciler.decide.downscale.victim_choice import DEFAULT
from reconciler.decide.reasons import Reason, ReasonCode
from reconciler.decide.victim_fields import NO_VICTIMS, DownscaleSettings, Strategy, VictimForecast
from reconciler.labels import LabelSelector
from reconciler.model import (
    Endpoints,
    EndpointSlice,
    HorizontalPodAutoscaler,
    Namespace,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Pod,
    Run,
    Service,
    Switch,
    Workload,
)
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.kinds.fields import ClusterDefaultLimit, DefaultLimits, FleetLimits, Share
from reconciler.policy.load import check_documents
from reconciler.policy.policy_files import PolicyDocuments
from reconciler.policy.types import (
    Autoscalers,
    DefaultLimit,
    DownscalePolicy,
    FederatedReplicaSet,
    Fleet,
    FleetCluster,
    IdlingPolicy,
    Place,
    PolicySet,
    WakeOrder,
)
from reconciler.workload_kinds import CRON_JOB
from reconciler.yaml.reader import read_documents

NOW = datetime(2026, 11, 20, 15, 41, 23, tzinfo=UTC)  # a Friday
NOW_NS = int(NOW.timestamp()) * 10**9


_GROUPS = {
    **dict.fromkeys(("Service", "Pod", "Endpoints", "ReplicationController"), ""),
    "CronJob": "batch",
    "HorizontalPodAutoscaler": "autoscaling",
    "ScaledObject": "keda.sh",
}


def a_ref(name: str = "web", *, cluster: str = "east", namespace: str = "shop", kind: str = "Deployment") -> ObjectRef:
    return ObjectRef(cluster, namespace, kind, name, _GROUPS.get(kind, "apps"))


def a_workload(
    name: str = "web",
    *,
    replicas: int | None = 3,
    cluster: str = "east",
    namespace: str = "shop",
    kind: str = "Deployment",
    suspend: bool | None = None,
    **fields: Any,
) -> Workload:
    """A settled workload: all of its replicas are there, ready and available. `suspend` is that of a CronJob."""
    settled = 1 if replicas is None else replicas
    ref = a_ref(name, cluster=cluster, namespace=namespace, kind=kind)
    defaults: dict[str, Any] = {
        "uid": f"uid-{cluster}-{namespace}-{kind}-{name}",
        "api_version": f"{ref.group}/v1" if ref.group else "v1",
        "replicas": replicas,
        "template_labels": {"app": name},
        "selector": LabelSelector((("app", name),)),
        "generation": 1,
        "observed_generation": 1,
        "status_replicas": settled,
        "ready_replicas": settled,
        "available_replicas": settled,
        "updated_replicas": settled,
    }
    if kind == "CronJob":
        defaults |= {"switch": Switch(CRON_JOB, suspend), "replicas_path": CRON_JOB.replicas_path}
    return Workload(ref=ref, **(defaults | fields))


def a_service(name: str = "web", *, cluster: str = "east", namespace: str = "shop", **fields: Any) -> Service:
    ref = a_ref(name, cluster=cluster, namespace=namespace, kind="Service")
    defaults: dict[str, Any] = {"uid": f"uid-{cluster}-{namespace}-Service-{name}", "selector": {"app": name}}
    return Service(ref=ref, **(defaults | fields))


def an_hpa(name: str = "web", *, cluster: str = "east", **fields: Any) -> HorizontalPodAutoscaler:
    """A HorizontalPodAutoscaler of the Deployment with its name, from 2 to 10 replicas."""
    ref = a_ref(name, cluster=cluster, kind="HorizontalPodAutoscaler")
    defaults = {"target": ("Deployment", name), "maximum": 10, "minimum": 2}
    return HorizontalPodAutoscaler(ref, "uid-hpa", **(defaults | fields))


def an_idle_record(
    replicas: object = 3, owner: str = "production/IdlingPolicy/idle-dev", at: str = "2026-11-20T21:00:00Z", **more: str
) -> dict[str, str]:
    """The annotations of what `owner` idled; `more` are others of ours, as idled_to="0"."""
    record = {"idling.kubernetes.io/idled-at": at, "idling.kubernetes.io/previous-scale": f"{replicas}"}
    named = {f"reconciler/{key.replace('_', '-')}": text for key, text in more.items()}
    return record | {"reconciler/owner": owner} | named


def an_endpoints(**fields: Any) -> Endpoints:
    return Endpoints(a_ref(kind="Endpoints"), "uid-endpoints-web", **fields)


def an_endpoint_slice(service: str = "web", *pods: str, name: str = "web-x", **fields: Any) -> EndpointSlice:
    """A slice of a Service, with the pods that it names behind it."""
    ref = ObjectRef("east", "shop", "EndpointSlice", name, "discovery.k8s.io")
    return EndpointSlice(ref, service, tuple((pod, f"uid-{pod}") for pod in pods), **fields)


def a_pod(name: str = "web-1", **fields: Any) -> Pod:
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "node": "node-1",
        "ready_since_ns": NOW_NS - 3600 * 10**9,
        "created_ns": NOW_NS - 3600 * 10**9,
        "namespace": "shop",
        "cluster": "east",
    }
    return Pod(name=name, **(defaults | fields))


def a_namespace(name: str = "shop", *, cluster: str = "east", **fields: Any) -> Namespace:
    return Namespace(ObjectRef(cluster, "", "Namespace", name), uid=f"uid-{cluster}-{name}", **fields)


def a_cluster(name: str = "east", **fields: Any) -> ObservedCluster:
    """An observed cluster; namespaces are made for the workloads and services given, where none are."""
    objects = [*fields.get("workloads", ()), *fields.get("services", ())]
    spaces = sorted({found.ref.namespace for found in objects})
    defaults: dict[str, Any] = {
        "identity": f"identity-{name}",
        "namespaces": tuple(a_namespace(space, cluster=name) for space in spaces),
    }
    return ObservedCluster(name=name, **(defaults | fields))


def a_state(*clusters: ObservedCluster, **fields: Any) -> ObservedState:
    return ObservedState(clusters={cluster.name: cluster for cluster in clusters}, **fields)


LEAST = """\
---
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: production}
spec: {home: east, clusters: [{name: east}]}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-dev}
spec: {selector: {services: {}}, idleWhen: [{schedule: {timeZone: UTC, downtime: ["20:00-07:00"]}}]}
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: shop}
spec: {replicas: 6, targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: shrink}
spec: {selector: {workloads: {}}}
"""


def policies_of(text: str, file: str = "policies/all.yaml") -> PolicySet:
    """What the policies in `text` become; they must be right."""
    read = read_documents(file, text)
    documents = PolicyDocuments(tuple(read.found), tuple(read.problems), True, "", "policies")
    policies, problems = check_documents(documents)
    assert policies is not None, problems
    return policies


@lru_cache(maxsize=1)
def least_policies() -> PolicySet:
    """One policy of each kind that states no more than it must: all else is at the default of its kind."""
    return policies_of(LEAST, "least.yaml")


def an_idling_policy(name: str, **fields: Any) -> IdlingPolicy:
    """An IdlingPolicy with the defaults of its kind, in a group without a name; `hpa`, `keda`: of its autoscalers."""
    place = Place(f"policies/{name}.yaml", 4)
    autoscalers = Autoscalers(**{one: fields.pop(one) for one in ("hpa", "keda") if one in fields})
    defaults: dict[str, Any] = {"name": name, "place": place, "wake_order": WakeOrder(""), "autoscalers": autoscalers}
    return replace(least_policies().idling[0], **(defaults | fields))


def a_federated_replica_set(name: str = "web", namespace: str = "shop", **fields: Any) -> FederatedReplicaSet:
    """A FederatedReplicaSet of Deployments called like it, with the defaults of its kind.

    `rebalance` and `clusters` are those of its preferences.
    """
    least = least_policies().federated[0]
    preferences = {one: fields.pop(one) for one in ("rebalance", "clusters") if one in fields}
    defaults: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "place": Place(f"policies/{name}.yaml", 4),
        "target": TargetRef("apps/v1", "Deployment", name),
        "digest": "",
        "preferences": replace(least.preferences, **preferences),
    }
    return replace(least, **(defaults | fields))


def a_downscale_policy(name: str, **fields: Any) -> DownscalePolicy:
    """A DownscalePolicy with the defaults of its kind."""
    place = Place(f"policies/{name}.yaml", 4)
    return replace(least_policies().downscale[0], **({"name": name, "place": place} | fields))


def fleet_limits(workloads: int = 10**6, *, share: float = 0.0, fleet: int = 10**6) -> FleetLimits:
    """The limits of a Fleet: `workloads` or `share` in each cluster, `fleet` of them in all."""
    each, everywhere = ClusterDefaultLimit(Share(share), workloads), DefaultLimit(Share(0.0), fleet)
    return FleetLimits(default=DefaultLimits(per_cluster=each, fleet=everywhere))


NO_LIMITS = fleet_limits()


def a_picker(host: str = "picker.svc", **fields: Any) -> PodPicker:
    return replace(PodPicker(host, 443, "https", "/", (), None, False, 3, 5.0, "fallback", "fill"), **fields)


def a_forecast(
    pods: tuple[str, ...] = (), certain: bool = True, strategy: str = "Logarithmic", **fields: Any
) -> VictimForecast:
    return replace(NO_VICTIMS, pods=pods, certain=certain, strategy=strategy, **fields)


def the_settings(policy: str, strategy: Strategy, picker: PodPicker | None = None, **fields: Any) -> DownscaleSettings:
    return replace(DEFAULT, policy=policy, strategy=strategy, picker=picker, **fields)


def a_limit_use(name: str, unit: str, used: int, allowed: int, base: int, cluster: str = "") -> LimitUse:
    return LimitUse(name, unit, used, allowed, base, cluster, "")


def a_fleet(*names: str, **fields: Any) -> Fleet:
    """A Fleet over `names` ("east" alone when none are given), without limits; the first is home."""
    clusters = tuple(FleetCluster(name=name, connection=ClusterConnection(name)) for name in names or ("east",))
    defaults: dict[str, Any] = {
        "name": "production",
        "place": Place("policies/fleet.yaml"),
        "clusters": clusters,
        "home": clusters[0].name,
        "limits": NO_LIMITS,
    }
    return replace(least_policies().fleet, **(defaults | fields))


def a_policy_set(fleet: Fleet | None = None, **fields: Any) -> PolicySet:
    return PolicySet(fleet=fleet or a_fleet(), **fields)


def a_run(now: datetime = NOW, **fields: Any) -> Run:
    return Run(now=now, **({"id": "0123456789ab"} | fields))


def said(*texts: str) -> tuple[Reason, ...]:
    """Reasons with just a text."""
    return tuple(Reason(ReasonCode.OTHER, {"text": text}) for text in texts)


def change_if_of(one: PolicyExplanation) -> str:
    """What would change a decision, as text; "" where nothing is known."""
    return "" if one.change_if is None else str(one.change_if)
