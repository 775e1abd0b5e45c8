"""Files below a directory: found within bounds, read without leaving it. The same for policies and for snapshots."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.backends.protocols import SERVICES
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.backends.snapshot.files import METRICS_FILES, RECORDING_FILE
from reconciler.errors import ClusterError, Problem, SnapshotError
from reconciler.model import ObjectRef, Write
from reconciler.policy.policy_files import load
from reconciler.yaml.files import MAX_BYTES, MAX_FOLDERS, decoded_text, find_files, read_bytes, write_private
from tests.backends.folders import a_folder, a_snapshot_cluster, last_names_first, patch

SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}"
MIXED = f"{SERVICE}\n---\n{{apiVersion: reconciler/v1alpha1, kind: Fleet, metadata: {{name: one}}}}"
SECRET = "s3cr3t: [token"


def said_of_policies(root: Path) -> str:
    return "\n".join(map(str, load(root / "inside").problems))


def said_of_a_snapshot(root: Path) -> str:
    with pytest.raises(SnapshotError) as raised:
        a_snapshot_cluster(root / "inside", {}).list(SERVICES)
    return str(raised.value)


BOTH = pytest.mark.parametrize("said_of", [said_of_policies, said_of_a_snapshot])


def a_root(root: Path) -> Path:
    """A folder `inside`, with a file, beside one that is none of its business."""
    return a_folder(root, {"inside/fleet.yaml": MIXED, "outside/token.yaml": SECRET})


@BOTH
@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("a.yaml", "../outside/token.yaml", id="a file outside"),
        pytest.param("a.yaml", "{root}/outside/token.yaml", id="its absolute path"),
        pytest.param("a.yaml", "../inside-too.yaml", id="beside, of a longer name"),
        pytest.param("a", "../outside", id="a folder outside"),
        pytest.param("a", "/", id="all there is"),
        pytest.param("a", "..", id="the folder above"),
        pytest.param("a.yaml", "/dev/zero", id="a device without end"),
        pytest.param("a.yaml", "b", id="by way of another link"),
        pytest.param("a.yaml", "/proc/self/environ", id="the environment"),
    ],
)
def test_no_link_leads_out(tmp_path: Path, said_of: Callable[[Path], str], link: str, target: str) -> None:
    root = a_root(tmp_path)
    (root / "inside-too.yaml").write_text(SECRET)
    (root / "inside" / "b").symlink_to("../outside/token.yaml")
    (root / "inside" / link).symlink_to(target.format(root=root))
    assert said_of(root) == (
        f"{root}/inside/{link}:1:1: is a link that leads out of {root}/inside, expected one that stays inside"
    )


@BOTH
def test_pipes_are_not_waited_for(tmp_path: Path, said_of: Callable[[Path], str]) -> None:
    os.mkfifo(a_root(tmp_path) / "inside" / "a.yaml")
    assert said_of(tmp_path) == f"{tmp_path}/inside/a.yaml:1:1: is no regular file, expected one"


@BOTH
def test_folders_inside_one_another_are_counted(tmp_path: Path, said_of: Callable[[Path], str]) -> None:
    here = os.open(a_root(tmp_path) / "inside", os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert said_of(tmp_path) == (
        f"{tmp_path}/inside{'/d' * (MAX_FOLDERS + 1)}:1:1: is inside more than {MAX_FOLDERS} folders, expected fewer"
    )


@BOTH
def test_a_file_has_a_largest_size(tmp_path: Path, said_of: Callable[[Path], str]) -> None:
    with open(a_root(tmp_path) / "inside" / "a.yaml", "wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    assert said_of(tmp_path) == (
        f"{tmp_path}/inside/a.yaml:1:1: is larger than {MAX_BYTES} bytes, expected a smaller file"
    )


def test_a_single_policy_file_that_is_a_link_stays_in_its_folder(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    (root / "inside" / "a.yaml").symlink_to("../outside/token.yaml")
    (root / "inside" / "b.yaml").symlink_to("fleet.yaml")
    (problem,) = load(root / "inside" / "a.yaml").problems
    assert "is a link that leads out of" in problem.message
    assert load(root / "inside" / "b.yaml").problems == ()


def mounted(folder: Path) -> None:
    """Make a folder as a mounted ConfigMap looks."""
    a_folder(folder, {"..2026_11_22/fleet.yaml": MIXED, "..2026_11_22/sub/more.yaml": ""})
    (folder / "..data").symlink_to("..2026_11_22")
    (folder / "fleet.yaml").symlink_to("..data/fleet.yaml")
    (folder / "sub").symlink_to("..data/sub")


def test_a_mounted_config_map_is_read_and_so_is_a_link_to_the_root_itself(tmp_path: Path) -> None:
    mounted(tmp_path / "inside")
    (tmp_path / "link").symlink_to("inside")
    for root in (tmp_path / "inside", tmp_path / "link"):
        found = load(root)
        assert ([one.value["kind"] for one in found.documents], found.problems) == (["Service", "Fleet"], ())
        assert len(a_snapshot_cluster(root, {}).list(SERVICES)) == 1


def test_links_between_the_clusters_of_a_snapshot_are_read_and_not_written_through(tmp_path: Path) -> None:
    a_folder(tmp_path, {"..data/east/a.yaml": SERVICE, "common/b.yaml": SERVICE.replace("web", "shared")})
    (tmp_path / "east").symlink_to("..data/east")
    (tmp_path / "..data/east/b.yaml").symlink_to("../../common/b.yaml")
    cluster = open_snapshot(tmp_path, ["east"], last_names_first).backends["east"].cluster
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["shared", "web"]
    with pytest.raises(ClusterError, match=r"is a link that leads out of .*; only what is inside is written"):
        cluster.write(patch(ObjectRef("east", "shop", "Service", "shared"), ("add", "/metadata/labels", {"a": "b"})))
    cluster.write(Write("delete", ObjectRef("east", "shop", "Service", "web"), "v1"))
    assert [found.ref.name for found in cluster.list(SERVICES)] == ["shared"]


@pytest.mark.parametrize(
    "name", ["east", *(f"east/{name}" for name in (*METRICS_FILES, RECORDING_FILE)), "metrics.yaml"]
)
def test_no_part_of_a_snapshot_is_a_link_out_of_it(tmp_path: Path, name: str) -> None:
    root = a_folder(tmp_path, {"outside/token.yaml": SECRET, "snapshot/west/a.yaml": SERVICE})
    if name != "east":
        a_folder(root, {"snapshot/east/a.yaml": SERVICE})
    (root / "snapshot" / name).symlink_to(root / "outside" / ("" if name == "east" else "token.yaml"))
    with pytest.raises(SnapshotError) as raised:
        open_snapshot(root / "snapshot", ["east"], last_names_first)
    assert str(raised.value) == (
        f"{root}/snapshot/{name}:1:1: is a link that leads out of {root}/snapshot, expected one that stays inside"
    )


def test_a_new_content_is_never_written_through_a_link(tmp_path: Path) -> None:
    cluster = a_snapshot_cluster(tmp_path / "east", {"a.yaml": SERVICE})
    (tmp_path / "precious").write_text("x")
    (tmp_path / "east" / ".a.yaml.reconciler-new").symlink_to("../precious")
    (tmp_path / "east" / ".reconciler-pending.json.reconciler-new").symlink_to("../precious")
    cluster.write(patch(ObjectRef("east", "shop", "Service", "web"), ("add", "/metadata/labels", {"a": "b"})))
    assert (tmp_path / "precious").read_text() == "x"
    assert os.listdir(tmp_path / "east") == ["a.yaml"]


def test_names_are_in_order_and_hidden_ones_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ("b.yaml", "a/z.yaml", "a.yaml", "a/.git/x.yaml", ".h.yaml", "a/b/c.yaml", "README.md")
    a_folder(tmp_path, dict.fromkeys(files, ""))
    monkeypatch.chdir(tmp_path)
    found = find_files(".", lambda name: name.endswith(".yaml"))
    assert list(found.files) == ["a/b/c.yaml", "a/z.yaml", "a.yaml", "b.yaml"]
    assert (sorted(found.hidden), found.problems) == ([".h.yaml", "a/.git"], [])


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_tells_the_encoding(codec: str) -> None:
    assert decoded_text("a.yaml", "a: é\n".encode(codec)) == "a: é\n"


def test_a_pointer_of_git_lfs_is_named() -> None:
    found = decoded_text("a.yaml", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert isinstance(found, Problem)
    assert found.message == "is a pointer of Git LFS, expected the content; run git lfs pull"


def test_what_is_written_for_us_alone_is_readable_by_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("old")
    (tmp_path / "plan.json").chmod(0o644)
    (tmp_path / "link.json").symlink_to("plan.json")
    for name in ("plan.json", "new.json"):
        write_private(str(tmp_path / name), ["{", "}"])
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_private(str(tmp_path / "link.json"), ["x"])
    assert read_bytes(str(tmp_path / "plan.json"), str(tmp_path)) == b"{}"


@pytest.mark.parametrize("read", [False, True], ids=["nobody reads it", "somebody reads it"])
def test_nothing_private_goes_into_a_pipe(tmp_path: Path, read: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK) if read else None
    code = "import sys; from reconciler.yaml.files import write_private; write_private(sys.argv[1], ['x'])"
    call = [sys.executable, "-c", code, str(tmp_path / "pipe")]
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
        assert f"is no regular file: '{tmp_path / 'pipe'}'" in done.stderr
        assert reader is None or os.read(reader, 1) == b""
    finally:
        if reader is not None:
            os.close(reader)
