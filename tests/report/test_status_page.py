"""The status of a Fleet as a page: all of it, nothing from elsewhere, and links that fill in the forms that wake."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from reconciler.decide.reasons import ReasonCode, reason
from reconciler.report.html import render_status_page, wake_address
from reconciler.report.status import IdleObject
from tests.builders import a_ref, said
from tests.decide.idling.idling_policies import NIGHT
from tests.pipeline.calls import Folder
from tests.report.rendered import Page, page_of_html, reads
from tests.report.statuses import EXAMPLES, GITHUB, a_status
from tests.review.workflows import read

GITLAB = read(EXAMPLES / "gitlab-status.yml")["pages"]["variables"]["RECONCILER_WAKE_FORM"]
GITLAB = GITLAB.replace("$CI_PROJECT_URL", "https://gitlab.example/a/b").replace("$CI_DEFAULT_BRANCH", "main")
FROM_ELSEWHERE = {"link", "img", "iframe", "object", "embed", "base", "form"}


def links(page: Page) -> list[str]:
    return [value for name, value in page.attributes if name == "href"]


def test_everything_idle_is_there_and_nothing_comes_from_elsewhere():
    status = a_status(25)
    html = render_status_page(status)
    page = page_of_html(html)
    shown = reads(page.text)
    assert FROM_ELSEWHERE.isdisjoint(page.tags)
    assert (page.tags.count("script"), links(page)) == (1, []), "one of its own, and no link without a form"
    assert {name for name, _ in page.attributes}.isdisjoint({"src", "onclick", "onload", "onerror"})
    found = [value for name, value in page.attributes if name == "data-search"]
    assert found == [f"{one.ref} {one.policy}".lower() for one in status.idle]
    assert "next wake Sat 2026-11-21 07:00" in shown
    assert all(one.name in shown for one in status.clusters)
    assert "Unknown: 1" in shown
    assert "Last runs (8)" in shown
    assert '<p id="search" hidden>' in html, "without scripts there is no field that does nothing"


def test_savings_are_those_of_what_is_asleep():
    three = IdleObject(a_ref("web"), "nights", NIGHT - timedelta(hours=10), NIGHT + timedelta(hours=8), "3", 3)
    endless = replace(three, ref=a_ref("api"), until=None, asleep=2)
    unknown = replace(three, ref=a_ref("job"), since=None, until=None, asleep=1)
    status = replace(a_status(1), idle=(three, endless, unknown))
    assert status.plan.made_at == NIGHT
    page = page_of_html(render_status_page(status))
    shown = reads(page.text)
    assert "3 idle 6 idle replicas 50 replica-hours saved so far 74 replica-hours when they wake as planned" in shown
    assert "3 idle (6 replicas), 50 replica-hours saved" in shown


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        pytest.param(
            GITHUB, {"template": "wake.yml", "title": "Wake {}", "object": "{}", "for": "3h"}, id="issue of GitHub"
        ),
        pytest.param(GITLAB, {"ref": "main", "var[WAKE_OBJECT]": "{}", "var[WAKE_FOR]": "3h"}, id="pipeline of GitLab"),
    ],
)
def test_links_fill_in_the_forms_of_the_examples(form: str, fields: dict[str, str]):
    status = a_status(4)
    found = [parse_qs(urlsplit(one).query) for one in links(page_of_html(render_status_page(status, form)))]
    assert found == [{key: [value.format(one.ref)] for key, value in fields.items()} for one in status.idle]
    ids = {one["id"] for one in read(EXAMPLES / "wake-form.yml")["body"]}
    assert ids <= fields.keys() or form == GITLAB


def test_a_namespace_with_several_can_be_woken_at_once():
    status = a_status(1)
    (web,) = status.idle
    both = replace(status, idle=(replace(web, ref=a_ref("api", cluster="c00")), web))
    found = links(page_of_html(render_status_page(both, "https://x/{object}?for={for}")))
    assert found == [f"https://x/c00/shop{path}?for=3h" for path in ("", "/Deployment/api", "/Deployment/web")]


def test_a_name_is_one_value_of_an_address():
    assert wake_address("https://x/?object={object}", "a/b&c=d#é") == "https://x/?object=a/b%26c%3Dd%23%C3%A9"
    assert wake_address("", "a/b") == ""


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"])
def test_hostile_texts_stay_texts(text: str):
    status = a_status(1)
    (web,) = status.idle
    why = (*said(text), reason(ReasonCode.TARGET, replicas=text))
    wild = replace(web, ref=a_ref(text, cluster=text, namespace=text), policy=text, previous=text, reasons=why)
    plan = replace(status.plan, fleet=text, unknown={text: text})
    page = page_of_html(render_status_page(replace(status, plan=plan, idle=(wild,)), "https://x/?object={object}"))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert reads(page.text).count(text) >= 6


@pytest.mark.parametrize("form", ["javascript:{object}", "https://x/y", "{object}", "https://x/\n{object}"])
def test_a_form_is_an_address_with_a_place_for_the_object(quickstart: Folder, form: str):
    said_of = quickstart.call("status", "--snapshot", "snapshot", "-o", "html", "--wake-form", form)
    assert (said_of.code, said_of.out) == (64, "")
    assert said_of.err.startswith("error: --wake-form: ")
    assert "expected https://... with {object} in it" in said_of.err


def test_the_verb_writes_the_page(quickstart: Folder):
    now = ("--snapshot", "snapshot", "--now", "2026-11-20T22:01:00Z")
    quickstart.apply("2026-11-20T22:00:00Z", "--policy", "idle-dev")
    told = quickstart.call("status", *now, "-o", "html", "--wake-form", GITHUB)
    assert (told.code, told.err) == (0, "")
    (wake,) = links(page_of_html(told.out))
    assert parse_qs(urlsplit(wake).query)["object"] == ["eu-west/dev-a/Deployment/api"]
    assert "outside-office-hours until Mon 2026-11-23 07:00" in reads(page_of_html(told.out).text)
