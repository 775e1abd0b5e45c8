"""YAML text -> documents: YAML 1.2 types, anchors within a budget, the place of everything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reconciler.errors import Problem
from reconciler.yaml.documents import Document
from reconciler.yaml.reader import TOO_LARGE, read_documents
from tests.cases import cases


def read(text: str) -> tuple[list[Document], list[Problem], bool]:
    documents = read_documents("p.yaml", text)
    return documents.found, documents.problems, documents.complete


def only(text: str) -> Document:
    documents, problems, complete = read(text)
    assert (len(documents), problems, complete) == (1, [], True)
    return documents[0]


def said(text: str) -> list[str]:
    return [str(problem) for problem in read(text)[1]]


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:30", "22:30"),
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("y", "y"),
        ("2026-11-20", "2026-11-20"),
        ("2026-11-20T15:41:23Z", "2026-11-20T15:41:23Z"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("+12", 12),
        ("-12", -12),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1e308", 1e308),
        ("1.2.3", "1.2.3"),
        ("inf", "inf"),
        ("-1.5E-3", -0.0015),
        ("1:30:00", "1:30:00"),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("'12'", "12"),
        ('"true"', "true"),
        ('".inf"', ".inf"),
        ("!!str 12", "12"),
        ("!!map {}", {}),
        ('!!int "12"', 12),
        ("!!float 1", 1),
        ("! 12", "12"),
        ("=", "="),
        (".", "."),
        ("-", [None]),
        ("٣", "٣"),
        ("9223372036854775807", 2**63 - 1),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_types_are_those_of_yaml_1_2(text, value):
    found = only(f"key: {text}").value["key"] if text != "-" else only("key:\n  -").value["key"]
    assert (found, type(found)) == (value, type(value))


INFINITE = (".inf", "-.INF", ".nan", "1e999")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "is not finite, expected a finite number, or a text in quotes") for text in INFINITE),
        ("99999999999999999999", TOO_LARGE),
        ("1" * 5000, TOO_LARGE),
        ("!!int x", "is no int, expected what its tag says"),
        ("!!bool 1", "is no bool, expected what its tag says"),
        ("!!timestamp 2026-11-20", 'has the tag "tag:yaml.org,2002:timestamp", expected none'),
        ("!!binary aGk=", 'has the tag "tag:yaml.org,2002:binary", expected none'),
        ("!own {a: 1}", 'has the tag "!own", expected none'),
        ("!!set {a}", 'has the tag "tag:yaml.org,2002:set", expected none'),
    ],
)
def test_values_that_json_could_not_hold_are_refused(text, message):
    assert said(f"a: 1\nkey: {text}") == [f"p.yaml:2:6: {message}"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [("on: 1", ["on"]), ("1: 1", ["1"]), ("010: 1", ["010"]), ("~: 1", ["~"]), ("true: 1", ["true"])],
)
def test_keys_are_texts_as_written(text, keys):
    assert list(only(text).value) == keys


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("a: &x {k: 1}\nb: {<<: *x, l: 2}", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}),
        ("a: &x {k: 1}\nb: {k: 3, <<: *x}", {"a": {"k": 1}, "b": {"k": 3}}),
        (
            "a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}",
            {"a": {"k": 1}, "b": {"k": 2, "l": 2}, "c": {"k": 1, "l": 2}},
        ),
        ("b: {'<<': 1}", {"b": {"<<": 1}}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("&x a: 1\nb: *x", {"a": 1, "b": "a"}),
        ("a: &x k\n*x : 1", {"a": "k", "k": 1}),
    ],
)
def test_anchors_aliases_and_merge_keys(text, value):
    assert only(text).value == value


NO_ANCHOR = "names no anchor that ends before it, expected one; put a text in quotes"
NO_TEXT = "a key is a collection, expected a text"
NO_VALUES = "is no YAML: mapping values are not allowed in this context"


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: 1\nb: 2\na: 3", '3:1: "a" is given twice, expected once', id="a key twice"),
        pytest.param("a: {b: 1, b: 2}", '1:11: "b" is given twice, expected once', id="a key twice in a line"),
        pytest.param("? [a]\n: 1", f"1:3: {NO_TEXT}", id="a list as key"),
        pytest.param("a: &x [1]\n*x : 1", f"2:1: {NO_TEXT}", id="an alias of a list as key"),
        pytest.param("a: &x 1\n*x : 1", "2:1: a key is an alias of no text, expected a text", id="of a number"),
        pytest.param("a: {<<: 1}", "1:4: << merges something that is no mapping, expected a mapping", id="merge"),
        pytest.param("a: *b", f'1:4: "*b" {NO_ANCHOR}', id="no anchor"),
        pytest.param("a: &x [*x]", f'1:8: "*x" {NO_ANCHOR}', id="a list in itself"),
        pytest.param("a: &x {<<: *x}", f'1:12: "*x" {NO_ANCHOR}', id="merge of itself"),
        pytest.param("a: &x 1\n---\nb: *x", f'3:4: "*x" {NO_ANCHOR}', id="an anchor of the document before"),
        pytest.param("a: 1\n\tb: 2", "2:1: is no YAML: found a tab character that violates indentation", id="a tab"),
        pytest.param(
            "a:\n  b: 1\n\u00a0\u00a0c: 2\n  d: 3",
            f"4:4: {NO_VALUES}; line 3 begins with a no-break space, expected spaces",
            id="a no-break space",
        ),
        pytest.param("a: b: c", f"1:5: {NO_VALUES}", id="two colons"),
        pytest.param(
            "a: 'b\nc: 1\n---\nd: [",
            "1:4: is no YAML: a quote begins here and does not end, expected one more\n"
            "5:1: is no YAML: did not find expected node content",
            id="an open quote",
        ),
        pytest.param("a: [*]", '1:5: is * without quotes, which begins an alias, expected "*"', id="a star"),
        pytest.param("a: \x00", "1:4: character #x00 is not allowed in YAML", id="NUL"),
        pytest.param("é: 1\nb: \x07", "2:4: character #x07 is not allowed in YAML", id="BEL after letters"),
        pytest.param('a: "\\ud800"', "1:7: is no YAML: found invalid Unicode character escape code", id="surrogate"),
        pytest.param("%YAML 3.0\n---\na: 1", "1:1: is no YAML: found incompatible YAML document", id="version"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text, expected):
    assert said(text) == [f"p.yaml:{line}" for line in expected.splitlines()]


def test_documents_are_read_on_after_one_that_cannot_be():
    text = "a: 1\n---\nb: [\n---\nc: *x\n---\n# nothing\n---\nd: 4\n---\ne: {\n"
    documents, problems, complete = read(text)
    assert [(one.value, one.line) for one in documents] == [({"a": 1}, 1), ({"d": 4}, 9)]
    assert [(one.line, one.column) for one in problems] == [(4, 1), (5, 4), (12, 1)]
    assert not complete


def test_a_document_with_a_wrong_value_is_there_all_the_same():
    documents, problems, complete = read("a: .nan\nb: 2")
    assert (documents[0].value, len(problems), complete) == ({"a": None, "b": 2}, 1, True)


@pytest.mark.parametrize("text", ["", "\n", "# only words\n", "---\n", "---\n---\n# x\n...\n", "~", "null\n"])
def test_empty_documents_are_skipped(text):
    assert read(text) == ([], [], True)


def bomb(levels: int, width: int) -> str:
    lines = [f"a0: &a0 [{','.join(['x'] * width)}]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines)


def test_the_budget_of_aliases_is_for_the_whole_file():
    documents, problems, _ = read("\n---\n".join([bomb(5, 6)] * 100))
    assert 0 < len(documents) < 100
    assert "aliases stand for" in problems[0].message


def test_what_many_aliases_stand_for_is_held_once():
    value = only(bomb(6, 5)).value
    assert value["a5"][0] is value["a5"][4] is value["a4"]


PLACES = """\
apiVersion: v1
spec:
  "quoted key": 1
  list:
    - a
    - {b: [c,  d]}
  shared: &shared
    deep: 5
  used: {<<: *shared, own: 6}
  again: *shared
