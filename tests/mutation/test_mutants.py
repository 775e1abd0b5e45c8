"""What the mutants are, and that a run of them tells which of them the tests notice."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from reconciler.decide.placement import rounding
from tests.mutation.__main__ import accepted, problems_of
from tests.mutation.mutants import mutants_of
from tests.mutation.runner import ROOT, remembering, sampled


def mutations(tmp_path, source: str) -> list[str]:
    path = tmp_path / "room.py"
    path.write_text(textwrap.dedent(source))
    return [f"{one.function}: {one.mutation}" for one in mutants_of("room", path)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("x = a < b", ["a < b -> a <= b"], id="a bound"),
        pytest.param("x = a == b", ["a == b -> a != b"], id="equality"),
        pytest.param("x = a in b", ["a in b -> a not in b"], id="membership"),
        pytest.param("x = a and b", ["a and b -> a or b"], id="and"),
        pytest.param("x = not a", ["not a -> a"], id="not"),
        pytest.param("x = a + b", ["a + b -> a - b"], id="arithmetic"),
        pytest.param("x = min(a, b)", ["min(a, b) -> max(a, b)"], id="min and max"),
        pytest.param("x = any(a)", ["any(a) -> all(a)"], id="any and all"),
        pytest.param("x = 3", ["3 -> 4", "3 -> 2"], id="a number"),
        pytest.param("x = 0", ["0 -> 1"], id="zero"),
        pytest.param("x = True", ["True -> False"], id="a constant"),
        pytest.param("f(a)", ["f(a) -> pass"], id="a statement"),
        pytest.param("x += a", ["x += a -> pass"], id="an assignment that adds"),
        pytest.param("return a", ["return a -> return None"], id="what is returned"),
        pytest.param("return None", [], id="nothing is returned"),
        pytest.param('x: Literal[1] = f"{a + 1}"', [], id="types and words"),
        pytest.param("if a: b = c", ["if a: b = c -> if False: b = c"], id="a guard"),
    ],
)
def test_what_may_become_of_a_line(tmp_path, line, expected):
    assert mutations(tmp_path, f"def one(a, b, c):\n    {line}\n") == [f"one: {mutation}" for mutation in expected]


def test_a_module_gives_its_constants_functions_and_methods(tmp_path):
    source = """
        import os
        LIMIT = 1
        class Noun:
            field: int = 0
            @property
            def many(self) -> bool:
                return self.field > LIMIT
    """
    assert mutations(tmp_path, source) == [
        "LIMIT: 1 -> 2",
        "LIMIT: 1 -> 0",
        "Noun.many: return self.field > LIMIT -> return None",
        "Noun.many: self.field > LIMIT -> self.field >= LIMIT",
    ]


def test_a_sample_is_the_same_for_the_same_seed(tmp_path):
    path = tmp_path / "room.py"
    path.write_text("\n".join(f"N{number} = {number}" for number in range(50)))
    every = list(mutants_of("room", path))
    first = sampled(every, 10, 1)
    assert (len(first), first) == (10, sampled(every, 10, 1))
    assert first != sampled(every, 10, 2)
    assert sampled(every, None, 1) == every


def test_what_is_accepted_is_there_once():
    assert problems_of(accepted()) == []


def test_an_accepted_mutant_whose_line_is_gone_is_named():
    kept, reason = accepted()[0]
    gone = (kept[0], kept[1], "return gone", kept[3])
    nowhere = ("reconciler.decide.nowhere", *kept[1:])
    assert problems_of([(kept, reason), (gone, reason), (nowhere, reason), (kept, reason)]) == [
        f"accepted, but no mutant any more: {gone}",
        f"accepted, but no mutant any more: {nowhere}",
        f"accepted twice: {kept}",
    ]


def test_functions_that_remember_results_are_found_to_be_emptied_for_each_test():
    found = {one.__qualname__ for one in remembering((rounding.__name__,))}
    assert {"_Lanes.over", "_prefix"} <= found


def test_a_run_tells_what_no_test_notices():
    """The guard's quarter is noticed by its table, and by nothing in a test of something else."""

    def run(tests: str) -> str:
        words = ["reconciler/decide/fleet_guard.py", "--only", "4 -> 3", "--tests", tests]
        return subprocess.run(
            [sys.executable, "-m", "tests.mutation", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout

    assert "1 mutants, 0 survive, 5% are allowed" in run("tests/decide/idling/test_idling_aggregates.py")
    assert "1 mutants, 1 survive, 5% are allowed" in run("tests/decide/schedule/test_schedule.py")
