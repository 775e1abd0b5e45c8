"""What a write leaves of a file: every document but the one in which an object changed; of a List its objects."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.backends.protocols import CONFIG_MAPS, SERVICES
from reconciler.backends.snapshot import manifest_files as files
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.errors import ClusterError, RefusedError
from reconciler.model import ObjectRef, Write
from reconciler.yaml.reader import Documents
from tests.backends.folders import BUILT_IN, a_folder, a_manifest, a_snapshot_cluster, patch
from tests.downscale.world import controllers_order

ANNOTATE = ("add", "/metadata/annotations", {"idled-at": "2026-11-20T15:41:23Z", "at": "22:30", "on": "on"})


def ref(name: str = "web", kind: str = "Service", namespace: str = "shop", group: str = "") -> ObjectRef:
    return ObjectRef("east", namespace, kind, name, group)


def annotate(cluster: SnapshotCluster, name: str = "web") -> None:
    cluster.write(patch(ref(name), ANNOTATE, version="v1"))


def delete(cluster: SnapshotCluster, name: str = "web") -> None:
    cluster.write(Write("delete", ref(name), "v1"))


def a_service(name: str) -> str:
    return f"apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}  # {name}\n"


ANNOTATED = """\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  annotations:
    idled-at: "2026-11-20T15:41:23Z"
    at: "22:30"
    "on": "on"
