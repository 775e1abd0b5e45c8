"""A month replayed is the month really played: a run at each tick on a real API server, asking a real Prometheus.

Both are the command line; the replicas after each run are those that the API server says. No controller runs there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.forecast.replays import FLEET, SHAPES, Past, a_policy
from tests.forecast.traffic import SCRAPE, Calls, calls
from tests.pipeline.calls import Folder
from tests.real.api import Api
from tests.real.cluster import create
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.objects import a_deployment, a_namespace, a_service, within
from tests.real.prometheus import Prometheus, Series, every

START = datetime(2035, 10, 12, tzinfo=UTC)  # after the API server made the objects; the clocks go back on the 28th
EARLIER = timedelta(hours=2)


@pytest.mark.parametrize(
    ("count", "days", "tick", "window", "share"),
    [
        pytest.param(8, 1, "20m", "30m", 0.1, id="a day"),
        pytest.param(200, 30, "30m", "60m", 0.01, id="a month of 200 Services", marks=pytest.mark.soak),
    ],
)
def test_a_replay_is_what_runs_did(
    control_planes: Callable[..., list[ControlPlane]],
    prometheus_server: Callable[[Sequence[Series]], Prometheus],
    tmp_path: Path,
    count: int,
    days: int,
    tick: str,
    window: str,
    share: float,
) -> None:
    end = START + timedelta(days=days)
    made = [
        calls(f"ns-{n % max(2, count // 10)}", f"app-{n}", SHAPES[n % len(SHAPES)], START - EARLIER, end, "live")
        for n in range(count)
    ]
    [plane] = control_planes(1, parts=API_ONLY, flags=["--event-ttl=5m"])
    create(plane.api, objects_of(made))
    cli = Folder(tmp_path, plane.kubeconfig("a"))
    cli.write("policies/all.yaml", policies_of(made, prometheus_server(series_of(made, end)).url, window))

    length = f"{days}d"
    said = cli.call("forecast", "policies", "--replay", length, "--now", rfc3339(end), "--tick", tick, "-o", "json")
    assert said.code == 0, said.err
    foretold = json.loads(said.out)
    past = played(cli, plane.api, made, timedelta(seconds=foretold["tickSeconds"]), end)

    told = foretold["replay"]["policies"]
    number, seconds, wakes = past.waiting(end)
    pairs = {
        "replica-hours": (hours_in(foretold["savings"]), sum(past.hours(end).values())),
        "wakes": (sum(one["wakesByTraffic"] for one in told), wakes),
        "requests that waited": (sum(one["waited"] or 0 for one in told), number),
        "seconds waited": (sum(one["waitedSeconds"] or 0 for one in told), seconds),
    }
    for what, (found, real) in pairs.items():
        print(f"{what}: {found:.1f} replayed, {real:.1f} played")
    assert pairs["replica-hours"][0] == pytest.approx(pairs["replica-hours"][1])
    assert pairs["wakes"][0] == wakes
    for found, real in pairs.values():
        assert found == pytest.approx(real, rel=share)


def played(cli: Folder, api: Api, made: Sequence[Calls], tick: timedelta, end: datetime) -> Past:
    """Apply at each tick up to `end`, and see what the API server says then."""
    past, at = Past(made), START
    while at < end:
        said = cli.call("apply", "policies", "--now", rfc3339(at), "--auto-approve", "--quiet")
        assert said.code == 0, f"{at}: {said.out}{said.err}"
        for one in api.items("/apis/apps/v1/deployments"):
            past.note(at, f"{one['metadata']['namespace']}/{one['metadata']['name']}", one["spec"]["replicas"])
        at += tick
        if (at - START) % timedelta(days=1) == timedelta():
            print(f"played until {at:%Y-%m-%d}", flush=True)
    return past


def hours_in(savings: dict[str, Any]) -> float:
    """The replica-hours that are left of those without policies."""
    return savings["withoutPolicies"]["replicaHours"] - savings["saved"]["replicaHours"]


def objects_of(made: Sequence[Calls]) -> list[dict[str, Any]]:
    spaces = sorted({one.namespace for one in made})
    both = [within(one.namespace, make(one.service)) for one in made for make in (a_deployment, a_service)]
    return [*map(a_namespace, ["reconciler", *spaces]), *both]


def policies_of(made: Sequence[Calls], prometheus: str, window: str) -> str:
    fleet = {**FLEET, "spec": {**FLEET["spec"], "clusters": [{"name": "a", "prometheus": {"url": prometheus}}]}}
    spaces = sorted({one.namespace for one in made})
    policies = [a_policy(f"nights-{one}", one, metric={"window": window}) for one in spaces]
    return "---\n".join(json.dumps(one) + "\n" for one in (fleet, *policies))


def series_of(made: Sequence[Calls], end: datetime) -> list[Series]:
    first = START - EARLIER
    scrapes = every(SCRAPE.total_seconds(), since=first.timestamp(), values=[1.0] * (int((end - first) / SCRAPE) + 1))
    return [Series("up", {"job": "proxy"}, scrapes), *(one.series(first, end) for one in made)]


def rfc3339(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
