"""The plugin of kubectl: what it calls itself, what kubectl completes, and that krew takes its manifest."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from reconciler.version import VERSION
from tests.docs.pages import ROOT
from tests.real.binaries import binary
from tests.real.fixtures import missing_part_skips
from tests.release import krew_manifest

SCRIPTS = (("reconciler.__main__", "main"), ("reconciler.cli.completion", "kubectl_complete"))


def start_of(program: str) -> str:
    """Return the code that starts a console script."""
    module, name = SCRIPTS["complete" in program]
    return f"from {module} import {name}; {name}()"


@cache
def called(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the console script `program` of this checkout."""
    code = f"import sys; sys.argv[0] = '/usr/bin/{program}'; {start_of(program)}"
    call = [sys.executable, "-c", code, *arguments]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Usage: kubectl reconciler VERB "),
        (("--help",), "`kubectl reconciler VERB --help` describes a verb."),
        (("plan", "--help"), "Usage: kubectl reconciler plan [OPTIONS] [PATH]"),
        (("plan", "--help"), "  kubectl reconciler plan --snapshot DIR"),
    ],
)
def test_help_says_kubectl_reconciler(arguments, said):
    assert said in called("kubectl-reconciler", *arguments).stdout
    assert said.replace("kubectl ", "") in called("reconciler", *arguments).stdout
    assert said not in called("reconciler", *arguments).stdout


def test_the_version_is_that_of_the_program():
    assert called("kubectl-reconciler", "--version").stdout == called("reconciler", "--version").stdout


COMPLETIONS = [
    pytest.param(("d",), ["diff\tShow the plan as", "doctor\tCheck what each", ":4"], id="verbs"),
    pytest.param(("schema", "Id"), ["IdlingPolicy", ":4"], id="kinds"),
    pytest.param(("plan", "--qp"), ["--qps\t", ":4"], id="options"),
    pytest.param(("plan", "--snapshot", "sn"), [":16"], id="a folder"),
    pytest.param(("plan", "--out", "pl"), [":0"], id="a file"),
]


@pytest.mark.parametrize(("arguments", "lines"), COMPLETIONS)
def test_the_completion_is_what_cobra_reads(arguments, lines):
    """Source: spf13/cobra, ShellCompDirective: 0 completes files, 4 nothing else, 16 folders."""
    said = called("kubectl_complete-reconciler", *arguments).stdout.splitlines()
    assert len(said) == len(lines)
    assert [line for line, begin in zip(said, lines, strict=True) if not line.startswith(begin)] == []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_kubectl_calls_the_plugin_and_its_completion(tmp_path):
    for name in ("kubectl-reconciler", "kubectl_complete-reconciler"):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{start_of(name)}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}

    def kubectl(*arguments: str) -> list[str]:
        call = ["kubectl", *arguments]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()

    assert kubectl("reconciler")[0] == "Usage: kubectl reconciler VERB [OPTIONS] [ARGUMENTS]..."
    assert [line.partition("\t")[0] for line in kubectl("__complete", "reconciler", "st")] == ["status", ":4"]


# krew


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Any file: krew's validation takes its hash as it is told."""
    file = tmp_path / "archive.tar.gz"
    file.write_bytes(b"a source distribution")
    return file


def test_the_manifest_names_the_release_and_its_hash(tmp_path, archive):
    _, manifest = krew_manifest.write(archive, tmp_path / "release")
    (platform,) = manifest["spec"]["platforms"]
    address = "https://github.example/platform/reconciler"
    assert manifest["spec"]["version"] == f"v{VERSION}"
    assert manifest["spec"]["homepage"] == address
    assert platform["uri"] == f"{address}/releases/download/v{VERSION}/reconciler-{VERSION}.tar.gz"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    program = ROOT / platform["bin"].partition("/")[2]
    assert platform["bin"].startswith(f"reconciler-{VERSION}/")
    assert program.stat().st_mode & 0o111


@pytest.mark.real
def test_krew_takes_the_manifest(tmp_path, archive):
    with missing_part_skips():
        validate = binary("validate-krew-manifest")
    manifest, _ = krew_manifest.write(archive, tmp_path / "release")
    for file in (manifest, krew_manifest.TEMPLATE):
        call = [str(validate), "-manifest", str(file), "-skip-install"]
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "structural validation OK" in done.stderr


@pytest.mark.soak
@pytest.mark.real
def test_krew_installs_the_plugin_from_the_source_distribution(tmp_path):
    """Its first call installs the rest, from the package index of the machine."""
    with missing_part_skips():
        krew = binary("krew")
    build = [sys.executable, "-I", "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True, timeout=300)
    (archive,) = tmp_path.glob("*.tar.gz")
    manifest, _ = krew_manifest.write(archive, tmp_path / "release")
    environment = {**os.environ, "KREW_ROOT": str(tmp_path / "krew"), "HOME": str(tmp_path)}
    install = [str(krew), "install", "--manifest", str(manifest), "--archive", str(archive)]
    subprocess.run(install, env=environment, capture_output=True, check=True, timeout=300)
    call = [str(tmp_path / "krew" / "bin" / "kubectl-reconciler"), "--version"]
    for told in (True, False):
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True, timeout=1800)
        assert (done.stdout, "installing reconciler" in done.stderr) == (f"reconciler {VERSION}\n", told)
