"""What `wake` finds by a name: whatever `plan`, `explain` and `restore` know as idle."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet
from tests.real import objects

NOW = "2026-11-20T22:20:00Z"
FLEET = fleet(["east"], name="one")
AT = "2026-11-20T20:00:00Z"
TARGETS = json.dumps([{"kind": "Deployment", "name": "web", "group": "apps", "replicas": 3}])
LISTED = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": TARGETS}
OWNED = {"reconciler/owner": "one/IdlingPolicy/nights"}
RECORD = {**OWNED, "idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "3"}


FOREIGN_RECORD = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "3"}
OUR_WRITE = {"manager": "reconciler", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}}  # fmt: skip


def a_deployment(**annotations: str) -> dict:
    return marked(objects.a_deployment("web", 0), annotations)


def a_service(**annotations: str) -> dict:
    return marked(objects.a_service("web"), annotations)


def an_object(version: str, kind: str, annotations: dict[str, str], **parts: object) -> dict:
    return marked(objects.an_object(version, kind, "web", **parts), annotations)


def marked(one: dict, annotations: dict[str, str]) -> dict:
    return objects.with_metadata(one, namespace="shop", **({"annotations": annotations} if annotations else {}))


def a_folder(tmp_path, *found: dict) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", FLEET)
    folder.write("snapshot/east/objects.yaml", yaml.safe_dump_all(found))
    return folder


def wake(folder: Folder, name: str):
    return folder.call("wake", name, "--snapshot", "snapshot", "--now", NOW, "--quiet")


def an_undone_deployment() -> dict:
    """Idled by us, then `kubectl rollout undo`: its record is gone."""
    found = a_deployment()
    return found | {"metadata": found["metadata"] | {"managedFields": [OUR_WRITE]}}


def its_replica_set() -> dict:
    """It keeps the record that the Deployment had."""
    found = a_deployment(**RECORD)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    metadata = found["metadata"] | {"name": "web-1", "ownerReferences": [owner]}
    return found | {"kind": "ReplicaSet", "metadata": metadata}


ENDPOINTS_ONLY = (a_deployment(**FOREIGN_RECORD), a_service(), an_object("v1", "Endpoints", LISTED))
RECORD_GONE = (an_undone_deployment(), its_replica_set(), a_service(**LISTED, **OWNED))
SCALED_OBJECT = an_object("keda.sh/v1alpha1", "ScaledObject", {**RECORD}, spec={"scaleTargetRef": {"name": "web"}})
SCALED_OBJECT["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"] = "0"


@pytest.mark.parametrize(
    ("found", "name"),
    [
        pytest.param(ENDPOINTS_ONLY, "east/shop/svc/web", id="the mark on Endpoints alone, by the Service"),
        pytest.param(ENDPOINTS_ONLY, "east/shop/endpoints/web", id="the mark on Endpoints alone, by them"),
        pytest.param(ENDPOINTS_ONLY, "east/shop/deploy/web", id="the mark on Endpoints alone, by the Deployment"),
        pytest.param(ENDPOINTS_ONLY, "east/shop", id="the mark on Endpoints alone, by the namespace"),
        pytest.param(RECORD_GONE, "east/shop/deploy/web", id="its record is gone, its Service lists it"),
        pytest.param((a_deployment(**RECORD),), "east/shop/deploy/web", id="no Service"),
        pytest.param((a_deployment(**RECORD), a_service()), "east/shop/svc/web", id="a Service without marks"),
        pytest.param((a_deployment(**RECORD), a_service()), "east/shop/Service", id="all Services"),
        pytest.param(
            (a_deployment(**RECORD), a_service(), an_object("v1", "Endpoints", {})),
            "east/shop/endpoints/web",
            id="the Endpoints of such a Service",
        ),
        pytest.param((a_deployment(**FOREIGN_RECORD), a_service()), "east/shop/svc/web", id="what somebody else idled"),
    ],
)
def test_what_sleeps_is_found_by_every_name_it_has(tmp_path, found, name):
    folder = a_folder(tmp_path, *found)
    said = wake(folder, name)
    assert (said.code, said.err) == (0, "")
    assert folder.replicas("east", "shop", "Deployment", "web") == 3


def test_a_scaled_object_is_found_by_what_it_scales(tmp_path):
    folder = a_folder(tmp_path, a_deployment(), SCALED_OBJECT)
    said = wake(folder, "east/shop/deploy/web")
    assert (said.code, said.err) == (0, "")
    waking = folder.objects()["east", "shop", "ScaledObject", "web"]
    assert "autoscaling.keda.sh/paused-replicas" not in waking["metadata"].get("annotations", {})


def test_a_record_that_cannot_be_read_is_told_and_nothing_is_asked(tmp_path):
    folder = a_folder(tmp_path, a_deployment(**{**RECORD, "idling.kubernetes.io/previous-scale": "many"}))
    before = folder.objects()
    said = wake(folder, "east/shop/deploy/web")
    assert said.code == 6
    assert "previous-scale" in said.err
    assert "`restore` gives back what can be read" in said.err
    assert folder.objects() == before


@pytest.mark.parametrize("marks", [LISTED, {**LISTED, **OWNED}], ids=["somebody's list", "a list that names us"])
def test_a_list_on_a_service_alone_wakes_nothing_and_that_is_told(tmp_path, marks):
    folder = a_folder(tmp_path, a_deployment(), a_service(**marks))
    said = wake(folder, "east/shop/svc/web")
    assert said.code == 6
    assert "a Service lists it as idle" in said.err
    assert folder.replicas("east", "shop", "Deployment", "web") == 0
    adopted = folder.call("restore", "--all", "--adopt", "--snapshot", "snapshot", "--now", NOW, "--auto-approve", "-q")
    assert adopted.code == 0
    assert folder.replicas("east", "shop", "Deployment", "web") == 3


def test_what_runs_is_not_idle(tmp_path):
    said = wake(a_folder(tmp_path, a_service()), "east/shop/svc/web")
    words = "is not idle; --for keeps a Service, or a workload that nothing owns, awake for longer"
    assert (said.code, said.err) == (64, f"error: east/shop/svc/web: {words}\n")


def test_a_missed_run_is_told(tmp_path):
    job = {"schedule": "0 * * * *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": {}}}}}
    record = {**OWNED, "idling.kubernetes.io/idled-at": AT, "reconciler/previous-suspend": "false"}
    folder = a_folder(tmp_path, an_object("batch/v1", "CronJob", record, spec=job))
    said = wake(folder, "east/shop/cj/web")
    assert said.code == 0
    assert "a missed run may start at once" in said.out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("east/shop/deploy/wbe", 'no such Service or workload was found, did you mean "web"?'),
        ("east/shp", 'nothing was found in namespace "shp" of east, did you mean "shop"?'),
        ("east/shop/sts", "no such Service or workload was found"),
    ],
)
def test_a_mistyped_object_is_not_nothing_to_do(tmp_path, name, words):
    folder = a_folder(tmp_path, *RECORD_GONE)
    for verb in ("restore", "wake", "explain"):
        approved = ("--auto-approve", "--quiet") if verb == "restore" else ()
        said = folder.call(verb, name, "--snapshot", "snapshot", "--now", NOW, *approved)
        assert (said.code, said.err) == (64, f"error: {name}: {words}\n"), verb


@pytest.mark.parametrize(
    ("name", "cluster", "expected"),
    [
        ("foo", "foo", "CLUSTER/NAMESPACE/KIND/NAME or the first parts of it"),
        ("deploy/web", "deploy", "CLUSTER/NAMESPACE/deploy/web"),
    ],
)
def test_the_cluster_is_checked_before_somebody_would_be_asked(tmp_path, name, cluster, expected):
    said = a_folder(tmp_path, *RECORD_GONE).call("wake", name, "--snapshot", "snapshot", "--now", NOW)
    words = f'error: {name}: "{cluster}" is not a cluster of the Fleet, expected {expected}\n'
    assert (said.code, said.err) == (64, words)


@pytest.mark.parametrize("name", ["east/shop/web", "east/Deployment/web"])
def test_an_object_without_one_of_its_parts_is_found_and_named_whole(tmp_path, name):
    said = a_folder(tmp_path, *RECORD_GONE[:1]).call("explain", name, "--snapshot", "snapshot", "--now", NOW)
    assert said.code == 64
    assert said.err.endswith('the first parts of it; did you mean "east/shop/Deployment/web"?\n')


def test_what_is_not_idle_is_kept_awake_for_as_long_as_asked(tmp_path):
    awake = a_deployment()
    awake["spec"]["replicas"] = 3
    folder = a_folder(tmp_path, awake, a_service())
    said = wake(folder, "east/shop/deploy/web")
    words = "is not idle; --for keeps a Service, or a workload that nothing owns, awake for longer"
    assert (said.code, said.err) == (64, f"error: east/shop/deploy/web: {words}\n")
    options = ("--for", "4h", "--snapshot", "snapshot", "--now", NOW)
    said = folder.call("wake", "east/shop/deploy/web", *options)
    written = "reconciler/exclude-until=2026-11-21T02:20:00Z"
    assert (said.code, said.err.splitlines()[0]) == (0, f"annotating east/shop/Deployment/web: {written}")
    annotations = folder.objects()["east", "shop", "Deployment", "web"]["metadata"]["annotations"]
    assert annotations == {"reconciler/exclude-until": "2026-11-21T02:20:00Z"}
    said = folder.call("wake", "east/shop", *options)
    assert (said.code, said.err) == (64, "error: east/shop: nothing below it is idle\n")


def test_what_may_be_idle_is_not_taken_for_awake(tmp_path):
    folder = a_folder(tmp_path, a_service())
    folder.write("snapshot/east/recording.yaml", f"at: {NOW}\nread:\n- resource: services\n- resource: namespaces\n")
    said = folder.call("wake", "east/shop/svc/web", "--for", "4h", "--snapshot", "snapshot", "--now", NOW)
    assert (said.code, "nothing idle was found, and not all could be read" in said.err) == (1, True), said.err
    assert "exclude-until" not in (tmp_path / "snapshot/east/objects.yaml").read_text()


def test_a_wake_for_less_than_min_awake_says_that_it_stays_awake_for_longer(tmp_path):
    folder = a_folder(tmp_path, a_deployment(**RECORD))
    said = folder.call("wake", "east/shop/deploy/web", "--for", "30m", "--snapshot", "snapshot", "--now", NOW)
    assert said.code == 0
    words = "is shorter than 2h, the default of minAwake; it stays awake for minAwake of its policy in any case"
    assert said.err.startswith(f"warning: --for 30m: {words}\n")


def test_a_wake_that_ends_earlier_than_one_before_says_so(tmp_path):
    folder = a_folder(tmp_path, a_deployment(**RECORD))
    options = ("--snapshot", "snapshot", "--now", NOW, "--quiet")
    assert folder.call("wake", "east/shop/deploy/web", "--for", "4h", *options).err == ""
    words = "was excluded from idling for longer, until 2026-11-21T02:20:00Z"
    said = folder.call("wake", "east/shop/deploy/web", "--for", "3h", *options)
    assert said.err == f"warning: east/shop/Deployment/web: {words}\n"


def test_a_wake_of_a_service_without_marks_keeps_what_is_behind_it_awake(tmp_path):
    folder = a_folder(tmp_path, a_deployment(**RECORD), a_service())
    said = folder.call("wake", "east/shop/svc/web", "--for", "4h", "--snapshot", "snapshot", "--now", NOW, "--quiet")
    assert (said.code, said.err) == (0, "")
    service = folder.objects()["east", "shop", "Service", "web"]
    assert service["metadata"]["annotations"]["reconciler/exclude-until"] == "2026-11-21T02:20:00Z"


def test_what_is_only_kept_awake_is_not_said_to_match_policies_that_nobody_read(tmp_path):
    folder = a_folder(tmp_path, a_deployment())
    said = folder.call("wake", "east/shop/deploy/web", "--for", "4h", "--snapshot", "snapshot", "--now", NOW)
    assert (said.code, said.out.splitlines()[-1]) == (0, "Nothing is woken: no policy was compared.")


def test_of_a_namespace_only_what_sleeps_is_asked(tmp_path):
    folder = a_folder(tmp_path, a_deployment(**RECORD), a_service())
    assert wake(folder, "east/shop").code == 0
    assert folder.replicas("east", "shop", "Deployment", "web") == 3
    assert "annotations" not in folder.objects()["east", "shop", "Service", "web"]["metadata"]


def test_restore_by_a_service_without_marks(tmp_path):
    folder = a_folder(tmp_path, a_deployment(**RECORD), a_service())
    said = folder.call("restore", "east/shop/svc/web", "--snapshot", "snapshot", "--now", NOW, "--auto-approve", "-q")
    assert said.code == 0, said.err
    assert folder.replicas("east", "shop", "Deployment", "web") == 3
