"""`python -m tests.mutation`: which small changes to the pure rooms no test notices.

Exit 1 where more than 5 % survive that `accepted.yaml` does not name, or where it names what there is no more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.runner import ROOT, WHICH, Fate, Runner, sampled

ALLOWED = 0.05
ACCEPTED = Path(__file__).with_name("accepted.yaml")
TESTS = (
    "tests/apply",
    "tests/decide",
    "tests/observe",
    "tests/plan",
    "tests/saved_plan",
    "tests/report/test_plan_json.py",
    "tests/isolation/test_unexpected_errors.py",
    "tests/activator/test_run_side.py",
    "tests/decide/test_desired_state.py",
    "tests/pipeline/test_closed_loop.py",
    "tests/scenarios",
)
OPTIONS = ("-m", WHICH, "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "--assert=plain", "--capture=no")
ROOMS = (
    "reconciler/decide",
    "reconciler/plan",
    *(f"reconciler/saved_plan/{name}.py" for name in ("allowed_changes", "beyond_approval", "differences")),
)


def modules(parts: Sequence[str]) -> list[tuple[str, Path]]:
    """Return (name, file) of the modules at or below `parts`."""
    found: list[tuple[str, Path]] = []
    for part in parts:
        path = ROOT / part
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        found += [(str(file.relative_to(ROOT).with_suffix("")).replace("/", "."), file) for file in files]
    return [one for one in dict.fromkeys(found) if one[1].name != "__init__.py"]


def _missing(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if not (ROOT / part).exists()]


Name = tuple[str, str, str, str]


def accepted() -> list[tuple[Name, str]]:
    """Return the names of accepted survivors, and why each is."""
    found = yaml.safe_load(ACCEPTED.read_text()) or []
    return [((one["module"], one["function"], one["line"], one["mutation"]), one["reason"]) for one in found]


def problems_of(found: Sequence[tuple[Name, str]]) -> list[str]:
    """Return what is wrong with accepted mutants: those that are no mutants any more, or stand there twice."""
    named = {name[0] for name, _ in found}
    known = {one.name for module, file in modules(ROOMS) if module in named for one in mutants_of(module, file)}
    counts = Counter(name for name, _ in found)
    gone = [f"accepted, but no mutant any more: {name}" for name in counts if name not in known]
    return gone + [f"accepted twice: {name}" for name, count in counts.items() if count > 1]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(ROOMS), help="files or folders (default: %(default)s)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutations that contain TEXT, as min(")
    parser.add_argument("--fast", action="store_true", help="without scenarios and laws")
    parser.add_argument("--tests", nargs="*", default=list(TESTS))
    return parser.parse_args()


def _tell(mutant: Mutant, fate: Fate) -> None:
    if fate in (Fate.SURVIVED, Fate.NOWHERE) and mutant.name not in dict(accepted()):
        print(f"{fate}: {mutant}", file=sys.__stderr__, flush=True)


def _told(mutants: Sequence[Mutant], fates: Sequence[Fate], reasons: dict[Any, str]) -> int:
    """Print the rate of each module, and return how many survive without a reason."""
    counts: dict[str, Counter[Fate | str]] = defaultdict(Counter)
    for mutant, fate in zip(mutants, fates, strict=True):
        counts[mutant.module]["accepted" if fate is Fate.SURVIVED and mutant.name in reasons else fate] += 1
    bad = 0
    for module, of in sorted(counts.items()):
        left = of[Fate.SURVIVED] + of[Fate.NOWHERE]
        tried = of.total() - of[Fate.UNCHANGED]
        bad += left
        rate = f"{100 * left / tried:.1f} %" if tried else "-"
        print(f"{module}: {tried} mutants, {left} survive ({rate}), {of['accepted']} accepted")
    return bad


def main() -> int:
    arguments = _arguments()
    if missing := _missing(arguments.modules):
        print(f"no such module: {', '.join(missing)}", file=sys.stderr)
        return 2
    every = [mutant for name, file in modules(arguments.modules) for mutant in mutants_of(name, file)]
    mutants = sampled([one for one in every if arguments.only in one.mutation], arguments.sample, arguments.seed)
    runner = Runner(mutants, _tell, fast=arguments.fast)
    pytest.main([*OPTIONS, *arguments.tests], [runner])
    if runner.broken or len(runner.fates) < len(mutants):
        print("the tests fail without any mutant", file=sys.stderr)
        return 2
    problems = problems_of(accepted())
    for problem in problems:
        print(problem, file=sys.stderr)
    bad = _told(mutants, runner.fates, dict(accepted()))
    tried = sum(fate is not Fate.UNCHANGED for fate in runner.fates)
    print(f"{tried} mutants, {bad} survive, {ALLOWED:.0%} are allowed")
    return 1 if problems or bad > ALLOWED * tried else 0


if __name__ == "__main__":
    sys.exit(main())
