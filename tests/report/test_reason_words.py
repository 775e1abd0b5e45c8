"""Reasons as people read them: the exact words, in the time zone of those who read."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from reconciler.decide.change_codes import ChangeIfCode, change_if, joint_change
from reconciler.decide.decisions import Notice
from reconciler.decide.reasons import Reason, reason
from reconciler.decide.reasons import ReasonCode as Code
from reconciler.decide.reasons import text_of as stored_text
from reconciler.report.groups import made_at
from reconciler.report.text import Style, render_text
from reconciler.report.times import ReasonWords
from tests.builders import NOW, said
from tests.plans import a_plan, an_idle
from tests.report.strategies import reasons

REQUESTS = reason(Code.METRIC_IDLE, value=0.0, atMost=0.0, window="30m", name="requests")
UNKNOWN = reason(Code.METRIC_UNKNOWN, name="requests", window="30m")


TOMORROW, EVENING = "2026-11-21T06:00:00Z", "2026-11-20T19:00:00Z"
BERLIN = {"timeZone": "Europe/Berlin"}
NIGHTS = {"calendar": "nights", **BERLIN}


def case(stored: str, shown: str, *reasons: Reason) -> Any:
    return pytest.param(reasons, stored, shown, id=shown)


@pytest.mark.parametrize(
    ("reasons", "stored", "shown"),
    [
        case("requests 0 at most 0 in 30m", "requests 0, idle at <= 0 (30m)", REQUESTS),
        case("12.5 above 0.1", "metric 12.5, idle at <= 0.1", reason(Code.METRIC_BUSY, value=12.5, atMost=0.1)),
        case(
            "wakeWhen 3 above 0 in 5m",
            "wakeWhen 3 > 0 (5m)",
            reason(Code.WAKE_WHEN_TRUE, value=3.0, above=0.0, window="5m"),
        ),
        case("requests unknown in 30m: no series", "requests: no series", UNKNOWN, reason(Code.NO_SERIES)),
        case(
            "requests unknown in 30m: recorded at 2026-11-20T15:31:23Z, more than 5 minutes ago",
            "requests: recorded 10m ago, more than 5 minutes ago",
            UNKNOWN,
            reason(Code.QUERY_STALE, at="2026-11-20T15:31:23Z"),
        ),
        case(
            "schedule nights until 2026-11-21T06:00:00Z",
            "nights until Sat 2026-11-21 07:00",
            reason(Code.IN_DOWNTIME, until=TOMORROW, **NIGHTS),
        ),
        case("schedule nights without end", "nights without end", reason(Code.IN_DOWNTIME, calendar="nights")),
        case(
            "schedule nights closed until 2026-11-20T19:00:00Z (release, then rest)",
            "nights starts Fri 2026-11-20 20:00 (release, then rest)",
            reason(Code.OUTSIDE_DOWNTIME, until=EVENING, exception="release, then rest", **NIGHTS),
        ),
        case(
            "schedule days until 2026-11-21T06:00:00Z",
            "days until Sat 2026-11-21 07:00",
            reason(Code.IN_DOWNTIME, until=TOMORROW, calendar="days", timeZone="no/where"),
        ),
        case(
            "outside uptime office until 2026-11-21T06:00:00Z",
            "outside uptime office until Sat 2026-11-21 07:00",
            reason(Code.OUTSIDE_UPTIME, until=TOMORROW, calendar="office", timeZone="Europe/London"),
        ),
        case(
            "kept awake until 2026-11-20T17:41:23Z",
            "kept awake for another 120m",
            reason(Code.KEPT_AWAKE, until="2026-11-20T17:41:23Z"),
        ),
        case("schedule nights is over", "nights is over", reason(Code.DOWNTIME_OVER, calendar="nights")),
        case(
            "schedule nights until 2026-99-99T06:00:00Z",
            "nights until 2026-99-99T06:00:00Z",
            reason(Code.IN_DOWNTIME, until="2026-99-99T06:00:00Z", **NIGHTS),
        ),
        case(
            "wake requested at 2026-11-20T15:39:00Z",
            "requested 2m ago",
            reason(Code.WAKE_REQUESTED, at="2026-11-20T15:39:00Z"),
        ),
        case(
            "wake requested at 2026-11-20T15:43:00Z",
            "requested in 97s",
            reason(Code.WAKE_REQUESTED, at="2026-11-20T15:43:00Z"),
        ),
        case("due since 2026-11-20T12:00:00Z", "due 3h ago", reason(Code.WAKE_DUE, due="2026-11-20T12:00:00Z")),
        case(
            "unreachable since 2026-11-18T12:00:00Z, its replicas move elsewhere",
            "unreachable for 2d, its replicas move elsewhere",
            reason(Code.CLUSTER_LOST, since="2026-11-18T12:00:00Z"),
        ),
        *(
            case(words, words, reason(code, replicas=number))
            for code, number, words in (
                (Code.SELECTOR_DIFFERS, 1, "selector differs; its 1 pod keeps running"),
                (Code.SELECTOR_DIFFERS, 2, "selector differs; its 2 pods keep running"),
                (Code.SCALE_RESTORED, 1, "back to the 1 replica of before placement"),
            )
        ),
        case(
            "capacity 2, 2 waiting",
            "capacity 2, 2 pending (waitingReplicas)",
            reason(Code.CAPACITY, capacity=2),
            reason(Code.WAITING, waitingReplicas=2),
        ),
        case(
            "refused 3 times in a row, tried again at 2026-11-20T15:51:23Z: no, by a, b",
            "refused 3 times in a row, retried in 10m: no, by a, b",
            reason(Code.WRITE_REFUSED, count=3, retryAfter="2026-11-20T15:51:23Z", error="no, by a, b"),
        ),
        case(
            "the target is 4, at most 4",
            "target 4, at most 4",
            reason(Code.TARGET, replicas=4),
            reason(Code.AT_MOST, max=4),
        ),
        case(
            "its policy was removed (onDelete: orphan)",
            "policy removed (onDelete: orphan)",
            reason(Code.POLICY_REMOVED, onDelete="orphan"),
        ),
        case(
            "excluded: the cluster east is leaving",
            "excluded: the cluster east is leaving",
            reason(Code.EXCLUDED),
            reason(Code.CLUSTER_LEAVING, cluster="east"),
        ),
        case(
            "words of somebody, at 2026-11-20T15:39:00Z",
            "words of somebody, at 2026-11-20T15:39:00Z",
            *said("words of somebody, at 2026-11-20T15:39:00Z"),
        ),
    ],
)
def test_reasons_are_stored_in_utc_and_rendered_for_people(reasons, stored, shown):
    assert stored_text(reasons) == stored
    assert ReasonWords(NOW, ZoneInfo("Europe/Berlin")).reason(reasons) == shown


@pytest.mark.parametrize(
    ("zones", "shown"),
    [
        ((), "Fri 2026-11-20 15:41, times in UTC"),
        (("Europe/Berlin",), "Fri 2026-11-20 16:41, times in Europe/Berlin"),
        (("Europe/Berlin", "Europe/Paris"), "Fri 2026-11-20 15:41, times in UTC"),
        (("no/where",), "Fri 2026-11-20 15:41, times in UTC"),
    ],
)
def test_times_are_in_the_zone_of_all_calendars_or_else_in_utc(zones, shown):
    assert made_at(a_plan(time_zones=zones)) == shown


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (
            joint_change(
                ChangeIfCode.ANY,
                [change_if(ChangeIfCode.METRIC_ABOVE, bound=0.0), change_if(ChangeIfCode.AT, at=TOMORROW, **BERLIN)],
            ),
            "the metric is above 0 or it is Sat 2026-11-21 07:00 or later",
        ),
        (change_if(ChangeIfCode.AFTER, at="2026-11-20T18:41:23Z"), "it is Fri 2026-11-20 19:41 or later (in 3h)"),
        (change_if(ChangeIfCode.FIELD_IS, field="autoscalers.hpa", value="Idle"), "autoscalers.hpa is Idle"),
    ],
)
def test_what_would_change_a_decision_is_a_clause(change, shown):
    clock = ReasonWords(NOW, ZoneInfo("Europe/Berlin"))
    assert clock.change_if(change) == shown


def test_the_reasons_in_a_notice_are_rendered_and_its_other_words_stay():
    since = reason(Code.CONTESTED, by="hand", since="2026-11-17T15:41:23Z")
    text = f"eu-west/a/Deployment/b is {since}; it is left alone at 2026-11-17T15:41:23Z"
    assert text.startswith("eu-west/a/Deployment/b is contested by hand since 2026-11-17T15:41:23Z;")
    notice = Notice("contested", "eu-west/a/Deployment/b", text, "idle-dev", reasons=(since,))
    shown = render_text(a_plan(an_idle(), notices=(notice,)), None, Style())
    assert "is contested by hand for 3d; it is left alone at 2026-11-17T15:41:23Z (idle-dev)\n" in shown


@given(reasons)
def test_reasons_of_any_values_have_a_text_on_one_line(found):
    for text in (stored_text(found), ReasonWords(NOW).reason(found)):
        assert isinstance(text, str)
    assert ReasonWords(NOW).reason(found).isprintable()
