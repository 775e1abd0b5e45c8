"""The image, made by the steps of deploy/Dockerfile on a real Debian instead of in a container engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.version import VERSION
from tests.docs.pages import ROOT
from tests.release.image import Image, build

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="there is no mmdebstrap on this machine"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes the root of a Debian and changes into it"),
]

SHELLS = ("bin/sh", "bin/dash", "bin/bash", "bin/rbash")
MOST = 220
"""What the program and its libraries may take, in MB; 126 of them are the library `kubernetes`."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The last stage, without any shell, and with the quickstart in /examples."""
    folder = tmp_path_factory.mktemp("image")
    packages = "--include=python3,python3-venv,ca-certificates"
    call = ["mmdebstrap", "--quiet", "--variant=minbase", packages, "bookworm", str(folder / "base")]
    subprocess.run(call, check=True, timeout=1800)
    made = build(folder / "base", folder)
    for shell in SHELLS:
        (made.root / shell).unlink(missing_ok=True)
    shutil.copytree(ROOT / "examples" / "quickstart", made.root / "examples")
    return made


def test_it_starts_as_nobody_on_a_root_that_is_read_only_and_without_a_shell(image):
    assert (image.user, image.entrypoint) == ("65532:65532", ["reconciler"])
    done = image.run("--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"reconciler {VERSION}\n", "", 0)


def test_it_plans(image):
    done = image.run(
        *("plan", "/examples/policies", "--snapshot", "/examples/snapshot"),
        *("--now", "2026-11-20T22:00:00Z", "-o", "json"),
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout)["actions"]


def test_what_is_installed_brings_no_installer_and_has_a_size(image):
    program = image.root / "opt" / "reconciler"
    assert sorted(path.name for path in program.glob("lib/python3*/site-packages/pip*")) == []
    size = sum(file.stat().st_size for file in program.rglob("*") if file.is_file() and not file.is_symlink())
    assert size / 1e6 < MOST


def test_nothing_in_it_can_be_changed_by_its_user(image):
    writable = [
        str(path)
        for path in Path(image.root / "opt").rglob("*")
        if not path.is_symlink() and (path.stat().st_uid == 65532 or path.stat().st_mode & 0o002)
    ]
    assert writable == []


def test_nothing_is_compiled_at_each_start(image):
    """On a root that is read-only that would be done again in every run."""
    package = next((image.root / "opt" / "reconciler").glob("lib/python3*/site-packages/reconciler"))
    assert [file.name for file in package.rglob("*.py") if not any(compiled(file))] == []


def compiled(file: Path) -> Iterator[Path]:
    return (file.parent / "__pycache__").glob(f"{file.stem}.cpython-*.pyc")
