"""The metrics source over HTTP: what it sends, what it makes of answers, and every way an answer can be missing."""

from __future__ import annotations

import gzip
import json
import math
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler.backends import prometheus
from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.connection_settings import PrometheusConnection
from reconciler.model import QueryAnswer, RangeAnswer, Sample
from reconciler.time_limit import TimeLimit
from tests.backends.servers import AUTHORITY, PickerServer, drip, reply, secured, silent
from tests.real.cluster import wait_until

AT = datetime(2026, 11, 20, 15, 41, 23, tzinfo=UTC)
TOKEN = "s3cr3t.T0ken"
QUERY = "/api/v1/query"


def a_source(url: str, *, seconds: float = 20.0, **settings: Any) -> PrometheusMetrics:
    return PrometheusMetrics(PrometheusConnection(url, **settings), AT, TimeLimit(), seconds)


def asked(server: HTTPServer | PickerServer, text: str = "up", **settings: Any) -> QueryAnswer:
    port = server.port
    return a_source(f"http://127.0.0.1:{port}", **settings).query(text)


def a_result(kind: str, *result: Any, **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": [*result]}, **more}


def a_vector(*series: tuple[dict[str, str], str], **more: Any) -> dict[str, Any]:
    found = ({"metric": labels, "value": [1795189283.0, value]} for labels, value in series)
    return a_result("vector", *found, **more)


def an_error(kind: str, words: str) -> dict[str, str]:
    return {"status": "error", "errorType": kind, "error": words}


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return str(path)


def test_the_request_is_the_query_its_time_and_the_token(httpserver, token_file):
    httpserver.expect_request("/prefix" + QUERY, method="POST").respond_with_json(a_vector())
    source = a_source(httpserver.url_for("/prefix/"), bearer_token_file=token_file)
    assert source.query('sum(increase(x{a="ä&b"}[5m]))') == QueryAnswer()
    [(request, _)] = httpserver.log
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.form.to_dict() == {
        "query": 'sum(increase(x{a="ä&b"}[5m]))',
        "time": "1795189283.000",
        "timeout": "18000ms",
    }
    assert not request.args


def test_a_proxy_that_lets_reads_through_only_is_asked_with_get_from_then_on(httpserver):
    httpserver.expect_request(QUERY, method="POST").respond_with_data("no", 405)
    httpserver.expect_request(QUERY, method="GET").respond_with_json(a_vector(({}, "1")))
    source = a_source(httpserver.url_for(""))
    assert [source.query("up + 1").samples, source.query("up").samples] == [(Sample({}, 1.0),)] * 2
    assert [request.method for request, _ in httpserver.log] == ["POST", "GET", "GET"]
    assert httpserver.log[1][0].args["query"] == "up + 1"
    assert "Authorization" not in httpserver.log[1][0].headers, "there is no token"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        pytest.param(a_vector(), QueryAnswer(), id="no series"),
        pytest.param(
            a_vector(({"namespace": "dev-a", "service": "api"}, "0"), ({"service": "b"}, "1.5e+06")),
            QueryAnswer((Sample({"namespace": "dev-a", "service": "api"}, 0.0), Sample({"service": "b"}, 1.5e6))),
            id="two series",
        ),
        pytest.param(
            a_vector(({"a": "1"}, "+Inf"), ({"a": "2"}, "-Inf")),
            QueryAnswer((Sample({"a": "1"}, math.inf), Sample({"a": "2"}, -math.inf))),
            id="infinities",
        ),
        pytest.param(
            a_result("scalar", 1795189283.0, "7"),
            QueryAnswer((Sample({}, 7.0),)),
            id="a scalar is one sample without labels",
        ),
        pytest.param(
            a_vector(({}, "3"), warnings=["store east\nis down"]),
            QueryAnswer((Sample({}, 3.0),), warnings=("store east is down",)),
            id="warnings make it partial",
        ),
        pytest.param(
            a_vector(({}, "3"), isPartial=True),
            QueryAnswer((Sample({}, 3.0),), warnings=("isPartial: not all of its stores answered",)),
            id="VictoriaMetrics without one of its stores",
        ),
        pytest.param(a_vector(({}, "3"), isPartial=False), QueryAnswer((Sample({}, 3.0),)), id="with all of them"),
        pytest.param(
            a_vector(({}, "3"), infos=["PromQL info: metric might not be a counter, name does not end in _total"]),
            QueryAnswer((Sample({}, 3.0),)),
            id="an info about a name does not",
        ),
        pytest.param(
            a_vector(({}, "3"), infos=["PromQL info: ignored histogram in sum aggregation (1:1)"]),
            QueryAnswer((Sample({}, 3.0),), warnings=("PromQL info: ignored histogram in sum aggregation (1:1)",)),
            id="an info about samples left out does",
        ),
    ],
)
def test_answers(httpserver, body, answer):
    httpserver.expect_request(QUERY).respond_with_json(body)
    assert asked(httpserver) == answer


