"""Kinds that are switched off in place of being scaled, on a real API server, with the rights of deploy/: each off, on,
exactly as before, whatever a run is killed at, and beside Argo CD.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from reconciler.workload_kinds import SWITCHES
from tests.live import deployed, switched
from tests.live.end_states import unanswered, unseen
from tests.live.stage import Run, expire_lock, start
from tests.live.switched import NAMESPACE, as_stated, switch_of
from tests.pipeline.calls import Folder
from tests.real.api import APPLY_PATCH, Api, Object
from tests.real.cluster import Paths, create, create_missing
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

    def write(self, *kinds: str, **spec: Any) -> None:
        switches = [{"apiVersion": one.api_version, "kind": one.kind} for one in SWITCHES.values()]
        connection = {"kubeconfig": str(self.folder.path / "kubeconfig.yaml")}
        fleet = {
            "home": "member",
            "clusters": [{"name": "member", "connection": connection}],
            "limits": {"default": {"perCluster": {"share": "100%"}, "fleet": {"share": "100%"}}},
            "switches": switches,
        }
        idling = {
            "selector": {"namespaces": {"include": [NAMESPACE]}, "workloads": {"kinds": list(kinds or ALL)}},
            "idleWhen": [{"schedule": {"timeZone": "UTC", "uptime": ["Mon-Sun 07:00-20:00"]}}],
            "minAge": "0s",
            **spec,
        }
        documents = [a_policy("Fleet", "mine", fleet), a_policy("IdlingPolicy", "nights", idling)]
        self.folder.write("policies/all.yaml", yaml.safe_dump_all(documents))

    def words(self, now: str) -> tuple[str, ...]:
        return ("apply", "policies", "--now", now, "--auto-approve", "--quiet")

    def apply(self, now: str) -> str:
        said = self.folder.call(*self.words(now))
        assert [f"{one}" for one in self.proxy.requests if one.status == 403] == []
        assert said.code == 0, said.out + said.err
        return said.out

    def fill(self) -> dict[str, Object]:
        """Make all objects anew, and return them as they are stated."""
        self.proxy.reset()
        paths = Paths(self.api)
        made = list(switched.objects())
        for one in (*made, *self.ours()):
            if self.api.find(paths.of(one)) is not None:
                self.api.delete(paths.of(one), propagationPolicy="Background", gracePeriodSeconds=0)
        create(self.api, made)
        return self.stated()

    def ours(self) -> list[Object]:
        found = []
        leases = ("coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1")
        for version, kind, path in (("v1", "ConfigMap", "/api/v1"), leases):
            listed = self.api.items(f"{path}/namespaces/{deployed.OWN}/{kind.lower()}s")
            names = [one["metadata"]["name"] for one in listed if "kube" not in one["metadata"]["name"]]
            found += [an_object(version, kind, name, {"namespace": deployed.OWN}) for name in names]
        return found

    def objects(self) -> dict[str, Object]:
        paths, known = Paths(self.api), list(switched.objects())
        return {one["metadata"]["name"]: {**one, **self.api.get(paths.of(one))} for one in known}

    def stated(self) -> dict[str, Object]:
        return {name: as_stated(one) for name, one in self.objects().items()}


def a_policy(kind: str, name: str, spec: Any) -> Any:
    return {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


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


def test_each_goes_off_and_comes_back_exactly_as_it_was(member: Cluster) -> None:
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
                is_taken = number == MIDDLE + 5 * first
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


def test_doctor_finds_that_nothing_is_missing(member: Cluster) -> None:
    said = member.folder.call("doctor", "policies")
    assert "plan and apply have all rights" in said.out, said


def test_uninstall_switches_all_on_and_takes_every_mark_off(member: Cluster) -> None:
    before = member.fill()
    member.apply(EVENING)
    file = member.folder.path / "kubeconfig.yaml"
    write_kubeconfig(file, {"member": member.plane.access()})
    said = member.folder.call("uninstall", "--policies", "policies", "--now", EVENING, "--yes")
    write_kubeconfig(file, {"member": member.proxy.access(deployed.token(member.plane))})
    assert said.code == 0, said
    assert member.stated() == before
    left = [key for one in member.objects().values() for key in one["metadata"].get("annotations", {})]
    assert [key for key in left if key.startswith(("reconciler/", "idling.", "scale."))] == []


def test_a_switch_that_the_schema_drops_is_refused_in_words(member: Cluster) -> None:
    definition = a_crd("Widget", "example.com")
    spec = {"type": "object", "properties": {"other": {"type": "integer"}}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    create_missing(member.api, [definition])
    create_missing(member.api, [an_object("example.com/v1alpha1", "Widget", "w", spec={"other": 1})], NAMESPACE)
    member.write("Widget")
    text = (member.folder.path / "policies" / "all.yaml").read_text()
    row = "{apiVersion: example.com/v1alpha1, kind: Widget, path: spec.mode, off: none}"
    member.folder.write("policies/all.yaml", text.replace("  switches:", f"  switches:\n  - {row}"))
    write_kubeconfig(member.folder.path / "kubeconfig.yaml", {"member": member.plane.access()})
    said = member.folder.call(*member.words(EVENING))
    write_kubeconfig(
        member.folder.path / "kubeconfig.yaml", {"member": member.proxy.access(deployed.token(member.plane))}
    )
    assert 'the server made /spec/mode null, expected "none"' in said.out, said


def test_without_policies_a_context_is_enough_to_switch_all_on(member: Cluster) -> None:
    before = member.fill()
    member.apply(EVENING)
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("KUBECONFIG", str(member.folder.path / "kubeconfig.yaml"))
        words = ("--context", "member", "--own-namespace", deployed.OWN, "--now", EVENING, "--auto-approve")
        said = member.folder.call("restore", f"member/{NAMESPACE}", *words)
    assert said.code == 0, said
    assert member.stated() == before


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


ARGO = "argocd-controller"


def declared(kind: str) -> tuple[str, Object]:
    """Return an object as git declares it, with its path."""
    (found,) = [one for one in switched.objects() if one["kind"] == kind and one["metadata"]["name"] == kind.lower()]
    return found["metadata"]["name"], found


class ArgoCd:
    """Heals a VirtualMachine, from the server's side and by force, while its Application says so."""

    def __init__(self, member: Cluster) -> None:
        paths = Paths(member.api)
        self._desk, self._application = member, paths.of(declared("Application")[1])
        self.machine, self._declared = paths.of(declared("VirtualMachine")[1]), declared("VirtualMachine")[1]

    def heal(self) -> bool:
        """Apply what git declares, unless the Application is switched off; return whether it did."""
        automated = self._desk.api.get(self._application)["spec"]["syncPolicy"]["automated"]
        if automated.get("enabled") is False:
            return False
        self._desk.api.patch(self.machine, self._declared, APPLY_PATCH, fieldManager=ARGO, force="true")
        return True

    @property
    def runs(self) -> str:
        return str(self._desk.api.get(self.machine)["spec"]["runStrategy"])


