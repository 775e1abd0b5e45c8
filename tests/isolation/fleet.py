"""Three clusters as folders: on each, one wake is due, one was asked for, one Service is idle, one workload shrinks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.backends.backend import Backend
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.desired_state import decide
from reconciler.errors import ExitCode, FailOn
from reconciler.pipeline import Applied, Control, RunRequest, apply
from reconciler.policy.load import read_policies
from reconciler.policy.types import PolicySet
from reconciler.world import World, open_world
from tests.decide.downscale.world import a_pod_manifest, a_workload_manifest, namespace, owner_reference
from tests.fakes import Intercepted
from tests.pipeline.manifests import UNLIMITED, documents, downscale, fleet, policy
from tests.real.objects import a_deployment, a_service, with_metadata, within

NOW = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
CLUSTERS = ("east", "north", "west")


def policies(names: Sequence[str]) -> str:
    metric = "metric: {query: requests, atMost: 0, window: 30m}"
    picker = "podPicker: {http: {host: picker.example}, onError: skip}"
    shrinking = "namespaces: {include: [batch]}, workloads: {kinds: [ReplicaSet]}"
    return documents(
        fleet(names, UNLIMITED, "podPickers: {allowedHosts: [picker.example]}", name="test"),
        policy("Calendar", "night", "timeZone: UTC", 'downtime: ["Mon 00:00-Sun 24:00"]'),
        policy(
            "IdlingPolicy",
            "nights",
            "selector: {namespaces: {include: [dev]}, services: {}}",
            f"idleWhen: [{{schedule: {{calendar: night}}}}, {{{metric}}}]",
        ),
        downscale(shrinking, 1, picker, "settleSeconds: 0", "verifySeconds: 1", name="workers"),
    )


def write(folder: Path, names: Sequence[str] = CLUSTERS) -> Path:
    """Write the policies and the clusters into `folder`, and return it."""
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "all.yaml").write_text(policies(names))
    for name in names:
        (folder / "snapshot" / name).mkdir(parents=True)
        (folder / "snapshot" / name / "all.yaml").write_text(yaml.safe_dump_all(manifests(name)))
        answers = [{"query": "requests", "at": f"{NOW:%Y-%m-%dT%H:%M:%SZ}", "series": list(_series())}]
        (folder / "snapshot" / name / "metrics.yaml").write_text(yaml.safe_dump({"results": answers}))
    return folder


def _series() -> Iterator[dict[str, Any]]:
    for service in ("sleepy", "due", "asked"):
        yield {"labels": {"namespace": "dev", "service": service}, "value": 0 if service == "sleepy" else 5}


def manifests(cluster: str) -> Iterator[dict[str, Any]]:
    yield {**namespace("kube-system"), "metadata": {"name": "kube-system", "uid": f"identity-of-{cluster}"}}
    yield from (namespace(name) for name in ("dev", "batch", "reconciler"))
    yield from _service_with_workload("sleepy", 2, {})
    yield from _service_with_workload("due", 3, {"reconciler/wake-due": "2026-11-20T21:00:00Z"})
    yield from _service_with_workload("asked", 4, {"reconciler/wake-requested-at": "2026-11-20T21:30:00Z"})
    worker = a_workload_manifest("ReplicaSet", "worker", 3)
    worker["metadata"] |= {"namespace": "batch", "uid": f"uid-worker-{cluster}"}
    yield worker
    for number in range(3):
        pod = a_pod_manifest(number, ("ReplicaSet", "worker"))
        reference = {**owner_reference("ReplicaSet", "worker"), "uid": f"uid-worker-{cluster}"}
        pod["metadata"] |= {"namespace": "batch", "ownerReferences": [reference]}
        yield pod


def _service_with_workload(name: str, replicas: int, marks: dict[str, str]) -> Iterator[dict[str, Any]]:
    """A Service and its Deployment; with `marks` both are idled."""
    record: dict[str, str] = {}
    if marks:
        marks = {
            "idling.kubernetes.io/idled-at": "2026-11-20T20:00:00Z",
            "reconciler/owner": "test/IdlingPolicy/nights",
            "reconciler/idled-to": "0",
            **marks,
        }
        record = {**marks, "idling.kubernetes.io/previous-scale": str(replicas)}
        targets = [{"kind": "Deployment", "name": name, "group": "apps", "replicas": replicas}]
        marks = {**marks, "idling.kubernetes.io/unidle-targets": json.dumps(targets)}
    yield within("dev", a_service(name, **marks))
    yield within("dev", with_metadata(a_deployment(name, 0 if record else replicas), annotations=record))


class LastPicker:
    """Picks the last pods by name."""

    def pick(self, request: PickerRequest) -> PickerAnswer:
        return PickerAnswer(chosen=tuple(sorted(request.candidates)[-request.count :]))


@dataclass
class Faults:
    """What goes wrong: from call `at` on, counted over all protocols of one cluster, once or for ever."""

    at: int
    fault: Callable[[str], None]
    lasts: bool = False
    only: str = ""  # the protocol's method, "" for any
    calls: list[str] = field(default_factory=list)
    _guard: Any = field(default_factory=threading.Lock)

    def of(self, inside: Any) -> Any:
        return Intercepted(inside, self._around)

    def _around(self, method: str, call: Callable[[], Any]) -> Any:
        with self._guard:
            self.calls.append(method)
            count = sum(1 for name in self.calls if self.only in ("", name))
        is_due = count > self.at if self.lasts else count == self.at + 1
        if self.only in ("", method) and is_due:
            self.fault(method)
        return call()


def opened(folder: Path, faults: Faults | None = None, bad: str = "north") -> tuple[PolicySet, World]:
    """The policies and the world of `folder`, where `bad` has `faults`."""
    policies = read_policies(str(folder / "policies"))
    world = open_world(policies.fleet, str(folder / "snapshot"), NOW)
    accesses = {name: replace(access, picker=LastPicker()) for name, access in world.accesses.items()}
    sources = dict(world.sources)
    if faults is not None:
        accesses[bad] = _with_faults(accesses[bad], faults)
        source = sources[bad]
        sources[bad] = Backend(bad, faults.of(source.cluster), faults.of(source.metrics))
    return policies, replace(world, sources=sources, accesses=accesses)


def _with_faults(access: Access, faults: Faults) -> Access:
    return replace(
        access,
        cluster=faults.of(access.cluster),
        store=faults.of(access.store),
        lock=faults.of(access.lock),
        picker=faults.of(access.picker),
    )


def run(policies: PolicySet, world: World, decide: Any = decide, **control: Any) -> tuple[ExitCode, Applied]:
    """Apply, and return what it ends with."""
    chosen = Control(choose=lambda plan: plan.actions, progress=lambda *_: None, **control)
    applied = apply(policies, world, RunRequest(NOW), chosen, decide)
    return exit_of_apply(applied, frozenset(FailOn)), applied


def replicas(folder: Path) -> dict[str, dict[str, int]]:
    """What stands in `spec.replicas`, by cluster and workload."""
    return {
        name: {
            one["metadata"]["name"]: one["spec"]["replicas"]
            for file in sorted((folder / "snapshot" / name).glob("*.yaml"))
            for one in yaml.safe_load_all(file.read_text())
            if one.get("kind") in ("Deployment", "ReplicaSet")
        }
        for name in sorted(path.name for path in (folder / "snapshot").iterdir())
    }


BEFORE = {"sleepy": 2, "due": 0, "asked": 0, "worker": 3}
AFTER = {"sleepy": 0, "due": 3, "asked": 4, "worker": 1}
