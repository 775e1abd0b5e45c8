"""Recorded folders: what they say of what could not be read, and manifests that decode to what was read."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.backends.decode.objects import model_object, shape_of
from reconciler.backends.decode.shapes import ReplicaSet
from reconciler.backends.decode.values import decoded_json, decoded_value, instant
from reconciler.backends.decode.workloads import EVERY, paths_read
from reconciler.backends.protocols import BUILT_IN_SCALES, NODES, PODS, SERVICES, Resource, workloads_of
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.backends.snapshot.file_content import ManifestEntry, entry_of
from reconciler.backends.snapshot.index import Index
from reconciler.backends.snapshot.recorded_manifests import recorded_manifest
from reconciler.backends.snapshot.recorded_metrics import SnapshotMetrics, read_metrics, result_value
from reconciler.backends.snapshot.recorder import Recorder, read_recording
from reconciler.backends.snapshot.served_manifests import fill_status, instant_text, put_at
from reconciler.cli.snapshot import write_snapshot
from reconciler.errors import ForbiddenError, MalformedAnswerError, SnapshotError, UnreachableError
from reconciler.model import QueryAnswer, Sample
from reconciler.workload_kinds import SWITCHES, WorkloadKind
from reconciler.yaml.writer import block_text
from tests.backends.folders import MANIFESTS, RESOURCES, last_names_first
from tests.laws import tries

NOW = datetime(2026, 11, 20, 22, tzinfo=UTC)
CLONES = WorkloadKind(
    "apps.kruise.io", "v1alpha1", "CloneSet", "clonesets", ("spec", "size", "wanted"), ("status", "size")
)
DEPLOYMENTS = workloads_of(BUILT_IN_SCALES[0])
REPLICA_SETS = next(workloads_of(scale) for scale in BUILT_IN_SCALES if scale.kind == "ReplicaSet")


def a_folder(tmp_path: Path, recording: str, **files: str) -> Any:
    """The cluster east of a snapshot with this recording, opened."""
    (tmp_path / "east").mkdir()
    (tmp_path / "east" / "recording.yaml").write_text(recording)
    for name, text in files.items():
        (tmp_path / "east" / f"{name}.yaml").write_text(text)
    return open_snapshot(tmp_path, ["east"], last_names_first).backends["east"].cluster


def test_what_could_not_be_read_is_the_same_error_again(tmp_path):
    east = a_folder(
        tmp_path,
        "read:\n"
        "- {resource: services, error: Forbidden, message: 'east: list services: forbidden'}\n"
        "- {resource: namespaces, name: kube-system, error: Unreachable, message: 'east: gone'}\n",
    )
    with pytest.raises(ForbiddenError, match=r"^east: list services: forbidden$"):
        east.list(SERVICES)
    with pytest.raises(UnreachableError, match=r"^east: gone$"):
        east.identity()


def test_a_cluster_that_did_not_say_what_it_serves(tmp_path):
    east = a_folder(tmp_path, "kinds: {error: Unreachable, message: 'east: get /apis: refused'}\nread: []\n")
    with pytest.raises(UnreachableError, match=r"^east: get /apis: refused$"):
        east.scale_kinds()


@pytest.mark.parametrize(
    ("read", "namespace", "labels", "known"),
    [
        pytest.param("{resource: pods}", "shop", "a=b", True, id="all of them hold those of one namespace"),
        pytest.param("{resource: pods, namespace: shop}", "shop", "a=b", True, id="one namespace"),
        pytest.param("{resource: pods, namespace: shop}", "dev", "", False, id="another namespace"),
        pytest.param("{resource: pods, namespace: shop}", "", "", False, id="one is not all"),
        pytest.param("{resource: pods, labels: a=b}", "", "a=b", True, id="just these labels"),
        pytest.param("{resource: pods, labels: a=b}", "", "", False, id="some labels are not all"),
        pytest.param("{resource: pods, error: Forbidden, message: no}", "shop", "", False, id="forbidden as a whole"),
    ],
)
def test_what_was_not_read_is_unknown(tmp_path, read, namespace, labels, known):
    east = a_folder(tmp_path, f"read:\n- {read}\n")
    if known:
        assert east.list(PODS, namespace=namespace, labels=labels) == ()
    else:
        with pytest.raises(MalformedAnswerError, match="was not recorded in the snapshot, expected it; a recording"):
            east.list(PODS, namespace=namespace, labels=labels)


def test_a_folder_without_a_recording_holds_all_there_is(tmp_path):
    (tmp_path / "east").mkdir()
    assert read_recording(tmp_path / "east", "east") == (None, [])
    cluster = open_snapshot(tmp_path, ["east"], last_names_first).backends["east"].cluster
    assert cluster.list(NODES) == ()


def test_a_malformed_recording_is_told_with_its_place(tmp_path):
    with pytest.raises(SnapshotError) as raised:
        a_folder(tmp_path, "reed: []")
    assert str(raised.value).endswith('recording.yaml:1:1: reed: unknown field, did you mean "read"?')


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T22:00:00Z",
        "2026-11-20T22:00:00.5Z",
        "2026-11-20T22:00:00.000000001Z",
        "1969-12-31T23:59:59.25Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
    ],
)
def test_times_are_written_to_the_nanosecond(text):
    assert instant_text(instant(text)) == text


def again(
    resource: Resource[Any], manifest: dict[str, Any], scale: WorkloadKind | None = None, *, whole: bool = False
) -> tuple[Any, Any, Any]:
    """A manifest and its recorded form, both as their type in model.py, and the recorded form."""
    custom = {} if scale is None else {(scale.group, scale.kind): scale}
    read = decoded_value(shape_of(resource), manifest)
    written = recorded_manifest(resource, read, custom, whole=whole)
    back = decoded_value(shape_of(resource), written)
    return model_object(resource, read, "east", scale), model_object(resource, back, "east", scale), written


def test_a_deployment_nobody_looked_at_yet_is_not_taken_for_settled(tmp_path):
    manifest = {"metadata": {"name": "web", "namespace": "shop", "uid": "1"}, "spec": {"replicas": 3}, "status": {}}
    live, recorded, written = again(DEPLOYMENTS, manifest)
    assert recorded == live
    east = a_folder(tmp_path, "read:\n- resource: deployments.apps\n", deployments=block_text(written))
    assert east.list(DEPLOYMENTS) == (live,)


@pytest.mark.parametrize("case", MANIFESTS)
def test_an_object_is_read_of_its_recording_and_of_bytes_as_of_the_cluster(case):
    resource, manifest = RESOURCES[case["manifest"]["kind"]], case["manifest"]
    live, recorded, written = again(resource, manifest, whole=True)
    assert model_object(resource, decoded_json(shape_of(resource), json.dumps(manifest).encode()), "east") == live
    assert recorded == live
    assert written == case.get("recorded", written)


ENVIRONMENT = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"env": [{"value": "s3cr3t"}]}]}}


def test_of_pod_templates_only_those_are_kept_whole_that_placement_compares():
    recorder = Recorder("east", {("shop", "placed")})
    read = [
        decoded_value(ReplicaSet, {"metadata": {"name": name, "namespace": space}, "spec": {"template": ENVIRONMENT}})
        for space, name in (("shop", "placed"), ("shop", "other"), ("dev", "placed"))
    ]
    recorder.objects(REPLICA_SETS, read)
    written = list(yaml.safe_load_all(recorder.files("2026-11-20T22:00:00Z")["replicasets.apps.yaml"]))
    templates = {(one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"]["template"] for one in written}
    labels = {"metadata": {"labels": {"app": "web"}}}
    assert templates == {("shop", "placed"): ENVIRONMENT, ("shop", "other"): labels, ("dev", "placed"): labels}


REQUESTING: dict[str, Any] = {
    "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1}}}],
    "containers": [{"resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}, {}],
    "overhead": {"memory": "16Mi"},
}


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (workloads_of(BUILT_IN_SCALES[0]), ("template",)),
        (workloads_of(BUILT_IN_SCALES[1]), ("template",)),
        (REPLICA_SETS, ("template",)),
        (workloads_of(BUILT_IN_SCALES[3]), ("template",)),
        (workloads_of(BUILT_IN_SCALES[4]), ("jobTemplate", "spec", "template")),
        (workloads_of(CLONES), ("template",)),
    ],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_what_pods_request_is_kept_and_nothing_else_of_them(resource, path):
    secret = {"name": "main", "env": [{"name": "a", "value": "x"}], "args": ["x"], "command": ["x"]}
    pod = {
        **REQUESTING,
        "initContainers": [{**secret, **REQUESTING["initContainers"][0]}],
        "containers": [{**secret, **one} for one in REQUESTING["containers"]],
        "volumes": [{"secret": "x"}],
    }
    spec = {"metadata": {"labels": {"app": "b"}}, "spec": pod}
    for key in reversed(path):
        spec = {key: spec}
    manifest = {"metadata": {"name": "b", "namespace": "ci", "uid": "1"}, "spec": spec}
    found = again(resource, manifest, *([CLONES] if resource.kind == CLONES.kind else []))[2]["spec"]
    for key in path:
        found = found[key]
    assert found["spec"] == REQUESTING


def test_the_files_of_a_snapshot_are_for_us_alone(tmp_path):
    write_snapshot(tmp_path / "recorded", {"east": {"a.yaml": "a: 1\n"}})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "recorded").rglob("*")}
    assert (modes, stat.S_IMODE((tmp_path / "recorded").stat().st_mode)) == ({"east": 0o700, "a.yaml": 0o600}, 0o700)


def test_of_a_custom_resource_only_its_scale_is_kept():
    manifest = {
        "metadata": {"name": "b", "namespace": "ci", "uid": "1", "generation": 2},
        "spec": {
            "size": {"wanted": 4, "secret": "x"},
            "password": "x",
            "selector": {"matchLabels": {"app": "b"}, "more": "x"},
            "template": {"metadata": {"labels": {"app": "b"}, "annotations": {"token": "x"}}, "spec": {"env": "x"}},
        },
        "status": {
            "size": "3",
            "readyReplicas": 2,
            "observedGeneration": "2",
            "conditions": [{"type": "Ready", "status": "True", "secret": "x"}],
            "secret": "x",
        },
    }
    live, recorded, written = again(workloads_of(CLONES), manifest, CLONES)
    assert recorded == live
    assert live.replicas == 4
    assert live.status_replicas == 3
    assert "x" not in str(written).replace("apps.kruise.io", "")


NESTED = replace(CLONES, replicas_path=("spec", "server", "count"), status_path=("status", "server", "count"))
SETS = WorkloadKind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
LEAVES = st.sampled_from([None, True, False, 0, 1, 2, 3, -1, 1 << 31, 1.5, "", "2", "50%", "on", "Halted", {}, []])
CONDITIONS = st.lists(st.builds(dict, type=st.sampled_from(["Ready", "Failed", 1]), status=LEAVES), max_size=2)


@st.composite
def custom_resources(draw: st.DrawFn) -> tuple[WorkloadKind, dict[str, Any]]:
    """A kind, and an object of it with anything where something is read, or in the way of that, or beside it."""
    kind = draw(st.sampled_from([CLONES, NESTED, SETS, *SWITCHES.values()]))
    manifest: dict[str, Any] = {"metadata": {"name": "a", "namespace": "ci", "uid": "1", "generation": 2}}
    paths = [path for path in paths_read(kind) if path and path[0] != "metadata" and EVERY not in path]
    beside = [(*path[:-1], "other") for path in paths]
    for path in draw(st.lists(st.sampled_from([*paths, *beside, ("spec", "template"), ("spec", "selector")]))):
        short = path[: draw(st.integers(1, len(path)))] if draw(st.integers(0, 3)) == 0 else path
        value = draw(LEAVES) if len(short) > 1 else draw(st.sampled_from([None, {}]))
        manifest = put_at(manifest, short, value)
    if draw(st.booleans()):
        manifest = put_at(manifest, ("status", "conditions"), draw(CONDITIONS | LEAVES))
    return kind, manifest


@tries(300)
@given(custom_resources())
@example((SETS, {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 2}}}}))
@example((NESTED, {"spec": {"server": {"image": "a"}}}))
@example((NESTED, {"spec": {"server": "a"}}))
@example((SETS, {"spec": {"replicas": -1}}))
@example((CLONES, {}))
@example((SWITCHES["kubevirt.io", "VirtualMachine"], {"spec": {"running": True}}))
@example((SWITCHES["batch", "Job"], {"spec": {"suspend": 1.5}}))
@example(
    (
        SWITCHES["serving.knative.dev", "Service"],
        {"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}},
    )
)
def test_a_custom_resource_is_read_of_its_recording_as_of_the_cluster(found):
    kind, manifest = found
    manifest = {"metadata": {"name": "a", "namespace": "ci", "uid": "1", "generation": 2}} | manifest
    live, recorded, written = again(workloads_of(kind), manifest, kind)
    assert recorded == live
    index = Index("east", [], [kind])
    index.scales[kind.group, kind.kind] = kind
    entry = entry_of(written)
    assert isinstance(entry, ManifestEntry)
    assert index.wrong_with(entry) == [], "a snapshot takes it"
    fill_status(entry.decoded, kind)
    assert index.model_object(workloads_of(kind), entry) == live


def test_answers_come_back_as_they_were(tmp_path):
    numbers = (0.0, -0.0, 1.5, 1e300, 1e-9, 12345678901234567.0, float("inf"), float("-inf"))
    answers = {
        "up": QueryAnswer(tuple(Sample({"namespace": "dev", "service": f"s{n}"}, n) for n in numbers)),
        'sum(x{a="ä: #&b"})': QueryAnswer((Sample({}, 1.0),), warnings=("store east: is down",)),
        "broken": QueryAnswer(error='http://prometheus: status 500 ("no": way), expected 200'),
        "nothing": QueryAnswer(),
    }
    results = [result_value(text, answer, "2026-11-20T22:00:00Z") for text, answer in answers.items()]
    (tmp_path / "metrics.yaml").write_text(block_text({"results": results}))
    read, problems = read_metrics(tmp_path, "east")
    assert problems == []
    source = SnapshotMetrics("east", read, NOW)
    assert {text: source.query(text) for text in answers} == answers


def test_an_answer_is_as_of_now_only_at_the_time_it_was_recorded_for(tmp_path):
    (tmp_path / "metrics.yaml").write_text(
        block_text({"results": [result_value("up", QueryAnswer(), "2026-11-20T22:00:00Z")]})
    )
    read, _ = read_metrics(tmp_path, "east")
    assert SnapshotMetrics("east", read, NOW).query("up").at is None
    assert SnapshotMetrics("east", read, NOW.replace(hour=23)).query("up").at == NOW
