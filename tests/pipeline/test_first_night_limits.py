"""The first night of a policy that selects a whole Fleet: what is held back, and that what the line says lets it go."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import an_object, documents, idling, workload
from tests.pipeline.manifests import fleet as fleet_of

CLUSTERS = [f"c{number:02}" for number in range(5)]
FLEET = fleet_of(CLUSTERS, name="prod")
IDLING = idling('namespaces: {include: ["team-*"]}, workloads: {}', name="idle-dev")
SINCE_OCTOBER = 'creationTimestamp: "2026-10-01T09:00:00Z"'
NIGHT, MORNING, NEXT_NIGHT = "2026-11-25T21:00:00Z", "2026-11-26T07:00:00Z", "2026-11-26T21:00:00Z"
LINE = (
    "idle-dev: 50 workloads would go idle for the first time, limit 3 per cluster; "
    "to allow: add `limits: {workloads: 55}` to policies/idle.yaml:4"
)


def deployments(numbers: range, namespace: str = "team-a") -> str:
    found = (workload(f"web-{number}", namespace, 1, metadata=SINCE_OCTOBER) for number in numbers)
    return documents(an_object("Namespace", namespace), *found)


def pasted(folder: Folder, line: str) -> None:
    """State the limits of `line` where it says."""
    limits, file, at = re.search(r"to allow: (?:add|set) `(.*)` (?:to|in) (.*):(\d+)$", line).groups()
    lines = (folder.path / file).read_text().splitlines()
    if "limits:" in lines[int(at) - 1]:
        lines[int(at) - 1] = f"  {limits}"
    else:
        lines.insert(int(at), f"  {limits}")
    folder.write(file, "\n".join(lines) + "\n")


@pytest.fixture
def fleet(tmp_path: Path) -> Folder:
    """5 clusters with 10 Deployments of one replica each."""
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", FLEET)
    folder.write("policies/idle.yaml", IDLING)
    for cluster in CLUSTERS:
        folder.write(f"snapshot/{cluster}/all.yaml", deployments(range(10)))
    return folder


def planned(folder: Folder, now: str, *flags: str) -> tuple[int, list[str]]:
    """Return how many workloads go idle, and the reasons of what is held back."""
    made = json.loads(folder.plan(now, "-o", "json", *flags).out)
    return sum(one["verb"] == "idle" for one in made["actions"]), [one["reason"] for one in made["heldBack"]]


def test_a_whole_fleet_does_not_fall_asleep_and_what_the_line_says_lets_it(fleet: Folder) -> None:
    assert planned(fleet, NIGHT) == (0, [LINE])
    for flags in ((), ("--summary",)):
        assert [line.strip() for line in fleet.plan(NIGHT, *flags).out.splitlines() if "to allow" in line] == [LINE]
    pasted(fleet, LINE)
    assert planned(fleet, NIGHT) == (50, [])
    assert fleet.apply(NIGHT).code == 0
    fleet.apply(MORNING)
    fleet.write("policies/idle.yaml", IDLING)
    assert planned(fleet, NEXT_NIGHT) == (50, [])  # they are known: no number is needed any more


def test_the_first_night_says_the_same_line_and_warns_of_a_number_that_is_too_large(fleet: Folder) -> None:
    at = ("validate", "policies", "--snapshot", "snapshot", "--now", NIGHT)
    assert f"  held back: {LINE}" in fleet.call(*at).out.splitlines()
    fleet.write("policies/idle.yaml", f"{IDLING}  limits: {{workloads: 101}}\n")
    warning = "limits.workloads of IdlingPolicy idle-dev is 101, and it selects 50, expected at most twice as many"
    assert f"warning: policies/idle.yaml:7: {warning}\n" in fleet.call(*at).err
    fleet.write("policies/idle.yaml", f"{IDLING}  limits: {{workloads: 100}}\n")
    assert fleet.call(*at).err == ""


def test_a_tenant_is_asked_once_too(fleet: Folder) -> None:
    tenant = "  tenants: [{name: a, paths: [a/**], namespaces: [team-*]}]\n"
    fleet.write("policies/fleet.yaml", FLEET + tenant)
    fleet.write("policies/a/idle.yaml", f"{IDLING}  limits: {{workloads: 5}}\n")
    (fleet.path / "policies/idle.yaml").unlink()
    (why,) = planned(fleet, NIGHT)[1]
    assert why == (
        "a/idle-dev: 50 workloads would go idle for the first time, limit 5; to allow: set `limits: {workloads: 55}` "
        "in policies/a/idle.yaml:7 and add `limits: {workloads: 55}` to policies/fleet.yaml:7"
    )
    fleet.write("policies/a/idle.yaml", f"{IDLING}  limits: {{workloads: 55}}\n")
    fleet.write("policies/fleet.yaml", FLEET + tenant.replace("}]", ", limits: {workloads: 55}}]"))
    assert planned(fleet, NIGHT) == (50, [])
