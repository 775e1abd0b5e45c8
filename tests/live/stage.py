"""Two real API servers behind proxies, and the command line called on them, also in processes that can be killed.

stage.fill()                                     # the world of everything.py, anew
said = stage.apply()                             # in this process
run = stage.start("apply", ...)                  # in a process of its own, forked from one that has imported all
stage.rule(faults.answer(500), at=3)             # counted over both proxies
stage.settle()                                   # what controllers would do
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.live import deployed, everything
from tests.live.children import called
from tests.pipeline.calls import Folder, Said
from tests.real import faults
from tests.real.api import JSON_PATCH, Api, Object
from tests.real.cluster import create, create_missing, empty, listed, path_of
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_namespace, status_of
from tests.real.proxy import Fault, Matching, Proxy, Request, Rule, is_any

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

Key = tuple[str, str, str, str]
"""Cluster, namespace, kind, name."""

_KINDS = (
    *("Deployment", "StatefulSet", "ReplicaSet", "CronJob", "CloneSet", "HorizontalPodAutoscaler"),
    *("Service", "Pod", "ConfigMap", "Lease", "Event"),
)
_WORKER = "/apis/apps/v1/namespaces/batch/deployments/worker"
_COUNTED = ("Deployment", "StatefulSet", "ReplicaSet", "CloneSet")
_EXPIRED = "2001-01-01T00:00:00.000000Z"
_LOCK = path_of("Lease", deployed.OWN, "reconciler")
_CHILDREN = multiprocessing.get_context("forkserver")
_CHILDREN.set_forkserver_preload(["tests.live.children"])


@dataclass
class Run:
    """A run in a process of its own."""

    process: Any
    out: Path
    err: Path

    def signal(self, number: int) -> None:
        """Send it a signal, by its id."""
        os.kill(self.process.pid, number)

    def ended(self, seconds: float = 60.0) -> Said:
        """What it said, once it has ended.

        Raises:
            TimeoutError: it did not end.
        """
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.signal(signal.SIGKILL)
            self.process.join()
            raise TimeoutError(f"did not end in {seconds:g} s, expected it to; it said:\n{self.err.read_text()}")
        return Said(self.process.exitcode, self.out.read_text(), self.err.read_text())


def start(folder: Folder, *arguments: str) -> Run:
    """Call the command line in a process of its own, forked from one that has imported it all."""
    name = f"run-{len(list(folder.path.glob('run-*.out')))}"
    out, err = folder.path / f"{name}.out", folder.path / f"{name}.err"
    out.touch()
    process = _CHILDREN.Process(target=called, args=(str(folder.path), arguments, str(out), str(err)))
    process.start()
    return Run(process, out, err)


def expire_lock(api: Api) -> None:
    """Make the lock of a run that is dead look as old as if it had died long ago."""
    found = api.find(_LOCK)
    if found and found["spec"].get("holderIdentity"):
        api.patch(_LOCK, [{"op": "add", "path": "/spec/renewTime", "value": _EXPIRED}], JSON_PATCH)


def _without_events(found: Mapping[Key, Object]) -> dict[Key, Object]:
    return {key: one for key, one in found.items() if key[2] != "Event"}


@dataclass
class Stage:
    """`planes` and `proxies` by the cluster's name; `folder` holds the policies."""

    planes: Mapping[str, ControlPlane]
    proxies: Mapping[str, Proxy]
    folder: Folder
    now: str = everything.NOW
    _runs: list[Run] = field(default_factory=list)
    _filled: dict[Key, Object] | None = None

    @classmethod
    def set_up(cls, planes: Mapping[str, ControlPlane], proxies: Mapping[str, Proxy], folder: Path) -> Stage:
        """A stage whose clusters are reached through `proxies`, as our ServiceAccount and under its policies."""
        for plane in planes.values():
            deployed.install(plane.api)
            spaces = (a_namespace(name, **deployed.OPEN) for name in everything.NAMESPACES)
            create_missing(plane.api, [everything.RUNNERS, *spaces])
        accesses = {name: proxy.access(deployed.token(planes[name])) for name, proxy in proxies.items()}
        write_kubeconfig(folder / "kubeconfig.yaml", accesses)
        return cls(planes, proxies, Folder(folder))

    def write_policies(self, text: str) -> None:
        """Make `text` the policies, with connections through the proxies."""
        documents = list(yaml.safe_load_all(text))
        for document in documents:
            if document["kind"] == "Fleet":
                everything_at_once = {part: {"share": "100%"} for part in ("perCluster", "fleet")}
                document["spec"].setdefault("limits", {"default": everything_at_once})
                for cluster in document["spec"]["clusters"]:
                    cluster["connection"] = {"kubeconfig": str(self.folder.path / "kubeconfig.yaml")}
        self.folder.write("policies/all.yaml", yaml.safe_dump_all(documents, sort_keys=False))

    # the world

    def fill(self, world: Mapping[str, Iterable[Object]] | None = None) -> None:
        """Make the world of everything.py anew, or another one, and forget what passed the proxies."""
        made = everything.objects() if world is None else world
        with ThreadPoolExecutor(len(self.planes)) as threads:
            list(threads.map(lambda name: self._fill(name, made.get(name, ())), self.planes))
        self.clear()

    def filled(self) -> dict[Key, Object]:
        """What `objects` has of the world of everything.py, made anew only where anything was written since."""
        if self._filled is None or self._there() != self._filled:
            self.fill()
            self._filled = self._there()
        return _without_events(self._filled)

    def _fill(self, name: str, objects: Iterable[Object]) -> None:
        empty(self.planes[name].api, _KINDS, everything.NAMESPACES)
        populate(self.planes[name].api, objects)

    def objects(self) -> dict[Key, Object]:
        """Every object of the world as the API servers have it, Events and what the servers make themselves aside."""
        return _without_events(self._there())

    def _there(self) -> dict[Key, Object]:
        return {
            (cluster, one["metadata"]["namespace"], kind, one["metadata"]["name"]): {**one, "kind": kind}
            for cluster, plane in self.planes.items()
            for kind, one in listed(plane.api, _KINDS, everything.NAMESPACES)
        }

    def settle(self) -> None:
        """Do what controllers would: bring statuses, and pods in the controller's order, to what specs say."""
        for key, one in self.objects().items():
            if one["kind"] in _COUNTED:
                self.settle_one(key, one)

    def settle_one(self, key: Key, one: Object) -> None:
        """The same for one workload."""
        cluster, namespace, kind, name = key
        api = self.planes[cluster].api
        wanted = one["spec"].get("replicas", 1)
        if name == "worker":
            _shrink_workers(api, wanted)
        status = status_of(kind, wanted, one["metadata"].get("generation", 1))
        api.patch(path_of(kind, namespace, name, "status"), {"status": status})

    def expire_leases(self) -> None:
        for plane in self.planes.values():
            expire_lock(plane.api)

    def holders(self) -> dict[str, str]:
        """Who holds the lock of each cluster, "" for nobody."""
        found = {}
        for name, plane in self.planes.items():
            found[name] = ((plane.api.find(_LOCK) or {}).get("spec") or {}).get("holderIdentity") or ""
        return found

    # faults

    def rule(self, fault: Fault, at: int = 1, matching: Matching = is_any, times: int | None = 1) -> Rule:
        """A rule counted over all proxies, in force from now on, before those that are there."""
        rule = Rule(fault, at, matching, times)
        for proxy in self.proxies.values():
            proxy.rules.insert(0, rule)
        return rule

    def clear(self) -> None:
        """Forget rules and requests; controllers go on to act."""
        for proxy in self.proxies.values():
            proxy.reset()
        self.rule(faults.after(self._act), matching=_is_scale_of_workers, times=None)

    def calm(self) -> None:
        """Return when nothing is under way any more, once the run that asked is dead."""
        before = -1
        while before != len(self.requests()):
            before = len(self.requests())
            time.sleep(0.05)

    def _act(self, _: Request) -> None:
        """Shrink the workers right after a write to their Deployment, as its controller would."""
        one = self.planes["east"].api.get(_WORKER)
        self.settle_one(("east", "batch", "Deployment", "worker"), {**one, "kind": "Deployment"})

    def requests(self) -> list[Request]:
        return [request for proxy in self.proxies.values() for request in proxy.requests]

    def writes(self) -> list[Request]:
        return [request for proxy in self.proxies.values() for request in proxy.writes()]

    # runs

    def plan(self, *more: str) -> Said:
        return self.folder.call("plan", "policies", "--now", self.now, "--quiet", "--allow-removed", *more)

    def apply(self, *more: str) -> Said:
        return self.folder.call(*self.apply_words(*more))

    def apply_words(self, *more: str) -> tuple[str, ...]:
        return ("apply", "policies", "--now", self.now, "--auto-approve", "--quiet", "--allow-removed", *more)

    def start(self, *arguments: str) -> Run:
        self._runs.append(start(self.folder, *arguments))
        return self._runs[-1]

    def stop(self) -> None:
        """End every run that has not ended."""
        for run in self._runs:
            if run.process.exitcode is None:
                run.signal(signal.SIGKILL)
                run.process.join()


def populate(api: Api, objects: Iterable[Object]) -> None:
    """Make these objects, with the pods of the Deployment `worker` where it is one of them."""
    wanted = list(objects)
    lasting = [one for one in wanted if one["kind"] in ("Node", "CustomResourceDefinition")]
    create_missing(api, lasting)
    made = create(api, [one for one in wanted if one not in lasting])
    for deployment in made:
        if deployment["metadata"]["name"] == "worker":
            (replica_set,) = create(api, everything.workers(deployment))
            create(api, everything.pods(replica_set))


def _is_scale_of_workers(request: Request) -> bool:
    return request.method == "PATCH" and request.path.startswith(_WORKER)


def _shrink_workers(api: Api, wanted: int) -> None:
    """Delete pods of the Deployment `worker` as its controller would: the lowest deletion cost goes first."""
    pods = sorted(api.items("/api/v1/namespaces/batch/pods"), key=_cost)
    for pod in pods[: max(0, len(pods) - wanted)]:
        api.delete(f"/api/v1/namespaces/batch/pods/{pod['metadata']['name']}", gracePeriodSeconds=0)


def _cost(pod: Object) -> int:
    return int(pod["metadata"].get("annotations", {}).get("controller.kubernetes.io/pod-deletion-cost", "0"))
