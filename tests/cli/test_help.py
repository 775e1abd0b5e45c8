"""Help and completion: every default, options in groups, examples that can be run; what variables may hold."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

from reconciler.cli.app import COMPLETE, cli
from reconciler.cli.options import Verb
from reconciler.cli.verbs import VERBS, help_text
from tests.pipeline.calls import Folder

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)


def command(verb: str) -> Verb:
    found = cli.get_command(click.Context(cli), verb)
    assert isinstance(found, Verb)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_two_examples_a_sentence_about_variables_and_every_default(tmp_path, verb):
    said = Folder(tmp_path).call(verb, "--help")
    assert said.code == 0
    examples = said.out.partition("\nExamples:\n")[2]
    assert examples.count("  # ") == len(command(verb).example_lines) / 2 >= 2
    text = " ".join(said.out.split()).replace("- ", "-")
    assert text.count("Each option has an environment variable, RECONCILER_ and its name") == 1
    for one in command(verb).params:
        default = one.default
        if isinstance(default, float):
            assert f"[default: {default:g}]" in text, one.name
        elif isinstance(default, str | int) and not isinstance(default, bool):
            assert f"[default: {default}]" in text, one.name


@pytest.mark.parametrize("line", [line for verb in VERBS for line in command(verb).example_lines[1::2]])
def test_the_options_of_an_example_are_those_of_its_verb(line):
    """Parsed, not run; what follows a pipe or a redirection is the shell's."""
    shown = line.split(" | ")[0].split(" > ")[0].removeprefix("source <(").rstrip(")")
    _, verb, *arguments = shlex.split(shown)
    with command(verb).make_context(verb, arguments) as context:
        assert context.params


def test_the_help_has_each_verb_once_in_a_group_on_80_columns():
    titles = re.findall(r"^(\S.*):$", help_text(), re.MULTILINE)
    assert titles == ["Options", "Policies", "Clusters", "Operate", "Move in and out", "CI and shells"]
    assert re.findall(r"^  ([a-z]+)  ", help_text(), re.MULTILINE) == list(VERBS)
    assert max(map(len, help_text().splitlines())) <= 80


def test_options_stand_in_groups(tmp_path):
    text = Folder(tmp_path).call("plan", "--help").out
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "Clusters:", "Filters:", "Run:", "Output:", "Examples:"]


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb not in ("activator", "completion", "import", "schema", "show")]
)
def test_the_policy_directory_has_one_default_and_one_variable(verb):
    """PATH where a verb has no OBJECT, --policies PATH where it has one, and for a saved plan."""
    params = {one.name: one for one in command(verb).params}
    takes_object = bool(params.keys() & {"subject", "directory", "tool"}) or verb == "uninstall"
    places = {name: params[name].envvar for name in ("path", "policies") if name in params}
    beside_path = {"policies": None} if verb == "test" else {}  # a variable there would win over a PATH that is given
    assert places == {**dict.fromkeys(places, "RECONCILER_POLICIES"), **beside_path}
    assert "policies" in params if takes_object else "path" in params
    assert "fleet" not in params


def test_the_policy_directory_is_named_by_path_or_by_its_variable(quickstart, monkeypatch):
    shutil.move(quickstart.path / "policies", quickstart.path / "elsewhere")
    said = quickstart.call("plan", *LOOK)
    assert (said.code, said.err.endswith("with policy files; PATH names another one\n")) == (3, True)
    assert quickstart.call("explain", "eu-west/dev-a", *LOOK).err.endswith("; --policies PATH names another one\n")
    monkeypatch.setenv("RECONCILER_POLICIES", "elsewhere")
    assert quickstart.call("plan", *LOOK).code == 0
    assert quickstart.call("explain", "eu-west/dev-a", *LOOK).code == 0


def test_a_rate_of_writes_is_for_what_writes_and_for_its_plan():
    takes = {verb for verb in VERBS if any(one.name == "qps" for one in command(verb).params)}
    assert takes == {"plan", "diff", "apply", "wake", "restore", "freeze", "unfreeze", "adopt", "uninstall"}


