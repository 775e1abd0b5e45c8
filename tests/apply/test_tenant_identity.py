"""As whom the changes of a plan are made, where tenants have ServiceAccounts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.apply.access import tenant_of, wakes_as_recorded
from reconciler.decide.annotations import parse_time
from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.desired_state import decide
from reconciler.observe.clusters import observe
from reconciler.policy.load import read_policies
from reconciler.policy.types import Fleet
from reconciler.world import open_world
from tests.builders import a_run
from tests.pipeline.calls import Folder, inside
from tests.pipeline.teams import MORNING, NIGHT, SLEEP, two_teams, with_accounts


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return two_teams(Folder(tmp_path), **{"fleet.yaml": with_accounts(a="reconciler-team-a")})


def decided(folder: Folder, now: str) -> tuple[Fleet, list[Decision]]:
    with inside(folder.path):
        policies, run = read_policies("policies"), a_run(parse_time(now))
        state = observe(policies, open_world(policies.fleet, "snapshot", run.now).sources)
    return policies.fleet, list(decide(policies, state, run).decisions)


def named(fleet: Fleet, decisions: list[Decision]) -> dict[tuple[str, str], str]:
    """The tenant as which the Deployments of each namespace are written, "" for the run."""
    tenants = ((one.ref, tenant_of(one, fleet)) for one in decisions if one.ref.kind == "Deployment")
    return {(ref.cluster, ref.namespace): "" if found is None else found.name for ref, found in tenants}


def test_each_is_written_as_the_tenant_whose_policy_decides(folder: Folder) -> None:
    fleet, decisions = decided(folder, NIGHT)
    assert named(fleet, decisions) == {
        ("dev", "team-a-web"): "a",
        ("dev", "team-b-web"): "",  # team b has no ServiceAccount
        ("dev", "shared-b"): "",
        ("dev", "tools"): "",
        ("prod", "team-b-web"): "",
        ("prod", "shared-b"): "",
        ("prod", "tools"): "",
    }
    of_a = next(one for one in decisions if one.ref.namespace == "team-a-web")
    assert tenant_of(of_a, None) is None


def test_an_overreach_is_written_as_the_tenant_that_reaches(folder: Folder) -> None:
    fleet, decisions = decided(folder, NIGHT)
    of_a = next(one for one in decisions if one.ref.namespace == "team-a-web")
    for namespace in ("team-b-web", "tools", "reconciler"):
        found = tenant_of(replace(of_a, ref=replace(of_a.ref, namespace=namespace)), fleet)
        assert found is not None
        assert found.name == "a"


def test_whose_a_wake_is_no_annotation_says(folder: Folder) -> None:
    """The owner in a record may be anybody's text: a policy of team a where it has nothing, and the reverse."""
    assert folder.apply(NIGHT).code == 0
    for file in (folder.path / "snapshot").rglob("*.yaml"):
        text = file.read_text()
        for owner, other in (("a/sleep", "tools"), ("tools", "x"), ("b/sleep", "a/sleep")):
            text = text.replace(f"production/IdlingPolicy/{owner}", f"production/IdlingPolicy/{other}")
        file.write_text(text)
    owners = {one["metadata"]["annotations"]["reconciler/owner"] for one in _asleep(folder)}
    assert owners == {f"production/IdlingPolicy/{name}" for name in ("x", "a/sleep")}
    fleet, decisions = decided(folder, MORNING)
    wakes = [one for one in decisions if one.phase is Phase.WAKE]
    assert named(fleet, wakes)["dev", "team-a-web"] == "a"
    assert {tenant for place, tenant in named(fleet, wakes).items() if place != ("dev", "team-a-web")} == {""}
    assert len(named(fleet, wakes)) == 7


def _asleep(folder: Folder) -> list[Any]:
    return [one for one in folder.objects().values() if one.get("spec", {}).get("replicas") == 0]


def test_only_what_the_record_says_is_woken_as_the_run(folder: Folder) -> None:
    _, idles = decided(folder, NIGHT)
    assert not any(map(wakes_as_recorded, idles))
    assert folder.apply(NIGHT).code == 0
    _, decisions = decided(folder, MORNING)
    wake = next(one for one in decisions if one.phase is Phase.WAKE and one.replicas_after is not None)
    assert (wake.replicas_after, wakes_as_recorded(wake)) == (2, True)
    for other in (
        replace(wake, replicas_after=3),
        replace(wake, phase=Phase.INCREASE),
        replace(wake, job="placement"),
    ):
        assert not wakes_as_recorded(other)


AUTOSCALER = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: team-a-web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 3, maxReplicas: 9}
"""


def test_a_wake_to_the_bounds_of_an_autoscaler_is_one_of_the_record(folder: Folder) -> None:
    assert folder.apply(NIGHT, "--allow-exceed", "a/sleep").code == 0
    file = folder.path / "snapshot" / "dev" / "bounds.yaml"
    file.write_text(AUTOSCALER)
    _, decisions = decided(folder, MORNING)
    wake = next(one for one in decisions if one.ref.namespace == "team-a-web" and one.ref.name == "web")
    assert (wake.phase, wake.replicas_after, wakes_as_recorded(wake)) == (Phase.WAKE, 3, True)


def test_a_wake_by_the_record_of_a_service_is_one_of_the_record(folder: Folder) -> None:
    folder.write("policies/teams/a/sleep.yaml", SLEEP.replace("workloads: {}", "services: {}"))
    assert folder.apply(NIGHT, "--allow-exceed", "a/sleep").code == 0
    for file in (folder.path / "snapshot" / "dev").rglob("*.yaml"):
        file.write_text(re.sub("(previous-scale: ).*", r"\1many", file.read_text()))
    _, decisions = decided(folder, MORNING)
    wakes = [one for one in decisions if one.ref.kind == "Deployment" and one.ref.namespace == "team-a-web"]
    assert {one.ref.name: (one.phase, one.replicas_after, wakes_as_recorded(one)) for one in wakes} == dict.fromkeys(
        ("web", "api"), (Phase.WAKE, 2, True)
    )
