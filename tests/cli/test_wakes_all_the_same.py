"""Due and requested wakes are done whatever is wrong with the policies, or with what of the Fleet no wake needs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from reconciler.policy.load import read_fleet_for_wakes
from reconciler.policy.types import PolicySet
from reconciler.yaml import reader
from tests.fakes import FakeClock
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, policy, service, target_ref, workload

NOW = "2026-11-23T07:00:00Z"
FLEET = fleet(["east", "west"], "limits: {default: {fleet: {share: 25%, atLeast: 10}}}", name="one")
POLICY = policy("FederatedReplicaSet", "web", "replicas: 3", target_ref(name="placed"), namespace="shop")
MARKS = (
    'idling.kubernetes.io/idled-at: "2026-11-20T22:00:00Z"',
    'idling.kubernetes.io/previous-scale: "3"',
    "reconciler/owner: one/IdlingPolicy/nights",
    'reconciler/wake-due: "2026-11-23T06:00:00Z"',
)
IDLE = workload(replicas=0, metadata=f"annotations: {{{', '.join(MARKS)}}}")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", FLEET)
    folder.write("policies/web.yaml", POLICY)
    for cluster in ("east", "west"):
        folder.write(f"snapshot/{cluster}/objects.yaml", IDLE)
    return folder


def replicas(folder: Folder) -> list[int]:
    return [folder.replicas(cluster, "shop", "Deployment", "web") for cluster in ("east", "west")]


def test_a_duration_without_bound_is_a_problem_and_the_wakes_are_done(folder: Folder) -> None:
    folder.write("policies/web.yaml", POLICY + "  progressDeadline: 800000d\n")
    said = folder.apply(NOW)
    assert said.code == 3
    problem = 'policies/web.yaml:7:21: spec.progressDeadline: is "800000d", expected a duration like 90s, 30m, 1h30m'
    assert said.err.startswith(f"error: {problem}")
    assert replicas(folder) == [3, 3]


def test_a_saved_plan_wakes_in_a_namespace_that_is_protected_since(folder: Folder) -> None:
    (folder.path / "policies/web.yaml").unlink()
    assert folder.plan(NOW, "--out", "plan.json").code == 0
    folder.write("policies/fleet.yaml", FLEET + "  protectedNamespaces: [shop]\n")
    said = folder.call("apply", "plan.json", "--snapshot", "snapshot", "--now", NOW)
    assert (said.code, replicas(folder)) == (0, [3, 3])


def test_the_status_shows_what_is_idle_although_the_policies_cannot_be_used(folder: Folder) -> None:
    folder.write("policies/web.yaml", POLICY.replace("replicas: 3", "replicas: three"))
    said = folder.call("status", "--snapshot", "snapshot", "--now", "2026-11-23T05:00:00Z")
    assert said.code == 3
    assert said.err.startswith("error: policies/web.yaml:5:13: spec.replicas: ")
    assert said.out.splitlines()[0].endswith(": 2 clusters, 2 idle, next wake Mon 2026-11-23 06:00")
    late = folder.call("status", "--snapshot", "snapshot", "--now", NOW).out
    assert late.splitlines()[2].split() == ["east", "Active", "1", "1", "-", "1", "0"]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("reconciler.cli.run_options.read_policies", id="while they are read"),
        pytest.param("reconciler.decide.desired_state.decide_placement", id="while they decide"),
        pytest.param("reconciler.decide.desired_state.within_limits", id="while limits are counted"),
    ],
)
def test_a_bug_that_policies_bring_about_lets_the_wakes_through(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    module, _, name = part.rpartition(".")
    inside = getattr(importlib.import_module(module), name)

    def fails(*arguments: object, **named: object) -> object:
        """Fail wherever the policies have a say; a wake that is due needs none of them."""
        if not any(isinstance(one, PolicySet) and not one.federated for one in arguments):
            raise OverflowError("date value out of range")
        return inside(*arguments, **named)

    monkeypatch.setattr(part, fails)
    said = folder.apply(NOW)
    assert said.code == 3
    assert "OverflowError" in said.err
    assert "date value out of range" in said.err
    assert replicas(folder) == [3, 3]


def test_policies_that_take_too_long_to_read_leave_time_for_the_wakes(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of `--timeout` is theirs: the Fleet alone is read for what is due."""
    judged: list[str] = []
    clock = FakeClock()
    inside = reader.read_documents

    def slow(file: str, text: str, **named: Any) -> Any:
        judged.append(file)
        if not file.endswith("fleet.yaml"):
            clock.sleep(400)
        return inside(file, text, **named)

    monkeypatch.setattr("reconciler.time_limit.Clock", lambda: clock)
    monkeypatch.setattr("reconciler.policy.policy_files.read_documents", slow)
    for number in range(100):
        folder.write(f"policies/{number}.yaml", "# nothing\n")
    said = folder.apply(NOW, "--timeout", "4000")
    assert (said.code, replicas(folder)) == (3, [3, 3])
    assert "error: policies: reading takes more than half of --timeout" in said.err
    assert len(judged) < 15


