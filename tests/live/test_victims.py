"""The pods that a plan says will go, against those that a real ReplicaSet controller deletes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, downscale, fleet
from tests.real.api import Api, Object
from tests.real.cluster import create, create_missing, pods_of, wait_for_ready, wait_until
from tests.real.objects import a_deployment, a_namespace

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

STRATEGIES = {
    "controller": ("strategy: Logarithmic",),
    "newest": ("strategy: NewestFirst",),
    "decimal": ("strategy: Logarithmic", "logarithm: {base: 10}"),
    "balanced": ("strategy: ZoneBalanced", "zoneBalanced: {topologyKey: kubernetes.io/hostname}"),
}
OURS = ("newest", "decimal", "balanced")
TARGET = 2
AT_ONCE = 12
AGES = [60, 900, 70_000, 145_000, 160_000, 172_800, 190_000, 210_000, 230_000, 250_000, 900_000, 950_000]
"""Seconds for which pods have been Ready; most share a scale, where the controller goes by their uids."""


@dataclass(frozen=True)
class Shrink:
    """One workload: what the plan says of its victims, and what became of it."""

    strategy: str
    count: int
    certain: bool
    said: frozenset[str]
    went: frozenset[str]


def policies(namespace: str) -> str:
    limits = "limits: {default: {perCluster: {share: 100%, atLeast: 1000}, fleet: {share: 100%, atLeast: 1000}}}"
    kinds = "kinds: [Deployment, ReplicaSet]"
    chosen = f"namespaces: {{include: [{namespace}]}}, workloads: {{{kinds}, matchLabels: {{order: %s}}}}"
    shrinking = (
        downscale(chosen % name, TARGET, "settleSeconds: 0", *settings, name=name)
        for name, settings in STRATEGIES.items()
    )
    return documents(fleet(["east"], limits, name="victims"), *shrinking)


def aged(draw: random.Random, pod: Object, now: datetime) -> Object:
    """A status of `pod` in which it has been Ready for some time, and has been restarted."""
    since = (now - timedelta(seconds=draw.choice(AGES))).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = "True" if draw.random() < 0.9 else "False"
    conditions = [
        {**one, "lastTransitionTime": since, "status": ready if one["type"] == "Ready" else one["status"]}
        for one in pod["status"]["conditions"]
    ]
    containers = [{**one, "restartCount": draw.choice((0, 0, 3))} for one in pod["status"]["containerStatuses"]]
    return {"status": {"conditions": conditions, "containerStatuses": containers}}


def populate(draw: random.Random, api: Api, namespace: str, round_: int) -> dict[str, str]:
    """Create workloads of all strategies, with pods of all ages; the strategy of each."""
    names = {f"w{round_}-{number}": list(STRATEGIES)[number % len(STRATEGIES)] for number in range(AT_ONCE)}
    sizes = {name: draw.randint(TARGET + 1, 8) for name in names}
    for name, strategy in names.items():
        kind = draw.choice(("Deployment", "ReplicaSet"))
        made = a_deployment(name, sizes[name], kind=kind)
        made["metadata"]["labels"] = {"order": strategy}
        create(api, [made], namespace)
        wait_for_ready(api, namespace, name, sizes[name], f"{kind.lower()}s")
    now = datetime.now(UTC)
    for name in names:
        for pod in pods_of(api, namespace, name):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
            api.patch(f"{path}/status", aged(draw, pod, now))
    return names


def shrinks(cli: Folder, api: Api, namespace: str, names: dict[str, str]) -> Iterator[Shrink]:
    """Apply once, and tell what the plan in the report said of each workload, and which pods are gone."""
    before = {name: {pod["metadata"]["name"] for pod in pods_of(api, namespace, name)} for name in names}
    wait = cli.call("apply", "policies", "--auto-approve", "-o", "json")
    report = json.loads(wait.out)
    assert wait.code == 0, report["outcomes"]
    actions = {one["object"]["name"]: one for one in report["plan"]["actions"] if one.get("victims")}
    assert set(actions) == set(names)
    for name, strategy in names.items():
        wait_until(lambda name=name: len(pods_of(api, namespace, name)) == TARGET, f"{TARGET} pods of {name}")
        left = {pod["metadata"]["name"] for pod in pods_of(api, namespace, name)}
        said = actions[name]["victims"]
        yield Shrink(
            strategy, len(before[name]), said["certain"], frozenset(said["pods"]), frozenset(before[name] - left)
        )


@pytest.fixture
def cli(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Folder:
    create_missing(control_plane.api, [a_namespace("reconciler")])
    cli = Folder(tmp_path, control_plane.kubeconfig("east"))
    cli.write("policies/all.yaml", policies(namespace))
    return cli


PART = 17
"""Rounds of one part: 51 shrinks of each strategy."""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(range(1), id="23"),
        *(
            pytest.param(
                range(part * PART, (part + 1) * PART),
                id=f"two hundred of each strategy, part {part + 1} of 4",
                marks=pytest.mark.soak,
            )
            for part in range(4)
        ),
    ],
)
def test_what_is_certain_is_what_goes(cli, control_plane, namespace, rounds):
    found: list[Shrink] = []
    for round_ in rounds:
        names = populate(random.Random(round_), control_plane.api, namespace, round_)
        found += shrinks(cli, control_plane.api, namespace, names)
    assert [one for one in found if one.certain and one.said != one.went] == []
    assert all(one.certain for one in found if one.strategy in OURS)
    certain = Counter(one.strategy for one in found if one.certain)
    print(f"certain: {dict(certain)} of {dict(Counter(one.strategy for one in found))}")
    assert sum(certain.values()) > len(found) // 2, "it says so often enough to be of use"
