"""The dashboard that is deployed, asked of a real Prometheus that holds a week of the metrics that runs write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families_in

from reconciler.activator.activation_context import ActivatorMetrics
from reconciler.backends.protocols import REQUEST_SECONDS, ApiTraffic
from reconciler.report.metrics import Measured, open_metrics_text, render_metrics
from tests.forecast.nights import a_deployment
from tests.forecast.random_fleets import RandomFleet
from tests.real.prometheus import Prometheus, Series
from tests.report.metrics_in_source import metrics_in_source

END = datetime(2026, 11, 20, 23, tzinfo=UTC)
"""A Friday: the week ends while everything sleeps."""
START, ASKED, SCRAPED = END - timedelta(days=7), END.timestamp() - 60, 300
MACROS = {"$__range": "7d", "$cluster": ".*"}
NOW = {
    "Idle now": 4,
    "Idle replicas": 16,
    "Wakes overdue": 2,
    "Held back": 3,
    "Conflicts": 1,
    "Clusters unknown": 0,
    "Last success, ago": 540,
}
WRONG = ("overdue_wakes", "contested", "object_faults", "picker_failures", "policy_conflicts")
TRAFFIC = ApiTraffic(9, 9000, 0.9, (0, 4, 5, *[0] * (len(REQUEST_SECONDS) - 2)))


def dashboard(repository: Path) -> dict[str, Any]:
    manifest = yaml.safe_load((repository / "deploy/components/monitoring/grafana-dashboard.yaml").read_text())
    assert manifest["metadata"]["labels"]["grafana_dashboard"] == "1"
    (found,) = manifest["data"].values()
    return dict(json.loads(found))


def queries(repository: Path) -> Iterator[tuple[str, str]]:
    """Yield each query of the dashboard with the title of its panel, as Grafana asks it."""
    for panel in dashboard(repository)["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for macro, value in MACROS.items():
                text = text.replace(macro, value)
            yield panel["title"], text


def test_the_dashboard_shows_metrics_that_there_are(repository: Path):
    named = {name for _, text in queries(repository) for name in re.findall(r"\breconciler_\w+", text)}
    assert {name.removesuffix("_bucket") for name in named} <= metrics_in_source(repository)


def test_panels_lie_beside_each_other_and_ask_the_data_source_that_is_chosen(repository: Path):
    panels = dashboard(repository)["panels"]
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert {x for x, _ in cells} == set(range(24))
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert len({panel["id"] for panel in panels}) == len(panels)


NIGHTS = {"schedule": {"timeZone": "UTC", "downtime": ["Mon-Fri 20:00-06:00"]}}
LABELS = {"app": "shop"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": "web"}]}}


def document(kind: str, name: str, namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def idling(name: str, namespace: str, limit: int) -> dict[str, Any]:
    selector = {"namespaces": {"include": [namespace]}, "workloads": {"kinds": ["Deployment"]}}
    return document("IdlingPolicy", name, selector=selector, idleWhen=[NIGHTS], limits={"workloads": limit})


def runs_of_a_week() -> Iterator[tuple[datetime, datetime, str]]:
    """Yield from when to when what a run wrote was the newest, and its metrics.

    Of 16 replicas in `dev` all sleep at night; the three workloads in `qa` are held back.
    """
    manifests = [a_deployment("web", 3), a_deployment("api", 5)]
    held = [{**a_deployment(name, 2), "metadata": {"name": name, "namespace": "qa"}} for name in ("x", "y", "z")]
    documents = [
        document("Fleet", "week", home="a", clusters=[{"name": "a"}, {"name": "b"}]),
        idling("nights", "dev", 20),
        idling("held", "qa", 1),
        document("FederatedReplicaSet", "web", "shop", replicas=4, selector={"matchLabels": LABELS}, template=TEMPLATE),
    ]
    steps = list(
        RandomFleet(documents, {"a": [*manifests, *held], "b": manifests}, frozenset()).simulation().play(START, END)
    )
    for step, until in zip(steps, [*(one.at for one in steps[1:]), END], strict=True):
        stages = {"observe": 1.5, "plan": 0.1, "apply": 0.4}
        yield step.at, until, render_metrics(Measured(step.plan, step.outcomes, stages, {"a": TRAFFIC}, 0.0))


def scraped(start: datetime, end: datetime) -> range:
    """Return the times of scrapes from `start` to before `end`: multiples of their distance."""
    first, last = (-int(-at.timestamp() // SCRAPED) for at in (start, end))
    return range(first * SCRAPED, last * SCRAPED, SCRAPED)


def at_the_gateway(sample: Any, at: int) -> float:
    """Return the value of `sample` when it was scraped: in the last hour something is wrong, as in no forecast."""
    if sample.name.endswith("last_success_timestamp_seconds"):
        return at - at % 600
    return sample.value + (sample.name.endswith(WRONG) and END.timestamp() - at <= 3600)


def a_week() -> list[Series]:
    """Return the metrics of a week as they were scraped. A plan beside the runs also pushes: that counts nowhere."""
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = {}

    def add(sample: Any, at: float, value: float, **labels: str) -> None:
        key = sample.name, tuple(sorted({**sample.labels, **labels}.items()))
        series.setdefault(key, []).append((at, value))

    for since, until, text in runs_of_a_week():
        samples = [one for family in families_in(text) for one in family.samples if not one.name.startswith("sorting")]
        for at in scraped(since, until):
            for one in samples:
                add(one, at, at_the_gateway(one, at), verb="apply")
                if "_idled_" in one.name:
                    add(one, at, one.value, verb="plan")
    served = ActivatorMetrics()
    served.gauges.update(listening=4, held=1, spliced=2)
    for at in scraped(END - timedelta(hours=3), END):
        served.counters.update(woken=1, wake_failures=1)
        served.refused.update(timeout=1)
        served.first_byte(at % 7)
        text = open_metrics_text(served.families())
        for one in (sample for family in families_in(text) for sample in family.samples):
            add(one, at, one.value, pod="activator-0")
    forbidden = {
        "cluster": "a",
        "tenant": "shop",
    }  # of a tenant whose ServiceAccount may not: a forecast has no accounts
    late = [(at, 1.0) for at in scraped(END - timedelta(hours=1), END)]
    found = [Series(name, dict(labels), samples) for (name, labels), samples in series.items()]
    return [*found, Series("reconciler_tenant_forbidden_changes", forbidden, late)]


@pytest.mark.real
def test_every_query_is_answered_of_a_week(repository: Path, prometheus_server: Any) -> None:
    server: Prometheus = prometheus_server(a_week())
    answers = [(title, text, server.query(text, ASKED)) for title, text in queries(repository)]
    assert [text for _, text, found in answers if not found] == []
    values = {title: float(found[0]["value"][1]) for title, _, found in answers}
    assert {title: values[title] for title in NOW} == NOW
    nights = 7 + 4 * 10 + 3  # hours of them in the week
    assert values["Replica-hours saved"] == pytest.approx(16 * nights, abs=4)
    held = [found for title, text, found in answers if "held_back" in text and title == "What needs somebody"]
    assert [one["metric"] for one in held[0]] == [{"cluster": "a"}]
