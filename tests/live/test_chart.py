"""The Helm chart: its templates are made of the kustomizations, make the same objects, and its values are checked."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live import chart, deployed, rights_cluster
from tests.live.chart import CHART, COMPONENTS
from tests.live.deployed import needs_kubectl
from tests.pipeline.calls import Folder
from tests.real.fixtures import missing_part_skips, started
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import manifests

ALL: Mapping[str, Any] = {
    "image": {"repository": "reconciler"},
    "components": {
        **{name: {"enabled": True} for name in COMPONENTS.values()},
        "tenants": {"enabled": True, "teams": [{"name": "team-a", "namespaces": ["team-a-web"]}]},
        "pickerSecrets": {"enabled": True, "secrets": {"batch": ["picker"]}},
    },
}
"""Values with all components, as kustomizations have them."""


def test_the_templates_are_what_the_generator_makes() -> None:
    made = chart.templates()

    assert {path: path.read_text() for path in made} == made, "python -m tests.live.write_deploy"
    by_hand = {path.name for path in (CHART / "templates").iterdir()} - {path.name for path in made}
    assert by_hand == {"NOTES.txt", "_helpers.tpl", "policies.yaml"}


def test_every_component_is_in_the_chart() -> None:
    folders = {path.name for path in (deployed.DEPLOY / "components").iterdir()}

    assert folders == {*COMPONENTS, "no-admission"}, "which is admission.enabled: false"


def test_the_version_is_that_of_the_package(repository: Path) -> None:
    said = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (repository / "pyproject.toml").read_text()

    assert said["version"] == said["appVersion"]
    assert f'version = "{said["appVersion"]}"' in project


@pytest.fixture(scope="module")
def helm() -> Path:
    from tests.real.binaries import binary

    with missing_part_skips():
        return binary("helm")


@pytest.fixture
def rendered(helm: Path, tmp_path: Path) -> Any:
    def render(values: Mapping[str, Any]) -> Any:
        said = called(helm, tmp_path, "template", "reconciler", str(CHART), values=values)
        assert said.returncode == 0, said.stderr
        return [one for one in yaml.safe_load_all(said.stdout) if one is not None]

    return render


def called(
    helm: Path, folder: Path, *arguments: str, values: Mapping[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call helm, which finds and leaves nothing outside of `folder`."""
    (folder / "values.yaml").write_text(json.dumps(values or {}))
    environment = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(helm), *arguments, "--values", str(folder / "values.yaml")]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


NONE: Mapping[str, Any] = {"image": {"repository": "reconciler"}}
MEMBER: Mapping[str, Any] = {"cronJob": {"enabled": False}}


_SOME = [[name for number, name in enumerate(COMPONENTS, 1) if number >> bit & 1] for bit in range(4)]
"""Components together, of each two of which one is somewhere without the other."""


@pytest.mark.real
@needs_kubectl
@pytest.mark.parametrize(
    ("values", "folder", "components"),
    [
        pytest.param(NONE, "base", [], id="no component"),
        pytest.param(MEMBER, "member", [], id="member"),
        pytest.param(ALL, "base", [*COMPONENTS], id="all components"),
        pytest.param(
            {**ALL, "admission": {"enabled": False}}, "base", [*COMPONENTS, "no-admission"], id="no admission"
        ),
        *(
            pytest.param(
                {**NONE, "components": {COMPONENTS[name]: ALL["components"][COMPONENTS[name]] for name in names}},
                "base",
                names,
                id=" ".join(names),
            )
            for names in _SOME
        ),
    ],
)
def test_it_makes_what_the_kustomization_makes(
    rendered: Any, tmp_path: Path, values: Mapping[str, Any], folder: str, components: list[str]
) -> None:
    overlay = deployed.an_overlay(tmp_path, components, folder)

    assert without_helms(rendered(values)) == without_helms(deployed.kustomized(overlay))


_HELMS = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}
_ON_ALL = "app.kubernetes.io/name"
"""Charts give it to all their objects; kustomizations to those of a member cluster."""


