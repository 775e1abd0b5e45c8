"""What deploy/ says, without a cluster: its roles are the table of rights, and its kustomizations hold together."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.kubernetes.rights import RIGHTS, Right, custom_rights
from reconciler.model import ScaleKind
from reconciler.policy.validate import read_policies
from tests.live import deployed
from tests.live.deployed import APPLY, OWN, PLAN, Grant
from tests.real.objects import manifests

CLONE_SET = ScaleKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")


def a_right(right: Right | Grant) -> tuple[str, str, str, bool, str]:
    return right.group, right.resource, right.verb, right.own, right.name


@pytest.mark.parametrize("apply", [False, True], ids=["plan", "apply"])
def test_the_roles_are_the_table_of_rights(apply: bool) -> None:
    table = [*RIGHTS, *custom_rights([CLONE_SET])]
    names = ("reconciler-apply", "reconciler-apply-clone-sets") if apply else (PLAN, "reconciler-plan-clone-sets")

    granted = [a_right(one) for one in deployed.every_grant() if one.role in names]

    assert len(granted) == len(set(granted))
    assert set(granted) == {a_right(one) for one in table if one.apply is apply and one.use != "podPicker"}


def test_no_role_has_a_wildcard_or_secrets_of_the_whole_cluster() -> None:
    rules = [
        (one, rule)
        for one in manifests(*sorted(deployed.DEPLOY.rglob("*.yaml")))
        if one and one.get("kind") in ("Role", "ClusterRole")
        for rule in one["rules"]
    ]

    assert len(rules) > 15
    assert [rule for _, rule in rules if any("*" in word for part in rule.values() for word in part)] == []
    secrets = [(one["kind"], rule.get("resourceNames")) for one, rule in rules if "secrets" in rule["resources"]]
    assert secrets == [("Role", ["picker"])]


def test_the_roles_are_bound_to_these_accounts_and_no_others() -> None:
    bound = {
        (one["kind"], one["roleRef"]["name"]): {subject["name"] for subject in one["subjects"]}
        for one in manifests(*deployed.MEMBER, deployed.CLONE_SETS)
        if one["kind"].endswith("Binding")
    }

    assert bound == {
        ("ClusterRoleBinding", "reconciler-plan"): {PLAN, APPLY},
        ("RoleBinding", "reconciler-plan"): {PLAN, APPLY},
        ("ClusterRoleBinding", "reconciler-apply"): {APPLY},
        ("RoleBinding", "reconciler-apply"): {APPLY},
        ("ClusterRoleBinding", "reconciler-plan-clone-sets"): {PLAN, APPLY},
        ("ClusterRoleBinding", "reconciler-apply-clone-sets"): {APPLY},
    }


def test_a_run_ends_with_its_report_before_its_job_is_ended() -> None:
    (cron_job,) = manifests(deployed.CRON_JOB)
    job = cron_job["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (timeout,) = [word.partition("=")[2] for word in container["args"] if word.startswith("--timeout=")]

    assert float(timeout) + 30 < job["activeDeadlineSeconds"]
    assert job["activeDeadlineSeconds"] <= 10 * 60, "it runs every ten minutes"


def test_the_policies_of_the_example_are_read_as_a_mounted_config_map(tmp_path: Path) -> None:
    """The kubelet mounts it as links to a folder whose name changes."""
    data = tmp_path / "..2026_11_20_22_00_00.1"
    shutil.copytree(deployed.DEPLOY / "example" / "policies", data)
    (tmp_path / "..data").symlink_to(data.name)
    for file in data.iterdir():
        (tmp_path / file.name).symlink_to(Path("..data") / file.name)

    found = read_policies(tmp_path)

    assert [cluster.name for cluster in found.fleet.clusters] == ["eu-west", "us-east"]
    assert found.fleet.namespace == OWN
    assert len(found.idling) == 1


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")


@needs_kubectl
@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("member", deployed.MEMBER),
        ("base", [*deployed.MEMBER, deployed.CRON_JOB]),
        ("components/clone-sets", [deployed.CLONE_SETS]),
        ("components/picker-secrets", [deployed.PICKER_SECRETS]),
    ],
)
def test_a_kustomization_is_its_files(folder: str, files: list[Path]) -> None:
    built = {(one["kind"], one["metadata"]["name"]): one for one in kustomized(folder)}
    written = {(one["kind"], one["metadata"]["name"]): one for one in manifests(*files)}

    assert built.keys() == written.keys()
    for key, one in written.items():
        assert {name: built[key].get(name) for name in one if name != "metadata"} == {
            name: value for name, value in one.items() if name != "metadata"
        }


@needs_kubectl
def test_the_example_mounts_its_policies_and_its_kubeconfig() -> None:
    built = list(kustomized("example"))
    (cron_job,) = [one for one in built if one["kind"] == "CronJob"]
    (policies,) = [one for one in built if one["kind"] == "ConfigMap"]
    pod = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in pod["volumes"]}

    assert volumes["policies"]["configMap"]["name"] == policies["metadata"]["name"]
    assert policies["metadata"]["namespace"] == OWN
    assert volumes["kubeconfig"]["secret"]["secretName"] == "reconciler-kubeconfig"
    assert {"name": "KUBECONFIG", "value": "/etc/reconciler/kubeconfig"} in pod["containers"][0]["env"]
    assert pod["containers"][0]["image"] == "registry.example/platform/reconciler:0.1.0"


def kustomized(folder: str) -> list[Any]:
    command = ["kubectl", "kustomize", str(deployed.DEPLOY / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


DOCUMENT = deployed.DEPLOY.parent / "docs" / "deploy.md"


def test_the_documentation_tells_what_each_right_is_for() -> None:
    told = [right for line in DOCUMENT.read_text().splitlines() for right in rights_of_row(line)]

    assert sorted(told) == sorted(
        (one.role, one.own, f"{one.verb} {one.full_name} {one.name}".strip()) for one in deployed.every_grant()
    )


def rights_of_row(line: str) -> list[tuple[str, bool, str]]:
    """The rights in one row of a table of rights: (role, in our own namespace, verb and resource)."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    role, _, where = cells[0].partition(", in ")
    if len(cells) != 4 or role.partition("-")[0] not in ("plan", "apply"):
        return []
    verbs, resources = cells[1].split(", "), cells[2].split(", ")
    return [(f"reconciler-{role}", bool(where), f"{verb} {resource}") for verb in verbs for resource in resources]
