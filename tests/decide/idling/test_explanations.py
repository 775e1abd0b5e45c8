"""What people are told about choices: who selects what, whose wish lost, what is not known, and the notices."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from reconciler.decide.change_codes import field_is
from reconciler.decide.decisions import Notice
from reconciler.decide.idling.decide import IdlingOutcome
from reconciler.decide.idling.service_records import targets_text
from reconciler.model import EndpointSlice, ObjectRef
from reconciler.policy.types import Calendar, ScheduleCriterion
from tests.builders import a_cluster, a_ref, a_service, a_state, a_workload, an_hpa, an_idle_record
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_metric,
    a_policy,
    answers,
    decided,
    labelled,
    notices_of,
    services_selector,
    workloads_selector,
)

BY_NAME = workloads_selector().workloads

WEB = a_workload()

AT = "2026-11-20T21:00:00Z"
IDLED_AT, LISTED = "idling.kubernetes.io/idled-at", "idling.kubernetes.io/unidle-targets"
OURS = {"reconciler/owner": "production/IdlingPolicy/idle-dev"}
RECORD = an_idle_record(idled_to="0")
OC_IDLE = "idling.alpha.openshift.io/idled-at"
OC_RECORD = {OC_IDLE: AT, "idling.alpha.openshift.io/previous-scale": "4"}
STAGING = {"reconciler/owner": "staging/IdlingPolicy/night"}
UNREADABLE = {"reconciler/exclude": "maybe"}


def of(*policies: Any, service: Any = None, web: Any = None, now: Any = NIGHT, said: Any = None, **cluster: Any):
    """What is decided of Service web and of web behind it, with these fields."""
    fields = {"services": (a_service(**(service or {})),), "workloads": (a_workload(**(web or {})),)} | cluster
    return decided(a_state(a_cluster(**fields), answers=said or {}), *policies, now=now)


def told(outcome: IdlingOutcome, kind: str) -> list[Notice]:
    return [notice for notice in outcome.desired.notices if notice.kind == kind]


class TestExplanations:
    """(object, policy, outcome, whether the policy selects it, by which parts) of each."""

    def rows(self, outcome: IdlingOutcome) -> list[tuple[str, str, str, bool, tuple[str, ...]]]:
        return [
            (one.ref.kind, one.policy, one.outcome, one.selected, one.selected_by)
            for one in outcome.desired.explanations
        ]

    def test_only_the_services_that_the_policy_selects_are_named(self):
        fronts = [a_service(name, selector={"app": "web"}, labels={"of": name}) for name in ("front", "admin")]
        policies = [a_policy(name, selector=labelled("of", name)) for name in ("front", "admin")]
        assert [one[-1] for one in self.rows(of(*policies, services=tuple(fronts)))] == [
            ("services (Service/admin)",),
            ("services (Service/front)",),
        ]

    def test_of_two_equal_policies_both_are_named(self):
        assert [one[-1] for one in self.rows(of(a_policy("a"), a_policy("b")))] == [("services (Service/web)",)] * 2

    @cases(
        "web rows",
        ("idled by somebody else",
            {"replicas": 0, "annotations": OC_RECORD},
            [("Deployment", "", "left as it is", False, ())]),
        ("a request, and it runs", {"annotations": {"reconciler/wake-requested-at": AT}}, []),
    )  # fmt: skip
    def test_what_no_policy_selects_is_explained_where_it_is_idle(self, web, rows):
        assert self.rows(of(a_policy("other", selector=labelled("no", "one")), web=web)) == rows

    @cases(
        "web asleep",
        ("it runs", {}, 0),
        ("idle", {"replicas": 0, "annotations": RECORD}, 3),
        ("at one", {"replicas": 1, "annotations": {**RECORD, "reconciler/idled-to": "1"}}, 2),
        ("somebody scaled it up", {"replicas": 2, "annotations": RECORD}, 0),
        ("idled by somebody else", {"replicas": 0, "annotations": OC_RECORD}, 0),
        ("a CronJob has none of its own",
            {"kind": "CronJob", "replicas": 0, "suspend": True,
             "annotations": {**OURS, IDLED_AT: AT, "reconciler/previous-suspend": "false"}},
            0),
    )  # fmt: skip
    def test_how_many_replicas_are_asleep(self, web, asleep):
        kinds = a_policy(selector=workloads_selector("Deployment", "CronJob"))
        (one,) = of(kinds, web=web, services=()).desired.explanations
        assert (one.asleep, one.idled is not None) == (asleep, asleep > 0 or web.get("kind") == "CronJob")

    def test_a_cron_job_that_may_run_is_not_called_off(self):
        policy = a_policy(selector=workloads_selector("CronJob"), idle_replicas=1)
        web = {"kind": "CronJob", "replicas": None, "suspend": False}
        (one,) = of(policy, web=web, services=()).desired.explanations
        assert (one.why, one.change_if) == (
            "already at or below idleReplicas, without a record",
            field_is("idleReplicas", "0"),
        )

    @cases(
        "cluster kinds words",
        ("a workload is behind it", {}, ["Deployment"], "schedule office-hours-off"),
        ("none is", {"workloads": ()}, ["Service"], "no scalable workload is behind it"),
        ("not all are known",
            {"unreadable": {"endpointslices": "no"}},
            ["Deployment", "Service"], "its EndpointSlices cannot be read"),
    )  # fmt: skip
    def test_a_service_is_explained_where_its_workloads_do_not_say_all(self, cluster, kinds, words):
        explanations = of(a_policy(), **cluster).desired.explanations
        assert [(one.ref.kind, one.policy, one.selected) for one in explanations] == [
            (kind, "idle-dev", True) for kind in kinds
        ]
        assert words in explanations[-1].why

    @cases(
        "policies rows",
        ("through its Service",
            (a_policy(),), [("Deployment", "idle-dev", "goes idle", True, ("services (Service/web)",))]),
        ("itself",
            (a_policy(selector=workloads_selector()),),
            [("Deployment", "idle-dev", "goes idle", True, ("workloads",))]),
        ("both ways",
            (a_policy(selector=services_selector(workloads=BY_NAME)),),
            [("Deployment", "idle-dev", "goes idle", True, ("services (Service/web)", "workloads"))]),
        ("each policy one way",
            (a_policy("one"), a_policy("two", selector=workloads_selector())),
            [("Deployment", "one", "goes idle", True, ("services (Service/web)",)),
             ("Deployment", "two", "goes idle", True, ("workloads",))]),
    )  # fmt: skip
    def test_which_part_of_a_selector_selects_it(self, policies, rows):
        assert self.rows(of(*policies)) == rows


def never(name: str = "low", value: float | None = 1, **fields: Any):
    """A policy by a metric, and what it was answered: `value`, None for nothing."""
    policy = a_policy(name, a_metric(query="never"), **fields)
    return policy, {} if value is None else answers(("web", value), policy=name, query="never")


class TestOverridden:
    @cases(
        "fields value rows",
        ("it wants another thing", {}, 1, [("low", "awake", "high", "priority 5")]),
        ("it wants the same", {}, 0, []),
        ("it does not know", {}, None, []),
        ("it observes", {"priority": 9, "mode": "Observe"}, 1, [("low", "awake", "high", "it only observes")]),
    )
    def test_whose_wish_is_told(self, fields, value, rows):
        policy, said = never(value=value, **fields)
        outcome = of(a_policy("high", priority=5), policy, said=said)
        assert [(one.policy, one.desired, one.winner, one.why) for one in outcome.desired.overridden] == rows

    def test_an_explanation_names_what_wants_the_same_too(self):
        outcome = of(a_policy("high", priority=5), a_policy("low"))
        (one,) = outcome.desired.explanations
        assert outcome.desired.overridden == ()
        assert one.outranked == ("low",)

    def test_it_is_told_once_where_several_services_agree(self):
        policy, said = never()
        fronts = tuple(a_service(name, selector={"app": "web"}) for name in ("admin", "web"))
        outcome = of(a_policy("high", priority=5), policy, said=said, services=fronts)
        assert [(one.policy, one.desired) for one in outcome.desired.overridden] == [("low", "awake")]

    def test_so_is_that_of_a_policy_that_selects_the_workload_itself(self):
        closed = ScheduleCriterion(Calendar(UTC, "UTC", (), name="never"))
        policies = [a_policy(name, *criteria, priority=priority, selector=workloads_selector())
                    for name, priority, criteria in (("high", 5, (closed,)), ("low", 0, ()))]  # fmt: skip
        assert [(one.policy, one.desired) for one in of(*policies).desired.overridden] == [("low", "idle")]


class TestUndecided:
    def rows(self, outcome: IdlingOutcome) -> list[tuple[str, str, str]]:
        return [(one.subject, one.policy, one.why) for one in outcome.desired.undecided]

    @cases(
        "value no_place words",
        ("idle", 0, "", ""),
        ("busy", 1, "", ""),
        ("unknown", None, "", "metric unknown in 30m: not evaluated"),
        ("idle, no scale", 0, "it has no spec.pool", "it has no spec.pool"),
        ("busy, no scale", 1, "it has no spec.pool", ""),
    )
    def test_of_what_runs(self, value, no_place, words):
        policy, said = never(value=value)
        assert self.rows(of(policy, web={"no_place": no_place}, said=said)) == [
            ("east/shop/Deployment/web", "low", words)
        ] * bool(words)

    @cases(
        "due count",
        ("it stays idle", "2026-11-21T06:00:00Z", 1),
        ("it is due, and woken", AT, 0),
    )
    def test_of_what_is_idle(self, due, count):
        policy, _ = never("idle-dev")
        outcome = of(policy, web={"replicas": 0, "annotations": {**RECORD, "reconciler/wake-due": due}})
        assert len(outcome.desired.undecided) == count

    @cases("labels count", ("selected", {"app": "web"}, 1), ("not selected", {}, 0))
    def test_of_a_service_whose_workloads_are_not_all_known(self, labels, count):
        policy = a_policy(selector=labelled("app", "web"))
        asked = {"reconciler/wake-requested-at": AT}
        outcome = of(policy, service={"labels": labels, "annotations": asked}, unreadable={"endpointslices": "no"})
        assert (
            self.rows(outcome) == [("east/shop/Service/web", "idle-dev", "its EndpointSlices cannot be read")] * count
        )


class TestWhatMayBeBehindAService:
    """Its pods are asked for only where they matter: it would go idle if they were all there is to know."""

    pods = EndpointSlice(
        ObjectRef("east", "shop", "EndpointSlice", "web-x", "discovery.k8s.io"), "web", (("a", "uid"),)
    )

    @cases(
        "service values asked",
        ("idle", {}, (0,), True),
        ("busy", {}, (1,), False),
        ("unknown", {}, (None,), False),
        ("no policy", {}, (), False),
        ("two policies call it idle", {}, (0, 0), True),
        ("one of two calls it busy", {}, (0, 1), False),
        ("excluded", {"reconciler/exclude": "true"}, (0,), False),
        ("idled by somebody else", {OC_IDLE: AT}, (0,), False),
        ("both", {"reconciler/exclude": "true", OC_IDLE: AT}, (0,), False),
    )
    @cases("has_pods", ("its pods are not read", True), ("it has none", False))
    def test_where_nothing_else_is_known(self, has_pods, service, values, asked):
        said: dict[Any, Any] = {}
        policies = []
        for place, value in enumerate(values):
            policy, answered = never(f"p{place}", value)
            policies.append(policy)
            said |= answered
        if not values:
            policies = [a_policy(selector=labelled("no", "one"))]
        slices = (self.pods,) if has_pods else ()
        outcome = of(*policies, service={"annotations": service}, workloads=(), endpoint_slices=slices, said=said)
        assert [one.workload.name for one in outcome.desired.questions] == ["web"] * (asked and has_pods)
        assert len(told(outcome, "nothingBehind")) == (asked and not has_pods)


@cases(
    "annotations who",
    ("oc idle", OC_RECORD, "somebody else"),
    ("another Fleet", {**RECORD, **STAGING}, "Fleet staging"),
    ("it cannot be read", {OC_IDLE: "yesterday"}, "somebody else"),
)
@pytest.mark.parametrize("kind", ["Service", "Deployment"])
def test_who_idled_it_is_told(kind, annotations, who):
    fields = (
        {"service": {"annotations": annotations}}
        if kind == "Service"
        else {"web": {"replicas": 0, "annotations": annotations}}
    )
    assert notices_of(of(a_policy(), **fields), "foreignRecord") == [f"east/shop/{kind}/web was idled by {who}"]


class TestListsThatSayMore:
    def outcome(self, *counts: int, replicas: int = 0, record: dict[str, str] | None = RECORD, now: Any = NIGHT):
        """web with a record of three, in front of which Services list it with `counts`."""
        fronts = tuple(
            a_service(name, selector={"app": "web"}, annotations={
                **OURS, IDLED_AT: AT, LISTED: targets_text({a_ref("web"): count}),
            })
            for name, count in zip("abc", counts, strict=False)
        )  # fmt: skip
        return of(a_policy(), services=fronts, web={"replicas": replicas, "annotations": record or {}}, now=now)

    @cases("counts replicas", ("none", (), 0), ("as many", (3,), 0), ("fewer", (2,), 0), ("it runs", (5,), 4))
    def test_nothing_is_told_where_none_does(self, counts, replicas):
        assert notices_of(self.outcome(*counts, replicas=replicas), "unproven") == []

    def test_a_list_without_a_record_is_told_once_for_all_services(self):
        assert notices_of(self.outcome(5, 4, record=None), "unproven") == [
            "east/shop/Deployment/web: Service/a and Service/b list it as idle with 5 replicas, but it has no record "
            "of its own; it is left unchanged: scale it, or run reconciler restore east/shop/Deployment/web --adopt"
        ]

    @pytest.mark.parametrize("counts", [(5, 4), (4, 5)])
    def test_the_highest_of_them_is_told(self, counts):
        name = "ab"[counts.index(5)]
        assert notices_of(self.outcome(*counts), "unproven") == [
            f"east/shop/Deployment/web: Service/{name} lists it with 5 replicas, its own records at most 3; "
            "that is what it wakes to"
        ]


class TestExclusionsThatCannotBeRead:
    words = 'reconciler/exclude is "maybe", expected "true" or "false"'

    @cases(
        "services web subjects",
        ("of a Service", (UNREADABLE,), {}, ["Service/admin"]),
        ("of one of two Services", (UNREADABLE, {}), {}, ["Service/admin"]),
        ("of two Services", (UNREADABLE, UNREADABLE), {}, ["Service/admin", "Service/web"]),
        ("of the workload", ({},), UNREADABLE, ["Deployment/web"]),
        ("of both", (UNREADABLE,), UNREADABLE, ["Deployment/web", "Service/admin"]),
        ("one that can be read", ({},), {"reconciler/exclude": "true"}, []),
        ("none", ({},), {}, []),
    )
    def test_each_is_told_once(self, services, web, subjects):
        fronts = tuple(
            a_service(name, selector={"app": "web"}, annotations=annotations)
            for name, annotations in zip(("admin", "web"), services, strict=False)
        )
        notices = told(of(a_policy(), services=fronts, web={"annotations": web}), "excludedUnreadable")
        assert [one.subject.removeprefix("east/shop/") for one in notices] == subjects
        assert all(self.words in one.text for one in notices)

    def test_it_says_what_carries_it(self):
        (text,) = notices_of(of(a_policy(), web={"annotations": UNREADABLE}), "excludedUnreadable")
        assert text == f"east/shop/Deployment/web: Deployment/web: {self.words}; it counts as excluded"


class TestAutoscalersThatHold:
    hpa = an_hpa()
    scaled = a_workload("jobs", kind="ScaledObject", replicas=None, scale_target=("Deployment", "web"))

    @cases(
        "policy cluster words",
        ("one that is not left alone", a_policy(), {"autoscalers": (hpa,)}, ""),
        ("one that is left alone",
            a_policy(hpa="Leave"), {"autoscalers": (hpa,)}, "autoscalers.hpa: Leave"),
        ("none that could be left alone", a_policy(hpa="Leave"), {}, ""),
        ("KEDA is left alone, it has none", a_policy(keda="Leave"), {"autoscalers": (hpa,)}, ""),
        ("KEDA is left alone",
            a_policy(keda="Leave"), {"workloads": (WEB, scaled)}, "autoscalers.keda: Leave"),
        ("HPAs are, it has none", a_policy(hpa="Leave"), {"workloads": (WEB, scaled)}, ""),
        ("something else keeps it up first",
            a_policy(hpa="Leave"), {"autoscalers": (hpa,), "unreadable": {"scaledobjects": "no"}}, ""),
    )  # fmt: skip
    def test_they_are_told_where_they_are_the_reason(self, policy, cluster, words):
        notices = told(of(policy, **cluster), "autoscaler")
        assert [(one.subject, one.policy) for one in notices] == [("east/shop/Deployment/web", "idle-dev")] * bool(
            words
        )
        assert all(words in one.text for one in notices)