def test_argo_cd_heals_nothing_while_its_application_is_off(member: Cluster) -> None:
    member.fill()
    member.write("Application", "VirtualMachine")
    argo = ArgoCd(member)
    assert argo.heal()
    before = member.stated()
    for day, next_day in pairwise(DAYS):
        member.apply(day + OFF_AT)
        assert not argo.heal()
        for time in ("T23:00:00Z", "T23:30:00Z"):
            said = member.apply(day + time)
            assert "contested" not in said
            assert (argo.heal(), argo.runs) == (False, "Halted")
        member.apply(next_day + ON_AT)
        assert (argo.heal(), argo.runs) == (True, "RerunOnFailure")
    assert member.stated() == before


def test_argo_cd_that_heals_each_night_ends_contested_and_is_left_alone(member: Cluster) -> None:
    member.fill()
    member.write("VirtualMachine")
    argo = ArgoCd(member)
    argo.heal()
    for number, (day, next_day) in enumerate(pairwise(DAYS)):
        member.apply(day + OFF_AT)
        assert argo.runs == ("Halted" if number < 2 else "RerunOnFailure")
        argo.heal()
        said = member.apply(day + "T22:05:00Z")
        assert argo.runs == "RerunOnFailure"
        member.apply(next_day + ON_AT)
    contest = json.loads(member.api.get(argo.machine)["metadata"]["annotations"]["reconciler/contested"])
    assert contest["by"] == ARGO
    advice = "ignoreDifferences: [{group: kubevirt.io, kind: VirtualMachine, jsonPointers: [/spec/runStrategy]}]"
    assert advice in said
