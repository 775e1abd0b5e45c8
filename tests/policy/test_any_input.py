"""Whatever stands in a policy file: problems with a place or policies, never anything else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reconciler.errors import PolicyError, Problem
from reconciler.policy.compiled import compile_policies
from reconciler.policy.load import load
from reconciler.policy.queries import query_fault, render_query
from reconciler.policy.reader import read_documents
from reconciler.policy.schemas import load_schema
from reconciler.policy.validate import check_policies, read_fleet
from tests.policy.base import FILES

PARSED = [one.value for name, text in FILES.items() for one in read_documents(name, text)[0]]
ODD_VALUES = (
    *(None, True, False, 0, -1, 1, 1.5, 2**53 + 1, 2**64, -(2**70), "", " ", "Europe/Paris\n", "\x00", "\u2028"),
    *("x", "*", "0", "-1", "true", "30m", "0s", "999999d", "25%", "Europe", "../etc/passwd", "{{ window", "a/b"),
    *("0xa9fea9fe", "169.254.169.254", "[::1]"),
    *("Mon 24:00-00:00", "Mon-Sun 00:00-24:00", "2026-12-01T00:00/2026-12-04T00:00", "\ud7ff\ue000", "é" * 70),
    *("{% set a = 1 %}", "http://[", "-----BEGIN CERTIFICATE-----\né\n", "fleet", "Calendar"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {"a": {"a": []}}}, {"name": "web"}, {"metric": {}}, {"*": None}),
)
YAML_PIECES = (
    "- ",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "? ",
    "| ",
    "> ",
    "!!int ",
    "\n",
    "\n  ",
    "\t",
    *"{}[],#'\"",
    "---",
    "...",
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
@settings(shared_folder, max_examples=300)
def test_any_bytes(folder, content):
    check(folder, content)


@given(content=st.lists(st.sampled_from(YAML_PIECES + WORDS) | st.text(max_size=3), max_size=40).map("".join))
@settings(shared_folder, max_examples=500)
def test_any_text_that_looks_like_yaml(folder, content):
    check(folder, content.encode(errors="replace"))


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inside in entries:
        yield from paths(inside, (*above, step))


def inside(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


KINDS = ("Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet", "DownscalePolicy", "ReplicaSet")
PUBLISHED = {kind: Draft202012Validator(load_schema(kind)) for kind in KINDS}

odd = st.sampled_from(ODD_VALUES).map(copy.deepcopy)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A set of all kinds of policies with a few values taken away, replaced, renamed, added or moved."""
    documents = copy.deepcopy(PARSED)
    for _ in range(draw(st.integers(1, 4))):
        places = [(number, path) for number, one in enumerate(documents) for path in paths(one) if path]
        number, path = draw(st.sampled_from(places))
        mutate(draw, inside(documents[number], path[:-1]), path[-1])
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def mutate(draw: st.DrawFn, parent: Any, step: Any) -> None:
    how = draw(st.sampled_from(("delete", "replace", "rename", "insert", "nest", "repeat")))
    if how == "delete":
        del parent[step]
    elif how == "replace":
        parent[step] = draw(odd)
    elif how == "nest":
        parent[step] = draw(st.sampled_from((lambda value: [value], lambda value: {"x": value})))(parent[step])
    elif isinstance(parent, list):
        parent.insert(step, copy.deepcopy(parent[step]) if how == "repeat" else draw(odd))
    elif how == "rename":
        parent[draw(st.sampled_from((f"{step}x", step[:-1], "a\nb", "\x85", "é", step.upper())))] = parent.pop(step)
    else:
        parent[draw(st.sampled_from(("x", "selector", "metric", "anyOf", "calendar", "replicas", "value")))] = draw(odd)


@given(content=mutated())
@settings(shared_folder, max_examples=400)
def test_any_mutation_of_valid_policies(folder, content):
    check(folder, content.encode("utf-8", errors="replace"))


@pytest.mark.soak
@given(content=mutated())
@settings(shared_folder, max_examples=20_000)
def test_any_mutation_of_valid_policies_for_long(folder, content):
    check(folder, content.encode("utf-8", errors="replace"))


@given(pieces=st.lists(st.sampled_from(TEMPLATE_PIECES) | st.text(max_size=4), max_size=15))
@settings(max_examples=500)
def test_a_template_without_fault_can_be_rendered(pieces):
    template = "".join(pieces)
    if query_fault(template) is None:
        render_query(template, window="5m", cluster="eu-west", policy="idle-dev")
