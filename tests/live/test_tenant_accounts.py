"""Tenants with ServiceAccounts on real API servers: what is written for them is written as them, so that what our own
checks might let through is refused there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.errors import ExitCode
from reconciler.policy import tenant_bounds
from reconciler.policy.file_owners import FileOwners
from tests.live import deployed, rights_cluster
from tests.pipeline.calls import Folder, Said
from tests.pipeline.refused_policies import EMPTY, REFUSED
from tests.pipeline.teams import FILES, NAMESPACES, with_accounts
from tests.real.api import Object
from tests.real.cluster import RBAC, Paths, create, create_missing, empty, listed, wait_until
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.fixtures import started
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import (
    a_deployment,
    a_namespace,
    a_service,
    an_object,
    manifests,
    status_of,
    with_metadata,
    within,
)
from tests.real.proxy import Exchange, Proxy

pytestmark = pytest.mark.real

NIGHT, MORNING = "2035-11-20T22:00:00Z", "2035-11-21T08:00:00Z"
TEAMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "dev": {"a": ("team-a-web",), "b": ("team-b-web", "shared-b")},
    "prod": {"b": ("team-b-web", "shared-b")},
}
"""The namespaces of each team, by cluster."""

ACCOUNTS = {team: f"system:serviceaccount:{deployed.OWN}:reconciler-team-{team}" for team in "ab"}
RUN = f"system:serviceaccount:{deployed.OWN}:{deployed.APPLY}"
NO_LIMIT = {"workloads": 1000, "replicas": 1000}
"""So that it is the API server that refuses an overreach, and no limit."""
WITH_ACCOUNTS = with_accounts(a="reconciler-team-a", b="reconciler-team-b").replace(
    "      maxPriority: 10\n", f"      maxPriority: 10\n      limits: {json.dumps(NO_LIMIT)}\n"
)
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["create", "patch", "delete"]}],
}


def rights(cluster: str) -> list[Object]:
    """What the component makes of the teams of a cluster; it is written for team a in one namespace."""
    found = manifests(deployed.TENANTS / "impersonate.yaml")
    found[0]["rules"][0]["resourceNames"] = ["reconciler-team-a", "reconciler-team-b"]
    for team, namespaces in TEAMS[cluster].items():
        text = (deployed.TENANTS / "team-a.yaml").read_text().replace("reconciler-team-a", f"reconciler-team-{team}")
        account, binding = (one for one in yaml.safe_load_all(text))
        found += [account, *(binding | {"metadata": {**binding["metadata"], "namespace": one}} for one in namespaces)]
    return found


@dataclass(frozen=True)
class Write:
    """One write as the audit log has it."""

    user: str
    impersonated: str
    verb: str
    resource: str
    namespace: str
    code: int


@dataclass(frozen=True)
class Clusters:
    """dev and prod, with the teams of `teams.py`, and the command line under our ServiceAccount."""

    planes: Mapping[str, ControlPlane]
    logs: Mapping[str, Path]
    accesses: Mapping[str, Access]

    def fill(self) -> None:
        """Make all Deployments and Services anew, and forget what was written."""
        for cluster, plane in self.planes.items():
            create_missing(plane.api, rights(cluster))
            empty(plane.api, _KINDS, [deployed.OWN])
            self.fill_namespaces(cluster)
        self.forget_writes()

    def forget_writes(self) -> None:
        for log in self.logs.values():
            log.write_text("")

    def fill_namespaces(self, cluster: str, *namespaces: str) -> None:
        api, filled = self.planes[cluster].api, namespaces or NAMESPACES
        empty(api, _KINDS, filled)
        create(api, [within(space, with_metadata(one, labels={"team": "b"})) for space in filled for one in _objects()])

    def objects(self) -> dict[tuple[str, str, str, str], tuple[str, Any]]:
        """What is there of each namespace but our own: its resourceVersion, and its replicas."""
        return {
            (cluster, one["metadata"]["namespace"], kind, one["metadata"]["name"]): (
                one["metadata"]["resourceVersion"],
                one.get("spec", {}).get("replicas"),
            )
            for cluster, plane in self.planes.items()
            for kind, one in listed(plane.api, _KINDS, NAMESPACES)
        }

    def replicas(self) -> dict[tuple[str, str], set[int]]:
        """The replicas of the Deployments by cluster and namespace."""
        found: dict[tuple[str, str], set[int]] = {}
        for (cluster, namespace, kind, _), (_, replicas) in self.objects().items():
            if kind == "Deployment":
                found.setdefault((cluster, namespace), set()).add(replicas)
        return found

    def writes(self) -> list[Write]:
        """What runs wrote since the world was filled, refused or not; asking what one may do is none."""
        return [one for log in self.logs.values() for one in _audited(log) if one.user == RUN]

    def without(self, cluster: str, binding: str, namespace: str) -> None:
        """Delete a RoleBinding, and wait until nobody has rights by it: that of a team is called like its account."""
        api = self.planes[cluster].api
        api.delete(f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings/{binding}")
        account, right = (deployed.APPLY, _IMPERSONATE) if binding == _TENANTS else (binding, _PATCH)
        wait_until(lambda: not deployed.may(api, right, account, namespace), f"{binding} to be gone")


_TENANTS = "reconciler-tenants"
_IMPERSONATE = deployed.Grant(_TENANTS, "Role", 0, "", "serviceaccounts", "impersonate", "reconciler-team-a")
_PATCH = deployed.Grant("reconciler-team", "Role", 0, "apps", "deployments", "patch")
_KINDS = ("Deployment", "ReplicaSet", "Service", "ConfigMap", "Event")


def _objects() -> Iterator[Object]:
    for name in ("web", "api"):
        yield a_service(name)
        yield a_deployment(name, 2) | {"status": status_of("Deployment", 2)}


def _audited(log: Path) -> Iterator[Write]:
    for line in log.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef", {})
        if target.get("resource", "").startswith("selfsubject"):
            continue
        yield Write(
            event["user"]["username"],
            event.get("impersonatedUser", {}).get("username", ""),
            event["verb"],
            target.get("resource", ""),
            target.get("namespace", ""),
            event["responseStatus"]["code"],
        )


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(yaml.safe_dump(AUDIT))
    logs = {name: folder / f"{name}.log" for name in TEAMS}
    flags = {
        name: [f"--audit-policy-file={folder / 'policy.yaml'}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
        for name, log in logs.items()
    }
    planes = {name: ControlPlane(tmp_path_factory.mktemp(name), API_ONLY, flags[name]) for name in TEAMS}
    with started(*planes.values()):
        for plane in planes.values():
            deployed.install(plane.api)
            labels = {"team": "b"} | deployed.OPEN
            create_missing(plane.api, [a_namespace(name, **labels) for name in NAMESPACES])
        tokens = {name: deployed.token(plane) for name, plane in planes.items()}
        yield Clusters(planes, logs, {name: plane.access(tokens[name]) for name, plane in planes.items()})


@pytest.fixture
def cli(clusters: Clusters, tmp_path: Path) -> Folder:
    """The policies of the two teams and the platform, on clusters where everything runs."""
    clusters.fill()
    return a_cli(tmp_path, clusters.accesses, {"fleet.yaml": WITH_ACCOUNTS})


def a_cli(folder: Path, accesses: Mapping[str, Access], files: Mapping[str, str]) -> Folder:
    cli = Folder(folder, write_kubeconfig(folder / "kubeconfig", dict(accesses)))
    for name, text in {**FILES, **files}.items():
        path = folder / "policies" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    return cli


def apply(cli: Folder, now: str, *more: str) -> Said:
    flags = ("--now", now, "--auto-approve", "--quiet", "-o", "json", *more)
    return cli.call("apply", "policies", *flags)


def failures(said: Said) -> list[tuple[str, str]]:
    """The object and the message of each change that failed."""
    report = json.loads(said.out)
    actions = {one["id"]: one for one in report["plan"]["actions"]}
    return [
        (f"{actions[one['action']]['cluster']}/{actions[one['action']]['object']['namespace']}", one["message"])
        for one in report["outcomes"]
        if one["status"] == "failed"
    ]


def test_a_night_and_a_morning_are_written_as_the_tenants_and_what_is_the_runs_as_the_run(
    clusters: Clusters, cli: Folder
) -> None:
    night = apply(cli, NIGHT)
    assert night.code == 0, night.out + night.err
    assert set().union(*clusters.replicas().values()) == {0, 2}
    asleep = {place for place, replicas in clusters.replicas().items() if replicas == {0}}
    assert asleep == {(one, name) for one in TEAMS for name in NAMESPACES} - {("prod", "team-a-web")}
    morning = apply(cli, MORNING)
    assert morning.code == 0, morning.out + morning.err
    assert set().union(*clusters.replicas().values()) == {2}
    writes = clusters.writes()
    assert {one.code // 100 for one in writes} == {2}
    whose = {(one.namespace, one.impersonated) for one in writes}
    assert whose == {
        ("team-a-web", ACCOUNTS["a"]),
        ("team-b-web", ACCOUNTS["b"]),
        ("shared-b", ACCOUNTS["b"]),
        ("tools", ""),
        (deployed.OWN, ""),
    }
    assert {one.resource for one in writes if one.impersonated} == {"deployments", "events"}
    assert {one.resource for one in writes if one.namespace == deployed.OWN} >= {"leases", "configmaps"}


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that we check of tenants ourselves counts: policies of a tenant select, and place, what they like."""
    for name in ("_check_selecting", "_check_namespace", "_check_picker"):
        monkeypatch.setattr(tenant_bounds, name, lambda *_: None)
    monkeypatch.setattr(tenant_bounds, "_within", lambda selector, _: selector)
    monkeypatch.setattr(
        tenant_bounds, "_placing", lambda document, tenant, _: replace(document.policy, tenant=tenant.name)
    )
    monkeypatch.setattr(FileOwners, "problems", lambda *_: iter(()))


