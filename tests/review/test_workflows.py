"""What linters of workflows miss: inputs, injection, permissions and pins of action, workflows and examples."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from reconciler.cli.app import cli
from tests.docs.pages import ROOT
from tests.real.binaries import binary
from tests.real.fixtures import missing_part_skips
from tests.review.pipeline import git
from tests.review.workflows import EXAMPLES, read

ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.S)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
OURS = ("./.reviewer", "your-org/reconciler@REVISION")
everywhere = pytest.mark.parametrize("file", [*WORKFLOWS, *EXAMPLES], ids=lambda file: file.name)


def steps_of(file: Path) -> Iterator[dict[str, Any]]:
    value = read(file)
    if file == ACTION:
        yield from value["runs"]["steps"]
    for job in value.get("jobs", {}).values():
        yield from job.get("steps", ())


def permissions_of(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the permissions of each job, by its name."""
    value = read(file)
    for name, job in value["jobs"].items():
        yield name, job.get("permissions", value["permissions"])


# Injection


@pytest.mark.parametrize("file", [ACTION, *WORKFLOWS, *EXAMPLES], ids=lambda file: file.name)
def test_no_expression_stands_in_a_script(file):
    """Its value would be part of the script; in `env` it is a value."""
    for step in steps_of(file):
        assert not EXPRESSION.search(step.get("run", "")), step
        assert not EXPRESSION.search(step.get("shell", "")), step
        assert not EXPRESSION.search(step.get("uses", "")), step


SCRIPTS = [
    *sorted((ROOT / ".github" / "action").iterdir()),
    *(ROOT / "deploy" / name for name in ("environment", "build", "install", "sbom", "krew/kubectl-reconciler")),
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.name)
def test_every_variable_of_a_script_is_in_quotes(script):
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=60)
    for line in script.read_text().splitlines():
        code = "" if line.lstrip().startswith("#") else line
        # these split nothing
        code = re.sub(r"^\s*[A-Z_0-9]+=.*|^\s*case \S+ in|\$\{\w+:\+[^}]*\}|^: .*|\$\(dirname \"\$0\"\)", "", code)
        code = re.sub(r"\"[^\"]*\"|'[^']*'", "", code)
        assert "$" not in code, line


FILES = [ACTION, *WORKFLOWS, *sorted((ROOT / "examples" / "ci").iterdir()), ROOT / "deploy" / "Dockerfile"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_runs_beside_credentials_is_installed_by_its_hashes(file):
    """A release that is put in place of another one under its name, or one that nobody has looked at, is not run."""
    text = file.read_text()
    assert not re.search(r"\bpip3?\b.*\b(install|wheel|download)\b|\bpipx\b|\buvx?\b", text), "only deploy/install does"
    calls = "reconciler" in text and bool(re.search(r"^\s*(- )?(reconciler|.*bin/reconciler.?) ", text, re.M))
    assert not calls or "deploy/install" in text


def test_an_image_is_built_on_a_base_with_a_digest_or_not_at_all():
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert (bases, "ARG PYTHON" in lines) == (["${PYTHON}"] * 2, True), "an ARG without a default"
    (check,) = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN case")]
    assert lines.index("FROM ${PYTHON} AS build") < lines.index(f"RUN {check}") < lines.index("FROM ${PYTHON}")
    for base, code in (("python:3.13-slim", 1), ("", 1), (f"python:3.13-slim@sha256:{'0' * 64}", 0)):
        assert subprocess.run(["sh", "-c", check], env={"PYTHON": base}, check=False, timeout=60).returncode == code


def test_no_workflow_runs_with_the_rights_of_the_base_on_what_a_stranger_wrote():
    for file in (*WORKFLOWS, *EXAMPLES):
        value = read(file)
        assert "pull_request_target" not in value["on"], file
        if "workflow_run" in value["on"]:
            assert [step["run"] for step in steps_of(file) if "run" in step] == ["rm -rf policies"]
            assert all("ref" not in step.get("with", {}) for step in steps_of(file)), "only the base is checked out"


# Inputs


def test_inputs_are_described_used_and_handed_over_as_variables():
    action = read(ACTION)
    assert list(action["inputs"]) == ["policies", "base", "snapshot", "snapshot-branch", "fail-on", "comment", "token"]
    for name, one in action["inputs"].items():
        assert one["description"].endswith("."), name
        assert "default" in one, name
    used = {
        words.strip()
        for step in steps_of(ACTION)
        for value in step["env"].values()
        for words in EXPRESSION.findall(value)
    }
    assert {f"inputs.{name}" for name in action["inputs"]} <= used
    outputs = {f"steps.{step['id']}.outputs" for step in steps_of(ACTION) if "id" in step}
    assert all(words.startswith(("inputs.", "github.", *outputs)) for words in used)


def test_variables_of_the_last_step_are_those_of_the_verb():
    command = cli.get_command(click.Context(cli), "ci")
    assert command is not None
    known = {str(one.envvar) for one in command.params}
    *_, review = steps_of(ACTION)
    assert {name for name in review["env"] if name.startswith("RECONCILER_")} <= known
    defaults = {name: one["default"] for name, one in read(ACTION)["inputs"].items()}
    assert defaults["fail-on"] == next(one.default for one in command.params if one.name == "fail_on")


@everywhere
def test_what_a_workflow_gives_the_action_are_inputs_of_it(file):
    inputs = read(ACTION)["inputs"]
    for step in steps_of(file):
        if step.get("uses") in OURS:
            assert set(step["with"]) <= set(inputs)


# Permissions and pins


def test_every_job_may_do_only_what_it_needs():
    found = {f"{file.name} {job}": rights for file in (*WORKFLOWS, *EXAMPLES) for job, rights in permissions_of(file)}
    read_only = {"contents": "read"}
    wider = {name: rights for name, rights in found.items() if rights != read_only}
    assert wider == {
        "release.yaml image": {"contents": "read", "packages": "write"},
        "release.yaml sign-image": {"attestations": "write", "id-token": "write", "packages": "write"},
        "release.yaml sign-files": {"attestations": "write", "id-token": "write"},
        "release.yaml publish": {"contents": "write"},
        "review.yaml review": {"contents": "read", "pull-requests": "write"},
        "snapshot.yaml keep": {"contents": "write"},
        "github-snapshot.yml keep": {"contents": "write"},
        "github.yml review": {"contents": "read", "pull-requests": "write"},
        "github-status.yml publish": {"id-token": "write", "pages": "write"},
        "github-wake.yml answer": {"issues": "write"},
        "github-forks.yml review": {"actions": "read", "contents": "read", "pull-requests": "write"},
    }


@everywhere
def test_credentials_stay_where_they_are_needed(file):
    """A checkout keeps no token, but where something is pushed; that job has no credentials of a cluster."""
    value = read(file)
    for job in value["jobs"].values():
        steps = job.get("steps", ())
        pushes = any("git push" in step.get("run", "") for step in steps)
        secrets = {name for step in steps for name in re.findall(r"secrets\.(\w+)", str(step))}
        assert not (pushes and secrets)
        for step in steps:
            if step.get("uses", "").startswith("actions/checkout@") and not pushes:
                assert step["with"]["persist-credentials"] == "false"
        assert not secrets or "environment" in job


@everywhere
def test_every_action_is_pinned_and_every_job_ends(file):
    for step in steps_of(file):
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]) or step["uses"] in OURS, step
    for name, job in read(file)["jobs"].items():
        called = job.get("uses", "")  # a workflow of this repository, whose jobs end
        assert called.startswith("./.github/workflows/") or int(job["timeout-minutes"]) <= 30, name


