"""Nights of real HorizontalPodAutoscalers, with external metrics of the test: one goes on at a lower minimum, another
scaled its workload to zero itself. Runs have our rights, under our admission policies.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import deployed
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, idling
from tests.real.api import Object
from tests.real.cluster import create, replicas_of, wait_until
from tests.real.control_plane import CONTROLLERS, ControlPlane
from tests.real.external_metrics import ExternalMetrics, an_external_autoscaler
from tests.real.fixtures import started
from tests.real.objects import a_deployment, a_namespace

pytestmark = pytest.mark.real

GATE = "--feature-gates=HPAScaleToZero=true"
SYNC = 1.0  # seconds between two looks of the HPA
QUICK = (f"--horizontal-pod-autoscaler-sync-period={SYNC:g}s", "--horizontal-pod-autoscaler-downscale-stabilization=1s")
NIGHT, LATER, MORNING = (f"2035-11-{day}Z" for day in ("19T21:00:00", "19T23:00:00", "20T07:10:00"))
DEV = "dev-a"
POLICIES = documents(
    fleet(["member"], "limits: {default: {perCluster: {share: 100%}, fleet: {share: 100%}}}", name="mine"),
    idling(
        'namespaces: {include: ["dev-*"]}, workloads: {kinds: [Deployment], include: [web]}',
        "idleReplicas: 1",
        "autoscalers: {hpa: LowerMinimum}",
        name="lower",
    ),
    idling('namespaces: {include: ["dev-*"]}, workloads: {kinds: [Deployment], include: [queue]}', name="nights"),
)


class Nights:
    """The control plane, its metrics, and the command line on it."""

    def __init__(self, plane: ControlPlane, values: dict[str, int], folder: Folder) -> None:
        self.plane, self.values, self.folder = plane, values, folder
        folder.write("policies/all.yaml", POLICIES)

    def apply(self, now: str) -> None:
        said = self.folder.call("apply", "policies", "--auto-approve", "--now", now)
        assert said.code == 0, said.out + said.err

    def explained(self, name: str, now: str) -> str:
        return self.folder.call("explain", f"member/{DEV}/Deployment/{name}", "--now", now).out

    def hpa(self, name: str) -> Object:
        return self.plane.api.get(f"/apis/autoscaling/v2/namespaces/{DEV}/horizontalpodautoscalers/{name}")

    def wait_for(self, name: str, replicas: int) -> None:
        wait_until(lambda: self.replicas(name) == replicas, f"{replicas} replicas of {name}")

    def replicas(self, name: str) -> int:
        return replicas_of(self.plane.api, DEV, name)

    def is_scaled_to_zero(self) -> bool:
        """Whether the HPA of queue says so: it does a moment after it scaled."""
        conditions = self.hpa("queue").get("status", {}).get("conditions") or ()
        return any((one["type"], one["status"]) == ("ScaledToZero", "True") for one in conditions)

    def looked(self) -> None:
        """Let the HPA look several times."""
        time.sleep(4 * SYNC)


@pytest.fixture
def nights(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nights]:
    folder = tmp_path_factory.mktemp("plane")
    plane = ControlPlane(folder, {CONTROLLERS}, (GATE,), controller_flags=(GATE, *QUICK))
    with started(plane), ExternalMetrics(plane, folder) as metrics:
        deployed.install(plane.api)
        create(plane.api, [a_namespace(DEV)])
        monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("member", token=deployed.token(plane))))
        yield Nights(plane, metrics.values, Folder(tmp_path))


def test_nights(nights: Nights) -> None:
    nights.values |= {"load": 1, "queue": 0}
    web = [a_deployment("web", 3), an_external_autoscaler("web", "load", 3, 10)]
    queue = [a_deployment("queue", 2), an_external_autoscaler("queue", "queue", 0, 10)]
    del queue[1]["spec"]["behavior"]  # it is absent in the morning too
    create(nights.plane.api, [*web, *queue], DEV)
    wait_until(nights.is_scaled_to_zero, "the HPA to scale to zero")
    assert nights.replicas("queue") == 0
    before = {name: nights.hpa(name)["spec"] for name in ("web", "queue")}
    assert nights.replicas("web") == 3

    nights.apply(NIGHT)
    nights.wait_for("web", 1)  # the load is low
    nights.values |= {"load": 7, "queue": 4}
    nights.wait_for("web", 7)  # and high
    nights.values["load"] = 1
    nights.wait_for("web", 1)
    nights.looked()
    assert nights.replicas("queue") == 0  # whatever its metric says
    nights.apply(LATER)
    nights.looked()
    assert (nights.replicas("web"), nights.replicas("queue")) == (1, 0)
    assert "scales it, from 1 up, before from 3 up" in nights.explained("web", LATER)
    assert "scaled it to zero, and does not scale it up until it wakes" in nights.explained("queue", LATER)

    nights.apply(MORNING)
    assert {name: nights.hpa(name)["spec"] for name in before} == before
    nights.wait_for("web", 3)
    nights.wait_for("queue", 4)
    for name in before:
        annotations = nights.hpa(name)["metadata"].get("annotations", {})
        assert not any(
            "idled" in key or "previous" in key or "owner" in key for key in annotations if "last" not in key
        )
