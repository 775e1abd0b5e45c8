"""The forms that wake: what is written into them is compared with what a name looks like before anything is called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.review.workflows import EXAMPLES, read

GITLAB = ROOT / "examples" / "ci" / "gitlab-status.yml"
FORM = ROOT / "examples" / "ci" / "wake-form.yml"
API = "eu-west/dev-a/Deployment/api"


def jobs_of(name: str) -> dict:
    (file,) = [one for one in EXAMPLES if one.name == name]
    return read(file)["jobs"]


def issue(name: str, hours: str) -> str:
    """Return the text of an issue that the form makes: GitHub ends its lines with CR LF."""
    return f"### Object\r\n\r\n{name}\r\n\r\n### For\r\n\r\n{hours}\r\n"


def read_issue(folder: Path, body: str, permission: str = "write") -> tuple[int, str]:
    """Return the exit code of the step that reads an issue, and its outputs, where `gh` answers `permission`."""
    gh, output = folder / "bin" / "gh", folder / "output"
    gh.parent.mkdir()
    gh.write_text('#!/bin/sh\n[ "$2" = repos/o/r/collaborators/octocat/permission ] && echo "$PERMISSION"\n')
    gh.chmod(0o755)
    output.touch()
    (step,) = jobs_of("github-wake.yml")["read"]["steps"]
    known = {"GITHUB_OUTPUT": str(output), "GITHUB_REPOSITORY": "o/r", "AUTHOR": "octocat", "BODY": body}
    variables = {"PATH": f"{gh.parent}:/usr/bin:/bin", "PERMISSION": permission, **known}
    command = ["bash", "-e", "-c", step["run"]]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, timeout=60, check=False)
    return done.returncode, output.read_text()


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        pytest.param(issue(API, "3h"), f"object={API}\nfor=3h\n", id="a workload"),
        pytest.param(issue("eu-west/dev-a", "24h"), "object=eu-west/dev-a\nfor=24h\n", id="a namespace"),
        pytest.param(
            issue("gke_proj_Z/dev-a/GameServer2/web", "3h"),
            "object=gke_proj_Z/dev-a/GameServer2/web\nfor=3h\n",
            id="a context of a cloud, and a custom kind",
        ),
        pytest.param(issue(API, "3h").replace("\r", ""), f"object={API}\nfor=3h\n", id="other ends of lines"),
    ],
)
def test_an_issue_says_what_to_wake(tmp_path: Path, body: str, outputs: str):
    assert read_issue(tmp_path, body) == (0, outputs)


HOSTILE = [
    pytest.param("eu-west", "3h", id="a whole cluster"),
    pytest.param("--policies=/tmp/x", "3h", id="an option"),
    pytest.param("a/-b", "3h", id="an option in parts"),
    pytest.param("a/b$(touch owned)", "3h", id="a command"),
    pytest.param("a/b`touch owned`", "3h", id="a command of old"),
    pytest.param('a/b"; touch owned; "', "3h", id="quotes"),
    pytest.param("a/b\\n", "3h", id="a backslash"),
    pytest.param("a/../b", "3h", id="a path"),
    pytest.param("", "3h", id="nothing"),
    pytest.param(API, "3h --auto-approve", id="a second option"),
    pytest.param(API, "25h", id="more than a day"),
    pytest.param(API, "", id="no length"),
]


@pytest.mark.parametrize(("name", "hours"), HOSTILE)
def test_whatever_else_an_issue_says_nothing_is_called(tmp_path: Path, name: str, hours: str):
    assert read_issue(tmp_path, issue(name, hours)) == (1, "")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("permission", ["read", "none", "", "triage"])
def test_only_who_may_write_to_the_repository_wakes(tmp_path: Path, permission: str):
    assert read_issue(tmp_path, issue(API, "3h"), permission) == (1, "")


def checked_by_gitlab(folder: Path, name: str, hours: str) -> tuple[int, str]:
    """Return the exit code of the job and what it calls, where `reconciler` prints its arguments."""
    called = folder / "bin" / "reconciler"
    called.parent.mkdir()
    called.write_text("#!/bin/sh\nprintf '<%s>' \"$@\" >called\n")
    called.chmod(0o755)
    variables = {"PATH": f"{called.parent}:/usr/bin:/bin", "WAKE_OBJECT": name, "WAKE_FOR": hours}
    script = "\n".join(read(GITLAB)["wake"]["script"])
    command = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, timeout=60, check=False)
    written = folder / "called"
    return done.returncode, written.read_text() if written.exists() else ""


def test_gitlab_wakes_what_its_form_says(tmp_path: Path):
    called = f"<wake><{API}><--for><3h><--policies><policies><--timeout><540>"
    assert checked_by_gitlab(tmp_path, API, "3h") == (0, called)


@pytest.mark.parametrize(("name", "hours"), [*HOSTILE, pytest.param(f"{API}\n--x", "3h", id="a second line")])
def test_whatever_else_the_form_of_gitlab_says_nothing_is_called(tmp_path: Path, name: str, hours: str):
    assert checked_by_gitlab(tmp_path, name, hours) == (1, "")
    assert not (tmp_path / "owned").exists()


def test_the_step_reads_the_fields_of_the_form_and_the_label_that_starts_it():
    fields = {one["id"]: one["attributes"]["label"] for one in read(FORM)["body"]}
    (step,) = jobs_of("github-wake.yml")["read"]["steps"]
    assert fields == {"object": "Object", "for": "For"}
    assert all(f"$(field {label} |" in step["run"] for label in fields.values())
    assert read(FORM)["labels"] == ["wake"]
    assert {one["type"] for one in read(FORM)["body"]} == {"input"}, "GitHub fills in no other type from an address"
