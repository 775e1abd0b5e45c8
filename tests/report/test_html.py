"""Plans and reports as one HTML file: it shows everything, and nothing from outside becomes markup."""

from __future__ import annotations

import json

import pytest

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.decisions import Cause, HeldBack, PlacementRow, PlacementView, Undecided
from reconciler.plan.json import plan_from_dict, plan_to_dict
from reconciler.report.html import distributions_of, percent, render_html
from reconciler.report.text import render_text
from tests.builders import a_ref, said
from tests.plans import a_create, a_plan, a_record, a_scale, an_idle
from tests.report.rendered import page_of_html, reads

HELD = HeldBack("idle-dev", "3 of the 5 policies that own marks are gone", (an_idle("held"),))


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "</td></table>", "' onload='x"],
)
def test_hostile_texts_stay_texts(text):
    cause = Cause(text, text, said(text))
    held = HeldBack(text, text, (an_idle(cause=cause),))
    view = PlacementView(text, 1, (PlacementRow(text, 1, 2, 1, 1, None, 0, said(text)),))
    plan = a_plan(
        a_scale(3, 1, ref=a_ref(text), cause=cause),
        fleet=text,
        revision=text,
        held_back=(held,),
        placements=(view,),
        undecided=(Undecided(text, "idling", text, said(text)),),
        unknown={text: text},
    )
    ids = [action.id for action in plan.actions]
    page = page_of_html(render_html(plan, [Outcome(ids[0], OutcomeStatus.FAILED, text)]))
    harmless = page_of_html(render_html(_without(plan, text), [Outcome(ids[0], OutcomeStatus.FAILED, "harmless")]))
    assert page.tags == harmless.tags
    assert [name for name, _ in page.attributes] == [name for name, _ in harmless.attributes]
    assert page.text.count(text) >= 10


def _without(plan, text):
    """The same plan with a harmless word in place of `text`."""
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    return plan_from_dict(json.loads(json.dumps(plan_to_dict(plan), ensure_ascii=False).replace(quoted, "harmless")))


def test_the_page_says_what_the_text_says():
    plan = a_plan(a_scale(6, 2), an_idle(), a_record(), a_create(), observed=(an_idle("seen"),), held_back=(HELD,))
    shown = reads(page_of_html(render_html(plan)).text)
    for line in render_text(plan).splitlines():
        assert reads(line.replace(" (-v lists them)", "").replace(" (-v)", "")) in shown
    assert "Run 0123456789ab, planned from live clusters at Fri 2026-11-20 15:41, times in UTC." in shown
    assert "1 metadata update" in shown


def test_light_and_dark_without_anything_from_elsewhere():
    html = render_html(a_plan(an_idle()))
    assert "prefers-color-scheme: dark" in html
    assert "://" not in html
    assert "@import" not in html
    assert "url(" not in html


def test_an_apply_shows_what_went_wrong_first():
    plan = a_plan(a_scale(6, 2), a_scale(3, 2, "db"))
    ids = {action.ref.name: action.id for action in plan.actions}
    outcomes = (Outcome(ids["web"], OutcomeStatus.APPLIED), Outcome(ids["db"], OutcomeStatus.FAILED, "denied"))
    cells = [reads(cell) for cell in page_of_html(render_html(plan, outcomes)).cells]
    denied = [cell for cell in cells if "denied" in cell]
    assert denied == ["weight 1 of 4, max 2 failed: deniedfieldsspec.replicas: 3 -> 2"]
    names = [cell for cell in cells if cell.startswith("eu-west/")]
    assert names == ["eu-west/shop/Deployment/db", "eu-west/shop/Deployment/web"]


def test_the_distribution_of_everything_the_plan_changes():
    plan = a_plan(a_scale(6, 2), an_idle(replicas=3), a_scale(2, 5, "db", cluster="us-east"), a_create(4), a_record())
    _, bars, top = next(distributions_of(plan))
    assert [(bar.cluster, bar.current, bar.spec_replicas) for bar in bars] == [
        ("ap-south", 0, 4),
        ("eu-west", 9, 2),
        ("us-east", 2, 5),
    ]
    assert (top, percent(9, top), percent(2, top)) == (9, 100.0, 22.22)


def test_the_distribution_of_a_federated_replica_set():
    rows = (PlacementRow("a", 2, 4, 6, 6, 3, 2, said("full")), PlacementRow("b", None, None, None, None))
    plan = a_plan(placements=(PlacementView("shop/web", 8, rows), PlacementView("shop/api", 0, ())))
    (title, bars, top), (_, _, nothing) = distributions_of(plan)
    assert (title, top) == ("shop/web, 8 replicas desired", 6)
    assert [(bar.cluster, bar.current, bar.spec_replicas, bar.capacity) for bar in bars] == [
        ("a", 6, 4, 3),
        ("b", None, None, None),
    ]
    assert (nothing, percent(0, nothing)) == (0, 0.0)
    assert "1 federated ReplicaSet this plan leaves alone" in page_of_html(render_html(plan)).text
