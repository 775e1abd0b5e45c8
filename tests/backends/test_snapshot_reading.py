"""Manifests as people write them, and as kubectl prints them."""

from __future__ import annotations

import gc
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import (
    AUTOSCALERS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    workloads_of,
)
from reconciler.backends.snapshot import object_store
from reconciler.backends.snapshot.folder import scan
from reconciler.backends.snapshot.manifest_files import ManifestEntry
from reconciler.errors import MalformedAnswerError
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.model import Condition, FieldWriter, Pod
from reconciler.observe.clusters import observe
from reconciler.workload_kinds import WorkloadKind
from tests.backends.clone_sets import CLONE_SET, CLONE_SETS
from tests.backends.folders import BUILT_IN, a_folder, a_manifest, a_snapshot_cluster, one
from tests.builders import a_fleet, a_policy_set

SECOND = 10**9


def entries_alive() -> int:
    return sum(isinstance(one, ManifestEntry) for one in gc.get_objects())


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("apps/v1beta1", "Deployment"),
        ("apps/v1beta2", "Deployment"),
        ("extensions/v1beta1", "Deployment"),
        ("extensions/v1beta1", "ReplicaSet"),
        ("apps/v1beta1", "StatefulSet"),
        ("v1", "ReplicationController"),
        ("batch/v1beta1", "CronJob"),
        ("batch/v2alpha1", "CronJob"),
    ],
)
def test_old_versions_are_read_as_the_present_ones(tmp_path: Path, version: str, kind: str) -> None:
    found = one(tmp_path, f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: web}}}}", kind)
    assert (found.ref.group, found.api_version) == (BUILT_IN[kind].group, BUILT_IN[kind].api_version)
    assert (found.ref.namespace, found.spec_replicas) == ("default", 1)


@pytest.mark.parametrize(
    ("status", "numbers"),
    [
        pytest.param("", (4, 4, 4, 4, 7), id="no status is settled"),
        pytest.param("status: {}", (4, 4, 4, 4, 7), id="an empty status is none"),
        pytest.param("status: null", (4, 4, 4, 4, 7), id="null is none"),
        pytest.param("status: {replicas: 4, readyReplicas: 2}", (4, 2, None, None, None), id="what is written counts"),
        pytest.param("status: {replicas: 0}", (0, None, None, None, None), id="zero is written too"),
        pytest.param("status: {observedGeneration: 6}", (0, 0, 0, 0, 6), id="the API server leaves a 0 out"),
    ],
)
def test_status(tmp_path: Path, status: str, numbers: tuple[int | None, ...]) -> None:
    manifest = f"""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: web, generation: 7}}
        spec: {{replicas: 4}}
        {status}
        """
    found = one(tmp_path, manifest)
    assert (
        found.status_replicas,
        found.ready_replicas,
        found.available_replicas,
        found.updated_replicas,
        found.observed_generation,
    ) == numbers


@pytest.mark.parametrize(
    ("kind", "updated"), [("StatefulSet", 0), ("ReplicaSet", None), ("ReplicationController", None)]
)
def test_only_kinds_with_rollouts_count_what_is_of_the_newest_template(
    tmp_path: Path, kind: str, updated: int | None
) -> None:
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    status = "{observedGeneration: 1, replicas: 2}"
    found = one(tmp_path, f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}, status: {status}}}", kind)
    assert (found.status_replicas, found.ready_replicas, found.updated_replicas) == (2, 0, updated)


@pytest.mark.parametrize(
    ("policy", "claims", "loses"),
    [
        ("{whenScaled: Delete}", "[{metadata: {name: data}}]", True),
        ("{whenScaled: Delete}", "[]", False),
        ("{whenDeleted: Delete, whenScaled: Retain}", "[{metadata: {name: data}}]", False),
        ("{}", "[{metadata: {name: data}}]", False),
    ],
)
def test_whether_a_stateful_set_loses_volumes(tmp_path: Path, policy: str, claims: str, loses: bool) -> None:
    spec = f"{{persistentVolumeClaimRetentionPolicy: {policy}, volumeClaimTemplates: {claims}}}"
    manifest = f"{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: a}}, spec: {spec}}}"
    assert one(tmp_path, manifest, "StatefulSet").loses_volumes is loses


