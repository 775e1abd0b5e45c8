"""Calls that are refused or cut short: saved plans that do not fit, values that cannot be meant, time limits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click import Context, Option

from reconciler.backends.snapshot.file_lock import FileLock
from reconciler.cli.app import cli
from reconciler.cli.verbs import VERBS
from reconciler.time_limit import TimeLimit
from tests.cases import cases
from tests.fakes import FakeClock
from tests.pipeline.calls import Folder
from tests.real.certificates import write_server_pair

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)


def test_a_saved_plan_takes_no_filters(quickstart):
    quickstart.plan(NOW, "--out", "plan.json")
    before = quickstart.objects()
    for flags in (["--cluster", "us-east"], ["--policy", "idle-dev"], ["-n", "dev-a"]):
        assert quickstart.call("apply", "plan.json", *LOOK, *flags).code == 64
    assert quickstart.objects() == before


def put_in_state(quickstart, state):
    fleet = quickstart.path / "policies" / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("labels: {region: us}", f"labels: {{region: us}}\n      state: {state}"))


@pytest.mark.parametrize(
    ("state", "written"),
    [
        pytest.param("Frozen", {"Deployment/reports", "Service/reports"}, id="frozen, wakes go on"),
        pytest.param("ReadOnly", set(), id="readOnly"),
    ],
)
def test_freezing_a_cluster_counts_for_a_saved_plan_too(quickstart, state, written):
    quickstart.plan(NOW, "--out", "plan.json")
    put_in_state(quickstart, state)
    before = quickstart.objects()
    assert quickstart.call("apply", "plan.json", *LOOK, "-q").code == 6
    after = quickstart.objects()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert {f"{kind}/{name}" for cluster, _, kind, name in changed if cluster == "us-east"} == written


REFUSED_TWICE = (("plan", "--context"), ("doctor", "--namespace"), ("picker", "--cluster"), ("rbac", "--cluster"))


@pytest.mark.parametrize(("verb", "flag"), REFUSED_TWICE)
def test_what_other_verbs_take_several_times_and_this_one_once_is_refused_where_it_is_given_twice(
    quickstart, verb, flag
):
    said = quickstart.call(verb, flag, "a", flag, "b")
    assert (said.code, said.err) == (64, f"error: {flag}: is given 2 times, expected it once\n")


def test_nothing_else_is_taken_several_times_by_some_verbs_only():
    verbs = [cli.get_command(Context(cli), name) for name in VERBS]
    options = {(one.opts[-1], one.multiple) for verb in verbs for one in verb.params if isinstance(one, Option)}
    assert {flag for flag, several in options if several and (flag, False) in options} == {
        flag for _, flag in REFUSED_TWICE
    }


def test_of_any_other_option_the_last_value_counts_as_the_chart_gives_them(quickstart):
    said = quickstart.call("plan", *LOOK, "--timeout=0", "--timeout=540", "-q", "-q")
    assert (said.code, said.err) == (0, "")


@cases(
    "flag value words",
    ("days to come", "--days", "3", "--days: are days to come, expected no --replay beside it"),
    ("time of the run", "--now", NOW, "--now: the history in the snapshot says when the past ends, expected no --now"),
    ("time between runs", "--tick", "30m", "--tick: the history in the snapshot says how often a run comes, expected"),
)
def test_a_replay_takes_nothing_that_its_history_says(quickstart, monkeypatch, flag, value, words):
    call = ("forecast", "--replay", "30d", "--snapshot", "snapshot")
    said = quickstart.call(*call, flag, value)
    assert (said.code, said.out) == (64, "")
    assert words in said.err
    monkeypatch.setenv(f"RECONCILER_{flag.removeprefix('--').upper()}", value)
    said = quickstart.call(*call)
    assert "snapshot: holds no history of queries" in said.err, "a variable is of all verbs"


def test_a_replay_of_a_query_that_its_history_lacks_is_not_done(tmp_path, repository):
    folder = Folder.copied(repository / "examples" / "replay", tmp_path)
    call = ("forecast", "--replay", "30d", "--snapshot", "snapshot")
    policies = (folder.path / "policies" / "idling.yaml").read_text()
    folder.write("policies/idling.yaml", policies.replace("window: 30m", "window: 45m"))
    assert folder.call(*call).code == 6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(("forecast", "--replay", "1d"), "Replay for", id="forecast"),
        pytest.param(
            ("plan", "--base", "policies", "--now", "2026-11-20T15:00:00Z", "--days", "1", "-n", "dev"),
            "Only what the filters leave is shown. What was replayed is of everything.",
            id="review",
        ),
    ],
)
def test_what_is_ignored_in_a_snapshot_with_a_history_is_said_once(tmp_path, repository, call, words):
    folder = Folder.copied(repository / "examples" / "replay", tmp_path)
    folder.write("snapshot/stray.yaml", "")
    said = folder.call(*call, "--snapshot", "snapshot")
    warnings = [line for line in said.err.splitlines() if line.startswith("warning: ")]
    assert warnings == ["warning: snapshot/stray.yaml: stands in no cluster's folder and is ignored"]
    assert words in " ".join(said.out.split())


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        pytest.param(
            lambda clock: clock.sleep(35), 1, "reading takes more than half of --timeout", id="half of the time"
        ),
        pytest.param(lambda _: os.kill(os.getpid(), signal.SIGTERM), 143, "stopped by SIGTERM", id="a signal"),
    ],
)
def test_a_plan_whose_policies_are_not_read_in_time_does_not_call_them_malformed(
    quickstart, monkeypatch, ending, code, words
):
    clock = FakeClock()

    def slow(path, *, partly, check_deadline):
        ending(clock)
        check_deadline()

    monkeypatch.setattr("reconciler.time_limit.Clock", lambda: clock)
    monkeypatch.setattr("reconciler.cli.run_options.read_policies", slow)
    said = quickstart.plan(NOW, "--timeout", "60")
    assert (said.code, said.out) == (code, "")
    assert words in said.err


def hears_sigterm(process: int) -> bool:
    """Return whether the process has come so far that it handles the signal itself."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.fixture
