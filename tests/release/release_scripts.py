"""The scripts of release.yaml, run as a runner does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT

JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]
SCRIPTS = {step["name"]: step["run"] for job in JOBS.values() for step in job.get("steps", ()) if "run" in step}


def run(name: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    """Run the script of the step `name` in `folder`; return its exit code, its errors and its outputs."""
    outputs = folder / "outputs"
    outputs.touch()
    environment = {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": str(outputs), **variables}
    call = ["bash", "-eo", "pipefail", "-c", SCRIPTS[name]]
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr, outputs.read_text()
