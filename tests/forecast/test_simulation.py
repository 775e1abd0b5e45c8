"""The forecast plays only the runs that matter: a run at every tick of the cron does the same, and nothing more."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from reconciler.forecast.review import differences_of
from reconciler.forecast.timelines import forecast
from tests.forecast.worlds import STARTS, random_fleet, random_policies, ticks, timeline

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


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_no_effect_is_said_only_where_a_run_at_every_event_and_random_tick_has_none(part: int) -> None:
    for seed in range(30 * part, 30 * part + 30):
        check_an_edit(sorted(STARTS)[seed % 3], f"edit {seed}", 50)


def test_the_difference_of_two_forecasts_is_that_of_two_simulations() -> None:
    check_an_edit("a week", "edit 1", 5)


def check_an_edit(season: str, seed: str, count: int) -> None:
    """Compare two sets of policies on one fleet: forecasts differ just where runs at many more ticks do."""
    start = STARTS[season]
    fleet = random_fleet(f"{season} {seed}", start)
    other = replace(fleet, policies=random_policies(random.Random(f"other {seed}"), start))
    end = start + timedelta(days=4)
    made = [forecast(one.policy_set, one.simulation(), start, end) for one in (fleet, other)]
    every = list(ticks(start, end))
    played = [{step.at for step in one.simulation().play(start, end)} for one in (fleet, other)]
    chosen = sorted(played[0] | played[1] | {start} | set(random.Random(seed).sample(every, count)))
    brute = []
    for one in (fleet, other):
        simulation = one.simulation()
        brute.append(timeline([simulation.run(at) for at in chosen]))
    assert bool(differences_of(made[0], made[1], ())) is (brute[0] != brute[1])
