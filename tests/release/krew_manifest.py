"""The manifest for krew, as the release workflow writes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from reconciler.version import VERSION
from tests.docs.pages import ROOT
from tests.release.release_scripts import run

TEMPLATE = ROOT / "deploy" / "krew" / "reconciler.yaml"


def write(archive: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Run the workflow's step in `folder` for the source distribution `archive`; return the file and its content."""
    (folder / "dist").mkdir(parents=True)
    (folder / "deploy" / "krew").mkdir(parents=True)
    shutil.copy(archive, folder / "dist" / f"reconciler-{VERSION}.tar.gz")
    shutil.copy(TEMPLATE, folder / "deploy" / "krew")
    github = {"GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "platform/reconciler"}
    assert run("Manifest for krew", folder, VERSION=VERSION, **github) == (0, "", "")
    manifest = folder / "dist" / "reconciler.yaml"
    return manifest, yaml.safe_load(manifest.read_text())