def test_not_a_number_is_a_value(httpserver):
    httpserver.expect_request(QUERY).respond_with_json(a_vector(({}, "NaN")))
    [sample] = asked(httpserver).samples
    assert math.isnan(sample.value)


NOT_THE_API = "the answer is not what the query API gives, expected its JSON; is it a Prometheus?"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(
            422,
            an_error("execution", "many-to-many matching\nnot allowed"),
            "status 422 (execution: many-to-many matching not allowed), expected 200",
            id="its own words, on one line",
        ),
        pytest.param(
            400,
            an_error("bad_data", "x" * 5000),
            f"status 400 (bad_data: {'x' * 289}…), expected 200",
            id="long words are cut",
        ),
        pytest.param(401, "<html>who are you</html>", "status 401, expected 200", id="refused by a proxy"),
        pytest.param(
            200,
            an_error("execution", "no"),
            "the query failed (execution: no), expected a result",
            id="an error with status 200",
        ),
        *(
            pytest.param(
                200,
                a_result(kind),
                f"the result is a {kind}, expected a vector or a scalar; change the query",
                id=f"a {kind}",
            )
            for kind in ("matrix", "string")
        ),
        pytest.param(
            200,
            a_result("vector", {"metric": {}, "histogram": [1, {"count": "1"}]}),
            "the result holds histograms, expected numbers; change the query",
            id="a native histogram",
        ),
        pytest.param(
            200, a_vector(({}, "many")), 'the result holds the value "many", expected a number', id="no number"
        ),
        pytest.param(200, "<html>log in</html>", NOT_THE_API, id="a page"),
        pytest.param(200, b"\xff\xfe", NOT_THE_API, id="no UTF-8"),
        pytest.param(200, "[" * 100_000, NOT_THE_API, id="nested too deeply"),
        pytest.param(200, {"status": "success", "data": {"resultType": "vector"}}, NOT_THE_API, id="no result"),
        pytest.param(200, a_result("vector", {"metric": {}, "value": ["1"]}), NOT_THE_API, id="a value without time"),
    ],
)
def test_no_answer(httpserver, token_file, status, body, words):
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    httpserver.expect_request(QUERY).respond_with_data(text, status)
    url = f"http://127.0.0.1:{httpserver.port}"
    assert a_source(url, bearer_token_file=token_file).query("up") == QueryAnswer(error=f"{url}: {words}")
    assert len(httpserver.log) == 1


def test_a_redirect_is_told_and_not_followed(httpserver, token_file):
    httpserver.expect_request(QUERY).respond_with_data("", 307, headers={"Location": httpserver.url_for("/other")})
    error = asked(httpserver, bearer_token_file=token_file).error
    assert f"status 307 (a redirect to {httpserver.url_for('/other')}), expected 200" in error
    assert [request.path for request, _ in httpserver.log] == [QUERY]


def answering(*answers: Callable[[], Response]) -> Callable[[Request], Response]:
    """The nth request gets the nth answer, the last one from then on."""
    waiting = list(answers)
    return lambda _: (waiting.pop(0) if len(waiting) > 1 else waiting[0])()


def fine() -> Response:
    return Response(json.dumps(a_vector(({}, "1"))))


def busy(status: int, **headers: str) -> Callable[[], Response]:
    return lambda: Response(json.dumps(an_error("unavailable", "starting")), status, headers)


@pytest.mark.parametrize(
    ("first", "then", "error", "requests"),
    [
        pytest.param(busy(503), fine, "", 2, id="503 and then fine"),
        pytest.param(busy(429), fine, "", 2, id="429 and then fine"),
        pytest.param(busy(503, **{"Retry-After": "0"}), fine, "", 2, id="as soon as it likes"),
        pytest.param(busy(503), busy(503), "status 503 (unavailable: starting)", 2, id="one more try, not two"),
        pytest.param(busy(503, **{"Retry-After": "60"}), fine, "status 503", 1, id="later than we wait"),
        pytest.param(busy(500), fine, "status 500", 1, id="500 is an answer"),
    ],
)
def test_one_more_try(httpserver, first, then, error, requests):
    httpserver.expect_request(QUERY).respond_with_handler(answering(first, then))
    answer = asked(httpserver)
    assert error in answer.error
    assert bool(answer.samples) is not bool(error)
    assert len(httpserver.log) == requests


