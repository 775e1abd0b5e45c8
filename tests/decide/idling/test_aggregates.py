"""Where several policies, schedules, records or marks meet in one value: which of them counts.

Each case differs in just that value, so that taking the other end of it fails here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.decide.autoscalers import PinnedAutoscaler
from reconciler.decide.idling.contested import scaled_at
from reconciler.decide.idling.criteria import CriterionResult, PolicyVerdict, Verdict, joined
from reconciler.decide.idling.keeps_awake import MIN_AWAKE, MIN_AWAKE_BY_DEFAULT
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.service_records import ServiceRecord, record_of
from reconciler.decide.removal_guard import removal_guards
from reconciler.model import FieldWriter
from reconciler.policy.types import AbsoluteWindow, AllOf, AnyOf, Calendar, IdlingPolicy, ScheduleCriterion
from tests.builders import (
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_ref,
    a_service,
    a_state,
    a_workload,
    an_hpa,
    change_if_of,
)
from tests.cases import cases
from tests.decide.idling.idling_policies import NIGHT, a_metric, a_policy, decided, labelled, run_in, why_of
from tests.decide.idling.world import a_world

HOUR = timedelta(hours=1)
WEB = a_ref("web")
POLICY = a_policy()


def until(hours: int) -> ScheduleCriterion:
    """A schedule that is open from before NIGHT until `hours` after it."""
    begin, end = NIGHT - 2 * HOUR, NIGHT + hours * HOUR
    window = AbsoluteWindow(begin.replace(tzinfo=None), end.replace(tzinfo=None))
    return ScheduleCriterion(Calendar(UTC, "UTC", (window,), name=f"until-{hours}"))


class TestCriteria:
    """All of several schedules end with the first of them, any of them with the last."""

    @cases(
        "hours first last",
        ("two", (3, 8), 3, 8),
        ("the other way round", (8, 3), 3, 8),
        ("three", (5, 8, 3), 3, 8),
        ("one without an end", (None, 8, 3), 3, 8),
        ("none with an end", (None,), None, None),
    )
    def test_ends(self, hours, first, last):
        ends = [None if one is None else NIGHT + one * HOUR for one in hours]
        idle = tuple(PolicyVerdict(POLICY, CriterionResult.IDLE, (), until=end) for end in ends)
        assert joined(POLICY, idle, is_any=False).until == (None if first is None else NIGHT + first * HOUR)
        assert joined(POLICY, idle, is_any=True).until == (None if last is None else NIGHT + last * HOUR)

    def test_the_open_window_of_a_policy_ends_with_its_last_schedule(self):
        policy = a_policy(idle_when=AllOf((until(3), AnyOf((until(8), until(5), a_metric())))))
        said = Verdict((PolicyVerdict(policy, CriterionResult.IDLE, ()),))
        assert said.window_end(NIGHT) == said.window_end(NIGHT + 4 * HOUR) == NIGHT + 8 * HOUR
        assert said.window_end(NIGHT + 8 * HOUR) is None


def verdict_of(
    name: str = "a", *, end: int | None = None, idle_when: AllOf | None = None, **fields: Any
) -> PolicyVerdict:
    chosen = {} if idle_when is None else {"idle_when": idle_when}
    ends = None if end is None else NIGHT + end * HOUR
    return PolicyVerdict(a_policy(name, **(fields | chosen)), CriterionResult.IDLE, (), ends)


class TestBids:
    """Several policies select one workload, through different Services."""

    @cases(
        "of verdicts expected",
        (
            "the first end",
            lambda verdict: verdict.until,
            (verdict_of(end=8), verdict_of("b", end=3), verdict_of("c")),
            NIGHT + 3 * HOUR,
        ),
        (
            "the highest floor",
            lambda verdict: verdict.idle_replicas,
            (verdict_of(idle_replicas=1), verdict_of("b", idle_replicas=2)),
            2,
        ),
        (
            "longest minAwake",
            lambda verdict: MIN_AWAKE.longest(verdict.policies),
            (verdict_of(min_awake=3 * HOUR), verdict_of("b", min_awake=HOUR)),
            3 * HOUR,
        ),
        (
            "the last open window",
            lambda verdict: verdict.window_end(NIGHT),
            (
                verdict_of(idle_when=AllOf((until(8),))),
                verdict_of("b", idle_when=AllOf((until(3),))),
                verdict_of("c", idle_when=AllOf((a_metric(),))),
            ),
            NIGHT + 8 * HOUR,
        ),
        (
            "the owner: highest priority, then by name",
            lambda verdict: verdict.policy.name,
            (verdict_of("c", priority=1), verdict_of("b", priority=1), verdict_of("a")),
            "b",
        ),
    )
    def test_what_counts_of_several(self, of, verdicts, expected):
        assert of(Verdict(verdicts)) == of(Verdict(verdicts[::-1])) == expected

    def test_without_any(self):
        none = Verdict()
        assert (none.until, none.policy, none.idle_replicas, none.window_end(NIGHT)) == (None, None, 0, None)
        assert MIN_AWAKE.longest(none.policies) == MIN_AWAKE_BY_DEFAULT == 2 * HOUR


def of_owner(name: str, *criteria: Any, **fields: Any) -> IdlingPolicy:
    return a_policy(name, *criteria, selector=labelled("owner", name), **fields)


@pytest.mark.parametrize("ages", [(1, 3), (3, 1)])
def test_the_longest_min_age_counts(ages):
    services = [a_service(name, selector={"app": "web"}, labels={"owner": name}) for name in "ab"]
    policies = [of_owner(name, min_age=hours * HOUR) for name, hours in zip("ab", ages, strict=True)]
    web = a_workload(created_at=NIGHT - 2 * HOUR)
    outcome = decided(a_state(a_cluster(services=tuple(services), workloads=(web,))), *policies)
    assert why_of(outcome) == "created at 2026-11-20T20:00:00Z, younger than minAge of 3h"


@pytest.mark.parametrize(("floor", "idled_to"), [(0, 0), (2, 2), (3, 2), (9, 2)])
def test_a_list_says_that_each_was_idled_to_less_than_it_had(floor, idled_to):
    assert record_of(ServiceRecord(NIGHT, {WEB: 3}, floor), WEB).idled_to == idled_to


@cases("scaled_object", ("the ScaledObject is younger", HOUR), ("its target is younger", 5 * HOUR))
def test_min_age_is_that_of_the_younger_of_a_scaled_object_and_its_target(scaled_object):
    young, old = NIGHT - HOUR, NIGHT - 5 * HOUR
    target = ("Deployment", "web")
    jobs = a_workload("jobs", kind="ScaledObject", replicas=None, scale_target=target, created_at=NIGHT - scaled_object)
    web = a_workload(created_at=old if jobs.created_at == young else young)
    outcome = decided(a_state(a_cluster(services=(a_service(),), workloads=(web, jobs))), a_policy(min_age=2 * HOUR))
    assert outcome.desired.decisions == ()
    assert why_of(outcome) == "created at 2026-11-20T21:00:00Z, younger than minAge of 2h"
    assert [change_if_of(one) for one in outcome.desired.explanations if one.ref.name == "web"] == [
        "it is 2026-11-20T23:00:00Z or later"
    ]


@cases(
    "scaled idled is_put_back",
    ("before a floor that was moved later", 5, 60, False),
    ("before the idle, with an older time beside it", 60, 5, False),
    ("after both", 60, 60, True),
)
def test_bounds_are_put_back_after_the_later_of_the_idle_and_our_last_scale(scaled, idled, is_put_back):
    def before(minutes: int) -> datetime:
        return NIGHT - timedelta(minutes=minutes)

    workload = a_workload(annotations={"scale.kubernetes.io/scale-time": before(scaled).isoformat()})
    written = FieldWriter("helm", before(30))
    pinned = PinnedAutoscaler(an_hpa(bounds_writer=written))
    assert pinned.is_restored_by_others(1, scaled_at(workload, Record(before(idled), 3))) is is_put_back


@cases(
    "excluded expected",
    ("the first of several", ("north", "west"), {"east": "runs on north"}),
    ("not one that stays up for it", ("west",), {"east": "runs on west", "north": "runs on west"}),
)
def test_of_what_runs_elsewhere_a_cluster_that_stays_up_by_itself_is_named(excluded, expected):
    clusters = ("east", "north", "west")
    out = {"reconciler/exclude": "true"}
    objects = [
        found
        for cluster in clusters
        for found in (
            a_service(cluster=cluster),
            a_workload(cluster=cluster, annotations=out if cluster in excluded else {}),
        )
    ]
    fed = a_federated_replica_set(replicas=9)
    outcome = run_in(a_world(*objects, now=NIGHT), fleet=a_fleet(*clusters), federated=(fed,))
    found = {one.ref.cluster: one.why for one in outcome.desired.explanations if one.ref.kind == "Deployment"}
    assert {cluster: why for cluster, why in found.items() if cluster not in excluded} == expected


class TestGuards:
    """A namespace counts what is gone in itself, and of the others all policies but one, each once."""

    def guards(self, there: int, **gone: str):
        owned = [(space, policy) for space, policies in gone.items() for policy in policies]
        names = [f"there-{number}" for number in range(there)]
        return removal_guards([*owned, *(("home", name) for name in names)], frozenset(names), allow_removed=False)

    @cases(
        "there gone counted",
        ("each", 7, {"one": "a", "two": "b", "six": "c"}, {"one": "ac", "two": "bc", "six": "bc"}),
        ("one alone", 7, {"one": "a"}, {"one": "a"}),
        ("shared", 7, {"one": "a", "two": "a", "six": "b"}, {"one": "a", "two": "a", "six": "b"}),
    )
    def test_what_is_counted(self, there, gone, counted):
        guards = self.guards(there, **gone)
        assert {space: "".join(sorted(guards.of(space).gone)) for space in gone} == counted
        assert {guards.of(space).owners for space in gone} == {there + len(one) for one in counted.values()}
        assert not guards.together.tripped

    @cases(
        "gone words",
        ("in one", {"one": "abc"}, "3 of 4 policies that own objects were removed: a, b, c"),
        ("five", {"one": "abcde"}, "5 of 6 policies that own objects were removed: a, b, c, d, e"),
        ("6", {"one": "abcdef"}, "6 of 7 policies that own objects were removed: a, b, c, d, e, ..."),
        ("in two", {"one": "ab", "two": "cd"}, "4 of 5 policies that own objects were removed: a, b, c, d"),
    )
    def test_what_is_told(self, gone, words):
        assert (
            self.guards(1, **gone).words
            == f"{words}; what they idled waits for up to 24h; to allow: once --allow-removed"
        )

    def test_what_is_allowed_to_exceed_counts_and_holds_nothing(self):
        owned = [("one", name) for name in "abc"]
        assert removal_guards(owned, frozenset(), allow_removed=False).together.tripped
        allowed = removal_guards(owned, frozenset(), allow_removed=True)
        assert (allowed.together.tripped, allowed.of("one").gone) == (False, frozenset("abc"))

    @cases(
        "policy hours expected",
        ("gone just now", "a", None, True),
        ("gone for less than a day", "a", 23, True),
        ("gone for a day", "a", 24, False),
        ("a policy that is there", "there-0", None, False),
    )
    def test_a_wake_waits_for_a_day_at_most(self, policy, hours, expected):
        orphaned = None if hours is None else NIGHT - hours * HOUR
        assert self.guards(1, one="abc").of("one").holds(policy, orphaned, NIGHT) is expected
        assert not self.guards(1, one="a").of("one").holds(policy, orphaned, NIGHT)
        assert not self.guards(1, one="abc").of("two").holds(policy, orphaned, NIGHT)
