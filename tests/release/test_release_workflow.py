"""What the release workflow does that actionlint does not look at: its order, its rights, and its scripts, run here."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from reconciler.version import VERSION
from tests.cases import cases
from tests.docs.pages import ROOT
from tests.release.release_scripts import JOBS, SCRIPTS, run


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_can_be_read_by_its_shell(name):
    subprocess.run(["bash", "-n", "-c", SCRIPTS[name]], check=True, timeout=60)


@pytest.mark.parametrize("job", ["image", "sign-files"])
def test_nothing_is_pushed_or_signed_that_the_tests_have_not_passed(job):
    assert set(JOBS[job]["needs"]) == {"test", "build"}
    assert JOBS["sign-image"]["needs"] == ["build", "image"]
    assert JOBS["publish"]["needs"] == ["sign-image", "sign-files"]


def test_what_publishes_waits_for_the_environment():
    """A job that may write, or sign, can be held until somebody approves."""
    writing = {name for name, job in JOBS.items() if "write" in job["permissions"].values()}
    assert {name for name, job in JOBS.items() if job.get("environment") == "release"} == writing


def test_nothing_that_signs_runs_what_the_repository_holds():
    """Neither a checkout nor an installation stands beside the right to sign."""
    for job in JOBS.values():
        if job["permissions"].get("id-token") == "write":
            text = str(job["steps"])
            assert "actions/checkout" not in text
            assert "deploy/" not in text


@cases(
    "tag code said outputs",
    ("tag of the version", f"v{VERSION}", 0, "", f"version={VERSION}\n"),
    ("tag of another version", "v9.9.9", 1, f"the tag is v9.9.9, expected v{VERSION}, as pyproject.toml says\n", ""),
    ("tag without its letter", VERSION, 1, f"the tag is {VERSION}, expected v{VERSION}, as pyproject.toml says\n", ""),
)
def test_the_tag_is_the_version(tmp_path, tag, code, said, outputs):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert run("The tag is the version", tmp_path, GITHUB_REF_NAME=tag) == (code, said, outputs)
