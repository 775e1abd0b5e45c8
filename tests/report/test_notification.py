"""The facts of a run, and messages of them that are within the bounds of each receiver, whatever others wrote."""

from __future__ import annotations

import json
import re
import time
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus, outcome_of
from reconciler.decide.decisions import HeldBack, Notice
from reconciler.errors import ForbiddenError, RefusedError, UnreachableError
from reconciler.plan.model import Action
from reconciler.policy.types import NotifyOn
from reconciler.report.notification import Fact, Message, body_of, facts_of
from tests.builders import a_fleet, a_ref
from tests.cases import cases
from tests.cli.receivers import MOST_BYTES, SCHEMAS
from tests.plans import a_plan, an_idle
from tests.plans import a_wake as a_woken

ON = get_args(NotifyOn)
EVERY_FACT = [
    "<!channel> [click](http://evil.example) *x* & " + "y" * 900,
    "\U0001f4a3" * 1200,
    "\"\\\n\x1b[2J'" * 300,
    "short enough to be one of many",
]


@pytest.mark.parametrize("text", EVERY_FACT, ids=["markup", "four bytes", "escapes", "short"])
@pytest.mark.parametrize("form", SCHEMAS)
def test_a_message_is_within_the_bounds_of_its_receiver(form: Any, text: str) -> None:
    facts = tuple(Fact(on, f"{text}{number}", text, text) for on in ON for number in range(300))
    _, body = body_of(Message.of(a_plan(), facts, ON), form)
    message = json.loads(body)
    assert [error.message for error in SCHEMAS[form].iter_errors(message)] == []
    assert len(body) <= MOST_BYTES[form]
    assert counted(message) == len(facts)


def counted(message: Any) -> int:
    """Return how many facts a message has lines of, or says that there are more."""
    if "data" in message:
        assert message["data"]["counts"] == dict.fromkeys(ON, 300)
        return len(message["data"]["happened"]) + int(message["data"]["omitted"])
    if "blocks" in message:
        lines = [line for one in message["blocks"][1:-1] for line in one["text"]["text"].splitlines()[1:]]
    else:
        runs = [one["inlines"][0] for one in message["attachments"][0]["content"]["body"][1:-1]]
        lines = [one["text"] for one in runs if "weight" not in one]
    more = [int(found[1]) for line in lines if (found := re.fullmatch(r"(?:- )?and (\d+) more", line))]
    assert len(lines) > len(more) == len(ON)
    return len(lines) - len(more) + sum(more)


def test_what_is_not_markup_of_ours_has_no_effect() -> None:
    facts = (Fact("Failed", "x", "<!channel> [click](http://evil.example)"),)
    plan = replace(a_plan(), run="<!here>")
    slack, teams = (body_of(Message.of(plan, facts, ON), form)[1].decode() for form in ("Slack", "Teams"))
    assert "mrkdwn" not in slack  # plain_text has neither mentions nor links
    assert "TextBlock" not in teams.replace("RichTextBlock", "")  # a TextBlock has Markdown


@cases(
    "outcome on text",
    ("change applied", Outcome(1, OutcomeStatus.APPLIED), "Idled", "replicas 3 -> 0, 0 requests in 30m"),
    ("change failed", Outcome(1, OutcomeStatus.FAILED, "quota"), "Failed", "idle failed: quota"),
    (
        "refused by the API server",
        outcome_of(Action(1, an_idle()), RefusedError("no")),
        "Failed",
        "idle was refused: no",
    ),
    ("cluster unreachable", outcome_of(Action(1, an_idle()), UnreachableError("gone")), "Failed", "idle failed: gone"),
    ("changed since the plan", Outcome(1, OutcomeStatus.STALE, "changed"), None, ""),
    ("locked by another run", Outcome(1, OutcomeStatus.SKIPPED, "locked", locked=True), None, ""),
)
def test_what_became_of_a_change(outcome: Outcome, on: str | None, text: str) -> None:
    found = facts_of(a_plan(an_idle()), [outcome], a_fleet())
    assert [(one.on, one.about) for one in found] == ([(on, "eu-west/dev-a/Deployment/api")] if on else [])
    assert not on or found[0].text.startswith(f"eu-west/dev-a/Deployment/api: {text}")


FORBIDDEN = "east: patch deployments.apps api in dev-a: forbidden (request 1f2 on Friday), expected the right to"


@pytest.mark.parametrize(
    ("text", "again", "is_same"),
    [
        pytest.param(FORBIDDEN, FORBIDDEN.replace("1f2 on Friday", "a77 on Monday"), True, id="a server's words"),
        pytest.param(
            "no answer by 22:00:00Z of run e4b", "no answer by 22:10:00Z of run b17", True, id="times and ids"
        ),
        pytest.param("status 403, expected 200", "status 500, expected 200", False, id="another status"),
        pytest.param("the server failed with 500 (a)", "the server failed with 503 (a)", False, id="another failure"),
        pytest.param("the connection was refused", "no answer in time", False, id="other words of ours"),
    ],
)
def test_what_fails_in_the_same_way_is_told_once(text: str, again: str, is_same: bool) -> None:
    keys = [facts_of(replace(a_plan(), unknown={"east": one}), [], a_fleet())[0].key for one in (text, again)]
    assert (keys[0] == keys[1]) is is_same


def test_the_kind_of_its_error_is_how_a_change_failed() -> None:
    """A webhook may say something else each day; a right that is missing is not an object that is gone."""
    errors = [RefusedError("not on a Friday"), RefusedError("not on a Monday"), ForbiddenError("no right")]
    made = a_plan(an_idle())
    friday, monday, right = (facts_of(made, [outcome_of(made.actions[0], one)], a_fleet())[0].key for one in errors)
    assert friday == monday != right


def test_what_is_held_back_elsewhere_or_of_another_kind_is_told_too() -> None:
    """A policy of one kind may be called like one of another."""
    east, west, downscale = an_idle("x"), an_idle("y", ref=a_ref("y", cluster="west")), an_idle("x", job="downscale")
    plans = [
        replace(a_plan(), held_back=(HeldBack("nights", "limit 1", found),))
        for found in ((east,), (east, an_idle("z")), (east, west), (downscale,))
    ]
    first, more, elsewhere, other = (facts_of(made, [], a_fleet())[0].key for made in plans)
    assert first == more
    assert len({first, elsewhere, other}) == 3


def test_long_words_of_a_failure_take_no_time() -> None:
    began = time.thread_time()
    assert Fact("Failed", "east", "a.:" * 20_000).key
    assert time.thread_time() - began < 1.0


def test_a_change_that_nobody_chose_is_no_fact_and_the_most_pressing_is_first() -> None:
    notice = Notice("contested", "eu-west/dev-a/Deployment/db", "db is contested")
    made = replace(
        a_plan(an_idle(), a_woken("web"), an_idle("other")), notices=(notice,), unknown={"west": "no answer"}
    )
    ids = {action.ref.name: action.id for action in made.actions}
    done = [Outcome(ids[name], OutcomeStatus.APPLIED) for name in ("api", "web")]
    found = facts_of(made, done, a_fleet())
    assert [(one.on, one.about.rpartition("/")[2]) for one in found] == [
        ("Failed", "west"),
        ("Conflict", "db"),
        ("Woken", "web"),
        ("Idled", "api"),
    ]
