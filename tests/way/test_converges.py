"""Any mix of policies over any small fleet comes to rest: after a few runs a plan is empty, and stays so."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import yaml

from tests.way.calls import Folder

pytestmark = pytest.mark.laws

NIGHT = "2026-11-20T22:00:00Z"
MORNING = "2026-11-23T06:30:00Z"
CLUSTERS = ("a", "b", "c")
RUNS = 8


def a_workload(kind: str, name: str, replicas: int | None, **annotations: str) -> dict:
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": f"registry.example/{name}:1"}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": name, "namespace": "dev", "labels": {"app": name}}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def a_service(name: str, app: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "dev"},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
    }


def an_autoscaler(name: str, chance: random.Random) -> dict:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "dev"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": chance.choice([0, 1, 2]),
            "maxReplicas": 9,
        },
    }


def a_snapshot(chance: random.Random) -> dict[str, list[dict]]:
    snapshot: dict[str, list[dict]] = {}
    for cluster in CLUSTERS:
        objects: list[dict] = []
        for name in ("web", "api", "job"):
            if chance.random() < 0.75:
                opt_out = {"reconciler/exclude": "true"} if chance.random() < 0.1 else {}
                kind = chance.choice(["Deployment", "Deployment", "StatefulSet"]) if name == "job" else "Deployment"
                objects.append(a_workload(kind, name, chance.choice([None, 0, 1, 2, 5]), **opt_out))
                if kind == "Deployment" and chance.random() < 0.25:
                    objects.append(an_autoscaler(name, chance))
        objects += [a_service(name, "web") for name in ("web", "front") if chance.random() < 0.7]
        snapshot[cluster] = objects or [a_service("alone", "none")]
    return snapshot


def policies(chance: random.Random) -> list[dict]:
    def document(kind: str, name: str, spec: dict, **metadata: str) -> dict:
        return {
            "apiVersion": "reconciler/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }

    states = chance.choices(
        ["Active", "Frozen", "ReadOnly", "Draining", "Leaving"], weights=[8, 1, 1, 1, 1], k=len(CLUSTERS)
    )
    clusters = [{"name": name, "state": state} for name, state in zip(CLUSTERS, states, strict=True)]
    found = [
        document(
            "Fleet",
            "mix",
            {
                "home": "a",
                "clusters": clusters,
                "limits": {
                    "idledWorkloads": {"share": "100%", "atLeast": 100},
                    "removedReplicas": {"share": "100%", "atLeast": 1000},
                    "ceiling": {"share": "100%"},
                },
            },
        )
    ]
    if chance.random() < 0.8:
        selector = {"namespaces": {"include": ["dev"]}, "services": {}}
        if chance.random() < 0.5:
            selector["workloads"] = {"kinds": ["Deployment", "StatefulSet"]}
        schedule = {"timeZone": "Europe/Paris", "downtime": ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]}
        spec = {
            "selector": selector,
            "idleWhen": [{"schedule": schedule}],
            "idleReplicas": chance.choice([0, 0, 1]),
            "mode": chance.choice(["Enforce", "Enforce", "Enforce", "Observe"]),
            "autoscalers": {"hpa": chance.choice(["Idle", "Leave"])},
        }
        found.append(document("IdlingPolicy", "nights", spec))
    if chance.random() < 0.7:
        preferences = {name: {"weight": chance.randint(0, 3)} for name in chance.sample(CLUSTERS, 2)}
        spec = {
            "replicas": chance.randint(0, 9),
            "preferences": {"rebalance": chance.random() < 0.5, "clusters": {"*": {"weight": 1}, **preferences}},
            "rounding": chance.choice(["Fair", "KubeFed"]),
            "paused": chance.random() < 0.1,
        }
        if chance.random() < 0.5:
            spec["targetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        else:
            whole = a_workload("ReplicaSet", "spread", None)["spec"]
            spec |= {"selector": whole["selector"], "template": whole["template"]}
        found.append(document("FederatedReplicaSet", "spread", spec, namespace="dev"))
    if chance.random() < 0.6:
        spec = {
            "selector": {"namespaces": {"include": ["dev"]}, "workloads": {"kinds": ["Deployment"]}},
            "target": {"replicas": chance.randint(0, 3), "direction": chance.choice(["Down", "Both"])},
            "strategy": chance.choice(["Logarithmic", "NewestFirst", "ZoneBalanced"]),
        }
        found.append(document("DownscalePolicy", "shrink", spec))
    return found


def a_folder(path: Path, seed: int) -> Folder:
    chance = random.Random(seed)
    folder = Folder(path)
    folder.write("policies/all.yaml", yaml.safe_dump_all(policies(chance)))
    for cluster, objects in a_snapshot(chance).items():
        folder.write(f"snapshot/{cluster}/all.yaml", yaml.safe_dump_all(objects))
    return folder


def come_to_rest(folder: Folder, now: str) -> int:
    """Apply until a plan is empty, and return how many runs that took."""
    for runs in range(RUNS + 1):
        said = folder.plan(now, "--detailed-exitcode")
        assert said.code in (0, 2, 6), f"{said.out}{said.err}"
        if '"actions": []' in folder.plan(now, "-o", "json").out:
            return runs
        applied = folder.apply(now)
        assert applied.code in (0, 6), f"{applied.out}{applied.err}"
        assert re.search(r"^Applied: (\d+) of \1 ", applied.out, re.M), applied.out
    raise AssertionError(f"not at rest after {RUNS} runs:\n{folder.plan(now, '-v').out}")


def stays_at_rest(folder: Folder, now: str) -> None:
    before = folder.objects()
    assert folder.apply(now).code in (0, 6)
    assert folder.objects() == before


def a_night_and_a_morning(path: Path, seed: int) -> None:
    folder = a_folder(path, seed)
    for now in (NIGHT, MORNING, "2026-11-23T21:00:00Z"):
        come_to_rest(folder, now)
        stays_at_rest(folder, now)


@pytest.mark.parametrize("seed", range(25))
def test_any_mix_comes_to_rest(tmp_path, seed):
    a_night_and_a_morning(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_any_mix_comes_to_rest_for_long(tmp_path, seed):
    a_night_and_a_morning(tmp_path, seed)
