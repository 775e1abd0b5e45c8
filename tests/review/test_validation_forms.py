"""`validate -o sarif`, `-o gitlab` and `-o github`: the same problems at the same places, whatever they are called."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from jsonschema import Draft202012Validator

from reconciler.errors import Problem
from reconciler.report.code_host import code_quality, leveled, sarif
from tests.pipeline.calls import Folder


def places(folder: Folder) -> dict[str, list[tuple[str, int]]]:
    """What each form says is where."""
    log = json.loads(folder.call("validate", "policies", "-o", "sarif").out)
    found = [one["locations"][0]["physicalLocation"] for one in log["runs"][0]["results"]]
    quality = json.loads(folder.call("validate", "policies", "-o", "gitlab").out)
    lines = folder.call("validate", "policies", "-o", "github").out.splitlines()
    commands = [re.match(r"::(?:error|warning) file=(.*?),line=(\d+),", line) for line in lines]
    return {
        "sarif": [(unquote(one["artifactLocation"]["uri"]), one["region"]["startLine"]) for one in found],
        "gitlab": [(one["location"]["path"], one["location"]["lines"]["begin"]) for one in quality],
        "github": [(one[1].replace("%2C", ",").replace("%3A", ":"), int(one[2])) for one in commands if one],
    }


@pytest.mark.parametrize(
    ("files", "expected", "code"),
    [
        pytest.param({}, [], 0, id="valid"),
        pytest.param({"a b,c:ö.yaml": "kind: [\n"}, [("policies/a b,c:ö.yaml", 2)], 3, id="a name with signs"),
        pytest.param(
            {"b.yaml": "kind: X\n---\nkind: Calendar\n", "a.yaml": "- x\n"},
            [("policies/a.yaml", 1), ("policies/b.yaml", 1), ("policies/b.yaml", 3)],
            3,
            id="several files",
        ),
    ],
)
def test_all_forms_name_the_same_places(quickstart, files, expected, code):
    for name, text in files.items():
        quickstart.write(f"policies/{name}", text)
    found = places(quickstart)
    assert sorted(set(found["sarif"])) == expected
    assert found["sarif"] == found["gitlab"] == found["github"]
    assert {quickstart.call("validate", "policies", "-o", form).code for form in ("sarif", "gitlab", "github")} == {
        code
    }


@pytest.mark.parametrize("form", ["sarif", "gitlab"])
def test_a_full_path_says_the_same_as_a_relative_one(quickstart, form):
    """Code hosts know files by their path in the repository, and a pipeline may have another folder each time."""
    quickstart.write("policies/a.yaml", "- x\n")
    full, relative = (
        quickstart.call("validate", path, "-o", form).out for path in (f"{quickstart.path}/policies", "policies")
    )
    assert full == relative


@pytest.mark.parametrize("form", ["sarif", "gitlab", "github"])
def test_files_are_named_from_the_root_of_the_repository_wherever_that_is_checked_out(quickstart, form):
    quickstart.write("policies/a.yaml", "- x\n")
    at_the_root = quickstart.call("validate", "policies", "-o", form).out
    for name in ("policies", ".git"):
        (quickstart.path / "checkout" / name).mkdir(parents=True)
    for file in (quickstart.path / "policies").iterdir():
        file.rename(quickstart.path / "checkout" / "policies" / file.name)
    (quickstart.path / "link").symlink_to("checkout")
    for path in ("checkout/policies", "link/policies"):
        assert quickstart.call("validate", path, "-o", form).out == at_the_root
    assert "policies/a.yaml" in at_the_root


def test_warnings_are_minor_and_fail_nothing(quickstart):
    text = (quickstart.path / "policies" / "idling.yaml").read_text()
    quickstart.write("policies/idling.yaml", text.replace('include: ["dev-*"]', 'include: ["dev-*", dev-shared]'))
    said = quickstart.call("validate", "policies", "-o", "sarif")
    (result,) = json.loads(said.out)["runs"][0]["results"]
    assert (said.code, result["level"], result["ruleId"]) == (0, "warning", "doubtful-policy")
    (one,) = json.loads(quickstart.call("validate", "policies", "-o", "gitlab").out)
    assert one["severity"] == "minor"


def test_json_has_the_warnings_that_text_says(quickstart):
    text = (quickstart.path / "policies" / "idling.yaml").read_text()
    quickstart.write("policies/idling.yaml", text.replace('include: ["dev-*"]', 'include: ["dev-*", dev-shared]'))
    said = quickstart.call("validate", "policies", "-o", "json")
    (warning,) = json.loads(said.out)["warnings"]
    assert said.err == quickstart.call("validate", "policies").err
    place = f"{warning['file']}:{warning['line']}:{warning['column']}"
    assert said.err == f"warning: {place}: {warning['field']}: {warning['message']}\n"


@pytest.mark.parametrize("form", ["sarif", "gitlab", "github"])
def test_a_form_without_a_first_night_refuses_a_snapshot_instead_of_leaving_it_unread(quickstart, form):
    said = quickstart.call("validate", "policies", "-o", form, "--snapshot", "/nonexistent")
    assert (said.code, said.out) == (64, "")
    assert "--snapshot" in said.err


@pytest.mark.parametrize("form", ["sarif", "gitlab", "github"])
def test_a_folder_that_is_not_there_is_a_problem_too(quickstart, form):
    said = quickstart.call("validate", "nowhere", "-o", form)
    assert said.code == 3
    assert "does not exist" in said.out


SARIF = Draft202012Validator(yaml.safe_load(Path(__file__).with_name("sarif.yaml").read_text()))
ODD_PROBLEMS = [
    Problem("policies/a.yaml", 1, 1, "", "is empty"),
    Problem("./policies/../b c:ö,%.yaml", 3, 7, "spec.x", "is \x1b[2J"),
    Problem("a:b?x#y[]{}|\\^`<>.yaml", 1, 1, "spec", "is\nmany\u2028lines"),
    Problem(f"{'x' * 300}.yaml", 10**9, 10**6, "y" * 5000, "z" * 100_000),
    Problem("not utf-8 \udcff.yaml", 1, 1, "", "is \udcff"),
]


@pytest.mark.parametrize("problem", ODD_PROBLEMS, ids=["plain", "signs", "markup", "long", "no UTF-8"])
@pytest.mark.parametrize("level", ["error", "warning"])
def test_a_log_is_valid_sarif_whatever_a_problem_says(problem, level):
    text = sarif([(level, problem), (level, problem)], "0.1.0")
    text.encode()
    log = json.loads(text)
    assert [error.message for error in SARIF.iter_errors(log)] == []
    assert len(log["runs"][0]["results"]) == 2


def test_a_log_has_what_code_scanning_needs():
    found = leveled([Problem("./a/../b.yaml", 3, 7, "spec.x", "is \x1b[2J")], [])
    log = json.loads(sarif(found, "0.1.0"))
    assert (log["version"], log["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["semanticVersion"]) == ("reconciler", "0.1.0")
    (result,) = run["results"]
    assert result["ruleId"] in {rule["id"] for rule in driver["rules"]}
    assert result["message"] == {"text": "spec.x: is \\x1b[2J"}
    place = {"artifactLocation": {"uri": "b.yaml"}, "region": {"startLine": 3, "startColumn": 7}}
    assert result["locations"] == [{"physicalLocation": place}]


def test_a_fingerprint_stays_while_lines_move_and_is_of_one_problem_only():
    first, moved, other = Problem("a", 1, 1, "x", "y"), Problem("a", 9, 2, "x", "y"), Problem("a", 1, 1, "x", "z")

    def marks(*problems: Problem) -> list[str]:
        return [one["fingerprint"] for one in json.loads(code_quality(leveled(problems, [])))]

    assert marks(first) == marks(moved)
    assert len({*marks(first, moved, other), *marks(other, first)}) == 3
