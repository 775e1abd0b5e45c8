"""Output without a place: nobody listening, a file that cannot be written; and names that are used twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.verbs import first_help
from reconciler.model import NOTHING
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import workload

NOW = "2026-11-20T22:00:00Z"
PLAN = ("plan", "policies", "--snapshot", "snapshot", "--now", NOW)
APPLY = ("apply", *PLAN[1:], "--auto-approve")
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def run(
    folder: Path, *arguments: str, limit: str = "", variables: Mapping[str, str] = NOTHING, **streams: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process with no PYTHON* variable but `variables`; `limit` is what it does first."""
    code = f"{limit}; from reconciler.__main__ import main; main()"
    program = [sys.executable, *(["-c", code] if limit else ["-m", "reconciler"])]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [*program, *arguments],
        cwd=folder,
        env={**bare, "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        text=True,
        check=False,
        timeout=60,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def test_without_arguments_the_verbs_to_begin_with_are_shown(tmp_path):
    said = Folder(tmp_path).call()
    assert (said.code, said.out, said.err) == (0, first_help(), "")
    done = run(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, first_help(), "")
    assert re.findall("^  ([a-z]+)  ", first_help(), re.MULTILINE) == ["validate", "plan", "apply", "status"]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (".", "--out: . is a folder, expected a file"),
        ("nowhere/x.json", "--out: nowhere is not a directory, expected one that exists"),
        ("policies/fleet.yaml/x.json", "--out: policies/fleet.yaml is not a directory, expected one that exists"),
    ],
    ids=["a folder", "a folder that is not there", "below a file"],
)
def test_where_no_plan_can_be_saved_is_seen_before_and_is_one_json_document(quickstart, file, words):
    said = quickstart.plan(NOW, "-o", "json", "--out", file)
    assert said.code == 64
    assert json.loads(said.out)["errors"] == [words]


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_apply_that_nobody_is_asked_about_is_done_where_its_output_has_no_place(quickstart, form):
    with Path("/dev/full").open("w") as full:
        done = run(quickstart.path, *APPLY, "-o", form, stdout=full)
    assert done.returncode == 1
    assert "error: operating system: No space left on device" in done.stderr
    assert ("the run goes on" in done.stderr) is (form == "text")
    again = json.loads(quickstart.plan("2026-11-20T22:01:00Z", "-o", "json").out)
    assert again["actions"] == []


@pytest.mark.parametrize("call", [[], ["--help"], ["plan", "--help"]], ids=" ".join)
def test_a_help_that_has_no_place_is_an_error(tmp_path, call):
    with Path("/dev/full").open("w") as full:
        done = run(tmp_path, *call, stdout=full)
    assert (done.returncode, done.stderr) == (1, "error: operating system: No space left on device\n")


@pytest.mark.parametrize("file", ["pipe", "/dev/full"])
def test_a_plan_is_saved_to_a_regular_file_only_and_waits_for_no_reader_of_a_pipe(quickstart, file):
    os.mkfifo(quickstart.path / "pipe")
    done = run(quickstart.path, *PLAN, "--out", file)
    assert (done.returncode, done.stdout) == (64, "")
    assert f"--out: {file} is not a regular file, expected one" in done.stderr


def test_a_plan_that_turns_out_not_to_be_saved_is_printed_all_the_same(quickstart):
    """The system allows us files of 100 bytes."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    done = run(quickstart.path, *PLAN, "--out", "plan.json", limit=limit)
    assert done.returncode == 1, done.stderr
    assert "--out: plan.json: File too large, expected a file that can be written" in done.stderr
    assert done.stdout == quickstart.plan(NOW).out


def test_a_saved_plan_is_readable_by_nobody_else_and_never_written_through_a_link(quickstart):
    former = os.umask(0o022)
    try:
        (quickstart.path / "there.json").write_text("")
        (quickstart.path / "link.json").symlink_to("there.json")
        assert quickstart.plan(NOW, "--out", "link.json").code == 64
        assert (quickstart.path / "there.json").read_text() == ""
        for file in ("new.json", "there.json"):
            assert quickstart.plan(NOW, "--out", file).code == 0
            found = quickstart.path / file
            assert (oct(found.stat().st_mode & 0o777), json.loads(found.read_text())["kind"]) == ("0o600", "Plan")
    finally:
        os.umask(former)


def without_reader(folder: Path, closed: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process; nobody reads its stream `closed`."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        return run(folder, *arguments, variables=variables, **{closed: nobody})


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_an_apply_that_nobody_reads_is_finished(quickstart, closed):
    done = without_reader(quickstart.path, closed, *APPLY)
    assert (done.returncode, done.stderr or "") == (0, "")
    assert closed == "stdout" or "Applied: 7 of 7 changes" in done.stdout
    assert quickstart.plan(NOW).out.endswith("No changes. 1 workload waits for minAwake for another 120m.\n")


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "variables"),
    [
        pytest.param("stdout", ["plan", "nowhere", "-o", "json"], 3, {}, id="a folder that is not there"),
        pytest.param("stdout", ["plan", "nowhere", "-o", "json"], 3, UNBUFFERED, id="without buffers"),
        pytest.param("stderr", ["plan", "--nope"], 64, {}, id="a flag that is not there"),
        pytest.param("stdout", ["--help"], 0, UNBUFFERED, id="help"),
    ],
)
def test_the_exit_code_is_the_same_whoever_reads(tmp_path, closed, arguments, code, variables):
    done = without_reader(tmp_path, closed, *arguments, **variables)
    assert done.returncode == code
    assert "Traceback" not in (done.stderr or "")
    assert "BrokenPipe" not in (done.stderr or "")


def _marks(policy: str, name: str) -> str:
    marks = (
        'idling.kubernetes.io/idled-at: "2026-11-20T19:15:00Z"',
        'idling.kubernetes.io/previous-scale: "2"',
        'reconciler/idled-to: "0"',
        f"reconciler/owner: quickstart/IdlingPolicy/{policy}",
        'reconciler/wake-due: "2026-11-23T06:00:00Z"',
    )
    return workload(name, "dev-a", 0, metadata=f"annotations: {{{', '.join(marks)}}}")


@pytest.mark.parametrize(("cluster", "code"), [("eu-west", 4), ("us-east", 0)])
def test_what_the_guard_holds_back_elsewhere_does_not_count(quickstart, cluster, code):
    Path(quickstart.path / "policies/idling.yaml").unlink()
    Path(quickstart.path / "snapshot/us-east/dev-b.yaml").unlink()
    for name in ("one", "two"):
        quickstart.write(f"snapshot/eu-west/{name}.yaml", _marks(f"gone-{name}", name))
    assert quickstart.plan(NOW, "--cluster", cluster, "--fail-on", "held-back").code == code
