"""What deploy/ says, without a cluster: its roles are the table of rights, and its kustomizations hold together."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.kubernetes.rights import RIGHTS, Right, custom_rights
from reconciler.policy.load import read_policies
from reconciler.workload_kinds import WorkloadKind
from tests.cases import cases
from tests.live import chart, deployed
from tests.live.deployed import APPLY, OWN, PLAN, Grant, an_overlay, kustomized, needs_kubectl
from tests.real.objects import manifests

DOCUMENT = deployed.DEPLOY.parent / "docs" / "reference" / "rights.md"
CLONE_SET = WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")


def a_right(right: Right | Grant) -> tuple[str, str, str, bool, str]:
    return right.group, right.resource, right.verb, right.own, right.name


@pytest.mark.parametrize("apply", [False, True], ids=["plan", "apply"])
def test_the_roles_are_the_table_of_rights(apply: bool) -> None:
    table = [*RIGHTS, *custom_rights([CLONE_SET])]
    role = "reconciler-apply" if apply else PLAN
    names = (role, *(f"{role}-{part}" for part in ("placement", "clone-sets", "activator")))

    granted = [a_right(one) for one in deployed.every_grant() if one.role in names]

    assert len(granted) == len(set(granted))
    assert set(granted) == {a_right(one) for one in table if one.apply is apply}


def test_no_role_has_a_wildcard_or_secrets_of_the_whole_cluster() -> None:
    rules = [
        (one, rule)
        for one in manifests(
            *sorted(path for path in deployed.DEPLOY.rglob("*.yaml") if chart.CHART not in path.parents)
        )
        if one and one.get("kind") in ("Role", "ClusterRole")
        for rule in one["rules"]
    ]

    assert len(rules) > 15
    assert [rule for _, rule in rules if any("*" in word for part in rule.values() for word in part)] == []
    secrets = [(one["kind"], rule.get("resourceNames")) for one, rule in rules if "secrets" in rule["resources"]]
    assert secrets == [("Role", ["picker"]), ("Role", ["reconciler-kubeconfig"])]


def test_the_roles_are_bound_to_these_accounts_and_no_others() -> None:
    bound = {
        (one["kind"], one["roleRef"]["name"]): {subject["name"] for subject in one["subjects"]}
        for one in manifests(*deployed.RIGHTS)
        if one["kind"].endswith("Binding")
    }

    assert bound == {
        ("ClusterRoleBinding", "reconciler-plan"): {PLAN, APPLY},
        ("RoleBinding", "reconciler-plan"): {PLAN, APPLY},
        ("ClusterRoleBinding", "reconciler-apply"): {APPLY},
        ("RoleBinding", "reconciler-apply"): {APPLY},
        ("ClusterRoleBinding", "reconciler-apply-placement"): {APPLY},
        ("ClusterRoleBinding", "reconciler-plan-clone-sets"): {PLAN, APPLY},
        ("ClusterRoleBinding", "reconciler-apply-clone-sets"): {APPLY},
        ("RoleBinding", "reconciler-plan-activator"): {PLAN, APPLY},
        ("ClusterRoleBinding", "reconciler-apply-activator"): {APPLY},
    }


POLICIES = [one for one in deployed.admission() if one["kind"] == "ValidatingAdmissionPolicy"]
by_policy = pytest.mark.parametrize("policy", POLICIES, ids=[one["metadata"]["name"] for one in POLICIES])


OURS = f"^system:serviceaccount:{OWN}:reconciler(-.+)?$"
"""The user names that admission policies are about."""


def test_all_of_our_accounts_and_those_of_tenants_are_what_admission_policies_are_about() -> None:
    files = (*deployed.MEMBER, deployed.ACTIVATOR_RIGHTS, deployed.PICKER_RIGHTS, deployed.TENANTS / "team-a.yaml")
    accounts = [one["metadata"] for one in manifests(*files) if one["kind"] == "ServiceAccount"]
    names = [f"system:serviceaccount:{one['namespace']}:{one['name']}" for one in accounts]

    assert len(names) == 5
    assert all(re.search(OURS, name) for name in names)
    assert not any(re.search(OURS, f"{name}") for name in ("system:serviceaccount:other:reconciler", "reconciler"))


@by_policy
def test_an_admission_policy_is_about_our_accounts_and_answers_403(policy: Any) -> None:
    expression = "has(request.userInfo.username) && request.userInfo.username.matches('{}')"
    assert policy["spec"]["matchConditions"] == [{"name": "ours", "expression": expression.format(OURS)}]
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert {one.get("reason") for one in policy["spec"]["validations"]} == {"Forbidden"}


def test_each_admission_policy_is_bound_and_denies() -> None:
    bindings = {
        one["metadata"]["name"]: one["spec"] for one in deployed.admission() if one["kind"].endswith("PolicyBinding")
    }

    assert bindings == {
        one["metadata"]["name"]: {"policyName": one["metadata"]["name"], "validationActions": ["Deny"]}
        for one in POLICIES
    }


def test_admission_policies_that_say_the_same_say_it_in_the_same_words() -> None:
    """They cannot share anything, and a custom kind's is a copy; what differs is of that kind, or of placement, whose
    ReplicaSets may carry annotations of their policy too.
    """
    said: dict[str, set[str]] = {}
    for policy in POLICIES:
        for variable in policy["spec"].get("variables", ()):
            said.setdefault(variable["name"], set()).add(variable["expression"])
    assert {name for name, texts in said.items() if len(texts) > 1} == {
        "allowed",
        "parts",
        "annotations",
        "formerAnnotations",
    }

    scaled, clone_sets = (
        next(one["spec"]["validations"] for one in POLICIES if one["metadata"]["name"] == f"reconciler-{name}")
        for name in ("scaled", "clone-sets")
    )
    assert [one for one in clone_sets if one not in scaled] == clone_sets[-2:]
    said_of = [one.get("message", "") for one in scaled]
    same = [words for words in said_of if "protected" in words and "no pod" not in words]
    assert [one["message"] for one in clone_sets[-2:]] == same


def rules_of(rules: Iterable[Any]) -> set[tuple[str, str, str]]:
    """(group, resource, operation) of rules of an admission policy."""
    return {
        (group, resource, operation)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in (("CREATE", "UPDATE", "DELETE") if rule["operations"] == ["*"] else rule["operations"])
    }


_ASKING = {
    ("authentication.k8s.io", "selfsubjectreviews", "CREATE"),
    *(("authorization.k8s.io", name, "CREATE") for name in ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
}
_VIRTUAL = ("discovery.k8s.io", "endpointslices/restricted", "CREATE")
"""OpenShift asks for this right where a slice leads to pods; nothing is written there."""

_OPERATIONS = {"create": "CREATE", "patch": "UPDATE", "delete": "DELETE"}


@pytest.mark.parametrize("components", [deployed.ADMISSION[:1], deployed.ADMISSION[:2], deployed.ADMISSION])
def test_what_one_policy_leaves_out_another_one_looks_at(components: tuple[str, ...]) -> None:
    constraints = {
        one["metadata"]["name"]: one["spec"]["matchConstraints"]
        for one in deployed.admission(*components)
        if one["kind"] == "ValidatingAdmissionPolicy"
    }
    assert [name for name, found in constraints.items() if "excludeResourceRules" in found] == ["reconciler-others"]
    others = constraints.pop("reconciler-others")
    looked_at = {one for found in constraints.values() for one in rules_of(found["resourceRules"])}

    assert rules_of(others["excludeResourceRules"]) == looked_at | _ASKING
    assert others["resourceRules"] == [
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    ]


def test_every_write_that_the_roles_allow_is_looked_at_by_its_own_policy() -> None:
    constraints = [
        one["spec"]["matchConstraints"] for one in POLICIES if one["metadata"]["name"] != "reconciler-others"
    ]
    looked_at = {one for found in constraints for one in rules_of(found["resourceRules"])}
    grants = [*deployed.every_grant(), *deployed.grants(manifests(deployed.ACTIVATOR_RIGHTS))]
    granted = {(one.group, one.resource, _OPERATIONS[one.verb]) for one in grants if one.verb in _OPERATIONS}

    assert looked_at | {_VIRTUAL} == granted


def test_a_run_ends_with_its_report_before_its_job_is_ended() -> None:
    (cron_job,) = manifests(deployed.CRON_JOB)
    job = cron_job["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (timeout,) = [word.partition("=")[2] for word in container["args"] if word.startswith("--timeout=")]

    assert float(timeout) + 30 < job["activeDeadlineSeconds"]
    assert job["activeDeadlineSeconds"] <= 10 * 60, "it runs every ten minutes"


def test_the_network_policy_is_that_of_the_cron_jobs_pods_and_not_of_the_activators() -> None:
    (policy,) = manifests(deployed.NETWORK)
    (cron_job,) = manifests(deployed.CRON_JOB)
    (activator,) = (one for one in manifests(deployed.ACTIVATOR) if one["kind"] == "Deployment")
    selector = policy["spec"]["podSelector"]
    without = {one["key"] for one in selector["matchExpressions"] if one["operator"] == "DoesNotExist"}
    pods = (cron_job["spec"]["jobTemplate"]["spec"]["template"], activator["spec"]["template"])
    labels = [template["metadata"]["labels"] for template in pods]

    assert policy["metadata"]["namespace"] == cron_job["metadata"]["namespace"] == OWN
    assert [selector["matchLabels"].items() <= one.items() and not without & one.keys() for one in labels] == [
        True,
        False,
    ]


def test_the_network_policy_lets_out_to_names_api_servers_and_prometheus_alone() -> None:
    (policy,) = manifests(deployed.NETWORK)
    spec = policy["spec"]
    allowed = {
        (
            *(one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in rule.get("to", ())),
            *(f"{port['protocol']} {port['port']}" for port in rule["ports"]),
        )
        for rule in spec["egress"]
    }

    assert (sorted(spec["policyTypes"]), spec["ingress"]) == (["Egress", "Ingress"], [])
    assert allowed == {
        ("kube-system", "UDP 53", "TCP 53"),
        ("TCP 443", "TCP 6443"),
        ("monitoring", "TCP 9090", "TCP 9091"),
    }


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


@needs_kubectl
@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("member", deployed.MEMBER),
        ("base", [*deployed.MEMBER, deployed.CRON_JOB]),
        ("components/picker-secrets", [deployed.PICKER_SECRETS]),
        ("components/network", [deployed.NETWORK]),
    ],
)
def test_a_kustomization_is_its_files(folder: str, files: list[Path]) -> None:
    """Who applies rights to a cluster applies what narrows them."""
    narrowed = deployed.admission("member/admission") if folder in ("member", "base") else []
    assert_same(kustomized(folder), [*manifests(*files), *narrowed])


@needs_kubectl
@cases(
    "components files folders",
    ("placement alone", ["placement"], [deployed.PLACEMENT], deployed.ADMISSION[:2]),
    ("with clone sets", ["placement", "clone-sets"], [deployed.PLACEMENT, deployed.CLONE_SETS], deployed.ADMISSION),
    ("activator alone", ["activator"], deployed.OF_ACTIVATOR, ("member/admission", "components/activator")),
    ("picker alone", ["picker"], deployed.OF_PICKER, ("member/admission",)),
    ("switches alone", ["switches"], [deployed.SWITCHES], ("member/admission", "components/switches")),
    (
        "tenants alone",
        ["tenants"],
        [deployed.TENANTS / one for one in ("impersonate.yaml", "team-a.yaml")],
        deployed.ADMISSION[:1],
    ),
    ("monitoring alone", ["monitoring"], [deployed.ALERTS, deployed.DASHBOARD], ("member/admission",)),
    ("no admission", ["no-admission"], [], ()),
    (
        "clone sets, no admission",
        ["placement", "clone-sets", "no-admission"],
        [deployed.PLACEMENT, deployed.CLONE_SETS],
        (),
    ),
    ("activator, no admission", ["activator", "no-admission"], deployed.OF_ACTIVATOR, ()),
)
def test_a_component_brings_its_rights_and_what_narrows_them(
    tmp_path: Path, components: list[str], files: list[Path], folders: tuple[str, ...]
) -> None:
    built = kustomized(an_overlay(tmp_path, components))

    narrowed = deployed.admission(*folders) if folders else []
    assert_same(built, [*manifests(*deployed.MEMBER, *files), *narrowed])


@needs_kubectl
def test_an_overlay_protects_more_namespaces_as_documented(tmp_path: Path) -> None:
    (patches,) = [block for block in blocks_of_yaml() if list(block) == ["patches"]]
    overlay = an_overlay(tmp_path, ["placement", "clone-sets"], **patches)

    said = [
        variable["expression"]
        for one in kustomized(overlay)
        for variable in one.get("spec", {}).get("variables", ())
        if variable["name"] == "protected"
    ]

    assert len(said) == 4
    assert all("'payments'" in expression for expression in said)


@needs_kubectl
def test_an_overlay_lets_out_to_more_as_documented(tmp_path: Path) -> None:
    (overlay,) = [block for block in blocks_of_yaml() if {"components", "patches"} <= block.keys()]
    shutil.copytree(deployed.DEPLOY, tmp_path / "deploy")
    folder = tmp_path / "deploy" / "mine"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"kind": "Kustomization", **overlay}))

    (built,), (written,) = kustomized(folder), manifests(deployed.NETWORK)

    assert built["spec"]["egress"][:-1] == written["spec"]["egress"]
    assert built["spec"]["egress"][-1]["ports"] == [{"protocol": "TCP", "port": 8443}]


def blocks_of_yaml() -> list[Any]:
    return [yaml.safe_load(block) for block in deployed.blocks_of(DOCUMENT, "yaml")]


def assert_same(built: Iterable[Any], written: Iterable[Any]) -> None:
    """Check that they are the same objects; a kustomization adds labels."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in built}
    wanted = {(one["kind"], one["metadata"]["name"]): one for one in written}
    assert found.keys() == wanted.keys()
    for key, one in wanted.items():
        assert {name: found[key].get(name) for name in one if name != "metadata"} == {
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
    assert_same([one for one in built if "Admission" in one["kind"]], deployed.admission("member/admission"))


def test_the_documentation_tells_what_each_right_is_for() -> None:
    told = [right for line in DOCUMENT.read_text().splitlines() for right in rights_of_row(line)]

    assert sorted(told) == sorted(
        (one.role, one.own, f"{one.verb} {one.full_name} {one.name}".strip())
        for one in deployed.grants(manifests(*deployed.RIGHTS, deployed.SWITCHES))
    )


def rights_of_row(line: str) -> list[tuple[str, bool, str]]:
    """The rights in one row of a table of rights: (role, in our own namespace, verb and resource)."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    role, _, where = cells[0].partition(", in ")
    if len(cells) != 4 or role.partition("-")[0] not in ("plan", "apply"):
        return []
    verbs, resources = cells[1].split(", "), cells[2].split(", ")
    return [(f"reconciler-{role}", bool(where), f"{verb} {resource}") for verb in verbs for resource in resources]