@pytest.mark.parametrize(
    ("spec", "partition", "first"),
    [
        ("{}", 0, 0),
        ("{updateStrategy: {type: RollingUpdate}}", 0, 0),
        ("{updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}", 2, 0),
        ("{ordinals: {start: 10}, updateStrategy: {rollingUpdate: {partition: 11}}}", 1, 10),
        ("{updateStrategy: {type: OnDelete}}", None, 0),
    ],
)
def test_which_pods_of_a_stateful_set_keep_their_template(
    tmp_path: Path, spec: str, partition: int | None, first: int
) -> None:
    manifest = f"{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: a}}, spec: {spec}}}"
    found = one(tmp_path, manifest, "StatefulSet")
    assert (found.partition, found.first_ordinal) == (partition, first)


@pytest.mark.parametrize(
    ("replicas", "read", "settled"), [("replicas: 0", 0, 0), ("replicas: null", None, 1), ("paused: true", None, 1)]
)
def test_replicas_that_are_not_there_count_as_one(tmp_path: Path, replicas: str, read: int, settled: int) -> None:
    found = one(tmp_path, f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{{replicas}}}}}")
    assert (found.replicas, found.spec_replicas, found.ready_replicas) == (read, settled, settled)


def test_a_written_uid_counts_and_a_missing_one_is_derived_from_the_name(tmp_path: Path) -> None:
    files = {
        "a.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, uid: u-1}}",
        "b.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}",
    }
    first, second = a_snapshot_cluster(tmp_path / "x", files).list(BUILT_IN["Deployment"])
    _, again = a_snapshot_cluster(tmp_path / "y", files).list(BUILT_IN["Deployment"])
    _, elsewhere = a_snapshot_cluster(tmp_path / "z", files, name="west").list(BUILT_IN["Deployment"])
    assert first.uid == "u-1"
    assert second.uid == again.uid
    assert len({first.uid, second.uid, elsewhere.uid}) == 3


@pytest.mark.parametrize(
    ("manifest", "identity"),
    [
        pytest.param("", "east", id="no such namespace: the name"),
        pytest.param("{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: u-7}}", "u-7", id="its uid"),
        pytest.param(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: kube-system}}", "east", id="implied"
        ),
    ],
)
def test_identity(tmp_path: Path, manifest: str, identity: str) -> None:
    assert a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).identity() == identity


def test_null_in_place_of_a_text_is_empty_as_a_server_has_it(tmp_path: Path) -> None:
    manifests = [
        a_manifest(labels={"a": None, "b": "c"}, annotations={"d": None}),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}, "data": {"f": None}},
    ]
    manifests.append(a_manifest(kind="ReplicaSet"))
    manifests[-1]["spec"]["template"]["metadata"]["labels"]["app"] = None
    cluster = a_snapshot_cluster(tmp_path, {f"{number}.json": json.dumps(one) for number, one in enumerate(manifests)})
    assert cluster.problems() == []
    (web,), (old,) = (cluster.list(BUILT_IN[kind]) for kind in ("Deployment", "ReplicaSet"))
    assert (web.labels, web.annotations, old.template_labels) == ({"a": "", "b": "c"}, {"d": ""}, {"app": ""})


