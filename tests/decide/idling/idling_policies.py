"""Builders for policies, calendars and answers of idling tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from reconciler.decide.decisions import Decision
from reconciler.decide.idling.decide import IdlingOutcome, decide_idling
from reconciler.labels import LabelSelector
from reconciler.model import ObservedState, QueryAnswer, QueryKey, Run, Sample
from reconciler.policy.types import (
    AllOf,
    Calendar,
    Criterion,
    Fleet,
    IdlingPolicy,
    MetricCriterion,
    ObjectSelector,
    ScheduleCriterion,
    Selector,
    WeeklyWindow,
    WorkloadSelector,
)
from tests.builders import a_fleet, a_policy_set, a_ref, a_run, a_service, a_workload, an_idling_policy
from tests.decide.idling.world import World, a_world

PARIS = ZoneInfo("Europe/Paris")
REQUESTS = "increase(requests[{{ window }}])"
NIGHT = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)  # a Friday, 23:00 in Paris: the weekend window is open
MONDAY = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)  # when it ends
NOON = datetime(2026, 11, 20, 11, 0, tzinfo=UTC)  # the same Friday, closed


def office_hours_off() -> Calendar:
    """Mon-Thu 20:00-07:00 and Fri 20:00-Mon 07:00, Paris."""
    nights = tuple(WeeklyWindow(day, 20 * 60, 1, 7 * 60) for day in range(4))
    return Calendar(PARIS, "Europe/Paris", (*nights, WeeklyWindow(4, 20 * 60, 3, 7 * 60)), name="office-hours-off")


def a_schedule() -> ScheduleCriterion:
    return ScheduleCriterion(office_hours_off())


def a_metric(**fields: Any) -> MetricCriterion:
    defaults: dict[str, Any] = {"query": REQUESTS, "at_most": 0, "window": "30m", "no_series": "Unknown"}
    return MetricCriterion(**(defaults | fields))


def services_selector(**fields: Any) -> Selector:
    return Selector(**({"services": ObjectSelector()} | fields))


def labelled(key: str, value: str) -> Selector:
    """All Services with this label."""
    return Selector(services=ObjectSelector(labels=LabelSelector(((key, value),))))


def workloads_selector(*kinds: str) -> Selector:
    return Selector(workloads=WorkloadSelector(kinds))


def a_policy(name: str = "idle-dev", *criteria: Criterion, **fields: Any) -> IdlingPolicy:
    """A policy over all Services, idle by schedule unless criteria are given, without ages."""
    defaults: dict[str, Any] = {
        "selector": services_selector(),
        "idle_when": AllOf(criteria or (a_schedule(),)),
        "min_age": timedelta(0),
        "min_awake": timedelta(hours=2),
    }
    return an_idling_policy(name, **(defaults | fields))


def answers(
    *values: tuple[str, float],
    policy: str = "idle-dev",
    cluster: str = "east",
    namespace: str = "shop",
    query: str = REQUESTS,
    window: str = "30m",
    **fields: Any,
) -> dict[QueryKey, QueryAnswer]:
    """What was said to one query: (Service, value) pairs."""
    samples = tuple(Sample({"namespace": namespace, "service": service}, value) for service, value in values)
    return {QueryKey(cluster, policy, query, window): QueryAnswer(samples, **fields)}


def decided(
    state: ObservedState, *policies: IdlingPolicy, now: datetime = NIGHT, run: Run | None = None, **fields: Any
) -> IdlingOutcome:
    """What idling decides under `policies`."""
    chosen = policies or (a_policy(),)
    chosen_set = a_policy_set(idling=tuple(chosen), **fields)
    outcome = decide_idling(chosen_set, state, run or a_run(now))
    assert all(notice.why in notice.text for notice in outcome.desired.notices)  # what people read replaces it there
    return outcome


def written(decision: Decision) -> dict[str, Any]:
    """The last key of every path that a decision changes -> what it becomes; tests alone are left out."""
    return {change.path[-1]: change.after for change in decision.changes if change.before != change.after}


def verbs(outcome: IdlingOutcome) -> list[tuple[str, str]]:
    """(verb, KIND/NAME) of every decision, in order."""
    return [(str(one.verb), f"{one.ref.kind}/{one.ref.name}") for one in outcome.desired.decisions]


def of_state(state: str) -> Fleet:
    """A Fleet whose one cluster is in that state."""
    return replace(a_fleet(), clusters=(replace(a_fleet().clusters[0], state=state),))


def run_in(world: World, *policies: IdlingPolicy, writes: int | None = None, **fields: Any) -> IdlingOutcome:
    """One run of ours in `world`, killed after that many writes where a number is given."""
    outcome = decided(world.state(), *policies, now=world.now, **fields)
    world.apply(outcome.desired.decisions, crash_after=writes)
    return outcome


def an_idle_world(*policies: IdlingPolicy, **workload: Any) -> World:
    """A world where Deployment/web, with the fields `workload`, and its Service were idled a minute ago, at NIGHT."""
    world = a_world(a_service(), a_workload(**workload), now=NIGHT)
    run_in(world, *policies)
    assert world.replicas(a_ref()) == 0
    world.now += timedelta(minutes=1)
    return world


def why_of(outcome: IdlingOutcome, name: str = "web") -> str:
    """Why the workload `name` gets what it gets."""
    return next(one.why for one in outcome.desired.explanations if one.ref.name == name)


def notices_of(outcome: IdlingOutcome, kind: str) -> list[str]:
    """The texts of all notices of one kind."""
    return [notice.text for notice in outcome.desired.notices if notice.kind == kind]
