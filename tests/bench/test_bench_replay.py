"""A replay of a month: its time grows with the namespaces, each of which is played by itself."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from reconciler.forecast.timelines import Forecast
from tests.bench.measure import SHARES, Work, measured
from tests.forecast.random_fleets import policy_set
from tests.forecast.replays import FLEET, QUERY, START, STEP, WINDOW, a_policy, opened_of, replayed
from tests.forecast.traffic import OFFICE, calls, history_of

# One process does all of it here; the command line gives half of it to another one.
pytestmark = [pytest.mark.bench, pytest.mark.benchmark(disable_gc=True, timer=time.process_time)]
WORKLOADS = 2000
IN_ONE = 10  # of one namespace, with a policy of its own
MONTH = timedelta(days=30)


@pytest.mark.parametrize("count", [WORKLOADS // share for share in SHARES])
def test_a_month(benchmark, count: int) -> None:
    end = START + MONTH
    made = [calls(f"ns-{n // IN_ONE}", f"app-{n}", OFFICE, START - WINDOW, end, "bench") for n in range(count)]
    policies = policy_set([FLEET, *(a_policy(f"nights-{n}", f"ns-{n}") for n in range(count // IN_ONE))])
    history = history_of(made, QUERY, WINDOW, START, MONTH // STEP, STEP, averages=False)
    opened = opened_of(made)
    work = Work("replay of a month, a policy for each 10 workloads", count, rounds=1, growth=1.2)
    found = measured(benchmark, work, lambda: replayed(policies, opened, history, MONTH))
    assert isinstance(found, Forecast)
    assert len(found.timelines) == count
