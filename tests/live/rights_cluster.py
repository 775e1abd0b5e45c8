"""One small cluster on which an apply makes every kind of request it ever makes; nothing acts there but the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.model import ACTIVATOR_LABELS, ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL, MANAGED_BY_LABEL
from tests.live.asked import Conflicts
from tests.live.deployed import APPLY, OPEN, OWN
from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import UNLIMITED, documents, downscale, fleet, policy, template
from tests.real import faults
from tests.real.api import Api, Object
from tests.real.cluster import create, create_missing, empty, listed, path_of
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import (
    CLONE_SET,
    SCALED_OBJECT,
    a_clone_set,
    a_cron_job,
    a_deployment,
    a_namespace,
    a_node,
    a_pod_template,
    a_replication_controller,
    a_service,
    an_autoscaler,
    an_object,
    for_deployment,
    owned_by,
    status_of,
    with_metadata,
    within,
)

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane
    from tests.real.proxy import Proxy, Request

CLUSTER = "east"
NOW = "2099-01-06T22:00:00Z"  # a Tuesday night, later than anything that a test makes
NAMESPACES = ("batch", "dev", "floor", "shop", "targets")
_ZONES = {"one": "a", "two": "b"}
LASTING = (
    CLONE_SET,
    SCALED_OBJECT,
    *(a_namespace(name, **OPEN) for name in NAMESPACES),
    *(a_node(name, **{"topology.kubernetes.io/zone": zone}) for name, zone in _ZONES.items()),
)
"""What is made once and stays: nothing writes it."""

_NIGHT = "idleWhen: [{schedule: {calendar: night}}]"
_DEV = "workloads: {kinds: [Deployment, StatefulSet, ReplicationController, CronJob, CloneSet]}"
_TO_ONE = "selector: {namespaces: {include: [floor]}, workloads: {kinds: [Deployment]}}"
_TARGETS = "workloads: {kinds: [Deployment, StatefulSet, ReplicaSet, ReplicationController, CloneSet]}"
_FEW = ("strategy: ZoneBalanced", "settleSeconds: 0", "verifySeconds: 0")


def federated(name: str) -> str:
    """A FederatedReplicaSet that wants three."""
    return policy("FederatedReplicaSet", name, "replicas: 3", template(name, "nothing:runs"), namespace="shop")


IDLING = documents(
    policy("Calendar", "night", "timeZone: UTC", 'downtime: ["Mon-Sun 20:00-07:00"]'),
    policy(
        "IdlingPolicy",
        "idle-dev",
        f"selector: {{namespaces: {{include: [dev]}}, services: {{}}, {_DEV}}}",
        _NIGHT,
        "markEndpoints: true",
        "markPrefix: openshift",
    ),
    policy("IdlingPolicy", "idle-to-one", _TO_ONE, _NIGHT, "idleReplicas: 1"),
)
POLICIES = documents(
    fleet(["{name: east, connection: {kubeconfig: kubeconfig.yaml}}"], UNLIMITED, name="rights", home="east"),
    IDLING,
    federated("web"),
    federated("cache"),
    downscale(f"namespaces: {{include: [targets]}}, {_TARGETS}", 2, name="targets"),
    downscale("namespaces: {include: [batch]}, workloads: {kinds: [Deployment]}", 2, *_FEW, name="workers"),
)

_KINDS = (
    *("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "CronJob", "CloneSet", "ScaledObject"),
    *("HorizontalPodAutoscaler", "Service", "Endpoints", "EndpointSlice", "Pod", "ConfigMap"),
)
_PASSING = ("Event", "Lease")
_OF_THIS_TIME = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")


def objects() -> Iterator[Object]:
    """The world, but for the pods of batch/worker."""
    # idled through its Service, with the marks on the Endpoints too
    yield within("dev", a_service("api"))
    yield within("dev", an_object("v1", "Endpoints", "api"))
    yield within("dev", a_deployment("api", 3))
    # idled by themselves; a ScaledObject is paused with its workload
    yield within("dev", a_deployment("db", 2, kind="StatefulSet"))
    yield within("dev", a_replication_controller("old", 2))
    yield within("dev", a_cron_job("nightly"))
    yield within("dev", a_clone_set("runner", 2))
    yield within("dev", a_deployment("queue", 2))
    yield within("dev", for_deployment("keda.sh/v1alpha1", "ScaledObject", "queue"))
    # woken
    yield within("dev", _idled("docs", 2))
    # idled to one, held there by its autoscaler
    yield within("floor", a_deployment("slow", 4))
    yield within("floor", an_autoscaler("slow", 2, 9))
    # placed: `web` is made, `cache` grows, `gone` left git
    yield within("shop", local("cache", 1))
    yield within("shop", local("gone", 1, **{"reconciler/on-delete": "delete"}))
    yield _status_of_gone()
    # scaled, nothing else changes
    yield within("targets", a_deployment("web", 3))
    yield within("targets", a_deployment("store", 3, kind="StatefulSet"))
    yield within("targets", a_deployment("alone", 3, kind="ReplicaSet"))
    yield within("targets", a_replication_controller("old", 3))
    yield within("targets", a_clone_set("runner", 3))
    # deleted: what an activator that died left
    yield _lease_of_dead_activator()
    yield within("targets", _slice_of_dead_activator())
    # shrunk, and who goes is ours to choose
    yield within("batch", a_deployment("worker", 4))


def fill(api: Api) -> None:
    """Make the world anew."""
    create_missing(api, LASTING)
    empty(api, (*_KINDS, *_PASSING), (*NAMESPACES, OWN))
    made = create(api, objects())
    worker = next(one for one in made if one["metadata"]["name"] == "worker")
    (replicas,) = create(api, [_owned(worker, a_deployment("worker", 4, kind="ReplicaSet"), "worker-1")], "batch")
    create(api, (_pod(replicas, number) for number in range(4)), "batch")


def settle(api: Api) -> None:
    """Do what the controller of ReplicaSets would: all local ones run what they should."""
    for one in api.items(path_of("ReplicaSet", "shop")):
        path = path_of("ReplicaSet", "shop", one["metadata"]["name"], "status")
        api.patch(path, {"status": status_of("ReplicaSet", one["spec"]["replicas"], one["metadata"]["generation"])})


def state(api: Api) -> dict[tuple[str, str, str], Object]:
    """What the world is like by namespace, kind and name: all but what differs each time it is made, as the
    history does.
    """
    return {
        (one["metadata"]["namespace"], kind, one["metadata"]["name"]): _lasting(one)
        for kind, one in listed(api, _KINDS, (*NAMESPACES, OWN))
        if not one["metadata"]["name"].startswith("reconciler-history-")
    }


def _lasting(one: Object) -> Object:
    metadata = {key: value for key, value in one["metadata"].items() if key not in _OF_THIS_TIME}
    rest = {key: value for key, value in one.items() if key not in ("metadata", "status", "kind", "apiVersion")}
    rest.get("spec", {}).pop("clusterIP", None)
    rest.get("spec", {}).pop("clusterIPs", None)
    return {"metadata": metadata, **rest}


def _idled(name: str, replicas: int) -> Object:
    since = "2099-01-06T20:00:00Z"
    annotations = {
        "idling.kubernetes.io/idled-at": since,
        "idling.kubernetes.io/previous-scale": str(replicas),
        "reconciler/idled-to": "0",
        "reconciler/owner": "rights/IdlingPolicy/idle-dev",
        "reconciler/wake-requested-at": "2099-01-06T21:58:00Z",
        "scale.kubernetes.io/scale-reason": "Idled",
        "scale.kubernetes.io/scale-time": since,
    }
    return with_metadata(a_deployment(name, 0), annotations=annotations)


def local(name: str, replicas: int, **annotations: str) -> Object:
    """A ReplicaSet that placement made."""
    owner = {"reconciler/owner": f"rights/FederatedReplicaSet/shop/{name}", **annotations}
    made = a_deployment(name, replicas, kind="ReplicaSet") | {"status": status_of("ReplicaSet", replicas)}
    return with_metadata(made, labels={"reconciler/frs": name}, annotations=owner)


def _status_of_gone() -> Object:
    annotations = {"reconciler/owner": "rights/FederatedReplicaSet/shop/gone", "reconciler/status": "{}"}
    metadata = {"namespace": OWN, "annotations": annotations}
    return an_object("v1", "ConfigMap", "reconciler-status-shop.gone", metadata=metadata)


def _lease_of_dead_activator() -> Object:
    labels = dict(ACTIVATOR_LABELS)
    metadata = {"namespace": OWN, "labels": {**labels, ACTIVATOR_POD_LABEL: "gone"}}
    spec = {"leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
    return an_object("coordination.k8s.io/v1", "Lease", "reconciler-activator-gone", metadata=metadata, spec=spec)


def _slice_of_dead_activator() -> Object:
    labels = {MANAGED_BY_LABEL: ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL: "gone"}
    made = an_object("discovery.k8s.io/v1", "EndpointSlice", "web-activator-gone-ipv4", metadata={"labels": labels})
    return {**made, "addressType": "IPv4", "endpoints": [{"addresses": ["198.18.1.9"]}], "ports": []}


def _owned(owner: Object, one: Object, name: str) -> Object:
    return owned_by(owner, {**one, "metadata": {"name": name, "labels": {"app": "worker"}}})


def _pod(replicas: Object, number: int) -> Object:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": f"20{30 + number}-01-01T00:00:00Z"}
    spec = {**a_pod_template("worker")["spec"], "nodeName": "one" if number else "two"}
    made = {"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": {"phase": "Running", "conditions": [ready]}}
    return _owned(replicas, made, f"worker-1-{number}")


RESTS_AFTER = 4


@dataclass(frozen=True)
class RightsCluster:
    """This cluster behind a proxy, and the command line called on it under a ServiceAccount."""

    plane: ControlPlane
    proxy: Proxy
    folder: Folder
    accesses: Mapping[str, Access]

    @property
    def api(self) -> Api:
        return self.plane.api

    def fill(self) -> None:
        """Make the world anew, with its policies, and forget what passed the proxy."""
        fill(self.api)
        self.folder.write("policies/all.yaml", POLICIES)
        self.proxy.reset()

    def call(self, access: Access, *arguments: str) -> Said:
        """Call the command line; the first write of each kind is answered with a conflict."""
        self.proxy.rules.clear()
        self.proxy.rule(faults.after(self._collect_garbage), matching=lambda one: one.method == "DELETE", times=None)
        Conflicts(self.proxy)
        write_kubeconfig(self.folder.path / "kubeconfig.yaml", {CLUSTER: access})
        return self.folder.call(*arguments, "--now", NOW)

    def _collect_garbage(self, request: Request) -> None:
        """Let go of what was deleted without its pods, as the garbage collector does once nothing names it as owner."""
        if self.api.find(request.path) is not None:
            self.api.patch(request.path, {"metadata": {"finalizers": None}})

    def plan(self, account: str, *more: str) -> Said:
        return self.call(self.accesses[account], "plan", "policies", *more)

    def apply(self, account: str, path: str = "policies") -> Said:
        flags = ("--auto-approve", "--quiet", "--run-id", "run", "--lock-timeout", "0")
        return self.call(self.accesses[account], "apply", path, *flags)

    def come_to_rest(self) -> dict[tuple[str, str, str], Any]:
        """Apply until there is nothing to do, and return what there is then."""
        for _ in range(RESTS_AFTER):
            settle(self.api)
            said = self.apply(APPLY)
            assert said.code == 0, said.out + said.err
            if "\nApplied: " not in said.out:
                return state(self.api)
        raise AssertionError(f"not at rest after {RESTS_AFTER} runs: {said.out}")
