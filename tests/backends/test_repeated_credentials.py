"""A server that repeats what it was sent: in no text for people, whatever it says it in; its data stay as they are."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler import redaction
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.backends.protocols import SERVICES
from reconciler.cli.deliveries import push
from reconciler.cli.pull_request_comment import github_run, gitlab_run
from reconciler.connection_settings import PrometheusConnection
from reconciler.errors import ClusterError, CommentError
from reconciler.http.connections import connections
from reconciler.model import Sample
from reconciler.time_limit import TimeLimit
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.backends.kubernetes.live import requests_to

TOKEN = "ey/JhbGciOi.x-0123456789"
BASIC = b64encode(f"root:{TOKEN}".encode()).decode()
KEYS = ("authorization", "private-token", "x-credential", "x-signature")


def repeating(make: Callable[[str], Response]) -> Callable[[Request], Response]:
    """Return what answers with `make` of the credentials that came, however they came."""
    return lambda request: make(" ".join(value for name, value in request.headers.items() if name.lower() in KEYS))


def a_refusal(said: str, status: int = 400) -> Response:
    words = {"message": f"no {said} here", "error": said, "status": "error", "errorType": said}
    return Response(json.dumps(words), status, content_type="application/json")


def as_text(said: str) -> Response:
    """Say it a little before the place where texts are cut."""
    return Response("x" * 190 + f" {said}" * 30, 403)


def a_long_text(said: str) -> Response:
    """All but the last letter of it is before the place where a text without JSON ends."""
    return Response(" " * ((1 << 16) - len(said) + 1) + said, 403)


def an_escaped_text(said: str) -> Response:
    return Response(said.replace("/", "\\/"), 403)


def a_redirect(said: str) -> Response:
    return Response("", 302, {"Location": f"http://other/{said}"})


ANSWERS = [
    pytest.param(a_refusal, id="refused"),
    pytest.param(partial(a_refusal, status=500), id="failed"),
    pytest.param(partial(a_refusal, status=401), id="unauthorised"),
    pytest.param(as_text, id="text"),
    pytest.param(an_escaped_text, id="escaped text"),
    pytest.param(a_long_text, id="a text that is cut"),
    pytest.param(a_redirect, id="redirect"),
]


def served(server: HTTPServer, make: Callable[[str], Response]) -> str:
    server.expect_request(re.compile(".*")).respond_with_handler(repeating(make))
    return server.url_for("").rstrip("/")


def check(words: str) -> None:
    assert words
    for part in (TOKEN, TOKEN[:12], TOKEN[-12:], BASIC, BASIC[:12]):
        assert part not in words, words


def of_cluster(url: str, folder: Path, user: dict[str, str]) -> str:
    requests = requests_to(Path(a_kubeconfig(folder / "config", user, {"server": url})), timeout=2.0)
    with pytest.raises(ClusterError) as raised:
        requests.send(ApiRequest("GET", "/version", Operation("east", "get", "/version"), when="at once"))
    return str(raised.value)


def of_metrics(url: str, folder: Path, **fields: Any) -> str:
    (folder / "secret").write_text(TOKEN)
    reached = PrometheusConnection(url, **fields)
    return PrometheusMetrics(reached, datetime.now(UTC)).query("up").error


def of_gateway(url: str, _: Path) -> str:
    address = url.replace("//", f"//root:{TOKEN.replace('/', '%2F')}@")
    return push(address, "plan", "", whole=True, limit=TimeLimit(5))


def of_github(url: str, folder: Path) -> str:
    pull_request = {"number": 1, "head": {"repo": {"full_name": "a/b"}}}
    (folder / "event.json").write_text(json.dumps({"pull_request": pull_request}))
    variables = {"GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": url}
    comments = github_run({**variables, "GITHUB_EVENT_PATH": str(folder / "event.json")}, comment=True)
    assert not isinstance(comments, str)
    with pytest.raises(CommentError) as raised:
        comments.write("text")
    return str(raised.value)


def of_gitlab(url: str, _: Path) -> str:
    variables = {"CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "2", "GITLAB_TOKEN": TOKEN, "CI_API_V4_URL": url}
    with pytest.raises(CommentError) as raised:
        gitlab_run(variables, comment=True)
    return str(raised.value)


def with_token(url: str, folder: Path) -> str:
    return of_metrics(url, folder, bearer_token_file=str(folder / "secret"))


def with_password(url: str, folder: Path) -> str:
    return of_metrics(url, folder, username="root", password_file=str(folder / "secret"))


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(partial(of_cluster, user={"token": TOKEN}), id="cluster, token"),
        pytest.param(partial(of_cluster, user={"username": "root", "password": TOKEN}), id="cluster, password"),
        pytest.param(with_token, id="metrics, token"),
        pytest.param(with_password, id="metrics, password"),
        pytest.param(partial(of_metrics, headers=(("X-Credential", TOKEN),)), id="metrics, X-Credential"),
        pytest.param(partial(of_metrics, headers=(("X-Signature", TOKEN),)), id="metrics, X-Signature"),
        pytest.param(of_gateway, id="push gateway"),
        pytest.param(of_github, id="GitHub"),
        pytest.param(of_gitlab, id="GitLab"),
    ],
)
def test_a_credential_that_the_server_repeats_is_in_no_error(asked, answer, httpserver, tmp_path):
    check(asked(served(httpserver, answer), tmp_path))


def test_a_password_that_is_also_a_value_of_the_data_changes_none_of_them(httpserver, tmp_path):
    """With `noSeries: Zero` a series that is called otherwise would count as no traffic."""
    (tmp_path / "secret").write_text("checkout")
    body = {
        "status": "success",
        "warnings": ["checkout is odd"],
        "data": {"resultType": "vector", "result": [{"metric": {"service": "checkout"}, "value": [1, "5"]}]},
    }
    httpserver.expect_request("/api/v1/query").respond_with_json(body)
    reached = PrometheusConnection(httpserver.url_for(""), username="u", password_file=str(tmp_path / "secret"))
    found = PrometheusMetrics(reached, datetime.now(UTC)).query("up")
    assert (found.samples, found.warnings) == ((Sample({"service": "checkout"}, 5.0),), ("*** is odd",))


def test_an_object_that_is_called_like_the_token_is_the_same_object(httpserver, tmp_path):
    items = [{"metadata": {"name": "abcdefgh", "namespace": "shop"}}]
    httpserver.expect_request("/api/v1/services").respond_with_json({"items": items})
    kubeconfig = a_kubeconfig(
        tmp_path / "config", {"token": "abcdefgh"}, {"server": httpserver.url_for("").rstrip("/")}
    )
    cluster = KubernetesCluster("east", requests_to(Path(kubeconfig)))
    assert [one.ref.name for one in cluster.list(SERVICES)] == ["abcdefgh"]


@pytest.mark.parametrize(
    ("credential", "said", "expected"),
    [
        pytest.param("hunter21", "xhunter21x", "x***x", id="anywhere"),
        pytest.param("shop", "in shop, of shopping", "in ***, of shopping", id="a short one as a whole word"),
        pytest.param("abc", "abc", "abc", id="of three characters not at all"),
        pytest.param('pa"ss\\word', '{"a": "pa\\"ss\\\\word"}', '{"a": "***"}', id="escaped in JSON"),
        pytest.param("", "nothing", "nothing", id="none"),
    ],
)
def test_what_is_taken_out_of_what_a_server_says(credential, said, expected):
    redaction.remember(credential)
    assert redaction.without_credentials(said) == expected


@pytest.mark.parametrize(
    ("credential", "printed"),
    [
        pytest.param("hunter21", "name: (secret)-web", id="as part of a name"),
        pytest.param("a<b>&c+d", "name: (secret)-web", id="escaped in HTML"),
        pytest.param("shop123", "name: shop123-web", id="a short one stays"),
        pytest.param("20261120", "name: 20261120-web", id="digits alone stay"),
    ],
)
def test_what_is_taken_out_of_what_is_printed(credential, printed):
    redaction.remember(credential)
    name = credential.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert redaction.printable_without_credentials(f"name: {name}-web") == printed


def test_a_header_of_the_fleet_is_no_secret_where_names_are_printed():
    """It stands in git, and X-Scope-OrgID may be called like a namespace; a token of that value is one all the same."""
    redaction.remember_header("production")
    assert redaction.printable_without_credentials("production/web") == "production/web"
    assert redaction.without_credentials("no org production") == "no org ***"
    redaction.remember("production")
    redaction.remember_header("production")
    assert redaction.printable_without_credentials("production/web") == "(secret)/web"


def test_a_process_that_goes_on_for_months_knows_the_latest(monkeypatch):
    monkeypatch.setattr(redaction, "_MOST", 3)
    for number in range(10):
        redaction.remember(f"token-{number}")
    assert redaction.without_credentials("token-1 token-9") == "token-1 ***"


def test_the_password_of_a_proxy_is_known():
    connections(proxy="http://us:hunter%2021@proxy:3128")
    assert redaction.without_credentials("hunter 21") == "***"


def test_what_follows_basic_may_be_no_base64():
    redaction.remember_authorization("Basic gehört-uns")
    assert redaction.without_credentials("it was gehört-uns") == "it was ***"