TYPO = FLEET.replace("atLeast", "atLest")


@pytest.mark.parametrize(
    ("changed", "problem", "after"),
    [
        pytest.param(TYPO, "policies/fleet.yaml:7:42: spec.limits", [3, 3], id="a typo in the limits"),
        pytest.param(FLEET.replace("home: east", "home: est"), "spec.home", [3, 3], id="home"),
        pytest.param(FLEET + "  podPickers: 7\n", "spec.podPickers", [3, 3], id="pod pickers"),
        pytest.param(FLEET.replace("{name: west}", "{name: west, labels: {a: 1}}"), "labels", [3, 3], id="labels"),
        pytest.param(
            FLEET.replace("{name: west}", "{name: west, conection: {inCluster: true}}"),
            "spec.clusters[1].conection",
            [3, 0],
            id="how a cluster is reached: that one is left out",
        ),
        pytest.param(
            FLEET.replace("{name: west}", "{name: west, state: frozn}"),
            "spec.clusters[1].state",
            [3, 0],
            id="the state of a cluster: that one is left out",
        ),
    ],
)
def test_a_fleet_with_a_problem_wakes_what_is_due(folder: Folder, changed: str, problem: str, after: list[int]) -> None:
    folder.write("policies/fleet.yaml", changed)
    said = folder.apply(NOW)
    assert said.code == 3
    assert problem in said.err
    assert replicas(folder) == after


@pytest.mark.parametrize(
    ("call", "code", "after"),
    [
        pytest.param(("wake", "east/shop/deploy/web"), 0, [3, 0], id="wake"),
        pytest.param(("restore", "--all", "--auto-approve"), 0, [3, 3], id="restore"),
        pytest.param(("apply", "plan.json"), 3, [0, 0], id="but no saved plan"),
    ],
)
def test_verbs_with_a_fleet_that_has_a_problem(
    folder: Folder, call: tuple[str, ...], code: int, after: list[int]
) -> None:
    folder.plan(NOW, "--out", "plan.json")
    folder.write("policies/fleet.yaml", TYPO)
    said = folder.call(*call, "--snapshot", "snapshot", "--now", NOW)
    assert said.code == code
    assert said.err.startswith("error" if code else "warning: policies/fleet.yaml:7:42: spec.limits")
    assert replicas(folder) == after


