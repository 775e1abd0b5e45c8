"""Whatever API servers answer: a documented exit code in time, never a traceback."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import pytest

from tests.live.stage import Stage
from tests.pipeline.mutated_files import judge, of_bytes, of_json
from tests.real.proxy import Exchange, Fault, Request

PARTS, RUNS = 20, 50
SHARE = 0.2
"""So many of the answers are mutants; a run gets some fifty answers."""

STATUSES = (200, 200, 200, 200, 200, 201, 204, 206, 301, 304, 400, 404, 409, 418, 422, 500, 599)


def mutant(chance: random.Random, count: Iterator[int]) -> Fault:
    """Return what lets the server do it, and answers with something like its answer."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            body = answer.read()
        next(count)
        changed = chance.choice((of_json, of_json, of_bytes))(chance, body)
        headers = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
        if chance.random() < 0.1:
            odd = ("99999999999999999999", "-1", "Fri, 31 Dec 99999 00:00:00 GMT", "\xff", "")
            headers[chance.choice(("Retry-After", "Date", "Content-Encoding", "Location"))] = chance.choice(odd)
        status = chance.choice(STATUSES) if chance.random() < 0.2 else answer.status
        length = len(changed) + chance.choice((0, 0, 0, 0, 7, -3))
        exchange.answer(status, changed, headers, length=max(0, length))
        if length != len(changed):
            exchange.close()

    return fault


def answered_oddly(stage: Stage, seed: str) -> int:
    """Call the command line on servers that answer oddly, and return how many mutants they sent."""
    chance = random.Random(seed)
    stage.filled()
    stage.clear()
    count = itertools.count()

    def is_chosen(_: Request) -> bool:
        return chance.random() < SHARE

    stage.rule(mutant(chance, count), matching=is_chosen, times=None)
    began = time.monotonic()
    verb = chance.choice((stage.plan, stage.apply, stage.apply))
    said = verb("--timeout", "10", "--request-timeout", "2")
    judge(said, began, seed)
    stage.clear()
    return next(count)


@pytest.mark.parametrize("part", [-1, *(pytest.param(part, marks=pytest.mark.soak) for part in range(PARTS))])
def test_odd_answers_end_as_they_should(stage: Stage, part: int) -> None:
    runs, each, seed = (4, 1, "answers") if part < 0 else (RUNS, 5, f"answers {part}")
    assert sum(answered_oddly(stage, f"{seed} {number}") for number in range(runs)) >= runs * each
