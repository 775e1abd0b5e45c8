"""What wakes, what does not, and how."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Phase, Verb
from reconciler.model import Event
from reconciler.plan.change_json import change_document
from reconciler.plan.order import in_order, numbered_actions
from reconciler.policy.types import ObjectSelector, Selector, WakeOrder, WorkloadSelector
from tests.builders import a_ref, a_service, a_workload, an_hpa
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    a_metric,
    a_policy,
    an_idle_world,
    answers,
    decided,
    labelled,
    notices_of,
    run_in,
    verbs,
    workloads_selector,
)
from tests.decide.idling.world import a_world

WAKE_DUE = "reconciler/wake-due"

WEB = a_ref("web")
SERVICE = a_ref("web", kind="Service")
MINUTE = timedelta(minutes=1)
REQUESTED = "reconciler/wake-requested-at"


WAKE = [("wake", "Deployment/web"), ("clear", "Service/web")]


class TestCriteria:
    policy = a_policy("idle-dev", a_metric())

    def test_a_requested_wake_has_no_values_of_criteria_that_did_not_decide(self):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        world.answers = answers(("web", 0))
        run_in(world, self.policy)
        asked = {"reconciler/wake-requested-at": "2026-11-20T22:30:00Z"}
        world.objects[WEB] = replace(world.objects[WEB], annotations=world.objects[WEB].annotations | asked)
        decisions = decided(world.state(), self.policy, now=world.now + 60 * MINUTE).desired.decisions
        wakes = [one.cause for one in decisions if one.phase is Phase.WAKE]
        assert {(one.why, one.reason_code) for one in wakes} == {
            ("wake requested at 2026-11-20T22:30:00Z", "WakeRequested")
        }
        assert [dict(one.values) for one in wakes if one.values] == []

    @cases("before", ("while its window is open", MINUTE), ("after it", -MINUTE))
    def test_a_policy_that_waits_for_requests_now_forgets_when_its_schedule_ends(self, before):
        world = an_idle_world(a_policy())
        assert WAKE_DUE in world.objects[WEB].annotations
        world.now = MONDAY - before
        run_in(world, a_policy(wake="OnSignal"))
        assert WAKE_DUE not in world.objects[WEB].annotations
        assert world.replicas(WEB) == 0

    @cases(
        "at why",
        ("by night", NIGHT, "schedule office-hours-off until 2026-11-23T06:00:00Z"),
        ("by day", MONDAY, "it is idle, as its record says"),
    )
    def test_what_waits_for_requests_is_not_kept_idle_by_the_hours_in_which_it_would_be_awake(self, at, why):
        world = an_idle_world(a_policy(wake="OnSignal"))
        world.now = at
        (told,) = run_in(world, a_policy(wake="OnSignal")).desired.explanations
        assert (told.outcome, told.why) == ("stays idle", why)


def an_event(at: datetime | None, **fields) -> Event:
    about = {"involved": ("Service", "shop", "web"), "at": at}
    return Event(**({"reason": "NeedPods", "namespace": "shop"} | about | fields))


class TestSignals:
    @cases(
        "event wakes",
        ("as old as the mark", an_event(NIGHT), True),
        ("older than the mark", an_event(NIGHT - timedelta(seconds=1)), False),
        ("related", an_event(NIGHT, involved=None, related=("Service", "shop", "web")), True),
        ("another Service", an_event(NIGHT, involved=("Service", "shop", "api")), False),
        ("another namespace", an_event(NIGHT, involved=("Service", "other", "web")), False),
        ("involved, from another namespace", an_event(NIGHT, namespace="evil"), False),
        (
            "related, from another namespace",
            an_event(NIGHT, namespace="evil", involved=None, related=("Service", "shop", "web")),
            False,
        ),
        ("not a Service", an_event(NIGHT, involved=("Pod", "shop", "web")), False),
        ("another reason", an_event(NIGHT, reason="Killing"), False),
        ("without a time", an_event(None), False),
    )
    def test_need_pods(self, event, wakes):
        world = an_idle_world()
        world.events["east"] = [event]
        assert verbs(decided(world.state(), now=world.now)) == (WAKE if wakes else [])

    @cases("later", ("still ahead of now", 20 * MINUTE), ("passed by now", 65 * MINUTE))
    def test_a_request_of_before_does_not_though_the_clock_was_ahead(self, later):
        world = a_world(a_service(annotations={REQUESTED: "2026-11-20T21:59:59Z"}), a_workload(), now=NIGHT)
        world.apply(decided(world.state(), now=NIGHT + 60 * MINUTE).desired.decisions)
        assert verbs(decided(world.state(), now=NIGHT + later)) == []

    def test_a_request_that_cannot_be_read_is_told(self):
        world = an_idle_world()
        world.annotate(SERVICE, "reconciler/wake-requested-at", "now")
        assert "expected a time" in notices_of(decided(world.state(), now=world.now), "unreadableSignal")[0]


class TestWakeOrder:
    """Lower tiers first, a tier waits for the one below, at most perRun in a run."""

    def world(self, count: int = 2):
        names = [f"{tier}-{n}" for tier in ("api", "db") for n in range(count)]
        services = [a_service(name, labels={"tier": name[:-2]}) for name in names]
        return a_world(*services, *(a_workload(name) for name in names), now=NIGHT)

    def policies(self, per_run: int | None = None):
        return tuple(
            a_policy(name, selector=labelled("tier", name), wake_order=WakeOrder("shop", tier, per_run))
            for name, tier in (("api", 20), ("db", 10))
        )

    def test_lower_tiers_wake_first_and_the_next_waits_for_them(self):
        world = self.world()
        run_in(world, *self.policies())
        decisions = decided(world.state(), *self.policies(), now=MONDAY).desired.decisions
        wakes = {one.ref.name: one for one in decisions if one.verb is Verb.WAKE}
        assert [wakes[name].order[0] for name in ("api-0", "db-0")] == [20, 10]
        tiers = {name: (one.wake_tier, one.wait_ready) for name, one in wakes.items()}
        assert tiers["db-0"] == tiers["db-1"] == ("east/shop/shop/10", "")
        assert tiers["api-0"] == tiers["api-1"] == ("", "east/shop/shop/10")

    @pytest.mark.parametrize(("owner", "waits_for"), [("shop", "east/shop/shop/5"), ("other", "")])
    def test_what_no_policy_selects_any_more_wakes_in_the_group_named_as_its_owner(self, owner, waits_for):
        world = a_world(a_workload("api"), a_workload("db"), now=NIGHT)
        owning = a_policy(owner, selector=workloads_selector("Deployment"))
        run_in(world, owning)
        left = Selector(workloads=WorkloadSelector((), ObjectSelector(("api",))))
        first = replace(owning, selector=left, wake_order=WakeOrder("shop", 5))
        decisions = decided(world.state(), first, now=MONDAY).desired.decisions
        waits = {one.ref.name: one.wait_ready for one in decisions if one.verb is Verb.WAKE}
        assert waits == {"api": "", "db": waits_for}

    def test_a_plan_of_two_tiers_grows_as_what_is_in_them(self):
        lengths = []
        for count in (20, 40):
            world = self.world(count)
            run_in(world, *self.policies())
            decisions = decided(world.state(), *self.policies(), now=MONDAY).desired.decisions
            lengths.append(
                len(msgspec.json.encode([change_document(one) for one in numbered_actions(in_order(decisions))]))
            )
        assert lengths[1] <= 2.1 * lengths[0]

    def test_at_most_per_run_in_one_run_and_the_next_goes_on(self):
        world = self.world()
        run_in(world, *self.policies(3))
        world.now = MONDAY
        outcome = run_in(world, *self.policies(3))
        up = [name for name in ("db-0", "db-1", "api-0", "api-1") if world.replicas(a_ref(name))]
        assert up == ["db-0", "db-1", "api-0"]
        assert notices_of(outcome, "perRun") == [
            "east/shop/Deployment/api-1: deferred to a later run (perRun 3 of wake group shop)"
        ]
        assert a_ref("api-1") in outcome.claims
        run_in(world, *self.policies(3))
        assert world.replicas(a_ref("api-1")) == 3

    def test_of_one_tier_what_was_asked_for_goes_first(self):
        world = self.world()
        run_in(world, *self.policies(1))
        world.now = MONDAY
        world.need_pods(a_ref("db-1", kind="Service"))
        run_in(world, *self.policies(1))
        assert [name for name in ("db-0", "db-1", "api-0") if world.replicas(a_ref(name))] == ["db-1"]

    def test_what_was_begun_is_finished_first(self):
        world = a_world(a_service(), a_workload(replicas=5), an_hpa(), a_service("a"), a_workload("a"), now=NIGHT)
        policy = a_policy(idle_replicas=1, wake_order=WakeOrder("", per_run=1))
        run_in(world, policy)
        world.objects[an_hpa().ref] = replace(world.objects[an_hpa().ref], minimum=2, maximum=10)
        world.now = MONDAY
        world.annotate(an_hpa().ref, "reconciler/wake-begun-at", "2026-11-23T05:59:00Z")
        run_in(world, policy)
        assert [world.replicas(a_ref(name)) for name in ("a", "web")] == [1, 5]

    def test_many_wakes_in_one_namespace_keep_no_other_one_waiting(self):
        many = [a_workload(f"w-{number:02}", namespace="aa") for number in range(50)]
        few = [a_workload(name, namespace=space) for space in ("mm", "zz") for name in ("a", "b")]
        policy = a_policy(selector=workloads_selector(), wake_order=WakeOrder("shop", per_run=6))
        world = a_world(*many, *few, now=NIGHT)
        run_in(world, policy)
        world.now = MONDAY
        run_in(world, policy)
        assert [world.replicas(one.ref) for one in few] == [3, 3, 3, 3]
        assert sum(world.replicas(one.ref) > 0 for one in many) == 2

    @pytest.mark.parametrize("per_run", [None, 3])
    def test_a_policy_that_names_the_group_of_another_does_not_slow_its_wakes_down(self, per_run):
        world = self.world(count=3)
        theirs, other = self.policies(per_run)
        intruder = replace(other, wake_order=WakeOrder("shop", 0, 1))
        run_in(world, theirs, intruder)
        world.now = MONDAY
        run_in(world, theirs, intruder)
        assert [world.replicas(a_ref(f"api-{number}")) for number in range(3)] == [3, 3, 3]
        assert sum(world.replicas(a_ref(f"db-{number}")) for number in range(3)) == 3


@pytest.mark.parametrize(("deadline", "may_miss"), [(None, True), (60, False)])
def test_a_cron_job_without_a_deadline_may_start_a_missed_run_when_it_wakes(deadline, may_miss):
    cron = a_workload("nightly", kind="CronJob", replicas=None, suspend=False, starting_deadline=deadline)
    world = a_world(cron, now=NIGHT)
    for world.now, is_off in ((NIGHT, True), (MONDAY, False)):
        told = notices_of(run_in(world, a_policy(selector=workloads_selector("CronJob"))), "missedRun")
        assert ["a missed run may start at once" in text for text in told] == [True] * may_miss
        assert world.objects[cron.ref].switch.is_off is is_off


@pytest.mark.parametrize("loses", [True, False])
def test_a_stateful_set_that_loses_its_volumes_is_named_before(loses):
    world = a_world(a_workload("db", kind="StatefulSet", replicas=3, loses_volumes=loses), now=NIGHT)
    said = notices_of(run_in(world, a_policy(selector=workloads_selector("StatefulSet"))), "lostVolumes")
    assert ["whenScaled is Delete" in text for text in said] == [True] * loses


# Killed between any two writes: the next run knows what to do.


def marks(world, ref=SERVICE):
    prefixes = ("idling.kubernetes.io/", "scale.kubernetes.io/scale-reason", "reconciler/owner", "reconciler/wake-due")
    return sorted(key for key in world.objects[ref].annotations if key.startswith(prefixes))


class TestScaledUpAndTheServiceNotCleared:
    def world(self):
        world = an_idle_world()
        world.now = MONDAY
        run_in(world, writes=1)
        assert world.replicas(WEB) == 3
        assert marks(world)
        return world

    def test_a_request_that_comes_after_it_was_woken_counts_as_another_wake(self):
        world = self.world()
        world.now = MONDAY + timedelta(days=1, hours=16)
        world.need_pods(SERVICE)
        assert verbs(run_in(world)) == [("repair", "Deployment/web"), ("clear", "Service/web")]
        assert run_in(world).desired.decisions == ()

    def test_the_request_that_woke_it_does_not_keep_it_up_for_longer_than_any_other(self):
        world = an_idle_world()
        world.need_pods(SERVICE)
        run_in(world, writes=1)
        world.now += timedelta(hours=3)  # longer than minAwake
        assert ("idle", "Deployment/web") in verbs(run_in(world))
        assert run_in(world).desired.decisions == ()

    def test_it_is_cleared_where_somebody_takes_it_to_zero_and_another_service_has_no_mark(self):
        world = self.world()
        world.now += MINUTE
        world.scale(WEB, 0)
        world.add(a_service("other", selector={"app": "web"}))
        assert verbs(run_in(world)) == [("clear", "Service/web")]


@cases(
    "annotations where",
    ("on the scalable", {"idling.kubernetes.io/previous-scale": "many"}, WEB),
    ("on the Service", {"idling.kubernetes.io/unidle-targets": "[{"}, SERVICE),
)
def test_what_cannot_be_parsed_is_set_aside(annotations, where):
    world = an_idle_world()
    if where == WEB:
        del world.objects[SERVICE]  # which knows its number too
    for key, text in annotations.items():
        world.annotate(where, key, text)
    world.now += MINUTE
    outcome = run_in(world)
    assert outcome.desired.decisions == ()
    (notice,) = (notice for notice in outcome.desired.notices if notice.kind == "setAside")
    assert (notice.subject, notice.partial) == (str(where), False)
    assert "expected" in notice.text


class TestAfterAMarkOnTheServiceOnly:
    """The crash came after the first write of an idle."""

    def world(self):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        run_in(world, writes=1)
        assert marks(world)
        assert world.replicas(WEB) == 3
        return world

    def test_a_new_object_of_that_name_starts_its_min_age(self):
        world = self.world()
        world.add(a_workload(uid="another", created_at=world.now))
        outcome = run_in(world, a_policy(min_age=timedelta(hours=1)))
        assert verbs(outcome) == [("clear", "Service/web")]
