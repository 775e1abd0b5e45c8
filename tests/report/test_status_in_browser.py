"""The page of the status in a real browser: searched, and a click on "Wake" followed to the fields of the form.

Needs chromedriver and Chromium; the form is our own, filled in from the address as GitHub does.
"""

from __future__ import annotations

import html
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler.report.html import render_status_page
from tests.real.processes import Process, answers, on_a_free_port, ready
from tests.report.statuses import EXAMPLES, GITHUB, a_status
from tests.review.workflows import read

pytestmark = pytest.mark.soak
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=390,844"]
Call = Callable[..., Any]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Call]:
    """`browser(method, path, **values)`: a command of WebDriver in one session, and its value."""
    driver = shutil.which("chromedriver")
    if driver is None:
        pytest.skip("chromedriver is not installed")
    binary, log = Path(driver), tmp_path / "chromedriver.log"

    def started(port: int) -> Process:
        process = Process(binary, [f"--port={port}"], log)
        return ready(process, lambda: answers(f"http://127.0.0.1:{port}/status"), "readiness of chromedriver")

    port, process = on_a_free_port(started)
    pool = urllib3.PoolManager(retries=False, timeout=120.0)

    def call(method: str, path: str, **values: Any) -> Any:
        answer = pool.request(method, f"http://127.0.0.1:{port}{path}", json=values if method == "POST" else None)
        assert answer.status == 200, answer.data
        return answer.json()["value"]

    asked = {"browserName": "chrome", "goog:chromeOptions": {"args": ARGUMENTS}}
    session = f"/session/{call('POST', '/session', capabilities={'alwaysMatch': asked})['sessionId']}"
    try:
        yield lambda method, path, **values: call(method, session + path, **values)
        call("DELETE", session)
    finally:
        process.stop()


def issue_form(request: Request) -> Response:
    """Return the form of the example with its fields filled in, as GitHub shows it for an address."""
    fields = "".join(
        f'<input id="{one["id"]}" value="{html.escape(request.args.get(one["id"], ""))}">'
        for one in read(EXAMPLES / "wake-form.yml")["body"]
    )
    title = html.escape(request.args["title"])
    return Response(f'<title>New issue</title><input id="title" value="{title}">{fields}', content_type="text/html")


def run(browser: Call, script: str) -> Any:
    return browser("POST", "/execute/sync", script=script, args=[])


def test_search_and_a_click_on_wake(browser: Call, httpserver: HTTPServer):
    form = GITHUB.replace("https://github.com", httpserver.url_for("").rstrip("/"))
    page = render_status_page(a_status(25), form)
    httpserver.expect_request("/status.html").respond_with_data(page, content_type="text/html")
    httpserver.expect_request("/your-org/policies/issues/new").respond_with_handler(issue_form)
    httpserver.expect_request("/favicon.ico").respond_with_data("", 404)
    browser("POST", "/url", url=httpserver.url_for("/status.html"))
    assert run(browser, "return performance.getEntriesByType('resource').map((one) => one.name)") == []
    assert run(browser, "return document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than a phone"
    visible = "return [...document.querySelectorAll('[data-search]')].filter((row) => row.checkVisibility()).length"
    assert run(browser, visible) == 9
    (field,) = browser("POST", "/element", using="css selector", value="input[type=search]").values()
    browser("POST", f"/element/{field}/value", text="c12 Web")
    assert run(browser, visible) == 1
    assert run(browser, "return document.getElementById('found').textContent + location.hash") == "1 of 9#q=c12%20Web"
    (link,) = browser("POST", "/element", using="css selector", value="tr:not([hidden]) td.last a").values()
    browser("POST", f"/element/{link}/click")
    fields = "return Object.fromEntries([...document.querySelectorAll('input')].map((one) => [one.id, one.value]))"
    web = "c12/shop/Deployment/web"
    assert run(browser, fields) == {"title": f"Wake {web}", "object": web, "for": "3h"}
    browser("POST", "/url", url=httpserver.url_for("/status.html#q=c24"))
    assert run(browser, visible) == 1, "a search can be kept as a bookmark"
