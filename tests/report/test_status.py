"""The status of a Fleet: on one screen however many clusters there are, and all of it in JSON."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import PlacementRow, PlacementView
from reconciler.decide.desired_state import decide
from reconciler.decide.freeze import CONFIG_MAP, KEY, freezes_text
from reconciler.model import ConfigMap, ObjectRef
from reconciler.plan.build import make_plan
from reconciler.policy.types import AnyOf, Freeze
from reconciler.report.html import render_status_page
from reconciler.report.status import fleet_status, idle_lines, placement_lines, status_lines, status_values
from tests.builders import a_cluster, a_fleet, a_policy_set, a_run, a_service, a_state, a_workload
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_metric, a_policy, a_schedule, answers
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, placed, target_ref, weights, workload
from tests.report.statuses import IDLE, a_status

LOOK = ("--snapshot", "snapshot", "--now", "2026-11-20T22:30:00Z")


def test_25_clusters_are_on_one_screen_the_pressing_ones_first():
    status = a_status(25)
    lines = list(status_lines(status))
    assert len(lines) <= 24
    assert lines[0].startswith(
        "Fleet production (live, Fri 2026-11-20 23:00, times in Europe/Paris): 25 clusters, 9 idle, next wake"
    )
    assert lines[1].split() == ["CLUSTER", "STATE", "WORKLOADS", "IDLE", "NEXT", "WAKE", "PENDING", "HELD", "BACK"]
    assert lines[2].split()[:2] == ["c01", "Unknown"]
    assert any(line.startswith("and 18 more (18 Active): 36 workloads") for line in lines)
    assert any(line.startswith("and 6 more FederatedReplicaSets") for line in lines)
    assert any(line.startswith("Unknown: 1: c01: no answer") for line in lines)
    assert lines[-3].startswith("Run run-1 60m ago: 1 idle")
    held = replace(status, clusters=tuple(replace(one, held_back=2) for one in status.clusters))
    assert any(line.startswith("and 18 more ") and line.endswith(" 36 held back") for line in status_lines(held))


def test_the_values_have_every_cluster_and_every_idle_object():
    values = json.loads(json.dumps(status_values(a_status(25))))
    assert len(values["clusters"]) == 25
    assert values["clusters"][1]["state"] == "Unknown"
    assert len(values["idle"]) == 9
    assert values["idle"][0] == {
        "object": "c00/shop/Deployment/web",
        "policy": "nights",
        "since": "2026-11-20T12:00:00Z",
        "until": "2026-11-21T06:00:00Z",
        "previousScale": "3",
        "reason": "no policy selects it",
    }
    assert len(values["placements"]) == 9
    assert [run["run"] for run in values["runs"]][:2] == ["run-1", "run-2"]


def test_a_cluster_is_frozen_where_all_of_it_is():
    freezes = (
        Freeze("east", "", NIGHT + timedelta(hours=1), "a release"),
        Freeze("west", "shop", NIGHT + timedelta(hours=1), "an audit"),
    )
    ref = ObjectRef("east", "reconciler", "ConfigMap", CONFIG_MAP)
    home = a_cluster(config_maps=(ConfigMap(ref, "u", data={KEY: freezes_text(freezes)}),))
    policies, state = a_policy_set(a_fleet("east", "west")), a_state(home, a_cluster("west"))
    run = a_run(NIGHT)
    plan = make_plan(policies, state, decide(policies, state, run), run)
    status = fleet_status(policies.fleet, state, plan, [])
    assert [(one.name, one.state) for one in status.clusters] == [("east", "Frozen"), ("west", "Active")]
    (frozen,) = [line for line in status_lines(status) if line.startswith("Frozen: 2: ")]
    assert "west/shop" in frozen


@pytest.mark.parametrize(
    ("requests", "shown"),
    [
        pytest.param(0, None, id="its metric keeps it idle beyond its schedule"),
        pytest.param(5, "2026-11-21T06:00:00Z", id="a wake that is due and not done yet"),
    ],
)
def test_a_next_wake_that_has_passed_is_shown_only_where_something_wakes(requests, shown):
    nights = a_policy("nights", AnyOf((a_schedule(), a_metric())))
    web, now = a_workload(replicas=0, annotations=IDLE), MONDAY + timedelta(hours=3)
    said = answers(("web", requests), policy="nights")
    state = a_state(a_cluster(services=(a_service(),), workloads=(web,)), answers=said)
    policies, run = a_policy_set(idling=(nights,)), a_run(now)
    plan = make_plan(policies, state, decide(policies, state, run), run)
    status = fleet_status(policies.fleet, state, plan, ())
    assert [one["until"] for one in status_values(status)["idle"]] == [shown]
    assert (", next wake " in next(status_lines(status))) == bool(shown)


def test_a_federated_replica_set_is_shown_cluster_by_cluster(quickstart: Folder):
    said = quickstart.call("status", "shop/web/", *LOOK)
    heading, name, namespace, replicas, _, head, *rows = said.out.splitlines()
    assert heading == "Fleet quickstart (snapshot, Fri 2026-11-20 23:30, times in Europe/Paris)"
    assert (name.split(), namespace.split()) == (["Name:", "web"], ["Namespace:", "shop"])
    assert replicas == "Replicas:   12 desired, 7 available"
    assert head.split() == ["CLUSTER", "CURRENT", "DESIRED", "SPEC.REPLICAS", "AVAILABLE", "CAPACITY", "REASON"]
    assert [row.split()[:6] for row in rows] == [
        ["eu-west", "5", "5", "5", "5", "-"],
        ["us-east", "0", "5", "5", "0", "-"],
        ["ap-south", "4", "2", "4", "2", "2"],
    ]


def test_what_is_left_to_others_is_not_counted_as_available():
    theirs = PlacementRow("west", desired=None, spec_replicas=3, current=3, running=3)
    view = PlacementView("shop/web", 6, (PlacementRow("east", 6, 6, 6, 6), theirs))
    _, _, _, replicas, *_ = placement_lines(view, a_status(2).plan)
    assert replicas == "Replicas:   6 desired, 6 available"


def test_what_a_run_idled_and_the_run_itself_are_told(quickstart: Folder):
    quickstart.apply("2026-11-20T22:00:00Z", "--policy", "idle-dev", "--run-id", "the-night")
    said = quickstart.call("status", *LOOK)
    assert said.out.splitlines()[-1] == "Run the-night 30m ago: 1 idle, 1 wake"
    idle = quickstart.call("status", "eu-west", *LOOK).out.splitlines()
    assert idle[0] == "Fleet quickstart (snapshot, Fri 2026-11-20 23:30, times in Europe/Paris): 1 idle"
    assert idle[1].split() == ["IDLE", "POLICY", "SINCE", "UNTIL", "PREVIOUS", "SCALE"]
    assert idle[2].startswith("eu-west/dev-a/Deployment/api  idle-dev  Fri 2026-11-20 23:00 (30m)  Mon 2026-11-23")
    assert quickstart.call("status", "ap-south", *LOOK).out == "Nothing is idle below ap-south.\n"
    assert quickstart.call("status", "eu-west/nope", *LOOK).code == 64
    (quickstart.path / "snapshot/ap-south").rename(quickstart.path / "ap-south")
    assert quickstart.call("status", "ap-south", *LOOK).out == (
        "Nothing that could be read is idle below ap-south: no folder snapshot/ap-south in the snapshot\n"
    )
    before = (*LOOK[:3], "2026-11-20T21:59:50Z")  # as a clock that is behind that of the run
    assert quickstart.call("status", *before).out.splitlines()[-1] == "Run the-night in 10s: 1 idle, 1 wake"
    assert "  Fri 2026-11-20 23:00 (in 10s)  " in quickstart.call("status", "eu-west", *before).out
    explained = quickstart.call("explain", "eu-west/dev-a/Deployment/api", *before).out
    assert "\nIdle since Fri 2026-11-20 23:00 (in 10s), previous scale 3." in explained


OC_IDLE = {
    "idling.alpha.openshift.io/idled-at": "2026-11-20T12:00:00Z",
    "idling.alpha.openshift.io/previous-scale": "3",
}
LISTED = {
    "idling.alpha.openshift.io/idled-at": "2026-11-20T12:00:00Z",
    "idling.alpha.openshift.io/unidle-targets": '[{"kind":"Deployment","name":"web","group":"apps","replicas":3}]',
}


@pytest.mark.parametrize("policies", [(), (a_policy(),)], ids=["no policy", "a policy"])
def test_what_others_idled_is_listed(policies):
    """By `oc idle` on the workload and on its Service, and by another Fleet."""
    theirs = {**IDLE, "reconciler/owner": "other/IdlingPolicy/nights"}
    observed = a_cluster(
        services=(a_service(annotations=LISTED),),
        workloads=(
            a_workload("web", replicas=0, annotations=OC_IDLE),
            a_workload("api", replicas=0, annotations=theirs),
            a_workload("up"),
            a_workload("by-hand", annotations=OC_IDLE),  # scaled up since, with the marks left
        ),
    )
    fleet, state, run = a_fleet(), a_state(observed), a_run(NIGHT)
    policy_set = a_policy_set(fleet, idling=policies)
    plan = make_plan(policy_set, state, decide(policy_set, state, run), run)
    status = fleet_status(fleet, state, plan, ())
    found = {(str(one.ref), one.by, one.previous) for one in status.foreign}
    assert found == {
        ("east/shop/Service/web", "somebody else", ""),
        ("east/shop/Deployment/web", "somebody else", "3"),
        ("east/shop/Deployment/api", "Fleet other", "3"),
    }
    assert {one.since.hour for one in status.foreign} == {12}
    (line,) = (line for line in status_lines(status) if line.startswith("Idled by others"))
    assert line.startswith("Idled by others: 3: east/shop/Deployment/api (Fleet other); ")
    assert "<li>east/shop/Deployment/api (Fleet other)</li>" in render_status_page(status)
    (first, *_) = status_values(status)["idledByOthers"]
    assert first == {
        "object": "east/shop/Deployment/api",
        "by": "Fleet other",
        "since": "2026-11-20T12:00:00Z",
        "previousScale": "3",
    }
    lines = list(idle_lines(status.foreign, plan))
    assert lines[0].endswith("0 idle, 3 idled by others")
    assert any("(Fleet other)" in line for line in lines)


def test_the_status_that_is_held_back_with_a_decrease_is_no_change(tmp_path):
    folder = Folder(tmp_path)
    federated = placed(2, weights("east"), target_ref(), "limits: {replicas: 1}")
    folder.write("policies/all.yaml", documents(fleet(["east"]), federated))
    folder.write("snapshot/east/web.yaml", workload(replicas=9))
    values = json.loads(folder.call("status", *LOOK, "-o", "json").out)
    assert ([one["heldBack"] for one in values["clusters"]], values["heldBack"][0]["changes"]) == ([1], 1)
