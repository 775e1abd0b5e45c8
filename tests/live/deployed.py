"""The manifests of deploy/, and what they allow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest
import yaml

from reconciler.backends.patched_values import patched
from reconciler.model import PatchOperation
from tests.real.api import APPLY_PATCH, MERGE_PATCH, Api, ApiError, Object
from tests.real.cluster import Paths, create_missing, wait_until
from tests.real.objects import a_deployment, manifests

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MEMBER = [DEPLOY / "member" / file for file in ("namespace.yaml", "service-accounts.yaml", "plan.yaml", "apply.yaml")]
PLACEMENT = DEPLOY / "components" / "placement" / "rights.yaml"
CLONE_SETS = DEPLOY / "components" / "clone-sets" / "rights.yaml"
SWITCHES = DEPLOY / "components" / "switches" / "rights.yaml"
ACTIVATOR_RUN = DEPLOY / "components" / "activator" / "run-rights.yaml"
ACTIVATOR_RIGHTS = DEPLOY / "components" / "activator" / "rights.yaml"
ACTIVATOR = DEPLOY / "components" / "activator" / "deployment.yaml"
OF_ACTIVATOR = (ACTIVATOR_RIGHTS, ACTIVATOR_RUN, ACTIVATOR)
RIGHTS = (*MEMBER, PLACEMENT, CLONE_SETS, ACTIVATOR_RUN)
"""All that our ServiceAccounts for runs may get."""

PICKER_RIGHTS, PICKER, PICKER_WEBHOOK = (
    DEPLOY / "components" / "picker" / file for file in ("rights.yaml", "deployment.yaml", "webhook.yaml")
)
OF_PICKER = (PICKER_RIGHTS, PICKER, PICKER_WEBHOOK)
PICKER_SECRETS = DEPLOY / "components" / "picker-secrets" / "rights.yaml"
NETWORK = DEPLOY / "components" / "network" / "network-policy.yaml"
TENANTS = DEPLOY / "components" / "tenants"
ALERTS = DEPLOY / "components" / "monitoring" / "prometheus-rule.yaml"
DASHBOARD = DEPLOY / "components" / "monitoring" / "grafana-dashboard.yaml"
OWN_TOKEN = DEPLOY / "components" / "own-token" / "rights.yaml"
ROTATION = DEPLOY / "components" / "rotation" / "rights.yaml"
FREEZE = DEPLOY / "components" / "freeze" / "rights.yaml"
CRON_JOB = DEPLOY / "base" / "cronjob.yaml"
ADMISSION = ("member/admission", "components/placement", "components/clone-sets")
"""The folders whose policies narrow what the roles allow, in an order that works."""

OWN = "reconciler"
APPLY, PLAN = "reconciler", "reconciler-plan"
"""The ServiceAccounts."""

OPEN = {"reconciler/placement": "enabled", "pod-security.kubernetes.io/enforce": "baseline"}
"""The labels of a namespace in which placement may make ReplicaSets."""

_ROLES = ("ClusterRole", "Role")


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one resource in one role, and where it stands there."""

    role: str
    kind: str
    rule: int
    group: str
    resource: str
    verb: str
    name: str = ""

    @property
    def own(self) -> bool:
        return self.kind == "Role"

    @property
    def full_name(self) -> str:
        """The resource as messages name it: "deployments.apps/scale"."""
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{subresource}" if self.group else self.resource

    def __str__(self) -> str:
        return f"{self.verb} {self.full_name}{' ' + self.name if self.name else ''}{' of our own' if self.own else ''}"


def grants(objects: Iterable[Object]) -> Iterator[Grant]:
    """Each right of each role among `objects`, one by one."""
    for role in objects:
        if role["kind"] in _ROLES:
            for number, rule in enumerate(role["rules"]):
                yield from _of_rule(role, number, rule)


def _of_rule(role: Object, number: int, rule: Mapping[str, Any]) -> Iterator[Grant]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Grant(role["metadata"]["name"], role["kind"], number, group, resource, verb, name)


def every_grant() -> list[Grant]:
    """All rights of the roles that a member cluster gets, and of those for placement, CloneSets and activators."""
    return sorted(grants(manifests(*RIGHTS)))


def install(api: Api) -> None:
    """Make what a member cluster gets, the rights of the components, and all admission policies, in force then."""
    create_missing(api, manifests(*RIGHTS))
    admit(api, admission())


def admission(*folders: str) -> list[Object]:
    """The policies and bindings of these folders, each with the patches of those after it."""
    found: list[Object] = []
    for name in folders or ADMISSION:
        folder = DEPLOY / name
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        resources = manifests(*(folder / file for file in kustomization.get("resources", ())))
        found += [one for one in resources if one["kind"].startswith("ValidatingAdmissionPolicy")]
        for patch in kustomization.get("patches", ()):
            found = [patched_by(one, patch) for one in found]
    return found


def patched_by(one: Object, patch: Mapping[str, Any]) -> Object:
    target = {"kind": one["kind"], "name": one["metadata"]["name"]}
    if target != patch["target"]:
        return one
    operations = [PatchOperation(each["op"], each["path"], each["value"]) for each in yaml.safe_load(patch["patch"])]
    return patched(one, operations, str(target))  # type: ignore[no-any-return]


