"""What a limit keeps from going idle is awake for the other jobs, in the same run and in what it writes."""

from __future__ import annotations

import json

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import (
    UNLIMITED,
    an_object,
    documents,
    downscale,
    fleet,
    idling,
    placed,
    service,
    target_ref,
    template,
    weights,
    workload,
)

BOTH = ("east", "west")


def platform(paths: str, *more: str) -> str:
    tenant = (
        '{name: a, kinds: [IdlingPolicy, DownscalePolicy, FederatedReplicaSet], paths: ["teams/a/**"], '
        'clusters: ["*"], namespaces: ["a-*"], limits: {workloads: 100, replicas: 20}}'
    )
    return fleet(BOTH, UNLIMITED, f"platformPaths: [{paths}]", f"tenants: [{tenant}]", *more, name="prod")


IN_A = 'namespaces: {include: ["a-*"]}, workloads: '
OF_TENANT = documents(
    idling(f"{IN_A}{{matchExpressions: [{{key: app, operator: In, values: [big, web]}}]}}"),
    downscale(f"{IN_A}{{kinds: [Deployment]}}", 4, name="workers"),
    placed(2, weights(*BOTH), target_ref(), namespace="a-1"),
)
NAMESPACE = an_object("Namespace", "a-1")
DAY, NIGHT = "2026-11-25T12:00:00Z", "2026-11-25T21:00:00Z"


def deployment(name: str, replicas: int, namespace: str = "a-1", more: str = "") -> str:
    metadata = f'labels: {{app: {name}}}, creationTimestamp: "2026-10-01T09:00:00Z"{more}'
    return workload(name, namespace, replicas, metadata=metadata)


def test_an_idle_that_a_limit_held_back_stays_so_once_the_others_decide(tmp_path):
    """Once `big` counts as awake, the DownscalePolicy takes of the same limit: only one of both passes."""
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", platform("fleet.yaml"))
    folder.write("policies/teams/a/all.yaml", OF_TENANT)
    east = (NAMESPACE, deployment("big", 15), deployment("other", 10), deployment("web", 1))
    folder.write("snapshot/east/all.yaml", documents(*east))
    folder.write("snapshot/west/all.yaml", documents(NAMESPACE, deployment("web", 1)))
    folder.apply(DAY, "--policy", "a-1/web")

    planned = json.loads(folder.plan(NIGHT, "-o", "json").out)
    folder.apply(NIGHT)

    status = folder.objects()["east", "reconciler", "ConfigMap", "reconciler-status-a-1.web"]
    clusters = json.loads(status["metadata"]["annotations"]["reconciler/status"])["clusters"]
    web = {name: folder.replicas(name, "a-1", "Deployment", "web") for name in ("east", "west")}
    assert {name: one["running"] for name, one in clusters.items()} == web == {"east": 1, "west": 1}
    assert not any("idle" in one for one in clusters.values())
    assert folder.replicas("east", "a-1", "Deployment", "big") == 4
    assert all(one["changes"] for one in planned["heldBack"])


REPLACED = documents(
    fleet(["east"], "limits: {default: {perCluster: {share: 0%, atLeast: 0}}}"),
    placed(3, "", template().replace("app: web", "app: web, tier: front"), namespace="a-1"),
    idling("namespaces: {include: [a-1]}, services: {}"),
)
RECORD = "{reconciler/owner: f/FederatedReplicaSet/a-1/web, reconciler/on-delete: orphan}"
OURS = f"labels: {{reconciler/frs: web}}, annotations: {RECORD}"


def test_what_is_made_anew_as_its_idle_is_held_back_leaves_no_service_recorded_as_idle(tmp_path):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", REPLACED)
    ours = workload("web", "a-1", 3, kind="ReplicaSet", metadata=OURS)
    folder.write("snapshot/east/all.yaml", documents(NAMESPACE, ours, service("web", "a-1")))

    planned = json.loads(folder.plan(NIGHT, "-o", "json").out)
    folder.apply(NIGHT)

    assert [one["allow"] for one in planned["heldBack"]] == ["nights"]
    assert folder.replicas("east", "a-1", "ReplicaSet", "web") == 3
    assert "annotations" not in folder.objects()["east", "a-1", "Service", "web"]["metadata"]


PICKED = downscale(
    "namespaces: {include: [prod]}, workloads: {}",
    1,
    "production: true",
    "podPicker: {http: {host: picker.prod.svc, port: 9}, onError: fallback}",
    name="pick",
)


def owned(by: str, uid: str) -> str:
    owner = f"{{apiVersion: apps/v1, kind: {by}, uid: {uid}, controller: true}}"
    return f"labels: {{app: u}}, ownerReferences: [{owner}]"


def pod(number: int) -> str:
    metadata = f'uid: u-{number}, creationTimestamp: "2026-11-01T00:00:00Z", {owned("ReplicaSet, name: u-1", "rs")}'
    ready = '{type: Ready, status: "True", lastTransitionTime: "2026-11-01T00:00:00Z"}'
    return (
        an_object("Pod", f"u-{number}", "prod", "nodeName: node", "containers: [{name: main}]", metadata=metadata)
        + f"status: {{phase: Running, conditions: [{ready}]}}\n"
    )


def test_what_a_limit_held_back_stays_so_where_pod_pickers_are_asked(tmp_path):
    folder = Folder(tmp_path)
    hosts = 'podPickers: {allowedHosts: ["*.svc"]}'
    folder.write("policies/fleet.yaml", platform('fleet.yaml, "platform/**"', hosts))
    folder.write("policies/platform/pick.yaml", PICKED)
    folder.write("policies/teams/a/all.yaml", OF_TENANT)
    parts = workload(
        "u-1", "prod", 3, kind="ReplicaSet", app="u", metadata=f"uid: rs, {owned('Deployment, name: u', 'of-u')}"
    )
    picked = (an_object("Namespace", "prod"), deployment("u", 3, "prod", ", uid: of-u"), parts, *map(pod, range(3)))
    east = (NAMESPACE, deployment("big", 15), deployment("other", 10), deployment("web", 1), *picked)
    folder.write("snapshot/east/all.yaml", documents(*east))
    folder.write("snapshot/west/all.yaml", documents(NAMESPACE, deployment("web", 1)))
    folder.apply(DAY, "--policy", "a-1/web")

    said = {flags: json.loads(folder.plan(NIGHT, "-o", "json", *flags).out) for flags in ((), ("--call-pickers",))}

    for planned in said.values():
        assert [one["object"]["name"] for one in planned["actions"] if one["verb"] == "idle"] == []
    assert any(one["kind"] == "picker" for one in said["--call-pickers",]["notices"]), "it was asked"
