"""Names and texts from outside, through every verb and every form: no control character of theirs is printed."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest
import yaml

from reconciler import redaction
from reconciler.yaml.reader import read_documents
from tests.pipeline.calls import Folder, Said, inside

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)
HOSTILE = "x\x1b[2J\x07\x7f\r\n::error::y\x85z\x9b31m\u202egnp\u200b\u2028##[add-mask]q\u2069"
TELLING = ("\x1b", "\r", "\x07", "\x9b", "\u202e", "\u200b", "\u2028")


def with_hostile_names(folder: Folder) -> Folder:
    """Give every pod, and one of each kind of object that is written to, a name with control characters."""
    for file in sorted((folder.path / "snapshot").rglob("*.yaml")):
        if file.name == "metrics.yaml":
            continue
        documents = [one for one in yaml.safe_load_all(file.read_text()) if one]
        for one in (item for document in documents for item in document.get("items", [document])):
            spoil(one)
        file.write_text(yaml.safe_dump_all(documents))
    return folder


def spoil(one: dict) -> None:
    metadata = one["metadata"]
    if one["kind"] in ("Pod", "StatefulSet", "CronJob"):
        metadata["name"] += HOSTILE
    if one["kind"] in ("Deployment", "Service"):
        metadata.setdefault("annotations", {})["reconciler/exclude-until"] = HOSTILE
    if metadata["name"] == "reports":
        metadata["annotations"]["idling.kubernetes.io/previous-scale"] = HOSTILE


def check_clean(said: Said, *, commands: bool = False) -> None:
    """Check that nothing but printable characters and ends of lines was printed, and no line is a command."""
    for text in (said.out, said.err):
        odd = sorted({character for character in text if not character.isprintable() and character != "\n"})
        assert odd == [], text
        assert "##[" not in text
        assert commands or not any(line.lstrip().startswith("::") for line in text.split("\n")), text


VERBS = [
    *(("plan", "policies", *LOOK, "-o", form) for form in ("text", "json", "yaml", "markdown", "html")),
    ("plan", "policies", *LOOK, "-v"),
    ("diff", "policies", *LOOK),
    ("plan", "policies", *LOOK, "--base", "policies", "--days", "1", "-o", "markdown"),
    ("apply", "policies", *LOOK, "--auto-approve", "-v", "--progress", "plain"),
    ("apply", "policies", *LOOK, "--auto-approve", "-o", "json", "--progress", "json"),
    ("explain", "eu-west", *LOOK),
    ("explain", "us-east/dev-b", *LOOK),
    ("rank", "eu-west/batch/deploy/worker", "--to", "2", *LOOK),
    ("rank", "eu-west/ci", *LOOK),
    ("wake", "us-east/dev-b", "--policies", "policies", *LOOK),
    ("restore", "--all", "--policies", "policies", *LOOK, "--auto-approve"),
    ("calendar", "policies", "--now", NOW),
]


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_names_with_control_characters_print_none(quickstart, arguments):
    said = with_hostile_names(quickstart).call(*arguments)
    check_clean(said)
    assert said.code in (0, 4, 6, 64), said
    if "json" in arguments and "--progress" not in arguments:
        json.loads(said.out)
    if "yaml" in arguments:
        yaml.safe_load(said.out)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("plan", "policies", *LOOK, "--run-id", "12e4"), id="plan with a run like a number"),
        pytest.param(("compile", "policies"), id="compile"),
        pytest.param(("explain", "eu-west/dev-a", *LOOK), id="explain"),
        pytest.param(("status", "--policies", "policies", *LOOK), id="status"),
        pytest.param(("forecast", "policies", *LOOK, "--days", "1"), id="forecast"),
        pytest.param(("schema", "Plan"), id="schema"),
    ],
)
def test_yaml_is_read_as_what_json_says(quickstart, arguments):
    folder = with_hostile_names(quickstart)
    text = folder.call(*arguments, "-o", "yaml").out
    expected = json.loads(folder.call(*arguments, "-o", "json").out)
    assert [one.value for one in read_documents("a.yaml", text).found] == [expected], "read as YAML 1.2"
    assert yaml.safe_load(text) == expected, "read as YAML 1.1"


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_credential_in_the_names_of_objects_is_printed_in_no_form(form, quickstart):
    """What is carried out is named as it is: only what is printed has no credential in it."""
    token = "ey4x0123456789.abc"
    for file in sorted((quickstart.path / "snapshot").rglob("*.yaml")):
        file.write_text(file.read_text().replace("dev-a", f"dev-{token}"))
    for file in (quickstart.path / "policies").rglob("*.yaml"):
        file.write_text(file.read_text().replace("dev-a", f"dev-{token}"))
    assert token in quickstart.plan(NOW, "-o", form).out, "else nothing is shown below"
    redaction.remember(token)
    said = quickstart.plan(NOW, "-o", form, "--out", "plan.json")
    assert token not in said.out + said.err
    assert "dev-(secret)" in said.out
    assert form != "json" or json.loads(said.out)
    assert token in (quickstart.path / "plan.json").read_text()
    applied = quickstart.call("apply", "plan.json", *LOOK, "-o", form, "--progress", "plain")
    assert (applied.code, token in applied.out + applied.err) == (0, False), applied


def test_the_names_are_there_all_the_same(quickstart):
    """Else the test above would pass with nothing printed."""
    folder = with_hostile_names(quickstart)
    text = folder.plan(NOW).out
    assert "runnerx\\x1b[2J" in text
    made = json.loads(folder.plan(NOW, "-o", "json").out)
    assert {"runner" + HOSTILE, "nightly" + HOSTILE} <= {one["object"]["name"] for one in made["actions"]}
    same = yaml.safe_load(folder.plan(NOW, "-o", "yaml").out)
    assert {one["object"]["name"] for one in same["actions"]} == {one["object"]["name"] for one in made["actions"]}


CALLS = [
    ("plan", HOSTILE),
    ("plan", "policies", "--snapshot", HOSTILE),
    ("plan", "policies", *LOOK, "--policy", HOSTILE),
    ("plan", "policies", *LOOK, "-l", HOSTILE),
    ("plan", "policies", *LOOK, "--allow-exceed", HOSTILE),
    ("plan", "policies", *LOOK, "--run-id", HOSTILE),
    ("plan", "policies", *LOOK, "--source-revision", HOSTILE, "-v"),
    ("plan", "policies", *LOOK, "--out", f"{HOSTILE}/plan.json"),
    ("plan", "policies", *LOOK, "--base", HOSTILE, "-o", "markdown"),
    ("plan", "policies", *LOOK, "--metrics-file", f"{HOSTILE}/metrics"),
    ("plan", "policies", "--now", HOSTILE),
    ("plan", f"--{HOSTILE}"),
    (HOSTILE,),
    ("show", HOSTILE),
    ("explain", f"IdlingPolicy.{HOSTILE}"),
    ("explain", f"{HOSTILE}/dev-a", *LOOK),
    ("rank", f"eu-west/batch/deploy/{HOSTILE}", *LOOK),
    ("wake", "eu-west/dev-a", "--policies", HOSTILE, *LOOK),
    ("restore", f"eu-west/{HOSTILE}", "--policies", "policies", *LOOK, "--auto-approve"),
    ("schema", HOSTILE),
    ("doctor", "policies", "--context", HOSTILE, "--snapshot", HOSTILE),
    ("validate", HOSTILE, "-o", "json"),
    ("validate", HOSTILE, "-o", "github"),
]


def named(arguments: tuple[str, ...]) -> str:
    return " ".join(one.replace(HOSTILE, "HOSTILE") for one in arguments if one not in LOOK)


@pytest.mark.parametrize("arguments", CALLS, ids=named)
def test_arguments_with_control_characters_print_none(quickstart, arguments):
    """With a byte that is no UTF-8 too."""
    said = quickstart.call(*(one.replace(HOSTILE, f"{HOSTILE}\udc9b") for one in arguments))
    check_clean(said, commands="github" in arguments)
    assert "x\\x1b" in said.out + said.err, "what is not printed at all shows nothing"


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_a_file_named_like_a_command(quickstart, form):
    with inside(quickstart.path):
        Path("policies", f"a,b:c%{HOSTILE.replace('/', '')}.yaml").write_text("kind: IdlingPolicy\nx: [\n")
    said = quickstart.call("validate", "policies", "-o", form)
    assert said.code == 3
    check_clean(said, commands=form == "github")
    if form == "github":
        lines = said.out.splitlines()
        assert all(line.startswith(r"::error file=policies/a%2Cb%3Ac%25x\u001b[2J") for line in lines), lines
        assert r"\r\n%3A%3Aerror%3A%3Ay" in lines[0]


def test_what_a_snapshot_calls_its_files_and_fields(quickstart):
    quickstart.write(f"snapshot/eu-west/{HOSTILE}.yaml", f"kind: Deployment\nspec: {json.dumps(HOSTILE)}\n")
    said = quickstart.plan(NOW)
    assert said.code == 3
    check_clean(said)
    os.mkdir(quickstart.path / "snapshot" / HOSTILE)
    (quickstart.path / "snapshot" / "eu-west" / f"{HOSTILE}.yaml").unlink()
    said = quickstart.plan(NOW)
    assert "no cluster of the Fleet" in said.err
    check_clean(said)


def test_a_saved_plan_with_names_of_its_own(quickstart):
    quickstart.plan(NOW, "--out", "plan.json")
    file = quickstart.path / "plan.json"
    made = json.loads(file.read_text())
    made["revision"] = made["fleet"] = HOSTILE
    hostile = dict.fromkeys(("kind", "subject", "text", "policy"), HOSTILE)
    made["notices"].append({**hostile, "partial": True, "reasonCode": "", "reasons": []})
    made["unknown"][HOSTILE] = HOSTILE
    file.write_text(json.dumps(made))
    for form in ("text", "json", "yaml", "markdown", "html"):
        said = quickstart.call("show", "plan.json", "-o", form, "-v")
        assert said.code == 0
        check_clean(said)
    check_clean(quickstart.call("apply", "plan.json", *LOOK))


def test_colours_are_ours_alone(quickstart):
    said = with_hostile_names(quickstart).plan(NOW, "--color", "always")
    assert "\x1b[31m" in said.out
    assert "\x1b[2J" not in said.out
    assert not any(one in said.out for one in TELLING if one != "\x1b")


def test_nothing_prints_but_one_module(repository):
    """A `print` or an `echo` elsewhere would not be escaped. The help, which holds nothing from outside, may."""
    found = set()
    for file in sorted((repository / "reconciler").rglob("*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"print|echo|sys\.std(out|err)", text) else ():
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "click.echo", "click.secho", "echo") or called.startswith("traceback.print"):
                found.add(file.relative_to(repository).as_posix())
            if called.endswith((".write", ".writelines")) and ("sys.stdout" in called or "sys.stderr" in called):
                found.add(file.relative_to(repository).as_posix())
    assert found == {"reconciler/__main__.py", "reconciler/cli/output.py"}
