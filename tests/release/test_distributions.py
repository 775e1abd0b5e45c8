"""The wheel and the source distribution: what they hold, and that the same commit gives the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

COMMITTED = 1_790_000_000
"""When the commit was made, in seconds since 1970."""

LEFT_BEHIND = (
    ".venv/lib/left.py",
    ".venvs/lowest/left.py",
    ".mypy_cache/left.json",
    ".ruff_cache/left",
    ".hypothesis/left",
    "build/docs/index.html",
    "dist/reconciler-0.0.1.tar.gz",
    "reconciler/__pycache__/model.cpython-311.pyc",
    "tests/__pycache__/left.pyc",
    "benchmarks.json",
)


def tracked(repository: Path) -> list[str]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (repository / name).is_file()]


def checkout(repository: Path, folder: Path, mask: int, modified: int) -> Path:
    """Copy the work tree into `folder`, with the modes that a checkout under the umask `mask` gives."""
    for name in tracked(repository):
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(repository / name, copy)
        copy.chmod((0o777 if os.access(repository / name, os.X_OK) else 0o666) & ~mask)
        os.utime(copy, (modified, modified))
    return folder


def built(source: Path, **environment: str) -> dict[str, Path]:
    """Build both files from `source`, and return them by "whl" and "gz"."""
    call = [sys.executable, "-I", "-m", "hatchling", "build", "-d", str(source / "dist" / "built")]
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(COMMITTED), **environment}
    subprocess.run(call, cwd=source, env=variables, capture_output=True, check=True, timeout=300)
    return {file.name.rpartition(".")[2]: file for file in (source / "dist" / "built").iterdir()}


@pytest.fixture(scope="module")
def files(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both files of a checkout in which people have worked."""
    source = checkout(repository, tmp_path_factory.mktemp("worked-in"), 0o022, COMMITTED + 90)
    for name in LEFT_BEHIND:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("left behind")
    return built(source, TZ="Asia/Tokyo")


def test_the_same_commit_gives_the_same_bytes(repository, tmp_path, files):
    """In another folder, later, in another time zone, under another umask, without what work leaves behind."""
    again = built(checkout(repository, tmp_path / "elsewhere", 0o077, COMMITTED + 5_000_000), TZ="America/New_York")
    assert {kind: file.read_bytes() == files[kind].read_bytes() for kind, file in again.items()} == {
        "whl": True,
        "gz": True,
    }
    assert {kind: file.name for kind, file in again.items()} == {kind: file.name for kind, file in files.items()}


def test_the_times_in_both_are_those_of_the_commit(files):
    with tarfile.open(files["gz"]) as archive:
        assert {member.mtime for member in archive} == {COMMITTED}
    with zipfile.ZipFile(files["whl"]) as archive:
        assert len({entry.date_time for entry in archive.infolist()}) == 1


def test_the_wheel_holds_the_program_and_what_it_reads(repository, files):
    with zipfile.ZipFile(files["whl"]) as archive:
        names = set(archive.namelist())
        metadata = archive.read("reconciler-0.1.0.dist-info/METADATA").decode()
        programs = archive.read("reconciler-0.1.0.dist-info/entry_points.txt").decode()
    program = {name for name in tracked(repository) if name.startswith("reconciler/")}
    schemas = {f"reconciler/{name}" for name in tracked(repository) if name.startswith("schemas/")}
    described = {name for name in names if name.startswith("reconciler-0.1.0.dist-info/")}
    assert names == program | schemas | described
    assert {"reconciler/py.typed", "reconciler-0.1.0.dist-info/licenses/LICENSE"} <= names
    assert any("/templates/" in name for name in names), "of pages"
    assert "License-Expression: Apache-2.0" in metadata
    assert [line.partition(" = ")[0] for line in programs.splitlines()[1:]] == [
        "kubectl-reconciler",
        "kubectl_complete-reconciler",
        "reconciler",
    ]


def test_the_source_distribution_holds_what_git_holds(repository, files):
    """Tests read the action, the workflows, deploy/ and the pins, so all of them are in it."""
    with tarfile.open(files["gz"]) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert names == {*tracked(repository), "PKG-INFO"}


def test_the_source_distribution_makes_the_same_wheel(tmp_path, files):
    with tarfile.open(files["gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    assert built(tmp_path / "reconciler-0.1.0")["whl"].read_bytes() == files["whl"].read_bytes()
