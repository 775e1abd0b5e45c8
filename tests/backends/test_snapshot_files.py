"""What a write leaves of the files: the object whole in a file of its own, and the others as they were."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.protocols import CONFIG_MAPS, SERVICES
from reconciler.backends.snapshot import file_content as files
from reconciler.backends.snapshot import manifest_store
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.errors import ClusterError, RefusedError, SnapshotError
from reconciler.model import ObjectRef, Write
from reconciler.yaml import writer
from tests.backends.folders import BUILT_IN, a_folder, a_manifest, a_snapshot_cluster, manifests_in, patch
from tests.decide.downscale.world import controllers_order
from tests.laws import tries

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
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"


def in_list(name: str) -> str:
    return a_service(name).replace("\n", "\n  ").removesuffix("  ")


def a_list(*items: str) -> str:
    return "kind: List\nitems:\n" + "".join(f"- {item}" for item in items) + "apiVersion: v1\n"


def own(name: str) -> str:
    """A Service in the file that it gets when another object of its file changes."""
    return f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: shop\n"


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(a_service("web").encode(), id="with comments"),
        pytest.param(
            b"--- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}} # d", id="flow style"
        ),
        pytest.param(f"# c\n\n{a_service('web')}...\n# d\n".encode(), id="an explicit end"),
        pytest.param(b"\xef\xbb\xbf" + a_service("web").replace("\n", "\r\n").encode(), id="a byte order mark, CRLF"),
        pytest.param(b"\xff\xfe" + a_service("web").encode("utf-16-le"), id="UTF-16"),
        pytest.param(
            b"%TAG !y! tag:yaml.org,2002:\n---\n" + a_service("web").replace(": web", ": !y!str web").encode(),
            id="a directive",
        ),
    ],
)
def test_the_file_of_one_object_is_written_whole(tmp_path, before):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": before, "b.yaml": a_service("b")})
    annotate(cluster)
    assert texts(tmp_path) == {"a.yaml": ANNOTATED, "b.yaml": a_service("b")}
    assert a_snapshot_cluster(tmp_path, {}).list(SERVICES) == cluster.list(SERVICES)


def test_the_json_file_of_one_object_stays_json(tmp_path):
    manifest = a_manifest()
    cluster = a_snapshot_cluster(tmp_path, {"a.json": json.dumps(manifest)})
    cluster.write(patch(ref("web", "Deployment", group="apps"), ("replace", "/spec/replicas", 1)))
    assert json.loads((tmp_path / "a.json").read_text()) == {**manifest, "spec": {**manifest["spec"], "replicas": 1}}
    assert os.listdir(tmp_path) == ["a.json"]


SHARED = [
    pytest.param("a.yaml", f"# c\n{a_service('web')}--- # b\n{a_service('b')}", id="two documents"),
    pytest.param("a.yaml", a_list(in_list("web"), in_list("b")), id="a List"),
    pytest.param("a.yaml", a_list(in_list("b")) + "---\n" + a_service("web"), id="a List beside a document"),
    pytest.param(
        "a.yaml",
        "apiVersion: v1\nkind: ServiceList\nitems:\n"
        "- metadata: {name: web, namespace: shop}\n- metadata: {name: b, namespace: shop}\n",
        id="a list of one kind",
    ),
    pytest.param(
        "a.json",
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"}}
                    for name in ("b", "web")
                ],
            }
        ),
        id="a List in JSON",
    ),
    pytest.param("shop-service-web.yaml", f"{a_service('web')}---\n{a_service('b')}", id="in a file named like one"),
]


@pytest.mark.parametrize(("name", "before"), SHARED)
@pytest.mark.parametrize("change", [annotate, delete], ids=["changed", "deleted"])
def test_a_file_with_several_objects_is_split_before_one_of_them_changes(tmp_path, name, before, change):
    cluster = a_snapshot_cluster(tmp_path, {name: before})
    (other,) = (found for found in cluster.list(SERVICES) if found.ref.name == "b")
    change(cluster)
    found = texts(tmp_path)
    assert found.pop("shop-service-b.yaml") == own("b")
    assert list(found.values()) == ([ANNOTATED] if change is annotate else [])
    assert name not in found
    again = a_snapshot_cluster(tmp_path, {})
    assert cluster.list(SERVICES) == again.list(SERVICES)
    assert other in again.list(SERVICES)


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        pytest.param("a.yaml", f"{a_service('web')}---\n{KUSTOMIZATION}", KUSTOMIZATION, id="YAML"),
        pytest.param(
            "a.yaml",
            f"{KUSTOMIZATION}---\n{a_service('web')}---\n{KUSTOMIZATION}",
            f"{KUSTOMIZATION}---\n{KUSTOMIZATION}",
            id="two of them",
        ),
        pytest.param(
            "shop-service-web.yaml", f"{a_service('web')}---\n{KUSTOMIZATION}", KUSTOMIZATION, id="named like it"
        ),
        pytest.param(
            "shop-service-web.yaml", a_list(in_list("web")), "", id="none, a List of one that is named like it"
        ),
    ],
)
def test_what_is_for_no_cluster_stays_in_its_file(tmp_path, name, text, left):
    cluster = a_snapshot_cluster(tmp_path, {name: text})
    annotate(cluster)
    found = texts(tmp_path)
    assert (found.pop(name, ""), [*found.values()]) == (left, [ANNOTATED])


def test_of_a_json_list_what_is_for_no_cluster_stays_one(tmp_path):
    items = [yaml.safe_load(one) for one in (KUSTOMIZATION, KUSTOMIZATION, a_service("web"))]
    cluster = a_snapshot_cluster(tmp_path, {"a.json": json.dumps({"kind": "List", "apiVersion": "v1", "items": items})})
    annotate(cluster)
    assert json.loads((tmp_path / "a.json").read_text())["items"] == items[:2]
    assert a_snapshot_cluster(tmp_path, {}).list(SERVICES) == cluster.list(SERVICES)


def test_a_file_that_could_not_be_split_whole_is_split_before_the_next_write(tmp_path, monkeypatch):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": f"{a_service('web')}---\n{a_service('b')}"})
    begun = cluster.list(SERVICES)
    with monkeypatch.context() as patched:
        patched.setattr(manifest_store, "remove_file", lambda *_: refuse())
        for _ in range(2):
            with pytest.raises(ClusterError, match="no space left"):
                annotate(cluster)
            assert a_snapshot_cluster(tmp_path, {}).list(SERVICES) == begun
    annotate(cluster)
    assert texts(tmp_path) == {"shop-service-web.yaml": ANNOTATED, "shop-service-b.yaml": own("b")}


def refuse() -> None:
    raise ClusterError("no space left")


def test_two_objects_of_a_file_that_would_be_called_alike_get_a_file_each(tmp_path):
    other = a_service("web").replace("apiVersion: v1", "apiVersion: serving.knative.dev/v1")
    annotate(a_snapshot_cluster(tmp_path, {"a.yaml": f"{a_service('web')}---\n{other}"}))
    assert {text.splitlines()[0] for text in texts(tmp_path).values()} == {
        "apiVersion: v1",
        "apiVersion: serving.knative.dev/v1",
    }


@pytest.mark.parametrize("name", ["0.yaml", "b.yaml", "shop-service-b.yaml"])
@pytest.mark.parametrize("changed", ["b", "web"])
def test_an_object_that_is_the_same_in_two_files_loses_its_place_in_the_shared_one(tmp_path, name, changed):
    """So it is where a split was interrupted. One that differs is an error, and nothing is written."""
    files = {"a.yaml": a_list(in_list("web"), in_list("b")), name: own("b")}
    cluster = a_snapshot_cluster(tmp_path, files)
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["b", "web"]
    annotate(cluster, changed)
    assert sorted(os.listdir(tmp_path)) == [name, "shop-service-web.yaml"]
    assert a_snapshot_cluster(tmp_path, {}).list(SERVICES) == cluster.list(SERVICES)
    other = a_snapshot_cluster(tmp_path / "other", files | {name: own("b") + "  labels: {a: b}\n"})
    with pytest.raises(SnapshotError, match=r"shop/Service/b is also in .*, expected it once"):
        annotate(other)


def test_a_file_goes_with_its_last_object(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": a_service("web"), "b.json": json.dumps(a_manifest())})
    delete(cluster)
    cluster.write(Write("delete", ref("web", "Deployment", group="apps"), "apps/v1"))
    assert os.listdir(tmp_path) == []


def test_objects_that_anchors_tie_together(tmp_path):
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


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was encoded and read: by which function, how many characters."""
    found: list[tuple[str, int]] = []

    def count(module: ModuleType, name: str, text_of: Callable[..., str]) -> None:
        plain = getattr(module, name)

        def counting(*args: Any) -> Any:
            result = plain(*args)
            found.append((name, len(text_of(args, result))))
            return result

        monkeypatch.setattr(module, name, counting)

    count(writer, "block_text", lambda _, text: text)
    count(files, "_documents", lambda args, _: args[1])
    return found


