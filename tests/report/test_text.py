"""Plans and reports as text: the exact words, and that nothing is left out."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.decisions import (
    Cause,
    FieldChange,
    HeldBack,
    Notice,
    Overridden,
    Phase,
    PlacementRow,
    PlacementView,
    Undecided,
    Verb,
    replicas_change,
)
from reconciler.decide.reasons import Reason, reason
from reconciler.decide.reasons import ReasonCode as Code
from reconciler.model import ObjectRef
from reconciler.plan.model import KeptUp
from reconciler.report.diff import render_diff
from reconciler.report.explanation import ObjectExplanation, explanation_lines
from reconciler.report.markdown import render_markdown
from reconciler.report.text import Style, render_text, wrapped
from tests.builders import NOW, a_forecast, a_limit_use, a_ref, said
from tests.cases import cases
from tests.plans import IDLE_DEV, a_create, a_plan, a_record, a_scale, a_wake, an_idle, decision_of
from tests.report.rendered import golden

REQUESTS = reason(Code.METRIC_IDLE, value=0.0, atMost=0.0, window="30m", name="requests")
UNKNOWN = reason(Code.METRIC_UNKNOWN, name="requests", window="30m")
HEADING = "Plan for Fleet production (live, Fri 2026-11-20 15:41, times in UTC)"


def text_of(plan, outcomes=None, **fields) -> str:
    return render_text(plan, outcomes, Style(**fields))


def kept_up(by: str, number: int, minutes: int) -> KeptUp:
    """So many workloads, the last of which `by` keeps up for so many minutes."""
    return KeptUp(by, number, NOW + timedelta(minutes=minutes))


def undecided(name: str, *why: Reason) -> Undecided:
    return Undecided(f"eu-west/x/Service/{name}", "idling", "idle-dev", why or said("no answer"))


def test_kinds_of_one_name_are_told_apart_by_their_groups_and_no_others_are():
    refs = [
        ObjectRef("eu-west", "dev-a", "Cluster", name, group)
        for name, group in (("x", "a.io"), ("x", "b.io"), ("y", "a.io"))
    ]
    made = a_plan(*(an_idle(ref=ref) for ref in refs))
    named = ["Cluster.a.io/x", "Cluster.b.io/x", "Cluster/y"]
    for text in (text_of(made), render_diff(made)):
        assert sorted(set(re.findall(r"Cluster[a-z.]*/[xy]", text))) == named
    explained = list(explanation_lines(made, [ObjectExplanation(ref, None) for ref in refs]))
    assert [line.split(" ")[0].rpartition("dev-a/")[2] for line in explained if "dev-a" in line] == named


@pytest.mark.parametrize("summary", [pytest.param(False, id="all"), pytest.param(True, id="headings only")])
def test_policies_of_equal_priority_are_named_above_the_changes_and_nowhere_else(summary):
    equal = Notice("equalPriorities", "a and b", "a and b have the same priority", "a")
    said = text_of(a_plan(an_idle(), notices=(equal,)), summary=summary).split("\n\n")
    assert said[:2] == [HEADING, "Equal priorities:\n  a and b have the same priority"]
    assert [part for part in said if "a and b" in part or "Warnings" in part] == said[1:2]


def test_a_plan_is_a_diff_grouped_by_policy():
    nights = reason(Code.IN_DOWNTIME, calendar="nights", until="2026-11-21T06:00:00Z", timeZone="Europe/Berlin")
    idle = an_idle(cause=Cause("idle-dev", "policies/dev.yaml:4", (REQUESTS, nights)))
    suspend = an_idle(
        ref=a_ref("tick", kind="CronJob", cluster="eu-west", namespace="dev-b"),
        changes=(SUSPEND,),
        cause=Cause("idle-dev", "policies/dev.yaml:4", (nights,)),
    )
    wake = a_wake(
        ref=a_ref("reports", cluster="us-east", namespace="dev-a"),
        cause=Cause("idle-dev", "policies/dev.yaml:4", (reason(Code.WAKE_REQUESTED, at="2026-11-20T15:39:00Z"),)),
    )
    scale = a_scale(
        7,
        4,
        "worker",
        job="downscale",
        cause=Cause("workers", "policies/d.yaml:2", (reason(Code.TARGET, replicas=4),)),
        victims=a_forecast(("worker-0", "worker-1", "worker-2")),
    )
    plan = a_plan(
        idle,
        a_record(),
        suspend,
        wake,
        scale,
        undecided=(undecided("y", UNKNOWN, reason(Code.NO_SERIES)),),
        places={"IdlingPolicy idle-dev": "policies/dev.yaml:4"},
        time_zones=("Europe/Berlin",),
    )
    assert text_of(plan) == golden("plan.txt")


def a_row(cluster: str, current: int | None, wanted: int | None, **fields) -> PlacementRow:
    return PlacementRow(cluster, wanted, fields.pop("asked", wanted), current, current, **fields)


def test_moves_are_pairs():
    rows = (a_row("eu-west", 8, 5, asked=7), a_row("us-east", 4, 7), a_row("ap-south", 0, 0))
    weight = reason(Code.WEIGHT, weight=1, weights=2)
    capacity = (reason(Code.CAPACITY, capacity=5), reason(Code.WAITING, waitingReplicas=2))
    less = replace(PLACE, reasons=(weight, *capacity))
    plan = a_plan(
        a_scale(8, 7, cause=less),
        a_scale(4, 7, cluster="us-east", cause=replace(PLACE, reasons=(weight,))),
        placements=(PlacementView("shop/web", 12, rows),),
        limits=(),
    )
    assert text_of(plan).splitlines()[2:] == [
        "FederatedReplicaSet shop/web (policies/shop.yaml:9): move 3 of 12, eu-west -> us-east; weight 1 of 2",
        "  ~ us-east/shop/Deployment/web  replicas  4 -> 7  move in",
        "  ~ eu-west/shop/Deployment/web  replicas  8 -> 7  move out  capacity 5, 2 pending (waitingReplicas)",
        "",
        "Plan: 0 to create, 2 to change (2 move), 0 to delete.",
        "Replicas: 1 fewer (eu-west), 3 more (us-east).",
    ]


def test_what_moves_in_later_runs_is_said_unless_a_line_says_it():
    later = (reason(Code.DRAINING), reason(Code.MOVES_LATER, replicas=3))
    rows = (a_row("eu-west", 3, 6), a_row("us-east", 3, 0, asked=3, reasons=later))
    up = a_scale(3, 6, cause=replace(PLACE, reasons=(reason(Code.WEIGHT, weight=1, weights=1),)))
    plan = a_plan(up, placements=(PlacementView("shop/web", 6, rows),))
    assert text_of(plan).splitlines()[2] == (
        "FederatedReplicaSet shop/web (policies/shop.yaml:9): desired 6: eu-west 6; "
        "3 move from us-east once as many are available elsewhere"
    )
    down = a_scale(4, 3, cluster="us-east", cause=replace(PLACE, reasons=later))
    said_by_its_line = text_of(replace(plan, actions=(*plan.actions, *a_plan(down).actions))).splitlines()
    assert sum(line.count("elsewhere") for line in said_by_its_line) == 1


PLACE = Cause("web", "policies/shop.yaml:9", said("weight 1 of 4", "max 2"))
ZERO = "Plan: 0 to create, 0 to change, 0 to delete"


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(a_plan(), "No changes. The clusters match the policies.", id="nothing"),
        pytest.param(
            a_plan(a_record(), a_record("b")), "No scale changes. 2 metadata updates (-v).", id="metadata only"
        ),
        pytest.param(
            a_plan(observed=(an_idle(), a_record())),
            "No changes; 1 change and 1 metadata update observed only, never applied (mode: Observe).",
            id="a policy that only observes",
        ),
        pytest.param(
            a_plan(notices=(Notice("drainKeeps", "c/shop/ReplicaSet/web", "draining, but 1 replica stays"),)),
            "No changes. The drain is not finished: c/shop/ReplicaSet/web.",
            id="a drain that cannot finish",
        ),
        pytest.param(
            a_plan(kept_up=(kept_up("minAge", 2, 30),)),
            "No changes. 2 workloads wait for minAge, the last for another 30m.",
            id="all are too young",
        ),
        pytest.param(
            a_plan(a_record(), kept_up=(kept_up("minAge", 1, 12),)),
            "No scale changes. 1 metadata update (-v). 1 workload waits for minAge for another 12m.",
            id="one is too young, and something is recorded",
        ),
        pytest.param(
            a_plan(kept_up=(kept_up("minAwake", 1, 12), KeptUp("reconciler/awake-until", 1, None))),
            "No changes. 1 workload waits for minAwake for another 12m. "
            "1 workload stays awake because of reconciler/awake-until.",
            id="woken a while ago, and scaled by hand",
        ),
        pytest.param(a_plan(dropped=2), "No changes.\n2 changes excluded by filters.", id="filtered"),
        pytest.param(
            a_plan(notices=(Notice("contested", "x", "argocd scaled it back", partial=True),)),
            "No changes.",
            id="a warning",
        ),
        pytest.param(
            a_plan(undecided=(undecided("y"),), limits=()),
            f"{ZERO}; 1 undecided.\nReplicas: no change.",
            id="undecided",
        ),
        pytest.param(
            a_plan(a_record(), unknown={"us-east": "connection refused"}, limits=()),
            f"{ZERO}; 1 unknown.\nReplicas: no change. 1 metadata update (-v).",
            id="unknown",
        ),
        pytest.param(
            a_plan(unknown={"eu-west": "connection refused"}, clusters={}, limits=()),
            f"No cluster can be read. {ZERO}; 1 unknown.\nReplicas: no change.",
            id="no cluster at all",
        ),
    ],
)
def test_no_changes_is_said_only_where_nothing_is_pending(plan, expected):
    assert text_of(plan).endswith(f"\n\n{expected}\n")


def test_metadata_updates_are_shown_with_verbose_and_say_what_they_record():
    plan = a_plan(an_idle(), a_record(), limits=())
    assert "Service" not in text_of(plan)
    lines = [line for line in text_of(plan, verbose=True).splitlines() if not line.startswith("      ")]
    assert lines[3:] == [
        "IdlingPolicy idle-dev (policies/dev.yaml:4): 0 requests in 30m",
        "  ~ eu-west/dev-a/Deployment/api  replicas  3 -> 0  idle",
        "  ~ eu-west/dev-a/Service/api  record idling.kubernetes.io/idled-at",
        "",
        "Plan: 0 to create, 1 to change (1 idle), 0 to delete.",
        "Replicas: 3 fewer (eu-west). 1 metadata update.",
    ]


def test_what_takes_most_away_comes_first_and_a_policy_stays_together():
    old = replace(IDLE_DEV, policy="gone")
    deletion = decision_of(Verb.DELETE, Phase.DECREASE, a_ref("old"), old, replicas_before=1, replicas_after=0)
    plan = a_plan(
        a_scale(2, 3, cluster="a"),
        a_scale(9, 1, "big", cluster="b"),
        an_idle(replicas=4),
        an_idle("bigger", replicas=5),
        deletion,
    )
    lines = [line for line in text_of(plan).splitlines() if line.startswith("  ")]
    assert [line.split()[1] for line in lines] == [
        "east/shop/Deployment/old",
        "eu-west/dev-a/Deployment/bigger",
        "eu-west/dev-a/Deployment/api",
        "b/shop/Deployment/big",
        "a/shop/Deployment/web",
    ]


WHY = "idle-dev: 7 workloads would go idle for the first time, limit 3; to allow: add `limits: {workloads: 8}` to a:4"


def test_everything_beside_the_changes_has_a_block():
    plan = a_plan(
        limits=(),
        observed=(an_idle("seen"),),
        undecided=(undecided("b"), replace(undecided("cc"), policy="")),
        overridden=(Overridden(a_ref("web"), "downscale", "workers", "3 replicas", "idle-dev", said("idling first")),),
        unknown={"us-west": "no route\nto host", "us-east/query of idle-dev: x": "timeout"},
        notices=(
            Notice("autoscaler", "east/a/Deployment/b", "HorizontalPodAutoscaler/b controls it", "idle-dev"),
            Notice("autoscaler", "east/a/Deployment/c", "HorizontalPodAutoscaler/c controls it", "idle-dev"),
            Notice("foreignRecord", "east/a/Service/e", "east/a/Service/e was idled by Fleet staging"),
            Notice("contested", "east/a/Deployment/d", "argocd scaled it back twice", "idle-dev", partial=True),
            Notice("exclusion", "", "3 Services are excluded"),
        ),
    )
    assert text_of(plan) == golden("beside-the-changes.txt")
    assert "east/a/Deployment/c  HorizontalPodAutoscaler/c controls it (idle-dev)" in text_of(plan, verbose=True)
    assert "2 objects left to autoscalers (idle-dev); the JSON form has them all" in render_markdown(plan)


def test_a_summary_has_headings_with_counts():
    plan = a_plan(*(an_idle(f"api-{n}") for n in range(600)), a_wake("w"), a_record(), undecided=(undecided("y"),))
    assert text_of(plan, summary=True) == golden("summary.txt")


def test_in_a_summary_what_did_not_go_as_planned_says_why():
    plan = a_plan(an_idle(), a_record())
    outcomes = [Outcome(action.id, OutcomeStatus.FAILED, f"no {action.ref.kind}") for action in plan.actions]
    said = text_of(plan, outcomes, summary=True, changes=False)
    assert ("      failed: no Deployment\n" in said, "      failed: no Service\n" in said) == (True, True)
    assert ": 1 idle, 1 metadata update; " in text_of(plan, outcomes, summary=True)


def test_the_last_line_has_the_default_that_is_nearest_and_the_limits_of_policies():
    uses = (
        a_limit_use("idle-dev", "workloads", 1, 5, 0),
        a_limit_use("idle-qa", "workloads", 0, 5, 0),
        a_limit_use("fleet default", "workloads", 2, 3, 12, "eu-west"),
        a_limit_use("fleet default", "workloads", 2, 10, 30),
        a_limit_use("fleet default", "replicas", 3, 10, 30),
        a_limit_use("tenant a", "workloads", 1, 3, 7),
    )
    assert text_of(a_plan(an_idle(), limits=uses)).endswith(
        "\nLimits: 2 workloads in eu-west, limit 3; 3 replicas in all clusters, limit 10; "
        "1 workload of idle-dev, limit 5; 1 workload of tenant a, limit 3.\n"
    )


@pytest.mark.parametrize(
    "decisions", [pytest.param((a_wake(),), id="a wake"), pytest.param((a_scale(2, 3),), id="a scale up")]
)
def test_where_nothing_goes_down_no_limit_is_told(decisions):
    uses = (a_limit_use("fleet default", "workloads", 9, 4, 16, "dev-us"),)
    assert "Limits" not in text_of(a_plan(*decisions, limits=uses))


@pytest.mark.parametrize(
    ("count", "title"),
    [
        pytest.param(1, "1 cluster (c1)", id="one"),
        pytest.param(4, "4 clusters (c1, c2, c3, c4)", id="four"),
        pytest.param(6, "6 clusters (c1, c2, c3, c4, 2 more)", id="more are counted"),
    ],
)
def test_the_heading_names_clusters_that_cannot_be_read(count, title):
    plan = a_plan(unknown={f"c{number}": "no answer" for number in range(1, count + 1)})
    assert f"Unknown: {title}, unchanged" in text_of(plan, summary=True).splitlines()


WIDE = "  ~ eu-west/dev-a/Deployment/api  replicas  3 -> 0  idle  one two three four five six seven"


@pytest.mark.parametrize(
    ("line", "width", "expected"),
    [
        pytest.param(WIDE, 0, [WIDE], id="in a pipe"),
        pytest.param(WIDE, 200, [WIDE], id="wide enough"),
        pytest.param(
            WIDE,
            90,
            [
                "  ~ eu-west/dev-a/Deployment/api  replicas  3 -> 0  idle  one two three four five six",
                " " * 58 + "seven",
            ],
            id="below its column",
        ),
        pytest.param(
            WIDE,
            70,
            ["  ~ eu-west/dev-a/Deployment/api  replicas  3 -> 0  idle", "      one two three four five six seven"],
            id="below the line where there is no room",
        ),
        pytest.param("  a bb cc", 6, ["  a bb", "      cc"], id="no columns"),
        pytest.param("  aaaaaaaaaaaaaaaa", 6, ["  aaaaaaaaaaaaaaaa"], id="no word is broken"),
        pytest.param("\x1b[1maa bb\x1b[0m cc", 8, ["\x1b[1maa bb\x1b[0m cc"], id="colours take no room"),
    ],
)
def test_long_lines_wrap_at_words(line, width, expected):
    assert list(wrapped([line], width)) == expected


@given(st.lists(st.text("ab ~:\u00e9", max_size=60), max_size=3), st.integers(1, 60))
def test_wrapping_loses_no_word(lines, width):
    assert " ".join(wrapped(lines, width)).split() == " ".join(lines).split()


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        pytest.param(a_forecast(("a", "b")), "deletes a, b (certain)", id="certain"),
        pytest.param(a_forecast(("a",), certain=False), "deletes a (not certain)", id="not certain"),
        pytest.param(a_forecast(("a",), strategy="ZoneBalanced"), "deletes a (certain, ZoneBalanced)", id="a strategy"),
        pytest.param(
            a_forecast(count=2, requested=2, candidates=7, chosen_at_apply=True),
            "deletes 2 of 7 pods, chosen at apply",
            id="a picker",
        ),
        pytest.param(
            a_forecast(count=5, requested=2, candidates=7, chosen_at_apply=True),
            "deletes 2 of 7 pods, and 3 that are not ready, chosen at apply",
            id="a picker, after those not ready",
        ),
        pytest.param(a_forecast(note="pods unknown"), "pods unknown", id="a note alone"),
        pytest.param(a_forecast(("a",), note="ties"), "deletes a (certain); ties", id="a note"),
        pytest.param(
            a_forecast(tuple(f"p{n}" for n in range(10))),
            f"deletes {', '.join(f'p{n}' for n in range(10))} (certain)",
            id="many",
        ),
        pytest.param(
            a_forecast(tuple(f"p{n}" for n in range(6000))),
            f"deletes {', '.join(f'p{n}' for n in range(50))} and 5950 more (certain)",
            id="more than anybody reads",
        ),
    ],
)
def test_victims(forecast, expected):
    assert text_of(a_plan(a_scale(12, 2, victims=forecast))).splitlines()[4] == f"      {expected}"


def test_victims_go_without_saying_when_all_go():
    assert "deletes" not in text_of(a_plan(an_idle(victims=a_forecast(("a", "b", "c")))))


REF = a_ref("web")
LISTED = FieldChange(("metadata", "annotations", "idling.kubernetes.io/unidle-targets"), "[{}]", None)
LIST = '[{"kind":"Deployment","name":"a","replicas":1},{"kind":"CronJob","name":"b","replicas":1}]'
CAPACITY = FieldChange(("metadata", "annotations", "reconciler/observed-capacity"), None, '{"replicas":2}')
DIGEST = FieldChange(("metadata", "annotations", "reconciler/policy-digest"), None, "4c3d")
SUSPEND = FieldChange(("spec", "suspend"), False, True)
UNSET_SUSPEND = FieldChange(("spec", "suspend"), None, True)
PAUSE = FieldChange(("metadata", "annotations", "autoscaling.keda.sh/paused-replicas"), None, "0")
BOUNDS = (FieldChange(("spec", "minReplicas"), None, 1), FieldChange(("spec", "maxReplicas"), 10, 1))
FULL = Cause("web", "policies/shop.yaml:9", said("tracking annotations are updated"), {"capacity": 2, "overflow": 1})


def placed(verb, kind, name, changes=(), **fields):
    ref = a_ref(name, kind=kind)
    return decision_of(verb, Phase.RECORD, ref, FULL, changes, job="placement", group="placement/shop/web", **fields)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(
            an_idle(idle_replicas=1), "~ eu-west/dev-a/Deployment/api replicas 3 -> 1 idle", id="idle to one replica"
        ),
        pytest.param(a_wake(), "~ eu-west/dev-a/Deployment/api replicas 0 -> 3 wake", id="wake"),
        pytest.param(
            a_create(1), "+ ap-south/shop/ReplicaSet/web replicas 0 -> 1 create weight 1 of 4, max 2", id="create"
        ),
        pytest.param(
            an_idle(ref=a_ref("tick", kind="CronJob"), replicas=1, changes=(SUSPEND,)),
            "~ east/shop/CronJob/tick suspend false -> true idle",
            id="a CronJob",
        ),
        pytest.param(
            an_idle(ref=a_ref("tick", kind="CronJob"), replicas=1, changes=(UNSET_SUSPEND,)),
            "~ east/shop/CronJob/tick suspend false -> true idle",
            id="a CronJob without suspend",
        ),
        pytest.param(
            an_idle(ref=a_ref("q", kind="ScaledObject"), changes=(PAUSE,), replicas_before=None, replicas_after=None),
            "~ east/shop/ScaledObject/q paused-replicas none -> 0 idle",
            id="a ScaledObject",
        ),
        pytest.param(
            decision_of(Verb.IDLE, Phase.DECREASE, a_ref("h", kind="HorizontalPodAutoscaler"), IDLE_DEV, BOUNDS),
            "~ east/shop/HorizontalPodAutoscaler/h minReplicas none -> 1, maxReplicas 10 -> 1 idle",
            id="bounds of an HPA",
        ),
        pytest.param(
            decision_of(Verb.DELETE, Phase.DECREASE, REF, IDLE_DEV, orphan=True),
            "- east/shop/Deployment/web delete pods keep running",
            id="delete, pods stay",
        ),
        pytest.param(
            decision_of(
                Verb.OVERWRITE,
                Phase.MOVE,
                REF,
                IDLE_DEV,
                (FieldChange(("spec", "template"), {"a": 1}, {"a": 2}),),
                replicas_before=2,
                replicas_after=2,
            ),
            "~ east/shop/Deployment/web template replaced overwrite",
            id="overwrite",
        ),
        pytest.param(
            decision_of(
                Verb.REPAIR, Phase.REPAIR, REF, IDLE_DEV, (replicas_change(0, 3),), replicas_before=0, replicas_after=3
            ),
            "~ east/shop/Deployment/web replicas 0 -> 3 wake",
            id="a repair that finishes a wake",
        ),
        pytest.param(
            decision_of(Verb.RELEASE, Phase.REPAIR, REF, IDLE_DEV), "~ east/shop/Deployment/web release", id="release"
        ),
        pytest.param(
            decision_of(Verb.REPAIR, Phase.REPAIR, REF, IDLE_DEV, (DIGEST,), event="Adopted"),
            "~ east/shop/Deployment/web adopt",
            id="adopt",
        ),
        pytest.param(
            decision_of(Verb.REPAIR, Phase.REPAIR, REF, IDLE_DEV, (replace(DIGEST, after=None, before="x"),)),
            "~ east/shop/Deployment/web remove reconciler/policy-digest",
            id="a repair",
        ),
        pytest.param(
            placed(Verb.REPAIR, "ReplicaSet", "web", (CAPACITY, DIGEST)),
            "~ east/shop/ReplicaSet/web record observed capacity 2 (1 pod unschedulable); add tracking annotations",
            id="capacity and tracking",
        ),
        pytest.param(
            decision_of(Verb.CLEAR, Phase.WAKE, a_ref("web", kind="Service"), IDLE_DEV, (LISTED,)),
            "~ east/shop/Service/web remove the record of idle workloads",
            id="the record of a Service goes",
        ),
        pytest.param(
            decision_of(Verb.CLEAR, Phase.WAKE, a_ref("web", kind="Service"), IDLE_DEV, (replace(LISTED, after=LIST),)),
            "~ east/shop/Service/web record idle workloads: Deployment/a, CronJob/b",
            id="the record of a Service",
        ),
        pytest.param(
            placed(Verb.REMEMBER, "ConfigMap", "reconciler-status-shop.web"),
            "~ east/shop/ConfigMap/reconciler-status-shop.web update status of FederatedReplicaSet shop/web",
            id="status",
        ),
        pytest.param(
            placed(Verb.DELETE, "ConfigMap", "reconciler-status-shop.web"),
            "- east/shop/ConfigMap/reconciler-status-shop.web remove status of FederatedReplicaSet shop/web",
            id="the status of a policy that is removed",
        ),
        pytest.param(
            decision_of(Verb.REMEMBER, Phase.RECORD, a_ref("reconciler-journal", kind="ConfigMap"), IDLE_DEV),
            "~ east/shop/ConfigMap/reconciler-journal update the journal of downscales",
            id="the journal",
        ),
    ],
)
def test_a_line_of_each_kind(decision, expected):
    line = next(line for line in text_of(a_plan(decision), verbose=True).splitlines() if line.startswith("  "))
    assert " ".join(line.split()) == expected


def test_verbose_shows_every_field():
    forecast = a_forecast(("a", "b"), rules=("not Ready before Ready", "younger"))
    test_only = FieldChange(("metadata", "annotations", "reconciler/owner"), "production/IdlingPolicy/idle-dev", None)
    scale = a_scale(4, 2, victims=forecast)
    scale = replace(scale, changes=(*scale.changes, test_only, replace(test_only, after=test_only.before)))
    scale = replace(scale, changes=(*scale.changes, replace(test_only, before=None)))  # said nowhere: nothing is there
    assert text_of(a_plan(scale, revision="3f2c1ab", source="snapshot"), verbose=True).splitlines()[:-4] == [
        "Plan for Fleet production (snapshot, Fri 2026-11-20 15:41, times in UTC)",
        f"Run 0123456789ab, source revision 3f2c1ab, digest of policies {'aa' * 32}, of inputs {'bb' * 32}",
        "",
        "FederatedReplicaSet shop/web (policies/shop.yaml:9)",
        "  ~ eu-west/shop/Deployment/web  replicas  4 -> 2  scale down  weight 1 of 4, max 2",
        "      deletes a, b (certain)",
        "      spec.replicas: 4 -> 2",
        '      metadata.annotations["reconciler/owner"]: production/IdlingPolicy/idle-dev -> none',
        '      metadata.annotations["reconciler/owner"]: production/IdlingPolicy/idle-dev (precondition)',
        "      order of the pods: a by not Ready before Ready, b by younger",
    ]


def test_an_apply_has_the_same_lines_and_what_did_not_go_as_planned():
    plan = a_plan(a_scale(6, 2), an_idle(), a_record(), a_scale(9, 8, "db"), a_scale(2, 4, "up"), an_idle("fine"))
    ids = {action.ref.name + action.ref.kind: action.id for action in plan.actions}
    outcomes = (
        Outcome(ids["webDeployment"], OutcomeStatus.APPLIED, hit=3, missed=1, substituted=1),
        Outcome(ids["apiDeployment"], OutcomeStatus.FAILED, 'admission webhook "x" said\nno'),
        Outcome(ids["apiService"], OutcomeStatus.SKIPPED, "change 1 was not applied"),
        Outcome(ids["dbDeployment"], OutcomeStatus.STALE, "replicas are 10, expected 9; plan again"),
        Outcome(ids["fineDeployment"], OutcomeStatus.APPLIED),
    )
    assert text_of(plan, outcomes) == golden("apply.txt")


def test_colour_adds_nothing_but_colour():
    plan = a_plan(an_idle(), a_record(), a_scale(2, 4), a_scale(4, 2, "less"), a_create(), unknown={"x": "y"})
    colored = text_of(plan, color=True)
    assert "\x1b[31m3 -> 0\x1b[0m" in colored
    assert "\x1b[32m2 -> 4\x1b[0m" in colored
    assert "\x1b[33m4 -> 2\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text_of(plan)


def test_our_own_characters_are_ascii():
    held = HeldBack("idle-dev", WHY, (an_idle("x"), an_idle("y")))
    plan = a_plan(
        an_idle(), a_wake("w"), a_scale(6, 2), a_create(), a_record(), held_back=(held,), observed=(an_idle(),)
    )
    assert text_of(plan, verbose=True).isascii()
    assert text_of(plan, [Outcome(1, OutcomeStatus.FAILED, "no")], verbose=True).isascii()


@cases(
    "skipped verbose lines",
    ("few are listed", 5, False, 10),
    ("many are counted", 6, False, 0),
    ("many, verbose", 6, True, 12),
)
def test_of_many_changes_that_were_skipped_for_one_reason_the_report_says_how_many(skipped, verbose, lines):
    plan = a_plan(*(an_idle(f"web-{number}") for number in range(skipped + 1)))
    lost = "eu-west: the lock was lost, nothing more is written there"
    outcomes = [
        Outcome(action.id, OutcomeStatus.SKIPPED, lost) if number else Outcome(action.id, OutcomeStatus.STALE, "stale")
        for number, action in enumerate(plan.actions)
    ]
    text = text_of(plan, outcomes, changes=False, verbose=verbose)
    assert f"Not as planned: {skipped + 1} changes" in text
    assert (f"  {skipped} changes skipped: {lost} (-v lists them)\n" in text) is (not lines)
    assert text.count("web-0") == 1
    assert sum("skipped: eu-west" in line or "web-" in line for line in text.splitlines()) - 1 == (lines or 1)
