"""Clusters that show the identity of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import ExitCode
from tests.isolation import fleet
from tests.isolation.fleet import AFTER, BEFORE
from tests.pipeline.calls import Folder

WAKES_ONLY = {**BEFORE, "due": 3, "asked": 4}


def with_clone(folder: Path, *, of: str, at: str) -> None:
    file = folder / "snapshot" / at / "all.yaml"
    file.write_text(file.read_text().replace(f"identity-of-{at}", f"identity-of-{of}"))


def pin(folder: Path, **identities: str) -> None:
    file = folder / "policies" / "all.yaml"
    text = file.read_text()
    for name, identity in identities.items():
        text = text.replace(f"{{name: {name}}}", f"{{name: {name}, identity: {identity}}}", 1)
    file.write_text(text)


@pytest.mark.parametrize(
    ("pins", "east", "north", "words"),
    [
        pytest.param(
            {},
            WAKES_ONLY,
            WAKES_ONLY,
            "kube-system has uid identity-of-east, as east has, expected each cluster once",
            id="not pinned: due wakes on both, nothing else",
        ),
        pytest.param(
            {"east": "identity-of-east"},
            AFTER,
            BEFORE,
            "kube-system has uid identity-of-east, which the Fleet pins for east; expected another cluster",
            id="one pinned: it wins",
        ),
        pytest.param(
            {"east": "identity-of-east", "north": "identity-of-north"},
            AFTER,
            BEFORE,
            "kube-system has uid identity-of-east, expected identity-of-north (its identity in the Fleet)",
            id="both pinned: the clone is not what the Fleet takes it for",
        ),
        pytest.param(
            {"north": "identity-of-north"},
            AFTER,
            BEFORE,
            "kube-system has uid identity-of-east, expected identity-of-north (its identity in the Fleet)",
            id="the clone pinned to another one",
        ),
    ],
)
def test_two_clusters_with_one_identity(
    pins: dict[str, str], east: dict[str, int], north: dict[str, int], words: str, tmp_path: Path
) -> None:
    folder = fleet.write(tmp_path / "world")
    with_clone(folder, of="east", at="north")
    pin(folder, **pins)
    code, applied = fleet.run(*fleet.opened(folder))
    assert code is ExitCode.PARTIAL
    assert words in applied.plan.unknown["north"]
    assert fleet.replicas(folder) == {"east": east, "north": north, "west": AFTER}
    code, again = fleet.run(*fleet.opened(folder))
    assert (code, again.outcomes) == (ExitCode.PARTIAL, ())


def test_wakes_of_clones_are_done_by_a_saved_plan_too(tmp_path: Path) -> None:
    folder = Folder(fleet.write(tmp_path / "world"))
    with_clone(folder.path, of="east", at="north")
    said = folder.plan("2026-11-20T22:00:00Z", "--out", "plan.json", "--cluster", "east", "--fail-on", "unknown")
    assert said.code == 6
    said = folder.call(
        "apply", "plan.json", "--policies", "policies", "--snapshot", "snapshot", "--now", "2026-11-20T22:00:00Z", "-q"
    )
    assert said.code == 0, said
    assert fleet.replicas(folder.path)["east"] == WAKES_ONLY


def test_one_identity_is_pinned_for_one_cluster(tmp_path: Path) -> None:
    folder = Folder(fleet.write(tmp_path / "world"))
    pin(folder.path, east="same", north="same")
    said = folder.call("validate", "policies")
    assert said.code == 3
    assert (
        "spec.clusters[1].identity: is that of east, expected the uid of another cluster's kube-system"
        in said.err + said.out
    )


def test_a_cluster_that_is_replaced_is_unknown(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "world")
    pin(folder, west="the-one-before")
    code, applied = fleet.run(*fleet.opened(folder))
    assert code is ExitCode.PARTIAL
    assert applied.plan.unknown == {
        "west": "kube-system has uid identity-of-west, expected the-one-before (its identity in the Fleet)"
    }
    assert fleet.replicas(folder) == {"east": AFTER, "north": AFTER, "west": BEFORE}
