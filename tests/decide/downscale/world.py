"""One cluster in memory with one workload that is shrunk, and everything a run needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from reconciler.apply.access import Access
from reconciler.apply.action_runs import ActionRuns
from reconciler.apply.outcomes import Outcome
from reconciler.backends.backend import Backend
from reconciler.backends.protocols import CONFIG_MAPS, PODS, PodPickerClient
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.decide.decisions import Decision
from reconciler.decide.downscale.deletion_order import rank_victims
from reconciler.decide.downscale.journal import decide_recovery
from reconciler.decide.downscale.planned_victims import with_victims
from reconciler.decide.downscale.targets import decide_downscale
from reconciler.errors import NotFoundError
from reconciler.model import JOURNAL, NOTHING, ObjectRef, PatchOperation, Pod, Run, Write
from reconciler.observe.clusters import observe
from reconciler.observe.pods import answer
from reconciler.plan.order import in_order, numbered_actions
from reconciler.policy.types import (
    DownscalePolicy,
    DownscaleTarget,
    ObjectSelector,
    PolicySet,
    Selector,
    WorkloadSelector,
)
from reconciler.time_limit import TimeLimit
from tests.builders import NOW, NOW_NS, a_fleet, a_picker, a_run
from tests.builders import a_downscale_policy as downscale_policy
from tests.fakes import FakeClock, FakeLock, FakePicker, an_access
from tests.real import objects
from tests.real.api import Object
from tests.real.objects import an_object, with_metadata

COST = "controller.kubernetes.io/pod-deletion-cost"
LABEL = "reconciler/victim"
PICKER = a_picker("picker.shop.svc", max_retries=0)
CUSTOM = {"Rollout": "argoproj.io/v1alpha1", "CloneSet": "apps.kruise.io/v1alpha1"}


def api_version(kind: str) -> str:
    return CUSTOM.get(kind, "v1" if kind == "ReplicationController" else "apps/v1")


@dataclass
class World:
    """A cluster "east" in memory, made of `manifests`, and how a run goes there."""

    manifests: Sequence[Object]
    policy: DownscalePolicy
    name: str = "web"
    victim_order: Callable[[Sequence[Pod], int, bool], Sequence[Pod]] | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    lock: FakeLock = field(default_factory=FakeLock)
    picker: PodPickerClient = field(default_factory=FakePicker)
    limit: TimeLimit = field(default_factory=TimeLimit)

    def __post_init__(self) -> None:
        order = self.victim_order or controllers_order
        self.cluster: Any = MemoryCluster.of_manifests("east", self.manifests, order)

    @property
    def policies(self) -> PolicySet:
        return PolicySet(fleet=a_fleet(), downscale=(self.policy,))

    def run(self, run: Run | None = None, *, through: Any = None) -> tuple[tuple[Decision, ...], tuple[Outcome, ...]]:
        """Observe, decide what downscale decides, and apply that, as a run does."""
        run = run or a_run()
        cluster = through or self.cluster
        decisions = self.decided(run, cluster)
        actions = numbered_actions(in_order(decisions))
        runs = ActionRuns(actions, {"east": self.access(cluster)}, run, "reconciler", self.limit)
        return decisions, runs.carry_out()

    def decided(self, run: Run, cluster: Any = None) -> tuple[Decision, ...]:
        sources = {"east": Backend("east", cluster or self.cluster)}
        state = observe(self.policies, sources)
        desired = decide_recovery(self.policies.fleet, state, run)
        desired = desired.joined(decide_downscale(self.policies, state, run, {}.get, NOTHING))
        questions = with_victims(desired, self.policies, state, run).questions
        if questions:
            state = answer(state, questions, sources)
        forecast = with_victims(desired, self.policies, state, run)
        assert not forecast.questions
        return forecast.decisions

    def access(self, cluster: Any = None) -> Access:
        limit = self.limit.within(clock=self.clock)
        return an_access(cluster or self.cluster, lock=self.lock, picker=self.picker, limit=limit)

    def pods(self) -> tuple[Pod, ...]:
        listed: tuple[Pod, ...] = self.cluster.list(PODS, namespace="shop")
        return listed

    def names(self) -> list[str]:
        return [pod.name for pod in self.pods()]

    def costs(self) -> dict[str, str]:
        return {pod.name: pod.deletion_cost for pod in self.pods() if pod.deletion_cost is not None}

    def marked(self) -> list[str]:
        return [pod.name for pod in self.pods() if LABEL in pod.labels]

    def journal(self) -> Mapping[str, str]:
        try:
            data: Mapping[str, str] = self.cluster.get(CONFIG_MAPS, "reconciler", JOURNAL).data
        except NotFoundError:
            return {}
        return data

    def patch_pod(self, name: str, *operations: PatchOperation) -> None:
        pod = next(pod for pod in self.pods() if pod.name == name)
        self.cluster.write(Write("patch", ObjectRef("east", "shop", "Pod", name), "v1", uid=pod.uid, patch=operations))

    def scale(self, replicas: int) -> None:
        """Somebody else scales the workload."""
        ref = self.ref
        operations = (PatchOperation("replace", "/spec/replicas", replicas),)
        self.cluster.write(Write("patch", ref, api_version(ref.kind), patch=operations))

    @property
    def ref(self) -> ObjectRef:
        kind = self.policy.selector.workloads.kinds[0] if self.policy.selector.workloads else "Deployment"
        return ObjectRef("east", "shop", kind, self.name, api_version(kind).rpartition("/")[0])


def controllers_order(pods: Sequence[Pod], count: int, of_deployment: bool) -> Sequence[Pod]:
    return rank_victims(pods, count, now_ns=NOW_NS, siblings=() if of_deployment else None).victims


def a_downscale_policy(kind: str = "Deployment", *, to: int = 3, **fields: Any) -> DownscalePolicy:
    defaults: dict[str, Any] = {
        "selector": Selector(namespaces=ObjectSelector(include=("shop",)), workloads=WorkloadSelector(kinds=(kind,))),
        "target": DownscaleTarget(replicas=to),
        "strategy": "ZoneBalanced",
    }
    if "pod_picker" in fields:
        defaults["strategy"] = "Logarithmic"
    return downscale_policy(**({"name": "shrink"} | defaults | fields))


def a_world(kind: str = "Deployment", *, pods: Sequence[Mapping[str, Any]], to: int = 3, **fields: Any) -> World:
    """A workload of `kind` with `pods` (fields of `a_pod_manifest`), each on a node of its own in its zone."""
    owner = ("ReplicaSet", "web-1") if kind in ("Deployment", "Rollout") else (kind, "web")
    documents = [
        *(namespace(name) for name in ("kube-system", "shop", "reconciler")),
        *(a_node(one.get("zone", "a"), index) for index, one in enumerate(pods)),
        *definitions(kind),
        *workloads(kind, len(pods)),
        *(a_pod_manifest(index, owner, **one) for index, one in enumerate(pods)),
    ]
    options = {key: fields.pop(key) for key in ("victim_order", "picker") if key in fields}
    return World(documents, a_downscale_policy(kind, to=to, **fields), **options)


def namespace(name: str) -> Object:
    return with_metadata(objects.a_namespace(name), uid=f"uid-{name}")


def a_node(zone: str, index: int) -> Object:
    return objects.a_node(f"n-{zone}-{index}", **{"topology.kubernetes.io/zone": zone})


def definitions(kind: str) -> list[Object]:
    group, _, version = CUSTOM.get(kind, "").rpartition("/")
    return [objects.a_crd(kind, group, version=version, scale=True)] if group else []


def workloads(kind: str, replicas: int) -> list[dict[str, Any]]:
    top = a_workload_manifest(kind, "web", replicas)
    if kind not in ("Deployment", "Rollout"):
        return [top]
    inner = a_workload_manifest("ReplicaSet", "web-1", replicas)
    inner["metadata"]["ownerReferences"] = [owner_reference(kind, "web")]
    return [top, inner]


def a_workload_manifest(kind: str, name: str, replicas: int) -> Object:
    spec = objects.a_deployment("web", replicas)["spec"]
    if kind == "ReplicationController":
        spec["selector"] = {"app": "web"}
    metadata = {"namespace": "shop", "uid": f"uid-{name}-{kind}", "generation": 1}
    return an_object(api_version(kind), kind, name, metadata, spec=spec, status=objects.status_of(kind, replicas))


def owner_reference(kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": api_version(kind),
        "kind": kind,
        "name": name,
        "uid": f"uid-{name}-{kind}",
        "controller": True,
    }


def a_pod_manifest(
    index: int,
    owner: tuple[str, str],
    *,
    zone: str = "a",
    ready: bool = True,
    cost: str | None = None,
    writer: str = "",
    days: float = 1,
) -> Object:
    created = (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": created}
    annotations: dict[str, Any] = {} if cost is None else {"annotations": {COST: cost}}
    if writer:
        owned = {"f:metadata": {"f:annotations": {f"f:{COST}": {}}}}
        annotations["managedFields"] = [{"manager": writer, "operation": "Update", "fieldsV1": owned}]
    metadata = {
        "namespace": "shop",
        "uid": f"uid-web-{index}",
        "creationTimestamp": created,
        "labels": {"app": "web"},
        **annotations,
        "ownerReferences": [owner_reference(*owner)],
    }
    spec = {**objects.a_pod_template("web")["spec"], "nodeName": f"n-{zone}-{index}"}
    status = {"phase": "Running", "conditions": [condition]}
    return an_object("v1", "Pod", f"web-{index}", metadata, spec=spec, status=status)