@pytest.mark.parametrize("name", ["review.yaml", "github.yml"])
def test_a_review_that_is_out_of_date_ends(name):
    (file,) = [one for one in (*WORKFLOWS, *EXAMPLES) if one.name == name]
    concurrency = read(file)["concurrency"]
    assert concurrency["cancel-in-progress"] == "true"
    assert "github.event.pull_request.number" in concurrency["group"]


def test_the_reviewer_of_this_repository_is_that_of_the_base():
    (review,) = [one for one in WORKFLOWS if one.name == "review.yaml"]
    _, of_base, *_, last = steps_of(review)
    assert of_base["with"] == {
        "persist-credentials": "false",
        "ref": "${{ github.event.pull_request.base.sha }}",
        "path": ".reviewer",
    }
    assert last["uses"] == "./.reviewer"


# GitLab, pre-commit


def calls_in(lines: list[str]) -> Iterator[list[str]]:
    for line in lines:
        words = shlex.split(line.partition(" >")[0])
        if words[0] == "reconciler":
            yield words[1:]


def test_the_commands_of_the_example_for_gitlab_and_of_the_hook_can_be_called():
    job = read(ROOT / "examples" / "ci" / "gitlab.yml")["review policies"]
    (hook,) = read(ROOT / ".pre-commit-hooks.yaml")
    assert (hook["id"], hook["pass_filenames"], hook["language"]) == ("reconciler-validate", "false", "python")
    calls = list(calls_in([*job["script"], hook["entry"]]))
    assert [words[0] for words in calls] == ["validate", "ci", "validate"]
    for verb, *arguments in calls:
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        command.make_context(verb, list(arguments))
    assert job["artifacts"]["reports"]["codequality"] in job["script"][3]


def test_the_example_for_gitlab_reviews_the_first_policies_and_then_others(tmp_path):
    """The folder of builds stays: what a pipeline left in it does not count in the next one."""
    server, checkout = tmp_path / "server", tmp_path / "checkout"
    (server / "policies").mkdir(parents=True)
    git(server, "init", "--quiet", "--initial-branch", "snapshot")
    for name in ("", "first", "second"):
        if name:
            (server / "policies" / f"{name}.yaml").touch()
        git(server, "add", "--all")
        git(server, "commit", "--quiet", "--allow-empty", "--message", name or "nothing")
    git(tmp_path, "clone", "--quiet", str(server), str(checkout))
    job = read(ROOT / "examples" / "ci" / "gitlab.yml")["review policies"]
    script = "\n".join([*job["script"], 'echo "--"', 'ls "$beside/base/policies" || true'])
    for base, expected in (("HEAD~2", []), ("HEAD", ["first.yaml", "second.yaml"]), ("HEAD~1", ["first.yaml"])):
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", f"reconciler() {{ true; }}\n{script}"],
            cwd=checkout,
            env={"PATH": os.environ["PATH"], "CI_BUILDS_DIR": str(tmp_path), "CI_MERGE_REQUEST_DIFF_BASE_SHA": base},
            stdout=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        assert done.stdout.decode().partition("--\n")[2].split() == expected


@pytest.mark.real
def test_actionlint_finds_nothing():
    with missing_part_skips():
        actionlint = binary("actionlint")
    command = [str(actionlint), "-no-color", "-shellcheck=", "-pyflakes=", *map(str, (*WORKFLOWS, *EXAMPLES))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    assert (done.returncode, done.stdout.decode()) == (0, "")
