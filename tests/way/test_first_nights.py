"""The first night of a policy that selects a whole Fleet: what is held back, and that what the line says lets it go."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.way.calls import Folder

CLUSTERS = [f"c{number:02}" for number in range(15)]
FLEET = f"""\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {{name: prod}}
spec:
  home: c00
  clusters: [{", ".join(f"{{name: {name}}}" for name in CLUSTERS)}]
"""
IDLING = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-dev}
spec:
  selector: {namespaces: {include: ["team-*"]}, workloads: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Sun 20:00-07:00"]}}]
"""
DEPLOYMENT = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: "2026-10-01T09:00:00Z"}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: main, image: "web:1"}}]}}}}
"""
NIGHT, MORNING, NEXT_NIGHT = "2026-11-25T21:00:00Z", "2026-11-26T07:00:00Z", "2026-11-26T21:00:00Z"
LINE = (
    "idle-dev: 150 workloads would go idle for the first time, limit 3 per cluster; "
    "to allow: add `limits: {workloads: 165}` to policies/idle.yaml:4"
)


def deployments(numbers: range, namespace: str = "team-a") -> str:
    space = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"
    return space + "".join(DEPLOYMENT.format(name=f"web-{number}", namespace=namespace) for number in numbers)


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
    """15 clusters with 10 Deployments of one replica each."""
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
    assert planned(fleet, NIGHT) == (150, [])
    assert fleet.apply(NIGHT).code == 0
    fleet.apply(MORNING)
    fleet.write("policies/idle.yaml", IDLING)
    assert planned(fleet, NEXT_NIGHT) == (150, [])  # they are known: no number is needed any more
