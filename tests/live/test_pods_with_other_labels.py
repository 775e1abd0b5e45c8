"""A Service in front of a pod whose owner's template has other labels: all behind it goes idle, or nothing does."""

from __future__ import annotations

import json

from tests.live.one_namespace import OneNamespace
from tests.real.cluster import create, wait_for_ready, wait_until
from tests.real.objects import a_deployment, an_object

NIGHT = "2035-11-20T23:00:00Z"
TARGETS = "idling.kubernetes.io/unidle-targets"
SERVICE = "/api/v1/namespaces/{}/services/web"


def fill(one: OneNamespace) -> None:
    """A Service that selects `shown`; so is the template of Deployment web, and only the pod of Deployment other."""
    api, namespace = one.api, one.namespace
    one.write(downtime="Mon-Sun 00:00-24:00")
    spec = {"selector": {"shown": "yes"}, "ports": [{"port": 80}]}
    create(api, [an_object("v1", "Service", "web", spec=spec)], namespace)
    create(api, [a_deployment("web", 2, labels={"shown": "yes"}), a_deployment("other", 1)], namespace)
    for name, replicas in (("web", 2), ("other", 1)):
        wait_for_ready(api, namespace, name, replicas)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    [pod] = [found for found in api.items(pods) if found["metadata"]["labels"]["app"] == "other"]
    name = pod["metadata"]["name"]
    api.patch(f"{pods}/{name}", {"metadata": {"labels": {"shown": "yes"}}})
    for number, shown in enumerate(api.items(pods)):  # KWOK gives no address, and what has none is no endpoint
        address = f"10.1.1.{number + 1}"
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        api.patch(f"{pods}/{shown['metadata']['name']}/status", status)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    wait_until(lambda: name in json.dumps(api.items(slices)), "the pod in the endpoints of the Service")


def marks(one: OneNamespace) -> dict[str, str]:
    return one.annotations(SERVICE.format(one.namespace))


def test_behind_a_service_all_goes_idle_or_nothing_does(one_namespace: OneNamespace) -> None:
    one = one_namespace
    fill(one)
    one.api.patch(one.path("other"), {"metadata": {"annotations": {"reconciler/exclude": "true"}}})
    said = one.apply("2035-11-20T22:50:00Z")
    assert "no workload behind it is idled: Deployment/other behind Service/web stays awake" in " ".join(said.split())
    assert (TARGETS in marks(one), one.replicas("web", "other")) == (False, [2, 1])
    one.api.patch(one.path("other"), {"metadata": {"annotations": {"reconciler/exclude": None}}})
    one.apply(NIGHT)
    assert one.replicas("web", "other") == [0, 0]
    assert [found["name"] for found in json.loads(marks(one)[TARGETS])] == ["other", "web"]
    wait_until(lambda: not one.items("/api/v1/{}pods"), "the pods to go")
    assert "No changes" in one.apply("2035-11-20T23:10:00Z")
    one.call("wake", f"member/{one.namespace}/Service/web", "--now", "2035-11-20T23:20:00Z")
    assert (TARGETS in marks(one), one.replicas("web", "other")) == (False, [2, 1])
