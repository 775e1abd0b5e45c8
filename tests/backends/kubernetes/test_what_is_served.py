"""What a cluster does not say it serves is unknown, not absent; on a real API server, with others behind or before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from reconciler.backends.backend import Backend
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.protocols import AUTOSCALERS, NAMESPACES, SERVICES, workloads_of
from reconciler.backends.snapshot.recorder import RecordedCluster, Recorder
from reconciler.errors import MalformedAnswerError
from reconciler.model import EVERY_KIND, unreadable_key
from reconciler.observe.clusters import observe
from reconciler.workload_kinds import WorkloadKind
from tests.backends.kubernetes.live import opened, requests_to
from tests.builders import a_fleet, a_policy_set
from tests.real import faults
from tests.real.cluster import create, served_meanwhile, wait_until_unserved
from tests.real.objects import a_crd, a_service, an_object
from tests.real.proxy import Proxy, Request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.control_plane import ControlPlane

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUP = "served.example"
GONE = "gone.example"
SERVICES_OF_OURS = WorkloadKind(GROUP, "v1alpha1", "Service", "services")
NODES_OF_OURS = WorkloadKind(GROUP, "v1alpha1", "Node", "nodes")
EVENTS_OF_OURS = WorkloadKind(GROUP, "v1alpha1", "Event", "events")


@pytest.fixture(scope="module")
def served(api_server: ControlPlane) -> Iterator[ControlPlane]:
    """An API server with custom kinds that are called like others, one of them without namespaces."""
    crds = [a_crd(kind, GROUP, scale=True) for kind in ("Service", "Node", "Event", "Wide")]
    crds[-1]["spec"]["scope"] = "Cluster"
    with served_meanwhile(api_server.api, crds):
        yield api_server


@pytest.fixture
def proxy(served: ControlPlane, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(served.access(), tmp_path / "proxy") as proxy:
        yield proxy


@pytest.fixture
def gone(api_server: ControlPlane) -> Iterator[ControlPlane]:
    """An API group whose own API server is down."""
    service = {"name": "gone", "namespace": "default"}
    spec = {"group": GONE, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "service": service}
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    api_server.api.create(path, an_object("apiregistration.k8s.io/v1", "APIService", f"v1.{GONE}", spec=spec))
    yield api_server
    api_server.api.delete(f"{path}/v1.{GONE}")
    wait_until_unserved(api_server.api, GONE)


def at(path: str) -> Callable[[Request], bool]:
    return lambda asked: asked.path == path


def served_by(plane: ControlPlane, accept: str) -> dict[str, Any]:
    """Return what /apis answers."""
    pool = plane.api._pool
    answer = pool.request("GET", f"{plane.url}/apis", headers={**plane.api._headers, "Accept": accept})
    found: dict[str, Any] = json.loads(answer.data)
    return found


def answered(proxy: Proxy, path: str, body: Any) -> None:
    proxy.rule(faults.answer(200, json.dumps(body).encode()), matching=at(path), times=None)


def test_a_group_whose_own_server_is_down_is_unknown(gone: ControlPlane) -> None:
    cluster = opened(gone.kubeconfig("east"))
    (found,) = [kind for kind in cluster.scale_kinds() if kind.group == GONE]
    assert (found.kind, found.plural) == (EVERY_KIND, EVERY_KIND)
    words = r"^east: get /apis: gone\.example/v1 does not say what it serves, expected"
    with pytest.raises(MalformedAnswerError, match=words):
        cluster.list(workloads_of(found))
    with pytest.raises(MalformedAnswerError, match=words):
        cluster.list(workloads_of(WorkloadKind(GONE, "v1", "Thing", "things")))
    assert len(cluster.list(NAMESPACES)) > 0


def test_metrics_that_are_not_there_are_no_gap(served: ControlPlane, proxy: Proxy) -> None:
    found = served_by(served, AGGREGATED)
    found["items"].append(
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]}
    )
    answered(proxy, "/apis", found)
    assert [one for one in opened(proxy.kubeconfig("east")).scale_kinds() if one.kind == EVERY_KIND] == []


def test_a_stale_group_that_was_known_is_known(served: ControlPlane, proxy: Proxy) -> None:
    found = served_by(served, AGGREGATED)
    (group,) = [one for one in found["items"] if one["metadata"]["name"] == GROUP]
    group["versions"][0]["freshness"] = "Stale"
    answered(proxy, "/apis", found)
    kinds = opened(proxy.kubeconfig("east")).scale_kinds()
    assert [kind.kind for kind in kinds if kind.group == GROUP] == ["Event", "Node", "Service", "Wide"]


@pytest.mark.parametrize("field", ["verbs", "subresources", "resources", "versions"])
def test_lists_that_are_null_are_empty(served: ControlPlane, proxy: Proxy, field: str) -> None:
    """A server of nothing but subresources has verbs: null in the aggregated discovery."""
    odd: dict[str, Any] = {"resource": "odds", "verbs": ["list"], "subresources": []}
    version: dict[str, Any] = {"version": "v1", "resources": [odd]}
    group: dict[str, Any] = {"metadata": {"name": "odd.example"}, "versions": [version]}
    next(one for one in (odd, version, group) if field in one)[field] = None
    found = served_by(served, AGGREGATED)
    found["items"].append(group)
    answered(proxy, "/apis", found)
    assert SERVICES_OF_OURS in opened(proxy.kubeconfig("east")).scale_kinds()


def test_a_server_that_says_it_group_by_group_is_too_old(served: ControlPlane, proxy: Proxy) -> None:
    answered(proxy, "/apis", served_by(served, "application/json"))
    words = (
        r"^east: get /apis: does not say in one answer what it serves, expected an API server of Kubernetes 1\.28 or"
    )
    with pytest.raises(MalformedAnswerError, match=words):
        opened(proxy.kubeconfig("east")).scale_kinds()


def test_a_kind_that_is_served_in_other_versions_only_is_not_absent(served: ControlPlane, proxy: Proxy) -> None:
    found = served_by(served, AGGREGATED)
    (group,) = [one for one in found["items"] if one["metadata"]["name"] == "autoscaling"]
    group["versions"] = [one for one in group["versions"] if one["version"] == "v1"]
    answered(proxy, "/apis", found)
    words = r"^east: serves horizontalpodautoscalers\.autoscaling only in v1, expected v2$"
    with pytest.raises(MalformedAnswerError, match=words):
        opened(proxy.kubeconfig("east")).list(AUTOSCALERS)


@pytest.mark.parametrize("kind", [NODES_OF_OURS, EVENTS_OF_OURS], ids=lambda kind: kind.kind)
def test_a_custom_kind_that_is_called_like_another_is_listed_as_any(
    served: ControlPlane, api_namespace: str, kind: WorkloadKind
) -> None:
    create(served.api, [an_object(f"{GROUP}/v1alpha1", kind.kind, "web", spec={"replicas": 2})], api_namespace)
    cluster = opened(served.kubeconfig("east"))
    found = cluster.list(workloads_of(kind), namespace=api_namespace)
    assert [(one.ref.namespace, one.ref.name) for one in found] == [(api_namespace, "web")]
    assert cluster.list(workloads_of(kind), namespace="elsewhere") == ()


def test_what_lies_in_no_namespace_is_not_asked_for_in_one(served: ControlPlane, api_namespace: str) -> None:
    wide = WorkloadKind(GROUP, "v1alpha1", "Wide", "wides")
    create(served.api, [an_object(f"{GROUP}/v1alpha1", "Wide", f"wide-{api_namespace}", spec={"replicas": 2})])
    cluster = opened(served.kubeconfig("east"))
    assert f"wide-{api_namespace}" in [one.ref.name for one in cluster.list(workloads_of(wide))]
    assert cluster.list(workloads_of(wide), namespace=api_namespace) == ()


def test_what_a_list_that_was_given_up_held_is_not_recorded(
    served: ControlPlane, proxy: Proxy, api_namespace: str
) -> None:
    create(served.api, [a_service("web")], api_namespace)
    path = f"/api/v1/namespaces/{api_namespace}/services"
    old = {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "old", "namespace": api_namespace}}]}
    proxy.rule(faults.answer(200, json.dumps(old).encode()), matching=at(path), times=1)
    proxy.rule(faults.answer(410), matching=lambda asked: at(path)(asked) and "continue" in asked.query)
    recorder = Recorder("east")
    cluster = RecordedCluster(KubernetesCluster("east", requests_to(proxy.kubeconfig("east"))), recorder)
    assert [one.ref.name for one in cluster.list(SERVICES, namespace=api_namespace)] == ["web"]
    manifests = yaml.safe_load_all(recorder.files("2026-11-20T22:00:00Z")["services.yaml"])
    assert [manifest["metadata"]["name"] for manifest in manifests] == ["web"]


def test_a_custom_kind_that_fails_leaves_the_one_it_is_called_like_readable(
    served: ControlPlane, proxy: Proxy, api_namespace: str
) -> None:
    """As where the conversion webhook of the custom kind fails."""
    create(served.api, [a_service("web")], api_namespace)
    proxy.rule(faults.answer(500, retry_after=0), matching=at(f"/apis/{GROUP}/v1alpha1/services"), times=None)
    source = Backend("east", opened(proxy.kubeconfig("east"), timeout=2))
    found = observe(a_policy_set(a_fleet("east")), {"east": source}).clusters["east"]
    assert list(found.unreadable) == ["services.served.example"]
    assert (api_namespace, "web") in [(one.ref.namespace, one.ref.name) for one in found.services]
    assert found.unread(GROUP, "Service") == "services.served.example"


@pytest.mark.parametrize(
    ("group", "plural", "key"),
    [
        pytest.param("", "services", "services", id="built in"),
        pytest.param("apps", "deployments", "deployments", id="built in, in a group"),
        pytest.param("keda.sh", "scaledobjects", "scaledobjects", id="known by name"),
        pytest.param(GROUP, "services", "services.served.example", id="called like another"),
        pytest.param(GONE, EVERY_KIND, "*.gone.example", id="all of a group"),
    ],
)
def test_the_keys_of_what_is_unreadable(group: str, plural: str, key: str) -> None:
    assert unreadable_key(group, plural) == key
