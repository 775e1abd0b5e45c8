"""Decoding: bytes and values alike, times, the versions of definitions, names of state."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.apply.config_map_store import entry_name
from reconciler.backends.decode.metadata import Metadata
from reconciler.backends.decode.mismatches import json_path, mismatches
from reconciler.backends.decode.objects import model_object, scale_kind_of, secret_value, shape_of
from reconciler.backends.decode.shapes import SHAPES, Custom, CustomResourceDefinition, Secret
from reconciler.backends.decode.values import decoded_json, decoded_value, instant
from reconciler.backends.protocols import PODS, SERVICES, workloads_of
from reconciler.backends.snapshot.controllers import with_settled_status
from reconciler.backends.snapshot.recorded_manifests import definition_of, recorded_manifest
from reconciler.decide.owners_and_rollouts import in_rollout
from reconciler.errors import MalformedAnswerError
from reconciler.model import Workload
from reconciler.workload_kinds import BY_KIND, SWITCHES, WorkloadKind
from tests.backends.folders import BUILT_IN
from tests.laws import tries

COUNTS = ("readyReplicas", "updatedReplicas")
MINUTE = 60 * 10**9
BASE = int(datetime(2026, 11, 20, 15, 40, tzinfo=UTC).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-11-20T15:40:00Z", BASE),
        ("2026-11-20t15:40:00z", BASE),
        ("2026-11-20T15:40:00.000000001Z", BASE + 1),
        ("2026-11-20T15:40:00.5+01:30", BASE + 5 * 10**8 - 90 * MINUTE),
        ("2026-11-20T15:40:00-00:30", BASE + 30 * MINUTE),
        ("2026-11-20T15:40:00.1234567891Z", BASE + 123456789),
        ("1969-12-31T23:59:59.5Z", -5 * 10**8),
        ("0000-02-29T00:00:00Z", instant("0001-01-01T00:00:00Z")),
        ("-0001-12-31T23:00:00.000001Z", instant("0001-01-01T00:00:00Z")),
        ("10000-01-01T00:59:59Z", instant("9999-12-31T23:59:59Z")),
    ],
)
def test_instants(text, nanoseconds):
    assert instant(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-20",
        "2026-11-20 15:40:00Z",
        "2026-11-20T15:40:00",
        "2026-11-20T15:40Z",
        "2026-13-01T00:00:00Z",
        "2026-11-20T15:40:60Z",
        "2026-W01-1T10:00:00Z",
        "0000",
        "10001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_no_instants(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the calendar's own words, or ours
        instant(text)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    "decode", [decoded_value, lambda shape, value: decoded_json(shape, json.dumps(value).encode())]
)
@pytest.mark.parametrize(
    ("found", "kept", "is_there"),
    [
        pytest.param({LAST_APPLIED: "{}", "a": "b"}, {"a": "b"}, True, id="among others"),
        pytest.param({LAST_APPLIED: "{}"}, {}, True, id="alone: there is a map on the server"),
        pytest.param({}, {}, False, id="an empty map, which no server keeps"),
        pytest.param(None, {}, False, id="no map"),
    ],
)
@pytest.mark.parametrize("resource", [SERVICES, BUILT_IN["Deployment"], PODS], ids=lambda one: one.kind)
def test_what_kubectl_keeps_in_an_annotation_is_not(decode, found, kept, is_there, resource):
    value = {"metadata": {"name": "web", **({} if found is None else {"annotations": dict(found)})}}
    made = model_object(resource, decode(shape_of(resource), value), "east")
    assert dict(getattr(made, "annotations", kept)) == kept
    assert made.has_annotations is is_there
    assert value["metadata"].get("annotations") == found, "what was decoded is left as it was"


def custom(manifest: dict[str, Any], kind: WorkloadKind) -> Workload:
    """A custom resource as it is read, of its recording as of the cluster."""
    resource = workloads_of(kind)
    live = decoded_value(Custom, manifest)
    recorded = decoded_value(Custom, recorded_manifest(resource, live, {(kind.group, kind.kind): kind}))
    found, again = (model_object(resource, one, "east", kind) for one in (live, recorded))
    assert found == again
    return found


def definition(*versions: dict[str, Any], **spec: Any) -> CustomResourceDefinition:
    names = {"kind": "Rollout", "plural": "rollouts"}
    whole = {"group": "argoproj.io", "names": names, "versions": list(versions), **spec}
    return decoded_value(CustomResourceDefinition, {"metadata": {"name": "rollouts.argoproj.io"}, "spec": whole})


def version(name: str, scale: bool = True, **fields: Any) -> dict[str, Any]:
    paths = {"specReplicasPath": f".spec.{name}", "statusReplicasPath": ".status.deep.replicas"}
    return {"name": name, "served": True, "subresources": {"scale": paths} if scale else {"status": {}}} | fields


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        pytest.param([version("v1alpha1")], "v1alpha1", id="the only one"),
        pytest.param([version("v1"), version("v1beta1", storage=True)], "v1beta1", id="the stored one"),
        pytest.param([version("v1beta2"), version("v2"), version("v10"), version("x")], "v10", id="the preferred one"),
        pytest.param([version("v" + "9" * 5000), version("v1")], "v1", id="one of too many digits is none"),
        pytest.param([version("v1beta1"), version("v1alpha9")], "v1beta1", id="beta before alpha"),
        pytest.param([version("v2", scale=False, storage=True), version("v1")], "v1", id="one with a scale"),
        pytest.param([version("v2", served=False), version("v1")], "v1", id="one that is served"),
        pytest.param([version("v1", scale=False)], None, id="none with a scale"),
        pytest.param([], None, id="no version"),
    ],
)
def test_the_version_of_a_custom_kind(versions, chosen):
    found = scale_kind_of(definition(*versions))
    expected = WorkloadKind(
        "argoproj.io", chosen or "", "Rollout", "rollouts", ("spec", chosen or ""), ("status", "deep", "replicas")
    )
    assert found == (None if chosen is None else expected)


def test_a_custom_resource_is_read_by_its_paths():
    scale = WorkloadKind(
        "argoproj.io", "v1alpha1", "Rollout", "rollouts", ("spec", "deep", "count"), ("status", "total")
    )
    value = {
        "metadata": {
            "name": "web",
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:deep": {"f:count": {}}}}}],
        },
        "spec": {"deep": {"count": 7}, "selector": "app=web", "template": []},
        "status": {"total": 6, "readyReplicas": 5, "observedGeneration": "12", "conditions": "none"},
    }
    found = custom(value, scale)
    assert (found.replicas, found.status_replicas, found.ready_replicas, found.observed_generation) == (7, 6, 5, 12)
    assert (found.selector, dict(found.template_labels), found.conditions) == (None, {}, ())
    assert found.replicas_path == ("spec", "deep", "count")
    assert found.replicas_writer.manager == "m"


@pytest.mark.parametrize(
    ("status", "fields", "counts"),
    [
        pytest.param({"observedGeneration": "12"}, COUNTS, (None, 0, 0), id="what its definition has is 0"),
        pytest.param({"observedGeneration": 12}, ("readyReplicas",), (None, 0, None), id="only what it has"),
        pytest.param({"observedGeneration": 12}, (), (None, None, None), id="a definition without them"),
        pytest.param({"phase": "New"}, COUNTS, (None, None, None), id="its controller did not look at it yet"),
        pytest.param({"observedGeneration": 12, "readyReplicas": 2}, COUNTS, (None, 2, 0), id="what is said counts"),
    ],
)
def test_a_count_that_a_custom_resource_leaves_out(status, fields, counts):
    """LeaderWorkerSets leave a 0 out, and others have no such count: their definitions say which."""
    properties = {"replicas": {"type": "integer"}, **{field: {"type": "integer"} for field in fields}}
    schema = {"openAPIV3Schema": {"properties": {"status": {"type": "object", "properties": properties}}}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    kind = scale_kind_of(definition(version("v1alpha1", subresources={"scale": paths}, schema=schema)))
    assert scale_kind_of(decoded_value(CustomResourceDefinition, definition_of(kind, namespaced=True))) == kind
    kind = replace(kind, group="example.com", kind="Widget", plural="widgets")
    manifest = {"metadata": {"name": "web"}, "spec": {"replicas": 3}, "status": status}
    found = custom(manifest, kind)
    assert (found.status_replicas, found.ready_replicas, found.updated_replicas) == counts


def test_a_rollout_leaves_a_0_out_whatever_its_definition_says():
    kind = WorkloadKind("argoproj.io", "v1alpha1", "Rollout", "rollouts")  # as of a definition without a schema
    status = {"observedGeneration": "2", "replicas": 3}
    manifest = {"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3}, "status": status}
    found = custom(manifest, kind)
    assert (found.ready_replicas, found.updated_replicas, in_rollout(found)) == (0, 0, True)


def test_what_a_scale_counts_that_is_not_of_pods_is_read_by_its_own_path():
    """A VMAgent is scaled by its shards, and its status has the replicas of one of them."""
    kind = WorkloadKind("example.com", "v1", "Agent", "agents", ("spec", "shardCount"), ("status", "shards"))
    status = {"observedGeneration": 2, "replicas": 1, "shards": 5}
    manifest = {"metadata": {"name": "web"}, "spec": {"shardCount": 5, "replicaCount": 1}, "status": status}
    assert custom(manifest, kind).status_replicas == 5


@pytest.mark.parametrize(("observed", "ready"), [(1, 0), (2, 1), (None, 1)])
def test_a_condition_of_an_older_generation_shows_nothing(observed, ready):
    """A Service of Knative is Ready also without pods; what a new minimum makes of that, its status says later."""
    kind = SWITCHES["serving.knative.dev", "Service"]
    status = {"observedGeneration": observed, "conditions": [{"type": "Ready", "status": "True"}]}
    manifest = {"metadata": {"name": "web", "generation": 2}, "status": status}
    assert custom(manifest, kind).ready_replicas == ready


@pytest.mark.parametrize(("status", "ready"), [({}, 0), ({"readyInstances": 2}, 0), ({"readyInstances": 3}, 1)])
def test_a_hibernating_database_is_not_ready_though_its_condition_says_so(status, ready):
    """CloudNativePG looks at its phase, which hibernation leaves as it was, for the condition Ready."""
    status = {**status, "conditions": [{"type": "Ready", "status": "True"}]}
    manifest = {"metadata": {"name": "db"}, "spec": {"instances": 3, "other": 1}, "status": status}
    assert custom(manifest, SWITCHES["postgresql.cnpg.io", "Cluster"]).ready_replicas == ready


@pytest.mark.parametrize(
    ("strategy", "updated", "rolls"),
    [
        pytest.param({"partition": 2}, 3, False, id="up to its partition"),
        pytest.param({"partition": 2}, 2, True, id="not up to its partition yet"),
        pytest.param({"partition": "50%"}, 2, False, id="per cent are rounded up"),
        pytest.param({"partition": "50%"}, 1, True, id="not up to its share yet"),
        pytest.param({"partition": "100%"}, 0, False, id="all keep their template"),
        pytest.param({"partition": "90%"}, 0, True, id="of less than 100 % one does not"),
        pytest.param({"partition": "90%"}, 1, False, id="and the one has another one"),
        pytest.param({"rollingUpdate": {"partition": 4}}, 1, False, id="as an Advanced StatefulSet says it"),
        pytest.param({"type": "OnDelete"}, 0, False, id="only what is deleted"),
        pytest.param({"type": "ReCreate", "partition": None}, 4, True, id="no partition"),
        pytest.param("Always", 4, True, id="something else of that name"),
    ],
)
def test_what_keeps_its_template_on_purpose_is_in_no_rollout(strategy, updated, rolls):
    """A partition of a CloneSet may last for weeks."""
    status = {"observedGeneration": 7, "replicas": 5, "readyReplicas": 5, "updatedReplicas": updated}
    spec = {"replicas": 5, "updateStrategy": strategy}
    manifest = {"metadata": {"name": "web", "generation": 7}, "spec": spec, "status": status}
    assert in_rollout(custom(manifest, BY_KIND["CloneSet"])) is rolls


def test_a_blue_green_rollout_before_its_promotion_is_in_one():
    """What Argo Rollouts has at the path of /scale counts the replicas with traffic, none of which is updated yet."""
    kind = WorkloadKind("argoproj.io", "v1alpha1", "Rollout", "rollouts", status_path=("status", "HPAReplicas"))
    status = {"observedGeneration": "7", "replicas": 6, "HPAReplicas": 3, "updatedReplicas": 3, "readyReplicas": 6}
    manifest = {"metadata": {"name": "web", "generation": 7}, "spec": {"replicas": 3}, "status": status}
    assert in_rollout(custom(manifest, kind))
    assert not in_rollout(custom(with_settled_status(manifest, kind, 3, 0), kind))


WORDS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
)
ANY = st.recursive(
    WORDS,
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=6,
)
FIELDS = """
    metadata name namespace labels annotations ownerReferences managedFields fieldsV1 f:spec f:replicas
    creationTimestamp spec replicas selector matchLabels matchExpressions key operator values template status conditions
    type containerStatuses restartCount initContainers suspend jobTemplate scaleTargetRef maxReplicas data group names
    kind plural versions subresources scale endpoints targetRef involvedObject series lastTimestamp