def test_a_server_that_is_late_once_is_not_asked_again():
    with PickerServer(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", 0.05)) as server:
        source = a_source(f"http://127.0.0.1:{server.port}", seconds=0.3)
        words = "no whole answer within 0.3 s, expected one; no more is asked in this run"
        for _ in range(3):
            assert source.query("up").error == f"http://127.0.0.1:{server.port}: {words}"
        assert server.connections == 1


def test_nothing_is_asked_when_the_time_of_the_run_is_over(httpserver):
    assert asked(httpserver, seconds=-1.0).error == (
        f"http://127.0.0.1:{httpserver.port}: not asked, the run's time is over; expected an answer before --timeout"
    )
    assert not httpserver.log


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "cannot be read (No such file or directory), expected a token in it", id="missing"),
        pytest.param(b"", "is empty, expected a token in it", id="empty"),
        pytest.param(f"{TOKEN}\nHost: evil".encode(), "holds more than one word or line, expected a token", id="lines"),
        pytest.param(b"\xff\xfe", "is no text, expected a token in it", id="no text"),
    ],
)
def test_a_token_file_that_is_of_no_use(httpserver, tmp_path, content, words):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    answer = asked(httpserver, bearer_token_file=str(file))
    assert answer.error.startswith(f"http://127.0.0.1:{httpserver.port}: bearerTokenFile {file} {words}")
    assert not httpserver.log


def test_the_token_is_read_when_it_is_needed_and_shows_nowhere(httpserver, tmp_path):
    httpserver.expect_request(QUERY).respond_with_json(a_vector())
    file = tmp_path / "token"
    source = a_source(httpserver.url_for(""), bearer_token_file=str(file))
    assert source.query("up").error
    file.write_text(TOKEN)
    assert source.query("up") == QueryAnswer()
    assert TOKEN not in repr(source)


@pytest.mark.parametrize(
    ("name", "ca", "words"),
    [
        pytest.param("other.example", "ca.pem", "its certificate is not valid (", id="another name"),
        pytest.param("localhost", None, "its certificate is not valid (", id="the authorities of the system"),
        pytest.param("localhost", "none.pem", "none.pem cannot be read (No such file", id="no CA file"),
        pytest.param("localhost", "text.pem", "text.pem holds no certificates, expected some in PEM", id="text"),
    ],
)
def test_a_certificate_that_nobody_vouches_for(tmp_path, token_file, name, ca, words):
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    (tmp_path / "text.pem").write_text("hello")
    with PickerServer(reply("{}"), tls=secured(name)) as server:
        file = None if ca is None else str(tmp_path / ca)
        answer = a_source(f"https://localhost:{server.port}", ca_file=file, bearer_token_file=token_file).query("up")
        assert words in answer.error
        assert server.received == []


def test_a_tenant_and_a_password_are_sent(httpserver, tmp_path):
    (tmp_path / "password").write_text("open sesame\n")
    httpserver.expect_request(QUERY).respond_with_json(a_vector())
    answer = asked(
        httpserver,
        username="run",
        password_file=str(tmp_path / "password"),
        headers=(("X-Scope-OrgID", "team-a|team-b"),),
    )
    assert answer == QueryAnswer()
    [(request, _)] = httpserver.log
    assert (request.authorization.username, request.authorization.password) == ("run", "open sesame")
    assert request.headers["X-Scope-OrgID"] == "team-a|team-b"


def test_a_client_certificate_is_presented(tmp_path):
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own = AUTHORITY.issue_cert("run.example")
    own.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    context = secured("localhost")
    context.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.configure_trust(context)
    files = {"ca_file": str(tmp_path / "ca.pem"), "cert_file": str(tmp_path / "cert.pem")}
    with PickerServer(reply(json.dumps(a_vector())), tls=context) as server:
        url = f"https://localhost:{server.port}"
        assert a_source(url, **files, key_file=str(tmp_path / "key.pem")).query("up") == QueryAnswer()
        assert a_source(url, ca_file=files["ca_file"]).query("up").error
        assert (
            a_source(url, **files)
            .query("up")
            .error.endswith("cert.pem holds no certificate with its key, expected both in PEM")
        )


