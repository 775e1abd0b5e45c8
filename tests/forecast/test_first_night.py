"""The first hour with the defaults: what a person reads before the first night, on the Online Boutique in twelve
clusters, and that the limits stop a mistake and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.reach import first_night, night_lines
from reconciler.forecast.simulation import Simulation, Step
from reconciler.policy.types import PolicySet
from tests.forecast.random_fleets import document, first_of, policy_set
from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import documents, fleet, idling, workload
from tests.pipeline.teams import MORNING, SLEEP, two_teams

FRIDAY_NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DEV = [f"dev-{number}" for number in range(1, 4)]
OTHERS = [f"prod-{number}" for number in range(1, 10)]
KINDS = ("Deployment", "StatefulSet", "Service")
BOUTIQUE, GUESTBOOK, CASSANDRA = (
    "online-boutique/kubernetes-manifests.yaml",
    "guestbook/guestbook-all-in-one.yaml",
    "cassandra/cassandra-statefulset.yaml",
)


def manifests(shared: Path, file: str, namespace: str) -> Iterator[dict[str, Any]]:
    for one in yaml.safe_load_all((shared / "real-input" / file).read_text()):
        if one and one["kind"] in KINDS:
            yield {**one, "metadata": {**one["metadata"], "namespace": namespace}}


@dataclass(frozen=True)
class FirstHour:
    """Twelve clusters with the same in the namespace shop, of which `idle` go idle; three have more beside it."""

    opened: Opened
    idle: int

    def policies(self, clusters: list[str]) -> PolicySet:
        """The first policy of a person: those namespaces sleep at night, and as much is new as three clusters have."""
        policy = {
            "selector": {
                "clusters": {"include": clusters},
                "namespaces": {"include": ["shop"]},
                "services": {},
            },
            "idleWhen": [{"schedule": {"timeZone": "UTC", "downtime": ["Mon-Fri 20:00-24:00"]}}],
            "limits": {"workloads": 3 * self.idle},
        }
        fleet = {"home": "dev-1", "clusters": [{"name": name} for name in (*DEV, *OTHERS)]}
        made = [document("Fleet", "first", fleet), document("IdlingPolicy", "nights", policy)]
        return policy_set(made)

    def simulation(self, clusters: list[str], opened: Opened | None = None) -> Simulation:
        return Simulation(self.policies(clusters), opened or self.opened)


@pytest.fixture(scope="module")
def hour(shared: Path) -> FirstHour:
    shop = list(manifests(shared, BOUTIQUE, "shop"))
    more = [*manifests(shared, BOUTIQUE, "staging"), *manifests(shared, GUESTBOOK, "guestbook")]
    found = {name: [*shop, *more, *manifests(shared, CASSANDRA, "data")] for name in DEV} | dict.fromkeys(OTHERS, shop)
    made = {name: MemoryCluster.of_manifests(name, inside, first_of) for name, inside in found.items()}
    return FirstHour(Opened({name: Backend(name, cluster=cluster) for name, cluster in made.items()}), 11)


def idled(step: Step) -> set[str]:
    return {action.ref.cluster for action in step.plan.actions if action.decision.idles}


def held(step: Step) -> set[str]:
    return {one.ref.cluster for found in step.plan.held_back for one in found.decisions if one.idles}


def test_three_clusters_sleep_with_the_defaults_and_one_limit_and_again_the_next_night(hour):
    steps = list(hour.simulation(["dev-*"]).play(FRIDAY_NOON, FRIDAY_NOON + timedelta(days=3, hours=10)))
    evenings = {step.at.isoformat()[:13]: idled(step) for step in steps if idled(step)}
    assert evenings == {"2026-11-20T20": set(DEV), "2026-11-23T20": set(DEV)}
    counts = [len([one for one in step.plan.actions if one.decision.idles]) for step in steps if idled(step)]
    assert counts == [3 * hour.idle] * 2
    assert {cluster for step in steps for cluster in held(step)} == set()


def test_all_twelve_selected_by_mistake_are_held_back_in_one_line(hour):
    night = first_night(hour.simulation(["*"]), hour.policies(["*"]), FRIDAY_NOON)
    assert night.idle == {}
    number = 12 * hour.idle
    assert [line for line in night_lines(night) if "held back" in line] == [
        f"  held back: nights: {number} workloads would go idle for the first time, limit {3 * hour.idle}; "
        f"to allow: set `limits: {{workloads: {math.ceil(1.1 * number)}}}` in policies/all.yaml:4"
    ]


def test_what_is_known_sleeps_although_a_mistake_is_held_back(hour):
    played = hour.simulation(["dev-*"])
    evening = next(step for step in played.play(FRIDAY_NOON, FRIDAY_NOON + timedelta(days=1)) if idled(step))
    left = Opened({name: Backend(name, cluster=cluster) for name, cluster in played.clusters.items()})
    later = hour.simulation(["*"], left).play(
        evening.at + timedelta(hours=1), FRIDAY_NOON + timedelta(days=3, hours=10)
    )
    steps = list(later)
    assert {step.at.isoformat()[:13]: idled(step) for step in steps if idled(step)} == {"2026-11-23T20": set(DEV)}
    assert {cluster for step in steps for cluster in held(step)} == set(OTHERS)


@pytest.fixture
def folder(tmp_path) -> Folder:
    return two_teams(Folder(tmp_path))


def validated(folder: Folder, *more: str) -> Said:
    return folder.call("validate", "policies", "--snapshot", "snapshot", "--now", MORNING, *more)


def test_validate_tells_the_first_night_where_a_snapshot_is_at_hand(folder):
    said = validated(folder)
    assert said.code == 0
    assert said.out.splitlines() == [
        "policies: valid, 1 Fleet, 3 IdlingPolicy, 1 Calendar",
        "First night (Mon 2026-11-23 20:00, times in UTC): 14 of 16 workloads go idle",
        "  IdlingPolicy a/sleep (policies/teams/a/sleep.yaml:1): 2 workloads",
        "  IdlingPolicy b/sleep (policies/teams/b/sleep.yaml:1): 8 workloads",
        "  IdlingPolicy tools (policies/platform.yaml:1): 4 workloads",
    ]


def test_what_is_idle_already_does_not_count_as_going_idle_and_is_told(folder):
    """A request wakes one of them for minAwake; that it goes idle again in the same night is nothing new."""
    two, night = ("-n", "team-a-*", "--auto-approve"), "2026-11-23T21:00:00Z"
    assert folder.call("apply", "policies", "--snapshot", "snapshot", "--now", night, *two).code == 0
    idled = json.loads(folder.call("status", "--snapshot", "snapshot", "--now", night, "-o", "json").out)["idle"]
    (*_, manifests) = sorted((folder.path / "snapshot" / "dev").glob("team-a-*-deployment-*.yaml"))
    before, cause, after = manifests.read_text().partition("    reconciler/cause:")
    manifests.write_text(f'{before}    reconciler/wake-requested-at: "2026-11-23T21:29:00Z"\n{cause}{after}')
    at = ("validate", "policies", "--snapshot", "snapshot", "--now", "2026-11-23T21:30:00Z")
    assert folder.call(*at).out.splitlines()[1:] == [
        f"First night (Mon 2026-11-23 21:30, times in UTC): 12 of 16 workloads go idle, {len(idled)} are idle already",
        "  IdlingPolicy b/sleep (policies/teams/b/sleep.yaml:1): 8 workloads",
        "  IdlingPolicy tools (policies/platform.yaml:1): 4 workloads",
    ]
    told = json.loads(folder.call(*at, "-o", "json").out)["firstNight"]
    assert (told["idleAlready"], sum(told["idle"].values()), len(idled)) == (2, 12, 2)


def test_what_limits_will_hold_back_is_told_with_both_places(folder):
    limits = "spec:\n  limits: {replicas: 2}\n"
    folder.write("policies/teams/b/sleep.yaml", SLEEP.replace("spec:\n", limits))
    said = validated(folder)
    assert (
        "  held back: b/sleep: 16 replicas would be removed, limit 2; "
        "to allow: set `limits: {replicas: 18}` in policies/teams/b/sleep.yaml:5\n" in said.out
    )
    night = json.loads(validated(folder, "-o", "json").out)["firstNight"]
    assert (night["start"], night["idle"]["IdlingPolicy a/sleep"], len(night["heldBack"])) == (
        "2026-11-23T20:00:00Z",
        2,
        1,
    )


@pytest.mark.parametrize(("number", "warns"), [(16, False), (17, True)])
def test_validate_warns_of_a_number_that_is_more_than_twice_what_is_selected(folder, number, warns):
    limits = f"spec:\n  limits: {{workloads: {number}}}\n"
    folder.write("policies/teams/b/sleep.yaml", SLEEP.replace("spec:\n", limits))
    said = validated(folder)
    words = f"limits.workloads of IdlingPolicy b/sleep is {number}, and it selects 8, expected at most twice as many"
    assert (f"warning: policies/teams/b/sleep.yaml:5: {words}\n" in said.err) is warns


def test_what_is_held_back_in_several_runs_of_the_night_is_one_line(tmp_path):
    """One of the three is kept awake for another hour."""
    folder = Folder(tmp_path)
    default = "limits: {default: {perCluster: {share: 1%, atLeast: 1}}}"
    folder.write("policies/all.yaml", documents(fleet(["east"], default), idling("workloads: {}", "minAge: 0s")))
    young = workload("c", metadata='annotations: {reconciler/awake-until: "2026-11-21T21:00:00Z"}')
    folder.write("snapshot/east/all.yaml", documents(workload("a"), workload("b"), young))
    said = folder.call("validate", "--snapshot", "snapshot", "--now", MORNING)
    (line,) = (line for line in said.out.splitlines() if "held back" in line)
    assert line.startswith("  held back: nights: 3 workloads would go idle for the first time, limit 1 in east; ")


def test_validate_warns_of_services_that_wait_for_signals_no_activator_can_give(folder):
    waits = SLEEP.replace("workloads: {}", "services: {}").replace("spec:\n", "spec:\n  wake: OnSignal\n")
    folder.write("policies/teams/b/sleep.yaml", waits)
    assert "nothing signals" not in validated(folder).err
    file = folder.path / "snapshot" / "dev" / "all.yaml"
    file.write_text(file.read_text().replace("  selector: {app: web}\n", "  selector: {app: web}\n  clusterIP: None\n"))
    why = "an activator cannot hold its connections: it is headless, so clients look its pods up themselves"
    warning = f"dev: nothing signals shared-b/web, team-b-web/web (wake: OnSignal): {why}"
    assert f"warning: {warning}" in validated(folder).err
    assert json.loads(validated(folder, "-o", "json").out)["firstNight"]["warnings"] == [warning]


CRON = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: team-b-web}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never}}}}}
"""


