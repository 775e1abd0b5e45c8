"""What every `Cluster` does, whatever is behind it."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.backends.protocols import (
    AUTOSCALERS,
    BUILT_IN_SCALES,
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    SERVICES,
    Cluster,
    workloads_of,
)
from reconciler.errors import AlreadyExistsError, NotFoundError, RefusedError, StaleError
from reconciler.model import ObjectRef, Workload, Write
from reconciler.workload_kinds import WorkloadKind
from tests.backends.contract.conftest import Place
from tests.backends.folders import BUILT_IN, a_manifest, patch
from tests.real.cluster import wait_until

ANNOTATIONS = "/metadata/annotations"
REPLICA_SETS = BUILT_IN["ReplicaSet"]


def a_ref(place: Place, name: str = "web", kind: str = "ReplicaSet", group: str = "apps") -> ObjectRef:
    return ObjectRef(place.cluster.name, place.namespace, kind, name, group)


def make_replica_set(place: Place, name: str = "web", **fields: Any) -> Workload:
    place.make(a_manifest(name, kind="ReplicaSet", namespace=place.namespace, **fields))
    return read(place, name)


def read(place: Place, name: str = "web", cluster: Cluster | None = None) -> Workload:
    return (cluster or place.cluster).get(REPLICA_SETS, place.namespace, name)


# Reading


def test_a_workload_is_read_with_what_decides_its_scale(place: Place) -> None:
    found = make_replica_set(place, replicas=3, labels={"team": "a"}, annotations={"note": "22:30"})
    assert found.ref == a_ref(place)
    assert (found.replicas, found.spec_replicas, found.api_version) == (3, 3, "apps/v1")
    assert (found.labels, found.annotations) == ({"team": "a"}, {"note": "22:30"})
    assert found.template_labels == {"app": "web"}
    assert found.selector is not None
    assert found.selector.matches({"app": "web"})
    assert found.uid
    assert (found.owner, found.terminating) == (None, False)


def test_a_list_is_sorted_and_kept_to_its_namespace(place: Place) -> None:
    for name in ("web", "api", "web-2"):
        make_replica_set(place, name)
    assert [one.ref.name for one in place.cluster.list(REPLICA_SETS, namespace=place.namespace)] == [
        "api",
        "web",
        "web-2",
    ]
    assert place.cluster.list(REPLICA_SETS, namespace="nobody-is-here") == ()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param("", ["api", "db", "web"], id="no selector"),
        pytest.param("tier=web", ["web"], id="equal"),
        pytest.param("tier!=web", ["api", "db"], id="not equal, absent counts"),
        pytest.param("tier in (web,back)", ["api", "web"], id="one of"),
        pytest.param("tier", ["api", "web"], id="there"),
        pytest.param("!tier", ["db"], id="not there"),
    ],
)
def test_a_label_selector_narrows_a_list(place: Place, labels: str, names: list[str]) -> None:
    make_replica_set(place, "web", labels={"tier": "web"})
    make_replica_set(place, "api", labels={"tier": "back"})
    make_replica_set(place, "db")
    found = place.cluster.list(REPLICA_SETS, namespace=place.namespace, labels=labels)
    assert [one.ref.name for one in found] == names


def test_what_is_not_there_is_not_found(place: Place) -> None:
    with pytest.raises(NotFoundError):
        read(place, "nobody")


def test_a_kind_that_is_not_served_gives_nothing(place: Place) -> None:
    unknown = workloads_of(WorkloadKind("nobody.example", "v1", "Gadget", "gadgets"))
    assert place.cluster.list(unknown) == ()


def test_the_built_in_kinds_have_a_scale(place: Place) -> None:
    assert set(BUILT_IN_SCALES) <= set(place.cluster.scale_kinds())


def test_the_identity_stays_the_same(place: Place) -> None:
    identity = place.cluster.identity()
    assert identity
    assert place.again().identity() == identity


def test_the_namespace_of_an_object_is_listed(place: Place) -> None:
    make_replica_set(place)
    assert place.namespace in [one.ref.name for one in place.cluster.list(NAMESPACES)]


def test_a_service_and_its_selector(place: Place) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    place.make({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    found = place.cluster.get(SERVICES, place.namespace, "web")
    assert (found.selector, found.type, found.has_annotations) == ({"app": "web"}, "ClusterIP", False)


def test_an_autoscaler_names_its_target_and_bounds(place: Place) -> None:
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
    }
    metadata = {"name": "web"}
    place.make({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec})
    found = place.cluster.get(AUTOSCALERS, place.namespace, "web")
    assert (found.target, found.minimum, found.maximum) == (("Deployment", "web"), 2, 5)


def test_a_secret_is_decoded_and_loses_one_line_break(place: Place) -> None:
    place.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"key": "czNjcjN0Cg=="}})
    assert place.cluster.secret(place.namespace, "token", "key") == "s3cr3t"


@pytest.mark.parametrize(("name", "key"), [("token", "other"), ("nobody", "key")])
def test_a_secret_or_key_that_is_not_there(place: Place, name: str, key: str) -> None:
    place.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"key": "czNjcjN0"}})
    with pytest.raises(NotFoundError):
        place.cluster.secret(place.namespace, name, key)


def test_only_events_that_need_pods_are_listed(place: Place) -> None:
    involved = {"apiVersion": "v1", "kind": "Service", "name": "web", "namespace": place.namespace}
    for name, reason in (("web.1", "NeedPods"), ("web.2", "Idled")):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved}
        place.make(event | {"reason": reason, "lastTimestamp": "2026-11-20T15:41:23Z", "type": "Normal"})
    (found,) = place.cluster.list(EVENTS, namespace=place.namespace)
    assert found.involved == ("Service", place.namespace, "web")
    assert found.at is not None
    assert found.at.isoformat() == "2026-11-20T15:41:23+00:00"


# Patches


def test_replicas_and_annotations_change_together(place: Place) -> None:
    found = make_replica_set(place, annotations={"kept": "yes"})
    write = patch(
        found.ref,
        ("test", "/spec/replicas", 3),
        ("test", f"{ANNOTATIONS}/idling.kubernetes.io~1previous-scale", None),
        ("add", f"{ANNOTATIONS}/idling.kubernetes.io~1previous-scale", "3"),
        ("replace", "/spec/replicas", 0),
        uid=found.uid,
    )
    place.cluster.write(write)
    again = read(place, cluster=place.again())
    assert again.replicas == 0
    assert again.annotations == {"kept": "yes", "idling.kubernetes.io/previous-scale": "3"}


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([("test", "/spec/replicas", 4)], id="other replicas"),
        pytest.param([("test", f"{ANNOTATIONS}/kept", "no")], id="another value"),
        pytest.param([("test", f"{ANNOTATIONS}/kept", None)], id="there, expected absent"),
        pytest.param([("test", f"{ANNOTATIONS}/missing", "x")], id="absent, expected there"),
        pytest.param([("test", ANNOTATIONS, None)], id="a whole map that is there"),
    ],
)
def test_a_failed_test_changes_nothing(place: Place, operations: list[Any]) -> None:
    found = make_replica_set(place, annotations={"kept": "yes"})
    with pytest.raises(StaleError):
        place.cluster.write(patch(found.ref, ("replace", "/spec/replicas", 0), *operations, uid=found.uid))
    again = read(place)
    assert (again.replicas, again.annotations) == (3, {"kept": "yes"})


def test_a_patch_of_another_uid_is_stale(place: Place) -> None:
    found = make_replica_set(place)
    with pytest.raises(StaleError):
        place.cluster.write(patch(found.ref, ("replace", "/spec/replicas", 0), uid="another"))
    assert read(place).replicas == 3


def test_a_patch_of_what_is_gone(place: Place) -> None:
    with pytest.raises(NotFoundError):
        place.cluster.write(patch(a_ref(place, "nobody"), ("replace", "/spec/replicas", 0)))


@pytest.mark.parametrize("marks", ["annotations", "labels"])
def test_a_missing_map_is_made_whole(place: Place, marks: str) -> None:
    found = make_replica_set(place)
    assert (found.has_annotations, found.has_labels) == (False, False)
    path = f"/metadata/{marks}"
    place.cluster.write(patch(found.ref, ("test", path, None), ("add", path, {"a/b": "c"}), uid=found.uid))
    again = read(place)
    assert getattr(again, marks) == {"a/b": "c"}
    assert getattr(again, f"has_{marks}") is True


def test_the_last_annotation_takes_the_map_with_it(place: Place) -> None:
    found = make_replica_set(place, annotations={"only": "one"})
    place.cluster.write(patch(found.ref, ("test", f"{ANNOTATIONS}/only", "one"), ("remove", f"{ANNOTATIONS}/only")))
    again = read(place)
    assert again.has_annotations is False
    place.cluster.write(patch(found.ref, ("test", ANNOTATIONS, None), ("add", ANNOTATIONS, {"next": "two"})))
    assert read(place).annotations == {"next": "two"}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(("add", f"{ANNOTATIONS}/a", "b"), id="into a map that is absent"),
        pytest.param(("remove", "/spec/paused"), id="of what is absent"),
        pytest.param(("replace", "/spec/replicas", "three"), id="of another type"),
        pytest.param(("replace", "/spec/replicas", -1), id="below zero"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(place: Place, operation: Any) -> None:
    found = make_replica_set(place)
    with pytest.raises(RefusedError):
        place.cluster.write(patch(found.ref, operation, uid=found.uid))
    assert read(place).replicas == 3


def test_a_cron_job_is_suspended(place: Place) -> None:
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/main:1"}]}
    }
    spec = {"schedule": "0 2 * * *", "suspend": False, "jobTemplate": {"spec": {"template": template}}}
    place.make({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})
    found = place.cluster.get(BUILT_IN["CronJob"], place.namespace, "nightly")
    assert (found.switch.value, found.spec_replicas) == (False, 1)
    write = patch(found.ref, ("test", "/spec/suspend", False), ("replace", "/spec/suspend", True), version="batch/v1")
    place.cluster.write(write)
    assert place.cluster.get(BUILT_IN["CronJob"], place.namespace, "nightly").spec_replicas == 0


# Create and delete


def test_what_is_created_is_there(place: Place) -> None:
    manifest = a_manifest(
        "new", kind="ReplicaSet", namespace=place.namespace, replicas=2, labels={"reconciler/frs": "new"}
    )
    place.cluster.write(Write("create", a_ref(place, "new"), "apps/v1", manifest=manifest))
    found = read(place, "new", place.again())
    assert (found.replicas, found.labels) == (2, {"reconciler/frs": "new"})


def test_nothing_is_created_over_another(place: Place) -> None:
    make_replica_set(place)
    manifest = a_manifest("web", kind="ReplicaSet", namespace=place.namespace, replicas=9)
    with pytest.raises(AlreadyExistsError):
        place.cluster.write(Write("create", a_ref(place), "apps/v1", manifest=manifest))
    assert read(place).replicas == 3


def test_a_create_that_expects_a_uid_makes_nothing_anew(place: Place) -> None:
    manifest = a_manifest("web", kind="ReplicaSet", namespace=place.namespace)
    with pytest.raises(StaleError):
        place.cluster.write(Write("create", a_ref(place), "apps/v1", uid="once-there", manifest=manifest))
    assert place.cluster.list(REPLICA_SETS, namespace=place.namespace) == ()


def test_a_deleted_object_is_gone(place: Place) -> None:
    found = make_replica_set(place)
    place.cluster.write(Write("delete", found.ref, "apps/v1", uid=found.uid))
    with pytest.raises(NotFoundError):
        read(place)


def test_a_delete_of_another_uid_is_stale(place: Place) -> None:
    found = make_replica_set(place)
    with pytest.raises(StaleError):
        place.cluster.write(Write("delete", found.ref, "apps/v1", uid="another"))
    assert read(place).uid == found.uid


def test_a_delete_of_what_is_gone(place: Place) -> None:
    with pytest.raises(NotFoundError):
        place.cluster.write(Write("delete", a_ref(place), "apps/v1", uid="x"))


@pytest.mark.parametrize("orphan", [True, False])
def test_orphans_stay_and_lose_their_owner(place: Place, orphan: bool) -> None:
    found = make_replica_set(place)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": found.uid, "controller": True}
    metadata = {"name": "settings", "ownerReferences": [owner]}
    place.make({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    place.settle()
    place.cluster.write(Write("delete", found.ref, "apps/v1", uid=found.uid, orphan=orphan))
    wait_until(lambda: not place.cluster.list(REPLICA_SETS, namespace=place.namespace), "the owner is gone")
    if not orphan:
        wait_until(lambda: not place.cluster.list(CONFIG_MAPS, namespace=place.namespace), "what it owned is gone")
        return
    (left,) = place.cluster.list(CONFIG_MAPS, namespace=place.namespace)
    assert left.ref.name == "settings"


def test_an_event_can_be_written_twice(place: Place) -> None:
    involved = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": place.namespace}
    at = "2026-11-20T15:41:23Z"
    manifest = {"reason": "NeedPods", "message": "m", "type": "Normal", "involvedObject": involved, "lastTimestamp": at}
    ref = ObjectRef(place.cluster.name, place.namespace, "Event", "web.0123.1")
    write = Write("event", ref, "v1", manifest=manifest | {"metadata": {"name": ref.name}})
    place.cluster.write(write)
    place.cluster.write(write)
    assert len(place.cluster.list(EVENTS, namespace=place.namespace)) == 1


def test_a_pod_is_marked_and_unmarked(place: Place) -> None:
    container = {"name": "main", "image": "registry.example/main:1"}
    place.make({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": {"containers": [container]}})
    pod = place.cluster.get(PODS, place.namespace, "web-1")
    assert (pod.deletion_cost, pod.has_annotations, pod.has_labels) == (None, False, False)
    ref = ObjectRef(place.cluster.name, place.namespace, "Pod", "web-1")
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-2147483647"}
    marks = (
        ("test", ANNOTATIONS, None),
        ("add", ANNOTATIONS, cost),
        ("add", "/metadata/labels", {"reconciler/victim": "r"}),
    )
    place.cluster.write(patch(ref, *marks, uid=pod.uid, version="v1"))
    (marked,) = place.cluster.list(PODS, namespace=place.namespace, labels="reconciler/victim")
    assert (marked.name, marked.deletion_cost) == ("web-1", "-2147483647")
