"""What every `Cluster` does, whatever is behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

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


def test_a_workload_is_read_with_what_decides_its_scale(place):
    found = make_replica_set(place, replicas=3, labels={"team": "a"}, annotations={"note": "22:30"})
    assert found.ref == a_ref(place)
    assert (found.replicas, found.spec_replicas, found.api_version) == (3, 3, "apps/v1")
    assert (found.labels, found.annotations) == ({"team": "a"}, {"note": "22:30"})
    assert found.template_labels == {"app": "web"}
    assert found.selector.matches({"app": "web"})
    assert found.uid
    assert (found.owner, found.terminating) == (None, False)


def test_a_list_is_sorted_and_kept_to_its_namespace(place):
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
def test_a_label_selector_narrows_a_list(place, labels, names):
    make_replica_set(place, "web", labels={"tier": "web"})
    make_replica_set(place, "api", labels={"tier": "back"})
    make_replica_set(place, "db")
    found = place.cluster.list(REPLICA_SETS, namespace=place.namespace, labels=labels)
    assert [one.ref.name for one in found] == names


def test_what_is_not_there_is_not_found(place):
    with pytest.raises(NotFoundError):
        read(place, "nobody")


def test_what_a_cluster_says_of_itself(place):
    assert set(BUILT_IN_SCALES) <= set(place.cluster.scale_kinds())
    assert place.cluster.list(workloads_of(WorkloadKind("nobody.example", "v1", "Gadget", "gadgets"))) == ()
    identity = place.cluster.identity()
    assert identity
    assert place.again().identity() == identity
    make_replica_set(place)
    assert place.namespace in [one.ref.name for one in place.cluster.list(NAMESPACES)]


def test_a_service_and_its_selector(place):
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    place.make({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    found = place.cluster.get(SERVICES, place.namespace, "web")
    assert (found.selector, found.type, found.has_annotations) == ({"app": "web"}, "ClusterIP", False)


def test_an_autoscaler_names_its_target_and_bounds(place):
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
    }
    metadata = {"name": "web"}
    place.make({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec})
    found = place.cluster.get(AUTOSCALERS, place.namespace, "web")
    assert (found.target, found.minimum, found.maximum) == (("Deployment", "web"), 2, 5)


def test_a_secret_is_decoded_and_loses_one_line_break(place):
    place.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"key": "czNjcjN0Cg=="}})
    assert place.cluster.secret(place.namespace, "token", "key") == "s3cr3t"


@pytest.mark.parametrize(("name", "key"), [("token", "other"), ("nobody", "key")])
def test_a_secret_or_key_that_is_not_there(place, name, key):
    place.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"key": "czNjcjN0"}})
    with pytest.raises(NotFoundError):
        place.cluster.secret(place.namespace, name, key)


def test_only_events_that_need_pods_are_listed(place):
    involved = {"apiVersion": "v1", "kind": "Service", "name": "web", "namespace": place.namespace}
    for name, reason in (("web.1", "NeedPods"), ("web.2", "Idled")):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved}
        place.make(event | {"reason": reason, "lastTimestamp": "2026-11-20T15:41:23Z", "type": "Normal"})
    (found,) = place.cluster.list(EVENTS, namespace=place.namespace)
    assert found.involved == ("Service", place.namespace, "web")
    assert found.at.isoformat() == "2026-11-20T15:41:23+00:00"


# Patches


def test_replicas_and_annotations_change_together(place):
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


def scaled(*tests: Any, **options: Any) -> Callable[[Workload], Write]:
    """What writes a workload with `tests` before the write of its replicas."""
    return lambda found: patch(found.ref, ("replace", "/spec/replicas", 0), *tests, **({"uid": found.uid} | options))


def changed(*operation: Any) -> Callable[[Workload], Write]:
    return lambda found: patch(found.ref, operation, uid=found.uid)


def a_replica_set(name: str = "web", **fields: Any) -> dict[str, Any]:
    return a_manifest(name, kind="ReplicaSet", **fields)


def nobody(found: Workload) -> ObjectRef:
    return replace(found.ref, name="nobody")


@pytest.mark.parametrize(
    ("write", "error"),
    [
        pytest.param(scaled(("test", "/spec/replicas", 4)), StaleError, id="other replicas"),
        pytest.param(scaled(("test", f"{ANNOTATIONS}/kept", "no")), StaleError, id="another value"),
        pytest.param(scaled(("test", f"{ANNOTATIONS}/kept", None)), StaleError, id="there, expected absent"),
        pytest.param(scaled(("test", f"{ANNOTATIONS}/missing", "x")), StaleError, id="absent, expected there"),
        pytest.param(scaled(("test", ANNOTATIONS, None)), StaleError, id="a whole map that is there"),
        pytest.param(scaled(uid="another"), StaleError, id="a patch of another uid"),
        pytest.param(
            lambda one: Write("delete", one.ref, "apps/v1", uid="another"), StaleError, id="a delete of another uid"
        ),
        pytest.param(
            lambda one: Write("create", nobody(one), "apps/v1", uid="once-there", manifest=a_replica_set("nobody")),
            StaleError,
            id="a create over a uid that is gone",
        ),
        pytest.param(
            lambda one: Write("create", one.ref, "apps/v1", manifest=a_replica_set(replicas=9)),
            AlreadyExistsError,
            id="a create over another",
        ),
        pytest.param(
            lambda one: patch(nobody(one), ("replace", "/spec/replicas", 0)),
            NotFoundError,
            id="a patch of what is gone",
        ),
        pytest.param(
            lambda one: Write("delete", nobody(one), "apps/v1", uid="x"), NotFoundError, id="a delete of what is gone"
        ),
        pytest.param(changed("add", "/metadata/labels/a", "b"), RefusedError, id="into a map that is absent"),
        pytest.param(changed("remove", "/spec/paused"), RefusedError, id="of what is absent"),
        pytest.param(changed("replace", "/spec/replicas", "three"), RefusedError, id="of another type"),
        pytest.param(changed("replace", "/spec/replicas", -1), RefusedError, id="below zero"),
    ],
)
def test_a_write_that_is_stale_or_does_not_fit_changes_nothing(place, write, error):
    found = make_replica_set(place, annotations={"kept": "yes"})
    asked = write(found)
    if asked.manifest is not None:
        asked.manifest["metadata"]["namespace"] = place.namespace
    with pytest.raises(error):
        place.cluster.write(asked)
    (left,) = place.cluster.list(REPLICA_SETS, namespace=place.namespace)
    for name in ("ref", "uid", "replicas", "annotations", "has_labels", "terminating"):  # its status may go on
        assert getattr(left, name) == getattr(found, name)


@pytest.mark.parametrize("marks", ["annotations", "labels"])
def test_a_missing_map_is_made_whole(place, marks):
    found = make_replica_set(place)
    assert (found.has_annotations, found.has_labels) == (False, False)
    path = f"/metadata/{marks}"
    place.cluster.write(patch(found.ref, ("test", path, None), ("add", path, {"a/b": "c"}), uid=found.uid))
    again = read(place)
    assert getattr(again, marks) == {"a/b": "c"}
    assert getattr(again, f"has_{marks}") is True


def test_the_last_annotation_takes_the_map_with_it(place):
    found = make_replica_set(place, annotations={"only": "one"})
    place.cluster.write(patch(found.ref, ("test", f"{ANNOTATIONS}/only", "one"), ("remove", f"{ANNOTATIONS}/only")))
    again = read(place)
    assert again.has_annotations is False
    place.cluster.write(patch(found.ref, ("test", ANNOTATIONS, None), ("add", ANNOTATIONS, {"next": "two"})))
    assert read(place).annotations == {"next": "two"}


def test_a_cron_job_is_suspended(place):
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


def test_what_is_created_is_there(place):
    manifest = a_manifest(
        "new", kind="ReplicaSet", namespace=place.namespace, replicas=2, labels={"reconciler/frs": "new"}
    )
    place.cluster.write(Write("create", a_ref(place, "new"), "apps/v1", manifest=manifest))
    found = read(place, "new", place.again())
    assert (found.replicas, found.labels) == (2, {"reconciler/frs": "new"})


def test_a_deleted_object_is_gone(place):
    found = make_replica_set(place)
    place.cluster.write(Write("delete", found.ref, "apps/v1", uid=found.uid))
    with pytest.raises(NotFoundError):
        read(place)


@pytest.mark.parametrize("orphan", [True, False])
def test_orphans_stay_and_lose_their_owner(place, orphan):
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


def test_an_event_can_be_written_twice(place):
    involved = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": place.namespace}
    at = "2026-11-20T15:41:23Z"
    manifest = {"reason": "NeedPods", "message": "m", "type": "Normal", "involvedObject": involved, "lastTimestamp": at}
    ref = ObjectRef(place.cluster.name, place.namespace, "Event", "web.0123.1")
    write = Write("event", ref, "v1", manifest=manifest | {"metadata": {"name": ref.name}})
    place.cluster.write(write)
    place.cluster.write(write)
    assert len(place.cluster.list(EVENTS, namespace=place.namespace)) == 1


def test_a_pod_is_marked_and_unmarked(place):
    container = {"name": "main", "image": "registry.example/main:1"}
    spec = {"containers": [container], "schedulerName": "none"}  # with a node it gets labels of its zone
    place.make({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": spec})
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
