"""`reconciler rbac`: what it grants for which policies; with all of them what deploy/ grants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import cases
from tests.live import deployed, rights_cluster
from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import documents, downscale, fleet, idling, policy, template
from tests.real.objects import manifests

FLEET = fleet(["east"], name="mine")
IDLING = idling("namespaces: {include: [dev]}, workloads: {kinds: [KINDS]}", name="idle-dev")
PLACEMENT = policy("FederatedReplicaSet", "web", "replicas: 3", template(image="nothing:runs"), namespace="shop")
BATCH = "namespaces: {include: [batch]}, workloads: {kinds: [Deployment]}"
DOWNSCALE = downscale(BATCH, 2, name="workers")
ZONES = downscale(BATCH, 2, "strategy: ZoneBalanced", name="workers")
_HEADER = "{name: Authorization, valueFrom: {secretKeyRef: {name: picker, key: token}}}"
_HTTP = f"{{host: picker.example, httpHeaders: [{_HEADER}]}}"
PICKER = downscale(BATCH, 2, f"podPicker: {{http: {_HTTP}}}", name="workers")
PICKING_FLEET = fleet(["east"], "podPickers: {allowedHosts: [picker.example]}", name="mine")
CLONE_SETS = IDLING.replace("KINDS", "CloneSet")
PLAIN = IDLING.replace("KINDS", "Deployment")


def printed(folder: Path, fleet: str, *policies: str, arguments: tuple[str, ...] = ()) -> Said:
    Folder(folder).write("policies/fleet.yaml", fleet)
    Folder(folder).write("policies/all.yaml", documents(*policies) or "# none\n")
    return Folder(folder).call("rbac", "policies", *arguments)


def roles(said: Said) -> list[Any]:
    assert (said.code, said.err) == (0, "")
    return list(yaml.safe_load_all(said.out))


def granted(folder: Path, *policies: str, arguments: tuple[str, ...] = ()) -> set[str]:
    """Each right that is granted, as "create replicasets.apps"."""
    return {str(one) for one in deployed.grants(roles(printed(folder, *policies, arguments=arguments)))}


@pytest.mark.parametrize("writes", [False, True], ids=["plan", "apply"])
def test_the_rights_of_all_features_are_those_of_deploy(tmp_path: Path, writes: bool) -> None:
    found = roles(printed(tmp_path, rights_cluster.POLICIES, arguments=("--activator",)))

    def rights(all_of_them: Any) -> set[tuple[str, ...]]:
        chosen = [one for one in all_of_them if one.role.startswith("reconciler-apply") is writes]
        assert len(chosen) == len({str(one) for one in chosen})
        return {(one.kind, one.group, one.resource, one.verb, one.name) for one in chosen}

    assert rights(list(deployed.grants(found))) == rights(deployed.every_grant())


def test_the_bindings_are_those_of_deploy(tmp_path: Path) -> None:
    found = [one for one in roles(printed(tmp_path, FLEET, PLAIN)) if one["kind"].endswith("Binding")]
    files = [deployed.DEPLOY / "member" / name for name in ("plan.yaml", "apply.yaml")]
    written = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one["kind"].endswith("Binding")]

    assert found == written


@cases(
    "policies arguments there absent",
    (
        "idling of Deployments",
        [PLAIN],
        (),
        {"patch replicasets.apps", "list scaledobjects.keda.sh"},
        {"create replicasets.apps", "patch pods"},
    ),
    (
        "idling without KEDA",
        [PLAIN],
        ("--no-keda",),
        {"patch deployments.apps"},
        {"list scaledobjects.keda.sh", "get scaledobjects.keda.sh"},
    ),
    (
        "placement",
        [PLACEMENT],
        (),
        {"create replicasets.apps", "delete replicasets.apps", "patch pods"},
        {"list nodes"},
    ),
    (
        "downscale in default order",
        [DOWNSCALE],
        (),
        {"get pods", "patch pods"},
        {"create replicasets.apps", "list nodes"},
    ),
    ("downscale balanced by zone", [ZONES], (), {"list nodes"}, {"create replicasets.apps"}),
    (
        "custom kind",
        [CLONE_SETS],
        (),
        {"patch clonesets.apps.kruise.io/scale", "get customresourcedefinitions.apiextensions.k8s.io"},
        {"list rollouts.argoproj.io"},
    ),
    (
        "custom kind in lower case",
        [IDLING.replace("KINDS", "cloneset")],
        (),
        {"patch clonesets.apps.kruise.io/scale"},
        set(),
    ),
    (
        "no custom kind",
        [PLAIN],
        (),
        set(),
        {"list clonesets.apps.kruise.io", "get customresourcedefinitions.apiextensions.k8s.io"},
    ),
    (
        "no activator",
        [PLAIN],
        (),
        set(),
        {"delete endpointslices.discovery.k8s.io", "list leases.coordination.k8s.io of our own"},
    ),
    (
        "with the activator",
        [PLAIN],
        ("--activator",),
        {"delete endpointslices.discovery.k8s.io", "list leases.coordination.k8s.io of our own"},
        {"create endpointslices.discovery.k8s.io"},
    ),
)
def test_a_right_is_there_where_policies_need_it(
    tmp_path: Path, policies: list[str], arguments: tuple[str, ...], there: set[str], absent: set[str]
) -> None:
    found = granted(tmp_path, FLEET, *policies, arguments=arguments)

    assert there <= found
    assert not absent & found


ON_ONE = "  selector: {clusters: {include: [east]}, "
ELSEWHERE = FLEET.replace("[{name: east}]", "[{name: east}, {name: west}, {name: south, state: ReadOnly}]")


def test_a_cluster_gets_what_the_policies_about_it_need(tmp_path: Path) -> None:
    policies = (
        ELSEWHERE,
        CLONE_SETS.replace("  selector: {", ON_ONE),
        ZONES.replace("  selector: {", ON_ONE),
    )
    east, west, south = (
        granted(tmp_path, *policies, arguments=("--cluster", name)) for name in ("east", "west", "south")
    )

    assert east - west == {
        "list nodes",
        "get pods",
        "patch pods",
        "get customresourcedefinitions.apiextensions.k8s.io",
        *(f"{verb} clonesets.apps.kruise.io" for verb in ("list", "get", "patch")),
        "patch clonesets.apps.kruise.io/scale",
    }
    assert west < east == granted(tmp_path, *policies)
    assert {one.split()[0] for one in south} == {"get", "list"}
    unknown = printed(tmp_path, *policies, arguments=("--cluster", "north"))
    assert unknown.err == "error: --cluster: the Fleet has no cluster north, expected one of east, west, south\n"


def test_what_something_else_makes_is_not_made(tmp_path: Path) -> None:
    target = PLACEMENT.partition("  selector:")[0] + "  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
    found = granted(tmp_path, FLEET, target + "  preferences: {clusters: {east: {weight: 1}}}\n")

    assert "patch pods" in found
    assert not {"create replicasets.apps", "delete replicasets.apps"} & found


def test_a_custom_kind_is_served_where_the_flag_says(tmp_path: Path) -> None:
    web_apps = IDLING.replace("KINDS", "WebApp, Job1, StatefulSet.apps.kruise.io")

    missing = printed(tmp_path, FLEET, web_apps)
    assert (missing.code, missing.out) == (64, "")
    assert missing.err == (
        "error: --kind: policies name Job1, StatefulSet.apps.kruise.io, WebApp, expected --kind Job1=PLURAL.GROUP "
        "--kind StatefulSet=PLURAL.apps.kruise.io --kind WebApp=PLURAL.GROUP\n"
    )

    served = ("WebApp=webapps", "Job1=jobs1", "No=nos")
    flags = [part for one in served for part in ("--kind", f"{one}.example.com")]
    found = granted(tmp_path, FLEET, web_apps, arguments=(*flags, "--kind", "StatefulSet=statefulsets.apps.kruise.io"))
    assert {"list webapps.example.com", "patch webapps.example.com/scale", "patch jobs1.example.com"} <= found
    assert "list nos.example.com" not in found


@pytest.mark.parametrize("text", ["WebApp", "WebApp=webapps", "webapps.example.com", "WebApp=Webapps.example.com"])
def test_a_kind_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    said = printed(tmp_path, FLEET, PLAIN, arguments=("--kind", text))

    assert said.code == 64
    assert f'"{text}" is not a kind, expected KIND=PLURAL.GROUP' in said.err


def test_a_picker_reads_its_secret_in_the_namespaces_that_are_named(tmp_path: Path) -> None:
    found = roles(printed(tmp_path, PICKING_FLEET, PICKER.replace("[batch]", "[jobs, batch]")))

    secrets = [one for one in found if one["metadata"]["name"] == "reconciler-picker-secrets"]
    assert [(one["kind"], one["metadata"]["namespace"]) for one in secrets] == [
        ("Role", "batch"),
        ("RoleBinding", "batch"),
        ("Role", "jobs"),
        ("RoleBinding", "jobs"),
    ]
    assert secrets[0]["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["picker"], "verbs": ["get"]}
    ]
    assert secrets[1]["subjects"] == manifests(deployed.PICKER_SECRETS)[1]["subjects"], (
        "what is applied takes its place"
    )


def test_a_secret_in_namespaces_by_pattern_is_told(tmp_path: Path) -> None:
    fleet = PICKING_FLEET.replace("{name: east}", "{name: east}, {name: west, state: ReadOnly}")
    pickers = PICKER.replace("[batch]", '["batch-*"]')
    said = printed(tmp_path, fleet, pickers)

    assert printed(tmp_path, fleet, pickers, arguments=("--cluster", "west")).err == "", "none is read there"
    assert said.code == 0
    assert said.err.startswith("warning: DownscalePolicy workers: its pod picker wants Secret picker in namespaces")
    assert "secrets" not in said.out


def test_accounts_of_tenants_are_impersonated_by_name_where_they_have_the_cluster(tmp_path: Path) -> None:
    where = "namespaces: [team-a-web], clusters: [east], serviceAccount: reconciler-team-a"
    teams = fleet(["east", "west"], f"tenants: [{{name: team-a, paths: [team-a], {where}}}]", name="mine")

    for arguments, impersonated in (
        ((), {"impersonate serviceaccounts reconciler-team-a of our own"}),
        (("--cluster", "east"), {"impersonate serviceaccounts reconciler-team-a of our own"}),
        (("--cluster", "west"), set()),
    ):
        found = granted(tmp_path, teams, PLAIN, arguments=arguments)
        assert {one for one in found if "impersonate" in one} == impersonated


def test_wrong_policies_are_told_and_nothing_is_printed(tmp_path: Path) -> None:
    said = printed(tmp_path, FLEET, PLAIN.replace("idleWhen", "idleWhenever"))

    assert (said.code, said.out) == (3, "")
    assert "idleWhenever" in said.err


@pytest.mark.parametrize("state", ["Active", "ReadOnly"])
def test_the_right_to_renew_its_token_is_that_of_the_component(tmp_path: Path, state: str) -> None:
    fleet = FLEET.replace("{name: east}", f"{{name: east, state: {state}}}")

    said = printed(tmp_path, fleet, PLAIN, arguments=("--cluster", "east", "--own-token"))

    found = [one for one in yaml.safe_load_all(said.out) if one["metadata"]["name"] == "reconciler-own-token"]
    assert found == manifests(deployed.OWN_TOKEN)
    assert ("reconciler-apply" in said.out) is (state == "Active")
