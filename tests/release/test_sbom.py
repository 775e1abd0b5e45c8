"""The SBOM that deploy/sbom writes of an environment of Python."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

from reconciler.version import VERSION
from tests.docs.pages import ROOT


@pytest.mark.soak
def test_it_names_the_program_and_what_it_needs():
    """Of the environment of the tests, with a tool from the package index of the machine."""
    call = ["sh", str(ROOT / "deploy" / "sbom"), sys.prefix]
    done = subprocess.run(call, cwd="/", capture_output=True, text=True, check=True, timeout=1800)
    sbom = json.loads(done.stdout)
    program = sbom["metadata"]["component"]
    assert (sbom["bomFormat"], program["name"], program["version"]) == ("CycloneDX", "reconciler", VERSION)
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {component["name"].lower() for component in sbom["components"]}
    assert {requirement.partition(">=")[0].lower() for requirement in needed} <= names
    assert str(ROOT) not in done.stdout, "no folder of the machine that made it"