"""
BEFORE = f"# The shop.\n---\n{a_service('a')}# after a\n--- # web follows\n"
AFTER = f"# before b\n---\n# b\n{a_service('b')}\n"


def in_list(name: str) -> str:
    return a_service(name).replace("\n", "\n  ").removesuffix("  ")


def a_list(*items: str) -> str:
    return "kind: List\nitems:\n" + "".join(f"- {item}" for item in items) + "apiVersion: v1\n"


def written(name: str) -> str:
    """A service of a List in which another object changed."""
    return f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: shop\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(a_service("web"), ANNOTATED, id="alone"),
        pytest.param(
            BEFORE + a_service("web") + AFTER,
            BEFORE.replace(" # web follows", "") + ANNOTATED + AFTER.removeprefix("# before b\n"),
            id="between others",
        ),
        pytest.param("---\n" + a_service("web").rstrip("\n"), "---\n" + ANNOTATED, id="no line break at the end"),
        pytest.param("# c\n\n" + a_service("web") + "...\n# d\n", "# c\n\n" + ANNOTATED, id="an explicit end"),
        pytest.param(
            "# c\n--- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}} # d\n",
            "# c\n---\n" + ANNOTATED,
            id="on the line of the ---",
        ),
        pytest.param("  " + in_list("web"), ANNOTATED, id="indented"),
        pytest.param(
            a_service("a") + "---\n" + a_list(in_list("b"), in_list("web"), in_list("c")),
            "---\n".join((a_service("a"), written("b"), ANNOTATED, written("c"))),
            id="in a list",
        ),
        pytest.param(
            "# c\n" + a_list(in_list("web"), in_list("b")) + "---\n" + a_service("c"),
            "# c\n" + "---\n".join((ANNOTATED, written("b"), a_service("c"))),
            id="in a list above others",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ServiceList\nitems:\n"
            "- metadata: {name: web, namespace: shop}\n- metadata: {name: b, namespace: shop}\n",
            "---\n".join((ANNOTATED, written("b"))),
            id="in a list of one kind",
        ),
        pytest.param(
            a_service("web") + "---\n# nothing\n--- # b\n" + a_service("b"),
            ANNOTATED + "--- # b\n" + a_service("b"),
            id="before a document of nothing",
        ),
        pytest.param(
            a_service("web") + "---\nb: |\n  ---\n  # b\nkind: A\napiVersion: v1\nmetadata: {name: b}",
            ANNOTATED + "---\nb: |\n  ---\n  # b\nkind: A\napiVersion: v1\nmetadata: {name: b}",
            id="beside a text with ---",
        ),
    ],
)
def test_only_the_changed_document_is_written_anew(tmp_path: Path, before: str, after: str) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": before.encode()})
    annotate(cluster)
    assert (tmp_path / "a.yaml").read_text() == after
    assert [str(problem) for problem in cluster.problems()] == []
    again = a_snapshot_cluster(tmp_path, {})
    assert again.get(SERVICES, "shop", "web").annotations["at"] == "22:30"
    assert again.list(SERVICES) == cluster.list(SERVICES)


KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            BEFORE + a_service("web") + AFTER,
            BEFORE.removesuffix("--- # web follows\n") + AFTER.removeprefix("# before b\n"),
            id="a document",
        ),
        pytest.param(a_service("web") + "---\n" + a_service("b"), "---\n" + a_service("b"), id="the first document"),
        pytest.param(a_service("a") + "---\n" + a_service("web"), a_service("a"), id="the last document"),
        pytest.param(
            a_list(in_list("a"), in_list("web")),
            written("a"),
            id="a list",
        ),
        pytest.param(
            a_list(in_list("web")) + "---\n" + a_service("b"), "---\n" + a_service("b"), id="the only one of a list"
        ),
        pytest.param(a_service("web") + "---\n" + KUSTOMIZATION, "---\n" + KUSTOMIZATION, id="beside no manifest"),
    ],
)
def test_only_the_deleted_object_goes(tmp_path: Path, before: str, after: str) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": before.encode()})
    left = [found for found in cluster.list(SERVICES) if found.ref.name != "web"]
    delete(cluster)
    assert (tmp_path / "a.yaml").read_text() == after
    assert list(cluster.list(SERVICES)) == left
    assert list(a_snapshot_cluster(tmp_path, {}).list(SERVICES)) == left


def test_a_file_goes_with_its_last_object(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": a_service("web"), "b.json": json.dumps(a_manifest())})
    delete(cluster)
    cluster.write(Write("delete", ref("web", "Deployment", group="apps"), "apps/v1"))
    assert os.listdir(tmp_path) == []


def test_objects_that_anchors_tie_together(tmp_path: Path) -> None:
    manifest = """
        kind: List
        apiVersion: v1
        items:
        - apiVersion: v1
          kind: Service
          metadata: {name: web, namespace: shop, labels: &labels {app: web}}
        - apiVersion: v1
          kind: Service
          metadata: {name: b, namespace: shop, labels: *labels}
        - {apiVersion: v1, kind: Service, metadata: {name: c, namespace: shop}}
        """
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": manifest})
    annotate(cluster)
    delete(cluster, "c")
    again = a_snapshot_cluster(tmp_path, {})
    for seen in (cluster, again):
        assert [(found.ref.name, found.labels, len(found.annotations)) for found in seen.list(SERVICES)] == [
            ("b", {"app": "web"}, 0),
            ("web", {"app": "web"}, 3),
        ]


def test_directives_that_a_change_would_lose_are_refused(tmp_path: Path) -> None:
    text = "%TAG !y! tag:yaml.org,2002:\n---\n" + a_service("web").replace("name: web", "name: !y!str web")
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": text})
    with pytest.raises(RefusedError, match="YAML directives"):
        annotate(cluster)
    assert (tmp_path / "a.yaml").read_text() == text


@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
def test_json_stays_json_in_its_own_layout(tmp_path: Path, indent: int | str | None) -> None:
    services = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"}} for name in "abc"
    ]
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": services}
    separators = None if indent else (",", ":")
    cluster = a_snapshot_cluster(tmp_path, {"a.json": json.dumps(whole, indent=indent, separators=separators)})
    annotate(cluster, "b")
    services[1]["metadata"]["annotations"] = ANNOTATE[2]  # type: ignore[index]
    assert (tmp_path / "a.json").read_text() == json.dumps(whole, indent=indent, separators=separators)
    for name in "acb":
        delete(cluster, name)
        assert len(a_snapshot_cluster(tmp_path, {}).list(SERVICES)) == len(cluster.list(SERVICES))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_what_is_encoded_and_read_grows_with_the_changes_to_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After the first change of a List of 1,000 objects, 100 more cost ten times what 10 cost, not the List each."""
    whole = {"apiVersion": "v1", "kind": "List", "items": [a_manifest(f"w{n:04}") for n in range(1000)]}
    cluster = a_snapshot_cluster(tmp_path, {name: json.dumps(whole, indent=4)})
    handled = 0

    def counted(call: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        def counting(*args: Any) -> Any:
            nonlocal handled
            result = call(*args)
            handled += size(args, result)
            return result

        return counting

    for call, size in (
        ("block_text", lambda _, text: len(text)),
        ("_json_text", lambda _, text: len(text)),
        ("_documents", lambda args, _: len(args[1])),
    ):
        monkeypatch.setattr(files, call, counted(getattr(files, call), size))

    def handled_for(numbers: Iterable[int]) -> int:
        nonlocal handled
        handled = 0
        for number in numbers:
            scale = ("replace", "/spec/replicas", 2)
            cluster.write(patch(ref(f"w{number:04}", "Deployment", group="apps"), scale))
        return handled

    first, ten, hundred = handled_for([0]), handled_for(range(1, 11)), handled_for(range(11, 111))
    assert first > 1000 * 100
    assert 0 < ten < first / 10
    assert hundred == 10 * ten
    replicas = [found.spec_replicas for found in a_snapshot_cluster(tmp_path, {}).list(BUILT_IN["Deployment"])]
    assert replicas == [2] * 111 + [3] * 889


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_copy_in_memory_reads_a_list_once_however_many_of_its_objects_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": [a_manifest(f"w{n}") for n in range(20)]}
    copy = MemoryCluster.copy_of(a_snapshot_cluster(tmp_path, {name: json.dumps(whole)}), controllers_order)
    read: list[str] = []
    plain = files._documents

    def counted(path: str, text: str) -> Documents:
        read.append(path)
        return plain(path, text)

    monkeypatch.setattr(files, "_documents", counted)
    for number in range(20):
        copy.write(patch(ref(f"w{number}", "Deployment", group="apps"), ("replace", "/spec/replicas", 2)))
    assert len(read) == 1
    assert [one.spec_replicas for one in copy.list(BUILT_IN["Deployment"])] == [2] * 20


def test_a_json_list_of_one_kind_stays_one(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [{"metadata": {"name": name, "namespace": "shop"}} for name in "ab"]
    whole = {"apiVersion": "v1", "items": items, "kind": "ServiceList", "metadata": {"resourceVersion": ""}}
    cluster = a_snapshot_cluster(tmp_path, {"a.json": json.dumps(whole, indent=2) + "\n"})
    for name in "ab":
        annotate(cluster, name)
    own = {"apiVersion": "v1", "kind": "Service"}
    changed = [{**own, "metadata": {**item["metadata"], "annotations": ANNOTATE[2]}} for item in items]
    assert (tmp_path / "a.json").read_text() == json.dumps({**whole, "items": changed}, indent=2) + "\n"


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")],
)
def test_encoding_and_line_breaks_stay(tmp_path: Path, mark: bytes, codec: str) -> None:
    text = (a_service("é") + "---\n" + a_service("web")).replace("\n", "\r\n")
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": mark + text.encode(codec)})
    annotate(cluster)
    expected = (a_service("é") + "---\n" + ANNOTATED).replace("\n", "\r\n")
    assert (tmp_path / "a.yaml").read_bytes() == mark + expected.encode(codec)


def test_the_mode_of_a_file_stays_and_links_stay_links(tmp_path: Path) -> None:
    a_folder(tmp_path, {".far/a.yaml": a_service("web")})
    (tmp_path / ".far" / "a.yaml").chmod(0o640)
    cluster = a_snapshot_cluster(tmp_path, {})
    (tmp_path / "a.yaml").symlink_to(".far/a.yaml")
    annotate(cluster)
    assert (tmp_path / "a.yaml").is_symlink()
    assert (tmp_path / ".far" / "a.yaml").read_text() == ANNOTATED
    assert (tmp_path / ".far" / "a.yaml").stat().st_mode & 0o777 == 0o640


def test_what_was_not_stated_stays_unstated(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": "{apiVersion: v1, kind: Service, metadata: {name: web}}"})
    found = cluster.get(SERVICES, "default", "web")
    cluster.write(patch(found.ref, ("test", "/metadata/uid", found.uid), ANNOTATE, uid=found.uid, version="v1"))
    assert list(yaml.safe_load((tmp_path / "a.yaml").read_text())["metadata"]) == ["name", "annotations"]
    assert cluster.get(SERVICES, "default", "web").uid == found.uid


@pytest.mark.parametrize(
    ("given", "file"),
    [
        pytest.param(ref("web", "ReplicaSet", "shop", "apps"), "shop-replicaset-web.yaml", id="lower case"),
        pytest.param(ref("a:b/../c", "ReplicaSet", "shop", "apps"), "shop-replicaset-a-b-..-c.yaml", id="no path"),
    ],
)
def test_the_file_of_a_created_object(tmp_path: Path, given: ObjectRef, file: str) -> None:
    cluster = a_snapshot_cluster(tmp_path, {})
    cluster.write(Write("create", given, "apps/v1", manifest={"spec": {"replicas": 2}}))
    assert os.listdir(tmp_path) == [file]
    assert yaml.safe_load((tmp_path / file).read_text()) == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": given.name, "namespace": "shop"},
        "spec": {"replicas": 2},
    }
    assert cluster.get(BUILT_IN["ReplicaSet"], "shop", given.name).ready_replicas == 2


def test_two_objects_that_come_to_one_file_share_it(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {})
    for name in ("a:b", "a/b", "a-b"):
        cluster.write(Write("create", ref(name, "ConfigMap"), "v1", manifest={"data": {"name": name}}))
    assert os.listdir(tmp_path) == ["shop-configmap-a-b.yaml"]
    for seen in (cluster, a_snapshot_cluster(tmp_path, {})):
        assert {found.ref.name: found.data["name"] for found in seen.list(CONFIG_MAPS)} == {
            name: name for name in ("a:b", "a/b", "a-b")
        }


def test_events_are_added_to_the_file_of_their_namespace_and_counted(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {})
    manifest = {"reason": "Idled", "count": 1, "involvedObject": {"kind": "Deployment", "name": "web"}}
    for name in ("web.1", "web.2", "web.1"):
        cluster.write(Write("event", ref(name, "Event"), "v1", manifest=manifest | {"metadata": {"name": name}}))
    cluster.write(Write("event", ref("", "Event"), "v1", manifest=manifest | {"metadata": {}}))
    assert os.listdir(tmp_path) == ["shop-events.yaml"]
    events = list(yaml.safe_load_all((tmp_path / "shop-events.yaml").read_text()))
    named = [(event["metadata"]["name"], event["count"]) for event in events]
    assert named[:2] == [("web.1", 2), ("web.2", 1)]
    assert named[2][0].startswith("web.")
    assert len(named) == 3


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(("replace", "/metadata/name", "other"), id="the name"),
        pytest.param(("replace", "/kind", "Pod"), id="the kind"),
        pytest.param(("remove", "/metadata"), id="the metadata"),
        pytest.param(("replace", "", []), id="all of it"),
        pytest.param(("add", "/metadata/labels", {"a": 1}), id="a number as label"),
        pytest.param(("add", "/metadata/labels", {"a": "\ud800"}), id="no text"),
        pytest.param(("add", "/spec", {"a": float("nan")}), id="no number"),
    ],
)
def test_what_would_be_no_such_object_is_refused(tmp_path: Path, operation: Any) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": a_service("web")})
    with pytest.raises(RefusedError):
        cluster.write(patch(ref(), operation, version="v1"))
    assert (tmp_path / "a.yaml").read_text() == a_service("web")


