"""A run and an activator, in any order of their writes: what was signalled is woken, and no workload is forgotten."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from reconciler.activator.wake import CLUSTER, Waker
from reconciler.backends.protocols import CONFIG_MAPS, ENDPOINTS, EVENTS, PODS, SERVICES
from reconciler.decide.annotations import Key, format_time
from reconciler.decide.decisions import annotation_changes
from reconciler.errors import ClusterError
from reconciler.model import NEED_PODS, ObjectRef, Write
from reconciler.pipeline import RunRequest, plan
from reconciler.plan.json_patch import annotation_patch, write_of
from reconciler.plan.model import Action
from reconciler.policy.load import read_policies
from reconciler.world import open_world
from tests.fakes import Wrapped
from tests.laws import tries
from tests.pipeline.manifests import UNLIMITED, documents, fleet, idling
from tests.real.objects import a_deployment, with_metadata

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NAMES = ("api", "web")
SERVICE = ObjectRef(CLUSTER, "shop", "Service", "web")

POLICIES = documents(
    fleet([CLUSTER], UNLIMITED, name="test"),
    idling(
        "namespaces: {include: [shop]}, services: {}",
        "minAge: 0s",
        "minAwake: 1h",
        name="sleep",
        downtime='"Mon-Sun 00:00-24:00"',
    ),
)


def deployment(name: str) -> dict[str, Any]:
    return with_metadata(a_deployment(name, 2, labels={"behind": "web"}), namespace="shop", uid=f"uid-{name}")


def objects() -> Iterator[dict[str, Any]]:
    """A Service with two Deployments behind it, and an activator that lives."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "uid-cluster"}}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    spec = {"selector": {"behind": "web"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}
    metadata = {"name": "web", "namespace": "shop", "uid": "uid-service"}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    yield from map(deployment, NAMES)
    labels = {"app.kubernetes.io/managed-by": "reconciler", "app.kubernetes.io/component": "activator"}
    yield {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "reconciler-activator-a",
            "namespace": "reconciler",
            "labels": {**labels, "reconciler/activator-pod": "uid-a"},
        },
        "spec": {"renewTime": "2030-01-01T00:00:00.000000Z"},
    }


class View(Wrapped):
    """The cluster as an activator has it; before each of its writes `before` is called."""

    name = CLUSTER

    def identity(self) -> str:
        return ""

    def begin(self) -> None:
        """Nothing is counted."""

    def list(self, resource: Any, **more: str) -> Any:
        return () if resource in (ENDPOINTS, EVENTS, CONFIG_MAPS, PODS) else self.inside.list(resource, **more)


class InterruptedRun:
    """One cluster in a folder, a run that is under way, and the signals that came."""

    def __init__(self, folder: Path) -> None:
        (folder / "policies").mkdir()
        (folder / "snapshot" / CLUSTER).mkdir(parents=True)
        (folder / "policies" / "all.yaml").write_text(POLICIES)
        (folder / "snapshot" / CLUSTER / "all.yaml").write_text("---\n".join(map(yaml.safe_dump, objects())))
        self.folder = folder
        self.now = START
        self.policies = read_policies(str(folder / "policies"))
        self.pending: list[Action] = []
        self.applied: set[int] = set()
        self.signal: datetime | None = None

    def cluster(self) -> Any:
        return open_world(self.policies.fleet, str(self.folder / "snapshot"), self.now).accesses[CLUSTER].cluster

    def wait(self, time: timedelta) -> None:
        self.now += time

    def begin(self) -> None:
        """A run makes its plan."""
        world = open_world(self.policies.fleet, str(self.folder / "snapshot"), self.now)
        self.pending = list(plan(self.policies, world, RunRequest(self.now)).actions)
        self.applied = set()

    def step(self) -> None:
        """The run carries out its next action, if there is one."""
        if not self.pending:
            return
        action = self.pending.pop(0)
        if self.applied.issuperset(action.needs):
            try:
                self.cluster().write(write_of(action.decision))
            except ClusterError:
                return
            self.applied.add(action.id)

    def end(self) -> None:
        while self.pending:
            self.step()

    def service(self) -> Any:
        return self.cluster().get(SERVICES, "shop", "web")

    def traffic(self, steps: tuple[int, ...] = ()) -> None:
        """The activator of a Service that is marked wakes it; before each of its writes the run makes so many steps."""
        if Key.IDLED_AT not in self.service().annotations:
            return  # its pods have it
        left = list(steps)

        def before() -> None:
            for _ in range(left.pop(0) if left else 0):
                self.step()

        self.signal = self.now
        Waker(cast(Any, View(self.cluster(), lambda _: before())), "reconciler", lambda: self.now).wake("shop", {"web"})

    def annotation(self) -> None:
        service = self.service()
        self.signal = self.now
        changes = annotation_changes(service.annotations, {Key.WAKE_REQUESTED_AT: format_time(self.now)})
        self.cluster().write(annotation_patch(service, changes))

    def event(self) -> None:
        self.signal = self.now
        ref = ObjectRef(CLUSTER, "shop", "Event", f"web.{int(self.now.timestamp())}")
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": ref.name, "namespace": "shop"},
            "involvedObject": {"kind": "Service", "namespace": "shop", "name": "web"},
            "reason": NEED_PODS,
            "lastTimestamp": format_time(self.now),
        }
        self.cluster().write(Write("event", ref, "v1", manifest=manifest))

    def check(self) -> None:
        """Let the run end, a fresh one begin and end, and look at what stands at zero."""
        self.end()
        self.check_marks()
        self.wait(MINUTE)
        self.begin()
        self.end()
        self.check_marks()
        annotations = self.service().annotations
        idled_at = annotations.get(Key.IDLED_AT)
        if idled_at is not None and self.signal is not None:
            assert format_time(self.signal) <= idled_at, "idle, with a signal younger than its idling"

    def check_marks(self) -> None:
        """Between any two writes a mark lists what stands at zero: an activator accepts its connections."""
        listed = {one["name"]: one["replicas"] for one in self.listed()}
        replicas = self.replicas()
        assert {name for name in NAMES if replicas[name] == 0} <= listed.keys(), "at zero, and no mark lists it"
        assert all(count == 2 for count in listed.values())

    def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.service().annotations.get(Key.UNIDLE_TARGETS, "[]"))
        return found

    def replicas(self) -> dict[str, int]:
        files = sorted((self.folder / "snapshot" / CLUSTER).glob("*.yaml"))
        found = [
            one for file in files for one in yaml.safe_load_all(file.read_text()) if one and one["kind"] == "Deployment"
        ]
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}


