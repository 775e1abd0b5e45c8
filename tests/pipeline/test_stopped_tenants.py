"""The broken file of one team stops that team: its workloads stay as they are, its wakes go on, all others are decided
as ever; exit code and messages say so."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.teams import FLEET, LATER, MORNING, NIGHT, SLEEP, two_teams

BROKEN = SLEEP.replace("selector:", "selektor:")
WORDS = "tenant a  the policies of tenant a cannot be used: policies/teams/a/sleep.yaml; its workloads stay as they are"


def replicas(folder: Folder, team: str) -> set[int]:
    """The replicas of the Deployments in the namespaces of `team`, on the cluster that both have."""
    return {
        found["spec"]["replicas"]
        for (cluster, namespace, kind, _), found in folder.objects().items()
        if cluster == "dev" and kind == "Deployment" and namespace.startswith(f"team-{team}-")
    }


@pytest.fixture
def folder(tmp_path) -> Folder:
    return two_teams(Folder(tmp_path))


@cases(
    "broken",
    ("a field", BROKEN),
    ("no YAML", "a: ["),
    ("no policy", "1"),
)
def test_nothing_of_a_is_idled_and_b_is_as_ever(folder, broken):
    folder.write("policies/teams/a/sleep.yaml", broken)
    said = folder.apply(NIGHT)
    assert (said.code, replicas(folder, "a"), replicas(folder, "b")) == (3, {2}, {0})
    assert WORDS in said.out
    assert "policies/teams/a/sleep.yaml:" in said.err


def test_what_is_idle_stays_idle_until_it_is_due(folder):
    assert folder.apply(NIGHT).code == 0
    assert (replicas(folder, "a"), replicas(folder, "b")) == ({0}, {0})
    folder.write("policies/teams/a/sleep.yaml", BROKEN)
    planned = folder.plan(LATER)
    assert (
        planned.code,
        "exit code 3: the policies of tenant a cannot be used; only they were stopped" in planned.err,
    ) == (3, True)
    later = folder.apply(LATER)
    assert (later.code, replicas(folder, "a"), replicas(folder, "b")) == (3, {0}, {0})
    assert "No changes." in later.out
    morning = folder.apply(MORNING)
    assert (morning.code, replicas(folder, "a"), replicas(folder, "b")) == (3, {2}, {2})


def test_a_policy_that_is_gone_with_a_broken_file_counts_as_no_removed_one(folder):
    """Of b, whose policies are really gone, the wakes are those of a removed policy: a has no say in that."""
    folder.apply(NIGHT)
    folder.write("policies/teams/a/sleep.yaml", BROKEN)
    (folder.path / "policies/teams/b/sleep.yaml").unlink()
    folder.apply(LATER)
    assert (replicas(folder, "a"), replicas(folder, "b")) == ({0}, {2})


def test_a_broken_fleet_lets_all_wakes_through(folder):
    folder.apply(NIGHT)
    folder.write("policies/fleet.yaml", FLEET.replace("team-b-*", "team-a-*"))
    morning = folder.apply(MORNING)
    assert (morning.code, replicas(folder, "a"), replicas(folder, "b")) == (3, {2}, {2})
    assert "only what is due or requested is woken" in morning.err
    again = folder.apply(MORNING)
    assert "Nothing is due or requested" in again.out


def test_a_policy_that_may_select_what_is_of_a_stopped_team_is_not_said_to_select_nothing(folder):
    only_a = SLEEP.replace("name: sleep", "name: only-a")
    only_a = only_a.replace("{workloads: {}}", '{namespaces: {include: ["team-a-*"]}, workloads: {}}')
    folder.write("policies/only-a.yaml", only_a)
    folder.write("policies/teams/a/sleep.yaml", BROKEN)
    assert "No workload is selected" not in folder.plan(NIGHT).out
    folder.write("policies/only-a.yaml", only_a.replace("team-a-", "team-c-"))
    folder.write("policies/teams/a/sleep.yaml", SLEEP)
    assert "No workload is selected by IdlingPolicy only-a (policies/only-a.yaml:1)." in folder.plan(NIGHT).out


def test_where_priorities_are_equal_the_platform_wins_and_where_the_tenant_is_higher_it_does(folder):
    awake = SLEEP.replace("name: sleep", "name: awake").replace("Mon-Fri 20:00-07:00", "Sun 03:00-04:00")
    folder.write("policies/awake.yaml", awake)
    folder.apply(NIGHT)
    assert (replicas(folder, "a"), replicas(folder, "b")) == ({2}, {2})
    folder.write("policies/teams/a/sleep.yaml", SLEEP.replace("spec:\n", "spec:\n  priority: 1\n"))
    folder.apply(LATER)
    assert (replicas(folder, "a"), replicas(folder, "b")) == ({0}, {2})