@pytest.mark.parametrize(
    "changed",
    [
        FLEET.replace("metadata: {name: one}", "metadata: {}"),
        FLEET.replace("[{name: east}, {name: west}]", "[]"),
        FLEET.replace("[{name: east}, {name: west}]", "[{nam: east}]"),
        FLEET + "---\n" + FLEET,
        POLICY,
    ],
    ids=["no name", "no clusters", "no cluster with a name", "two", "none"],
)
def test_without_what_a_wake_needs_nothing_is_done(folder: Folder, changed: str) -> None:
    folder.write("policies/fleet.yaml", changed)
    assert folder.apply(NOW).code == 3
    assert folder.call("wake", "east/shop/deploy/web", "--snapshot", "snapshot").code == 3
    assert replicas(folder) == [0, 0]


def test_what_a_wake_needs_of_a_fleet(folder: Folder) -> None:
    text = TYPO.replace("spec:\n", "spec:\n  namespace: ours\n  formerNames: [old]\n  protectedNamespaces: [pay]\n")
    folder.write("policies/fleet.yaml", text)
    found, problems = read_fleet_for_wakes(folder.path / "policies")
    assert (found.name, found.namespace, found.former_names) == ("one", "ours", ("old",))
    assert "pay" in found.protected
    assert [one.field for one in problems] == ["spec.limits.default.fleet.atLest"]


LISTED = (
    'idling.alpha.openshift.io/idled-at: "2026-11-20T20:00:00Z"',
    """idling.alpha.openshift.io/unidle-targets: '[{"kind":"Deployment","name":"db","group":"apps","replicas":7}]'""",
    'reconciler/wake-requested-at: "2026-11-23T06:59:00Z"',
)
RECORDED = 'idling.alpha.openshift.io/idled-at: "2026-11-20T20:00:00Z", idling.alpha.openshift.io/previous-scale: "7"'
FOREIGN = documents(
    service("db", "pay", metadata=f"annotations: {{{', '.join(LISTED)}}}"),
    workload("db", "pay", 0, metadata=f"annotations: {{{RECORDED}}}"),
)


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        pytest.param(TYPO + "  protectedNamespaces: [pay]\n", 0, id="beside another typo"),
        pytest.param(FLEET + "  protect: {namespaces: [pay]}\n", 0, id="a mapping of another name"),
        pytest.param(FLEET + "  protectedNamespace: [pay]\n", 0, id="the key misspelt"),
        pytest.param(FLEET + "  keepOut: [pay]\n", 0, id="a key that is like none"),
        pytest.param(FLEET + "protectedNamespaces: [pay]\n", 0, id="at another depth"),
        pytest.param(FLEET + "  protectedNamespaces: pay\n", 0, id="one name, no list"),
        pytest.param(FLEET + "  protectedNamespaces: [other, pay_]\n", 0, id="a name that is none"),
        pytest.param(FLEET + "  protectedNamespaces:\n", 0, id="no value"),
        pytest.param(
            FLEET + "  protectedNamespaces: [pay]\n  protectedNamespaces: [other]\n", 0, id="the key a second time"
        ),
        pytest.param(TYPO, 7, id="a typo that has nothing to do with it"),
    ],
)
def test_a_fleet_with_a_problem_loses_no_protected_namespace(folder: Folder, changed: str, after: int) -> None:
    """What somebody else idled there stays as it is on requested wakes; what is ours is woken all the same."""
    folder.write("policies/fleet.yaml", changed)
    folder.write("snapshot/east/pay.yaml", FOREIGN)
    assert folder.apply(NOW).code == 3
    assert folder.replicas("east", "pay", "Deployment", "db") == after
    assert replicas(folder) == [3, 3]


def test_a_wake_says_that_the_protected_namespaces_cannot_be_read(folder: Folder) -> None:
    folder.write("policies/fleet.yaml", FLEET + "  protectedNamespace: [pay]\n")
    folder.write("snapshot/east/pay.yaml", FOREIGN)
    said = folder.call("wake", "east/pay/deploy/db", "--snapshot", "snapshot", "--now", NOW)
    assert said.code == 6
    assert "the namespaces that the Fleet protects cannot be read, and this Fleet did not idle it" in said.err
    assert folder.replicas("east", "pay", "Deployment", "db") == 0
