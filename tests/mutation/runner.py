"""Runs tests against mutants, each mutant in a forked process, and tells which of them no test notices."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutation.mutants import Mutant, Unchanged, install

ROOT = Path(__file__).resolve().parents[2]
WHICH = "not soak and not bench and not real"
_MEMORY = 6 * 2**30


class Fate(StrEnum):
    """`NOWHERE`: no test runs the code at all, which is as bad as SURVIVED."""

    KILLED = "killed"
    SURVIVED = "survived"
    NOWHERE = "not run by any test"
    UNCHANGED = "cannot be made"


_FATES = {0: Fate.SURVIVED, 2: Fate.UNCHANGED}


@dataclass(frozen=True, slots=True)
class Covered:
    """What one test runs, as (file, function), and how many seconds of a processor it takes."""

    item: int
    functions: frozenset[tuple[str, str]]
    seconds: float
    is_slow: bool


@dataclass(eq=False)
class _Watch:
    """Notes what fails, and the functions that are called while it traces."""

    under: str
    failed: bool = False
    ends: bool = False  # this process, at what fails: to tell of it takes longer than most tests
    codes: dict[int, CodeType] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if self.ends and call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            os._exit(1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    def trace(self, frame: FrameType, _event: str, _argument: Any) -> None:
        self.codes[id(frame.f_code)] = frame.f_code  # kept, so that no other one gets its id

    @property
    def called(self) -> frozenset[tuple[str, str]]:
        ours = (code for code in self.codes.values() if code.co_filename.startswith(self.under))
        return frozenset((code.co_filename, _outermost(code.co_qualname)) for code in ours)


def remembering(rooms: Sequence[str]) -> list[Any]:
    """Return the functions of `rooms` that remember results for the whole process, such as `reconciler.decide`."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith(tuple(rooms))]
    spaces = [vars(module) for module in loaded]
    spaces += [vars(kind) for space in spaces for kind in list(space.values()) if isinstance(kind, type)]
    values = (getattr(value, "__func__", value) for space in spaces for value in list(space.values()))
    return [value for value in values if hasattr(value, "cache_clear")]


def _outermost(qualified: str) -> str:
    return qualified.partition(".<locals>")[0]


def _is_slow(item: pytest.Item) -> bool:
    """Return whether it tries many cases, or is a scenario."""
    return item.get_closest_marker("laws") is not None or item.nodeid.startswith("tests/scenarios/")


class Runner:
    """A pytest plugin that runs mutants instead of the tests. `fates` are in the order of `mutants`."""

    def __init__(self, mutants: Sequence[Mutant], tell: Any, *, fast: bool = False) -> None:
        self._fast = fast
        self._mutants = mutants
        self._tell = tell
        self.fates: list[Fate] = []
        self.broken = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = [one for one in session.items if not (self._fast and _is_slow(one))]
        self._watch = _Watch(str(ROOT / "reconciler"))
        session.config.pluginmanager.register(self._watch)
        self._remembering = remembering(("reconciler.decide", "reconciler.plan", "reconciler.saved_plan"))
        gc.freeze()  # or each forked process copies what the collector touches
        covered = self._coverage()
        self.broken = covered is None
        for mutant in self._mutants if covered is not None else ():
            fate = self._fate(mutant, covered)
            self.fates.append(fate)
            self._tell(mutant, fate)
        return True

    def _coverage(self) -> list[Covered] | None:
        """Return what each test runs, from a run of all of them without a mutant; None where one fails."""
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.close(reader)
            try:
                with os.fdopen(writer, "wb") as pipe:
                    pickle.dump(list(self._traced()), pipe)
            finally:
                os._exit(1 if self._watch.failed else 0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
        return pickle.loads(said) if os.waitpid(child, 0)[1] == 0 else None

    def _traced(self) -> Iterable[Covered]:
        for place, item in enumerate(self._items):
            self._watch.codes.clear()
            self._forget()  # or only the first test that asks would count as one that runs the function
            began = time.process_time()
            sys.settrace(self._watch.trace)
            self._run(item, self._items[place + 1] if place + 1 < len(self._items) else None)
            sys.settrace(None)
            seconds = time.process_time() - began
            yield Covered(place, self._watch.called, seconds, _is_slow(item))
            if self._watch.failed:
                print(f"fails without a mutant: {item.nodeid}", file=sys.stderr)
                return

    def _forget(self) -> None:
        for function in self._remembering:
            function.cache_clear()

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)

    def _fate(self, mutant: Mutant, covered: Sequence[Covered]) -> Fate:
        tests = _tests_of(mutant, covered)
        if not tests:
            return Fate.NOWHERE
        if (child := os.fork()) == 0:
            try:
                self._try(mutant, tests)
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        return _FATES.get(os.waitstatus_to_exitcode(status), Fate.KILLED)

    def _try(self, mutant: Mutant, tests: Sequence[Covered]) -> None:
        """Run the tests, the most specific first, until one fails; end with 0 where none does."""
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        self._forget()
        try:
            install(mutant)
        except Unchanged:
            os._exit(2)
        self._watch.ends = True
        items = [self._items[test.item] for test in tests]
        for test, item, following in zip(tests, items, [*items[1:], None], strict=True):
            _limit(2 + 5 * test.seconds)
            self._run(item, following)
        os._exit(1 if self._watch.failed else 0)


def _limit(seconds: float) -> None:
    """End this process where its next test takes longer than that: a loop may have lost its end."""
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of its own; the signal ends it
    signal.setitimer(signal.ITIMER_REAL, 60 + 20 * seconds)  # for what waits, on a busy machine


def _tests_of(mutant: Mutant, covered: Sequence[Covered]) -> list[Covered]:
    """Return the tests that run what is changed: slow ones last, and those that run the least of everything first."""
    file = str(ROOT / f"{mutant.module.replace('.', '/')}.py")
    if mutant.is_constant:
        chosen = [test for test in covered if any(name == file for name, _ in test.functions)]
    else:
        chosen = [test for test in covered if (file, mutant.function) in test.functions]
    return sorted(chosen, key=lambda test: (test.is_slow, len(test.functions), test.item))


def sampled(mutants: Sequence[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """Return `count` of the mutants, the same for the same seed, in their own order; all for None."""
    if count is None or count >= len(mutants):
        return list(mutants)
    lots = sorted(mutants, key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())
    chosen = {one.name for one in lots[:count]}
    return [one for one in mutants if one.name in chosen]
