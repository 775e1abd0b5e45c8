"""What may happen to the quickstart before a run: clusters that are lost, limits, policies in conflict."""

from __future__ import annotations

import shutil

from tests.pipeline.calls import Folder

NOW = "2026-11-20T22:00:00Z"


def nothing(_: Folder) -> None:
    """All is well."""


def limited(folder: Folder) -> None:
    fleet = folder.path / "policies" / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("{share: 10%, atLeast: 10}", "{share: 0%, atLeast: 0}"))


def shut(folder: Folder) -> None:
    fleet = folder.path / "policies" / "fleet.yaml"
    text = fleet.read_text().replace("{share: 25%, atLeast: 4}", "{share: 0%, atLeast: 0}")
    fleet.write_text(text.replace("{share: 10%, atLeast: 10}", "{share: 0%, atLeast: 0}"))


def without_metrics(folder: Folder) -> None:
    (folder.path / "snapshot" / "eu-west" / "metrics.yaml").unlink()


def lost(folder: Folder) -> None:
    shutil.rmtree(folder.path / "snapshot" / "us-east")


def all_lost(folder: Folder) -> None:
    snapshot = folder.path / "snapshot"
    for cluster in snapshot.iterdir():
        shutil.rmtree(cluster)
    (snapshot / "of-another-fleet").mkdir()


def in_conflict(folder: Folder) -> None:
    idling = folder.path / "policies" / "idling.yaml"
    first = idling.read_text().split("---")[0]
    folder.write("policies/again.yaml", first.replace("name: idle-dev", "name: again"))


def overdue(folder: Folder) -> None:
    """What was to wake at seven is still asleep at eight, on a cluster that is only read."""
    assert folder.apply(NOW).code == 0
    fleet = folder.path / "policies" / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("- name: eu-west\n", "- name: eu-west\n      state: ReadOnly\n"))


def malformed(folder: Folder) -> None:
    folder.write("policies/broken.yaml", "kind: [")
