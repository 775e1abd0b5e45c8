"""SECURITY.md names, for each attack, tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NUMBERS = [f"C{n}" for n in (1, 2)] + [f"H{n}" for n in range(1, 12)] + [f"R{n}" for n in range(1, 11)]
NONE_YET = "none yet: "


def rows(repository: Path) -> dict[str, str]:
    """The last column of the table of attacks, by their numbers."""
    lines = (repository / "SECURITY.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {found[0]: found[-1] for found in cells if re.fullmatch(r"[CHR]\d+", found[0])}


def test_every_attack_has_its_row(repository):
    assert list(rows(repository)) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_the_tests_of_an_attack_are_there(repository, number):
    named = rows(repository)[number]
    files = [] if named.startswith(NONE_YET) else named.split(", ")
    assert files or len(named) > len(NONE_YET), "a reason"
    for file in files:
        text = (repository / file).read_text()
        assert re.search(rf'test_{number.lower()}_|"{number} ', text), f"{file} has no test of {number}"