@pytest.fixture(scope="module")
def unchanged(clusters: Clusters) -> Clusters:
    """The clusters, filled once: nothing outside of what team a has is to change."""
    clusters.fill()
    return clusters


_TRIED = (
    "a namespace of the other",
    "priority of a DownscalePolicy",
    "the pod picker of the other",
    "placement in a namespace of the other",
    "pods with the rights of another ServiceAccount",
    "everything, and Services",
    "namespaces by label",
    "everything down to zero",
)
"""What `make test` tries: each kind of write, each job, and each way to select; `make soak` tries the others."""


def _reaching() -> Iterator[Any]:
    for one in (*REFUSED, *EMPTY):
        yield pytest.param(one.values[0], id=str(one.id), marks=() if one.id in _TRIED else pytest.mark.soak)


NO_WRITE = (
    "a query about the other",
    "namespaces of Kubernetes",
    "observing everything",
    "the name of a platform calendar",
)
"""What writes nothing, for other reasons than whose it is."""


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("files", list(_reaching()))
def test_without_our_checks_an_overreach_ends_in_403_and_changes_nothing(
    unchanged: Clusters, tmp_path: Path, request: pytest.FixtureRequest, files: Mapping[str, str]
) -> None:
    """Nothing else stands in the way: no other policy selects anything. What no reader takes is refused there."""
    calendar = FILES["platform.yaml"].partition("---\n")[2]
    others = {"platform.yaml": calendar, "teams/a/sleep.yaml": "", "teams/b/sleep.yaml": ""}
    more = {name: text.replace("replicas: 4", "replicas: 6") for name, text in files.items()}  # of the 4 that run
    cli = a_cli(tmp_path, unchanged.accesses, {"fleet.yaml": WITH_ACCOUNTS, **others, **more})
    unchanged.fill_namespaces("dev", "team-a-web")
    before = unchanged.objects()

    said = apply(cli, NIGHT)

    after = unchanged.objects()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert {key[:2] for key in changed} <= {("dev", "team-a-web")}
    assert "ReplicaSet" not in {kind for _, _, kind, _ in after}
    actions = json.loads(said.out)["plan"]["actions"]
    reached = {one["id"] for one in actions if _is_out_of_reach(one)}
    outcomes = [one for one in json.loads(said.out)["outcomes"] if one["action"] in reached]
    assert {one["status"] for one in outcomes} <= {"failed", "skipped"}
    refused = f'User "{ACCOUNTS["a"]}" cannot '
    assert [one for one in outcomes if one["status"] == "failed" and refused not in one["message"]] == []
    if said.code != ExitCode.MALFORMED and request.node.callspec.id not in NO_WRITE:
        assert any(one["status"] == "failed" for one in outcomes), said.out


