"""The forecast plays only the runs that matter: a cron that runs `apply` at every tick does the same, and nothing more.

The cron runs on the folder of a snapshot; what came of it is read from the files, without anything of the forecast.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.forecast.decision_times import recorded_moments
from reconciler.forecast.review import Review, review_of
from reconciler.forecast.review_report import render_text
from reconciler.forecast.timelines import Forecast
from reconciler.policy.types import Autoscalers, PolicySet
from tests.builders import a_cluster, a_policy_set, a_state, a_workload, an_hpa
from tests.decide.idling.idling_policies import NIGHT, a_policy
from tests.forecast.cron import CronFolder, Steps, Workload, key_of, steps_of
from tests.forecast.random_fleets import STARTS, edited, policy_set, random_fleet, ticks
from tests.pipeline.calls import Folder

DAYS = timedelta(days=7)
SEASONS = sorted(STARTS)
EARLIER = tuple(timedelta(minutes=10 * number) for number in range(90, 0, -18))
"""How long before the start of a review the runs were that it finds the marks of."""


def moments_of(start: datetime, days: timedelta, played: frozenset[datetime], count: int | None) -> list[datetime]:
    """Return every tick; with `count` only those of `played`, one tick around each, and so many random ones."""
    every = list(ticks(start, start + days))
    if count is None:
        return every
    events = [every.index(at) for at in played]
    around = {place + step for place in events for step in (-1, 0, 1) if 0 <= place + step < len(every)}
    return [every[place] for place in sorted(around | {0, *random.Random(0).sample(range(len(every)), count)})]


def reviewed(
    both: tuple[CronFolder, CronFolder], sets: tuple[PolicySet, PolicySet], start: datetime, days: timedelta
) -> tuple[Review, frozenset[datetime]]:
    (before, first), (after, second) = (
        one.forecast(policies, start, start + days) for one, policies in zip(both, sets, strict=True)
    )
    return review_of(sets, (before, after), (before.first, after.first)), first | second


def of(made: Forecast | None) -> Forecast:
    assert made is not None
    return made


def differing(before: Steps, after: Steps) -> set[Workload]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def soaked(of_events: int) -> Iterator[Any]:
    """Fleets with a run at every tick, and more of them with runs at events and random ticks."""
    for words, count, seeds in (("every", None, 20), ("events", 50, of_events)):
        for seed in range(seeds):
            case = (SEASONS[seed % 3], f"{words} {seed}", count, DAYS)
            yield pytest.param(*case, id=f"{words}-{seed}", marks=pytest.mark.soak)


@pytest.mark.laws
@pytest.mark.parametrize(
    ("season", "seed", "count", "days"),
    [
        pytest.param("a week", "some 5", 10, timedelta(days=3), id="an ordinary week"),
        pytest.param("the clocks go back", "some 3", 10, timedelta(days=4), id="the clocks go back"),
        pytest.param("the clocks go forward", "some 1", 10, timedelta(days=4), id="the clocks go forward"),
        pytest.param("the clocks go back", "events 10", 50, timedelta(days=2), id="held back for a day"),
        *soaked(200),
    ],
)
def test_runs_in_between_do_nothing(tmp_path: Path, season: str, seed: str, count: int | None, days: timedelta) -> None:
    """Compare a forecast with the runs of a cron at the times that `moments_of` returns."""
    start = STARTS[season]
    fleet = random_fleet(f"{season} {seed}", start)
    cron = CronFolder.of(fleet, tmp_path)
    made, played = cron.forecast(fleet.policy_set, start, start + days)
    assert steps_of(made) == cron.runs(fleet.policy_set, moments_of(start, days, played, count)), seed


@pytest.mark.laws
@pytest.mark.parametrize(
    ("season", "seed", "count", "days"),
    [pytest.param("a week", "some 1", 5, timedelta(days=2), id="an ordinary week"), *soaked(300)],
)
def test_a_review_says_what_runs_of_both_do(
    tmp_path: Path, season: str, seed: str, count: int | None, days: timedelta
) -> None:
    """Compare the review of a random edit with the runs of two crons, one for each set of policies."""
    start = STARTS[season]
    fleet = random_fleet(f"{season} {seed}", start)
    base = fleet.policy_set
    head = policy_set(edited(fleet.policies, random.Random(f"edit {seed}")))
    cron = CronFolder.of(fleet, tmp_path / "base")
    cron.runs(base, (start - before for before in EARLIER))
    both = (cron, cron.copied(tmp_path / "head"))
    found, played = reviewed(both, (base, head), start, days)
    moments = moments_of(start, days, played, count)
    before, after = (one.runs(policies, moments) for one, policies in zip(both, (base, head), strict=True))
    assert (steps_of(of(found.base)), steps_of(of(found.head))) == (before, after), seed
    assert {key_of(one.ref) for one in found.differences} == differing(before, after), seed
    assert ("No effect" in render_text(found)) <= (before == after), seed


def test_an_autoscaler_that_was_woken_gets_its_lower_minimum_again_once_min_awake_is_over() -> None:
    hpa = an_hpa(annotations={"reconciler/awake-since": NIGHT.isoformat()})
    policies = a_policy_set(idling=(a_policy(min_awake=timedelta(hours=3), autoscalers=Autoscalers("LowerMinimum")),))
    state = a_state(a_cluster(workloads=(a_workload(created_at=None),), autoscalers=(hpa,)))
    assert recorded_moments(policies, state, NIGHT) == {NIGHT + timedelta(hours=3)}


AT_NIGHT = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: at-night}
spec:
  selector:
    namespaces: {include: [dev]}
    workloads: {kinds: [Deployment]}
  limits: {workloads: 10}
  idleWhen:
    - schedule: {timeZone: Europe/Paris, downtime: ["19:00-07:00"]}
"""
LISTED = (
    "namespaces endpoints endpointslices.discovery.k8s.io horizontalpodautoscalers.autoscaling scaledobjects.keda.sh "
    "events pods configmaps deployments.apps statefulsets.apps replicasets.apps cronjobs.batch replicationcontrollers"
)


def test_what_wakes_is_known_although_services_could_not_be_listed(tmp_path: Path, repository: Path) -> None:
    folder = Folder.copied(repository / "examples/replay", tmp_path)
    folder.write("policies/idling.yaml", AT_NIGHT)
    assert folder.call("apply", "--snapshot", "snapshot", "--now", "2026-11-19T22:00:00Z", "--auto-approve").code == 0
    lists = "".join(f"- resource: {name}\n" for name in LISTED.split())
    forbidden = "- {resource: services, error: Forbidden, message: no services}\n"
    folder.write("snapshot/eu-west/recording.yaml", f"at: 2026-11-20T05:00:00Z\nread:\n{forbidden}{lists}")
    said = folder.call("forecast", "--snapshot", "snapshot", "--now", "2026-11-20T05:00:00Z", "-o", "json")
    assert [wake["at"] for wake in json.loads(said.out)["wakes"]] == ["2026-11-20T06:00:00Z"]
