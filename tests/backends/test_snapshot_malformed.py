"""A malformed snapshot is a SnapshotError with a line for each problem, never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.protocols import SERVICES
from reconciler.backends.snapshot.cluster import SnapshotCluster, open_snapshot
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.backends.snapshot.object_store import Store
from reconciler.errors import SnapshotError
from tests.backends.clone_sets import CLONE_SET, CLONE_SETS
from tests.backends.folders import a_folder, a_snapshot_cluster, last_names_first

DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"


def problems(directory: Path, files: dict[str, str | bytes]) -> list[str]:
    """The problems of a folder with `files`, the folder itself left out."""
    found = a_snapshot_cluster(directory, files).problems()
    return [str(problem).removeprefix(f"{directory}/") for problem in sorted(found)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            "a: b: c\n", "a.yaml:1:5: is no YAML: mapping values are not allowed in this context", id="no YAML"
        ),
        pytest.param(
            "- a\n", "a.yaml:1:1: is no mapping, expected a manifest with apiVersion, kind and metadata", id="a list"
        ),
        pytest.param(
            "kind: Service\nmetadata: {name: a}\n",
            "a.yaml:1:1: apiVersion: is missing, expected a text",
            id="no apiVersion",
        ),
        pytest.param(
            "apiVersion: v1\nmetadata: {name: a}\n", "a.yaml:1:1: kind: is missing, expected a text", id="no kind"
        ),
        pytest.param(
            DEPLOYMENT.replace("Deployment", "deployment"),
            'a.yaml:2:7: kind: is "deployment", expected Deployment',
            id="a kind in lower case",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\n", "a.yaml:1:1: metadata: is missing, expected a mapping", id="no metadata"
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\nmetadata:\n  labels: {}\n",
            "a.yaml:4:3: metadata.name: is missing, expected a text",
            id="no name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: ''\n",
            'a.yaml:4:9: metadata.name: is "", expected a text that is not empty',
            id="empty name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: 7\n",
            "a.yaml:4:9: metadata.name: is 7, expected a text; put it in quotes",
            id="a number as name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Role\nmetadata: {}\n",
            "a.yaml:3:11: metadata.name: is missing, expected a text",
            id="no name in a kind that is not read",
        ),
        pytest.param(
            DEPLOYMENT + "spec:\n  replicas: three\n",
            'a.yaml:5:13: spec.replicas: is "three", expected a whole number of at least 0 and at most 2147483647',
            id="words for a number",
        ),
        pytest.param(
            DEPLOYMENT + "spec:\n  replicas: 0x" + "f" * 3900 + "\n",
            "a.yaml:5:13: is a number of more than 64 bits, expected a smaller one, or a text in quotes",
            id="too many digits in base 16",
        ),
        pytest.param(
            DEPLOYMENT + "spec:\n  replicas: -1\n",
            "a.yaml:5:13: spec.replicas: is -1, expected a whole number of at least 0 and at most 2147483647",
            id="below zero",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  creationTimestamp: yesterday\n",
            'a.yaml:5:22: metadata.creationTimestamp: is "yesterday", expected a time as in RFC 3339',
            id="no time",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  labels:\n    app.kubernetes.io/version: 3\n",
            'a.yaml:6:32: metadata.labels["app.kubernetes.io/version"]: is 3, expected a text; put it in quotes',
            id="a number as label",
        ),
        pytest.param(
            DEPLOYMENT + "spec: {selector: {matchExpressions: [{key: a, operator: Near}]}}\n",
            'a.yaml:4:57: spec.selector.matchExpressions[0].operator: is "Near", '
            "expected one of DoesNotExist, Exists, In, NotIn",
            id="no operator",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: [1]\n",
            "a.yaml:4:7: spec: is a list, expected a mapping",
            id="a list for a mapping",
        ),
        pytest.param(
            DEPLOYMENT.replace("Deployment", "ReplicaSet") + "spec: {template: {metadata: {labels: {a: 1}}}}\n",
            "a.yaml:4:42: spec.template.metadata.labels.a: is 1, expected a text; put it in quotes",
            id="inside a template kept whole",
        ),
    ],
)
def test_one_problem(tmp_path: Path, content: str | bytes, expected: str) -> None:
    assert problems(tmp_path, {"a.yaml": content}) == [expected]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param('{"a": 1,\n "b" 2}', "a.json:2:6: Expecting ':' delimiter, expected JSON", id="no JSON"),
        pytest.param(
            "[1]", "a.json:1:1: is no mapping, expected a manifest with apiVersion, kind and metadata", id="a list"
        ),
        pytest.param(
            '{"apiVersion": "v1", "kind": "Service",\n "metadata": {"name": 7}}',
            "a.json:2:23: metadata.name: is 7, expected a text; put it in quotes",
            id="a number as name",
        ),
        pytest.param(
            '{"kind": "List", "items": [\n {"apiVersion": "v1", "kind": "Service"}]}',
            "a.json:2:2: metadata: is missing, expected a mapping",
            id="in a list",
        ),
    ],
)
def test_one_problem_in_json(tmp_path: Path, content: str, expected: str) -> None:
    assert problems(tmp_path, {"a.json": content}) == [expected]


def test_all_problems_at_once(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
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
    limits = "expected a whole number of at least 0 and at most 2147483647"
    assert problems(tmp_path, files) == [
        "a.yaml:4:35: metadata.labels.a: is 1, expected a text; put it in quotes",
        "a.yaml:4:41: metadata.labels.b: is 2, expected a text; put it in quotes",
        f'a.yaml:5:18: spec.replicas: is "many", {limits}',
        "a.yaml:7:5: is no YAML: mapping values are not allowed in this context",
        "a.yaml:15:42: metadata.annotations.c: is false, expected a text; put it in quotes",
        "b.json:1:2: Expecting property name enclosed in double quotes, expected JSON",
    ]


def test_an_object_in_two_files(tmp_path: Path) -> None:
    old = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: web, namespace: default}\n"
    assert problems(tmp_path, {"a.yaml": DEPLOYMENT, "b.yaml": f"# old\n{old}"}) == [
        f"b.yaml:2:1: default/Deployment/web is also in {tmp_path}/a.yaml:1, expected it once"
    ]


def test_a_custom_resource_with_wrong_replicas(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.yaml": CLONE_SET.replace("replicas: 4", "replicas: four"), "z.yaml": CLONE_SETS}
    expected = ['a.yaml:5:18: spec.replicas: is "four", expected a whole number of at least 0']
    assert problems(tmp_path, files) == expected
    assert problems(tmp_path, {"b.yaml": DEPLOYMENT}) == expected


@pytest.mark.parametrize("spec", ["metadata: {name: web, labels: {a: 1}}", "spec: [1]\nmetadata: {name: web}"])
def test_a_custom_resource_of_another_shape(tmp_path: Path, spec: str) -> None:
    manifest = f"apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\n{spec}\n"
    (problem,) = problems(tmp_path, {"a.yaml": manifest, "z.yaml": CLONE_SETS})
    assert problem.startswith("a.yaml:3:")


def test_a_secret_is_not_quoted(tmp_path: Path) -> None:
    content = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {pin: 987654}, data: [c2VjcmV0]}"
    (data, pin) = problems(tmp_path, {"a.yaml": content})
    assert "987654" not in pin
    assert "c2VjcmV0" not in data


def test_the_problems_go_when_they_are_mended(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": "a: b: c"})
    with pytest.raises(SnapshotError):
        cluster.list(SERVICES)
    a_folder(tmp_path, {"a.yaml": "{apiVersion: v1, kind: Service, metadata: {name: web}}"})
    assert len(cluster.list(SERVICES)) == 1


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere.yaml")
    assert problems(tmp_path, {}) == [
        "a.yaml:1:1: cannot be read: No such file or directory, expected a file that can be read"
    ]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("[" * 100_000, id="nested lists"),
        pytest.param('{"a": 1e999}', id="no number"),
    ],
)
def test_json_that_only_looks_like_it_is_refused(tmp_path: Path, content: str) -> None:
    (problem,) = problems(tmp_path, {"a.json": content})
    assert problem.startswith("a.json:1:1: ")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param({}, "holds no folder, expected one for each cluster, named like it", id="empty"),
        pytest.param(
            {"a.yaml": DEPLOYMENT},
            "holds no folder, expected one for each cluster, named like it",
            id="manifests at the top",
        ),
    ],
)
def test_no_snapshot(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        open_snapshot(a_folder(tmp_path, files), ["east"], last_names_first)


def test_no_folder_for_one_cluster(tmp_path: Path) -> None:
    cluster = SnapshotCluster(Store(tmp_path / "nowhere", "east"), victim_order=last_names_first)
    with pytest.raises(SnapshotError, match="nowhere: No such file or directory, expected a folder with manifests"):
        cluster.identity()


def test_a_key_that_is_no_text_is_a_problem_and_not_an_object_less() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, 1: "x"}
    with pytest.raises(SnapshotError, match="is malformed"):
        MemoryCluster.of_manifests("a", [manifest], last_names_first)
