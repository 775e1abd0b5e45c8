"""What the verbs say and do of an autoscaler at a lower minimum, and of one that keeps its workload at zero."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.pipeline.calls import Folder
from tests.scenarios.running import HERE as SCENARIOS

NIGHT, LATER, MORNING = "2026-11-20T22:00:00Z", "2026-11-20T22:10:00Z", "2026-11-21T06:10:00Z"
WEB, QUEUE = ("east", "dev-1", "HorizontalPodAutoscaler", "web"), ("east", "dev-1", "HorizontalPodAutoscaler", "queue")
AT = ("--policies", "policies", "--snapshot", "snapshot", "--now")


@pytest.fixture
def asleep(tmp_path: Path) -> Folder:
    """The clusters of the scenario, after its night began."""
    folder = Folder(tmp_path)
    scenario = SCENARIOS / "autoscalers-go-on-at-night"
    Folder.copied(scenario / "policies", tmp_path / "policies")
    Folder.copied(scenario / "before", tmp_path / "snapshot")
    folder.applied(NIGHT)
    return folder


def is_as_before(folder: Folder) -> bool:
    found = folder.objects()
    before = {
        (*key[:2], one["kind"], one["metadata"]["name"]): one["spec"]
        for key in (("east", "dev-1"),)
        for one in yaml.safe_load_all(
            (SCENARIOS / "autoscalers-go-on-at-night" / "before" / "east" / "dev.yaml").read_text()
        )
    }
    return all(found[key]["spec"] == spec for key, spec in before.items())


def has_record(folder: Folder) -> bool:
    kept = ("awake-since", "scale-time", "last-idled")
    texts = [key for one in (WEB, QUEUE) for key in folder.objects()[one]["metadata"].get("annotations", {})]
    return any(not key.endswith(kept) for key in texts)


@pytest.mark.parametrize("names", [("east/dev-1/Deployment/web", "east/dev-1/Deployment/queue"), ("east/dev-1",)])
def test_woken_by_hand(asleep, names):
    for name in names:
        said = asleep.call("wake", name, *AT, LATER)
        assert said.code == 0, said
    assert is_as_before(asleep)


def test_restored(asleep):
    assert asleep.restore(LATER, "--all").code == 0
    assert is_as_before(asleep)
    assert not has_record(asleep)


def test_said_by_explain_and_status(asleep):
    said = asleep.explain("east/dev-1/Deployment/web", LATER).out
    assert "keeps its lower minimum" in said
    assert "HorizontalPodAutoscaler/web scales it, from 1 up, before from 2 up" in said
    said = asleep.explain("east/dev-1/Deployment/queue", LATER).out
    assert "HorizontalPodAutoscaler/queue scaled it to zero, and does not scale it up until it wakes" in said
    said = asleep.call("status", *AT[2:], LATER, "-o", "json")
    assert '"object": "east/dev-1/HorizontalPodAutoscaler/web"' in said.out
    assert "nothing of its kind is read" not in said.err


def test_said_by_history(asleep):
    said = asleep.call("history", *AT[2:4], "--now", LATER).out
    assert "2 -> 1     idle    east/dev-1/HorizontalPodAutoscaler/web" in said
    assert "on -> off  idle    east/dev-1/HorizontalPodAutoscaler/queue" in said


def test_forecast_and_savings(asleep):
    said = asleep.call("forecast", "policies", *AT[2:], MORNING, "--days", "7").out
    assert "0 (0 %) replica-hours." in said
    assert "1 autoscaler at a lower minimum: at most the difference of the minimums is saved" in said
    asleep.applied(MORNING)
    said = asleep.call("savings", "policies", *AT[2:], MORNING, "--since", "1d", "-o", "json")
    assert json.loads(said.out)["all"] == {"workloads": 2, "replicaHours": 0, "cpuHours": 0, "memoryGiBHours": 0}