def _is_out_of_reach(action: Mapping[str, Any]) -> bool:
    """Whether it writes where team a has nothing, or makes pods, which it may not; ConfigMaps are the run's."""
    place, kind = (action["cluster"], action["object"]["namespace"]), action["object"]["kind"]
    return kind == "ReplicaSet" or (place != ("dev", "team-a-web") and kind != "ConfigMap")


def test_what_a_tenant_may_not_do_is_its_own_fault_and_its_wakes_are_done_as_the_run(
    clusters: Clusters, cli: Folder
) -> None:
    assert apply(cli, NIGHT).code == 0
    clusters.without("dev", "reconciler-team-a", "team-a-web")

    said = apply(cli, MORNING)

    assert said.code == 0, said.out + said.err
    assert set().union(*clusters.replicas().values()) == {2}
    tried = [one for one in clusters.writes() if (one.namespace, one.resource) == ("team-a-web", "deployments")]
    assert Counter((one.impersonated, one.code) for one in tried[2:]) == {(ACCOUNTS["a"], 403): 2, ("", 200): 2}

    clusters.fill_namespaces("dev")

    said = apply(cli, NIGHT)

    assert said.code == 0, "no team makes a run of all partial"
    assert clusters.replicas()["dev", "team-a-web"] == {2}
    assert clusters.replicas()["dev", "team-b-web"] == clusters.replicas()["dev", "tools"] == {0}
    failed = failures(said)
    assert {place for place, _ in failed} == {"dev/team-a-web"}
    whose = "; as serviceAccount reconciler-team-a of tenant a, at policies/fleet.yaml:12; no Event was written: "
    assert all(f'User "{ACCOUNTS["a"]}" cannot patch' in words and whose in words for _, words in failed), failed