SIGNALS: dict[str, Callable[[InterruptedRun], None]] = {
    "traffic": lambda run: run.traffic(),
    "traffic while the run goes on": lambda run: run.traffic((0, 1, 1, 1)),
    "annotation": lambda run: run.annotation(),
    "event": lambda run: run.event(),
}


CASES = [(kind, writes, False) for kind in SIGNALS for writes in range(4)]
CASES += [("traffic while the run goes on", writes, True) for writes in (1, 2)]


@pytest.mark.parametrize(("kind", "writes", "killed"), CASES)
def test_a_signal_between_any_two_writes_of_a_run(tmp_path: Path, kind: str, writes: int, killed: bool) -> None:
    run = InterruptedRun(tmp_path)
    run.begin()
    for _ in range(writes):
        run.step()
    run.wait(MINUTE)
    SIGNALS[kind](run)
    if killed:
        run.pending = []
    if kind == "traffic" and writes:
        assert Key.IDLED_AT not in run.service().annotations
    run.wait(MINUTE)
    run.check()
    if run.signal is not None and (kind.startswith("traffic") or writes):
        assert run.replicas() == {"api": 2, "web": 2}


def test_the_run_idles_where_no_signal_comes(tmp_path: Path) -> None:
    run = InterruptedRun(tmp_path)
    run.begin()
    assert [one.decision.phase.name for one in run.pending] == ["ANNOTATE", "DECREASE", "DECREASE"]
    run.check()
    assert run.replicas() == {"api": 0, "web": 0}


class Interleaving(RuleBasedStateMachine):
    """Any order of a run's plan and writes, its end, and signals of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.run = InterruptedRun(Path(self._folder.name))

    def teardown(self) -> None:
        try:
            self.run.check()
        finally:
            self._folder.cleanup()

    @invariant()
    def a_mark_lists_what_stands_at_zero(self) -> None:
        self.run.check_marks()

    @rule(minutes=st.sampled_from([1, 5, 90]))
    def time_passes(self, minutes: int) -> None:
        self.run.wait(minutes * MINUTE)

    @precondition(lambda self: not self.run.pending)
    @rule()
    def a_run_begins(self) -> None:
        self.run.wait(MINUTE)
        self.run.begin()

    @precondition(lambda self: self.run.pending)
    @rule()
    def the_run_writes(self) -> None:
        self.run.step()

    @precondition(lambda self: self.run.pending)
    @rule()
    def the_run_is_killed(self) -> None:
        self.run.pending = []

    @rule(steps=st.lists(st.integers(0, 2), max_size=4).map(tuple))
    def traffic_comes(self, steps: tuple[int, ...]) -> None:
        self.run.wait(MINUTE)
        self.run.traffic(steps)

    @rule()
    def somebody_annotates(self) -> None:
        self.run.wait(MINUTE)
        self.run.annotation()

    @rule()
    def somebody_writes_an_event(self) -> None:
        self.run.wait(MINUTE)
        self.run.event()


@pytest.mark.soak
def test_in_any_order() -> None:
    """Steps 1 to 6 of the unidling controller. Source: seed idling-and-unidling.md, "Unidling"."""
    run_state_machine_as_test(Interleaving, settings=tries(60, stateful_step_count=15))
