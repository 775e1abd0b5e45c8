"""The reference says what the code says, and troubleshooting has messages of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from reconciler import model, workload_kinds
from reconciler.decide.annotations import Key
from reconciler.decide.reasons import CODES, TEXTS, ReasonCode, reason, text_of
from reconciler.errors import ExitCode, FailOn, first_exit_code
from tests.docs.pages import ROOT, blocks
from tests.docs.reference import FOLDER, PAGES
from tests.report.validators import SCHEMAS, schema_files

DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_written_from_the_code_is_up_to_date(page: Path) -> None:
    written: Callable[[], str] = PAGES[page]
    assert page.read_text() == written(), "run `python -m tests.docs`"


def test_the_schemas_are_those_of_the_code() -> None:
    found = {file: file.read_text(encoding="utf-8") for file in SCHEMAS.iterdir()}
    assert found == schema_files(), "run `python -m tests.docs`"


def test_every_annotation_and_label_is_described() -> None:
    named = {**vars(Key), **vars(model), **vars(workload_kinds)}.items()
    known = {value for name, value in named if name.isupper() and isinstance(value, str) and "/" in value}
    described = set(re.findall(r"`([a-z0-9.]+/[a-z-]+)`", (FOLDER / "annotations.md").read_text()))
    assert described - {"federation.kubernetes.io/replica-set-preferences"} == known


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    page = (FOLDER / "exit-codes.md").read_text()
    rows = re.findall(r"^\| .* \| (\d+) \| (.*?) \|", page, re.MULTILINE)
    failing = {word: int(code) for code, word in re.findall(r"\| (\d) \(`(.*?)`\)", page)}
    assert {int(code) for code, _ in rows} | set(failing.values()) == set(ExitCode)
    assert failing == {FailOn.HELD_BACK: 4, FailOn.UNKNOWN: 6, FailOn.CONFLICT: 6}
    [order] = re.findall(r"the first of this list counts: ([\d, ]+)", page)
    codes = [ExitCode(int(code)) for code in order.split(", ")]
    assert [first_exit_code(codes[place:]) for place in range(len(codes))] == codes
    assert set(codes) == set(ExitCode)


@cache
def texts() -> tuple[str, ...]:
    """Return every text in the code, an f-string with NAME for what stands in it."""
    found = []
    for file in (ROOT / "reconciler").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.append("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values))
    return tuple(found)


def reasons_as_printed() -> Iterator[str]:
    """Yield every reason as people read it, with NAME for what stands in it."""
    ages = {"ago": "\0 ago", "since": "for \0"}
    for code in CODES:
        yield re.sub(r"\{\w+:?(\w*)[^}]*\}", lambda found: ages.get(found[1], "\0"), TEXTS[code])
    until = reason(ReasonCode.ANNOTATION_UNTIL, annotation=Key.EXCLUDE_UNTIL, value="\0")
    yield text_of((reason(ReasonCode.EXCLUDED, object="\0"), until))


def test_every_message_of_the_page_on_troubleshooting_is_one_of_the_code() -> None:
    known = "\n".join((*texts(), *reasons_as_printed()))
    page = (DOCS / "troubleshooting.md").read_text()
    messages = re.findall(r"^### `(.+)`$", page, re.M)
    assert len(messages) >= 30
    missing = [
        (message, piece)
        for message in messages
        for piece in re.split(r"\b[A-Z][A-Z_]+\b|\.\.\.", message)
        if len(piece.strip(' "()')) > 3 and piece.strip(' "()') not in known
    ]
    assert missing == []


def test_the_findings_of_doctor_on_its_page_are_worded_as_in_the_code() -> None:
    (shown,) = [
        block.text
        for block in blocks((DOCS / "how-to" / "connect-clusters.md").read_text())
        if "doctor\n" in block.text
    ]
    pieces = {piece.strip() for text in texts() for piece in text.split("\0")}
    known = [piece for piece in pieces if len(piece) > 5 and "reconciler" not in piece]
    lines = [re.fullmatch(r"(\w+) +\S+ +(\w+) +(.+)", line) for line in shown.splitlines()[1:]]
    assert len(lines) > 8
    for line in lines:
        assert line is not None
        sign, check, words = line.groups()
        assert {sign, check} <= pieces
        assert check in {"identity", "server"} or any(piece in words for piece in known), words
