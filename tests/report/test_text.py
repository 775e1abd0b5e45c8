"""Plans and reports as text: the exact words, and that nothing is left out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.apply.outcomes import Outcome, Status
from reconciler.decide.types import (
    Cause,
    FieldChange,
    Notice,
    Overridden,
    Phase,
    Undecided,
    Verb,
    VictimForecast,
    replicas_change,
)
from reconciler.plan.actions import HeldBackActions, LimitUse
from reconciler.report.changes import name_of, what_of
from reconciler.report.text import render_text
from tests.builders import a_ref
from tests.report.plans import IDLE_DEV, a_create, a_decision, a_mark, a_plan, a_scale, a_wake, an_idle
from tests.report.strategies import outcomes_of, plans

LIMITS = "Limits: 1 of 45 workloads, 7 of 300 replicas."


def text_of(plan, outcomes=None, **fields) -> str:
    return render_text(plan, outcomes, **fields)


def undecided(name: str) -> Undecided:
    return Undecided(f"eu-west/x/Service/{name}", "idling", "idle-dev", "no answer")


def test_the_sample():
    placed = a_scale(6, 2, cause=Cause("web", "", "weight 1 of 4, max 2"))
    plan = a_plan(placed, an_idle(), undecided=(undecided("y"), undecided("z")))
    assert text_of(plan) == (
        "↓ eu-west shop/Deployment/web replicas 6 → 2 (placement web: weight 1 of 4, max 2)\n"
        "→0 eu-west dev-a/Deployment/api replicas 3 → 0 (idle-dev: 0 requests in 30m; policies/dev.yaml:4)\n"
        "\n"
        "Undecided: no answer (idle-dev): 2 objects: eu-west/x/Service/y, eu-west/x/Service/z\n"
        "\n"
        f"Plan: 1 to idle, 0 to wake, 1 to scale down, 2 undecided, 0 unknown. 7 replicas fewer. {LIMITS}\n"
    )


def test_nothing_to_do():
    assert text_of(a_plan()) == "No changes.\n"


def test_nothing_that_could_be_read_is_not_nothing_to_do():
    plan = a_plan(unknown={"eu-west": "connection refused"}, clusters={}, limits=())
    assert text_of(plan).splitlines()[0] == "No cluster could be read."


def test_nothing_to_do_but_something_to_say():
    plan = a_plan(unknown={"us-east": "connection refused"}, limits=(), dropped=2)
    assert text_of(plan) == (
        "No changes in what could be read.\n"
        "\n"
        "Unknown: us-east: connection refused; what cannot be read is left as it is\n"
        "\n"
        "Plan: 0 to idle, 0 to wake, 0 to scale down, 0 undecided, 1 unknown. No replicas change.\n"
        "2 changes left out by filters.\n"
    )


def test_marks_and_records_go_along_with_the_change_they_belong_to():
    assert text_of(a_plan(an_idle(), a_mark(), a_mark("alone"))) == (
        "→0 eu-west dev-a/Deployment/api replicas 3 → 0 (idle-dev: 0 requests in 30m; policies/dev.yaml:4)\n"
        "    with it: Service/api marked as idled\n"
        "· eu-west dev-a/Service/alone marked as idled (idle-dev: 0 requests in 30m; policies/dev.yaml:4)\n"
        f"Plan: 1 to idle, 0 to wake, 0 to scale down, 2 marks and notes, 0 undecided, 0 unknown. "
        f"3 replicas fewer. {LIMITS}\n"
    )


def test_the_worst_comes_first_and_one_policy_in_one_cluster_stays_together():
    deletion = a_decision(Verb.DELETE, Phase.DECREASE, a_ref("old"), IDLE_DEV, replicas_before=1, replicas_after=0)
    plan = a_plan(
        a_scale(2, 3, cluster="a"),
        a_scale(9, 1, "big", cluster="b"),
        a_scale(1, 2, "more", cluster="b"),
        an_idle(replicas=4),
        an_idle("bigger", replicas=5),
        deletion,
    )
    lines = [line.split(" (")[0] for line in text_of(plan).splitlines()[:-1]]
    assert lines == [
        "- east shop/Deployment/old deleted with its pods, replicas 1 → 0",
        "→0 eu-west dev-a/Deployment/bigger replicas 5 → 0",
        "→0 eu-west dev-a/Deployment/api replicas 4 → 0",
        "↓ b shop/Deployment/big replicas 9 → 1",
        "↑ b shop/Deployment/more replicas 1 → 2",
        "↑ a shop/Deployment/web replicas 2 → 3",
    ]


def test_held_back_says_how_to_let_it_through():
    idles = tuple(an_idle(f"api-{n}") for n in range(7))
    why = "idle-dev would idle 61 of 180 workloads (33 %, limit 25 %). 58 come from policies/dev.yaml:12:7."
    plan = a_plan(held_back=(HeldBackActions("idle-dev", why, idles, "workloads", 61, 45, 180),), limits=())
    lines = text_of(plan).splitlines()
    assert lines[:4] == ["No changes.", "", f"Held back: {why}", "  Allow once: --allow-exceed idle-dev"]
    assert lines[4].startswith("  →0 eu-west dev-a/Deployment/api-0 replicas 3 → 0 (")
    assert lines[9] == "  and 2 more (--verbose shows them)"
    assert "api-6" in text_of(plan, verbose=True)


def test_everything_beside_the_changes_is_told_the_most_pressing_first():
    plan = a_plan(
        limits=(),
        observed=(an_idle("seen"),),
        undecided=(Undecided("eu-west/a/Service/b", "idling", "", "an owner cannot be read"),),
        overridden=(Overridden(a_ref("web"), "downscale", "workers", "3 replicas", "idle-dev", "idling first"),),
        unknown={"us-west": "no route\nto host"},
        notices=(
            Notice("autoscaler", "east/a/Deployment/b", "HorizontalPodAutoscaler/b controls it", "idle-dev"),
            Notice("autoscaler", "east/a/Deployment/c", "HorizontalPodAutoscaler/c controls it", "idle-dev"),
            Notice("autoscaler", "east/a/Deployment/d", "ScaledObject/d controls it", "workers"),
            Notice("foreignMark", "east/a/Service/e", "east/a/Service/e was marked idle by staging"),
            Notice("foreignMark", "east/a/Service/f", "east/a/Service/f was marked idle by staging"),
            Notice("contested", "east/a/Deployment/d", "argocd scaled it back twice", "idle-dev", partial=True),
            Notice("exclusions", "", "3 Services are excluded"),
        ),
    )
    assert text_of(plan) == (
        "No changes in what could be read.\n"
        "\n"
        "Observed only, never applied (mode: Observe):\n"
        "  →0 eu-west dev-a/Deployment/seen replicas 3 → 0 (idle-dev: 0 requests in 30m; policies/dev.yaml:4)\n"
        "Unknown: us-west: no route to host; what cannot be read is left as it is\n"
        "Attention: east/a/Deployment/d: argocd scaled it back twice (idle-dev)\n"
        "Undecided: eu-west/a/Service/b: an owner cannot be read\n"
        "Overridden: east/shop/Deployment/web: workers wants 3 replicas, but idle-dev decides there (idling first)\n"
        "Note: was marked idle by staging: 2 objects: east/a/Service/e, east/a/Service/f\n"
        "Note: 3 Services are excluded\n"
        "\n"
        "Plan: 0 to idle, 0 to wake, 0 to scale down, 1 undecided, 1 unknown. No replicas change.\n"
        "2 left alone because of an autoscaler (idle-dev): east/a/Deployment/b, east/a/Deployment/c.\n"
        "east/a/Deployment/d left alone: ScaledObject/d controls it (workers).\n"
        "1 change only observed (mode: Observe); never applied.\n"
    )


def test_a_policy_with_limits_of_its_own_has_them_in_the_last_line():
    uses = (
        LimitUse("idle-dev", "workloads", 1, 5, 9),
        LimitUse("fleet", "workloads", 1, 45, 180),
        LimitUse("fleet", "replicas", 3, 300, 1200),
    )
    assert text_of(a_plan(an_idle(), limits=uses)).endswith(
        "3 replicas fewer. Limits: 1 of 45 workloads, 3 of 300 replicas; idle-dev 1 of 5 workloads.\n"
    )


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        pytest.param(VictimForecast(("a", "b")), "victims a, b (certain)", id="certain"),
        pytest.param(
            VictimForecast(("a",), certain=False), "victims a (likely; the controller may take others)", id="likely"
        ),
        pytest.param(
            VictimForecast(("a",), strategy="ZoneBalanced"), "victims a (certain, by ZoneBalanced)", id="a strategy"
        ),
        pytest.param(
            VictimForecast(count=2, requested=2, candidates=7, chosen_at_apply=True),
            "victims chosen at apply: 2 of 7",
            id="a picker",
        ),
        pytest.param(
            VictimForecast(count=5, requested=2, candidates=7, chosen_at_apply=True),
            "victims chosen at apply: 2 of 7, and 3 that are not ready",
            id="a picker, after those not ready",
        ),
        pytest.param(VictimForecast(note="pods unknown"), "pods unknown", id="a note alone"),
        pytest.param(VictimForecast(("a",), note="ties"), "victims a (certain); ties", id="a note"),
        pytest.param(
            VictimForecast(tuple(f"p{n}" for n in range(10))),
            "victims p0, p1, p2, p3, p4, p5, p6, p7 and 2 more (certain)",
            id="many",
        ),
    ],
)
def test_victims(forecast, expected):
    assert text_of(a_plan(a_scale(12, 2, victims=forecast))).splitlines()[1] == f"    {expected}"


def test_victims_go_without_saying_when_all_go():
    assert "victims" not in text_of(a_plan(an_idle(victims=VictimForecast(("a", "b", "c")))))


REF = a_ref("web")
LISTED = FieldChange(("metadata", "annotations", "idling.kubernetes.io/unidle-targets"), "[{}]", None)
SUSPEND = FieldChange(("spec", "suspend"), False, True)
PAUSE = FieldChange(("metadata", "annotations", "autoscaling.keda.sh/paused-replicas"), None, "0")
BOUNDS = (FieldChange(("spec", "minReplicas"), None, 1), FieldChange(("spec", "maxReplicas"), 10, 1))


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(an_idle(floor=1), "→1 eu-west dev-a/Deployment/api replicas 3 → 1", id="idle to a floor"),
        pytest.param(a_wake(), "↥ eu-west dev-a/Deployment/api replicas 0 → 3", id="wake"),
        pytest.param(a_create(1), "+ ap-south shop/ReplicaSet/web created with 1 replica", id="create"),
        pytest.param(
            an_idle(ref=a_ref("tick", kind="CronJob"), replicas=1, changes=(SUSPEND,)),
            "→0 east shop/CronJob/tick suspend no → yes",
            id="a CronJob",
        ),
        pytest.param(
            an_idle(ref=a_ref("q", kind="ScaledObject"), changes=(PAUSE,), replicas_before=None, replicas_after=None),
            "→0 east shop/ScaledObject/q autoscaling.keda.sh/paused-replicas none → 0",
            id="a ScaledObject",
        ),
        pytest.param(
            a_decision(Verb.IDLE, Phase.DECREASE, a_ref("h", kind="HorizontalPodAutoscaler"), IDLE_DEV, BOUNDS),
            "~ east shop/HorizontalPodAutoscaler/h minReplicas none → 1, maxReplicas 10 → 1",
            id="bounds of an HPA",
        ),
        pytest.param(
            a_decision(Verb.DELETE, Phase.DECREASE, REF, IDLE_DEV, orphan=True),
            "- east shop/Deployment/web deleted, its pods keep running",
            id="delete, pods stay",
        ),
        pytest.param(
            a_decision(Verb.OVERWRITE, Phase.MOVE, REF, IDLE_DEV, replicas_before=2, replicas_after=2),
            "~ east shop/Deployment/web pod template replaced, replicas 2 → 2",
            id="overwrite",
        ),
        pytest.param(
            a_decision(
                Verb.REPAIR, Phase.REPAIR, REF, IDLE_DEV, (replicas_change(0, 3),), replicas_before=0, replicas_after=3
            ),
            "↑ east shop/Deployment/web replicas 0 → 3",
            id="a repair that finishes a wake",
        ),
        pytest.param(
            a_decision(Verb.REPAIR, Phase.REPAIR, REF, IDLE_DEV),
            "~ east shop/Deployment/web annotations put right",
            id="a repair",
        ),
        pytest.param(
            a_decision(Verb.RELEASE, Phase.REPAIR, REF, IDLE_DEV),
            "~ east shop/Deployment/web our annotations taken off, nothing else changes",
            id="release",
        ),
        pytest.param(
            a_decision(Verb.UNMARK, Phase.WAKE, a_ref("web", kind="Service"), IDLE_DEV, (LISTED,)),
            "· east shop/Service/web idled mark taken off",
            id="the mark of a Service goes",
        ),
        pytest.param(
            a_decision(Verb.UNMARK, Phase.WAKE, a_ref("web", kind="Service"), IDLE_DEV, (replace(LISTED, after="[]"),)),
            "· east shop/Service/web what is not idle any more taken off its idled list",
            id="the mark of a Service stays, its list is shorter",
        ),
        pytest.param(
            a_decision(Verb.REMEMBER, Phase.RECORD, a_ref("memory", kind="ConfigMap"), IDLE_DEV),
            "· east shop/ConfigMap/memory noted for the next run",
            id="memory",
        ),
    ],
)
def test_a_line_of_each_kind(decision, expected):
    assert text_of(a_plan(decision)).splitlines()[0].split(" (")[0] == expected


def test_verbose_shows_every_field():
    forecast = VictimForecast(("a", "b"), rules=("not Ready before Ready", "younger"))
    test_only = FieldChange(("metadata", "annotations", "reconciler/owner"), "production/IdlingPolicy/idle-dev", None)
    scale = a_scale(4, 2, victims=forecast)
    scale = replace(scale, changes=(*scale.changes, test_only, replace(test_only, after=test_only.before)))
    assert text_of(a_plan(scale, revision="3f2c1ab", source="snapshot"), verbose=True).splitlines()[:-1] == [
        "Plan 0123456789ab of Fleet production, made from a snapshot at 2026-11-20T15:41:23Z.",
        f"Source revision 3f2c1ab. Digest of policies {'aa' * 32}, of inputs {'bb' * 32}.",
        "↓ eu-west shop/Deployment/web replicas 4 → 2 (placement web: weight 1 of 4, max 2; policies/shop.yaml:9)",
        "    victims a, b (certain)",
        "    spec.replicas: 4 → 2",
        '    metadata.annotations["reconciler/owner"]: production/IdlingPolicy/idle-dev → none',
        '    metadata.annotations["reconciler/owner"]: production/IdlingPolicy/idle-dev (must still be so)',
        "    order of the pods: a by not Ready before Ready, b by younger",
    ]


def test_an_apply_tells_what_became_of_each_change_and_what_went_wrong_first():
    plan = a_plan(a_scale(6, 2), an_idle(), a_mark(), a_scale(9, 8, "db"), a_scale(2, 4, "up"))
    ids = {action.ref.name + action.ref.kind: action.id for action in plan.actions}
    outcomes = (
        Outcome(ids["webDeployment"], Status.APPLIED, hit=3, missed=1, substituted=1),
        Outcome(ids["apiDeployment"], Status.FAILED, 'admission webhook "x" said\nno'),
        Outcome(ids["apiService"], Status.APPLIED),
        Outcome(ids["dbDeployment"], Status.STALE, "replicas are 10, expected 9; plan again"),
    )
    assert text_of(plan, outcomes) == (
        "stale        ↓ eu-west shop/Deployment/db replicas 9 → 8 "
        "(placement web: weight 1 of 4, max 2; policies/shop.yaml:9)\n"
        "    replicas are 10, expected 9; plan again\n"
        "not approved ↑ eu-west shop/Deployment/up replicas 2 → 4 "
        "(placement web: weight 1 of 4, max 2; policies/shop.yaml:9)\n"
        "applied      ↓ eu-west shop/Deployment/web replicas 6 → 2 "
        "(placement web: weight 1 of 4, max 2; policies/shop.yaml:9)\n"
        "    3 of the 4 chosen pods went, 1 still there, 1 other pod went instead\n"
        "failed       →0 eu-west dev-a/Deployment/api replicas 3 → 0 "
        "(idle-dev: 0 requests in 30m; policies/dev.yaml:4)\n"
        '    admission webhook "x" said no\n'
        "    with it: Service/api marked as idled\n"
        "Apply: 2 of 5 changes applied, 1 stale, 1 failed, 0 skipped, 1 not approved. 4 replicas fewer.\n"
    )


def test_colour_adds_nothing_but_colour():
    plan = a_plan(an_idle(), a_mark(), a_scale(2, 4), a_create(), unknown={"x": "y"})
    colored = text_of(plan, color=True)
    assert "\x1b[31m→0\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text_of(plan)


@given(plans(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_change_is_said_on_lines_that_can_be_printed(plan, verbose):
    lines = text_of(plan, verbose=verbose).splitlines()
    assert all(line.isprintable() for line in lines)
    said = "\n".join(lines)
    for action in plan.actions:
        assert name_of(action.ref) in said or name_of(action.ref).partition("/")[2] in said
        assert what_of(action.decision) in said


@given(st.data(), plans())
@settings(max_examples=50, deadline=None)
def test_every_outcome_but_a_plain_success_is_said_next_to_its_change(data, plan):
    outcomes = data.draw(outcomes_of(plan))
    lines = text_of(plan, outcomes).splitlines()
    by_id = {outcome.action: str(outcome.status) for outcome in outcomes if outcome.status is not Status.APPLIED}
    for action in plan.actions:
        if action.id in by_id:
            assert any(line.startswith(by_id[action.id]) and name_of(action.ref) in line for line in lines)