def test_a_proxy_that_is_named_is_used_and_none_of_the_environment(httpserver, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "*")
    httpserver.expect_request(QUERY).respond_with_json(a_vector())
    proxied = a_source("http://prometheus.invalid", proxy_url=f"http://127.0.0.1:{httpserver.port}")
    assert proxied.query("up") == QueryAnswer()
    assert httpserver.log[0][0].headers["Host"] == "prometheus.invalid"
    assert asked(httpserver) == QueryAnswer()


def test_a_run_that_stops_waits_for_no_prometheus():
    limit = TimeLimit()
    with PickerServer(silent) as server, ThreadPoolExecutor(1) as threads:
        connection = PrometheusConnection(f"http://127.0.0.1:{server.port}")
        source = PrometheusMetrics(connection, AT, limit, 60.0)
        found = threads.submit(source.query, "up")
        wait_until(lambda: server.connections, "it is asked")
        limit.cut("stopped")
        assert found.result(20).error
        assert source.query("up").error


def test_a_bomb_is_unpacked_no_further_than_we_read(httpserver, monkeypatch):
    monkeypatch.setattr(prometheus, "LARGEST_ANSWER", 1 << 20)
    bomb = gzip.compress(bytes((1 << 20) + 1))
    httpserver.expect_request(QUERY).respond_with_data(bomb, headers={"Content-Encoding": "gzip"})
    assert "the answer is longer than 1 MiB, expected fewer series" in asked(httpserver).error


# Values over time.

RANGE = "/api/v1/query_range"
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)


def a_matrix(*series: tuple[dict[str, str], list[tuple[float, str]]], **more: Any) -> dict[str, Any]:
    return a_result("matrix", *({"metric": labels, "values": values} for labels, values in series), **more)


def ranged(server: HTTPServer, count: int = 4) -> RangeAnswer:
    return a_source(f"http://127.0.0.1:{server.port}").query_range("up", MIDNIGHT, count, timedelta(minutes=10))


def test_values_over_time_stand_at_their_place(httpserver):
    first = MIDNIGHT.timestamp()
    httpserver.expect_request(RANGE, method="POST").respond_with_json(
        a_matrix(({"service": "web"}, [(first, "1"), (first + 1200, "2.5")]), ({}, [(first + 1800, "NaN")]))
    )
    found = ranged(httpserver)
    assert found.error == ""
    assert [dict(one.labels) for one in found.series] == [{}, {"service": "web"}]
    assert found.series[1].values == (1.0, None, 2.5, None)
    [(request, _)] = httpserver.log
    asked = request.form.to_dict()
    assert (asked["query"], asked["step"]) == ("up", "600")
    assert float(asked["start"]) == first
    assert float(asked["end"]) == first + 1800


@pytest.mark.parametrize(("most", "error"), [(3600, ""), (-1, "too many samples")], ids=["in parts", "always"])
def test_what_is_too_much_for_one_answer_is_asked_in_parts(httpserver, most, error):
    """Prometheus refuses more samples than it may load; a shorter time has fewer of them."""

    def answer(request):
        start, end = float(request.form["start"]), float(request.form["end"])
        if end - start > most:
            refusal = an_error("execution", "query processing would load too many samples")
            return Response(json.dumps(refusal), status=422)
        values = [(at, f"{at - MIDNIGHT.timestamp():.0f}") for at in range(int(start), int(end) + 1, 600)]
        return Response(json.dumps(a_matrix(({}, values))))

    httpserver.expect_request(RANGE).respond_with_handler(answer)
    found = ranged(httpserver, 30)
    assert error in found.error
    assert [one.values for one in found.series] == ([] if error else [tuple(600.0 * n for n in range(30))])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(a_vector(), "is no matrix, expected one", id="a vector"),
        pytest.param(a_matrix(warnings=["one store is down"]), "is partial (one store is down)", id="partial"),
        pytest.param(a_matrix(isPartial=True), "is partial (isPartial: not all of its stores", id="VictoriaMetrics"),
        pytest.param(a_result("matrix", {"metric": {}, "histograms": []}), "holds histograms", id="histograms"),
        pytest.param(an_error("execution", "no"), "is no matrix", id="an error"),
    ],
)
def test_values_over_time_that_cannot_be_used_are_an_error(httpserver, answer, words):
    httpserver.expect_request(RANGE).respond_with_json(answer)
    found = ranged(httpserver)
    assert words in found.error
    assert found.series == ()
