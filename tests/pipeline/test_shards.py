"""--shard: the runs of all shards together do what one run of the Fleet does, whoever of them is missing meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import cases
from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import an_object, documents, idling, placed, template, workload
from tests.pipeline.manifests import fleet as fleet_of

COUNT = 3
CLUSTERS = [f"c{number:02}" for number in range(6)]
NIGHT, LATER, MORNING = "2026-11-20T23:00:00Z", "2026-11-20T23:10:00Z", "2026-11-21T08:00:00Z"

IDLING = idling("namespaces: {include: [dev]}, workloads: {kinds: [Deployment]}")
SHOP = placed(12, 'clusters: {"*": {weight: 1}}', template())
SPACES = [an_object("Namespace", name) for name in ("dev", "shop")]


def fleet(limits: str = "{perCluster: {share: 100%}, fleet: {share: 100%}}", *, identities: bool = True) -> str:
    pinned = {name: f", identity: {name}" if identities else "" for name in CLUSTERS}
    listed = (f"{{name: {name}{pinned[name]}}}" for name in CLUSTERS)
    return fleet_of(listed, f"limits: {{default: {limits}}}", home="c00", name="many")


def a_folder(path: Path, deployments: int = 2, *, placed: bool = True) -> Folder:
    folder = Folder(path)
    folder.write("policies/fleet.yaml", fleet())
    folder.write("policies/idling.yaml", IDLING)
    if placed:
        folder.write("policies/shop.yaml", SHOP)
    for name in CLUSTERS:
        found = (workload(f"app-{number}", "dev") for number in range(deployments))
        folder.write(f"snapshot/{name}/objects.yaml", documents(*SPACES, *found))
    return folder


def shards(folder: Folder, now: str, *more: str, of: range = range(COUNT)) -> Iterator[Said]:
    for index in of:
        yield folder.apply(now, "--shard", f"{index}/{COUNT}", *more)


def scales(folder: Folder) -> dict[tuple[str, str, str, str], int]:
    return {key: one["spec"]["replicas"] for key, one in folder.objects().items() if "replicas" in one.get("spec", {})}


@pytest.mark.parametrize("placed", [True, False])
def test_together_they_do_what_one_run_does(tmp_path: Path, placed: bool) -> None:
    whole, parts = a_folder(tmp_path / "whole", placed=placed), a_folder(tmp_path / "parts", placed=placed)
    for now in (NIGHT, LATER, MORNING):
        whole.applied(now)
        assert [said.code for said in shards(parts, now)] == [0] * COUNT
        assert scales(parts) == scales(whole)
        assert set(parts.objects()) == set(whole.objects())
    assert parts.plan(MORNING).out.count("No changes") == 1


def test_what_a_shard_that_died_left_is_done_by_the_next_run(tmp_path: Path) -> None:
    whole, parts = a_folder(tmp_path / "whole"), a_folder(tmp_path / "parts")
    whole.applied(NIGHT)
    list(shards(parts, NIGHT, of=range(1)))
    assert scales(parts) != scales(whole)
    for said in shards(parts, LATER):
        assert said.code == 0
    assert scales(parts) == scales(whole)


def test_another_number_of_shards_changes_nothing(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    list(shards(folder, NIGHT))
    before = folder.objects()
    for index in range(5):
        assert "No changes" in folder.apply(LATER, "--shard", f"{index}/5").out
    assert folder.objects() == before


@pytest.mark.parametrize("placed", [True, False])
def test_their_limits_together_are_never_more_than_that_of_the_fleet(tmp_path: Path, placed: bool) -> None:
    folder = a_folder(tmp_path, deployments=7, placed=placed)
    folder.write("policies/fleet.yaml", fleet("{perCluster: {share: 100%}, fleet: {share: 10%, atLeast: 0}}"))
    allowed = [
        use["allowed"]
        for index in range(COUNT)
        for use in json.loads(folder.plan(NIGHT, "--shard", f"{index}/{COUNT}", "-o", "json").out)["limits"]
        if use["unit"] == "workloads" and not use.get("cluster")
    ]
    assert len(allowed) == COUNT
    assert 0 < sum(allowed) <= 5


def test_what_exceeds_the_part_of_a_policys_number_is_held_back_with_the_number_for_all(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, deployments=2, placed=False)
    folder.write("policies/idling.yaml", f"{IDLING}  limits: {{workloads: 6}}\n")
    said = [folder.plan(NIGHT, "--shard", f"{index}/{COUNT}") for index in range(COUNT)]
    held = [one for one in said if "Held back" in one.out]
    assert held
    for one in held:
        assert f", of shard {said.index(one)}/{COUNT}" in one.out
        assert "limits: {workloads: 14}" in " ".join(one.out.split()), "12 workloads, and a tenth of headroom"


def test_a_freeze_at_home_is_for_all_shards(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    freezes = '[{"cluster": "", "namespace": "", "until": "2026-11-30T00:00:00Z", "reason": "sale", "by": "me"}]'
    config_map = an_object("ConfigMap", "freeze", "reconciler")
    folder.write("snapshot/c00/freeze.yaml", f"{config_map}data: {{freezes: '{freezes}'}}\n")
    before = scales(folder)
    for said in shards(folder, NIGHT):
        assert "sale" in said.out
    assert scales(folder) == before


def test_the_history_and_the_metrics_say_the_shard(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    list(shards(folder, NIGHT, "--metrics-file", "m.prom"))
    kept = folder.call("history", "--snapshot", "snapshot", "--now", LATER, "-o", "json").out
    changes = json.loads(kept)["changes"]
    assert {one["shard"] for one in changes} == {f"{index}/{COUNT}" for index in range(COUNT)}
    assert len({one["object"] for one in changes}) == len(changes)
    assert "shard 1/3" in folder.call("history", "--snapshot", "snapshot", "--now", LATER).out
    for index in range(COUNT):
        text = (folder.path / f"m.shard-{index}.prom").read_text()
        assert f'reconciler_last_success_timestamp_seconds{{shard="{index}"}}' in text


@cases(
    "arguments words",
    ("none of so many", ("--shard", "3/3"), '"3/3" is not a shard, expected INDEX/COUNT'),
    ("a plan to save", ("--shard", "1/3", "--out", "p"), "a saved plan is of the whole Fleet"),
    ("no Fleet", ("--shard", "1/3", "--context", "x"), "expected no --context beside it"),
)
def test_what_cannot_be_divided_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    said = a_folder(tmp_path).plan(NIGHT, *arguments)
    assert said.code == 64
    assert words in said.err


def test_clusters_that_may_be_one_are_refused(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    folder.write("policies/fleet.yaml", fleet(identities=False))
    said = folder.plan(NIGHT, "--shard", "1/3")
    assert said.code == 64
    assert "--shard: 6 of 6 clusters have no identity in policies/fleet.yaml:1: c00, c01, c02, ...;" in said.err


def test_while_the_policies_are_broken_each_shard_wakes_its_own_clusters(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, placed=False)
    list(shards(folder, NIGHT))
    folder.write("policies/idling.yaml", "kind: [")
    woken = []
    for _ in shards(folder, MORNING):
        now = scales(folder)
        woken.append({key[0] for key in now if now[key]})
    assert [len(one) for one in woken] == sorted({len(one) for one in woken}), "each some more"
    assert woken[-1] == set(CLUSTERS)