def test_a_run_that_may_impersonate_nobody_says_so_and_wakes_all_the_same(clusters: Clusters, cli: Folder) -> None:
    assert apply(cli, NIGHT).code == 0
    clusters.without("dev", _TENANTS, deployed.OWN)
    assert apply(cli, MORNING).code == 0
    assert clusters.replicas()["dev", "team-a-web"] == {2}
    clusters.fill_namespaces("dev")

    said = apply(cli, NIGHT)

    assert said.code == ExitCode.PARTIAL
    assert clusters.replicas()["dev", "team-a-web"] == clusters.replicas()["dev", "team-b-web"] == {2}
    lacks = (
        "expected the right to impersonate serviceaccounts reconciler-team-{} in reconciler; see `reconciler doctor`"
    )
    assert {place: next(team for team in "ab" if lacks.format(team) in words) for place, words in failures(said)} == {
        "dev/team-a-web": "a",
        "dev/team-b-web": "b",
        "dev/shared-b": "b",
    }

    said = cli.call("doctor", "policies")

    assert said.code == ExitCode.PARTIAL
    assert [one.partition(" may not be impersonated (")[0] for one in tenants_in(said)[:2]] == [
        "FAIL dev a: reconciler/reconciler-team-a",
        "FAIL dev b: reconciler/reconciler-team-b",
    ]
    (role,) = yaml.safe_load_all(said.out.partition("---\n")[2])
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}
    assert role["rules"] == [rule | {"resourceNames": [f"reconciler-team-{team}"]} for team in "ab"]
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", deployed.OWN)


def test_who_wakes_by_hand_writes_as_themselves(clusters: Clusters, cli: Folder) -> None:
    assert apply(cli, NIGHT).code == 0

    said = cli.call("wake", "dev/team-a-web", "--policies", "policies", "--now", MORNING)

    assert said.code == 0, said.out + said.err
    assert clusters.replicas()["dev", "team-a-web"] == {2}
    own = [one for one in clusters.writes() if (one.namespace, one.resource) == ("team-a-web", "deployments")]
    assert {one.impersonated for one in own[2:]} == {""}


def tenants_in(said: Said) -> list[str]:
    """What `doctor` says of tenants, each after its cluster."""
    words = (line.split(maxsplit=3) for line in said.out.splitlines() if line.startswith(("OK", "WARN", "FAIL")))
    return [f"{state} {cluster} {text}" for state, cluster, check, text in words if check == "tenant"]