def test_namespaces_are_those_written_and_those_of_objects(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(
        tmp_path,
        {
            "a.yaml": """
            apiVersion: v1
            kind: Namespace
            metadata: {name: shop, labels: {tier: web}}
            ---
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: web, namespace: shop}
            ---
            apiVersion: v1
            kind: ServiceAccount
            metadata: {name: bot, namespace: ci}
            ---
            apiVersion: v1
            kind: Node
            metadata: {name: node-1, labels: {zone: a}}
            """
        },
    )
    assert [(found.ref.name, dict(found.labels)) for found in cluster.list(NAMESPACES)] == [
        ("ci", {}),
        ("shop", {"tier": "web"}),
    ]
    assert cluster.get(NAMESPACES, "", "ci") == cluster.list(NAMESPACES)[0]
    assert [(node.ref.namespace, node.ref.name, node.labels) for node in cluster.list(NODES)] == [
        ("", "node-1", {"zone": "a"})
    ]


KUBECTL_LIST = """
apiVersion: v1
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web
- apiVersion: v1
  kind: Service
  metadata:
    name: web
kind: List
metadata:
  resourceVersion: ""
"""
JSON_LIST = json.dumps({"apiVersion": "v1", "kind": "List", "items": [a_manifest()]})
TYPED_LIST = """
kind: DeploymentList
apiVersion: apps/v1
metadata: {resourceVersion: "1"}
items:
- metadata: {name: web}
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.yaml", KUBECTL_LIST, id="kubectl get -o yaml"),
        pytest.param("a.yaml", TYPED_LIST, id="a typed list"),
        pytest.param("a.json", JSON_LIST, id="json list"),
        pytest.param("a.json", json.dumps(a_manifest()), id="json object"),
        pytest.param("a.yaml", json.dumps(a_manifest()), id="json in yaml"),
        pytest.param(
            "a.json",
            json.dumps({"kind": "List", "items": [{"kind": "List", "items": [a_manifest()]}]}),
            id="nested json",
        ),
        pytest.param("deep/er/a.YML", TYPED_LIST, id="deeper, .YML"),
        pytest.param(
            "a.yaml",
            "kind: List\napiVersion: v1\nitems:\n- " + json.dumps({"kind": "List", "items": [a_manifest()]}),
            id="nested",
        ),
        pytest.param("a.yaml", b"\xef\xbb\xbf" + TYPED_LIST.encode(), id="byte order mark"),
    ],
)
def test_forms_of_files(tmp_path: Path, name: str, content: str | bytes) -> None:
    found = a_snapshot_cluster(tmp_path, {name: content}).list(BUILT_IN["Deployment"])
    assert [workload.ref.name for workload in found] == ["web"]


def test_what_is_no_manifest_is_left_alone(tmp_path: Path) -> None:
    files = {
        "README.md": "# not YAML: [",
        ".hidden.yaml": "[",
        ".git/config.yaml": "[",
        "metrics.yaml": "results: []",
        "empty.yaml": "# nothing here\n---\n---\n",
        "empty.json": " \n",
        "kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]",
        "deep/metrics.yaml": "{apiVersion: v1, kind: Service, metadata: {name: metrics}}",
        "crs.yaml": "{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: a}, spec: {selector: no}}",
    }
    cluster = a_snapshot_cluster(tmp_path, files)
    assert cluster.problems() == []
    assert [service.ref.name for service in cluster.list(SERVICES)] == ["metrics"]


def test_links_are_followed_once(tmp_path: Path) -> None:
    directory = a_folder(tmp_path / "east", {"real/a.yaml": TYPED_LIST})
    (directory / "loop").symlink_to(directory)
    a_folder(directory, {"..data/b.yaml": "{apiVersion: v1, kind: Service, metadata: {name: linked}}"})
    (directory / "b.yaml").symlink_to("..data/b.yaml")
    cluster = a_snapshot_cluster(directory, {})
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["linked"]
    assert [found.ref.name for found in cluster.list(BUILT_IN["Deployment"])] == ["web"]


def test_selectors(tmp_path: Path) -> None:
    manifest = """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          selector:
            matchLabels: {b: "2", a: "1"}
            matchExpressions: [{key: tier, operator: In, values: [x, y]}]
        """
    expected = LabelSelector((("a", "1"), ("b", "2")), (LabelRequirement("tier", "In", ("x", "y")),))
    assert one(tmp_path, manifest).selector == expected


@pytest.mark.parametrize(
    ("version", "kind", "selector", "expected"),
    [
        pytest.param("v1", "ReplicationController", "{tier: x}", (("tier", "x"),), id="a plain map"),
        pytest.param("v1", "ReplicationController", "null", (("app", "web"),), id="from the template"),
        pytest.param("extensions/v1beta1", "Deployment", "null", (("app", "web"),), id="as the old version did"),
    ],
)
def test_selectors_by_default(tmp_path: Path, version: str, kind: str, selector: str, expected: Any) -> None:
    manifest = f"""
        apiVersion: {version}
        kind: {kind}
        metadata: {{name: web}}
        spec: {{selector: {selector}, template: {{metadata: {{labels: {{app: web}}}}}}}}
        """
    assert one(tmp_path, manifest, kind).selector == LabelSelector(expected)


def test_a_replica_set_keeps_its_template_whole(tmp_path: Path) -> None:
    found = one(tmp_path, json.dumps(a_manifest(kind="ReplicaSet")), "ReplicaSet")
    assert found.template == a_manifest()["spec"]["template"]
    assert found.template_labels == {"app": "web"}
    assert one(tmp_path / "d", json.dumps(a_manifest())).template is None


def test_cron_jobs_and_scaled_objects(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(
        tmp_path,
        {
            "a.yaml": """
            apiVersion: batch/v1
            kind: CronJob
            metadata: {name: nightly}
            spec: {suspend: true, startingDeadlineSeconds: 60}
            ---
            apiVersion: keda.sh/v1alpha1
            kind: ScaledObject
            metadata:
              name: web
              annotations: {autoscaling.keda.sh/paused-replicas: "0"}
              managedFields:
                - manager: argocd-controller
                  operation: Apply
                  time: "2026-11-20T11:00:00Z"
                  fieldsV1: {f:metadata: {f:annotations: {f:autoscaling.keda.sh/paused-replicas: {}}}}
            spec: {scaleTargetRef: {name: web}}
            """
        },
    )
    (nightly,) = cluster.list(BUILT_IN["CronJob"])
    assert (nightly.switch.value, nightly.starting_deadline, nightly.replicas_path) == (True, 60, ("spec", "suspend"))
    (scaled,) = cluster.list(BUILT_IN["ScaledObject"])
    assert (scaled.scale_target, scaled.replicas) == (("Deployment", "web"), None)
    assert scaled.replicas_writer == FieldWriter("argocd-controller", datetime(2026, 11, 20, 11, tzinfo=UTC))


@pytest.mark.parametrize("version", ["autoscaling/v1", "autoscaling/v2beta2", "autoscaling/v2"])
def test_autoscalers_of_all_versions(tmp_path: Path, version: str) -> None:
    manifest = f"""
        apiVersion: {version}
        kind: HorizontalPodAutoscaler
        metadata: {{name: web}}
        spec:
          scaleTargetRef: {{kind: StatefulSet, name: db}}
          maxReplicas: 9
          behavior: {{scaleDown: {{selectPolicy: Disabled}}}}
        """
    (found,) = a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).list(AUTOSCALERS)
    assert (found.target, found.minimum, found.maximum) == (("StatefulSet", "db"), None, 9)
    assert found.scale_down_disabled is True


@pytest.mark.parametrize(
    ("metric", "condition", "expected"),
    [
        ("External", "{type: ScaledToZero, status: 'True'}", (True, True)),
        ("Object", "{type: ScaledToZero, status: 'False'}", (False, True)),
        ("Resource", "{type: ScalingActive, status: 'True'}", (False, False)),
    ],
)
def test_what_an_autoscaler_says_of_zero(
    tmp_path: Path, metric: str, condition: str, expected: tuple[bool, bool]
) -> None:
    manifest = f"""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {{name: web}}
        spec:
          scaleTargetRef: {{kind: Deployment, name: web}}
          maxReplicas: 9
          metrics: [{{type: {metric}}}]
        status: {{conditions: [{condition}]}}
        """
    (found,) = a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).list(AUTOSCALERS)
    assert (found.scaled_to_zero, found.may_be_zero) == expected


CLONE_SET_KIND = workloads_of(WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets"))


def test_a_custom_kind_has_the_paths_of_its_definition(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": CLONE_SET, "z.yaml": CLONE_SETS})
    (scale,) = [scale for scale in cluster.scale_kinds() if scale.group == "apps.kruise.io"]
    assert scale == WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")
    (found,) = cluster.list(workloads_of(scale))
    assert (found.replicas, found.ready_replicas, found.status_replicas, found.observed_generation) == (4, 4, 4, 3)
    assert found.selector == LabelSelector((("app", "web"),))
    assert found.template_labels == {"app": "web"}


def test_a_custom_kind_without_definition_cannot_be_scaled(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": CLONE_SET})
    kind = WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")
    assert kind not in cluster.scale_kinds()
    assert cluster.list(workloads_of(kind)) == ()


def test_a_definition_that_comes_later_counts(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": CLONE_SET})
    before = cluster.scale_kinds()
    a_folder(tmp_path, {"z.yaml": CLONE_SETS})
    assert len(cluster.scale_kinds()) == len(before) + 1


def test_a_changed_definition_changes_how_others_are_read(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(
        tmp_path, {"a.yaml": CLONE_SET.replace("replicas: 4", "deep: 7"), "z.yaml": CLONE_SETS}
    )
    assert [found.replicas for found in cluster.list(CLONE_SET_KIND)] == [None]
    a_folder(tmp_path, {"z.yaml": CLONE_SETS.replace(".spec.replicas", ".spec.deep")})
    assert [found.replicas for found in cluster.list(CLONE_SET_KIND)] == [7]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": "{apiVersion: v1, kind: Service, metadata: {name: one}}"})
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["one"]
    a_folder(tmp_path, {"a.yaml": "{apiVersion: v1, kind: Service, metadata: {name: another}}"})
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["another"]
    (tmp_path / "a.yaml").unlink()
    assert cluster.list(SERVICES) == ()


def a_pod(directory: Path, manifest: str) -> Pod:
    (found,) = a_snapshot_cluster(directory, {"a.yaml": manifest}).list(PODS)
    return found


def test_a_folder_is_looked_at_once_for_all_lists_of_a_reading(tmp_path: Path, monkeypatch: Any) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"web.json": json.dumps(a_manifest())})
    looks: list[Path] = []
    monkeypatch.setattr(object_store, "scan", lambda folder, root: looks.append(folder) or scan(folder, root))
    sources = {"east": Backend("east", cluster, begin=cluster.begin, end=cluster.end)}
    for replicas in (3, 5):
        a_folder(tmp_path, {"web.json": json.dumps(a_manifest(replicas=replicas))})
        looks.clear()
        seen = observe(a_policy_set(a_fleet("east")), sources).clusters["east"]
        assert ([one.spec_replicas for one in seen.workloads], len(looks)) == ([replicas], 1)
    cluster.list(PODS)
    cluster.list(PODS)
    assert len(looks) == 3


def test_of_a_file_that_was_read_no_text_is_kept_as_it_stands(tmp_path: Path) -> None:
    many = {"apiVersion": "v1", "kind": "List", "items": [a_manifest(f"web-{n}") for n in range(100)]}
    cluster = a_snapshot_cluster(tmp_path, {"all.json": json.dumps(many)})
    file = cluster.entries()[0].file
    assert (file.data, [one.text for one in file.documents]) == (b"", [""])
    assert len(file.packed) < len(json.dumps(many)) / 10
    assert file.value_of(cluster.entries()[7]) == many["items"][7]
    assert cluster.entries()[0].place == f"{tmp_path}/all.json:1"


@pytest.mark.parametrize(
    ("name", "more", "is_kept"),
    [
        pytest.param("all.json", [], False, id="JSON"),
        pytest.param("all.json", [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}], True, id="pods"),
        pytest.param("all.yaml", [], True, id="YAML"),
    ],
)
def test_the_objects_of_a_large_folder_are_let_go_after_a_reading(
    tmp_path: Path, monkeypatch: Any, name: str, more: list[Any], is_kept: bool
) -> None:
    monkeypatch.setattr(object_store, "_LARGE", 1)
    items = [*(a_manifest(f"web-{n}") for n in range(3)), *more]
    cluster = a_snapshot_cluster(tmp_path, {name: json.dumps({"apiVersion": "v1", "kind": "List", "items": items})})
    cluster.begin()
    read = cluster.list(BUILT_IN["Deployment"])
    gc.collect()
    gc.disable()  # as the command line runs
    before = entries_alive()
    cluster.end()
    assert before - entries_alive() == (0 if is_kept else len(items))
    gc.enable()
    assert cluster.list(BUILT_IN["Deployment"]) == read


def test_a_pod_has_all_that_the_victim_order_asks(tmp_path: Path) -> None:
    manifest = """
        apiVersion: v1
        kind: Pod
        metadata:
          name: web-1
          namespace: shop
          uid: u-1
          creationTimestamp: 1970-01-01T00:00:10Z
          labels: {app: web}
          annotations: {controller.kubernetes.io/pod-deletion-cost: "-8"}
          ownerReferences:
          - {apiVersion: v1, kind: Other, name: no, uid: u-8}
          - {apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u-9, controller: true}
        spec:
          nodeName: node-1
          initContainers: [{name: setup}, {name: mesh, restartPolicy: Always}]
        status:
          phase: Running
          conditions:
          - {type: Ready, status: "True", lastTransitionTime: "1970-01-01T00:00:11.000000123Z"}
          - type: PodScheduled
            status: "False"
            reason: Unschedulable
            lastTransitionTime: "1970-01-01T01:00:12+01:00"
          containerStatuses: [{name: a, restartCount: 2}, {name: b, restartCount: 5}]
          initContainerStatuses: [{name: setup, restartCount: 9}, {name: mesh, restartCount: 3}]
        """
    assert a_pod(tmp_path, manifest) == Pod(
        name="web-1",
        uid="u-1",
        node="node-1",
        phase="Running",
        ready=True,
        ready_since_ns=11 * SECOND + 123,
        created_ns=10 * SECOND,
        restarts=5,
        sidecar_restarts=3,
        deletion_cost="-8",
        namespace="shop",
        cluster="east",
        labels={"app": "web"},
        owner_uid="u-9",
        owner_kind="ReplicaSet",
        owner_name="web",
        unscheduled_since_ns=12 * SECOND,
        unschedulable=True,
    )


@pytest.mark.parametrize(
    ("rest", "phase", "ready", "terminating"),
    [
        pytest.param("}", "Running", True, False, id="without status it is settled"),
        pytest.param("}\nstatus: {phase: Running}", "Running", False, False, id="a missing condition is not ready"),
        pytest.param("}\nstatus: {phase: Pending}", "Pending", False, False, id="pending"),
        pytest.param(", deletionTimestamp: 2026-11-20T15:41:23Z}", "Running", True, True, id="it goes"),
    ],
)
def test_pods_with_little_to_say(tmp_path: Path, rest: str, phase: str, ready: bool, terminating: bool) -> None:
    found = a_pod(tmp_path, f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web-1{rest}\n")
    assert (found.phase, found.ready, found.terminating, found.node) == (phase, ready, terminating, "")
    assert (found.created_ns, found.ready_since_ns) == (None, None)


def test_a_pod_that_is_held_in_a_queue_is_not_unschedulable(tmp_path: Path) -> None:
    """Else placement takes its cluster for full, and moves replicas that only wait to be admitted."""
    status = '{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}'
    found = a_pod(tmp_path, f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web-1}}\nstatus: {status}\n")
    assert (found.unschedulable, found.unscheduled_since_ns) == (False, None)


def test_an_owner_without_uid_is_the_one_of_that_name(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(
        tmp_path,
        {
            "a.yaml": """
            apiVersion: v1
            kind: Pod
            metadata:
              name: web-1
              ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]
            ---
            apiVersion: apps/v1
            kind: ReplicaSet
            metadata:
              name: web
              ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]
            ---
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: web, uid: u-1}
            """
        },
    )
    (pod,) = cluster.list(PODS)
    (replica_set,) = cluster.list(BUILT_IN["ReplicaSet"])
    assert pod.owner_uid == replica_set.uid
    assert replica_set.owner is not None
    assert replica_set.owner.uid == "u-1"


def test_endpoint_slices_name_the_pods_behind_a_service(tmp_path: Path) -> None:
    manifest = """
        apiVersion: discovery.k8s.io/v1
        kind: EndpointSlice
        metadata: {name: web-x, labels: {kubernetes.io/service-name: web}}
        endpoints:
        - {addresses: [10.0.0.1], targetRef: {kind: Pod, name: web-1, uid: u-1}}
        - {addresses: [10.0.0.2]}
        - {addresses: [10.0.0.3], targetRef: {kind: Node, name: node-1}}
        """
    (found,) = a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).list(ENDPOINT_SLICES)
    assert (found.service, found.pods) == ("web", (("web-1", "u-1"),))


@pytest.mark.parametrize(
    ("event", "at"),
    [
        pytest.param("lastTimestamp: 2026-11-20T15:00:00Z, firstTimestamp: 2026-11-20T14:00:00Z", 15, id="last"),
        pytest.param("eventTime: 2026-11-20T14:00:00.000000Z, lastTimestamp: null", 14, id="event time"),
        pytest.param(
            "eventTime: 2026-11-20T14:00:00Z, series: {lastObservedTime: 2026-11-20T16:00:00Z}", 16, id="series"
        ),
    ],
)
@pytest.mark.parametrize(
    "involved",
    [
        "apiVersion: v1, involvedObject: {kind: Service, name: web}",
        "apiVersion: events.k8s.io/v1, regarding: {kind: Service, name: web}",
    ],
)
def test_events_of_both_groups(tmp_path: Path, event: str, at: int, involved: str) -> None:
    manifest = f"{{kind: Event, metadata: {{name: e, namespace: shop}}, reason: NeedPods, {involved}, {event}}}"
    (found,) = a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).list(EVENTS)
    assert found.involved == ("Service", "shop", "web")
    assert found.at == datetime(2026, 11, 20, at, tzinfo=UTC)


MANAGED = """
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: web
          managedFields:
          - manager: kubectl-client-side-apply
            operation: Update
            time: "2026-11-20T10:00:00Z"
            fieldsV1: {{"f:spec": {{"f:template": {{}}}}}}
          - manager: kube-controller-manager
            operation: Update
            subresource: status
            time: "2026-11-20T12:00:00Z"
            fieldsV1: {{"f:status": {{"f:replicas": {{}}}}}}
          {owners}
