"""Manifests as people write them, and as kubectl prints them; the clusters of a Fleet over folders of them."""

from __future__ import annotations

import gc
import json

import msgspec
import pytest

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    workloads_of,
)
from reconciler.backends.snapshot import manifest_store
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.backends.snapshot.file_content import ManifestEntry
from reconciler.backends.snapshot.files import scan
from reconciler.errors import MalformedAnswerError, SnapshotError
from reconciler.labels import LabelSelector
from reconciler.model import JOURNAL
from reconciler.observe.clusters import observe
from reconciler.workload_kinds import WorkloadKind
from reconciler.world import open_world
from tests.backends.folders import (
    BUILT_IN,
    CLONE_SET,
    CLONE_SETS,
    MANIFESTS,
    RESOURCES,
    a_folder,
    a_manifest,
    a_snapshot_cluster,
    last_names_first,
    one,
)
from tests.builders import NOW, a_fleet, a_policy_set


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
def test_old_versions_are_read_as_the_present_ones(tmp_path, version, kind):
    found = one(tmp_path, f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: web}}}}", kind)
    assert (found.ref.group, found.api_version) == (BUILT_IN[kind].group, BUILT_IN[kind].api_version)
    assert (found.ref.namespace, found.spec_replicas) == ("default", 1)


@pytest.mark.parametrize("case", MANIFESTS)
def test_what_is_read_of_a_manifest(tmp_path, case):
    cluster = a_snapshot_cluster(tmp_path, {"a.json": json.dumps(case["manifest"])})
    (found,) = cluster.list(RESOURCES[case["manifest"]["kind"]])
    read = {name: getattr(found, name) for name in case["read"]}
    assert json.loads(msgspec.json.encode(read, enc_hook=int)) == case["read"]


def test_a_written_uid_counts_and_a_missing_one_is_derived_from_the_name(tmp_path):
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
def test_identity(tmp_path, manifest, identity):
    assert a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).identity() == identity


def test_null_in_place_of_a_text_is_empty_as_a_server_has_it(tmp_path):
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