def test_what_doctor_prints_gives_tenants_the_rights_that_they_lack(clusters: Clusters, cli: Folder) -> None:
    for namespace in ("team-b-web", "shared-b"):
        clusters.without("prod", "reconciler-team-b", namespace)

    said = cli.call("doctor", "policies")

    assert said.code == ExitCode.PARTIAL
    (found,) = [one for one in tenants_in(said) if not one.startswith("OK")]
    assert re.fullmatch(r"FAIL prod b: reconciler/reconciler-team-b lacks \d+ rights: .*; apply the roles at .*", found)
    made = list(yaml.safe_load_all(said.out.partition("---\n")[2]))
    assert [one["kind"] for one in made] == ["Role", "RoleBinding"] * 2
    create(clusters.planes["prod"].api, made)
    wait_until(lambda: cli.call("doctor", "policies").code == 0, "doctor to find all well")
    assert apply(cli, NIGHT).code == 0
    assert clusters.replicas()["prod", "shared-b"] == {0}
    for one in reversed(made):
        clusters.planes["prod"].api.delete(Paths(clusters.planes["prod"].api).of(one))


def test_a_proxy_that_drops_the_header_is_an_error_that_says_so(clusters: Clusters, cli: Folder) -> None:
    def drop(exchange: Exchange) -> None:
        kept = {name: value for name, value in exchange.request.headers.items() if name.lower() != "impersonate-user"}
        exchange.request.headers = kept
        exchange.pass_on()

    plane = clusters.planes["dev"]
    with Proxy(plane.access(), cli.path / "proxy") as proxy:
        proxy.rule(drop, times=None)
        accesses = {**clusters.accesses, "dev": proxy.access(deployed.token(plane))}
        write_kubeconfig(cli.kubeconfig, accesses)
        said = cli.call("doctor", "policies")

    assert said.code == ExitCode.PARTIAL
    assert tenants_in(said)[0] == (
        f"FAIL dev a: reconciler/reconciler-team-a is impersonated, and the server takes that for {RUN}; let no proxy "
        "between drop the header Impersonate-User; until then all is written as this user"
    )


def test_all_that_runs_write_for_a_tenant_is_written_as_the_tenant(clusters: Clusters, tmp_path: Path) -> None:
    """Policies of the platform idle, place and shrink what is in the namespaces of a tenant."""
    api = clusters.planes["dev"].api
    rights_cluster.fill(api)
    create_missing(api, [*rights("dev"), *_bound_everywhere()])
    clusters.forget_writes()
    tenant = {
        "name": "all",
        "paths": ["teams/**"],
        "namespaces": list(rights_cluster.NAMESPACES),
        "serviceAccount": "reconciler-team-a",
        "limits": NO_LIMIT,
    }
    fleet, *others = yaml.safe_load_all(rights_cluster.POLICIES)
    fleet["spec"] |= {"tenants": [tenant], "clusters": [{"name": rights_cluster.CLUSTER}]}
    cli = Folder(
        tmp_path, write_kubeconfig(tmp_path / "kubeconfig.yaml", {rights_cluster.CLUSTER: clusters.accesses["dev"]})
    )
    cli.write("policies/fleet.yaml", yaml.safe_dump(fleet))
    cli.write("policies/rest.yaml", yaml.safe_dump_all(others))

    said = apply(cli, rights_cluster.NOW)

    assert said.code == 0, said.out + said.err
    writes = clusters.writes()
    assert {one.code // 100 for one in writes} == {2}
    assert {(one.namespace == deployed.OWN, one.impersonated) for one in writes} == {(True, ""), (False, ACCOUNTS["a"])}
    granted = {(one.verb, one.resource) for one in deployed.every_grant() if one.verb not in ("get", "list")}
    plain = {(verb, resource.partition("/")[0]) for verb, resource in granted}
    assert {(one.verb, one.resource) for one in writes} == plain - {("patch", "events")}


def _bound_everywhere() -> Iterator[Object]:
    """What a run may write, bound for team a in the namespaces of `rights_cluster`."""
    for role in (
        "reconciler-apply",
        "reconciler-apply-placement",
        "reconciler-apply-clone-sets",
        "reconciler-apply-activator",
    ):
        for namespace in rights_cluster.NAMESPACES:
            yield an_object(
                f"{RBAC}/v1",
                "RoleBinding",
                f"{role}-team-a",
                {"namespace": namespace},
                roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                subjects=[{"kind": "ServiceAccount", "name": "reconciler-team-a", "namespace": deployed.OWN}],
            )
