"""What a run leaves alone is an Event of the Fleet, whose count is raised by each run, and a metric."""

from __future__ import annotations

from typing import Any

import yaml

from tests.cases import cases
from tests.cli.situations import in_conflict, limited, lost
from tests.pipeline.calls import Folder

NOW, LATER = "2026-11-20T22:00:00Z", "2026-11-20T22:10:00Z"
METRICS = {
    "HeldBack": 'reconciler_held_back_workloads{cluster="eu-west",policy="idle-runners"} 2',
    "ClusterUnknown": "reconciler_unknown_clusters 1",
    "PolicyConflict": "reconciler_policy_conflicts 1",
}


def fleet_events(folder: Folder) -> dict[str, dict[str, Any]]:
    """Return the Events about the Fleet by their reason."""
    found: dict[str, dict[str, Any]] = {}
    for file in (folder.path / "snapshot").rglob("*.yaml"):
        for one in yaml.safe_load_all(file.read_text()):
            if one and one.get("kind") == "Event" and one["involvedObject"]["kind"] == "Fleet":
                assert one["reason"] not in found
                found[one["reason"]] = one
    return found


@cases(
    "before reason words",
    ("held back by a limit", limited, "HeldBack", "limit"),
    ("cluster unknown", lost, "ClusterUnknown", "us-east: "),
    ("policies in conflict", in_conflict, "PolicyConflict", "again and idle-dev have the same priority"),
)
def test_what_is_left_alone_is_told(quickstart: Folder, before: Any, reason: str, words: str) -> None:
    before(quickstart)
    assert quickstart.apply(NOW, "--fail-on", "", "--metrics-file", "metrics.prom").code == 0
    [event] = fleet_events(quickstart).values()
    assert (event["reason"], event["type"], event["count"]) == (reason, "Warning", 1)
    assert event["metadata"]["namespace"] == event["involvedObject"]["namespace"] == "reconciler"
    assert words in event["message"]
    text = (quickstart.path / "metrics.prom").read_text()
    assert METRICS[reason] in text.splitlines()
    assert [one for one in METRICS if METRICS[one] in text.splitlines()] == [reason]
    assert quickstart.apply(LATER, "--fail-on", "").code == 0
    assert fleet_events(quickstart)[reason]["count"] == 2


def test_where_all_is_well_nothing_is_told(quickstart: Folder) -> None:
    assert quickstart.apply(NOW).code == 0
    assert fleet_events(quickstart) == {}


def test_what_a_policy_only_observes_is_never_held_back(quickstart: Folder) -> None:
    limited(quickstart)
    for file in ("idling.yaml", "downscale.yaml"):
        path = quickstart.path / "policies" / file
        path.write_text(path.read_text().replace("spec:\n  selector:", "spec:\n  mode: Observe\n  selector:"))
    assert quickstart.apply(NOW, "--fail-on", "", "--metrics-file", "metrics.prom").code == 0
    assert "HeldBack" not in fleet_events(quickstart)
    assert "reconciler_held_back_workloads{" not in (quickstart.path / "metrics.prom").read_text()
