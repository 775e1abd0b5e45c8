"""The queries of docs/how-to/idle-by-traffic.md, asked of a real Prometheus with the series that each proxy exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.connection_settings import PrometheusConnection
from reconciler.model import QueryKey
from reconciler.policy.kinds.fields import render_query
from reconciler.time_limit import TimeLimit
from tests.docs.pages import blocks
from tests.real.prometheus import Prometheus, Series, every

NOW = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
STEP = 30.0
HOUR = 120  # steps
TRAFFIC = {
    "quiet": [41.0] * (HOUR + 1),
    "busy": [float(one // 4) for one in range(HOUR + 1)],  # a request every two minutes
    "first-call": [1.0] * 8,  # the counter appeared three minutes ago, with its first request
    "restarted": [90.0] * (HOUR - 19) + [0.0, 0.0, 5.0] + [5.0] * 17,  # and five requests since
    "long-ago": [3.0] * 41 + [7.0] * (HOUR - 40),
}
EXPECTED = {"quiet": 0, "busy": 15, "first-call": 1, "restarted": 5, "long-ago": 0}
KEPT = {"instance": "10.0.0.7:9090", "job": "proxy"}


@dataclass(frozen=True)
class Dialect:
    """How a proxy names its counter and a Service; `noise` are series that must not count."""

    counter: str
    labels: Callable[[str, str], dict[str, str]]
    noise: Sequence[Series] = ()
    others: Callable[[str, str], Series | None] = field(default=lambda namespace, service: None)


def to_now(values: Sequence[float]) -> list[tuple[float, float]]:
    return every(STEP, since=NOW.timestamp() - STEP * (len(values) - 1), values=values)


def nginx(namespace: str, service: str) -> dict[str, str]:
    return {"namespace": namespace, "service": service, "ingress": "web", "status": "200", "host": f"{service}.example"}


def renamed(namespace: str, service: str) -> dict[str, str]:
    inside = {"exported_namespace": namespace, "exported_service": service, "status": "200"}
    return {"namespace": "ingress-nginx", "service": "ingress-nginx-controller-metrics", **inside}


def istio(reporter: str) -> Callable[[str, str], dict[str, str]]:
    def labels(namespace: str, service: str) -> dict[str, str]:
        named = {"destination_service_name": service, "destination_service_namespace": namespace}
        return {"reporter": reporter, "namespace": "istio-ingress", "response_code": "200", **named}

    return labels


def info(namespace: str, service: str) -> Series:
    labels = {"namespace": namespace, "service": service, "uid": f"{namespace}/{service}", "job": "kube-state-metrics"}
    return Series("kube_service_info", labels, to_now([1.0] * (HOUR + 1)))


DIALECTS = {
    "quiet-nginx": Dialect("nginx_ingress_controller_requests", nginx),
    "quiet-nginx-renamed": Dialect("nginx_ingress_controller_requests", renamed),
    "quiet-istio": Dialect(
        "istio_requests_total",
        istio("source"),
        [Series("istio_requests_total", {**istio("destination")("dev-a", "quiet"), **KEPT}, to_now(TRAFFIC["busy"]))],
    ),
    "quiet-envoy": Dialect(
        "envoy_cluster_upstream_rq_total",
        lambda namespace, service: {"envoy_cluster_name": f"{namespace}_{service}_8080"},
    ),
    "quiet-traefik": Dialect(
        "traefik_service_requests_total",
        lambda namespace, service: {"service": f"{namespace}-{service}-80@kubernetes", "code": "200", "method": "GET"},
        others=info,
    ),
}


def series_of(dialect: Dialect) -> Iterator[Series]:
    for service, values in TRAFFIC.items():
        yield Series(dialect.counter, {**dialect.labels("dev-a", service), **KEPT}, to_now(values))
        another = dialect.others("dev-a", service)
        yield from [another] if another else []
    yield from dialect.noise


def policies(repository: Path) -> dict[str, Any]:
    page = (repository / "docs" / "how-to" / "idle-by-traffic.md").read_text()
    found = [yaml.safe_load(block.text) for block in blocks(page) if block.language == "yaml"]
    return {one["metadata"]["name"]: one["spec"] for one in found}


def answered(server: Prometheus, metric: dict[str, Any]) -> dict[tuple[str, str], int]:
    window = metric.get("window", "30m")
    query = render_query(QueryKey("eu-west", "quiet", metric["query"], window))
    answer = PrometheusMetrics(PrometheusConnection(server.url), NOW, TimeLimit(20)).query(query)
    assert (answer.error, answer.warnings) == ("", ())
    return {(one.labels["namespace"], one.labels["service"]): round(one.value) for one in answer.samples}


@pytest.mark.parametrize("name", DIALECTS)
def test_each_service_has_the_requests_of_the_window(
    name: str, repository: Path, prometheus_server: Callable[..., Prometheus]
) -> None:
    server = prometheus_server(series_of(DIALECTS[name]))
    (criterion,) = policies(repository)[name]["idleWhen"]
    assert answered(server, criterion["metric"]) == {("dev-a", service): count for service, count in EXPECTED.items()}
    for one in policies(repository)[name].get("wakeWhen", []):
        awake = {service for (_, service), value in answered(server, one["metric"]).items() if value > 0}
        assert awake == {"busy", "first-call"}


def test_each_dialect_of_the_page_is_tried(repository: Path) -> None:
    plain = {"quiet-nights", "quiet-and-measured"}
    assert set(policies(repository)) == DIALECTS.keys() | plain


def test_two_services_that_traefik_calls_the_same_are_unknown(
    repository: Path, prometheus_server: Callable[..., Prometheus]
) -> None:
    same = [info("dev-a", "b-c"), info("dev-a-b", "c")]
    calls = Series("traefik_service_requests_total", {"service": "dev-a-b-c-80@kubernetes"}, to_now([5.0] * 20))
    server = prometheus_server([*same, calls])
    (criterion,) = policies(repository)["quiet-traefik"]["idleWhen"]
    query = render_query(QueryKey("eu-west", "quiet", criterion["metric"]["query"], "30m"))
    answer = PrometheusMetrics(PrometheusConnection(server.url), NOW, TimeLimit(20)).query(query)
    assert answer.error
    assert not answer.samples
