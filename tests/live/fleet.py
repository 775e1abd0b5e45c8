"""A Fleet of real control planes, filled with the manifests of an example, and the command line called on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.live import deployed
from tests.pipeline.calls import Said
from tests.real.api import Object
from tests.real.cluster import Paths, create
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import a_namespace

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

_SERVER_FILLS_IN = ("uid", "creationTimestamp", "generation", "resourceVersion", "managedFields", "ownerReferences")


class LiveFleet:
    """`planes` by the cluster's name, and a folder with the policies of an example and a kubeconfig for all of them."""

    def __init__(self, folder: Path, planes: Mapping[str, ControlPlane], policies: Path) -> None:
        self.folder = folder
        self.planes = planes
        shutil.copytree(policies, folder / "policies", dirs_exist_ok=True)
        self.kubeconfig = folder / "kubeconfig.yaml"
        self.connect({name: plane.access() for name, plane in planes.items()})

    def connect(self, accesses: Mapping[str, Access]) -> None:
        """Say how the clusters are reached: each by the context of its name."""
        write_kubeconfig(self.kubeconfig, dict(accesses))

    def call(self, *arguments: str, **environment: str) -> Said:
        """Call the command line in a process of its own, as a person or a CronJob does."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "reconciler", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("RECONCILER_")}
        return {**kept, "KUBECONFIG": str(self.kubeconfig), **more}

    def plan(self, now: str, *more: str) -> Said:
        return self.call("plan", "policies", "--now", now, *more)

    def apply(self, now: str, *more: str) -> Said:
        return self.call("apply", "policies", "--now", now, "--auto-approve", "--quiet", *more)

    def actions(self, now: str, *more: str) -> list[dict[str, Any]]:
        """The actions that a plan would take now."""
        found: list[dict[str, Any]] = json.loads(self.plan(now, "-o", "json", *more).out)["actions"]
        return found

    def edit_fleet(self, cluster: str, **settings: Any) -> None:
        """Add settings to one cluster in the Fleet document."""
        file = self.folder / "policies" / "fleet.yaml"
        fleet = yaml.safe_load(file.read_text())
        for found in fleet["spec"]["clusters"]:
            if found["name"] == cluster:
                found.update(settings)
        file.write_text(yaml.safe_dump(fleet, sort_keys=False))


def fill(plane: ControlPlane, snapshot: Path) -> list[Object]:
    """Create what stands in one cluster's folder of a snapshot, and what a member cluster gets.

    What controllers make themselves is left to them: pods, and the ReplicaSets of Deployments. Nodes need room, so the
    test makes them. Runs write under our admission policies.
    """
    deployed.install(plane.api)
    objects = [_as_written(one) for one in _manifests(snapshot) if _is_written_by_people(one)]
    named = {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]}
    return create(
        plane.api, [*(a_namespace(name, **deployed.OPEN) for name in sorted(named - {deployed.OWN})), *objects]
    )


def reset(plane: ControlPlane, namespaces: Iterable[str]) -> None:
    """Delete everything in `namespaces` that `fill` makes or a run writes; the namespaces stay."""
    paths = Paths(plane.api)
    for namespace in namespaces:
        for version, kind in _RESET:
            collection = paths.collection({"apiVersion": version, "kind": kind, "metadata": {}}, namespace)
            plane.api.request("DELETE", collection)


_RESET = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("v1", "ConfigMap"),
    ("v1", "Event"),
    ("v1", "Pod"),
    ("coordination.k8s.io/v1", "Lease"),
)


def _manifests(snapshot: Path) -> list[Object]:
    files = [file for file in sorted(snapshot.glob("*.yaml")) if file.name != "metrics.yaml"]
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    return [one for document in documents for one in document.get("items", [document])]


def _is_written_by_people(one: Object) -> bool:
    owned = any(owner.get("controller") for owner in one["metadata"].get("ownerReferences", ()))
    is_system = one["kind"] == "Namespace" and one["metadata"]["name"].startswith("kube-")
    return one["kind"] not in ("Pod", "Node") and not owned and not is_system


def _as_written(one: Object) -> Object:
    metadata = {key: value for key, value in one["metadata"].items() if key not in _SERVER_FILLS_IN}
    return {**{key: value for key, value in one.items() if key != "status"}, "metadata": metadata}
