"""The first hour with the defaults: what `validate` tells a person before the first night."""

from __future__ import annotations

import json

import pytest

from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import UNLIMITED, documents, fleet, idling, placed, template, weights, workload
from tests.pipeline.teams import MORNING, SLEEP, two_teams


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


def test_what_a_run_before_the_night_creates_is_selected_and_one_of_all_workloads(tmp_path):
    folder = Folder(tmp_path)
    shop = placed(4, weights("east", "west"), template())
    noon = idling("namespaces: {include: [a]}, workloads: {}", downtime='"12:00-13:00"', name="noon")
    night = idling("namespaces: {include: [shop]}, workloads: {kinds: [ReplicaSet]}")
    folder.write("policies/all.yaml", documents(fleet(["east", "west"], UNLIMITED), shop, noon, night))
    folder.write("snapshot/east/all.yaml", workload("x", namespace="a"))
    folder.write("snapshot/west/all.yaml", workload("y", namespace="b"))
    said = folder.call("validate", "--snapshot", "snapshot", "--now", "2026-11-20T12:00:00Z")
    assert said.out.splitlines()[1:] == [
        "First night (Fri 2026-11-20 12:00, times in UTC): 3 of 4 workloads go idle",
        "  IdlingPolicy nights (policies/all.yaml:25): 2 workloads",
        "  IdlingPolicy noon (policies/all.yaml:18): 1 workload",
    ]
    assert "selects no workload" not in said.err


def test_what_a_run_before_the_night_creates_is_selected_by_a_policy_that_only_observes(tmp_path):
    folder = Folder(tmp_path)
    shop = placed(4, weights("east", "west"), template())
    watch = idling("namespaces: {include: [shop]}, workloads: {kinds: [ReplicaSet]}", "mode: Observe")
    folder.write("policies/all.yaml", documents(fleet(["east", "west"], UNLIMITED), shop, watch))
    for cluster in ("east", "west"):
        folder.write(f"snapshot/{cluster}/all.yaml", workload("x", namespace="a"))
    said = folder.call("validate", "--snapshot", "snapshot", "--now", "2026-11-20T12:00:00Z")
    assert (said.code, "selects no workload" in said.err) == (0, False)


def test_without_a_schedule_that_begins_nothing_goes_idle(folder):
    for name in ("platform", "teams/a/sleep", "teams/b/sleep"):
        folder.write(f"policies/{name}.yaml", SLEEP.replace("Mon-Fri 20:00-07:00", "2030-01-01T00:00/2030-01-02T00:00"))
    said = validated(folder)
    assert said.out.splitlines()[1:] == ["First night: nothing goes idle in 8 days"]


def test_without_a_snapshot_no_cluster_is_read(folder):
    said = folder.call("validate", "policies")
    assert said.out.splitlines() == ["policies: valid, 1 Fleet, 3 IdlingPolicy, 1 Calendar"]