def test_namespaces_are_those_written_and_those_of_objects_with_the_label_of_their_name(tmp_path):
    cluster = a_snapshot_cluster(
        tmp_path,
        {
            "a.yaml": """
            apiVersion: v1
            kind: Namespace
            metadata: {name: shop, labels: {tier: web, kubernetes.io/metadata.name: copied}}
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
        ("ci", {"kubernetes.io/metadata.name": "ci"}),
        ("shop", {"tier": "web", "kubernetes.io/metadata.name": "shop"}),
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
def test_forms_of_files(tmp_path, name, content):
    found = a_snapshot_cluster(tmp_path, {name: content}).list(BUILT_IN["Deployment"])
    assert [workload.ref.name for workload in found] == ["web"]


def test_what_is_no_manifest_is_left_alone(tmp_path):
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


def test_links_are_followed_once(tmp_path):
    directory = a_folder(tmp_path / "east", {"real/a.yaml": TYPED_LIST})
    (directory / "loop").symlink_to(directory)
    a_folder(directory, {"..data/b.yaml": "{apiVersion: v1, kind: Service, metadata: {name: linked}}"})
    (directory / "b.yaml").symlink_to("..data/b.yaml")
    cluster = a_snapshot_cluster(directory, {})
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["linked"]
    assert [found.ref.name for found in cluster.list(BUILT_IN["Deployment"])] == ["web"]


CLONE_SET_KIND = workloads_of(WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets"))


def test_a_custom_kind_has_the_paths_of_its_definition(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": CLONE_SET, "z.yaml": CLONE_SETS})
    (scale,) = [scale for scale in cluster.scale_kinds() if scale.group == "apps.kruise.io"]
    assert scale == WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")
    (found,) = cluster.list(workloads_of(scale))
    assert (found.replicas, found.ready_replicas, found.status_replicas, found.observed_generation) == (4, 4, 4, 3)
    assert found.selector == LabelSelector((("app", "web"),))
    assert found.template_labels == {"app": "web"}


def test_a_custom_kind_is_read_by_its_definition_which_may_come_and_change_later(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": CLONE_SET.replace("replicas: 4", "deep: 7")})
    before = cluster.scale_kinds()
    assert cluster.list(CLONE_SET_KIND) == ()
    a_folder(tmp_path, {"z.yaml": CLONE_SETS})
    assert len(cluster.scale_kinds()) == len(before) + 1
    assert [found.replicas for found in cluster.list(CLONE_SET_KIND)] == [None]
    a_folder(tmp_path, {"z.yaml": CLONE_SETS.replace(".spec.replicas", ".spec.deep")})
    assert [found.replicas for found in cluster.list(CLONE_SET_KIND)] == [7]


def test_a_changed_file_is_read_again(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": "{apiVersion: v1, kind: Service, metadata: {name: one}}"})
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["one"]
    a_folder(tmp_path, {"a.yaml": "{apiVersion: v1, kind: Service, metadata: {name: another}}"})
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["another"]
    (tmp_path / "a.yaml").unlink()
    assert cluster.list(SERVICES) == ()


def test_a_folder_is_looked_at_once_for_all_lists_of_a_reading(tmp_path, monkeypatch):
    cluster = a_snapshot_cluster(tmp_path, {"web.json": json.dumps(a_manifest())})
    looks = []
    monkeypatch.setattr(manifest_store, "scan", lambda folder, root: looks.append(folder) or scan(folder, root))
    sources = {"east": Backend("east", cluster, begin=cluster.begin, end=cluster.end)}
    for replicas in (3, 5):
        a_folder(tmp_path, {"web.json": json.dumps(a_manifest(replicas=replicas))})
        looks.clear()
        seen = observe(a_policy_set(a_fleet("east")), sources).clusters["east"]
        assert ([one.spec_replicas for one in seen.workloads], len(looks)) == ([replicas], 1)
    cluster.list(PODS)
    cluster.list(PODS)
    assert len(looks) == 3


def test_of_a_file_that_was_read_no_text_is_kept_as_it_stands(tmp_path):
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
def test_the_objects_of_a_large_folder_are_let_go_after_a_reading(tmp_path, monkeypatch, name, more, is_kept):
    monkeypatch.setattr(manifest_store, "_LARGE", 1)
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


def test_an_owner_without_uid_is_the_one_of_that_name(tmp_path):
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
    assert replica_set.owner.uid == "u-1"


def test_a_secret_in_plain_words(tmp_path):
    cluster = a_snapshot_cluster(
        tmp_path,
        {"a.yaml": '{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}, stringData: {c: "d\\n\\n"}}'},
    )
    assert cluster.secret("b", "a", "c") == "d\n"


@pytest.mark.parametrize("value", ["not base64!", "//8="])
def test_a_secret_that_is_no_text(tmp_path, value):
    manifest = f"{{apiVersion: v1, kind: Secret, metadata: {{name: a, namespace: b}}, data: {{c: '{value}'}}}}"
    with pytest.raises(MalformedAnswerError) as raised:
        a_snapshot_cluster(tmp_path, {"a.yaml": manifest}).secret("b", "a", "c")
    assert value not in str(raised.value)


# The clusters of a Fleet over one snapshot

SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: web}}"


def test_every_cluster_of_the_fleet_is_there_in_its_order(tmp_path):
    a_folder(
        tmp_path, {"west/a.yaml": SERVICE, "east/a.yaml": SERVICE, "metrics.yaml": "clusters: {east: [{query: q}]}"}
    )
    opened = open_snapshot(tmp_path, ["west", "north", "east"], last_names_first)
    assert list(opened.backends) == ["west", "north", "east"]
    west, north, east = opened.backends.values()
    assert opened.warnings() == ()
    assert (north.cluster, north.error) == (None, f"no folder {tmp_path}/north in the snapshot")
    assert [found.ref.cluster for found in west.cluster.list(SERVICES)] == ["west"]
    assert (east.metrics.query("q").error, west.metrics.query("q").error) == ("", "not recorded in the snapshot")


def test_what_belongs_to_nobody_is_told(tmp_path):
    files = {"east/a.yaml": SERVICE, "old/a.yaml": "broken: [", "a.yaml": SERVICE, "README.md": "", ".git/x.yaml": "["}
    a_folder(tmp_path, files | {"metrics.yaml": "clusters: {far: []}\nresults: [{query: q, cluster: older}]"})
    assert open_snapshot(tmp_path, ["east"], last_names_first).warnings() == (
        f"{tmp_path}/old: no cluster of the Fleet is called old, the folder is ignored",
        f"{tmp_path}: metrics are recorded for older, which is no cluster of the Fleet; they are ignored",
        f"{tmp_path}/a.yaml: stands in no cluster's folder and is ignored",
    )


def test_the_problems_of_all_clusters_come_at_once(tmp_path):
    a_folder(
        tmp_path,
        {"east/a.yaml": "- 1", "west/b.yaml": "a: [", "west/metrics.yaml": "result: []", "metrics.yaml": "results: 1"},
    )
    with pytest.raises(SnapshotError) as raised:
        open_snapshot(tmp_path, ["east", "west"], last_names_first)
    lines = [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in str(raised.value).splitlines()]
    assert lines == ["east/a.yaml:1:1", "metrics.yaml:1:10", "west/b.yaml:2:1", "west/metrics.yaml:1:1"]


def test_the_journal_is_a_config_map_in_our_namespace(tmp_path):
    fleet = a_fleet("east", namespace="ours")
    access = open_world(fleet, str(a_folder(tmp_path, {"east/a.yaml": SERVICE})), NOW).access("east")
    access.store.write("key", "value", None)
    assert dict(access.cluster.get(CONFIG_MAPS, "ours", JOURNAL).data) == {"key": "value"}


@pytest.mark.parametrize("content", ["", "---\n", "{apiVersion: v1, kind: List, items: []}"])
def test_files_without_any_object_are_no_empty_cluster(tmp_path, content):
    a_folder(tmp_path, {"west/all.yaml": content, "east/a.yaml": SERVICE})
    west, east = open_snapshot(tmp_path, ["west", "east"], last_names_first).backends.values()
    assert west.error == f"the files in {tmp_path}/west hold no object, expected what kubectl get prints"
    assert (west.cluster, east.error) == (None, "")