def deployments(count: int, **options: Any) -> str:
    items = [a_manifest(f"w{number:04}") for number in range(count)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, **options)


def scale(cluster: Any, number: int) -> None:
    cluster.write(patch(ref(f"w{number:04}", "Deployment", group="apps"), ("replace", "/spec/replicas", 2)))


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_what_is_encoded_and_read_grows_with_the_changes_to_a_list(tmp_path, handled, name):
    """After the first change of a List of 150 objects, 50 more cost five times what 10 cost, not the List each."""
    cluster = a_snapshot_cluster(tmp_path, {name: deployments(150, indent=4)})

    def handled_for(numbers):
        handled.clear()
        for number in numbers:
            scale(cluster, number)
        return sum(size for _, size in handled)

    first, ten, fifty = handled_for([0]), handled_for(range(1, 11)), handled_for(range(11, 61))
    assert first > 150 * 100
    assert 0 < ten < first / 5
    assert fifty == 5 * ten
    replicas = [found.spec_replicas for found in a_snapshot_cluster(tmp_path, {}).list(BUILT_IN["Deployment"])]
    assert replicas == [2] * 61 + [3] * 89


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_copy_in_memory_reads_a_list_once_however_many_of_its_objects_change(tmp_path, handled, name):
    copy = MemoryCluster.copy_of(a_snapshot_cluster(tmp_path, {name: deployments(20)}), controllers_order)
    handled.clear()
    for number in range(20):
        scale(copy, number)
    assert [call for call, _ in handled].count("_documents") == 1
    assert [one.spec_replicas for one in copy.list(BUILT_IN["Deployment"])] == [2] * 20


