"""A Service in front of a pod whose owner's template has other labels: all behind it goes idle, or nothing does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

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
    create(api, [a_deployment("web", 2, labels={"shown": "yes"})], namespace)
    older = created(one, "web") + timedelta(seconds=2)  # times of creation are whole seconds
    wait_until(lambda: datetime.now(UTC) >= older, "a Deployment that is younger than the other")
    create(api, [a_deployment("other", 1)], namespace)
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


def created(one: OneNamespace, name: str) -> datetime:
    text = one.api.get(one.path(name))["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize("held", ["excluded", "too young"])
def test_a_service_is_not_marked_while_the_owner_of_a_pod_behind_it_runs(
    one_namespace: OneNamespace, held: str
) -> None:
    fill(one_namespace)
    now = NIGHT
    if held == "excluded":
        exclude = {"metadata": {"annotations": {"reconciler/exclude": "true"}}}
        one_namespace.api.patch(one_namespace.path("other"), exclude)
    else:
        young = created(one_namespace, "other") + timedelta(hours=1, seconds=-1)
        assert created(one_namespace, "web") + timedelta(hours=1) <= young
        now = young.strftime("%Y-%m-%dT%H:%M:%SZ")
    said = one_namespace.apply(now)
    assert "no workload behind it is idled: Deployment/other behind Service/web stays awake" in " ".join(said.split())
    assert TARGETS not in marks(one_namespace)
    assert one_namespace.replicas("web", "other") == [2, 1]


def test_otherwise_both_go_idle_and_both_come_back(one_namespace: OneNamespace) -> None:
    fill(one_namespace)
    one_namespace.apply(NIGHT)
    assert one_namespace.replicas("web", "other") == [0, 0]
    assert [one["name"] for one in json.loads(marks(one_namespace)[TARGETS])] == ["other", "web"]
    wait_until(lambda: not one_namespace.items("/api/v1/{}pods"), "the pods to go")
    assert "No changes" in one_namespace.apply("2035-11-20T23:10:00Z")
    one_namespace.call("wake", f"member/{one_namespace.namespace}/Service/web", "--now", "2035-11-20T23:20:00Z")
    assert one_namespace.replicas("web", "other") == [2, 1]
    assert TARGETS not in marks(one_namespace)
