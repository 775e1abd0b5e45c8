"""What an earlier form of this software (commit 807faf3) wrote to a real API server still finds the way back.

tests/data/written-by-807faf3 holds the objects of tests/live/everything.py as that API server listed them after one
apply on a Friday night, field managers included.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import cases
from tests.live import everything
from tests.pipeline.calls import Folder

PREVIOUS_SCALE = "idling.kubernetes.io/previous-scale"
SAME_NIGHT = "2035-11-23T22:01:00Z"
MONDAY = "2035-11-26T06:10:00Z"
AWAKE = {
    ("east", "dev", "Deployment", "api"): {"replicas": 3},
    ("east", "dev", "StatefulSet", "api-store"): {"replicas": 2},
    ("east", "ci", "CloneSet", "builder"): {"replicas": 4},
    ("east", "ci", "StatefulSet", "runner"): {"replicas": 2},
    ("east", "ci", "CronJob", "nightly"): {"suspend": False},
    ("east", "floor", "Deployment", "slow"): {"replicas": 4},
    ("east", "floor", "HorizontalPodAutoscaler", "slow"): {"minReplicas": 2, "maxReplicas": 10},
    ("west", "dev", "Deployment", "api"): {"replicas": 2},
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    recorded = Path(__file__).parents[1] / "data" / "written-by-807faf3"
    Folder.copied(recorded, tmp_path / "snapshot")
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", everything.policies())
    return folder


def specs(folder: Folder) -> dict[tuple[str, str, str, str], dict[str, object]]:
    found = folder.objects()
    return {key: {name: found[key]["spec"].get(name) for name in spec} for key, spec in AWAKE.items()}


def test_what_sleeps_stays_asleep_for_the_same_night(folder: Folder) -> None:
    before = specs(folder)
    assert not any(before[key] == spec for key, spec in AWAKE.items())
    said = folder.apply(SAME_NIGHT)
    assert said.code == 0, said
    assert specs(folder) == before


@cases(
    "words",
    ("it is due", ("apply", "policies")),
    ("all is restored", ("restore", "--all")),
)
def test_everything_wakes_with_the_count_it_had(folder: Folder, words: tuple[str, ...]) -> None:
    said = folder.call(*words, "--snapshot", "snapshot", "--now", MONDAY, "--auto-approve", "--quiet")
    assert said.code == 0, said
    assert specs(folder) == AWAKE
    objects = folder.objects()
    annotations = {key: objects[key]["metadata"].get("annotations", {}) for key in AWAKE}
    assert not [key for key, found in annotations.items() if PREVIOUS_SCALE in found or "reconciler/idled-to" in found]
