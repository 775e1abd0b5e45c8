"""Tiers on a real control plane: what serves others is ready before they wake, as the API server says it."""

from __future__ import annotations

from tests.live.one_namespace import OneNamespace
from tests.pipeline.manifests import documents, fleet, idling
from tests.real.api import Object
from tests.real.cluster import create, wait_for_ready, wait_until
from tests.real.objects import a_deployment

NIGHT, MORNING = "2035-11-20T23:00:00Z", "2035-11-21T08:00:00Z"
SLOW = {"reconciler.test/ready-after": "4s"}


def pod_of(one: OneNamespace, name: str) -> Object:
    [found] = [pod for pod in one.items("/api/v1/{}pods") if pod["metadata"]["labels"]["app"] == name]
    return found


def ready_since(pod: Object) -> str:
    [found] = [one["lastTransitionTime"] for one in pod["status"]["conditions"] if one["type"] == "Ready"]
    return str(found)


def test_a_tier_wakes_once_the_pods_of_the_one_before_are_ready(one_namespace: OneNamespace) -> None:
    one = one_namespace
    space = f'namespaces: {{include: ["{one.namespace}"]}}'
    policies = [
        idling(
            f"{space}, workloads: {{kinds: [Deployment, StatefulSet], include: [{name}]}}",
            f"wakeOrder: {{group: shop, tier: {tier}}}",
            "minAge: 0s",
            "limits: {workloads: 100}",
            name=name,
        )
        for tier, name in ((1, "db"), (2, "web"))
    ]
    one.folder.write("policies/all.yaml", documents(fleet(["{name: member}"], name="mine", home="member"), *policies))
    create(
        one.api, [a_deployment("db", 1, kind="StatefulSet", annotations=SLOW), a_deployment("web", 1)], one.namespace
    )
    wait_for_ready(one.api, one.namespace, "db", 1, "statefulsets")
    wait_for_ready(one.api, one.namespace, "web", 1)
    one.apply(NIGHT)
    wait_until(lambda: not one.items("/api/v1/{}pods"), "the pods to go")
    one.apply(MORNING)
    wait_until(lambda: len(one.items("/api/v1/{}pods")) == 2, "both pods")
    assert pod_of(one, "web")["metadata"]["creationTimestamp"] >= ready_since(pod_of(one, "db"))
