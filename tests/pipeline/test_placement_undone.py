"""What placement scales and did not create goes back to what it was: by hand, without the policy, without the name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import (
    UNLIMITED,
    autoscaler,
    downscale,
    fleet,
    idling,
    target_ref,
    template,
    weights,
    workload,
)
from tests.pipeline.manifests import placed as federated

NOW = "2026-11-23T12:00:00Z"
NAMED, OTHERS = ("prod-1", "prod-2"), ("prod-3", "dev")
FLEET = fleet((*NAMED, *OTHERS), UNLIMITED)
DEPLOYMENT = workload(replicas=6)
NIGHTS = idling("namespaces: {include: [shop]}, workloads: {kinds: [Deployment]}", downtime='"Mon-Sun 20:00-06:00"')


def at_one(target: int, kind: str = "Deployment") -> str:
    return downscale(f"namespaces: {{include: [shop]}}, workloads: {{kinds: [{kind}]}}", target)


def placed(replicas: int, *clusters: str, name: str = "web", target: str = target_ref(), more: str = "") -> str:
    return federated(replicas, weights(*clusters), target, *more.splitlines(), name=name)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("policies/fleet.yaml", FLEET)
    made.write("policies/web.yaml", placed(8, *NAMED))
    for name in (*NAMED, *OTHERS):
        made.write(f"snapshot/{name}/web.yaml", DEPLOYMENT)
    return made


def counts(folder: Folder) -> dict[str, int]:
    return {name: folder.replicas(name, "shop", "Deployment", "web") for name in (*NAMED, *OTHERS)}


def annotations(folder: Folder, cluster: str = "prod-1") -> dict[str, str]:
    return dict(folder.objects()[cluster, "shop", "Deployment", "web"]["metadata"].get("annotations", {}))


def apply(folder: Folder, *more: str) -> None:
    """Apply until nothing is left to do: replicas that move start first, and stop in the next run."""
    for _ in range(3):
        said = folder.apply(NOW, *more)
        assert said.code == 0, said
        again = folder.plan(NOW)
        if "No changes. The clusters match the policies." in again.out:
            return
    raise AssertionError(again.out)


ALL_SIX = dict.fromkeys((*NAMED, *OTHERS), 6)
FOUR = ALL_SIX | dict.fromkeys(NAMED, 4)


def test_restore_gives_the_count_back_and_explain_names_it(folder):
    apply(folder)
    said = folder.explain("prod-1/shop/deploy/web", NOW).out
    assert "6 before placement. To restore that: reconciler restore prod-1/shop/Deployment/web" in said
    assert folder.restore(NOW, "prod-2/shop").code == 0
    assert counts(folder) == FOUR | {"prod-2": 6}
    said = folder.restore(NOW, "--policy", "other")
    assert (said.code, "web" in said.err) == (64, True)
    assert folder.restore(NOW, "--policy", "we*").code == 0
    assert counts(folder) == ALL_SIX
    assert annotations(folder) == {}


@pytest.mark.parametrize(("total", "own"), [(8, 4), (10, 5), (4, 2)])
def test_who_places_it_now_takes_the_count_of_before_over(folder, total, own):
    """A policy that gets another name, and another total at the same time."""
    apply(folder)
    folder.write("policies/web.yaml", placed(total, *NAMED, name="web2"))
    assert "release" not in folder.plan(NOW).out
    apply(folder)
    assert counts(folder) == ALL_SIX | dict.fromkeys(NAMED, own)
    assert json.loads(annotations(folder)["reconciler/placed"]) == {
        "owner": "f/FederatedReplicaSet/shop/web2",
        "previous": 6,
        "replicas": own,
    }
    (folder.path / "policies" / "web.yaml").unlink()
    apply(folder)
    assert counts(folder) == ALL_SIX


@cases(
    "mode target left",
    ("target below the placed count", "Enforce", 1, 1),
    ("target at the placed count", "Enforce", 4, 4),
    ("target above the placed count", "Enforce", 5, 5),
    ("target above the previous count", "Enforce", 9, 6),
    ("policy only observes", "Observe", 1, 6),
)
def test_a_downscale_policy_decides_how_many_of_them_it_gets_back(folder, mode, target, left):
    apply(folder)
    (folder.path / "policies" / "web.yaml").unlink()
    folder.write("policies/at-one.yaml", f"{at_one(target)}  mode: {mode}\n")
    assert "4 -> 6" not in folder.plan(NOW).out or left == 6
    for name in OTHERS:
        (folder.path / "snapshot" / name / "web.yaml").unlink()
    assert folder.apply(NOW).code == 0
    found = {name: folder.replicas(name, "shop", "Deployment", "web") for name in NAMED}
    assert found == dict.fromkeys(NAMED, left)
    assert re.search("^No changes", folder.plan(NOW).out, re.MULTILINE)


def test_what_an_autoscaler_controls_now_is_left_to_it_when_the_policy_is_removed(folder):
    apply(folder)
    folder.write("snapshot/prod-1/hpa.yaml", autoscaler())
    (folder.path / "policies" / "web.yaml").unlink()
    said = folder.apply(NOW)
    assert said.code == 0
    assert "HorizontalPodAutoscaler/web controls it" in said.out
    assert counts(folder) == ALL_SIX | {"prod-1": 4}
    assert annotations(folder) == {}


def test_what_an_autoscaler_controls_now_is_given_back_by_hand(folder):
    """The record goes with what it says, and never without it."""
    apply(folder)
    folder.write("snapshot/prod-1/hpa.yaml", autoscaler())
    assert folder.restore(NOW, "--all").code == 0
    assert counts(folder) == ALL_SIX
    assert annotations(folder) == {}


def test_what_the_policy_is_no_longer_about_gets_its_count_back_and_is_told_why(folder):
    apply(folder)
    for name in NAMED:
        folder.write(f"snapshot/{name}/web-2.yaml", workload("web-2", replicas=6, app="web"))
    folder.write("policies/web.yaml", placed(8, *NAMED, target=target_ref(name="web-2")))
    said = folder.plan(NOW).out
    assert "its policy is about Deployment/web-2 now" in said
    assert "removed" not in said
    apply(folder)
    assert counts(folder) == ALL_SIX
    assert folder.replicas("prod-1", "shop", "Deployment", "web-2") == 4


def test_what_is_idle_as_well_is_woken_by_the_first_restore_and_gets_its_count_back_by_the_second(folder):
    apply(folder)
    folder.write("policies/nights.yaml", NIGHTS)
    assert folder.apply("2026-11-23T22:00:00Z").code == 0
    assert set(counts(folder).values()) == {0}
    said = folder.restore("2026-11-23T22:30:00Z", "--all")
    assert said.code == 0
    assert counts(folder) == FOUR
    assert "2 workloads were idle and scaled down by placement before that; this is the wake alone" in said.out
    said = folder.restore("2026-11-23T22:30:00Z", "--all")
    assert said.code == 0
    assert "this is the wake alone" not in said.out
    assert counts(folder) == ALL_SIX


@cases("hold code", ("for now", (), 0), ("with --hold", ("--hold", "12h"), 6))
def test_restore_says_that_a_policy_that_is_there_lowers_it_again(folder, hold, code):
    apply(folder)
    said = folder.restore(NOW, "--all", *hold)
    assert (said.code, counts(folder)) == (code, ALL_SIX)
    assert "2 workloads were scaled down by it; the next run lowers them again while this policy says so" in said.out
    assert ("--hold does not keep that up" in said.out) is bool(hold)
    apply(folder)
    assert counts(folder) == FOUR
    folder.restore(NOW, "--all")
    folder.write("policies/web.yaml", placed(8, *NAMED, more="paused: true"))
    apply(folder)
    assert counts(folder) == ALL_SIX, "as it says: a pause keeps it"


def test_what_somebody_else_scaled_since_stays_theirs(folder):
    apply(folder)
    file = folder.path / "snapshot" / "prod-1" / "web.yaml"
    file.write_text(file.read_text().replace("replicas: 4\n", "replicas: 5\n"))
    (folder.path / "policies" / "web.yaml").unlink()
    apply(folder)
    assert counts(folder) == ALL_SIX | {"prod-1": 5}
    assert annotations(folder) == {}


def test_what_placement_raised_is_not_lowered_when_it_leaves(folder):
    folder.write("policies/web.yaml", placed(20, *NAMED))
    apply(folder)
    (folder.path / "policies" / "web.yaml").unlink()
    apply(folder)
    assert counts(folder) == ALL_SIX | dict.fromkeys(NAMED, 10)
    assert annotations(folder) == {}


def test_a_foreign_replica_set_that_was_adopted_is_given_back_and_never_deleted(folder):
    """Also with onDelete: Delete, which is for what placement created."""
    folder.write("snapshot/prod-1/web.yaml", workload(replicas=6, kind="ReplicaSet"))
    (folder.path / "snapshot" / "prod-2" / "web.yaml").unlink()
    folder.write("snapshot/prod-2/space.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
    more = "onConflict: Overwrite\nonDelete: Delete"
    folder.write("policies/web.yaml", placed(4, *NAMED, target=template(), more=more))
    apply(folder)
    kinds = {name: folder.objects()[name, "shop", "ReplicaSet", "web"] for name in NAMED}
    assert {name: one["spec"]["replicas"] for name, one in kinds.items()} == {"prod-1": 2, "prod-2": 2}
    assert "reconciler/placed" in kinds["prod-1"]["metadata"]["annotations"]
    assert "reconciler/placed" not in kinds["prod-2"]["metadata"]["annotations"]
    (folder.path / "policies" / "web.yaml").unlink()
    apply(folder)
    assert folder.replicas("prod-1", "shop", "ReplicaSet", "web") == 6
    assert ("prod-2", "shop", "ReplicaSet", "web") not in folder.objects()
