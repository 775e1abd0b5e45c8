"""How pods and pickers are asked: for a workload alone where there is one, clusters and namespaces side by side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import PODS, PodPickerClient
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.connection_settings import PickerAnswer
from reconciler.decide.decisions import DesiredState
from reconciler.decide.desired_state import decide, with_picked_pods
from reconciler.decide.downscale.planned_victims import picker_requests
from reconciler.errors import UnreachableError
from reconciler.model import ObjectRef, ObservedState, PodsQuestion
from reconciler.observe.cluster_readers import Readers
from reconciler.observe.clusters import observe
from reconciler.observe.pods import answer, answers_of_pickers
from reconciler.policy.types import DownscaleTarget, PolicySet
from reconciler.worker_pool import WorkerPool
from tests.builders import a_cluster, a_fleet, a_pod, a_policy_set, a_run, a_state, a_workload
from tests.decide.downscale.world import (
    PICKER,
    a_downscale_policy,
    a_pod_manifest,
    a_workload_manifest,
    controllers_order,
    namespace,
    owner_reference,
)
from tests.fakes import FakePicker, Wrapped

CLUSTERS = ("east", "west")
NAMESPACES = ("dev", "shop")
NAMES = ("api", "web")


class Asked(Wrapped):
    """A cluster; `lists` are the namespaces that its pods were listed in, "" for all, `pods` what those of one were
    asked with; `met` is told of each such question.
    """

    def __init__(self, inside: SnapshotCluster) -> None:
        super().__init__(inside)
        self.lists: list[str] = []
        self.pods: list[tuple[str, str]] = []
        self.threads: set[int] = set()
        self.met: Any = lambda: None

    def list(self, resource: Any, *, namespace: str = "", labels: str = "") -> Any:
        if resource == PODS:
            self.lists.append(namespace)
        if resource == PODS and namespace:
            self.threads.add(threading.get_ident())
            self.pods.append((namespace, labels))
            self.met()
        return self.inside.list(resource, namespace=namespace, labels=labels)


def ref(name: str, inside: str = "shop", cluster: str = "east") -> ObjectRef:
    return ObjectRef(cluster, inside, "Deployment", name, "apps")


def write(folder: Path) -> None:
    """In each namespace Deployments with a ReplicaSet and two pods each, told apart by their labels."""
    texts = [yaml.safe_dump_all(namespace(name) for name in ("kube-system", *NAMESPACES))]
    for inside in NAMESPACES:
        for name in NAMES:
            top = a_workload_manifest("Deployment", name, 2)
            below = a_workload_manifest("ReplicaSet", f"{name}-1", 2)
            below["metadata"]["ownerReferences"] = [owner_reference("Deployment", name)]
            pods = [a_pod_manifest(number, ("ReplicaSet", f"{name}-1")) for number in range(2)]
            for number, pod in enumerate(pods):
                pod["metadata"] |= {"name": f"{name}-{number}", "uid": f"uid-{name}-{number}", "labels": {"app": name}}
            for one in (top, below):
                one["spec"]["selector"] = {"matchLabels": {"app": name}}
                one["spec"]["template"]["metadata"]["labels"] = {"app": name}
            for one in (top, below, *pods):
                one["metadata"]["namespace"] = inside
                texts.append(yaml.safe_dump(one).replace("uid-", f"uid-{inside}-"))
    folder.mkdir()
    (folder / "all.yaml").write_text("---\n".join(texts))


@pytest.fixture
def clusters(tmp_path: Path) -> dict[str, Asked]:
    for name in CLUSTERS:
        write(tmp_path / name)
    return {name: Asked(SnapshotCluster(Store(tmp_path / name, name), controllers_order)) for name in CLUSTERS}


def answered(clusters: dict[str, Asked], asked: Sequence[ObjectRef], *, threads: int) -> ObservedState:
    sources = {name: Backend(name, found) for name, found in clusters.items()}
    readers = Readers(WorkerPool(threads))
    state = observe(PolicySet(fleet=a_fleet(*CLUSTERS)), sources, readers=readers)
    return answer(state, [PodsQuestion(one) for one in asked], sources, readers)


def pods_of(state: ObservedState) -> dict[ObjectRef, list[str]]:
    return {one: [pod.name for pod in pods] for found in state.clusters.values() for one, pods in found.pods.items()}


@pytest.mark.parametrize("threads", [pytest.param(0, id="one by one"), pytest.param(64, id="side by side")])
@pytest.mark.parametrize(
    ("asked", "lists"),
    [
        pytest.param([ref("web")], [("shop", "app=web")], id="of one workload its own"),
        pytest.param([ref("web"), ref("api")], [("shop", "")], id="of two all, once"),
        pytest.param(
            [ref("web"), ref("api", "dev")], [("dev", "app=api"), ("shop", "app=web")], id="of one in each namespace"
        ),
    ],
)
def test_only_what_is_asked_for_is_listed(clusters, asked, lists, threads):
    state = answered(clusters, asked, threads=threads)
    assert sorted(clusters["east"].pods) == lists
    assert clusters["west"].pods == []
    assert pods_of(state) == {one: [f"{one.name}-0", f"{one.name}-1"] for one in asked}


EVERYTHING = [ref(name, inside, cluster) for cluster in CLUSTERS for inside in NAMESPACES for name in NAMES]


def test_clusters_and_namespaces_are_asked_side_by_side(clusters):
    all_four = threading.Barrier(len(CLUSTERS) * len(NAMESPACES))
    for found in clusters.values():
        found.met = lambda: all_four.wait(timeout=60)
    state = answered(clusters, EVERYTHING, threads=64)
    assert pods_of(state) == {one: [f"{one.name}-0", f"{one.name}-1"] for one in EVERYTHING}
    assert list(state.clusters) == list(CLUSTERS)


def test_files_are_read_without_threads(clusters):
    answered(clusters, EVERYTHING, threads=0)
    assert {one for found in clusters.values() for one in found.threads} == {threading.get_ident()}


def test_what_cannot_be_listed_is_named_and_spoils_nothing_else(clusters):
    def gone():
        raise UnreachableError("west: list pods: no answer")

    clusters["west"].met = gone
    state = answered(clusters, EVERYTHING, threads=64)
    keys = [f"pods of {inside}/Deployment/{name}" for inside in NAMESPACES for name in NAMES]
    assert state.clusters["west"].unreadable == dict.fromkeys(keys, "west: list pods: no answer")
    assert list(state.clusters["west"].unreadable) == keys
    assert pods_of(state) == {one: [f"{one.name}-0", f"{one.name}-1"] for one in EVERYTHING if one.cluster == "east"}


def test_many_namespaces_are_one_list_where_that_takes_fewer_requests(tmp_path):
    """Behind Services: each has a pod of its own, and one of the same name lies in the namespace beside it."""
    names = [f"dev-{number:02}" for number in range(20)]
    folder = tmp_path / "east"
    folder.mkdir()
    documents = [namespace(name) for name in ("kube-system", *names)]
    for inside in names:
        pod = a_pod_manifest(0, ("ReplicaSet", "web-1"))
        pod["metadata"] |= {"name": "web-0", "namespace": inside, "uid": f"uid-{inside}"}
        target = {"kind": "Pod", "namespace": inside, "name": "web-0", "uid": f"uid-{inside}"}
        documents += [
            pod,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": "s", "namespace": inside, "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": target}],
            },
        ]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    cluster = Asked(SnapshotCluster(Store(folder, "east"), controllers_order))
    sources = {"east": Backend("east", cluster)}
    state = observe(PolicySet(fleet=a_fleet("east")), sources)
    cluster.lists.clear()
    services = [ObjectRef("east", inside, "Service", "web") for inside in names]
    few = answer(state, [PodsQuestion(one) for one in services[:3]], sources).clusters["east"]
    assert cluster.lists == ["dev-00", "dev-01", "dev-02"]
    cluster.lists.clear()
    many = answer(state, [PodsQuestion(one) for one in services], sources).clusters["east"]
    assert cluster.lists == [""]
    for found, asked in ((few, services[:3]), (many, services)):
        assert {ref: [pod.uid for pod in pods] for ref, pods in found.pods.items()} == {
            one: [f"uid-{one.namespace}"] for one in asked
        }


def _picked(policies: PolicySet, state: ObservedState, picker: PodPickerClient, pool: WorkerPool) -> DesiredState:
    desired, run = decide(policies, state, a_run()), a_run()
    requests = picker_requests(desired.decisions, policies, state, run)
    answers = answers_of_pickers(requests, {"east": picker}, pool)
    return with_picked_pods(desired, policies, state, run, answers)


@pytest.mark.parametrize(
    ("on_too_few", "on_error", "notices", "chosen"),
    [
        pytest.param("fill", "skip", [], ("a", "b"), id="filled"),
        pytest.param("reject", "skip", [("picker", True)], (), id="rejected, partial where apply defers"),
        pytest.param("reject", "fallback", [("picker", False)], (), id="rejected, where apply falls back"),
    ],
)
def test_too_few_are_a_failed_call_as_at_apply(on_too_few, on_error, notices, chosen):
    web = a_workload(kind="ReplicaSet")
    picker = replace(PICKER, on_too_few=on_too_few, on_error=on_error)
    policy = a_downscale_policy("ReplicaSet", target=DownscaleTarget(replicas=1), pod_picker=picker)
    policies = a_policy_set(a_fleet(), downscale=(policy,))
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: tuple(map(a_pod, "abc"))}))
    client = FakePicker(PickerAnswer(("a",)))
    desired = _picked(policies, state, client, WorkerPool(0))
    assert len(client.asked) == 1
    assert [(notice.kind, notice.partial) for notice in desired.notices] == notices
    [decision] = desired.decisions
    assert (decision.victims.pods, decision.victims.chosen_at_apply) == (chosen, not chosen)


def test_workloads_are_asked_about_side_by_side():
    both = Barrier(2, timeout=60)

    class Slow:
        def pick(self, request):
            both.wait()  # until the other one is asked about
            return PickerAnswer(request.candidates[: request.count])

    workloads = tuple(a_workload(kind="ReplicaSet", name=name) for name in ("api", "web"))
    policy = a_downscale_policy("ReplicaSet", target=DownscaleTarget(replicas=1), pod_picker=PICKER)
    policies = a_policy_set(a_fleet(), downscale=(policy,))
    state = a_state(a_cluster(workloads=workloads, pods={web.ref: tuple(map(a_pod, "abc")) for web in workloads}))
    desired = _picked(policies, state, Slow(), WorkerPool())
    assert [len(decision.victims.pods) for decision in desired.decisions if decision.victims] == [2, 2]
    assert desired.notices == ()
