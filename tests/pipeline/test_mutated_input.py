"""Any snapshot, policies, saved plan, annotations: a documented exit code in time, never a traceback."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.laws import share_of
from tests.pipeline.calls import Folder
from tests.pipeline.mutated_files import Mutant, judge, of_annotations, of_bytes, of_json, of_yaml

NOW = "2026-11-20T22:00:00Z"

PARTS = 40
TARGETS: dict[str, tuple[str, Sequence[Mutant]]] = {
    "snapshot": ("snapshot/*/*.yaml", (of_bytes, of_yaml, of_yaml)),
    "annotations": ("snapshot/*/*.yaml", (of_annotations,)),
    "policies": ("policies/*.yaml", (of_bytes, of_yaml, of_yaml)),
    "saved plan": ("plan.json", (of_bytes, of_json, of_json)),
}
EACH = {"snapshot": 15_000, "annotations": 15_000, "policies": 10_000, "saved plan": 10_000}
"""How many mutants of each there are in all parts together."""


class MutatedQuickstart:
    """The quickstart, one file of it changed at a time."""

    def __init__(self, example: Path, target: Path) -> None:
        self.folder = Folder.copied(example, target)
        self.folder.plan(NOW, "--out", "plan.json")
        self._kept = target.with_name("kept")
        shutil.copytree(target, self._kept)

    def files(self, pattern: str) -> list[Path]:
        return sorted(self.folder.path.glob(pattern))

    def put_back(self) -> None:
        shutil.rmtree(self.folder.path)
        shutil.copytree(self._kept, self.folder.path)


def calls(chance: random.Random, target: str) -> tuple[str, ...]:
    """Return one call that reads `target`; half of them write."""
    snapshot = ("--snapshot", "snapshot", "--now", NOW)
    if target == "saved plan":
        shows = ("show", "plan.json", "-o", chance.choice(("text", "json", "markdown", "html")))
        return chance.choice((("apply", "plan.json", *snapshot, "--auto-approve"), shows))
    output = ("-o", chance.choice(("text", "text", "json", "markdown", "html")))
    plan = ("plan", "policies", *snapshot, *output)
    explain = ("explain", "eu-west/dev-a/Deployment/api", *snapshot)
    return chance.choice((plan, plan, ("apply", "policies", *snapshot, "--auto-approve", *output), explain))


def mutants(mutated: MutatedQuickstart, target: str, part: int, count: int) -> None:
    pattern, ways = TARGETS[target]
    files = mutated.files(pattern)
    for number in range(count):
        chance = random.Random(f"{target} {part} {number}")
        file, way = chance.choice(files), chance.choice(ways)
        before = file.read_bytes()
        file.write_bytes(way(chance, before))
        words = calls(chance, target)
        began = time.monotonic()
        said = mutated.folder.call(*words)
        judge(said, began, f"{target} {part} {number}: {way.__name__} of {file.name}, {' '.join(words)}")
        if words[0] == "apply":
            mutated.put_back()
        else:
            file.write_bytes(before)


@pytest.fixture
def mutated(repository: Path, tmp_path: Path) -> MutatedQuickstart:
    return MutatedQuickstart(repository / "examples" / "quickstart", tmp_path / "quickstart")


@pytest.mark.parametrize("part", [-1, *(pytest.param(part, marks=pytest.mark.soak) for part in range(PARTS))])
@pytest.mark.parametrize("target", TARGETS)
def test_no_mutant_ends_in_a_traceback(mutated: MutatedQuickstart, target: str, part: int) -> None:
    mutants(mutated, target, part, share_of(36) if part < 0 else EACH[target] // PARTS)
