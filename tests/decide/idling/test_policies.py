"""Several policies, several Services, several clusters: who decides, and what goes together."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest
from msgspec.structs import replace

from reconciler.plan.build import make_plan
from reconciler.policy.types import (
    Calendar,
    ClusterPreference,
    FederatedReplicaSet,
    ObjectSelector,
    ScheduleCriterion,
    WeeklyWindow,
)
from tests.builders import (
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_policy_set,
    a_ref,
    a_run,
    a_service,
    a_state,
    a_workload,
    change_if_of,
)
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    a_metric,
    a_policy,
    answers,
    decided,
    labelled,
    notices_of,
    run_in,
    services_selector,
    verbs,
    workloads_selector,
)
from tests.decide.idling.world import a_world

IDLE = [("record", "Service/web"), ("idle", "Deployment/web")]

MINUTE = timedelta(minutes=1)
MONDAY_AT_THREE = ScheduleCriterion(Calendar(UTC, "UTC", (WeeklyWindow(0, 3 * 60, 0, 4 * 60),)))
SIMPLE = a_state(a_cluster(services=(a_service(),), workloads=(a_workload(),)))


class TestObserve:
    def test_it_is_planned_and_never_applied(self):
        outcome = decided(SIMPLE, a_policy(mode="Observe"))
        assert outcome.desired.decisions == ()
        assert [(str(one.verb), one.ref.name) for one in outcome.desired.observed] == [
            ("record", "web"),
            ("idle", "web"),
        ]
        assert [one.outcome for one in outcome.desired.explanations] == ["would go idle"]
        assert outcome.claims == {}
        mark, idle = outcome.desired.observed
        assert idle.needs == (mark.key,)

    @cases("says", ("busy", MONDAY_AT_THREE), ("unknown", a_metric()))
    def test_it_neither_keeps_awake_nor_wakes_what_another_policy_idles(self, says):
        """That one selects the Service, this one the workload behind it."""
        watch = a_policy("watch", says, mode="Observe", selector=workloads_selector(), priority=9)
        world = a_world(a_service(), a_workload(), now=NIGHT)
        for expected in (["record", "idle"], []):
            outcome = run_in(world, a_policy(), watch)
            assert [verb for verb, _ in verbs(outcome)] == expected
            world.now += MINUTE
        assert [one.policy for one in outcome.desired.explanations] == ["idle-dev"]

    def test_what_another_policy_idles_is_not_among_what_it_observes(self):
        cluster = a_cluster(
            services=(a_service(labels={"tier": "x"}), a_service("api", labels={"tier": "y"})),
            workloads=(a_workload(), a_workload("api")),
        )
        watch = a_policy("watch", selector=labelled("tier", "x"), mode="Observe")
        outcome = decided(a_state(cluster), watch, a_policy("enforce", selector=labelled("tier", "y")))
        assert [{one.ref.name for one in of} for of in (outcome.desired.observed, outcome.desired.decisions)] == [
            {"web"},
            {"api"},
        ]


def fed(**fields) -> FederatedReplicaSet:
    return a_federated_replica_set(**fields)


class TestFederated:
    """Idle only if it is idle on every cluster."""

    fleet = a_fleet("east", "west")

    def world(self, west: int = 2):
        objects = [a_service(), a_service(cluster="west"), a_workload(), a_workload(cluster="west", replicas=west)]
        return a_world(*objects, now=NIGHT)

    def run(self, world, *policies, **fields):
        return run_in(world, *policies, fleet=self.fleet, federated=(fed(**fields),))

    def replicas(self, world):
        return [world.replicas(a_ref(cluster=cluster)) for cluster in ("east", "west")]

    def test_it_is_idled_on_all_clusters_in_one_group(self):
        world = self.world()
        outcome = self.run(world)
        assert self.replicas(world) == [0, 0]
        assert {one.group for one in outcome.desired.decisions} == {"idling/east/shop/Service/web"}
        assert set(outcome.claims) == {a_ref(), a_ref(cluster="west")}
        assert self.run(world).desired.decisions == ()

    @pytest.mark.parametrize("held_back", [False, True])
    def test_a_member_that_stands_at_zero_is_left_to_idling_while_the_others_go_idle(self, held_back):
        world = self.world(west=0)
        outcome = self.run(world)
        not_now = frozenset({a_ref()}) if held_back else frozenset()
        left = outcome.after(world.state(), frozenset({"production"}), not_now)
        assert (left(a_ref(cluster="west")) is None) is held_back

    @cases(
        "clusters",
        ("none", {"east": ClusterPreference(weight=1)}),
        ("neither weight nor minimum", {"*": ClusterPreference(weight=1), "west": ClusterPreference()}),
    )
    def test_a_cluster_without_a_preference_that_cannot_be_read_holds_nothing_back(self, clusters):
        world = a_world(a_service(), a_workload(), a_service("other", cluster="west"), now=NIGHT)
        world.unreachable = {"west"}
        self.run(world, clusters=clusters)
        assert world.replicas(a_ref()) == 0

    def test_a_local_workload_without_replicas_has_no_say(self):
        world = self.world(west=0)
        selector = replace(services_selector(), clusters=replace(services_selector().clusters, include=("east",)))
        self.run(world, a_policy(selector=selector))
        assert self.replicas(world) == [0, 0]

    def test_a_single_replica_that_no_policy_selects_on_one_cluster_has(self):
        selector = replace(services_selector(), clusters=replace(services_selector().clusters, include=("east",)))
        assert self.run(self.world(west=1), a_policy(selector=selector)).desired.decisions == ()

    @pytest.mark.parametrize(("fleet", "left"), [("production", 3), ("other", 0)])
    def test_where_the_preferences_name_a_cluster_not_only_what_is_ours_has_a_say(self, fleet, left):
        owner = {"reconciler/owner": f"{fleet}/FederatedReplicaSet/shop/web", "reconciler/exclude": "true"}
        west = a_workload(cluster="west", kind="ReplicaSet", annotations=owner)
        world = a_world(a_service(), a_workload(kind="ReplicaSet"), west, now=NIGHT)
        self.run(world, target=None, clusters={"east": ClusterPreference(weight=1)})
        assert world.replicas(a_ref(kind="ReplicaSet")) == left


class TestGuard:
    """A repository that lost a folder must not wake a company."""

    names = ("a", "b", "c", "d", "e", "f", "g", "h")

    def policies(self, *names: str):
        return tuple(a_policy(name, a_metric(), selector=labelled("owner", name)) for name in names)

    def world(self, *scheduled: str):
        objects = [a_service(name, labels={"owner": name}) for name in self.names]
        world = a_world(*objects, *(a_workload(name) for name in self.names), now=NIGHT)
        world.answers = {
            key: answer for name in self.names for key, answer in answers((name, 0.0), policy=name).items()
        }
        policies = self.policies(*self.names)
        run_in(
            world, *(a_policy(one.name, selector=one.selector) if one.name in scheduled else one for one in policies)
        )
        assert {ref for ref, _ in world.idled} == {a_ref(name) for name in self.names}
        world.now += MINUTE
        return world

    @cases("passed woken", ("what passes counts as its new owner's", 3, 2), ("gone", 0, 0))
    def test_what_passes_to_another_policy_is_not_gone(self, passed, woken):
        world = self.world()
        others = [replace(one, name=f"z-{one.name}") for one in self.policies(*self.names[:passed])]
        others = [a_policy(one.name, selector=one.selector) for one in others]
        run_in(world, *others, *self.policies(*self.names[5:]))
        assert sum(world.replicas(a_ref(name)) > 0 for name in self.names) == woken

    def test_the_owner_of_what_runs_is_not_counted(self):
        world = self.world()
        record = {**world.objects[a_ref("a")].annotations, "reconciler/owner": "production/IdlingPolicy/ghost"}
        world.add(a_workload("extra", replicas=2, annotations=record))
        (held,) = run_in(world, *self.policies(*self.names[3:])).desired.held_back
        assert held.why.startswith("3 of 8 policies that own objects were removed: a, b, c; ")

    def test_a_folder_that_is_lost_holds_the_wakes_of_all_its_namespaces(self):
        spaces = [f"team-{name}" for name in self.names]
        objects = [a_workload(name, namespace=space) for name, space in zip(self.names, spaces, strict=True)]
        world = a_world(*objects, now=NIGHT)
        policies = {
            name: a_policy(name, selector=replace(workloads_selector(), namespaces=ObjectSelector((space,))))
            for name, space in zip(self.names, spaces, strict=True)
        }
        run_in(world, *policies.values())
        world.now = MONDAY - MINUTE
        outcome = run_in(world, *(policies[name] for name in self.names[3:]))
        assert [world.replicas(one.ref) for one in objects] == [0] * len(objects)
        (held,) = outcome.desired.held_back
        assert held.policy == ""
        assert (
            held.why == "3 of 8 policies that own objects were removed: a, b, c; what they idled waits for up to 24h; "
            "to allow: once --allow-removed"
        )
        change = {change_if_of(one) for one in outcome.desired.explanations if one.ref == objects[0].ref}
        assert change == {"the run has --allow-removed or it is 2026-11-24T05:59:00Z or later"}

    def lost(self, world, **fields):
        return run_in(world, *self.policies(*self.names[4:]), **fields)

    def test_policies_that_come_back_take_the_note_off(self):
        world = self.world()
        self.lost(world)
        outcome = run_in(world, *self.policies(*self.names))
        assert [one.cause.why for one in outcome.desired.decisions if one.ref == a_ref("a")] == [
            "its policy is there again"
        ]
        assert "reconciler/orphaned-since" not in world.objects[a_ref("a")].annotations
        assert world.replicas(a_ref("a")) == 0

    def test_after_a_day_it_wakes_all_the_same(self):
        world = self.world()
        repairs = [one.cause.why for one in self.lost(world).desired.decisions if one.ref == a_ref("a")]
        assert repairs == ["its policy was removed"]
        since = world.objects[a_ref("a")].annotations["reconciler/orphaned-since"]
        assert since == "2026-11-20T22:01:00Z"
        world.now += timedelta(hours=23)
        assert self.lost(world).desired.decisions == ()
        world.now += timedelta(hours=1)
        self.lost(world)
        assert [world.replicas(a_ref(name)) for name in self.names] == [3] * 4 + [0] * 4

    def test_what_another_policy_does_not_call_idle_does_not_pass_to_it(self):
        world = self.world()
        others = [replace(one, name=f"z-{one.name}") for one in self.policies(*self.names[:3])]
        run_in(world, *others, *self.policies(*self.names[4:]))
        assert world.replicas(a_ref("d")) == 0


def test_a_query_that_failed_is_told_once_among_what_is_unknown():
    state, policy = replace(SIMPLE, answers=answers(error="refused")), a_policy("idle-dev", a_metric())
    outcome = decided(state, policy)
    assert outcome.desired.notices == ()
    made = make_plan(a_policy_set(idling=(a_policy("idle-dev", a_metric()),)), state, outcome.desired, a_run())
    assert list(made.unknown.values()) == ["refused"]


BUSY_AND_IDLE = "schedule office-hours-off until 2026-11-23T06:00:00Z, but {}: 5 above 0 in 30m"


def test_each_policy_says_its_own_reason_before_that_of_the_one_that_decides():
    traffic, night = a_policy("traffic", a_metric()), a_policy("night", selector=workloads_selector("Deployment"))
    state = replace(SIMPLE, answers=answers(("web", 5), policy="traffic"))
    told = {one.policy: (one.outcome, one.why) for one in decided(state, night, traffic).desired.explanations}
    assert told == {
        "traffic": ("stays awake", "5 above 0 in 30m"),
        "night": ("stays awake", BUSY_AND_IDLE.format("traffic")),
    }


def test_policies_of_equal_priority_are_named_once_whatever_they_select():
    names = ("web", "api", "db", "queue")
    state = a_world(*(a_service(name) for name in names), *(a_workload(name) for name in names), now=NIGHT).state()
    outcome = decided(state, a_policy("a"), a_policy("b"))
    (text,) = notices_of(outcome, "equalPriorities")
    assert "east/shop/Deployment/api, east/shop/Deployment/db, east/shop/Deployment/queue and 1 more" in text


def test_an_excluded_namespace_is_not_selected_whatever_includes_it():
    for exclude, expected in ((("sh*",), []), (("other",), IDLE)):
        selector = services_selector(namespaces=ObjectSelector(("*",), exclude=exclude))
        assert verbs(decided(SIMPLE, a_policy(selector=selector))) == expected
