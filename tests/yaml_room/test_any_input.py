"""Whatever stands in a file: documents or problems, within the limits. One reader, so one test for all its uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import reconciler.yaml.reader as limits
from reconciler.errors import Problem
from reconciler.policy.policy_files import load
from reconciler.yaml.documents import Document
from reconciler.yaml.files import decoded_text
from reconciler.yaml.reader import MAX_ALIASED_NODES, MAX_DEPTH, MAX_PROBLEMS, Documents, read_documents
from tests.backends.folders import a_folder, a_snapshot_cluster
from tests.laws import tries

SEEDS = (
    "apiVersion: reconciler/v1alpha1\nkind: Fleet\nmetadata: {name: production}\nspec:\n  clusters:\n  - name: east\n",
    "kind: List\nitems:\n- &a {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {<<: *a, status: {phase: Running}}\n",
    "# a\n---\na: |\n  text\n  ---\n...\n%TAG !y! tag:yaml.org,2002:\n---\n? !y!str b\n: [1, 0x1F, .5, ~, 'x', \"\"]\n",
    '{"kind": "List", "items": [{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}}]}',
)
PIECES = st.sampled_from(
    (*"{}[],#'\"*&!|>%@`\t\r\0\x85\u2028\ufeff\ud7ff\U0001f600", "- ", ": ", "? ", "\n---\n", "\n...\n", "<<: ", "&a ")
) | st.sampled_from(
    ("*a", "!!int ", "!<tag:%0A> ", "%YAML 1.2\n", "1e999", "9" * 30, "9" * 5000, "0x" + "f" * 4000, "-.inf", "\n  ")
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file with bytes removed, doubled or replaced, in any of the encodings."""
    data = bytearray(draw(st.sampled_from(SEEDS)), draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 12)))
        put = st.sampled_from([b"", bytes(data[at:end]) * 2]) | st.binary(max_size=6) | PIECES.map(str.encode)
        data[at:end] = draw(put)
    return bytes(data)


def depth_of(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inside), default=0) if isinstance(value, dict | list) else 0


def paths_of(value: Any) -> list[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((step, *path) for step, inside in entries for path in paths_of(inside))]


def check(content: bytes) -> None:
    text = decoded_text("a.yaml", content)
    if isinstance(text, Problem):
        check_problems([text], content.decode("latin-1"))
        return
    read = read_documents("a.yaml", text)
    check_problems(read.problems, text)
    assert read.problems or (read.complete and all(one.whole for one in read.found))
    check_texts(read, text)
    for document in read.found:
        assert depth_of(document.value) <= MAX_DEPTH
        check_places(document, text)


def check_problems(problems: list[Problem], text: str) -> None:
    lines = len(text.splitlines()) + text.count("\r") + 2
    assert len(problems) <= MAX_PROBLEMS + limits._MAX_SYNTAX_PROBLEMS
    for one in problems:
        assert (one.file, one.field) == ("a.yaml", "")
        assert 1 <= one.line <= lines
        assert one.column >= 1
        assert one.message.isprintable()


def check_texts(read: Documents, text: str) -> None:
    """The texts of the documents are the file, and each is read as that document alone."""
    if not read.problems and read.found:
        assert "".join(one.text for one in read.found) == text
    for document in read.found:
        alone = read_documents("a.yaml", document.text)
        assert alone.found[0].value == document.value


def check_places(document: Document, text: str) -> None:
    for path in paths_of(document.value)[:50]:
        line, column = document.place(path)
        assert document.lines_before < line <= len(text.splitlines()) + text.count("\r") + 2
        assert column >= 1
        assert document.place(path, key=True)[0] <= line


@tries(120, at_length=20_000)
@example(content=b"%TAG ! tag:yaml.org,2002:\n---\na: !str 1\n")
@example(content=b"a: !<tag:%0A> b\n")
@example(content=b"\xff\xfe\x00\xd8")
@given(content=mutated() | st.binary(max_size=200))
def test_any_bytes_are_documents_or_problems(content: bytes) -> None:
    check(content)


@tries(120, at_length=20_000)
@given(content=st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join))
def test_any_text_that_looks_like_yaml(content: str) -> None:
    check(content.encode(errors="replace"))


def chained(anchors: int, levels: int) -> str:
    """Anchors that hold the one before them, each many levels deeper."""
    lines = (f"a{number}: &a{number} {'[' * levels}*a{number - 1}{']' * levels}" for number in range(1, anchors + 1))
    return "\n".join(["a0: &a0 x", *lines])


DEEP = f"is nested deeper than {MAX_DEPTH} levels, expected fewer"
WIDE = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(24)
)
LIMITS = pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(chained(20, 60), DEEP, id="20 chained anchors of 60 levels"),
        pytest.param(chained(20, 90), DEEP, id="20 chained anchors of 90 levels"),
        pytest.param("[" * 300_000, DEEP, id="open lists"),
        pytest.param("? " * 5_000 + "a", DEEP, id="keys inside keys"),
        pytest.param(WIDE, f"aliases stand for more than {MAX_ALIASED_NODES} values, expected fewer", id="a bomb"),
    ],
)


@LIMITS
def test_the_limits_are_the_same_for_policies_and_for_manifests(tmp_path: Path, text: str, message: str) -> None:
    (of_a_policy,) = load(a_folder(tmp_path, {"a.yaml": text})).problems
    (of_a_manifest,) = a_snapshot_cluster(tmp_path, {}).problems()
    assert (of_a_policy.message, of_a_manifest) == (message, of_a_policy)


def test_json_has_the_same_depth(tmp_path: Path) -> None:
    head = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "x": '
    for levels, problems in ((MAX_DEPTH - 1, 0), (MAX_DEPTH, 1), (900, 1)):
        text = head + '["]", ' * levels + "1" + "]" * levels + "}"
        assert len(a_snapshot_cluster(tmp_path, {"a.json": text}).problems()) == problems


def test_values_and_problems_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_NODES", 1000)
    for text in ("[" + "x," * 1001 + "]", "\n".join(f"k{n}: 1" for n in range(1100)), "- {a: b}\n" * 600):
        (problem,) = read_documents("a.yaml", text).problems
        assert problem.message == "is one of more than 1000 values, expected fewer in one file"
    assert read_documents("a.yaml", "[" + "x," * 990 + "]").problems == []
    read = read_documents("a.yaml", "a: 1\n" * 900)
    assert len(read.problems) == MAX_PROBLEMS + 1
    assert "the rest was not read" in read.problems[-1].message
    assert not read.complete
