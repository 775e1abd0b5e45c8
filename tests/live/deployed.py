"""The manifests of deploy/, and what they allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.api import Api, Object
from tests.real.objects import manifests
from tests.real.worlds import Paths, create_missing, wait_until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MEMBER = [DEPLOY / "member" / file for file in ("namespace.yaml", "service-accounts.yaml", "plan.yaml", "apply.yaml")]
CLONE_SETS = DEPLOY / "components" / "clone-sets" / "rights.yaml"
PICKER_SECRETS = DEPLOY / "components" / "picker-secrets" / "rights.yaml"
CRON_JOB = DEPLOY / "base" / "cronjob.yaml"

OWN = "reconciler"
APPLY, PLAN = "reconciler", "reconciler-plan"
"""The ServiceAccounts."""

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
    """All rights of the roles that a member cluster gets, and of those for CloneSets."""
    return sorted(grants(manifests(*MEMBER, CLONE_SETS)))


def install(api: Api) -> None:
    """Make what a member cluster gets, and the rights on CloneSets."""
    create_missing(api, manifests(*MEMBER, CLONE_SETS))


@contextmanager
def without(api: Api, grant: Grant, account: str = APPLY) -> Iterator[None]:
    """Take one right away, and give it back."""
    role = next(
        one
        for one in manifests(*MEMBER, CLONE_SETS)
        if (one["kind"], one["metadata"]["name"]) == (grant.kind, grant.role)
    )
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


def may(api: Api, grant: Grant, account: str) -> bool:
    """Whether a ServiceAccount of ours has this right, as the API server sees it."""
    resource, _, subresource = grant.resource.partition("/")
    attributes = {
        "verb": grant.verb,
        "group": grant.group,
        "resource": resource,
        "subresource": subresource,
        "name": grant.name,
        "namespace": OWN if grant.own else "",
    }
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"]
    spec = {"user": f"system:serviceaccount:{OWN}:{account}", "groups": groups, "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]