""".strip().split()
SHAPED = st.recursive(
    ANY | st.sampled_from(["In", "2026-11-20T15:40:00Z", "web", 3]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inside, max_size=6),
    max_leaves=14,
)


@tries(100)
@given(kind=st.sampled_from(sorted(SHAPES)), value=st.dictionaries(st.sampled_from(FIELDS), SHAPED, max_size=5))
def test_every_refusal_is_explained_and_nothing_else_is(kind, value):
    """The mismatches are found by another way than decoding: both must agree whether there are any."""
    shape = SHAPES[kind]
    wrong = mismatches(value, shape)
    try:
        decoded_value(shape, value)
        refused = False
    except msgspec.ValidationError:
        refused = True
    assert refused == bool(wrong)
    assert all(one.words() and json_path(one.path) for one in wrong)


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), unique=True, max_size=5))
def test_every_key_of_state_is_a_key_of_a_config_map(keys):
    """Source: apimachinery util/validation, IsConfigMapKey."""
    names = [entry_name(key) for key in keys]
    assert len(set(names)) == len(keys)
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]*", name) for name in names)


THREADS = """
import sys, threading, msgspec
from reconciler.backends.decode.shapes import SHAPES
from reconciler.backends.decode.values import decoded_json, decoded_value
from reconciler.backends.kubernetes.pages import _Page
from reconciler.workload_kinds import BY_KIND, WorkloadKind

def read(meet=threading.Barrier(8)):
    meet.wait()
    for shape in SHAPES.values():
        try:
            {read}
        except msgspec.ValidationError:
            pass

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=read) for _ in range(8)]
for step in (threading.Thread.start, threading.Thread.join):
    for thread in threads:
        step(thread)
"""


@pytest.mark.parametrize(
    "read",
    [
        pytest.param('decoded_json(_Page[shape], b\'{"items": [{"metadata": {"name": "a"}}]}\')', id="JSON"),
        pytest.param("decoded_value(shape, {'metadata': {'name': 'a'}})", id="values"),
    ],
)
def test_threads_that_meet_a_type_at_the_same_time_do_not_end_the_process(read):
    ended = subprocess.run([sys.executable, "-c", THREADS.format(read=read)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("text", ["YQ", "gehört", "/w=="])
def test_what_is_no_text_in_base64_is_no_value_of_a_secret(text):
    with pytest.raises(MalformedAnswerError, match="no text in base64, expected one"):
        secret_value(Secret(metadata=Metadata(name="own"), data={"key": text}), "key", "here")