@pytest.mark.parametrize(
    ("variable", "value", "arguments", "code"),
    [
        pytest.param("RECONCILER_OUTPUT", "xml", ("plan", *LOOK), 64, id="no verb has it"),
        pytest.param("RECONCILER_OUTPUT", "github", ("plan", *LOOK), 0, id="another verb has it"),
        pytest.param("RECONCILER_PROGRESS", "text", ("plan", *LOOK), 64, id="no verb has that progress"),
        pytest.param("RECONCILER_FOR", "plan", ("wake", "us-east/dev-b", *LOOK), 0, id="doctor's word for wake"),
        pytest.param("RECONCILER_FOR", "soon", ("wake", "us-east/dev-b", *LOOK), 64, id="nobody's word"),
        pytest.param("RECONCILER_FOR", "soon", ("doctor",), 64, id="nobody's word for doctor"),
        pytest.param("RECONCILER_BY", "team", ("savings", *LOOK), 0, id="forecast's word for savings"),
        pytest.param("RECONCILER_SINCE", "60d", ("savings", *LOOK), 0, id="longer than what is kept, for history"),
        pytest.param("RECONCILER_SINCE", "7d", ("suggest", *LOOK[:2]), 3, id="shorter than what can be learned from"),
        pytest.param("RECONCILER_NOW", "soon", ("validate", "policies"), 64, id="no time for any verb"),
        pytest.param("RECONCILER_NOW", "2026-11-20T22:00:00Z", ("validate", "policies"), 0, id="a time for another"),
    ],
)
def test_a_variable_that_no_verb_accepts_is_refused(quickstart, monkeypatch, variable, value, arguments, code):
    monkeypatch.setenv(variable, value)
    said = quickstart.call(*arguments)
    assert said.code == code, said.err
    assert code != 64 or value in said.err


@pytest.mark.parametrize(
    ("variable", "arguments"),
    [
        pytest.param("RECONCILER_BY", ("forecast", *LOOK, "--days", "1"), id="a group"),
        pytest.param("RECONCILER_NAMESPACE", ("doctor",), id="a namespace"),
        pytest.param("RECONCILER_CLUSTER", ("rbac",), id="a cluster"),
    ],
)
def test_an_error_of_a_value_names_the_variable_where_that_gave_it(quickstart, monkeypatch, variable, arguments):
    flag = f"--{variable.removeprefix('RECONCILER_').lower()}"
    assert quickstart.call(*arguments, flag, "tenants").err.startswith(f"error: {flag}: ")
    monkeypatch.setenv(variable, "tenants")
    assert quickstart.call(*arguments).err.startswith(f"error: {variable}: ")


def test_a_filter_that_a_variable_sets_is_named_where_restore_refuses_it(quickstart, monkeypatch):
    monkeypatch.setenv("RECONCILER_POLICY", "idle-dev")
    said = quickstart.call("restore", "--all", "--yes", *LOOK).err
    assert said == "error: RECONCILER_POLICY: stands beside --all, expected one of the two\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash on this machine")
def test_bash_completes_with_the_function_that_the_script_defines(tmp_path):
    (tmp_path / "completion").write_text(Folder(tmp_path).call("completion", "bash").out)
    program = tmp_path / "reconciler"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m reconciler "$@"\n')
    program.chmod(0o755)
    script = (
        "source completion; COMP_WORDS=(reconciler plan --progress j); COMP_CWORD=3; "
        "_reconciler_completion reconciler; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    called = ["bash", "-c", script]
    done = subprocess.run(called, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "json\n"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("d", ["plain,diff", "plain,doctor"]),
        ("plan --qp", ["plain,--qps"]),
        ("completion z", ["plain,zsh"]),
        ("schema cat", ["plain,catalog"]),
        ("schema Id", ["plain,IdlingPolicy"]),
        ("explain Fl", ["plain,Fleet"]),
        ("explain IdlingPolicy.spec.pri", ["plain,IdlingPolicy.spec.priority"]),
        pytest.param("plan --snapshot sn", ["dir,sn"], id="a snapshot is a folder"),
        pytest.param("validate --snapshot sn", ["dir,sn"], id="also for validate"),
        pytest.param("plan --out pl", ["file,pl"], id="a saved plan is a file"),
        pytest.param("plan --base ba", ["file,ba"], id="policies are a file or a folder"),
    ],
)
def test_shells_are_offered_words_or_paths(line, offered):
    *before, begun = line.split(" ")
    found = ShellComplete(cli, {}, "reconciler", COMPLETE).get_completions(before, begun)
    assert [f"{one.type},{one.value}" for one in found] == offered


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef reconciler\n"), ("fish", "function _reconciler")])
def test_other_shells_get_their_script(tmp_path, shell, begins):
    said = Folder(tmp_path).call("completion", shell)
    assert said.code == 0
    assert said.out.startswith(begins)