def admit(api: Api, objects: Iterable[Object]) -> None:
    """Put these admission policies in force, in place of others of their names.

    The API server needs a moment until it refuses what it must; it does when this returns.
    """
    paths = Paths(api)
    ranked = sorted(objects, key=lambda one: str(one["kind"]))
    for one in ranked:
        api.request("PATCH", paths.of(one), one, APPLY_PATCH, fieldManager="tests", force="true")
    thief = with_every_right(api, APPLY)
    for name in {one["metadata"]["name"] for one in ranked}.intersection(_PROBES):
        wait_until(lambda name=name: name in refusal(thief, *_PROBES[name]), f"{name} to be in force")  # type: ignore[misc]


def with_every_right(api: Api, account: str) -> Api:
    """A client as this account of ours, for whom RBAC forbids nothing."""
    headers = {"Impersonate-User": f"system:serviceaccount:{OWN}:{account}", "Impersonate-Group": "system:masters"}
    return api.with_headers(headers)


def refusal(api: Api, method: str, path: str, body: Any = None, content_type: str = "application/json") -> str:
    """What the server says against a request, "" where it would carry it out; `path` may have a query."""
    path, _, query = path.partition("?")
    try:
        api.request(method, path, body, content_type, **dict(parse_qsl(query)))
    except ApiError as error:
        return f"{error.status} {error}"
    return ""


_NOBODY = {"metadata": {"name": "probe"}}
_PROBES: Mapping[str, tuple[Any, ...]] = {
    "reconciler-others": ("POST", "/api/v1/namespaces/default/secrets?dryRun=All", _NOBODY),
    "reconciler-own": ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", _NOBODY),
    "reconciler-placement": (
        "POST",
        "/apis/apps/v1/namespaces/default/replicasets?dryRun=All",
        a_deployment("probe", kind="ReplicaSet"),
    ),
    "reconciler-scaled": (
        "PATCH",
        "/api/v1/namespaces/default/services/kubernetes?dryRun=All",
        {"metadata": {"labels": {"probe": "here"}}},
        MERGE_PATCH,
    ),
}
"""What each policy must refuse."""


def token(plane: ControlPlane, account: str = APPLY) -> str:
    """A token of this account of ours for as long as tests take."""
    return plane.service_account(OWN, account, seconds=24 * 3600)


@contextmanager
def without(api: Api, grant: Grant, account: str = APPLY) -> Iterator[None]:
    """Take one right away, and give it back."""
    role = next(one for one in manifests(*RIGHTS) if (one["kind"], one["metadata"]["name"]) == (grant.kind, grant.role))
    path = Paths(api).of(role)
    api.patch(path, {"rules": _rules_without(role["rules"], grant)})
    wait_until(lambda: not may(api, grant, account), f"{account} not to {grant}")
    try:
        yield
    finally:
        api.patch(path, {"rules": role["rules"]})
        wait_until(lambda: may(api, grant, account), f"{account} to {grant}")


def _rules_without(rules: list[Any], grant: Grant) -> list[Any]:
    left = deepcopy(rules)
    taken = left.pop(grant.rule)
    others = [resource for resource in taken["resources"] if resource != grant.resource]
    verbs = [verb for verb in taken["verbs"] if verb != grant.verb]
    left += [{**taken, "resources": others}] if others else []
    left += [{**taken, "resources": [grant.resource], "verbs": verbs}] if verbs else []
    return left


def may(api: Api, grant: Grant, account: str, namespace: str = "") -> bool:
    """Whether a ServiceAccount of ours has this right, there or in a namespace, as the API server sees it."""
    resource, _, subresource = grant.resource.partition("/")
    attributes = {
        "verb": grant.verb,
        "group": grant.group,
        "resource": resource,
        "subresource": subresource,
        "name": grant.name,
        "namespace": namespace or (OWN if grant.own else ""),
    }
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"]
    spec = {"user": f"system:serviceaccount:{OWN}:{account}", "groups": groups, "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")


def an_overlay(folder: Path, components: Iterable[str], base: str = "member", **more: Any) -> Path:
    """A kustomization with these components, beside a copy of deploy/."""
    overlay = {
        "kind": "Kustomization",
        "resources": [f"deploy/{base}"],
        "components": [f"deploy/components/{name}" for name in components],
    }
    shutil.copytree(DEPLOY, folder / "deploy")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay | more))
    return folder


def kustomized(folder: str | Path) -> list[Any]:
    """What kubectl builds of a folder of deploy/, or of another one."""
    command = ["kubectl", "kustomize", str(DEPLOY / folder)]  # a path that is absolute stays as it is
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def blocks_of(page: Path, language: str) -> list[str]:
    """The blocks of code in a language on a page of the documentation, as they are without their indentation."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


def shell(script: str, folder: Path, kubeconfig: Path, path: Path | None = None, **more: str) -> str:
    """Run the commands of a page until one fails, which is an error, and return what they print."""
    programs = f"{path or Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": programs, **more}
    command = ["bash", "-c", f"set -eux\n{script}"]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