"""
OWNS = 'fieldsV1: {"f:spec": {"f:replicas": {}}}'


@pytest.mark.parametrize(
    ("owners", "writer"),
    [
        pytest.param("", None, id="nobody"),
        pytest.param(
            f"- {{manager: kubectl-scale, operation: Update, subresource: scale, {OWNS}}}",
            FieldWriter("kubectl-scale", None, "scale"),
            id="through /scale, without a time",
        ),
        pytest.param(
            f'- {{manager: argocd, operation: Apply, time: "2026-11-20T11:00:00Z", {OWNS}}}',
            FieldWriter("argocd", datetime(2026, 11, 20, 11, tzinfo=UTC)),
            id="an apply",
        ),
        pytest.param(
            f'- {{manager: b, operation: Apply, time: "2026-11-20T11:00:00Z", {OWNS}}}\n'
            f'          - {{manager: a, operation: Apply, time: "2026-11-20T12:00:00Z", {OWNS}}}',
            FieldWriter("a", datetime(2026, 11, 20, 12, tzinfo=UTC)),
            id="the last of two",
        ),
    ],
)
def test_who_wrote_the_replicas(tmp_path: Path, owners: str, writer: FieldWriter | None) -> None:
    assert one(tmp_path, MANAGED.format(owners=owners)).replicas_writer == writer


def test_a_secret_in_plain_words(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(
        tmp_path,
        {"a.yaml": '{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}, stringData: {c: "d\\n\\n"}}'},
    )
    assert cluster.secret("b", "a", "c") == "d\n"


@pytest.mark.parametrize("value", ["not base64!", "//8="])
def test_a_secret_that_is_no_text(tmp_path: Path, value: str) -> None:
    manifest = f"{{apiVersion: v1, kind: Secret, metadata: {{name: a, namespace: b}}, data: {{c: '{value}'}}}}"
    with pytest.raises(MalformedAnswerError) as raised:
        a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).secret("b", "a", "c")
    assert value not in str(raised.value)


def test_conditions_and_endpoints(tmp_path: Path) -> None:
    manifest = """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        status:
          conditions:
          - type: Progressing
            status: "False"
            reason: ProgressDeadlineExceeded
            lastTransitionTime: 2026-11-20T15:00:00Z
        ---
        apiVersion: v1
        kind: Endpoints
        metadata: {name: web, annotations: {idling.alpha.openshift.io/idled-at: x}}
        subsets:
        - addresses:
          - {ip: 10.0.0.1, targetRef: {kind: Pod, name: web-0, namespace: default, uid: u0}}
          - {ip: 10.0.0.2, targetRef: {kind: Pod, name: elsewhere, namespace: other, uid: u1}}
          - {ip: 10.0.0.3, targetRef: {kind: Node, name: n, uid: u2}}
          - {ip: 10.0.0.4}
          notReadyAddresses:
          - {ip: 10.0.0.5, targetRef: {kind: Pod, name: web-1, uid: u3}}
        - addresses: null
        """
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": manifest})
    (web,) = cluster.list(BUILT_IN["Deployment"])
    since = datetime(2026, 11, 20, 15, tzinfo=UTC)
    assert web.condition("Progressing") == Condition("Progressing", "False", "ProgressDeadlineExceeded", since=since)
    (endpoints,) = cluster.list(ENDPOINTS)
    assert endpoints.annotations == {"idling.alpha.openshift.io/idled-at": "x"}
    assert endpoints.pods == (("web-0", "u0"), ("web-1", "u3"))
