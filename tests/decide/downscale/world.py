"""One snapshot cluster with one workload that is shrunk, and everything a run needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from reconciler.apply.access import Access
from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.apply.outcomes import Outcome
from reconciler.apply.run import ActionRuns
from reconciler.backends.backend import Backend
from reconciler.backends.protocols import CONFIG_MAPS, PODS, Cluster, PodPickerClient
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.object_store import Store
from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.decisions import Decision
from reconciler.decide.downscale.decide import decide_downscale
from reconciler.decide.downscale.deletion_order import rank_victims
from reconciler.decide.downscale.journal import decide_recovery
from reconciler.decide.downscale.victim_forecast import with_victims
from reconciler.errors import NotFoundError, PickerError
from reconciler.model import JOURNAL, NOTHING, ObjectRef, PatchOperation, Pod, Run, Write
from reconciler.observe.clusters import observe
from reconciler.observe.pods import answer
from reconciler.plan.build import in_order, numbered_actions
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

COST = "controller.kubernetes.io/pod-deletion-cost"
LABEL = "reconciler/victim"
PICKER = a_picker("picker.shop.svc", max_retries=0)
CUSTOM = {"Rollout": "argoproj.io/v1alpha1", "CloneSet": "apps.kruise.io/v1alpha1"}


def api_version(kind: str) -> str:
    return CUSTOM.get(kind, "v1" if kind == "ReplicationController" else "apps/v1")


class Held:
    """A lock that is held until a test says otherwise."""

    def __init__(self) -> None:
        self.lost = False

    def look(self) -> None: ...

    def acquire(self, limit: TimeLimit) -> bool:
        return False

    def held(self) -> bool:
        return not self.lost

    def release(self) -> None: ...


@dataclass
class Clock:
    """Time that passes only while somebody sleeps; `while_asleep` is what happens meanwhile, once."""

    at: float = 0
    while_asleep: Callable[[], None] | None = None

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        happens, self.while_asleep = self.while_asleep, None
        if happens is not None:
            happens()


@dataclass
class Picker:
    """Says what it is told to say; keeps what it was asked."""

    says: PickerAnswer | PickerError = PickerAnswer()
    asked: list[PickerRequest] = field(default_factory=list)

    def pick(self, request: PickerRequest) -> PickerAnswer:
        self.asked.append(request)
        if isinstance(self.says, PickerError):
            raise self.says
        return self.says


class Killed(BaseException):
    """The process is gone."""


class Counted:
    """A cluster of which every call is counted; from call `last` on `fails` is raised, before or after the call."""

    def __init__(self, inside: Cluster, last: int | None = None, *, after: bool = False, fails: Any = Killed) -> None:
        self._inside = inside
        self._last = last
        self._after = after
        self._fails = fails
        self.calls = 0

    @property
    def name(self) -> str:
        return self._inside.name

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inside, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            dying = self._last is not None and self.calls >= self._last
            if dying and not (self._after and self.calls == self._last):
                raise self._fails()
            result = method(*arguments, **options)
            if dying:
                raise self._fails()
            return result

        return counted


@dataclass
class World:
    """A cluster "east" in `directory`, and how a run goes there."""

    directory: Path
    policy: DownscalePolicy
    name: str = "web"
    victim_order: Callable[[Sequence[Pod], int, bool], Sequence[Pod]] | None = None
    clock: Clock = field(default_factory=Clock)
    lock: Held = field(default_factory=Held)
    picker: PodPickerClient = field(default_factory=Picker)
    limit: TimeLimit = field(default_factory=TimeLimit)

    def __post_init__(self) -> None:
        self.cluster: Any = SnapshotCluster(
            Store(self.directory, "east"), victim_order=self.victim_order or controllers_order
        )

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
        desired = desired.joined(decide_downscale(self.policies, state, run, NOTHING, NOTHING))
        _, questions, _ = with_victims(desired.decisions, self.policies, state, run)
        if questions:
            state = answer(state, questions, sources)
        decisions, left, _ = with_victims(desired.decisions, self.policies, state, run)
        assert not left
        return decisions

    def access(self, cluster: Any = None) -> Access:
        cluster = cluster or self.cluster
        store = ConfigMapStore(cluster, "reconciler", JOURNAL)
        return Access(cluster, store, self.lock, self.picker, self.limit.within(clock=self.clock))

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


def a_world(
    directory: Path, kind: str = "Deployment", *, pods: Sequence[Mapping[str, Any]], to: int = 3, **fields: Any
) -> World:
    """A workload of `kind` with `pods` (fields of `a_pod_manifest`), each on a node of its own in its zone."""
    owner = ("ReplicaSet", "web-1") if kind in ("Deployment", "Rollout") else (kind, "web")
    documents = [
        *(namespace(name) for name in ("kube-system", "shop", "reconciler")),
        *(node(f"n-{one.get('zone', 'a')}-{index}", one.get("zone", "a")) for index, one in enumerate(pods)),
        *definitions(kind),
        *workloads(kind, len(pods)),
        *(a_pod_manifest(index, owner, **one) for index, one in enumerate(pods)),
    ]
    (directory / "all.yaml").write_text(yaml.safe_dump_all(documents))
    options = {key: fields.pop(key) for key in ("victim_order", "picker") if key in fields}
    return World(directory, a_downscale_policy(kind, to=to, **fields), **options)


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": f"uid-{name}"}}


def node(name: str, zone: str) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def definitions(kind: str) -> list[dict[str, Any]]:
    if kind not in CUSTOM:
        return []
    group, _, version = CUSTOM[kind].rpartition("/")
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    plural = f"{kind.lower()}s"
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [{"name": version, "served": True, "storage": True, "subresources": {"scale": scale}}],
            },
        }
    ]


def workloads(kind: str, replicas: int) -> list[dict[str, Any]]:
    top = a_workload_manifest(kind, "web", replicas)
    if kind not in ("Deployment", "Rollout"):
        return [top]
    inner = a_workload_manifest("ReplicaSet", "web-1", replicas)
    inner["metadata"]["ownerReferences"] = [owner_reference(kind, "web")]
    return [top, inner]


def a_workload_manifest(kind: str, name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": api_version(kind),
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}-{kind}", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": labels if kind == "ReplicationController" else {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            **({} if kind in ("ReplicaSet", "ReplicationController") else {"updatedReplicas": replicas}),
        },
    }


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
) -> dict[str, Any]:
    created = (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": created}
    annotations: dict[str, Any] = {} if cost is None else {"annotations": {COST: cost}}
    if writer:
        owned = {"f:metadata": {"f:annotations": {f"f:{COST}": {}}}}
        annotations["managedFields"] = [{"manager": writer, "operation": "Update", "fieldsV1": owned}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-{index}",
            "namespace": "shop",
            "uid": f"uid-web-{index}",
            "creationTimestamp": created,
            "labels": {"app": "web"},
            **annotations,
            "ownerReferences": [owner_reference(*owner)],
        },
        "spec": {"nodeName": f"n-{zone}-{index}", "containers": [{"name": "web", "image": "web:1"}]},
        "status": {"phase": "Running", "conditions": [condition]},
    }
