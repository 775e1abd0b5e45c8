"""A malformed snapshot is a SnapshotError with a line for each problem, never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.snapshot.cluster import SnapshotCluster, open_snapshot
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.errors import SnapshotError
from tests.backends.folders import CLONE_SET, CLONE_SETS, a_folder, a_snapshot_cluster, last_names_first

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"


def problems(directory: Path, files: dict[str, str | bytes]) -> list[str]:
    """The problems of a folder with `files`, the folder itself left out."""
    found = a_snapshot_cluster(directory, files).problems()
    return [str(problem).removeprefix(f"{directory}/") for problem in sorted(found)]


SERVICE = "apiVersion: v1\nkind: Service\n"
COUNT = "expected a whole number of at least 0 and at most 2147483647"
NO_MANIFEST = "is no mapping, expected a manifest with apiVersion, kind and metadata"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("- a\n", f"1:1: {NO_MANIFEST}"),
        ("kind: Service\nmetadata: {name: a}\n", "1:1: apiVersion: is missing, expected a text"),
        (DEPLOYMENT.replace("Deployment", "deployment"), '2:7: kind: is "deployment", expected Deployment'),
        (SERVICE, "1:1: metadata: is missing, expected a mapping"),
        (f"{SERVICE}metadata:\n  labels: {{}}\n", "4:3: metadata.name: is missing, expected a text"),
        (f"{SERVICE}metadata: {{name: ''}}\n", '3:18: metadata.name: is "", expected a text that is not empty'),
        (f"{SERVICE}metadata: {{name: 7}}\n", "3:18: metadata.name: is 7, expected a text; put it in quotes"),
        ("apiVersion: v1\nkind: Role\nmetadata: {}\n", "3:11: metadata.name: is missing, expected a text"),
        (f"{DEPLOYMENT}spec:\n  replicas: three\n", f'5:13: spec.replicas: is "three", {COUNT}'),
        (
            f"{DEPLOYMENT}spec:\n  replicas: 0x{'f' * 3900}\n",
            "5:13: is a number of more than 64 bits, expected a smaller one, or a text in quotes",
        ),
        (f"{DEPLOYMENT}spec:\n  replicas: -1\n", f"5:13: spec.replicas: is -1, {COUNT}"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  creationTimestamp: yesterday\n",
            '5:22: metadata.creationTimestamp: is "yesterday", expected a time as in RFC 3339',
        ),
        (
            f"{SERVICE}metadata:\n  name: a\n  labels:\n    app.kubernetes.io/version: 3\n",
            '6:32: metadata.labels["app.kubernetes.io/version"]: is 3, expected a text; put it in quotes',
        ),
        (
            f"{DEPLOYMENT}spec: {{selector: {{matchExpressions: [{{key: a, operator: Near}}]}}}}\n",
            '4:57: spec.selector.matchExpressions[0].operator: is "Near", '
            "expected one of DoesNotExist, Exists, In, NotIn",
        ),
        (f"{SERVICE}metadata: {{name: a}}\nspec: [1]\n", "4:7: spec: is a list, expected a mapping"),
        (
            DEPLOYMENT.replace("Deployment", "ReplicaSet") + "spec: {template: {metadata: {labels: {a: 1}}}}\n",
            "4:42: spec.template.metadata.labels.a: is 1, expected a text; put it in quotes",  # which is kept whole
        ),
    ],
)
def test_one_problem(tmp_path, content, expected):
    assert problems(tmp_path, {"a.yaml": content}) == [f"a.yaml:{expected}"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1,\n "b" 2}', "2:6: Expecting ':' delimiter, expected JSON"),
        ("[1]", f"1:1: {NO_MANIFEST}"),
        (
            '{"apiVersion": "v1", "kind": "Service",\n "metadata": {"name": 7}}',
            "2:23: metadata.name: is 7, expected a text; put it in quotes",
        ),
        (
            '{"kind": "List", "items": [\n {"apiVersion": "v1", "kind": "Service"}]}',
            "2:2: metadata: is missing, expected a mapping",
        ),
    ],
)
def test_one_problem_in_json(tmp_path, content, expected):
    assert problems(tmp_path, {"a.json": content}) == [f"a.json:{expected}"]


def test_all_problems_at_once(tmp_path):
    files = {
        "a.yaml": """
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: web, labels: {a: 1, b: 2}}
            spec: {replicas: many}
            ---
            a: b: c
            ---
            apiVersion: v1
            kind: List
            items:
            - {apiVersion: v1, kind: Service, metadata: {name: good}}
            - apiVersion: v1
              kind: Service
              metadata: {name: bad, annotations: {c: false}}
            """,
        "b.json": "{",
    }
    assert problems(tmp_path, files) == [
        "a.yaml:4:35: metadata.labels.a: is 1, expected a text; put it in quotes",
        "a.yaml:4:41: metadata.labels.b: is 2, expected a text; put it in quotes",
        f'a.yaml:5:18: spec.replicas: is "many", {COUNT}',
        "a.yaml:7:5: is no YAML: mapping values are not allowed in this context",
        "a.yaml:15:42: metadata.annotations.c: is false, expected a text; put it in quotes",
        "b.json:1:2: Expecting property name enclosed in double quotes, expected JSON",
    ]


def test_an_object_in_two_files(tmp_path):
    old = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: web, namespace: default}\n"
    assert problems(tmp_path, {"a.yaml": DEPLOYMENT, "b.yaml": f"# old\n{old}"}) == [
        f"b.yaml:2:1: default/Deployment/web is also in {tmp_path}/a.yaml:1, expected it once"
    ]


def test_a_custom_resource_with_wrong_replicas(tmp_path):
    files = {"a.yaml": CLONE_SET.replace("replicas: 4", "replicas: four"), "z.yaml": CLONE_SETS}
    expected = ['a.yaml:5:18: spec.replicas: is "four", expected a whole number of at least 0']
    assert problems(tmp_path, files) == expected
    assert problems(tmp_path, {"b.yaml": DEPLOYMENT}) == expected


@pytest.mark.parametrize("spec", ["metadata: {name: web, labels: {a: 1}}", "spec: [1]\nmetadata: {name: web}"])
def test_a_custom_resource_of_another_shape(tmp_path, spec):
    manifest = f"apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\n{spec}\n"
    (problem,) = problems(tmp_path, {"a.yaml": manifest, "z.yaml": CLONE_SETS})
    assert problem.startswith("a.yaml:3:")


def test_a_secret_is_not_quoted(tmp_path):
    content = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {pin: 987654}, data: [c2VjcmV0]}"
    (data, pin) = problems(tmp_path, {"a.yaml": content})
    assert "987654" not in pin
    assert "c2VjcmV0" not in data


def test_what_cannot_be_read_is_told(tmp_path):
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere.yaml")
    assert problems(tmp_path, {}) == [
        "a.yaml:1:1: cannot be read: No such file or directory, expected a file that can be read"
    ]


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": 1e999}'], ids=["nested lists", "no number"])
def test_json_that_only_looks_like_it_is_refused(tmp_path, content):
    (problem,) = problems(tmp_path, {"a.json": content})
    assert problem.startswith("a.json:1:1: ")


@pytest.mark.parametrize("files", [{}, {"a.yaml": DEPLOYMENT}], ids=["empty", "manifests at the top"])
def test_no_snapshot(tmp_path, files):
    with pytest.raises(SnapshotError, match="holds no folder, expected one for each cluster, named like it"):
        open_snapshot(a_folder(tmp_path, files), ["east"], last_names_first)


def test_no_folder_for_one_cluster(tmp_path):
    cluster = SnapshotCluster(Store(tmp_path / "nowhere", "east"), victim_order=last_names_first)
    with pytest.raises(SnapshotError, match="nowhere: No such file or directory, expected a folder with manifests"):
        cluster.identity()


def test_a_key_that_is_no_text_is_a_problem_and_not_an_object_less():
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, 1: "x"}
    with pytest.raises(SnapshotError, match="is malformed"):
        MemoryCluster.of_manifests("a", [manifest], last_names_first)