"""


@cases(
    "path value_at key_at",
    ("the whole document", (), (1, 1), (1, 1)),
    ("a scalar of the first field", ("apiVersion",), (1, 13), (1, 1)),
    ("a mapping", ("spec",), (3, 3), (2, 1)),
    ("a quoted key", ("spec", "quoted key"), (3, 17), (3, 3)),
    ("an item of a list", ("spec", "list", 0), (5, 7), (5, 7)),
    ("an item in flow style", ("spec", "list", 1, "b", 1), (6, 16), (6, 16)),
    ("a merged key", ("spec", "used", "deep"), (8, 11), (8, 5)),
    ("a key beside a merge", ("spec", "used", "own"), (9, 28), (9, 23)),
    ("a key of an alias", ("spec", "again", "deep"), (8, 11), (8, 5)),
    ("an item that is missing", ("spec", "list", 7), (5, 5), (5, 5)),
    ("a key that is missing", ("spec", "missing", "deeper"), (3, 3), (3, 3)),
)
def test_every_value_and_key_knows_its_place(path, value_at, key_at):
    for before in ("", "# words\n\n", "---\nx: 1\n---\n", "x: [\n---\n", "x: é\r\n---\r\n"):
        documents, _, _ = read(before + PLACES)
        lines = before.count("\n")
        line, column = documents[-1].place(path)
        assert (line - lines, column) == value_at
        line, column = documents[-1].place(path, key=True)
        assert (line - lines, column) == key_at


def test_columns_count_characters():
    assert only("ключ: {é: 1, b: 2}").place(("ключ", "b")) == (1, 17)


WITHOUT_LIBYAML = """
import yaml
yaml.__with_libyaml__ = False
from reconciler.yaml.reader import read_documents
read = read_documents("p.yaml", "a: [1, 2]\\n---\\nb: {c: on}\\nb: 2\\n---\\n[\\n")
print([one.value for one in read.found], [(one.line, one.column) for one in read.problems], read.complete)
"""


def test_without_libyaml_it_reads_the_same():
    done = subprocess.run([sys.executable, "-c", WITHOUT_LIBYAML], capture_output=True, text=True, check=True)
    assert done.stdout == "[{'a': [1, 2]}, {'b': 2}] [(4, 1), (7, 1)] False\n"


SEVERAL = """\
# a comment
---
kind: A
spec: {limits: {workloads: 3}, mode: Observe}
---

kind: B
spec:
    mode: &m Enforce
    limits:
      replicas: 2
---
base: &base {limits: {workloads: 1}}
spec:
  <<: *base
  mode: Observe
"""


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("path", [(), ("spec",), ("spec", "limits"), ("spec", "mode"), ("spec", "limits", "workloads")])
def test_places_by_the_marks_that_are_kept_are_those_of_a_second_reading(path, key):
    here = read_documents("a.yaml", SEVERAL, marked_keys=("spec", "limits")).found
    again = read_documents("a.yaml", SEVERAL).found
    assert len(here) == 3
    assert [one.place(path, key=key) for one in here] == [one.place(path, key=key) for one in again]


def test_where_marks_are_kept_nothing_is_read_again():
    (document,) = read_documents(
        "a.yaml", "kind: A\nspec:\n  limits: {workloads: 3}\n", marked_keys=("spec", "limits")
    ).found
    document.mark = lambda _: pytest.fail("read again")
    assert document.place(("spec", "limits"), key=True) == (3, 3)