def test_the_mode_of_a_file_stays_and_links_stay_links(tmp_path):
    a_folder(tmp_path, {".far/a.yaml": a_service("web")})
    (tmp_path / ".far" / "a.yaml").chmod(0o640)
    cluster = a_snapshot_cluster(tmp_path, {})
    (tmp_path / "a.yaml").symlink_to(".far/a.yaml")
    annotate(cluster)
    assert (tmp_path / "a.yaml").is_symlink()
    assert (tmp_path / ".far" / "a.yaml").read_text() == ANNOTATED
    assert (tmp_path / ".far" / "a.yaml").stat().st_mode & 0o777 == 0o640


def test_what_was_not_stated_stays_unstated(tmp_path):
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
def test_the_file_of_a_created_object(tmp_path, given, file):
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


def test_two_names_that_come_to_one_file_get_two(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {})
    for name in ("a:b", "a/b", "a-b"):
        cluster.write(Write("create", ref(name, "ConfigMap"), "v1", manifest={"data": {"name": name}}))
    assert len(os.listdir(tmp_path)) == 3
    assert "shop-configmap-a-b.yaml" in os.listdir(tmp_path)
    for seen in (cluster, a_snapshot_cluster(tmp_path, {})):
        assert {found.ref.name: found.data["name"] for found in seen.list(CONFIG_MAPS)} == {
            name: name for name in ("a:b", "a/b", "a-b")
        }


def test_an_event_is_counted_when_it_comes_again(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {})
    manifest = {"reason": "Idled", "count": 1, "involvedObject": {"kind": "Deployment", "name": "web"}}
    for name in ("web.1", "web.2", "web.1"):
        cluster.write(Write("event", ref(name, "Event"), "v1", manifest=manifest | {"metadata": {"name": name}}))
    cluster.write(Write("event", ref("", "Event"), "v1", manifest=manifest | {"metadata": {}}))
    counts = {name: event["count"] for name, event in manifests_in(tmp_path).items()}
    assert (counts.pop("Event/web.1"), counts.pop("Event/web.2")) == (2, 1)
    ((name, count),) = counts.items()
    assert (name.startswith("Event/web."), count) == (True, 1)


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
def test_what_would_be_no_such_object_is_refused(tmp_path, operation):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": a_service("web")})
    with pytest.raises(RefusedError):
        cluster.write(patch(ref(), operation, version="v1"))
    assert (tmp_path / "a.yaml").read_text() == a_service("web")


def test_a_secret_is_never_written(tmp_path):
    cluster = a_snapshot_cluster(
        tmp_path,
        {"a.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: shop}, stringData: {pin: s3cr3t}}"},
    )
    with pytest.raises(RefusedError) as raised:
        cluster.write(patch(ref("a", "Secret"), ("test", "/stringData/pin", "x"), version="v1"))
    assert "s3cr3t" not in str(raised.value)


def test_a_file_that_cannot_be_written(tmp_path):
    cluster = a_snapshot_cluster(tmp_path, {"a.yaml": a_service("web")})
    (tmp_path / ".a.yaml.reconciler-new").mkdir()
    with pytest.raises(ClusterError, match="cannot be written: Is a directory, expected a folder to write to"):
        annotate(cluster)
    assert (tmp_path / "a.yaml").read_text() == a_service("web")
    assert cluster.get(SERVICES, "shop", "web").has_annotations is False


def test_a_link_that_leads_out_is_refused_before_anything_is_written(tmp_path):
    """The link is to a file elsewhere in the snapshot, which this cluster may read and not write."""
    a_folder(tmp_path, {"west/b.yaml": a_service("b"), "east/a.yaml": a_list(in_list("web"), in_list("c"))})
    (tmp_path / "east" / "shop-service-c.yaml").symlink_to("../west/missing.yaml")
    before = texts(tmp_path / "west"), (tmp_path / "east" / "a.yaml").read_text()
    cluster = SnapshotCluster(Store(tmp_path / "east", "east", tmp_path), controllers_order)
    with pytest.raises((ClusterError, SnapshotError)):
        annotate(cluster)
    assert (texts(tmp_path / "west"), (tmp_path / "east" / "a.yaml").read_text()) == before


names = st.sampled_from("abcdef")


@tries(60)
@given(
    layout=st.permutations("abcdef"),
    listed=st.integers(0, 6),
    flow=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from(["annotate", "delete", "create"]), names), max_size=12),
)
def test_memory_and_files_agree_after_any_writes(tmp_path_factory, layout, listed, flow, steps):
    """What a cluster says after its own writes is what a fresh one reads."""
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
    marked = set()
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
