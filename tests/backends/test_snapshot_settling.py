"""A write of replicas settles at once: statuses follow, the pods the controller would pick go, none is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.protocols import AUTOSCALERS, ENDPOINT_SLICES, ENDPOINTS, PODS, workloads_of
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.errors import StaleError
from reconciler.model import ObjectRef, Workload, Write
from reconciler.workload_kinds import WorkloadKind
from tests.backends.folders import BUILT_IN, CLONE_SETS, a_manifest, a_snapshot_cluster, manifests_in, patch

DEPLOYMENT, REPLICA_SET = (ObjectRef("east", "shop", kind, "web", "apps") for kind in ("Deployment", "ReplicaSet"))
CLONE_SET = workloads_of(WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets"))


def scale(cluster: SnapshotCluster, replicas: int, kind: str = "Deployment", *more: Any) -> Workload:
    """Scale `shop/web`, with a test of what it had, and return it."""
    resource = CLONE_SET if kind == "CloneSet" else BUILT_IN[kind]
    before = cluster.get(resource, "shop", "web")
    operations = (("test", "/spec/replicas", before.replicas), ("replace", "/spec/replicas", replicas), *more)
    cluster.write(patch(before.ref, *operations, uid=before.uid))
    return cluster.get(resource, "shop", "web")


def owned(kind: str, name: str = "web", version: str = "apps/v1") -> list[dict[str, Any]]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}]


def pod(name: str, owner: list[dict[str, Any]], **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owner}
    extra = {"status": status} if status else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, **extra}


def a_cluster_of(directory: Path, *manifests: dict[str, Any]) -> SnapshotCluster:
    return a_snapshot_cluster(directory, {"all.yaml": yaml.safe_dump_all(manifests), "kinds.yaml": CLONE_SETS})


def pods_of(cluster: SnapshotCluster) -> list[str]:
    return [found.name for found in cluster.list(PODS)]


def web(kind: str = "Deployment", replicas: int = 3, **status: Any) -> dict[str, Any]:
    manifest = a_manifest(kind=kind, replicas=replicas, uid="u-web", generation=4)
    version = "apps.kruise.io/v1alpha1" if kind == "CloneSet" else "apps/v1"
    return {**manifest, "apiVersion": version, **({"status": status} if status else {})}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "CloneSet"])
@pytest.mark.parametrize("replicas", [0, 1, 5])
def test_the_status_follows(tmp_path, kind, replicas):
    status = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 3, "observedGeneration": 4}
    found = scale(a_cluster_of(tmp_path, web(kind, **status)), replicas, kind)
    assert (found.replicas, found.status_replicas, found.ready_replicas) == (replicas, replicas, replicas)
    assert (found.available_replicas, found.updated_replicas) == (replicas, replicas)
    assert (found.generation, found.observed_generation) == (5, 5)


def test_an_owner_in_another_namespace_is_no_owner(tmp_path):
    claiming = pod("web-1", owned("Deployment"))
    claiming["metadata"]["namespace"] = "evil"
    cluster = a_cluster_of(tmp_path, web(), claiming, pod("web-2", owned("Deployment")))
    scale(cluster, 0)
    assert pods_of(cluster) == ["web-1"]


def test_without_status_it_stays_without(tmp_path):
    found = scale(a_cluster_of(tmp_path, web()), 1)
    assert "status" not in yaml.safe_load((tmp_path / "all.yaml").read_text())
    assert (found.ready_replicas, found.observed_generation) == (1, 5)


def test_a_patch_of_marks_settles_nothing(tmp_path):
    manifest = web(replicas=3, readyReplicas=1, observedGeneration=3)
    cluster = a_cluster_of(tmp_path, manifest, pod("web-1", owned("Deployment")))
    cluster.write(patch(DEPLOYMENT, ("add", "/metadata/annotations", {"a": "b"})))
    found = cluster.get(BUILT_IN["Deployment"], "shop", "web")
    assert (found.ready_replicas, found.generation, found.observed_generation) == (1, 4, 3)
    assert pods_of(cluster) == ["web-1"]


def numbered(kind: str, *numbers: object, **status: Any) -> list[dict[str, Any]]:
    return [pod(f"web-{number}", owned(kind), **status) for number in numbers]


def going(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "metadata": manifest["metadata"] | {"deletionTimestamp": "2026-11-20T15:41:23Z"}}


THREE = numbered("ReplicaSet", 1, 2, 3)
LONG = "9" * 5000


@pytest.mark.parametrize(
    ("kind", "pods", "replicas", "left"),
    [
        pytest.param("ReplicaSet", THREE, 5, [1, 2, 3], id="none is made up"),
        pytest.param("ReplicaSet", THREE, 3, [1, 2, 3], id="the same number"),
        pytest.param("ReplicaSet", THREE, 2, [1, 2], id="one goes"),
        pytest.param("ReplicaSet", THREE, 0, [], id="all go"),
        pytest.param(
            "ReplicaSet",
            [
                *numbered("ReplicaSet", 1, 2),
                *numbered("ReplicaSet", 3, phase="Failed"),
                *numbered("ReplicaSet", 4, phase="Succeeded"),
                *map(going, numbered("ReplicaSet", 5)),
            ],
            1,
            [1, 3, 4, 5],
            id="only active ones count",
        ),
        pytest.param("StatefulSet", numbered("StatefulSet", 0, 1, 2, 10), 2, [0, 1], id="the highest ordinals go"),
        pytest.param("StatefulSet", numbered("StatefulSet", 0, 1, LONG), 1, [0, LONG], id="too many digits"),
    ],
)
def test_which_pods_go(tmp_path, kind, pods, replicas, left):
    cluster = a_cluster_of(tmp_path, web(kind), *pods, pod("other-9", owned(kind, "other")))
    scale(cluster, replicas, kind)
    assert pods_of(cluster) == ["other-9", *(f"web-{number}" for number in left)]


def test_stuck_pods_stay_stuck(tmp_path):
    pods = [*numbered("ReplicaSet", 1), *numbered("ReplicaSet", 2, 3, phase="Pending")]
    status = {"replicas": 3, "readyReplicas": 1, "observedGeneration": 4}
    cluster = a_cluster_of(tmp_path, web("ReplicaSet", **status), *pods)
    more = scale(cluster, 5, "ReplicaSet")
    assert (more.status_replicas, more.ready_replicas, more.available_replicas) == (5, 3, 3)
    fewer = scale(cluster, 2, "ReplicaSet")
    assert pods_of(cluster) == ["web-1", "web-2"]
    assert (fewer.status_replicas, fewer.ready_replicas) == (2, 1)
    assert scale(cluster, 1, "ReplicaSet").ready_replicas == 1


def replica_set(name: str, replicas: int, revision: str = "1") -> dict[str, Any]:
    return a_manifest(
        name,
        kind="ReplicaSet",
        replicas=replicas,
        uid=f"u-{name}",
        ownerReferences=owned("Deployment"),
        annotations={"deployment.kubernetes.io/revision": revision},
    )


def shares(cluster: SnapshotCluster) -> dict[str, int | None]:
    return {found.ref.name: found.replicas for found in cluster.list(BUILT_IN["ReplicaSet"])}


@pytest.mark.parametrize(
    ("before", "wanted", "after", "left"),
    [
        pytest.param(
            {"old": (0, "1"), "new": (3, "2")}, 1, {"new": 1, "old": 0}, ["new-1"], id="the active one shrinks"
        ),
        pytest.param(
            {"old": (0, "1"), "new": (3, "2")},
            5,
            {"new": 5, "old": 0},
            ["new-1", "new-2", "new-3"],
            id="the active one grows",
        ),
        pytest.param({"b": (0, "9"), "a": (0, "10")}, 2, {"a": 2, "b": 0}, [], id="of idle ones the newest wakes"),
        pytest.param({"b": (0, "1"), "a": (0, "9" * 5000)}, 2, {"a": 0, "b": 2}, [], id="no revision of many digits"),
        pytest.param(
            {"old": (1, "1"), "new": (2, "2")}, 1, {"new": 1, "old": 0}, ["new-1"], id="of two the older shrinks first"
        ),
        pytest.param(
            {"old": (1, "1"), "new": (2, "2")},
            4,
            {"new": 3, "old": 1},
            ["new-1", "new-2", "old-1"],
            id="of two the newer grows",
        ),
        pytest.param({"old": (1, "1"), "new": (2, "2")}, 0, {"new": 0, "old": 0}, [], id="all of them to zero"),
    ],
)
def test_a_deployment_scales_its_replica_sets(tmp_path, before, wanted, after, left):
    sets = [replica_set(name, replicas, revision) for name, (replicas, revision) in before.items()]
    pods = [
        pod(f"{name}-{number + 1}", owned("ReplicaSet", name))
        for name, (replicas, _) in before.items()
        for number in range(replicas)
    ]
    total = sum(replicas for replicas, _ in before.values())
    cluster = a_cluster_of(tmp_path, web(replicas=total), *sets, *pods)
    scale(cluster, wanted)
    assert shares(cluster) == after
    assert pods_of(cluster) == left


def test_a_deployment_counts_the_unready_pods_of_its_sets(tmp_path):
    pods = [pod("new-1", owned("ReplicaSet", "new")), pod("new-2", owned("ReplicaSet", "new"), phase="Pending")]
    cluster = a_cluster_of(tmp_path, web(replicas=2, readyReplicas=1), replica_set("new", 2), *pods)
    found = scale(cluster, 4)
    assert (found.status_replicas, found.ready_replicas) == (4, 3)
    assert manifests_in(tmp_path)["Deployment/web"]["status"]["unavailableReplicas"] == 1


def test_a_stateful_set_may_start_elsewhere(tmp_path):
    manifest = web("StatefulSet")
    manifest["spec"]["ordinals"] = {"start": 5}
    cluster = a_cluster_of(tmp_path, manifest, *numbered("StatefulSet", 5, 6, 7))
    scale(cluster, 2, "StatefulSet")
    assert pods_of(cluster) == ["web-5", "web-6"]


def test_a_clone_set_loses_the_pods_it_names_and_forgets_them(tmp_path):
    owner = owned("CloneSet", version="apps.kruise.io/v1alpha1")
    cluster = a_cluster_of(tmp_path, web("CloneSet", replicas=4), *(pod(f"web-{number}", owner) for number in "1234"))
    found = scale(cluster, 2, "CloneSet", ("add", "/spec/scaleStrategy", {"podsToDelete": ["web-1"]}))
    assert pods_of(cluster) == ["web-2", "web-3"]
    assert found.replicas == 2
    assert "scaleStrategy" not in manifests_in(tmp_path)["CloneSet/web"]["spec"]


def test_replicas_that_were_not_stated(tmp_path):
    manifest = a_manifest(replicas=None, uid="u-web")
    manifest["status"] = {"replicas": 1, "readyReplicas": 1}
    cluster = a_cluster_of(tmp_path, manifest)
    cluster.write(patch(DEPLOYMENT, ("test", "/spec/replicas", None), ("add", "/spec/replicas", 0)))
    found = cluster.get(BUILT_IN["Deployment"], "shop", "web")
    assert (found.replicas, found.status_replicas, found.ready_replicas) == (0, 0, 0)


def test_the_writer_of_replicas_is_ours_where_writers_are_recorded(tmp_path):
    fields = {"f:spec": {"f:replicas": {}, "f:template": {}}}
    entry = {"manager": "kubectl", "operation": "Update", "time": "2026-11-20T10:00:00Z", "fieldsV1": fields}
    manifest = web()
    manifest["metadata"]["managedFields"] = [entry]
    cluster = a_cluster_of(tmp_path, manifest)
    for replicas in (1, 2):
        writer = scale(cluster, replicas).replicas_writer
        assert (writer.manager, writer.at) == ("reconciler", None)
    written = yaml.safe_load((tmp_path / "all.yaml").read_text())["metadata"]["managedFields"]
    assert [one["manager"] for one in written] == ["kubectl", "reconciler"]
    assert written[0]["fieldsV1"] == {"f:spec": {"f:template": {}}}


def test_the_writer_of_bounds_is_ours_where_writers_are_recorded(tmp_path):
    fields = {"f:spec": {"f:minReplicas": {}, "f:maxReplicas": {}, "f:metrics": {}}}
    entry = {"manager": "argocd-controller", "operation": "Update", "time": "2026-11-20T10:00:00Z", "fieldsV1": fields}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-hpa", "managedFields": [entry]},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9},
    }
    cluster = a_cluster_of(tmp_path, manifest)
    (found,) = cluster.list(AUTOSCALERS)
    assert found.bounds_writer.manager == "argocd-controller"
    bounds = [("replace", f"/spec/{name}Replicas", 1) for name in ("min", "max")]
    cluster.write(patch(found.ref, *bounds))
    (found,) = cluster.list(AUTOSCALERS)
    assert found.bounds_writer.manager == "reconciler"
    written = yaml.safe_load((tmp_path / "all.yaml").read_text())["metadata"]["managedFields"]
    assert written[0]["fieldsV1"] == {"f:spec": {"f:metrics": {}}}


def test_a_stale_patch_settles_nothing(tmp_path):
    cluster = a_cluster_of(tmp_path, web("ReplicaSet"), pod("web-1", owned("ReplicaSet")))
    before = (tmp_path / "all.yaml").read_bytes()
    with pytest.raises(StaleError, match=r"east/shop/ReplicaSet/web: /spec/replicas is 3, expected 4; plan again"):
        cluster.write(patch(REPLICA_SET, ("test", "/spec/replicas", 4), ("replace", "/spec/replicas", 0)))
    assert (tmp_path / "all.yaml").read_bytes() == before


@pytest.mark.parametrize("orphan", [False, True])
def test_a_deleted_deployment_takes_its_sets_and_pods_along(tmp_path, orphan):
    shared = pod(
        "shared-1", [*owned("ReplicaSet", "new"), {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u"}]
    )
    cluster = a_cluster_of(tmp_path, web(), replica_set("new", 1), pod("new-1", owned("ReplicaSet", "new")), shared)
    cluster.write(Write("delete", DEPLOYMENT, "apps/v1", uid="u-web", orphan=orphan))
    assert pods_of(cluster) == (["new-1", "shared-1"] if orphan else ["shared-1"])
    sets = cluster.list(BUILT_IN["ReplicaSet"])
    assert [(found.ref.name, found.owner) for found in sets] == ([("new", None)] if orphan else [])


def test_an_orphaned_replica_set_keeps_its_pods_for_the_next_one(tmp_path):
    """Another selector: delete and orphan, create anew; the pods stay, without an owner."""
    cluster = a_cluster_of(tmp_path, web("ReplicaSet"), pod("web-1", owned("ReplicaSet")))
    cluster.write(Write("delete", REPLICA_SET, "apps/v1", uid="u-web", orphan=True))
    cluster.write(Write("create", REPLICA_SET, "apps/v1", manifest=web("ReplicaSet", replicas=1)))
    (found,) = cluster.list(PODS)
    assert (found.name, found.owner_uid) == ("web-1", "")
    assert shares(cluster) == {"web": 1}


def test_a_create_over_the_expected_uid_overwrites_and_settles(tmp_path):
    cluster = a_cluster_of(tmp_path, web("ReplicaSet", replicas=3, readyReplicas=3), *THREE)
    manifest = a_manifest(kind="ReplicaSet", replicas=2, labels={"new": "yes"})
    with pytest.raises(StaleError):
        cluster.write(Write("create", REPLICA_SET, "apps/v1", uid="other", manifest=manifest))
    cluster.write(Write("create", REPLICA_SET, "apps/v1", uid="u-web", manifest=manifest))
    found = cluster.get(BUILT_IN["ReplicaSet"], "shop", "web")
    assert (found.uid, found.replicas, found.ready_replicas, found.labels) == ("u-web", 2, 2, {"new": "yes"})
    assert pods_of(cluster) == ["web-1", "web-2"]


def target(name: str, namespace: str = "shop", **more: str) -> dict[str, Any]:
    return {"targetRef": {"kind": "Pod", "namespace": namespace, "name": name, **more}}


def a_slice(*targets: dict[str, Any], name: str = "web-x") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "endpoints": [*targets]}


def an_endpoints(*subsets: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [*subsets]}


def named(cluster: SnapshotCluster) -> tuple[list[str], list[str]]:
    """Return the pods that EndpointSlices and Endpoints name."""
    slices, endpoints = cluster.list(ENDPOINT_SLICES), cluster.list(ENDPOINTS)
    return tuple([name for one in found for name, _ in one.pods] for found in (slices, endpoints))


@pytest.mark.parametrize("replicas", [2, 1, 0])
def test_pods_that_go_leave_their_endpoints(tmp_path, replicas):
    pods = [pod(f"web-{number}", owned("ReplicaSet", "new")) for number in (1, 2)]
    slices = (a_slice(target("web-1"), target("web-2")), a_slice(target("web-2"), name="web-y"))
    endpoints = an_endpoints({"addresses": [target("web-1")], "notReadyAddresses": [target("web-2")], "ports": []})
    cluster = a_cluster_of(tmp_path, web(replicas=2), replica_set("new", 2), *pods, *slices, endpoints)
    assert named(cluster) == (["web-1", "web-2", "web-2"], ["web-1", "web-2"])
    scale(cluster, replicas)
    left = ["web-1", "web-2"][:replicas]
    assert named(cluster) == ([*left, *left[1:]], left)
    fresh = a_snapshot_cluster(tmp_path, {})
    assert named(fresh) == named(cluster)


def test_endpoints_without_addresses_have_no_subsets(tmp_path):
    endpoints = an_endpoints({"addresses": [target("web-1")]}, {"addresses": [{"ip": "10.0.0.1"}]})
    cluster = a_cluster_of(tmp_path, web("ReplicaSet", 1), pod("web-1", owned("ReplicaSet")), endpoints)
    scale(cluster, 0, "ReplicaSet")
    (written,) = [one for one in manifests_in(tmp_path).values() if one["kind"] == "Endpoints"]
    assert written["subsets"] == [{"addresses": [{"ip": "10.0.0.1"}]}]


def test_only_the_pod_itself_leaves_its_endpoints(tmp_path):
    """Another namespace, another kind, another pod of that name, and an address without a pod are left."""
    others = (target("web-1", "other"), {"targetRef": {"kind": "Node", "name": "web-1"}}, {"addresses": ["10.0.0.1"]})
    found = a_slice(target("web-1"), target("web-1", uid="an-older-one"), *others)
    cluster = a_cluster_of(tmp_path, web("ReplicaSet", 1), pod("web-1", owned("ReplicaSet")), found)
    scale(cluster, 0, "ReplicaSet")
    (written,) = [one for one in manifests_in(tmp_path).values() if "endpoints" in one]
    assert written["endpoints"] == [target("web-1", uid="an-older-one"), *others]


def test_the_pods_of_a_deleted_deployment_leave_their_endpoints(tmp_path):
    found = a_slice(target("new-1"), target("web-9"))
    cluster = a_cluster_of(tmp_path, web(), replica_set("new", 1), pod("new-1", owned("ReplicaSet", "new")), found)
    cluster.write(Write("delete", DEPLOYMENT, "apps/v1", uid="u-web"))
    assert named(cluster) == (["web-9"], [])
