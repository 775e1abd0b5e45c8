"""`--tenant`: a team sees its own part, whatever others wrote, and reads nothing but its namespaces."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from reconciler.backends.protocols import NODES
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.errors import ForbiddenError
from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.teams import FLEET, NIGHT, SLEEP, two_teams

BROKEN = SLEEP.replace("selector:", "selektor:")


@pytest.fixture
def folder(tmp_path) -> Folder:
    return two_teams(Folder(tmp_path))


def objects(out: str) -> set[tuple[str, str]]:
    return {(one["cluster"], one["object"]["namespace"]) for one in json.loads(out)["actions"]}


def test_the_plan_of_a_tenant_is_its_own_part(folder):
    assert objects(folder.plan(NIGHT, "--tenant", "a", "-o", "json").out) == {("dev", "team-a-web")}
    assert objects(folder.plan(NIGHT, "--tenant", "b", "-o", "json").out) == {
        (cluster, namespace) for cluster in ("dev", "prod") for namespace in ("team-b-web", "shared-b")
    }


def test_what_the_platform_does_there_is_part_of_it(folder):
    everywhere = SLEEP.replace("name: sleep", "name: everywhere")
    folder.write("policies/everywhere.yaml", everywhere)
    said = json.loads(folder.plan(NIGHT, "--tenant", "a", "-o", "json").out)
    assert {one["cause"]["policy"] for one in said["actions"]} == {"everywhere"}


def test_the_broken_file_of_the_other_is_none_of_its_business(folder):
    folder.write("policies/teams/a/sleep.yaml", BROKEN)
    assert folder.call("validate", "policies").code == 3
    assert folder.call("validate", "policies", "--tenant", "b").code == 0
    own = folder.call("validate", "policies", "--tenant", "a")
    assert (own.code, own.err.splitlines()[0].startswith("error: policies/teams/a/sleep.yaml:5:3")) == (3, True)
    assert folder.plan(NIGHT, "--tenant", "b").code == 0
    assert folder.plan(NIGHT, "--tenant", "a").code == 3


def test_a_platform_problem_is_everybodys(folder):
    folder.write("policies/platform.yaml", "a: [")
    assert folder.call("validate", "policies", "--tenant", "b").code == 3


@pytest.mark.parametrize("verb", ["plan", "diff", "validate", "forecast", "explain"])
def test_a_name_that_is_none_is_refused(folder, verb):
    subject = ("dev/team-a-web", "--policies", "policies") if verb == "explain" else ("policies",)
    more = () if verb == "validate" else ("--snapshot", "snapshot", "--now", NIGHT)
    said = folder.call(verb, *subject, "--tenant", "c", *more)
    assert (said.code, '--tenant: "c" is none of 2 tenants of the Fleet' in said.err) == (64, True)


def test_a_comparison_of_a_tenant_is_of_its_own_part(folder):
    shutil.copytree(folder.path / "policies", folder.path / "base")
    for team in ("a", "b"):
        folder.write(f"policies/teams/{team}/sleep.yaml", SLEEP.replace("20:00", "21:00"))
    said = folder.plan(NIGHT, "--tenant", "a", "--base", "base", "--days", "1", "-o", "json")
    assert said.code == 0, said.err
    assert ("team-a-web" in said.out, "team-b" in said.out, "shared-b" in said.out) == (True, False, False)
    whole = folder.plan(NIGHT, "--base", "base", "--days", "1", "-o", "json").out
    assert all(f"IdlingPolicy {team}/sleep" in whole for team in ("a", "b"))


def test_a_comparison_of_a_tenant_does_not_mind_what_is_broken_of_another_one_or_was_not_there(folder):
    shutil.copytree(folder.path / "policies", folder.path / "base")
    folder.write("base/teams/b/sleep.yaml", BROKEN)
    compare = ("--base", "base", "--days", "1", "-o", "json")
    assert folder.plan(NIGHT, "--tenant", "a", *compare).code == 0
    assert folder.plan(NIGHT, "--tenant", "b", *compare).code == 6
    folder.write("base/fleet.yaml", FLEET.partition("  tenants:")[0])
    shutil.rmtree(folder.path / "base" / "teams")
    said = folder.plan(NIGHT, "--tenant", "a", *compare)
    assert (said.code, "a/sleep" in said.out) == (0, True)


def test_compile_prints_the_names_that_were_written_with_the_tenant_beside_them(folder):
    rules = json.loads(folder.call("compile", "policies", "-o", "json").out)["rules"]
    found = {(one.get("tenant", ""), one["metadata"]["name"]) for one in rules if one["kind"] == "IdlingPolicy"}
    assert found == {("a", "sleep"), ("b", "sleep"), ("", "tools")}
    assert {one["spec"]["wakeOrder"]["group"] for one in rules if one["kind"] == "IdlingPolicy"} == {"sleep", "tools"}


def test_explain_of_a_tenant_reads_nothing_else(folder):
    folder.write("policies/teams/b/sleep.yaml", BROKEN)
    at = ("--policies", "policies", "--snapshot", "snapshot", "--now", NIGHT, "--tenant", "a")
    said = folder.call("explain", "dev/team-a-web", *at)
    assert (said.code, "a/sleep" in said.out, "teams/b" in said.err) == (0, True, False)
    other = folder.call("explain", "dev/team-b-web", *at)
    assert (other.code, "team-b-web is no namespace of tenant a, expected one of team-a-*" in other.err) == (64, True)


def test_diff_and_forecast_of_a_tenant(folder):
    at = ("--snapshot", "snapshot", "--now", NIGHT, "--tenant", "a")
    assert "team-b" not in folder.call("diff", "policies", *at).out
    said = folder.call("forecast", "policies", *at, "--days", "1", "-v")
    assert (said.code, "team-a-web" in said.out, "team-b" in said.out) == (0, True, False)


@cases(
    "namespaces code",
    ("names need rights there only", "[team-a-web]", 0),
    ("patterns", '["team-a-*"]', 1),
)
def test_rights_in_its_namespaces_are_enough(folder, monkeypatch, namespaces, code):
    """Whoever reads may list what is in team-a-web, and get that Namespace, and nothing else."""
    folder.write("policies/fleet.yaml", FLEET.replace('["team-a-*"]', namespaces))
    listed, got = SnapshotCluster.list, SnapshotCluster.get

    def list_there(self: Any, resource: Any, namespace: str = "", labels: str = "") -> Any:
        if namespace != "team-a-web" and resource != NODES:
            raise ForbiddenError(f"may not list {resource.plural} in {namespace or 'all namespaces'}")
        return listed(self, resource, namespace=namespace, labels=labels)

    def get_there(self: Any, resource: Any, namespace: str, name: str) -> Any:
        if "team-a-web" not in (namespace, name):
            raise ForbiddenError(f"may not get {name}")
        return got(self, resource, namespace, name)

    def no_identity(self: Any) -> str:
        raise ForbiddenError("may not get kube-system")

    monkeypatch.setattr(SnapshotCluster, "list", list_there)
    monkeypatch.setattr(SnapshotCluster, "get", get_there)
    monkeypatch.setattr(SnapshotCluster, "identity", no_identity)
    said = folder.plan(NIGHT, "--tenant", "a", "-o", "json")
    assert objects(said.out) == ({("dev", "team-a-web")} if code == 0 else set())
    assert (said.code == 0) is (code == 0)
