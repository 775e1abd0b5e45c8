"""A forecast in every form: the same numbers, safe whatever names say."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.forecast.html import render_html
from reconciler.forecast.json import forecast_to_dict
from reconciler.forecast.text import ForecastStyle, render_markdown, render_text, wake_lines
from reconciler.forecast.timelines import Segment, Wake
from reconciler.pod_requests import PodRequests
from reconciler.policy.types import Prices
from tests.forecast.nights import NIGHTS, REQUESTS, a_deployment, a_service, an_idling_policy, played
from tests.pipeline.calls import Folder

NIGHT = "2026-11-20T15:00:00Z"


def a_forecast():
    objects = [a_deployment("web"), a_service("web"), a_deployment("api", 3), a_service("api")]
    return played([an_idling_policy({"anyOf": [NIGHTS, REQUESTS]})], objects)


TEXT = """\
Forecast for Fleet mix, 1 day from Fri 2026-11-20 12:00, times in UTC
-50 (-42 %) replica-hours, -3.50 in money. 2 workloads selected by policies, 0 by none.
-120 (-100 %) replica-hours, -8.40 in money if metrics stay as they were recorded.
"""


def test_text() -> None:
    style = ForecastStyle("namespace", Prices(0.1, 0.02))
    text = render_text(a_forecast(), style)
    assert text.startswith(TEXT), text
    assert text.isascii()
    assert "a/dev (2)  ????.....???" in text
    assert "█" not in text
    assert "▒▒▒▒▁▁▁▁▁" in render_text(a_forecast(), ForecastStyle("namespace", blocks=True))


def test_what_is_hardly_anything_has_no_sign() -> None:
    made = a_forecast()
    at = made.end - timedelta(hours=1)
    segments = Segment(made.start, at, 200), Segment(at, made.end, 201)
    web = replace(made.timelines[0], without=200, segments=segments)
    text = render_text(replace(made, timelines=(web,)), ForecastStyle())
    assert "-0 " not in text
    assert " 4,800    0 %  " in text


def test_capacity_is_counted_in_pods_and_its_tiers_in_workloads() -> None:
    made = a_forecast()
    wake = Wake(made.start, 13, PodRequests(2.5, 7), {"a": 13}, ((1, 5), (10, 1)))
    (line,) = wake_lines(replace(made, wakes=(wake,)))
    assert line.endswith(": 13 pods (2.5 cores, 7.0 GiB; a 13); tier 1: 5 workloads, then tier 10: 1 workload")


def test_json_has_every_step() -> None:
    found = forecast_to_dict(a_forecast(), "policy", Prices(cpu=1.0))
    assert json.loads(json.dumps(found)) == found
    savings = found["savings"]
    assert [savings[key]["replicaHours"] for key in ("withoutPolicies", "saved", "savedIfMetricsStay")] == [
        120,
        50,
        120,
    ]
    assert (savings["percentIfMetricsStay"], savings["moneyIfMetricsStay"]) == (100, 60)
    web = next(one for one in found["workloads"] if one["object"].endswith("web"))
    assert [step["replicas"] for step in web["steps"]] == [0, 0, 0]
    assert [step.get("assumes") for step in web["steps"]] == ["requests = 0", None, "requests = 0"]


def test_json_rounds_to_what_a_price_or_a_request_may_have() -> None:
    made = a_forecast()
    savings = forecast_to_dict(made, "policy", Prices(cpu=1 / 3))["savings"]
    assert (savings["percent"], savings["money"]) == (41.67, 8.3333)
    odd = replace(made, timelines=(replace(made.timelines[0], requests=PodRequests(1 / 3, 2 / 3)),))
    (timeline,) = forecast_to_dict(odd, "policy", Prices())["workloads"]
    assert timeline["requests"] == {"cpu": 0.333333, "memoryGiB": 0.666667}


def test_when_a_workload_is_deleted_is_a_step() -> None:
    made = a_forecast()
    segment = Segment(made.start, made.end - timedelta(hours=1), 2)
    less = replace(made, timelines=(replace(made.timelines[0], segments=(segment,)),))
    assert "    Sat 2026-11-21 11:00  deleted\n" in render_text(less, ForecastStyle(verbose=True))
    (api,) = forecast_to_dict(less, "policy", Prices())["workloads"]
    assert api["deletedAt"] == "2026-11-21T11:00:00Z"


def test_names_are_no_markup() -> None:
    wild = an_idling_policy(NIGHTS)
    wild["metadata"]["name"] = "nights"
    made = played(
        [wild], [a_deployment("web", labels={"team": "</svg><script>@octocat #1 [x](http://evil)"}), a_service("web")]
    )
    style = ForecastStyle("label=team")
    page, comment = render_html(made, style), render_markdown(made, style)
    assert "<script" not in page
    assert "@octocat" not in comment
    assert "http://evil" not in comment
    assert "http" not in page.replace("http://evil", "")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "--snapshot: a forecast plays on a snapshot"),
        (("--snapshot", "snapshot", "--by", "polcy"), 'cluster or a label of theirs, did you mean "policy"?'),
        (("--snapshot", "snapshot", "--by", "label=policy"), '--by: "label=policy" is no label'),
        (("--snapshot", "snapshot", "--price", "gpu=1"), '--price: "gpu=1" is not a price'),
        (("--snapshot", "snapshot", "--price", "cpu=nan"), '--price: "cpu=nan" is not a price'),
        (("--snapshot", "snapshot", "--price", "cpu=1e308"), '--price: "cpu=1e308" is not a price'),
        (("--snapshot", "snapshot", "--tick", "10s"), '"10s" is out of range'),
    ],
)
def test_wrong_calls(quickstart: Folder, flags: tuple[str, ...], says: str) -> None:
    said = quickstart.call("forecast", "--now", NIGHT, *flags)
    assert said.code == 64
    assert says in said.err


BUILDER = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: builder, namespace: ci, labels: {team: build}}
spec:
  replicas: 4
  selector: {matchLabels: {app: builder}}
  template:
    metadata: {labels: {app: builder}}
    spec: {containers: [{name: builder, image: builder, resources: {requests: {cpu: "2", memory: 4Gi}}}]}
"""


def test_by_a_label_and_with_the_prices_of_the_fleet(quickstart: Folder) -> None:
    fleet = (quickstart.path / "policies" / "fleet.yaml").read_text()
    fleet = fleet.replace("atLeast: 4", "atLeast: 5").rstrip()
    quickstart.write("policies/fleet.yaml", f"{fleet}\n  prices: {{cpu: 0.5, memory: 0.25}}\n")
    quickstart.write("snapshot/eu-west/ci-builder.yaml", BUILDER)
    look = ("forecast", "--snapshot", "snapshot", "--now", NIGHT, "--days", "1", "-o", "json", "--by", "team")
    priced = [json.loads(quickstart.call(*look, *more).out) for more in ((), ("--price", "memory=0"))]
    for found, memory in zip(priced, (0.25, 0.0), strict=True):
        saved = found["savings"]["saved"]
        assert saved["cpuHours"] > 0
        assert found["savings"]["money"] == pytest.approx(0.5 * saved["cpuHours"] + memory * saved["memoryGiBHours"])
    assert priced[0]["groupedBy"] == "team"
    assert "build" in [one["name"] for one in priced[0]["groups"]]
