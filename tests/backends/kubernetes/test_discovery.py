"""What a cluster serves, and what its objects may hold, on a real API server: what is not said is unknown."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from reconciler.backends.backend import Backend
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.errors import refusal_status
from reconciler.backends.kubernetes.pages import decoded
from reconciler.backends.kubernetes.request_form import Operation
from reconciler.backends.protocols import AUTOSCALERS, NAMESPACES, SERVICES, workloads_of
from reconciler.backends.snapshot.recorder import RecordedCluster, Recorder
from reconciler.errors import ForbiddenError, MalformedAnswerError, StaleError
from reconciler.http.client import HttpResponse
from reconciler.model import EVERY_KIND, ObjectRef, PatchOperation, Write, unreadable_key
from reconciler.observe.clusters import observe
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind
from tests.backends.kubernetes.live import opened, requests_to, scaled
from tests.builders import a_fleet, a_policy_set
from tests.real import faults
from tests.real.cluster import create, served_meanwhile, wait_until_unserved
from tests.real.objects import a_crd, a_deployment, a_service, an_object, with_metadata
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
SCALES = "scales.example"
ODD = WorkloadKind("odd.example", "v1alpha1", "Odd", "odds")
SECRETS = Operation("east", "get", "secrets", "shop", "a")
SIZED = WorkloadKind(
    SCALES, "v1", "Deployment", "deployments", ("spec", "size"), ("status", "size"), status_counts=("readyReplicas",)
)


def a_sized_crd() -> dict[str, Any]:
    """Replicas in spec.size, two versions of which the second is stored and has more in its status, and a kind that
    others have too.
    """
    crd = a_crd("Deployment", SCALES, version="v1beta1", scale=True)
    first = crd["spec"]["versions"][0]
    first["subresources"]["scale"].update(specReplicasPath=".spec.size", statusReplicasPath=".status.size")
    second = copy.deepcopy(first)
    first["storage"] = False
    second["name"] = "v1"
    second["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = {"readyReplicas": {"type": "integer"}}
    crd["spec"]["versions"].append(second)
    return crd


@pytest.fixture(scope="module")
def served(api_server: ControlPlane) -> Iterator[ControlPlane]:
    """An API server with custom kinds: called like others, without namespaces, and with replicas elsewhere."""
    crds = [a_crd(kind, GROUP, scale=True) for kind in ("Service", "Node", "Event", "Wide")]
    crds[-1]["spec"]["scope"] = "Cluster"
    more = [a_crd("Plain", SCALES), a_crd("Hidden", "hidden.example", scale=True), a_crd("Odd", ODD.group, scale=True)]
    with served_meanwhile(api_server.api, [*crds, a_sized_crd(), *more]):
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


def test_a_group_whose_own_server_is_down_is_unknown(gone):
    cluster = opened(gone.kubeconfig("east"))
    (found,) = [kind for kind in cluster.scale_kinds() if kind.group == GONE]
    assert (found.kind, found.plural) == (EVERY_KIND, EVERY_KIND)
    words = r"^east: get /apis: gone\.example/v1 does not say what it serves, expected"
    with pytest.raises(MalformedAnswerError, match=words):
        cluster.list(workloads_of(found))
    with pytest.raises(MalformedAnswerError, match=words):
        cluster.list(workloads_of(WorkloadKind(GONE, "v1", "Thing", "things")))
    assert len(cluster.list(NAMESPACES)) > 0


def test_metrics_that_are_not_there_are_no_gap(served, proxy):
    found = served_by(served, AGGREGATED)
    found["items"].append(
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]}
    )
    answered(proxy, "/apis", found)
    assert [one for one in opened(proxy.kubeconfig("east")).scale_kinds() if one.kind == EVERY_KIND] == []


def test_a_stale_group_that_was_known_is_known(served, proxy):
    found = served_by(served, AGGREGATED)
    (group,) = [one for one in found["items"] if one["metadata"]["name"] == GROUP]
    group["versions"][0]["freshness"] = "Stale"
    answered(proxy, "/apis", found)
    kinds = opened(proxy.kubeconfig("east")).scale_kinds()
    assert [kind.kind for kind in kinds if kind.group == GROUP] == ["Event", "Node", "Service", "Wide"]


@pytest.mark.parametrize("field", ["verbs", "subresources", "resources", "versions"])
def test_lists_that_are_null_are_empty(served, proxy, field):
    """A server of nothing but subresources has verbs: null in the aggregated discovery."""
    odd = {"resource": "odds", "verbs": ["list"], "subresources": []}
    version = {"version": "v1", "resources": [odd]}
    group = {"metadata": {"name": "odd.example"}, "versions": [version]}
    next(one for one in (odd, version, group) if field in one)[field] = None
    found = served_by(served, AGGREGATED)
    found["items"].append(group)
    answered(proxy, "/apis", found)
    assert SERVICES_OF_OURS in opened(proxy.kubeconfig("east")).scale_kinds()


def test_a_server_that_says_it_group_by_group_is_too_old(served, proxy):
    answered(proxy, "/apis", served_by(served, "application/json"))
    words = (
        r"^east: get /apis: does not say in one answer what it serves, expected an API server of Kubernetes 1\.28 or"
    )
    with pytest.raises(MalformedAnswerError, match=words):
        opened(proxy.kubeconfig("east")).scale_kinds()


def test_a_kind_that_is_served_in_other_versions_only_is_not_absent(served, proxy):
    found = served_by(served, AGGREGATED)
    (group,) = [one for one in found["items"] if one["metadata"]["name"] == "autoscaling"]
    group["versions"] = [one for one in group["versions"] if one["version"] == "v1"]
    answered(proxy, "/apis", found)
    words = r"^east: serves horizontalpodautoscalers\.autoscaling only in v1, expected v2$"
    with pytest.raises(MalformedAnswerError, match=words):
        opened(proxy.kubeconfig("east")).list(AUTOSCALERS)


@pytest.mark.parametrize("kind", [NODES_OF_OURS, EVENTS_OF_OURS], ids=lambda kind: kind.kind)
def test_a_custom_kind_that_is_called_like_another_is_listed_as_any(served, api_namespace, kind):
    create(served.api, [an_object(f"{GROUP}/v1alpha1", kind.kind, "web", spec={"replicas": 2})], api_namespace)
    cluster = opened(served.kubeconfig("east"))
    found = cluster.list(workloads_of(kind), namespace=api_namespace)
    assert [(one.ref.namespace, one.ref.name) for one in found] == [(api_namespace, "web")]
    assert cluster.list(workloads_of(kind), namespace="elsewhere") == ()


def test_what_lies_in_no_namespace_is_not_asked_for_in_one(served, api_namespace):
    wide = WorkloadKind(GROUP, "v1alpha1", "Wide", "wides")
    create(served.api, [an_object(f"{GROUP}/v1alpha1", "Wide", f"wide-{api_namespace}", spec={"replicas": 2})])
    cluster = opened(served.kubeconfig("east"))
    assert f"wide-{api_namespace}" in [one.ref.name for one in cluster.list(workloads_of(wide))]
    assert cluster.list(workloads_of(wide), namespace=api_namespace) == ()


def test_what_a_list_that_was_given_up_held_is_not_recorded(served, proxy, api_namespace):
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


def test_a_custom_kind_that_fails_leaves_the_one_it_is_called_like_readable(served, proxy, api_namespace):
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
def test_the_keys_of_what_is_unreadable(group, plural, key):
    assert unreadable_key(group, plural) == key


def test_a_kind_is_found_with_its_paths_and_its_stored_version(served):
    kinds = opened(served.kubeconfig("east")).scale_kinds()
    assert [kind for kind in kinds if kind.group == SCALES] == [SIZED]


def test_kinds_of_the_same_name_in_two_groups_are_told_apart(served, api_namespace):
    cluster = opened(served.kubeconfig("east"))
    create(served.api, [an_object(f"{SCALES}/v1", "Deployment", "web", spec={"size": 3})], api_namespace)
    (found,) = cluster.list(workloads_of(SIZED), namespace=api_namespace)
    assert (found.ref.group, found.replicas, found.replicas_path) == (SCALES, 3, ("spec", "size"))
    assert (
        cluster.list(workloads_of(WorkloadKind("apps", "v1", "Deployment", "deployments")), namespace=api_namespace)
        == ()
    )


@pytest.mark.parametrize("is_custom", [False, True])
def test_to_zero_and_back_through_scale(served, api_namespace, is_custom):
    """A Scale with 0 replicas has no spec.replicas: the API server leaves it out."""
    custom = an_object(f"{SCALES}/v1", "Deployment", "web", spec={"size": 3})
    made = custom if is_custom else a_deployment("web", 3)
    create(served.api, [made], api_namespace)
    cluster = opened(served.kubeconfig("east"))
    group, _, version = made["apiVersion"].partition("/")
    ref, leaf = ObjectRef("east", api_namespace, "Deployment", "web", group), "size" if is_custom else "replicas"
    path = f"/apis/{group}/{version}/namespaces/{api_namespace}/deployments/web"
    cluster.write(scaled(ref, made["apiVersion"], 3, 5, f"/spec/{leaf}"))
    assert "scale" in [entry.get("subresource") for entry in served.api.get(path)["metadata"]["managedFields"]]
    for before, after in ((5, 0), (0, 2)):
        cluster.write(scaled(ref, made["apiVersion"], before, after, f"/spec/{leaf}"))
        assert served.api.get(path)["spec"][leaf] == after
    with pytest.raises(StaleError, match=f"/spec/{leaf} is 2, expected 0"):
        cluster.write(scaled(ref, made["apiVersion"], 0, 5, f"/spec/{leaf}"))
    assert served.api.get(path)["spec"][leaf] == 2


def test_replicas_and_marks_of_a_custom_kind_change_in_one_request(served, api_namespace):
    create(served.api, [an_object(f"{SCALES}/v1", "Deployment", "web", spec={"size": 3})], api_namespace)
    patch = (
        PatchOperation("test", "/metadata/annotations", None),
        PatchOperation("test", "/spec/size", 3),
        PatchOperation("add", "/metadata/annotations", {"idling.kubernetes.io/previous-scale": "3"}),
        PatchOperation("replace", "/spec/size", 0),
    )
    ref = ObjectRef("east", api_namespace, "Deployment", "web", SCALES)
    opened(served.kubeconfig("east")).write(Write("patch", ref, f"{SCALES}/v1", patch=patch))
    found = served.api.get(f"/apis/{SCALES}/v1/namespaces/{api_namespace}/deployments/web")
    assert found["spec"]["size"] == 0
    assert found["metadata"]["annotations"] == {"idling.kubernetes.io/previous-scale": "3"}


def test_a_definition_that_may_not_be_read_makes_its_kind_unreadable_and_no_other(served, api_namespace):
    token = served.service_account(api_namespace, "reader")
    definitions = {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [f"deployments.{SCALES}"],
        "verbs": ["get"],
    }
    everything = {"apiGroups": ["hidden.example", SCALES, "apps"], "resources": ["*"], "verbs": ["get", "list"]}
    name = f"reader-{api_namespace}"
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": api_namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    version = "rbac.authorization.k8s.io/v1"
    create(served.api, [an_object(version, "ClusterRole", name, rules=[definitions, everything])])
    create(served.api, [an_object(version, "ClusterRoleBinding", name, roleRef=role, subjects=[subject])])

    cluster = opened(served.kubeconfig("east", token=token))
    kinds = {kind.group: kind for kind in cluster.scale_kinds()}
    assert kinds[SCALES] == SIZED
    assert cluster.list(workloads_of(SIZED), namespace=api_namespace) == ()
    with pytest.raises(ForbiddenError, match=r"get customresourcedefinitions.* hiddens\.hidden\.example: forbidden"):
        cluster.list(workloads_of(kinds["hidden.example"]))


def test_what_is_served_is_asked_once(served):
    requests = requests_to(served.kubeconfig("east"))
    cluster = KubernetesCluster("east", requests)
    cluster.scale_kinds()
    before = requests.traffic().requests
    cluster.scale_kinds()
    cluster.list(workloads_of(SIZED))
    assert requests.traffic().requests == before + 1


def test_maps_nested_a_thousand_deep_make_their_kind_unreadable_and_no_other(served, tmp_path):
    text = '{"metadata": {"name": "web"}, "spec": ' + '{"a": ' * 3000 + "1" + "}" * 3001
    cluster_path = "/apis/odd.example/v1alpha1/odds"
    with Proxy(served.access(), tmp_path) as proxy:
        body = ('{"items": [' + text + "]}").encode()
        proxy.rule(faults.answer(200, body), matching=lambda asked: asked.path == cluster_path, times=None)
        cluster = opened(proxy.kubeconfig("east"))
        with pytest.raises(MalformedAnswerError, match=r"^east: list odds\.odd\.example: the answer is not JSON \("):
            cluster.list(workloads_of(ODD))
        assert len(cluster.list(NAMESPACES)) > 0


def test_a_count_written_as_a_very_long_text_is_none(served, api_namespace):
    status = {"observedGeneration": "9" * 5000, "replicas": 2}
    create(served.api, [an_object("odd.example/v1alpha1", "Odd", "web", spec={"replicas": 2})], api_namespace)
    path = f"/apis/odd.example/v1alpha1/namespaces/{api_namespace}/odds/web/status"
    served.api.patch(path, {"status": status})
    (found,) = opened(served.kubeconfig("east")).list(workloads_of(ODD), namespace=api_namespace)
    assert (found.status_replicas, found.observed_generation) == (2, None)


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_anybody_may_write_keeps_nobody_from_reading_a_list(api_server, api_namespace, time):
    """Whoever may create a Deployment states who wrote it when, and the lists are those of the cluster."""
    entry = {"manager": "any", "operation": "Update", "apiVersion": "apps/v1", "time": time, "fieldsType": "FieldsV1"}
    made = with_metadata(
        a_deployment("web"), managedFields=[{**entry, "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}]
    )
    create(api_server.api, [made], api_namespace)
    resource = workloads_of(SCALABLE_KINDS["apps", "Deployment"])
    assert len(opened(api_server.kubeconfig("east")).list(resource, namespace=api_namespace)) == 1


def test_an_answer_that_is_no_utf_8(api_server, tmp_path):
    def is_list(request):
        return request.path == "/api/v1/namespaces"

    with Proxy(api_server.access(), tmp_path) as proxy:
        proxy.rule(faults.answer(200, b'{"items": [{"metadata": {"name": "\xff"}}]}'), matching=is_list, times=None)
        with pytest.raises(MalformedAnswerError, match=r"^east: list namespaces: the answer is not JSON \("):
            opened(proxy.kubeconfig("east")).list(NAMESPACES)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"message": "\xff"}', id="no UTF-8"),
        pytest.param(b'{"message": ' * 3000, id="nested too deep"),
    ],
)
def test_an_object_and_a_refusal_that_cannot_be_decoded(body):
    with pytest.raises(MalformedAnswerError, match=r"^east: get secrets a in shop: the answer is (malformed|not JSON)"):
        decoded(body, dict, SECRETS)
    assert (refusal_status(HttpResponse(403, {}, body)).message or "").startswith('{"message": ')