def test_a_secret_is_never_written(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(
        tmp_path,
        {"a.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: shop}, stringData: {pin: s3cr3t}}"},
    )
    with pytest.raises(RefusedError) as raised:
        cluster.write(patch(ref("a", "Secret"), ("test", "/stringData/pin", "x"), version="v1"))
    assert "s3cr3t" not in str(raised.value)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": a_service("web")})
    (tmp_path / ".a.yaml.reconciler-new").mkdir()
    with pytest.raises(ClusterError, match="cannot be written: Is a directory, expected a folder to write to"):
        annotate(cluster)
    assert (tmp_path / "a.yaml").read_text() == a_service("web")
    assert cluster.get(SERVICES, "shop", "web").has_annotations is False


names = st.sampled_from("abcdef")


@settings(max_examples=60)
@given(
    layout=st.permutations("abcdef"),
    listed=st.integers(0, 6),
    flow=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from(["annotate", "delete", "create"]), names), max_size=12),
)
def test_memory_and_files_agree_after_any_writes(
    tmp_path_factory: pytest.TempPathFactory, layout: list[str], listed: int, flow: bool, steps: list[tuple[str, str]]
) -> None:
    """What a cluster says after its own writes is what a fresh one reads, and other documents keep their text."""
    directory = tmp_path_factory.mktemp("any")
    if flow:
        inside = ", ".join(
            f"{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}}}"
            for name in layout[:listed]
        )
        text = f"kind: List\napiVersion: v1\nitems: [{inside}]\n"
    else:
        text = "kind: List\napiVersion: v1\nitems:\n" + "".join(f"- {in_list(name)}" for name in layout[:listed])
    text += "".join(f"---\n{a_service(name)}" for name in layout[listed:])
    cluster = a_snapshot_cluster(directory, {"a.yaml": text.encode()})
    there = set("abcdef")
    marked: set[str] = set()
    for verb, name in steps:
        if verb == "create" and name not in there:
            cluster.write(Write("create", ref(name), "v1", manifest={"spec": {"type": "ClusterIP"}}))
            there.add(name)
        if verb == "annotate" and name in there:
            annotate(cluster, name)
            marked.add(name)
        if verb == "delete" and name in there:
            delete(cluster, name)
            there.discard(name)
            marked.discard(name)
    fresh = a_snapshot_cluster(directory, {}).list(SERVICES)
    assert fresh == cluster.list(SERVICES)
    assert {found.ref.name for found in fresh} == there
    assert {found.ref.name for found in fresh if found.has_annotations} == marked
    touched = {name for _, name in steps} | set(layout[:listed])
    left = (directory / "a.yaml").read_text() if (directory / "a.yaml").exists() else ""
    assert all(f"{{name: {name}, namespace: shop}}" in left for name in set("abcdef") - touched)