def locked(quickstart):
    """The quickstart whose locks are all held by another run."""
    locks = [FileLock(path, "the test") for path in sorted((quickstart.path / "snapshot").iterdir())]
    for lock in locks:
        lock.acquire(TimeLimit(0))
    yield quickstart
    for lock in locks:
        lock.release()


def test_a_signal_is_heard_while_waiting_for_locks(locked):
    process = subprocess.Popen(
        [sys.executable, "-m", "reconciler", "apply", "policies", *LOOK, "--auto-approve", "-q"],
        cwd=locked.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not hears_sigterm(process.pid):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=25)
    assert process.returncode == 143


def test_locks_are_waited_for_until_the_timeout(locked, monkeypatch):
    """By a clock of its own: half of the time is that of the policies, which take as long as the machine lets them."""
    clock = FakeClock()
    monkeypatch.setattr("reconciler.time_limit.Clock", lambda: clock)
    said = locked.apply(NOW, "--timeout", "20")
    assert (said.code, 20 <= clock.now < 21) == (1, True), clock.now
    left = "7 changes and 7 metadata updates"
    assert f"Not as planned: {left}\n\n  {left} skipped: --timeout of 20 s reached (-v lists them)\n" in said.out


def test_a_flag_with_a_word_that_the_verb_does_not_know(quickstart, monkeypatch):
    monkeypatch.setenv("RECONCILER_OUTPUT", "json")
    assert quickstart.call("validate", "policies", "-o", "markdown").code == 64


@pytest.mark.parametrize(
    ("call", "where"),
    [
        pytest.param(("plan", ""), "[PATH]", id="the policies"),
        pytest.param(("validate", "policies", "--snapshot", ""), "--snapshot", id="the snapshot"),
        pytest.param(("history", "--from", ""), "--from", id="a folder"),
        pytest.param(("show", ""), "FILE", id="a plan"),
        pytest.param(("import", "kube-green", "a", ""), "[PATH]...", id="one of several"),
        pytest.param(("plan", "policies", "--credentials-dir", ""), "--credentials-dir", id="an option with several"),
    ],
)
def test_an_empty_path_is_not_the_working_directory(quickstart, call, where):
    """As of a variable that is not set: `--snapshot "$SNAPSHOT"`."""
    said = quickstart.call(*call)
    assert (said.code, said.out, said.err) == (64, "", f'error: {where}: is "", expected a path\n')


@pytest.mark.parametrize("flag", [("-o", "text"), ("-otext",), ("--output=text",)])
def test_a_form_on_the_command_line_wins_where_the_call_fails_too(quickstart, monkeypatch, flag):
    monkeypatch.setenv("RECONCILER_OUTPUT", "json")
    assert quickstart.call("plan", "nosuch", *flag).out == ""
    assert quickstart.call("plan", "nosuch").out.startswith("{")


@pytest.mark.parametrize("verb", ["wake", "restore"])
def test_nothing_is_asked_of_a_read_only_cluster(quickstart, verb):
    put_in_state(quickstart, "ReadOnly")
    before = quickstart.objects()
    more = ["--auto-approve"] if verb == "restore" else []
    said = quickstart.call(verb, "us-east/dev-b", *LOOK, *more)
    assert said.code == 64
    assert "us-east is ReadOnly, nothing is written there" in said.err
    assert quickstart.objects() == before


@pytest.mark.parametrize("verb", ["picker", "activator"])
@pytest.mark.parametrize(
    ("address", "is_foreign"),
    [
        pytest.param("198.51.100.1", True, id="of another machine"),
        pytest.param("::ffff:198.51.100.1", True, id="that nobody listens on"),
        pytest.param("127.0.0.1", False, id="its own, and the port is taken"),
    ],
)
def test_who_cannot_listen_names_the_flag_that_is_wrong(quickstart, address, is_foreign, verb):
    certificate, key = write_server_pair(quickstart.path / "tls")
    flag, *flags = {
        "picker": ("--address", "policies", "--cluster=eu-west", f"--tls-cert={certificate}", f"--tls-key={key}"),
        "activator": ("--pod-ips", "--pod-name=a", "--pod-uid=u"),
    }[verb]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = quickstart.call(verb, *flags, "--context=any", flag, address, "--http-port", port)
    words = f"{flag}: {address}: " if is_foreign else f"--http-port: {port}: "
    assert said.code == 64
    assert f"error: {words}" in said.err
