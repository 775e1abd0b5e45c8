"""docs/reference/trust.md names, for each sentence and each attack, tests that are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NUMBERS = [f"C{n}" for n in (1, 2)] + [f"H{n}" for n in range(1, 12)] + [f"R{n}" for n in range(1, 11)]
NONE_YET = "none yet: "


def rows(repository: Path) -> dict[str, str]:
    """The last column of the table of attacks, by their numbers."""
    lines = (repository / "docs/reference/trust.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {found[0]: found[-1] for found in cells if re.fullmatch(r"[CHR]\d+", found[0])}


def test_every_attack_has_its_row(repository):
    assert list(rows(repository)) == NUMBERS


def test_the_tests_of_each_attack_are_there(repository):
    for number, named in attacks_and_tests(repository).items():
        assert [one for one in named if not is_there(repository, one)] == [], number


def attacks_and_tests(repository: Path) -> dict[str, list[str]]:
    """The tests and files that the table names, by the numbers of attacks; of one without, the reason stands there."""
    found = {}
    for number, named in rows(repository).items():
        assert named.removeprefix(NONE_YET), f"{number}: a reason"
        found[number] = [] if named.startswith(NONE_YET) else named.split(", ")
    return found


def is_there(repository: Path, named: str) -> bool:
    return named in collected(repository) if "::" in named else (repository / named).is_file()


@cache
def collected(repository: Path) -> frozenset[str]:
    """The tests in all files named here; a class stands for those in it."""
    every = [*attacks_and_tests(repository).values(), *sentences(repository).values()]
    files = {one.partition("::")[0] for named in every for one in named if "::" in one}
    return frozenset(
        f"{file}::{name}" for file in files for name in names_in(ast.parse((repository / file).read_text()))
    )


def names_in(part: ast.Module | ast.ClassDef) -> Iterator[str]:
    for one in part.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test"):
            yield one.name
        elif isinstance(one, ast.ClassDef) and one.name.startswith("Test"):
            yield one.name
            yield from (f"{one.name}::{name}" for name in names_in(one))


# Sentences


def sentences(repository: Path) -> dict[str, list[str]]:
    """What the page says that holds: each sentence and the tests that it names."""
    text = (repository / "docs/reference/trust.md").read_text()
    part = text.partition("## Who is trusted with what")[2].partition("\n## ")[0]
    found = {}
    for item in re.findall(r"^- (.*(?:\n  .*)*)", part, re.M):
        sentence, _, tests = " ".join(item.split()).rpartition(" (`tests/")
        found[sentence] = re.findall(r"`([^`]+)`", "`tests/" + tests)
    return found


def test_each_sentence_stands_alone_with_the_tests_that_show_it(repository):
    found = sentences(repository)
    assert len(found) > 30
    assert [one for one, tests in found.items() if not one.endswith((".", "(`make soak`).")) or not tests] == []
    assert [one for one in found if re.search(r"[.!?] [A-Z]", one)] == [], "one sentence in each item"


def test_the_tests_of_each_sentence_are_run(repository):
    named = [test for tests in sentences(repository).values() for test in tests]
    assert [test for test in named if test not in collected(repository)] == []
