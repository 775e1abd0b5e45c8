"""What the component's roles and the admission policies leave an activator, and a thief of its token, on a real API
server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.activator.in_cluster import ACCOUNT, OWN, a_pod_of_ours, install
from tests.activator.services import IDLE
from tests.live import deployed
from tests.real.api import JSON_PATCH, MERGE_PATCH, Api
from tests.real.cluster import create, create_missing, deployment_path, wait_until
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_namespace, a_service, an_autoscaler, an_object, with_metadata

POD = "activator-thief"
ADDRESS, ADDRESS_6 = "198.18.2.1", "fd00:198:18::1"
MANAGED = "endpointslice.kubernetes.io/managed-by"
OF_ACTIVATORS = "activator.reconciler"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
BOUNDS = {"reconciler/previous-bounds": '{"minReplicas":2,"maxReplicas":9}', "reconciler/idled-to": "1"}
RECORD = {"idling.kubernetes.io/idled-at": "2026-11-20T15:41:23Z", "idling.kubernetes.io/previous-scale": "3"}
VICTIMS = "marked as idle at zero"
OWN_POD, NOT_OURS = "addresses of its own Pod", "only EndpointSlices of activators"


def a_lease(name: str) -> dict[str, Any]:
    return an_object("coordination.k8s.io/v1", "Lease", name, spec={"holderIdentity": "somebody"})


class Theft:
    """A namespace where Service and Deployment `web` are idle and `api` is not, and the token of an activator."""

    def __init__(self, plane: ControlPlane, namespace: str, pod: str) -> None:
        self.plane = plane
        self.admin = plane.api
        self.namespace = namespace
        self.pod = a_pod_of_ours(plane, pod, [ADDRESS, ADDRESS_6])
        self.token = self.api(pod=self.pod)
        objects = [
            with_metadata(a_service("web"), annotations=IDLE),
            a_service("api"),
            with_metadata(a_service("floor"), annotations={**IDLE, "reconciler/idled-to": "1"}),
            with_metadata(a_deployment("web", 0), annotations=RECORD),
            a_deployment("api", 2),
            with_metadata(an_autoscaler("web", 1, 1), annotations=BOUNDS),
            an_autoscaler("api", 1, 10),
        ]
        create(self.admin, objects, namespace)
        create_missing(self.admin, [with_metadata(a_service("kube-dns"), annotations=IDLE)], "kube-system")

    def api(self, pod: Mapping[str, Any] | None = None) -> Api:
        return Api(self.plane.url, self.plane.ca_file, self.plane.service_account(OWN, ACCOUNT, pod=pod))

    def a_slice(
        self,
        service: str = "web",
        *addresses: str,
        namespace: str = "",
        labels: Mapping[str, str | None] | None = None,
        **more: Any,
    ) -> tuple[str, dict[str, Any]]:
        """(path to create it, an EndpointSlice as an activator writes it for this Service)."""
        namespace = namespace or self.namespace
        found = self.admin.find(f"/api/v1/namespaces/{namespace}/services/{service}")
        uid = "00000000-0000-4000-8000-000000000000" if found is None else found["metadata"]["uid"]
        own = {
            "kubernetes.io/service-name": service,
            MANAGED: OF_ACTIVATORS,
            "reconciler/activator-pod": self.pod["metadata"]["uid"],
            **(labels or {}),
        }
        metadata = {
            "labels": {key: value for key, value in own.items() if value is not None},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": service, "uid": uid}],
        }
        made = {
            "addressType": "IPv4",
            "endpoints": [{"addresses": [one]} for one in addresses or (ADDRESS,)],
            "ports": [{"name": "", "port": 20000}],
            **more,
        }
        kind = an_object("discovery.k8s.io/v1", "EndpointSlice", f"{service}-{POD}", metadata, **made)
        return slices(namespace), kind

    def refused(self, made: tuple[str, dict[str, Any]], thief: Api | None = None) -> str:
        """Why it may not be created, "" where it may; nothing is created."""
        path, body = made
        return deployed.refusal(thief or self.token, "POST", f"{path}?dryRun=All", body)

    def patch_refused(self, path: str, body: Any, content_type: str = MERGE_PATCH) -> str:
        return deployed.refusal(self.token, "PATCH", f"{path}?dryRun=All", body, content_type)

    def of(self, kind: str, name: str) -> str:
        """The path of a Service or an autoscaler."""
        root = "/api/v1" if kind == "services" else "/apis/autoscaling/v2"
        return f"{root}/namespaces/{self.namespace}/{kind}/{name}"


def slices(namespace: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


@pytest.fixture(scope="module")
def theft(api_server: ControlPlane) -> Theft:
    """One for the tests that change nothing there."""
    namespace = "activator-thief"
    create_missing(api_server.api, [a_namespace(namespace)])
    return a_theft(api_server, namespace, POD)


@pytest.fixture
def own_theft(api_server: ControlPlane, api_namespace: str) -> Theft:
    return a_theft(api_server, api_namespace, "activator-other-thief")


def a_theft(plane: ControlPlane, namespace: str, pod: str) -> Theft:
    """Return it when the policies are in force and know the Services and the Pod."""
    install(plane)
    found = Theft(plane, namespace, pod)
    elsewhere, awake = found.a_slice("web", "10.1.1.1"), found.a_slice("api")
    wait_until(
        lambda: (
            OWN_POD in found.refused(elsewhere)
            and VICTIMS in found.refused(awake)
            and not found.refused(found.a_slice())
            and "marks nothing" in found.patch_refused(found.of("services", "api"), annotated(IDLE))
        ),
        "the admission policies",
    )
    return found


def annotated(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(annotations)}}


def test_its_own_slices_for_what_is_idle_are_made_changed_and_deleted(own_theft: Theft) -> None:
    path, made = own_theft.a_slice()
    own_theft.token.create(path, made)
    own_theft.token.patch(f"{path}/{made['metadata']['name']}", {"ports": [{"name": "", "port": 20001}]})
    own_theft.token.delete(f"{path}/{made['metadata']['name']}")
    assert own_theft.refused(own_theft.a_slice("web", ADDRESS_6, addressType="IPv6")) == ""
    own_theft.admin.patch(
        own_theft.of("services", "api"), annotated({"idling.alpha.openshift.io/idled-at": "2026-01-01"})
    )
    wait_until(lambda: own_theft.refused(own_theft.a_slice("api")) == "", "what oc idle idled")


@pytest.mark.parametrize(
    ("service", "more", "words"),
    [
        pytest.param("kube-dns", {"namespace": "kube-system"}, "in no protected namespace", id="DNS of the cluster"),
        pytest.param("kubernetes", {"namespace": "default"}, VICTIMS, id="the API server"),
        pytest.param("api", {}, VICTIMS, id="a Service that is not idle"),
        pytest.param("floor", {}, VICTIMS, id="a Service that is idle at a floor, where pods answer"),
        pytest.param(
            "web", {"labels": {"kubernetes.io/service-name": "api"}}, f"belongs to its Service|{VICTIMS}", id="another"
        ),
        pytest.param("web", {"labels": {"reconciler/activator-pod": "x"}}, "its own Pod", id="of another activator"),
        pytest.param("web", {"labels": {"reconciler/activator-pod": None}}, "its own Pod", id="of no activator"),
        pytest.param("web", {"labels": {MANAGED: "endpointslice-controller.k8s.io"}}, NOT_OURS, id="the controller's"),
        pytest.param("web", {"labels": {MANAGED: None}}, NOT_OURS, id="nobody's"),
    ],
)
def test_slices_for_anything_else_are_refused(theft: Theft, service: str, more: dict[str, Any], words: str) -> None:
    assert re.search(words, theft.refused(theft.a_slice(service, **more)))


@pytest.mark.parametrize(
    ("addresses", "family"),
    [
        pytest.param(["10.1.1.1"], "IPv4", id="of a pod of others"),
        pytest.param([ADDRESS, "10.1.1.1"], "IPv4", id="of a pod of others, after its own"),
        pytest.param(["fd00::1"], "IPv6", id="of IPv6"),
        pytest.param(["example.com"], "FQDN", id="a name"),
    ],
)
def test_slices_to_other_addresses_are_refused(theft: Theft, addresses: list[str], family: str) -> None:
    assert OWN_POD in theft.refused(theft.a_slice("web", *addresses, addressType=family))


def test_a_token_that_is_of_no_pod_or_of_another_one_makes_no_slice(own_theft: Theft) -> None:
    assert "labelled with its own Pod" in own_theft.refused(own_theft.a_slice(), own_theft.api())
    other = own_theft.api(pod=a_pod_of_ours(own_theft.plane, "activator-other", ["198.18.2.9"]))
    assert "labelled with its own Pod" in own_theft.refused(own_theft.a_slice("web", "198.18.2.9"), other)


def test_slices_of_others_stay_as_they_are(own_theft: Theft) -> None:
    path, made = own_theft.a_slice("web", labels={MANAGED: "endpointslice-controller.k8s.io"})
    create(own_theft.admin, [made], own_theft.namespace)
    one = f"{path}/{made['metadata']['name']}"
    for change in ({"metadata": {"labels": {MANAGED: OF_ACTIVATORS}}}, {"endpoints": []}):
        assert NOT_OURS in own_theft.patch_refused(one, change)
    assert NOT_OURS in deployed.refusal(own_theft.token, "DELETE", one)


def test_it_writes_the_leases_of_activators_and_not_the_lock_of_a_run(own_theft: Theft) -> None:
    create_missing(own_theft.admin, [a_lease("lock-of-a-run")], OWN)
    path = f"{LEASES}/lock-of-a-run"
    words = "activators none but reconciler/reconciler-activator-"
    assert words in own_theft.patch_refused(path, {"spec": {"holderIdentity": "activator-0"}})
    assert words in deployed.refusal(own_theft.token, "DELETE", path)
    assert words in own_theft.refused((LEASES, a_lease("another")))
    own = f"{LEASES}/reconciler-activator-a"
    own_theft.token.create(LEASES, a_lease("reconciler-activator-a"))
    own_theft.token.patch(own, {"spec": {"holderIdentity": "activator-0"}})
    own_theft.token.delete(own)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/secrets", "403"),
        ("/api/v1/configmaps", "403"),
        ("/api/v1/pods", "403"),
        (f"/api/v1/namespaces/{OWN}/pods", "403"),
        (f"/api/v1/namespaces/{OWN}/pods/{POD}", ""),
        ("/apis/coordination.k8s.io/v1/leases", "403"),
        ("/api/v1/services", ""),
    ],
)
def test_it_reads_only_what_it_needs(theft: Theft, path: str, status: str) -> None:
    assert deployed.refusal(theft.token, "GET", path)[:3] == status


@pytest.mark.parametrize(
    ("component", "admitted"), [("kubelet", False), ("reconciler/activator", True), ("reconciler", True)]
)
def test_events_are_told_in_its_own_name_only(theft: Theft, component: str, admitted: bool) -> None:
    event = an_object(
        "v1",
        "Event",
        "told",
        {"namespace": theft.namespace},
        involvedObject={"kind": "Service", "name": "web", "namespace": theft.namespace},
        reason="NeedPods",
        reportingComponent=component,
        source={"component": component.replace("/", "-")},
        reportingInstance="activator",
    )
    said = theft.refused((f"/api/v1/namespaces/{theft.namespace}/events", event))
    assert said == "" if admitted else "Events in their own name only" in said


@pytest.mark.parametrize(
    ("service", "annotations", "words"),
    [
        pytest.param("api", IDLE, "marks nothing as idle", id="another Service marked as idle"),
        pytest.param("web", {**IDLE, "reconciler/idled-to": "1"}, "marks nothing as idle", id="another floor"),
        pytest.param("web", {"reconciler/exclude-until": "2099-01-01"}, "no annotations but", id="kept up for ever"),
        pytest.param("web", {"reconciler/owner": "mine/IdlingPolicy/x"}, "no annotations but", id="another owner"),
        pytest.param("web", {"reconciler/wake-requested-at": "x"}, "", id="a request to wake"),
        pytest.param("web", {"idling.kubernetes.io/unidle-targets": "[]"}, "", id="less is idle behind it"),
        pytest.param("web", dict.fromkeys(IDLE), "", id="its mark off"),
    ],
)
def test_a_service_may_be_asked_to_wake_and_its_mark_taken_off(
    theft: Theft, service: str, annotations: dict[str, str | None], words: str
) -> None:
    said = theft.patch_refused(theft.of("services", service), annotated(annotations))
    assert words in said
    assert bool(words) == bool(said)


_WOKEN = {**dict.fromkeys(RECORD), "reconciler/awake-since": "2026-11-20T15:41:23Z"}


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        pytest.param("web", {**annotated(_WOKEN), "spec": {"replicas": 3}}, "", id="woken"),
        pytest.param("web", annotated(_WOKEN), "clears the record only of what runs", id="left at zero, unrecorded"),
        pytest.param("api", {"spec": {"replicas": 1}}, "only wakes what is idle", id="fewer replicas"),
        pytest.param("api", {"spec": {"replicas": 0}}, "only wakes what is idle", id="none"),
        pytest.param("api", {"spec": {"replicas": 99}}, "only wakes what is idle", id="more of what is awake"),
        pytest.param("api", annotated(RECORD), "marks nothing as idle", id="a record"),
        pytest.param(
            "web", annotated({"idling.kubernetes.io/previous-scale": "99"}), "marks nothing", id="another one"
        ),
        pytest.param(
            "api",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil:runs"}]}}}},
            "may not change spec.template",
            id="another image",
        ),
    ],
)
def test_a_workload_is_only_woken(theft: Theft, name: str, body: dict[str, Any], words: str) -> None:
    said = theft.patch_refused(deployment_path(theft.namespace, name), body)
    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize(
    ("name", "bounds", "words"),
    [
        pytest.param("web", (2, 9), "", id="back to what is recorded"),
        pytest.param("web", (2, 99), "sets maxReplicas only back", id="a maximum above what is recorded"),
        pytest.param("web", (5, 9), "sets minReplicas only back", id="a minimum above what is recorded"),
        pytest.param("api", (1, 1), "sets maxReplicas only back", id="a maximum of 1 where nothing is recorded"),
        pytest.param("api", (10, 10), "sets minReplicas only back", id="a minimum of 10 where nothing is recorded"),
    ],
)
def test_the_bounds_of_an_autoscaler_go_back_and_nowhere_else(
    theft: Theft, name: str, bounds: tuple[int, int], words: str
) -> None:
    body = {"spec": {"minReplicas": bounds[0], "maxReplicas": bounds[1]}}
    said = theft.patch_refused(theft.of("horizontalpodautoscalers", name), body)
    assert words in said
    assert bool(words) == bool(said)


def test_neither_labels_nor_what_a_service_selects_are_changed(theft: Theft) -> None:
    service = theft.of("services", "web")
    for path, value, words in (
        ("/spec/selector", {"app": "other"}, "may not change spec.selector"),
        ("/metadata/labels", {"x": "y"}, "may not change metadata.labels.x"),
    ):
        assert words in theft.patch_refused(service, [{"op": "add", "path": path, "value": value}], JSON_PATCH)


def test_slices_of_others_are_written_also_where_there_are_no_services_and_no_pods_of_activators(
    own_theft: Theft,
) -> None:
    """Admission looks for what a policy is about before it asks whom the policy is about, and refuses if it is gone."""
    empty = f"{own_theft.namespace}-empty"
    create(own_theft.admin, [a_namespace(empty)])
    ours, others = (own_theft.a_slice("web", namespace=empty, labels=labels) for labels in ({}, {MANAGED: None}))
    assert "no params found" in own_theft.refused(ours)
    assert own_theft.refused(others, own_theft.admin) == ""
    pods = f"/api/v1/namespaces/{OWN}/pods"
    for one in own_theft.admin.items(pods):
        own_theft.admin.delete(f"{pods}/{one['metadata']['name']}")
    wait_until(
        lambda: "no params found" in own_theft.refused(own_theft.a_slice()), "admission to know that the Pod is gone"
    )
    for namespace in (empty, own_theft.namespace):
        made = own_theft.a_slice("web", namespace=namespace, labels={MANAGED: "endpointslice-controller.k8s.io"})
        assert own_theft.refused(made, own_theft.admin) == ""