def test_validate_warns_of_cron_jobs_that_may_start_a_missed_run(folder):
    folder.write("snapshot/dev/cron.yaml", CRON)
    said = validated(folder)
    words = "nightly has no startingDeadlineSeconds: a missed run may start at once when it wakes"
    assert f"warning: dev/team-b-web/CronJob/{words}" in said.err


def test_validate_names_the_policies_that_select_nothing_of_the_snapshot(folder):
    folder.write("policies/teams/b/sleep.yaml", SLEEP.replace("workloads: {}", "workloads: {matchLabels: {app: wbe}}"))
    said = validated(folder)
    assert said.code == 0
    assert said.err.endswith(": IdlingPolicy b/sleep selects no workload of the snapshot\n")
    assert said.err.count("selects no workload") == 1


def test_without_a_schedule_that_begins_nothing_goes_idle(folder):
    for name in ("platform", "teams/a/sleep", "teams/b/sleep"):
        folder.write(f"policies/{name}.yaml", SLEEP.replace("Mon-Fri 20:00-07:00", "2030-01-01T00:00/2030-01-02T00:00"))
    said = validated(folder)
    assert said.out.splitlines()[1:] == ["First night: nothing goes idle in 8 days"]


def test_without_a_snapshot_no_cluster_is_read(folder):
    said = folder.call("validate", "policies")
    assert said.out.splitlines() == ["policies: valid, 1 Fleet, 3 IdlingPolicy, 1 Calendar"]
