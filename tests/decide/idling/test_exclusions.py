"""What an IdlingPolicy excludes: for that policy only, itself or with its Service, which stays awake then."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from reconciler.labels import LabelSelector
from reconciler.model import Service, Workload
from reconciler.policy.types import ObjectSelector, Selector, WorkloadSelector
from tests.builders import a_cluster, a_namespace, a_service, a_state, a_workload
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_policy,
    decided,
    notices_of,
    run_in,
    services_selector,
    verbs,
    why_of,
    workloads_selector,
)
from tests.decide.idling.world import a_world

API = a_workload("api", template_labels={"app": "shop"}, labels={"part": "api"})
DB = a_workload("db", kind="StatefulSet", template_labels={"app": "shop"}, labels={"part": "db"})
ALONE = a_workload("alone", template_labels={"app": "alone"})
SERVICE = a_service("shop", selector={"app": "shop"})
DB_SERVICE = a_service("db", selector={"app": "shop"}, labels={"tier": "data"})
EVERYTHING = services_selector(workloads=WorkloadSelector())


def named(*names: str, **fields: Any) -> Selector:
    """The workloads of these names."""
    return Selector(workloads=WorkloadSelector(objects=ObjectSelector(include=names)), **fields)


def idled(outcome: Any) -> list[str]:
    return sorted(name for verb, name in verbs(outcome) if verb == "idle" and not name.startswith("Service/"))


def world(*objects: Workload | Service) -> Any:
    return a_state(
        a_cluster(
            namespaces=(a_namespace("shop", labels={"env": "dev"}),),
            workloads=tuple(one for one in objects if isinstance(one, Workload)),
            services=tuple(one for one in objects if isinstance(one, Service)),
        )
    )


@cases(
    "exclude left",
    ("by name", [named("alone")], ["Deployment/api", "StatefulSet/db"]),
    ("by pattern", [named("al*")], ["Deployment/api", "StatefulSet/db"]),
    ("by kind, without a Service", [Selector(workloads=WorkloadSelector(("Deployment",)))], ["StatefulSet/db"]),
    (
        "by label",
        [Selector(workloads=WorkloadSelector(objects=ObjectSelector(labels=LabelSelector((("part", "db"),)))))],
        ["Deployment/alone", "Deployment/api"],
    ),
    ("any of several", [named("alone"), named("db")], ["Deployment/api"]),
    (
        "elsewhere: another namespace",
        [named("alone", namespaces=ObjectSelector(include=("other",)))],
        ["Deployment/alone", "Deployment/api", "StatefulSet/db"],
    ),
    (
        "elsewhere: another cluster",
        [named("alone", clusters=ObjectSelector(include=("west",)))],
        ["Deployment/alone", "Deployment/api", "StatefulSet/db"],
    ),
    ("a whole namespace", [Selector(namespaces=ObjectSelector(include=("shop",)))], []),
    ("a namespace by its labels", [Selector(namespaces=ObjectSelector(labels=LabelSelector((("env", "dev"),))))], []),
)
def test_what_an_exclusion_matches_is_not_selected_by_this_policy(exclude: list[Selector], left: list[str]):
    policy = a_policy(selector=workloads_selector(), exclude=tuple(exclude))
    assert idled(decided(world(API, DB, ALONE), policy)) == left


@cases(
    "exclude",
    ("the workload by name", named("db")),
    ("the workload by kind", Selector(workloads=WorkloadSelector(("StatefulSet",)))),
    ("with its Service by name", Selector(services=ObjectSelector(include=("db",)))),
    ("with its Service by label", Selector(services=ObjectSelector(labels=LabelSelector((("tier", "data"),))))),
)
def test_nothing_behind_a_service_is_idled_while_an_excluded_target_of_it_runs(exclude: Selector):
    db_only = replace(DB_SERVICE, selector={"app": "shop", "part": "db"})
    db = replace(DB, template_labels={"app": "shop", "part": "db"})
    outcome = decided(world(API, db, ALONE, SERVICE, db_only), a_policy(selector=EVERYTHING, exclude=(exclude,)))
    assert idled(outcome) == ["Deployment/alone"]
    service = " with Service/db" if exclude.services else ""
    assert why_of(outcome, "db") == f"idle-dev excludes it{service} (exclude[0])"
    why = f"StatefulSet/db behind Service/shop stays awake: idle-dev excludes it{service} (exclude[0])"
    assert why_of(outcome, "api") == why
    assert notices_of(outcome, "heldTogether") == [f"{SERVICE.ref}: no workload behind it is idled: {why}"]


def test_what_a_policy_excludes_behind_a_service_the_next_one_by_priority_decides():
    one = a_policy(exclude=(named("db"),), priority=5)
    outcome = decided(world(API, DB, SERVICE), one, a_policy("others"))
    assert idled(outcome) == ["Deployment/api", "StatefulSet/db"]


def test_two_of_equal_priority_are_none_also_where_the_first_excludes():
    one = a_policy(exclude=(named("db"),), priority=5)
    outcome = decided(world(API, DB, SERVICE), one, a_policy("others"), a_policy("third"))
    assert not idled(outcome)
    assert why_of(outcome, "db") == "others and third have the same priority"


def test_what_is_idle_wakes_where_its_service_is_excluded_and_says_so():
    there = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(there, a_policy())
    outcome = run_in(there, a_policy(exclude=(Selector(services=ObjectSelector(include=("web",))),)))
    assert ("wake", "Deployment/web") in verbs(outcome)
    assert "idle-dev excludes it with Service/web (exclude[0])" in why_of(outcome)
