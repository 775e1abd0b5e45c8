"""Whatever stands in a policy file: problems with a place or policies, never anything else."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reconciler.errors import PolicyError, Problem
from reconciler.model import QueryKey
from reconciler.policy.compiled import compile_policies
from reconciler.policy.kinds.fields import query_fault, render_query
from reconciler.policy.load import check_policies, read_fleet
from reconciler.policy.policy_files import load
from reconciler.policy.schemas import load_schema
from tests.laws import tries
from tests.policy.mutations import mutated

YAML_PIECES = (
    *("- ", ": ", "&a ", "*a", "<<: ", "? ", "| ", "> ", "!!int ", "\n", "\n  ", "\t", "---", "..."),
    *"{}[],#'\"",
)
WORDS = ("apiVersion: reconciler/v1alpha1", "kind: Fleet", "metadata", "name", "spec", "clusters")
TEMPLATE_PIECES = ("{{ window }}", " window ", "{{", "}}", "{%", "%}", "{#", "#}", "cluster", "|", "if", "endif")


def check(folder: Path, content: bytes) -> None:
    (folder / "any.yaml").write_bytes(content)
    lines = content.count(b"\n") + content.count(b"\r") + content.count(b"\xe2\x80") + content.count(b"\xc2\x85") + 1
    for problem in problems_of(folder):
        assert problem.file == str(folder / "any.yaml") or (problem.file, problem.line) == (str(folder), 1)
        assert 1 <= problem.line <= lines + 1
        assert problem.column >= 1
        assert problem.message.isprintable()
        assert "a bug" not in problem.message
        assert problem.field.isprintable()


def problems_of(folder: Path) -> tuple[Problem, ...]:
    with suppress(PolicyError):
        read_fleet(folder)
    try:
        policies, problems = check_policies(folder)
    except PolicyError as error:
        return error.problems
    assert (policies is None) == bool(problems)
    assert list(problems) == sorted(set(problems))
    if policies is not None:
        json.dumps(compile_policies(policies), allow_nan=False)
        assert not refused_by_schema(folder)
    return problems


def refused_by_schema(folder: Path) -> list[str]:
    """Return what an editor that knows the published schemas would say."""
    documents = [document.value for document in load(folder).documents]
    return [error.message for one in documents for error in PUBLISHED[one["kind"]].iter_errors(one)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("policies")


shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@given(content=st.binary(max_size=200))
@tries(100, shared_folder)
def test_any_bytes(folder, content):
    check(folder, content)


@given(content=st.lists(st.sampled_from(YAML_PIECES + WORDS) | st.text(max_size=3), max_size=40).map("".join))
@tries(200, shared_folder)
def test_any_text_that_looks_like_yaml(folder, content):
    check(folder, content.encode(errors="replace"))


KINDS = ("Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet", "DownscalePolicy", "ReplicaSet", "Deployment")
PUBLISHED = {kind: Draft202012Validator(load_schema(kind)) for kind in KINDS}


def as_yaml(documents: list[Any]) -> bytes:
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True).encode("utf-8", errors="replace")


@given(content=mutated().map(as_yaml))
@tries(240, shared_folder, at_length=20_000)
def test_any_mutation_of_valid_policies(folder, content):
    check(folder, content)


@given(pieces=st.lists(st.sampled_from(TEMPLATE_PIECES) | st.text(max_size=4), max_size=15))
@tries(200)
def test_a_template_without_fault_can_be_rendered(pieces):
    template = "".join(pieces)
    if query_fault(template) is None:
        render_query(QueryKey("eu-west", "idle-dev", template, "5m"))
