"""Federated ReplicaSets on three real control planes; what runs is counted by their API servers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.pipeline.calls import Folder
from tests.real.api import Api, Object
from tests.real.cluster import (
    Refusal,
    create,
    create_missing,
    pods_of,
    refuse,
    replicas_of,
    wait_until,
)
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_deployment, a_namespace, a_node, a_pod_template, a_quota

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

NAMES = ("east", "north", "west")
TODAY = datetime.now(UTC).replace(microsecond=0)
NIGHT = (TODAY + timedelta(days=7 + (4 - TODAY.weekday()) % 7)).replace(hour=22, minute=0, second=0)  # a Friday


class Fleet:
    """Three clusters, each with one large node, and policies that a test writes; `start` is when it began.

    Namespaces and nodes have names of their own: other tests use the same clusters.
    """

    def __init__(self, planes: dict[str, ControlPlane], folder: Path) -> None:
        accesses = {name: plane.access() for name, plane in planes.items()}
        self.planes = planes
        self.cli = Folder(folder, write_kubeconfig(folder / "kubeconfig.yaml", accesses))
        self.start = datetime.now(UTC).replace(microsecond=0)
        self.suffix = secrets.token_hex(3)
        self.own, self.shop = f"reconciler-{self.suffix}", f"shop-{self.suffix}"

    def write(self, *policies: Object, **states: str) -> None:
        """Make `policies` those of the Fleet, whose clusters are in the `states` given."""
        clusters = [{"name": name, "state": states.get(name, "Active")} for name in NAMES]
        limits = {"default": {part: {"share": "100%", "atLeast": 1000} for part in ("perCluster", "fleet")}}
        fleet = a_policy("Fleet", f"three-{self.suffix}", home="east", clusters=clusters, limits=limits)
        fleet["spec"]["namespace"] = self.own
        self.cli.write("policies/all.yaml", yaml.safe_dump_all([fleet, *policies]))

    def api(self, name: str) -> Api:
        return self.planes[name].api

    def run(self, after: timedelta, since: datetime | None = None) -> int:
        """Apply as if it were `after` that time, the start by default; return the exit code."""
        now = ((since or self.start) + after).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = self.cli.call("apply", "policies", "--now", now, "--auto-approve", "--quiet", "--request-timeout", "5")
        assert said.code in (0, 6), said.out + said.err
        return said.code

    def asked(self, namespace: str, kind: str = "replicasets") -> dict[str, int]:
        return {name: replicas_of(self.api(name), namespace, "web", kind) for name in NAMES}

    def wait_for_pods(self, namespace: str, **counts: int) -> None:
        """Return when just so many pods of web are Running in each cluster named."""
        for name, count in counts.items():
            has_so_many = partial(has_pods, self.api(name), namespace, count, running=True)
            wait_until(has_so_many, f"{count} running pods of web in {name}")


def has_pods(api: Api, namespace: str, count: int, *, running: bool) -> bool:
    return len(pods_of(api, namespace, "web", running=running)) == count


def quotas_count(api: Api, namespace: str) -> bool:
    quotas = api.items(f"/api/v1/namespaces/{namespace}/resourcequotas")
    return all("hard" in quota.get("status", {}) for quota in quotas)


def a_policy(policy_kind: str, name: str, namespace: str = "", **spec: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "reconciler/v1alpha1", "kind": policy_kind, "metadata": metadata, "spec": spec}


def in_pool(pool: str) -> dict[str, Any]:
    """What a pod says to run on the nodes of a pool, which take no others."""
    return {"nodeSelector": {"pool": pool}, "tolerations": [{"key": "pool", "operator": "Exists"}]}


def a_pool_node(name: str, pool: str, **room: Any) -> Object:
    node = a_node(name, pool=pool, **room)
    return {**node, "spec": {"taints": [{"key": "pool", "value": pool, "effect": "NoSchedule"}]}}


def a_federated(namespace: str, replicas: int, pool: str = "large", **spec: Any) -> Object:
    """web, spread evenly over all clusters, on the nodes of a pool."""
    template = a_pod_template("web")
    template["spec"] |= in_pool(pool)
    made = {
        "replicas": replicas,
        "preferences": {"rebalance": True, "clusters": {"*": {"weight": 1}}},
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
    }
    return a_policy("FederatedReplicaSet", "web", namespace, **(made | spec))


@pytest.fixture
def fleet(three_planes: list[ControlPlane], tmp_path: Path) -> Fleet:
    made = Fleet(dict(zip(NAMES, three_planes, strict=True)), tmp_path)
    for plane in made.planes.values():
        create_missing(plane.api, [a_pool_node("large", "large")])
        create(plane.api, [a_namespace(made.own), a_namespace(made.shop)])
    return made


def a_sick(kind: str, six: str) -> tuple[dict[str, Any], list[Object]]:
    """What is different about a Deployment of ten pods of that kind, and what must be there beside it.

    `six` is a pool with room for six pods.
    """
    pool: dict[str, Any] = {"spec": in_pool("large")}
    return {
        "unschedulable": ({"spec": in_pool(six)}, []),
        "not created": (pool, [a_quota(pods="6")]),
        "crashing": (pool | {"labels": {"reconciler.test/crashing": "true"}}, []),
        "pending": (pool | {"labels": {"reconciler.test/unready": "true"}}, []),
    }[kind]


def waiting_in(api: Api, namespace: str) -> list[Object]:
    """The pods that the scheduler has tried to place, and could not."""
    return [
        pod
        for pod in pods_of(api, namespace)
        if not pod["spec"].get("nodeName") and pod.get("status", {}).get("conditions")
    ]


def waits(api: Api, namespace: str, count: int) -> bool:
    return len(waiting_in(api, namespace)) == count


def backdate(api: Api, pods: Iterable[Object], to: datetime) -> None:
    """Let pods be unschedulable since another time."""
    at = to.strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in pods:
        conditions = [{**one, "lastTransitionTime": at} for one in pod["status"]["conditions"]]
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        api.patch(path, {"status": {"conditions": conditions}})


def test_nothing_is_moved_to_a_cluster_whose_pods_do_not_run(fleet: Fleet) -> None:
    kinds = ("unschedulable", "not created", "crashing", "pending")
    spaces = {kind: f"{kind.replace(' ', '-')}-{fleet.suffix}" for kind in kinds}
    six = f"six-{fleet.suffix}"
    create(fleet.api("west"), [a_pool_node(six, six, pods=6)])
    create(fleet.api("north"), [a_pool_node(f"two-{space}", space, pods=2) for space in spaces.values()])
    target = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    evenly = {"rebalance": True, "clusters": {"*": {"weight": 1}}}
    fleet.write(
        *(
            a_policy("FederatedReplicaSet", "web", space, replicas=30, preferences=evenly, **target)
            for space in spaces.values()
        )
    )
    for kind, space in spaces.items():
        sick, beside = a_sick(kind, six)
        selectors = {"east": "large", "north": space}
        for name in NAMES:
            more = sick if name == "west" else {"spec": in_pool(selectors[name])}
            create(fleet.api(name), [a_namespace(space)])
            if name == "west":
                create(fleet.api(name), beside, space)
                wait_until(partial(quotas_count, fleet.api(name), space), f"the quotas of {space} count")
            create(fleet.api(name), [a_deployment("web", 10, **more)], space)
    made = {"unschedulable": 10, "not created": 6, "crashing": 10, "pending": 10}
    for kind, space in spaces.items():
        fleet.wait_for_pods(space, east=10, north=2)
        wait_until(partial(has_pods, fleet.api("west"), space, made[kind], running=False), f"pods that are {kind}")
        wait_until(partial(waits, fleet.api("north"), space, 8), f"8 pods of {space} wait")
        backdate(fleet.api("north"), waiting_in(fleet.api("north"), space), fleet.start - timedelta(minutes=30))
    fleet.run(timedelta(minutes=4))
    for space in spaces.values():
        assert fleet.asked(space, "deployments") == {"east": 18, "north": 4, "west": 10}
        fleet.wait_for_pods(space, east=18, north=2)
    assert {kind: len(pods_of(fleet.api("west"), space)) for kind, space in spaces.items()} == made


def a_night(fleet: Fleet) -> Object:
    """Everything of the shop is idle on the evening of a Friday, until the next morning."""
    return a_policy(
        "IdlingPolicy",
        f"nights-{fleet.suffix}",
        selector={"namespaces": {"include": [fleet.shop]}, "workloads": {"kinds": ["ReplicaSet"]}},
        idleWhen=[{"schedule": {"timeZone": "UTC", "downtime": ["20:00-07:00"]}}],
    )


def status_of(fleet: Fleet) -> dict[str, Any]:
    found = fleet.api("east").get(f"/api/v1/namespaces/{fleet.own}/configmaps/reconciler-status-{fleet.shop}.web")
    return dict(json.loads(found["metadata"]["annotations"]["reconciler/status"])["clusters"])


def test_what_the_api_server_does_not_let_go_idle_is_not_called_idle(fleet: Fleet) -> None:
    two = {"rebalance": True, "clusters": {"east": {"weight": 1}, "west": {"weight": 1}}}
    fleet.write(a_federated(fleet.shop, 2, preferences=two), a_night(fleet))
    fleet.run(timedelta(hours=-10), NIGHT)
    fleet.wait_for_pods(fleet.shop, east=1, west=1)
    asleep = "object.spec.replicas == 0"
    refuse(fleet.api("west"), fleet.shop, Refusal("stays up", resource="replicasets", when=asleep))
    for minutes in (0, 1):
        fleet.run(timedelta(minutes=minutes), NIGHT)
    fleet.wait_for_pods(fleet.shop, east=0, west=1)
    assert "idle" not in status_of(fleet)["west"]