def without_helms(objects: Iterable[Any]) -> dict[tuple[str, ...], Any]:
    """Each object by kind, namespace and name, without what Helm and charts add to its metadata."""
    found: dict[tuple[str, ...], Any] = {}
    for one in objects:
        metadata = one["metadata"]
        labels = {key: value for key, value in metadata.pop("labels", {}).items() if key not in {*_HELMS, _ON_ALL}}
        annotations = metadata.pop("annotations", {})
        annotations.pop("helm.sh/resource-policy", None)
        metadata |= {name: value for name, value in (("labels", labels), ("annotations", annotations)) if value}
        key = (one["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found
        found[key] = one
    return found


@pytest.mark.real
@pytest.mark.parametrize("values", [{}, ALL], ids=["as it is", "all components"])
def test_helm_lint_has_nothing_to_say(helm: Path, tmp_path: Path, values: Mapping[str, Any]) -> None:
    said = called(helm, tmp_path, "lint", "--strict", str(CHART), values=values)

    assert said.returncode == 0, said.stdout
    assert [line for line in said.stdout.splitlines() if line.startswith(("[ERROR]", "[WARNING]"))] == []


@pytest.mark.real
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "image.repository: is empty, expected the image that you built"),
        ({"component": {}}, "component"),
        ({"components": {"placement": {"enabled": "yes"}}}, "/components/placement/enabled"),
        ({"components": {"tenants": {"enabled": True}}}, "/components/tenants/teams"),
        ({"components": {"pickerSecrets": {"enabled": True}}}, "/components/pickerSecrets/secrets"),
        ({"components": {"pickerSecrets": {"enabled": True, "secrets": {"batch": []}}}}, "secrets/batch"),
        ({"admission": {"protectedNamespaces": ["shop', 'bank"]}}, "/admission/protectedNamespaces/0"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"image": {"repository": "reconciler", "tag": "a:b"}}, "/image/tag"),
    ],
)
def test_values_that_are_wrong_are_refused(helm: Path, tmp_path: Path, values: Mapping[str, Any], words: str) -> None:
    said = called(helm, tmp_path, "template", "reconciler", str(CHART), values=values)

    assert said.returncode != 0
    assert words in said.stderr


@pytest.mark.real
def test_the_roles_that_rbac_prints_can_be_left_to_it(rendered: Any, tmp_path: Path) -> None:
    with_all, without = (without_helms(rendered({**ALL, "roles": {"create": create}})) for create in (True, False))
    Folder(tmp_path).write("policies/all.yaml", rights_cluster.POLICIES)
    printed = {key[:1] + key[2:] for key in without_helms(yaml.safe_load_all(Folder(tmp_path).call("rbac").out))}

    gone = {(kind, name) for kind, _, name in with_all.keys() - without.keys()}
    assert {
        one for one in gone if not one[1].endswith(("-placement", "-clone-sets", "-switches", "-activator"))
    } == printed
    assert {role["metadata"]["name"] for role in deployed_roles()} == {name for _, name in gone}


def deployed_roles() -> list[Any]:
    return [one for one in manifests(*deployed.RIGHTS, deployed.SWITCHES) if one["kind"] in ("Role", "ClusterRole")]


