"""What a plan says beside its actions: where policies stand, what filters left out, what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.decide.decisions import DesiredState, Phase, PolicyExplanation, Verb
from reconciler.decide.held_back import within_limits
from reconciler.decide.limit_amounts import scalable_workloads
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.labels import LabelSelector
from reconciler.model import OwnerReference, QueryAnswer, QueryKey
from reconciler.plan.build import make_plan
from reconciler.plan.filters import NO_FILTERS, Filters
from reconciler.plan.model import KeptUp
from reconciler.policy.types import Place, Selector, Tenant, WorkloadSelector
from reconciler.workload_kinds import WorkloadKind
from tests.builders import (
    a_cluster,
    a_downscale_policy,
    a_federated_replica_set,
    a_fleet,
    a_policy_set,
    a_ref,
    a_run,
    a_state,
    a_workload,
    an_hpa,
    an_idling_policy,
)
from tests.cases import cases
from tests.pipeline import manifests
from tests.pipeline.calls import Folder
from tests.plans import a_decision

WIDGETS = WorkloadKind("example.com", "v1", "Widget", "widgets")


def planned(policies=None, state=None, decisions=(), filters=None):
    found, seen = policies or a_policy_set(), state or a_state(a_cluster())
    desired = within_limits(DesiredState(decisions=tuple(decisions)), found, seen, a_run())
    return make_plan(found, seen, desired, a_run(), filters or NO_FILTERS)


@cases(
    "annotations owned is_named",
    ("woken today", {"reconciler/awake-since": "2026-11-20T15:00:00Z"}, False, True),
    ("woken within two days", {"reconciler/awake-since": "2026-11-18T15:41:24Z"}, False, True),
    ("woken two days ago", {"reconciler/awake-since": "2026-11-18T15:41:23Z"}, False, False),
    ("who knows when", {"reconciler/awake-since": "today"}, False, False),
    ("never", {}, False, False),
    ("a copy on what it owns", {"reconciler/awake-since": "2026-11-20T15:00:00Z"}, True, False),
)
def test_what_woke_in_the_last_two_days_is_named(annotations, owned, is_named):
    owner = OwnerReference("apps/v1", "Deployment", "web", "uid") if owned else None
    state = a_state(a_cluster(workloads=(a_workload(annotations=annotations, owner=owner),)))
    assert [(one.ref, one.replicas) for one in planned(state=state).awake] == [(a_ref(), 3)] * is_named


@cases("is_left", ("of which all is left", True), ("without what placement does", False))
def test_a_wake_needs_the_change_of_the_pod_template_of_its_object(is_left):
    wakes = [a_decision(name, key=name, verb=Verb.WAKE, phase=Phase.WAKE, before=0, after=3) for name in ("web", "api")]
    repair = a_decision(key="repair", verb=Verb.REPAIR, phase=Phase.REPAIR, before=3, after=3)
    other = {"job": "placement", "policy": "web", "group": "placement/shop/web", "before": 3, "after": 3}
    template = a_decision(key="template", verb=Verb.OVERWRITE, phase=Phase.WAKE, **other)
    filters = Filters() if is_left else Filters(policies=("idle-dev",))
    made = planned(decisions=(*wakes, repair, template), filters=filters)
    needs = {action.decision.key: action.decision.needs for action in made.actions}
    changed = {"web": ("template",), "template": ()} if is_left else {"web": ()}
    assert needs == {"api": (), "repair": (), **changed}


def test_where_each_policy_stands():
    tenant = Tenant(name="a", place=Place("policies/fleet.yaml", 9), paths=("teams/a/",), namespaces=("a-*",))
    policies = a_policy_set(
        a_fleet(tenants=(tenant,)),
        idling=(an_idling_policy("nights"),),
        federated=(a_federated_replica_set("web"), a_federated_replica_set("api", place=Place(""))),
        downscale=(a_downscale_policy("shrink"),),
    )
    assert planned(policies).places == {
        "Fleet production": "policies/fleet.yaml:1",
        "Tenant a": "policies/fleet.yaml:9",
        "IdlingPolicy nights": "policies/nights.yaml:4",
        "FederatedReplicaSet shop/web": "policies/web.yaml:4",
        "DownscalePolicy shrink": "policies/shrink.yaml:4",
    }


@pytest.mark.parametrize(("label", "kept"), [("a", 1), ("b", 0)])
def test_a_horizontal_pod_autoscaler_has_its_labels(label, kept):
    hpa = an_hpa(labels={"team": "a"})
    filters = Filters(labels=LabelSelector((("team", label),)))
    assert (
        len(
            planned(
                state=a_state(a_cluster(autoscalers=(hpa,))), decisions=[a_decision(ref=hpa.ref)], filters=filters
            ).actions
        )
        == kept
    )


def test_how_many_changes_filters_leave_out():
    decisions = [
        a_decision(name, ref=a_ref(name, cluster=cluster))
        for name, cluster in (("a", "east"), ("b", "west"), ("c", "west"))
    ]
    state = a_state(
        *(
            a_cluster(name, workloads=tuple(a_workload(f"{name}-{at}", cluster=name) for at in range(9)))
            for name in ("east", "west")
        )
    )
    made = planned(state=state, decisions=decisions, filters=Filters(clusters=("east",)))
    assert ([one.ref.name for one in made.actions], made.dropped) == (["a"], 2)
    assert planned(state=state, decisions=decisions).dropped == 0


@cases(
    "verbs dropped",
    ("beside changes", (Verb.IDLE, Verb.RECORD, Verb.IDLE, Verb.REMEMBER), 2),
    ("alone, so that something is left to do", (Verb.RECORD, Verb.REMEMBER), 2),
)
def test_metadata_updates_that_filters_leave_out_are_none_of_its_changes(verbs, dropped):
    """As in the sums of a plan."""
    decisions = [
        a_decision(f"{at}", verb=verb, ref=a_ref(f"{at}", cluster="west"), changes=()) for at, verb in enumerate(verbs)
    ]
    state = a_state(a_cluster("west", workloads=tuple(a_workload(f"{at}", cluster="west") for at in range(4))))
    assert planned(state=state, decisions=decisions, filters=Filters(clusters=("east",))).dropped == dropped


def test_what_is_unknown_is_named_by_cluster_and_what_it_is():
    west = a_cluster("west", unreadable={"pods": "forbidden"})
    answers = {
        QueryKey("west", "nights", "up[{{ window }}]", "5m"): QueryAnswer((), error="HTTP 500"),
        QueryKey("gone", "nights", "up", ""): QueryAnswer((), error="refused"),
        QueryKey("west", "days", "up", ""): QueryAnswer(()),
    }
    made = planned(state=a_state(west, unreachable={"north": "refused"}, answers=answers))
    assert made.unknown == {"north": "refused", "west/pods": "forbidden", "west/query of nights: up[5m]": "HTTP 500"}
    assert list(made.unknown) == sorted(made.unknown)
    assert {key.cluster for key in made.unanswered} == {"west", "gone"}


def test_limits_count_what_nothing_else_owns_or_scales():
    owned = a_workload("web-1", kind="ReplicaSet", owner=OwnerReference("apps/v1", "Deployment", "web", "x"))
    scaled = a_workload("web-so", kind="ScaledObject")
    state = a_state(a_cluster(workloads=(a_workload(), owned, scaled, a_workload("api"))))
    assert [one.ref.name for one in scalable_workloads(state)] == ["web", "api"]


@cases(
    "policies selected without",
    ("no policy, so nothing to wonder about", {}, (), ()),
    ("idling", {"idling": (an_idling_policy("nights"),)}, (), ("IdlingPolicy nights",)),
    ("downscale", {"downscale": (a_downscale_policy("shrink"),)}, (), ("DownscalePolicy shrink",)),
    ("placement names its own", {"federated": (a_federated_replica_set("web"),)}, (), ()),
    ("all excluded", {"idling": (an_idling_policy("nights"),)}, (False, False), ("IdlingPolicy nights",)),
    ("one selected", {"idling": (an_idling_policy("nights"),)}, (False, True), ()),
    (
        "one of two policies selects something",
        {"idling": (an_idling_policy("nights"), an_idling_policy("days"))},
        (True,),
        ("IdlingPolicy days",),
    ),
    (
        "two kinds of one name",
        {"idling": (an_idling_policy("nights"),), "downscale": (a_downscale_policy("nights"),)},
        (True,),
        ("DownscalePolicy nights",),
    ),
)
def test_which_policies_select_nothing(policies, selected, without):
    said = tuple(
        PolicyExplanation(a_ref(str(at)), "idling", "nights", "", (), selected=one) for at, one in enumerate(selected)
    )
    desired = DesiredState(explanations=said)
    made = make_plan(a_policy_set(**policies), a_state(a_cluster()), desired, a_run())
    assert made.without_workloads == without


@cases(
    "selector manifest",
    ("a workload", "workloads: {}", manifests.workload()),
    ("a Service without a workload", "services: {}", manifests.service()),
)
def test_a_policy_that_another_overrides_selects_something(tmp_path, selector, manifest):
    folder = Folder(tmp_path)
    nights, days = manifests.idling(selector), manifests.idling(selector, "priority: 1", name="days")
    folder.write("policies/all.yaml", manifests.documents(manifests.fleet(["east"]), nights, days))
    folder.write("snapshot/east/all.yaml", manifest)
    assert "selected by" not in folder.plan("2026-11-20T22:00:00Z").out


@cases(
    "named cluster missing",
    ("no cluster has it", "Widget", {}, True),
    ("one has", "widget.example.com", {"scale_kinds": (WIDGETS,)}, False),
    ("it cannot be read", "Widget", {"unreadable": {"widgets.example.com": "403"}}, False),
    ("a kind that is known", "ScaledObject", {}, False),
)
def test_a_kind_that_no_cluster_can_scale_is_a_notice(named, cluster, missing):
    policy = an_idling_policy("nights", selector=Selector(workloads=WorkloadSelector(kinds=(named,))))
    made = make_plan(a_policy_set(idling=(policy,)), a_state(a_cluster(**cluster)), DesiredState(), a_run())
    assert [(one.kind, one.subject) for one in made.notices] == [("notServed", "IdlingPolicy nights")] * missing


def test_a_policy_may_select_what_cannot_be_read():
    policies = a_policy_set(idling=(an_idling_policy("nights"),))
    states = (a_state(a_cluster(unreadable={"pods": "403"})), a_state(a_cluster(), unreachable={"lost": "timed out"}))
    for state in states:
        assert make_plan(policies, state, DesiredState(), a_run()).without_workloads == ()


OLD_ENOUGH = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)


LATER = OLD_ENOUGH + timedelta(minutes=30)


@cases(
    "ends expected",
    ("one, for a time", [("minAge", OLD_ENOUGH)], [KeptUp("minAge", 1, OLD_ENOUGH)]),
    ("one, and nobody knows how long", [("a rollout", None)], [KeptUp("a rollout", 1, None)]),
    ("one by something else", [None], []),
    (
        "several, until the last one ends",
        [("minAge", LATER), ("minAwake", None), ("minAge", OLD_ENOUGH), ("minAwake", LATER), ("minAge", None)],
        [
            *(KeptUp("minAge", 2, LATER), KeptUp("minAge", 1, None)),
            *(KeptUp("minAwake", 1, LATER), KeptUp("minAwake", 1, None)),
        ],
    ),
)
def test_what_only_time_or_a_rollout_keeps_from_being_idled_is_counted(ends, expected):
    assert kept_up(*ends) == expected


def kept_up(*ends, filters=None):
    """What the plan says of one workload for each of `ends`, which two policies select, and of another that nothing
    keeps up.
    """
    policies = a_policy_set()
    several = [a_workload(f"web-{at}", labels={"app": "web"}) for at in range(len(ends))]
    api = a_workload("api", labels={"app": "api"})
    explanations = [
        PolicyExplanation(web.ref, "idling", name, "stays awake", (), until=until)
        for web, until in zip(several, ends, strict=True)
        for name in ("nights", "weekends")
    ]
    explanations.insert(0, PolicyExplanation(api.ref, "idling", "nights", "stays idle", (reason(ReasonCode.IDLE),)))
    desired = DesiredState(explanations=tuple(explanations))
    state = a_state(a_cluster(workloads=(*several, api)))
    return list(make_plan(policies, state, desired, a_run(), filters or NO_FILTERS).kept_up)


@pytest.mark.parametrize(("app", "count"), [("web", 1), ("api", 0)])
def test_what_the_filters_leave_out_waits_for_nothing(app, count):
    found = kept_up(("minAge", OLD_ENOUGH), filters=Filters(labels=LabelSelector((("app", app),))))
    assert len(found) == count
