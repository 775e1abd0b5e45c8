"""What is behind a Service goes idle together, or not at all: found by labels, by endpoints, and with reasons."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.model import Endpoints, ObjectRef, ObservedState, OwnerReference, PodsQuestion, Service, Workload
from reconciler.policy.types import IdlingPolicy, ObjectSelector, Selector, WorkloadSelector
from reconciler.workload_kinds import WorkloadKind
from tests.builders import a_cluster, a_pod, a_ref, a_service, a_state, a_workload, an_endpoint_slice, change_if_of
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    NIGHT,
    NOON,
    a_policy,
    a_schedule,
    decided,
    labelled,
    notices_of,
    run_in,
    verbs,
    why_of,
    workloads_selector,
)
from tests.decide.idling.world import a_world

WEB = a_workload()
API = a_workload("api", template_labels={"app": "web", "part": "api"})
SERVICE = a_service()
EXCLUDED = {"reconciler/exclude": "true"}


def a_pod_of(workload: Workload, **fields: Any):
    owner = {"owner_uid": workload.uid, "owner_kind": workload.ref.kind, "owner_name": workload.ref.name}
    return a_pod(f"{workload.ref.name}-0", **(owner | fields))


def behind(service: Service, *workloads: Workload, by_labels: tuple[Workload, ...] = (WEB,), **fields: Any):
    """A state where the endpoints of `service` name a pod of each of `workloads`; all pods were asked for."""
    pods = tuple(map(a_pod_of, workloads))
    defaults: dict[str, Any] = {
        "services": (service,),
        "workloads": tuple({one.ref: one for one in (*by_labels, *workloads)}.values()),
        "endpoint_slices": (an_endpoint_slice(service.ref.name, *(pod.name for pod in pods)),),
        "pods": {service.ref: pods},
    }
    return a_state(a_cluster(**(defaults | fields)))


def idled(outcome) -> list[str]:
    return sorted(one.ref.name for one in outcome.desired.decisions if one.idles and one.ref.kind != "Service")


# which targets


OTHER = a_workload("other", labels={"x": "y"})


HELD = [
    ("excluded",
        replace(OTHER, annotations=EXCLUDED), 'Deployment/other: reconciler/exclude: "true"'),
    ("too young", replace(OTHER, created_at=NIGHT), "younger than minAge"),
    ("in rollout", replace(OTHER, updated_replicas=1), "rollout in progress"),
    ("woken just now",
        replace(OTHER, annotations={"reconciler/awake-since": "2026-11-20T21:30:00Z"}),
        "less than minAwake"),
    ("contested",
        replace(OTHER, annotations={"reconciler/contested": '{"by":"argocd","since":"x"}'}),
        "contested by argocd"),
    ("foreign, and running",
        replace(OTHER, annotations={"idling.alpha.openshift.io/idled-at": "2026-11-20T21:30:00Z",
                                    "idling.alpha.openshift.io/previous-scale": "3"}),
        "was idled by somebody else"),
    ("a broken record, and running",
        replace(OTHER, annotations={"reconciler/owner": "production/IdlingPolicy/idle-dev"}),
        "its record cannot be read"),
]  # fmt: skip


@cases("other why", *HELD)
@pytest.mark.parametrize("by", ["endpoints", "labels"])
def test_nothing_behind_a_service_goes_idle_while_one_target_stays_up(other, why, by):
    policy = a_policy(min_age=timedelta(hours=1))
    if by == "endpoints":
        state = behind(SERVICE, WEB, other)
    else:
        state = behind(SERVICE, by_labels=(WEB, replace(other, template_labels={"app": "web"})))
    outcome = decided(state, policy)
    assert outcome.desired.decisions == ()
    assert why_of(outcome).startswith("Deployment/other behind Service/web stays awake: ")
    assert why in why_of(outcome)
    (told,) = notices_of(outcome, "heldTogether")
    assert told.startswith("east/shop/Service/web: no workload behind it is idled: Deployment/other ")
    assert why in told


class TestSharedTargets:
    """Service web in front of web and api, Service api in front of api and db, Service alone in front of alone."""

    services = (SERVICE, a_service("api", selector={"part": "api"}), a_service("alone"))
    db = a_workload("db", kind="StatefulSet", template_labels={"part": "api"})
    alone = a_workload("alone")

    def decided(self, *workloads: Workload, policy: IdlingPolicy | None = None):
        return decided(a_state(a_cluster(services=self.services, workloads=workloads)), policy or a_policy())

    def test_one_holds_all_that_share_anything_with_it(self):
        outcome = self.decided(WEB, API, replace(self.db, annotations=EXCLUDED), self.alone)
        assert idled(outcome) == ["alone"]
        for name in ("web", "api"):
            assert why_of(outcome, name).startswith("StatefulSet/db behind Service/api stays awake: excluded")
        assert len(notices_of(outcome, "heldTogether")) == 2

    def test_what_shares_anything_is_one_group(self):
        decisions = self.decided(WEB, API, self.db, self.alone).desired.decisions
        groups = {one.group: {other.ref.name for other in decisions if other.group == one.group} for one in decisions}
        assert sorted(map(sorted, groups.values())) == [["alone"], ["api", "db", "web"]]

    def test_a_service_that_is_only_observed_holds_no_idles_of_another_policy(self):
        """Service one (sleep) is in front of web and api, Service two (watch) of api and db."""
        services = (
            a_service("one", labels={"a": "one"}, selector={"app": "web"}),
            a_service("two", labels={"a": "two"}, selector={"part": "api"}),
        )
        db = a_workload("db", template_labels={"part": "api"})
        sleep = a_policy("sleep", selector=labelled("a", "one"))
        watch = a_policy("watch", mode="Observe", selector=labelled("a", "two"))
        outcome = decided(a_state(a_cluster(services=services, workloads=(WEB, API, db))), sleep, watch)
        assert verbs(outcome) == [("record", "Service/one"), ("idle", "Deployment/api"), ("idle", "Deployment/web")]
        assert [one.ref.name for one in outcome.desired.observed] == ["two", "db"]
        assert notices_of(outcome, "heldTogether") == []

    def test_what_a_policy_excludes_holds_the_others_though_it_is_observed(self):
        watch = a_policy("watch", mode="Observe")
        sleep = a_policy(
            "sleep", exclude=(Selector(workloads=WorkloadSelector(objects=ObjectSelector(include=("api",)))),)
        )
        outcome = decided(behind(SERVICE, API), sleep, watch)
        assert outcome.desired.decisions == outcome.desired.observed == ()
        assert why_of(outcome) == "Deployment/api behind Service/web stays awake: sleep excludes it (exclude[0])"

    def test_what_policies_that_only_observe_select_keeps_the_reason_of_its_criteria(self):
        watch = a_policy("watch", mode="Observe")
        outcome = decided(behind(SERVICE, endpoint_slices=()), watch)
        assert why_of(outcome) == why_of(decided(behind(SERVICE, endpoint_slices=())))
        assert notices_of(outcome, "heldTogether") == []


def test_what_runs_is_held_back_by_what_wakes():
    world = a_world(SERVICE, WEB, API, now=NIGHT)
    run_in(world)
    assert [world.replicas(one.ref) for one in (WEB, API)] == [0, 0]
    world.now += timedelta(minutes=5)
    world.add(a_workload("new", template_labels={"app": "web"}))
    world.annotate(WEB.ref, "reconciler/wake-requested-at", world.now.isoformat())
    outcome = run_in(world)
    assert world.replicas(a_ref("new")) == 3
    assert why_of(outcome, "new").startswith("Deployment/web behind Service/web wakes: wake requested at")


@pytest.mark.parametrize("replicas", [5, 2, 1])
def test_a_service_names_the_highest_at_which_anything_behind_it_stands_idle(replicas):
    """Service web is in front of web, idled to 0, and of batch, which a second policy wants no lower than 2."""
    two = a_policy(
        "batch", selector=Selector(workloads=WorkloadSelector((), ObjectSelector(("batch",)))), idle_replicas=2
    )
    world = a_world(SERVICE, WEB, a_workload("batch", replicas=replicas, template_labels={"app": "web"}), now=NIGHT)
    run_in(world, a_policy(), two)
    assert [world.replicas(a_ref(name)) for name in ("web", "batch")] == [0, min(replicas, 2)]
    assert world.objects[SERVICE.ref].annotations["reconciler/idled-to"] == str(min(replicas, 2))
    assert run_in(world, a_policy(), two).desired.decisions == ()


# what is not known


@cases(
    "pod why",
    ("a DaemonSet", a_pod("x", owner_uid="u", owner_kind="DaemonSet", owner_name="d"), "owned by DaemonSet/d"),
    ("a pod of nobody", a_pod("x"), "Pod/x has no owner"),
    ("a pod that is gone", None, "Pod/x, which its endpoints name, is not there"),
)
def test_a_pod_that_nothing_scales_holds_the_service(pod, why):
    state = behind(
        SERVICE, endpoint_slices=(an_endpoint_slice("web", "x"),), pods={SERVICE.ref: () if pod is None else (pod,)}
    )
    outcome = decided(state)
    assert outcome.desired.decisions == ()
    assert why in outcome.desired.undecided[0].why
    assert why in why_of(outcome)


def test_a_pod_on_its_way_out_holds_nothing():
    going = a_pod("x", owner_uid="u", owner_kind="ReplicaSet", owner_name="gone", terminating=True)
    state = behind(SERVICE, endpoint_slices=(an_endpoint_slice("web", "x"),), pods={SERVICE.ref: (going,)})
    assert idled(decided(state)) == ["web"]


class TestPodsAreAskedFor:
    """Once something would go idle, and not before."""

    def asked(self, web: Workload = WEB, service: Service = SERVICE, **fields: Any) -> ObservedState:
        return behind(
            service, by_labels=(web,), endpoint_slices=(an_endpoint_slice("web", "web-0"),), pods={}, **fields
        )

    def test_where_the_service_would_go_idle(self):
        outcome = decided(self.asked())
        assert outcome.desired.questions == (PodsQuestion(SERVICE.ref),)
        assert outcome.desired.decisions == ()
        assert why_of(outcome) == "the pods behind Service/web are not known yet"

    @cases(
        "state now",
        ("busy", {}, NOON),
        ("excluded", {"web": replace(WEB, annotations=EXCLUDED)}, NIGHT),
        ("in rollout", {"web": replace(WEB, updated_replicas=1)}, NIGHT),
        ("an excluded Service", {"service": a_service(annotations=EXCLUDED)}, NIGHT),
        ("at zero", {"web": replace(WEB, replicas=0)}, NIGHT),
    )
    def test_and_nowhere_else(self, state, now):
        assert decided(self.asked(**state), now=now).desired.questions == ()


# Services without a selector


class TestWithoutSelector:
    service = a_service(selector={})

    @cases("slices", ("no slices", ()), ("an empty slice", (an_endpoint_slice("web"),)))
    def test_so_do_plain_endpoints(self, slices):
        endpoints = Endpoints(a_ref(kind="Endpoints"), "uid-e", pods=(("web-0", "uid-web-0"),))
        state = behind(self.service, WEB, endpoint_slices=slices, endpoints=(endpoints,))
        assert idled(decided(state)) == ([] if slices else ["web"])

    def test_one_of_which_nothing_can_be_found_says_so(self):
        outcome = decided(behind(self.service, endpoint_slices=(), by_labels=()))
        (told,) = notices_of(outcome, "nothingBehind")
        assert told == (
            "east/shop/Service/web: no workload behind it can be idled: "
            "it has no selector, and its endpoints name no pods"
        )

    def test_one_whose_selector_matches_nothing_says_so_too(self):
        outcome = decided(behind(SERVICE, endpoint_slices=(), by_labels=()))
        assert "no workload has the labels that it selects" in notices_of(outcome, "nothingBehind")[0]


# custom kinds


PROMETHEUS = WorkloadKind("monitoring.coreos.com", "v1", "Prometheus", "prometheuses", ("spec", "shards"))
K8S = ObjectRef("east", "shop", "Prometheus", "k8s", "monitoring.coreos.com")


def a_prometheus(**fields: Any) -> tuple[Workload, Workload]:
    """A custom object with a scale, and the StatefulSet that its operator made."""
    custom = replace(a_workload(replicas=1), ref=K8S, uid="uid-k8s", template_labels={}, **fields)
    owner = OwnerReference("monitoring.coreos.com/v1", "Prometheus", "k8s", "uid-k8s")
    return custom, a_workload("prometheus-k8s", kind="StatefulSet", owner=owner, template_labels={"app": "web"})


def a_monitored_state(*more: Workload) -> ObservedState:
    return a_state(a_cluster(services=(SERVICE,), workloads=(*a_prometheus(), *more), scale_kinds=(PROMETHEUS,)))


def test_a_custom_kind_behind_a_service_is_idled_only_where_a_policy_names_it():
    outcome = decided(a_monitored_state(WEB))
    assert outcome.desired.decisions == ()
    assert why_of(outcome, "k8s") == "Prometheus is a custom kind, not named by idle-dev"
    (change,) = {change_if_of(one) for one in outcome.desired.explanations if one.ref == K8S}
    assert change == "workloads: {kinds: [Prometheus], include: [k8s]} is in the selector of idle-dev"
    assert why_of(outcome).startswith("Prometheus/k8s behind Service/web stays awake: Prometheus is a custom kind")


def test_it_says_what_to_write():
    (told,) = notices_of(decided(a_monitored_state()), "customKind")
    assert told == (
        "east/shop/Prometheus/k8s: Prometheus is a custom kind, not named by idle-dev; "
        "to idle it too, write workloads: {kinds: [Prometheus], include: [k8s]} in the selector of idle-dev"
    )


def test_another_policy_that_selects_it_may_name_it():
    direct = a_policy("b", a_schedule(), selector=workloads_selector("Prometheus"))
    assert idled(decided(a_monitored_state(WEB), a_policy(), direct)) == ["k8s", "web"]