@pytest.mark.real
def test_values_reach_what_they_are_for(rendered: Any) -> None:
    values = {
        "image": {"repository": "registry.example/reconciler", "tag": "0.1.0", "pullSecrets": [{"name": "pull"}]},
        "serviceAccount": {"annotations": {"example.com/role": "reconciler"}},
        "policies": {"configMap": "mine", "files": {"fleet.yaml": "kind: Fleet\n"}},
        "cronJob": {"schedule": "*/5 * * * *", "extraArgs": ["--fail-on", "held-back"], "nodeSelector": {"a": "b"}},
        "admission": {"protectedNamespaces": ["payments"]},
        "components": {
            "tenants": {
                "enabled": True,
                "teams": [{"name": "a", "namespaces": ["x", "y"]}, {"name": "b", "namespaces": ["z"]}],
            },
            "pickerSecrets": {"enabled": True, "secrets": {"batch": ["one", "two"], "jobs": ["three"]}},
        },
    }
    found = without_helms(rendered(values))

    job = found["CronJob", "reconciler", "reconciler"]["spec"]
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["schedule"], container["image"]) == ("*/5 * * * *", "registry.example/reconciler:0.1.0")
    assert container["args"][-2:] == ["--fail-on", "held-back"]
    assert (pod["imagePullSecrets"], pod["nodeSelector"]) == ([{"name": "pull"}], {"a": "b"})
    assert pod["volumes"][0] == {"name": "policies", "configMap": {"name": "mine"}}
    assert found["ConfigMap", "reconciler", "mine"]["data"] == {"fleet.yaml": "kind: Fleet\n"}
    account = found["ServiceAccount", "reconciler", "reconciler"]
    assert account["metadata"]["annotations"] == {"example.com/role": "reconciler"}
    said = [text for one in found.values() for text in protected(one)]
    assert len(said) == 2
    assert all(text.endswith("'reconciler', 'payments']") for text in said)
    bound = {key for key in found if key[0] == "RoleBinding" and key[2] in ("reconciler-a", "reconciler-b")}
    assert {key[1:] for key in bound} == {("x", "reconciler-a"), ("y", "reconciler-a"), ("z", "reconciler-b")}
    assert named(found["Role", "reconciler", "reconciler-tenants"]) == ["reconciler-a", "reconciler-b"]
    assert named(found["Role", "batch", "reconciler-picker-secrets"]) == ["one", "two"]
    assert named(found["Role", "jobs", "reconciler-picker-secrets"]) == ["three"]


def protected(one: Any) -> Iterator[str]:
    for variable in one.get("spec", {}).get("variables", ()):
        if variable["name"] == "protected":
            yield variable["expression"]


def named(role: Any) -> Any:
    (rule,) = role["rules"]
    return rule["resourceNames"]


PAGE = deployed.DEPLOY.parent / "docs" / "how-to" / "deploy.md"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Any]:
    from tests.real.control_plane import API_ONLY, ControlPlane

    with started(ControlPlane(tmp_path / "plane", API_ONLY)) as plane:
        yield plane


@pytest.mark.real
@needs_kubectl
def test_the_commands_of_the_documentation_install_and_its_end_leaves_what_runs_noted(
    helm: Path, plane: Any, tmp_path: Path
) -> None:
    section = tmp_path / "page.md"
    section.write_text(PAGE.read_text().partition("\n## With Helm\n")[2].partition("\n## ")[0])
    (values,) = deployed.blocks_of(section, "yaml")
    (tmp_path / "values.yaml").write_text(values)
    (tmp_path / "deploy").symlink_to(deployed.DEPLOY)
    access = plane.access()
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"eu-west": access, "us-east": access})
    homes = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}

    def run(script: str) -> str:
        return deployed.shell(script, tmp_path, kubeconfig, helm.parent, **homes)

    first, others = deployed.blocks_of(section, "bash")
    assert "cronjob.batch/reconciler" in run(first)
    data = plane.api.get("/api/v1/namespaces/reconciler/configmaps/reconciler-policies")["data"]
    assert data.keys() == {"fleet.yaml", "idling.yaml"}
    assert deployed.may(plane.api, deployed.every_grant()[0], "reconciler") is True
    assert "A run elsewhere connects" in run(others)
    assert plane.api.find("/apis/batch/v1/namespaces/reconciler/cronjobs/reconciler") is None

    run("helm uninstall reconciler")
    assert plane.api.find("/api/v1/namespaces/reconciler") is not None
    assert plane.api.find("/apis/rbac.authorization.k8s.io/v1/clusterroles/reconciler-apply") is None
    run("kubectl apply -k deploy/member")
    assert "STATUS: deployed" in run(others.replace("upgrade --install", "upgrade --install --take-ownership"))
