"""Kinds that are switched off in place of being scaled, on a real API server, with the rights of deploy/: each off, on,
exactly as before, whatever a run is killed at, and beside Argo CD.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.workload_kinds import SWITCHES
from tests.live import deployed, switched
from tests.live.end_states import unanswered, unseen
from tests.live.stage import Run, expire_lock, start
from tests.live.switched import NAMESPACE, as_stated, switch_of
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, documents, fleet, idling
from tests.real.api import APPLY_PATCH, Api, Object
from tests.real.cluster import Paths, create, create_missing, empty
from tests.real.fixtures import started
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_crd, a_namespace, an_object
from tests.real.proxy import Fault, Proxy, is_write

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real

OFF_AT, ON_AT = "T22:00:00Z", "T07:30:00Z"
DAYS = ("2035-11-19", "2035-11-20", "2035-11-21", "2035-11-22")
EVENING, MORNING = DAYS[0] + OFF_AT, DAYS[1] + ON_AT
WRITES = 62
"""How many writes a run makes at most that switches all of them."""

MIDDLE = 31
"""The write at which `make test` ends the first of them."""

ALL = [f"{one.kind}.{one.group}" for one in SWITCHES.values()]


@dataclass
class Cluster:
    """A cluster with objects of every kind, behind a proxy, and the command line on it as our ServiceAccount."""

    plane: ControlPlane
    proxy: Proxy
    folder: Folder

    @property
    def api(self) -> Api:
        return self.plane.api

    def write(self, *kinds: str, switch: str = "") -> None:
        """Write policies by which `kinds`, by default all, are off at night; `switch` is one more of the Fleet."""
        connection = f"{{kubeconfig: {self.folder.path / 'kubeconfig.yaml'}}}"
        known = (f"{{apiVersion: {one.api_version}, kind: {one.kind}}}" for one in SWITCHES.values())
        switches = f"switches: [{', '.join(filter(None, (*known, switch)))}]"
        mine = fleet([f"{{name: member, connection: {connection}}}"], UNLIMITED, switches, name="mine", home="member")
        selector = f"namespaces: {{include: [{NAMESPACE}]}}, workloads: {{kinds: [{', '.join(kinds or ALL)}]}}"
        self.folder.write("policies/all.yaml", documents(mine, idling(selector, "minAge: 0s")))

    def words(self, now: str) -> tuple[str, ...]:
        return ("apply", "policies", "--now", now, "--auto-approve", "--quiet")

    def apply(self, now: str) -> str:
        said = self.folder.call(*self.words(now))
        assert [f"{one}" for one in self.proxy.requests if one.status == 403] == []
        assert said.code == 0, said.out + said.err
        return said.out

    @contextmanager
    def as_administrator(self) -> Iterator[None]:
        """Let calls be those of an administrator for a while."""
        file = self.folder.path / "kubeconfig.yaml"
        ours = file.read_text()
        write_kubeconfig(file, {"member": self.plane.access()})
        yield
        file.write_text(ours)

    def fill(self) -> dict[str, Object]:
        """Make all objects anew, and return them as they are stated."""
        self.proxy.reset()
        paths, made = Paths(self.api), list(switched.objects())
        for path in {paths.collection(one) for one in made}:
            self.api.delete(path, propagationPolicy="Background", gracePeriodSeconds=0)
        empty(self.api, ("ConfigMap", "Lease"), [deployed.OWN])
        create(self.api, made)
        return self.stated()

    def objects(self) -> dict[str, Object]:
        paths, known = Paths(self.api), list(switched.objects())
        return {one["metadata"]["name"]: {**one, **self.api.get(paths.of(one))} for one in known}

    def stated(self) -> dict[str, Object]:
        return {name: as_stated(one) for name, one in self.objects().items()}


def rights_copied_for(kind: str, folder: Path) -> Path:
    """Copy the component for a custom kind with /scale as its comment says, and return the copy."""
    group, plural = switched.SCALED[kind][0].partition("/")[0], f"{kind.lower()}s"
    copy = folder / plural
    shutil.copytree(deployed.DEPLOY / "components" / "clone-sets", copy)
    for file in copy.iterdir():
        text = file.read_text().replace("apps.kruise.io", group)
        file.write_text(text.replace("clonesets", plural).replace("clone-sets", plural))
    return copy


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from tests.real.control_plane import API_ONLY, ControlPlane

    folder = tmp_path_factory.mktemp("switches")
    with started(ControlPlane(folder, API_ONLY)) as plane, Proxy(plane.access(), folder / "proxy") as proxy:
        create(plane.api, switched.definitions())
        copies = [rights_copied_for(kind, folder) for kind in switched.SCALED]
        rights = (*deployed.RIGHTS, deployed.SWITCHES, *(copy / "rights.yaml" for copy in copies))
        create_missing(plane.api, deployed.manifests(*rights))
        folders = (*deployed.ADMISSION, "components/switches", *map(str, copies))
        deployed.admit(plane.api, deployed.admission(*folders))
        create_missing(plane.api, [a_namespace(NAMESPACE)])
        write_kubeconfig(folder / "kubeconfig.yaml", {"member": proxy.access(deployed.token(plane))})
        yield Cluster(plane, proxy, Folder(folder))


@pytest.fixture
def member(cluster: Cluster) -> Cluster:
    cluster.write()
    return cluster


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Cluster:
    """For tests that change nothing."""
    cluster.fill()
    return cluster


def test_each_goes_off_and_comes_back_exactly_as_it_was_whatever_brings_it_back(member: Cluster) -> None:
    before = member.fill()
    assert len(before) > 2 * len(SWITCHES)
    member.apply(EVENING)
    asleep = member.objects()
    offs = {one.kind: one.off for one in SWITCHES.values()}
    assert {name: switch_of(one) for name, one in asleep.items()} == {
        name: offs[one["kind"]] for name, one in asleep.items()
    }
    assert len([one for one in member.proxy.writes() if not one.path.startswith("/api/v1")]) < WRITES
    member.proxy.reset()
    member.apply(EVENING)
    assert [one for one in member.proxy.writes() if NAMESPACE in one.path] == []
    member.apply(MORNING)
    assert member.stated() == before

    member.apply(DAYS[1] + OFF_AT)
    assert member.stated() != before
    words = ("--context", "member", "--own-namespace", deployed.OWN, "--now", DAYS[1] + OFF_AT, "--auto-approve")
    said = Folder(member.folder.path, member.folder.path / "kubeconfig.yaml").call(
        "restore", f"member/{NAMESPACE}", *words
    )
    assert (said.code, member.stated()) == (0, before), said

    member.apply(DAYS[2] + OFF_AT)
    assert member.stated() != before
    with member.as_administrator():
        said = member.folder.call("uninstall", "--policies", "policies", "--now", DAYS[2] + OFF_AT, "--yes")
    assert (said.code, member.stated()) == (0, before), said
    left = [key for one in member.objects().values() for key in one["metadata"].get("annotations", {})]
    assert [key for key in left if key.startswith(("reconciler/", "idling.", "scale."))] == []


def lost(before: dict[str, Object], now: dict[str, Object]) -> list[str]:
    """Return what is neither as it was, nor off with a record of what it was."""
    return [name for name, one in now.items() if as_stated(one) != before[name] and not _is_recorded(before[name], one)]


def _is_recorded(was: Object, one: Object) -> bool:
    kind = SWITCHES[one["apiVersion"].rpartition("/")[0], one["kind"]]
    texts = one["metadata"].get("annotations", {})
    value = switch_of({**one, "metadata": {"annotations": was["annotations"]}, "spec": was["spec"]})
    recorded = json.loads(texts.get("reconciler/previous-value", '"lost"'))
    return switch_of(one) == kind.off and recorded in (value, {}) and type(recorded) in (type(value), dict)


def kills() -> Iterator[Any]:
    ways: dict[str, Callable[[Run], Fault]] = {"unseen": unseen, "unanswered": unanswered}
    for first, (name, way) in enumerate(ways.items()):
        for wakes in (False, True):
            for number in range(1, WRITES + 1):
                is_taken = number == MIDDLE + 5 * first and wakes == bool(first)
                marks = () if is_taken else (pytest.mark.soak,)
                yield pytest.param(way, wakes, number, id=f"{name}-{'on' if wakes else 'off'}-{number}", marks=marks)


@pytest.mark.parametrize(("way", "wakes", "number"), list(kills()))
def test_killed_at_a_write_nothing_is_lost(
    member: Cluster, way: Callable[[Run], Fault], wakes: bool, number: int
) -> None:
    before = member.fill()
    if wakes:
        member.apply(EVENING)
        member.proxy.reset()
    run = start(member.folder, *member.words(MORNING if wakes else EVENING))
    rule = member.proxy.rule(way(run), at=number, matching=is_write)
    said = run.ended()
    assert said.code == (-signal.SIGKILL if rule.acted else 0), said
    assert lost(before, member.objects()) == []
    member.proxy.reset()
    expire_lock(member.api)
    if not wakes:
        member.apply(EVENING)
        assert all(switch_of(one) is not None for one in member.objects().values())
        assert lost(before, member.objects()) == []
    member.apply(MORNING)
    assert member.stated() == before


def test_what_somebody_changed_since_it_was_planned_is_a_conflict(member: Cluster) -> None:
    member.fill()
    path = Paths(member.api).of(next(one for one in switched.objects() if one["kind"] == "VirtualMachine"))
    assert member.folder.call("plan", "policies", "--now", EVENING, "--quiet", "--out", "plan.json").code == 0
    member.api.patch(path, {"spec": {"runStrategy": "Manual"}}, fieldManager="kubectl-edit")
    words = ("apply", "plan.json", "--policies", "policies", "--now", EVENING, "--quiet", "--approve-differences")
    said = member.folder.call(*words)
    assert "VirtualMachine/virtualmachine" in said.out + said.err
    assert member.api.get(path)["spec"]["runStrategy"] == "Manual"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("DaemonSet", {"spec": {"template": {"spec": {"hostPID": True}}}}),
        ("DaemonSet", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
        ("Job", {"spec": {"activeDeadlineSeconds": 5}}),
        ("VirtualMachine", {"spec": {"template": {"spec": {"hostname": "other"}}}}),
        ("Cluster", {"spec": {"instances": 1}}),
        ("Cluster", {"metadata": {"annotations": {"cnpg.io/other": "x"}}}),
        ("Application", {"spec": {"source": {"repoURL": "https://evil.example"}}}),
        ("Application", {"spec": {"syncPolicy": {"automated": {"prune": False}}}}),
        ("RayCluster", {"metadata": {"labels": {"a": "b"}}}),
    ],
)
def test_our_accounts_change_nothing_else_of_them(filled: Cluster, kind: str, change: Any) -> None:
    path = Paths(filled.api).of(next(one for one in switched.objects() if one["kind"] == kind))
    thief = deployed.with_every_right(filled.api, deployed.APPLY)
    content_type = "application/merge-patch+json"
    said = deployed.refusal(thief, "PATCH", f"{path}?dryRun=All", change, content_type)
    assert said.startswith("403 "), said
    assert "ValidatingAdmissionPolicy 'reconciler-switches'" in said


def test_a_snapshot_says_of_them_what_the_cluster_does(member: Cluster) -> None:
    member.fill()
    for now in (EVENING, MORNING):
        said = member.folder.call("snapshot", f"at{now[:10]}", "--policies", "policies", "--now", now, "--overwrite")
        assert said.code == 0, said
        at = ("policies", "--now", now, "--run-id", "one", "-o", "json")
        live, read = (
            json.loads(member.folder.call("plan", *at, *more).out)["actions"]
            for more in ((), ("--snapshot", f"at{now[:10]}"))
        )
        assert len(live) == len(list(switched.objects()))
        shown = ("object", "verb", "before", "after")
        assert [{key: one[key] for key in shown} for one in read] == [{key: one[key] for key in shown} for one in live]
        member.apply(now)
    said = member.folder.call("doctor", "policies")
    assert "plan and apply have all rights" in said.out, said


def test_a_switch_that_the_schema_drops_is_refused_in_words(member: Cluster) -> None:
    definition = a_crd("Widget", "example.com")
    spec = {"type": "object", "properties": {"other": {"type": "integer"}}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    create_missing(member.api, [definition])
    create_missing(member.api, [an_object("example.com/v1alpha1", "Widget", "w", spec={"other": 1})], NAMESPACE)
    member.write("Widget", switch="{apiVersion: example.com/v1alpha1, kind: Widget, path: spec.mode, off: none}")
    with member.as_administrator():
        said = member.folder.call(*member.words(EVENING))
    assert 'the server made /spec/mode null, expected "none"' in said.out, said


@pytest.mark.parametrize("kind", switched.SCALED)
def test_a_kind_with_scale_needs_no_switch(member: Cluster, kind: str) -> None:
    version, spec = switched.SCALED[kind]
    one = an_object(version, kind, kind.lower(), {"namespace": NAMESPACE}, spec=deepcopy(spec))
    create(member.api, [one])
    path = Paths(member.api).of(one)
    before = as_stated(member.api.get(path))
    member.write(kind)
    member.apply(EVENING)
    assert as_stated(member.api.get(path)) == {**before, "spec": {**before["spec"], "replicas": 0}}
    member.apply(MORNING)
    assert as_stated(member.api.get(path)) == before


def test_argo_cd_heals_nothing_while_its_application_is_off(member: Cluster) -> None:
    """It heals a VirtualMachine, from the server's side and by force, while its Application says so."""
    member.fill()
    member.write("Application", "VirtualMachine")
    declared = {one["metadata"]["name"]: one for one in switched.objects()}
    machine, application = (Paths(member.api).of(declared[name]) for name in ("virtualmachine", "application"))

    def heals() -> bool:
        if member.api.get(application)["spec"]["syncPolicy"]["automated"].get("enabled") is False:
            return False
        body = declared["virtualmachine"]
        member.api.patch(machine, body, APPLY_PATCH, fieldManager="argocd-controller", force="true")
        return True

    assert heals()
    before = member.stated()
    for day, next_day in pairwise(DAYS[:3]):
        for time in (OFF_AT, "T23:00:00Z"):
            assert "contested" not in member.apply(day + time)
            assert (heals(), member.api.get(machine)["spec"]["runStrategy"]) == (False, "Halted")
        member.apply(next_day + ON_AT)
        assert (heals(), member.api.get(machine)["spec"]["runStrategy"]) == (True, "RerunOnFailure")
    assert member.stated() == before
