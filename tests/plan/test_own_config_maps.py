"""Of the ConfigMaps in our own namespace only those that runs write are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from reconciler.backends.backend import Backend
from reconciler.backends.decode.objects import shape_of
from reconciler.backends.decode.values import decoded_value
from reconciler.backends.protocols import CONFIG_MAPS, OUR_CONFIG_MAPS
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.backends.snapshot.recorder import Recorder
from reconciler.decide.freeze import CONFIG_MAP as FREEZE
from reconciler.decide.placement.home_config_maps import MEMORY, REPLACED
from reconciler.decide.placement.recorded_status import STATUS_PREFIX, status_name
from reconciler.model import JOURNAL, ObservedState
from reconciler.observe.clusters import observe
from reconciler.plan.digests import state_digest
from reconciler.policy.types import PolicySet
from tests.builders import a_fleet
from tests.cases import cases
from tests.decide.downscale.world import controllers_order, namespace

OURS = [
    ("freeze", FREEZE),
    ("journal", JOURNAL),
    ("memory", MEMORY),
    ("status", status_name("shop/web")),
    ("replaced", f"{REPLACED}shop.web"),
]
THEIRS = [
    ("the cluster's certificate", "kube-root-ca.crt"),
    ("the policies it runs with", "reconciler-policies-5h2k"),
    ("called almost like ours", "my-reconciler-memory"),
]


def manifest(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "reconciler", "uid": f"uid-{name}"},
        "data": {"note": "kept"},
    }


def observed(folder: Path, *names: str) -> ObservedState:
    documents = [*(namespace(name) for name in ("kube-system", "reconciler")), *map(manifest, names)]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return observe(
        PolicySet(fleet=a_fleet()), {"east": Backend("east", SnapshotCluster(Store(folder, "east"), controllers_order))}
    )


def recorded(name: str) -> str:
    recorder = Recorder("east")
    recorder.objects(CONFIG_MAPS, [decoded_value(shape_of(CONFIG_MAPS), manifest(name))])
    return "".join(recorder.files("2026-11-20T22:00:00Z").values())


def test_every_name_is_told_by_its_beginning() -> None:
    assert sorted(OUR_CONFIG_MAPS) == sorted([FREEZE, JOURNAL, MEMORY, REPLACED, STATUS_PREFIX])


@cases("name", *OURS)
def test_ours_is_seen_and_recorded(tmp_path: Path, name: str) -> None:
    state = observed(tmp_path, name)
    assert [one.ref.name for one in state.clusters["east"].config_maps] == [name]
    assert state_digest(state) != state_digest(observed(tmp_path))
    assert name in recorded(name)


@cases("name", *THEIRS)
def test_anybody_elses_changes_no_digest_and_is_in_no_snapshot(tmp_path: Path, name: str) -> None:
    assert state_digest(observed(tmp_path, name)) == state_digest(observed(tmp_path))
    assert name not in recorded(name)
