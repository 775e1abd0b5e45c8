"""The forecast plays only the runs that matter: a run at every tick of the cron does the same, and nothing more."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from tests.forecast.worlds import STARTS, random_fleet, ticks, timeline

DAYS = timedelta(days=7)
MANY = 20


def check_every_tick(season: str, seed: object, days: timedelta = DAYS) -> None:
    """Compare with a run at every tick: the same steps."""
    start = STARTS[season]
    fleet = random_fleet(f"{season} {seed}", start)
    played = list(fleet.simulation().play(start, start + days))
    each = fleet.simulation()
    brute = [each.run(at) for at in ticks(start, start + days)]
    assert timeline(played) == timeline(brute)
    assert {step.at for step in brute if step.changed} <= {step.at for step in played}


def check_some_ticks(season: str, seed: object, count: int, days: timedelta = DAYS) -> None:
    """Compare with runs at the forecast's events, one tick around each, and `count` random ticks."""
    start = STARTS[season]
    fleet = random_fleet(f"{season} {seed}", start)
    played = list(fleet.simulation().play(start, start + days))
    every = list(ticks(start, start + days))
    events = [every.index(step.at) for step in played]
    around = {place + step for place in events for step in (-1, 0, 1) if 0 <= place + step < len(every)}
    chosen = sorted(around | set(random.Random(f"ticks {seed}").sample(range(len(every)), count)))
    each = fleet.simulation()
    assert timeline(played) == timeline([each.run(every[place]) for place in chosen])


@pytest.mark.parametrize(("season", "seed"), [("a week", 5), ("the clocks go back", 3), ("the clocks go forward", 1)])
def test_runs_in_between_do_nothing(season: str, seed: int) -> None:
    check_some_ticks(season, seed, 5, timedelta(days=4))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(MANY))
@pytest.mark.parametrize("season", STARTS)
def test_a_run_at_every_tick_does_the_same(season: str, seed: int) -> None:
    check_every_tick(season, f"every {seed}")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_a_run_at_events_and_random_ticks_does_the_same(part: int) -> None:
    for seed in range(20 * part, 20 * part + 20):
        check_some_ticks(sorted(STARTS)[seed % 3], f"some {seed}", 50)
