"""The rights that a plan and an apply need: the one table of them, rules of roles made of it, and what an API server
says about us: whether we have a right, and which user it takes us for.

What every authenticated user may do anyway is not in it (roles system:discovery and system:basic-user): ask what is
served, ask what one may do and who one is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import answer_to
from reconciler.backends.kubernetes.request_form import object_request, resource_name
from reconciler.backends.protocols import BUILT_IN_SCALES
from reconciler.model import EVERY_KIND, ServiceAccount
from reconciler.workload_kinds import WorkloadKind

Use = Literal["", "keda", "custom", "placement", "victims", "ZoneBalanced", "activator"]


class Right(Struct, frozen=True, order=True):
    """One verb on one resource, "deployments" or "deployments/scale".

    `own` True: only in our own namespace, the Fleet's; else in all namespaces, or for kinds without one. `name` limits
    it to that object. `apply` True: a plan does without. `use` says what has to be there for it to be needed: "keda"
    and "custom" kinds that the cluster serves, "placement" a FederatedReplicaSet with a template, "victims" any or a
    DownscalePolicy, which choose pods that are to go, "ZoneBalanced" in a policy, "activator" one that has
    EndpointSlices; "" is always needed, also to wake what earlier policies idled. `version` is that of the API, "" any.
    """

    group: str
    resource: str
    verb: str
    own: bool = False
    apply: bool = False
    name: str = ""
    use: Use = ""
    version: str = ""

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {resource_name(self.group, self.resource)}{name}"


def _rights(group: str, resources: str, verbs: str, **more: Any) -> Iterator[Right]:
    for resource in resources.split():
        for verb in verbs.split():
            yield Right(group, resource, verb, **more)


def _of_scale(kind: WorkloadKind, use: Use) -> Iterator[Right]:
    """Yield what is asked of a kind with a scale. A write goes to /scale where only replicas change."""
    yield from _rights(kind.group, kind.plural, "list", use=use)
    yield from _rights(kind.group, kind.plural, "get patch", apply=True, use=use)
    if kind.status_path:
        yield from _rights(kind.group, f"{kind.plural}/scale", "patch", apply=True, use=use)


IDENTITY = Right("", "namespaces", "get", name="kube-system")
"""The right to read the identity of the cluster."""

RIGHTS: tuple[Right, ...] = (
    IDENTITY,
    *_rights("", "namespaces services endpoints pods events", "list"),
    *_rights("discovery.k8s.io", "endpointslices", "list"),
    *_rights("autoscaling", "horizontalpodautoscalers", "list"),
    *(right for kind in BUILT_IN_SCALES for right in _of_scale(kind, "")),
    *_rights("", "configmaps", "list", own=True),
    *_rights("", "nodes", "list", use="ZoneBalanced"),
    *_rights("keda.sh", "scaledobjects", "list", use="keda"),
    *_rights("apiextensions.k8s.io", "customresourcedefinitions", "get", use="custom"),
    # An apply also reads again what it was refused, to know what changed from what may not be.
    *_rights("", "services endpoints", "get patch", apply=True),
    *_rights("", "pods", "get patch", apply=True, use="victims"),
    *_rights("autoscaling", "horizontalpodautoscalers", "get patch", apply=True),
    *_rights("apps", "replicasets", "create delete", apply=True, use="placement"),
    *_rights("", "events", "get create patch", apply=True),
    *_rights("keda.sh", "scaledobjects", "get patch", apply=True, use="keda"),
    *_rights("", "configmaps", "get create patch delete", own=True, apply=True),
    *_rights("coordination.k8s.io", "leases", "get create patch", own=True, apply=True),
    *_rights("coordination.k8s.io", "leases", "list", own=True, use="activator"),
    *_rights("discovery.k8s.io", "endpointslices", "delete", apply=True, use="activator"),
)
"""All rights but those that name an object or a kind: `custom_rights`, `secret_right`, `impersonation_right`,
`token_right`.
"""


def custom_rights(kinds: Iterable[WorkloadKind]) -> tuple[Right, ...]:
    """Return the rights on those of `kinds` that are not built in, as far as they can be named."""
    named = [kind for kind in kinds if kind not in BUILT_IN_SCALES and kind.kind != EVERY_KIND]
    return tuple(right for kind in named for right in _of_scale(kind, "custom"))


def secret_right(name: str) -> Right:
    """Return the right to read the Secret `name`, which a pod picker wants, in the namespace of the workloads."""
    return Right("", "secrets", "get", apply=True, name=name)


def impersonation_right(account: ServiceAccount) -> Right:
    """Return the right to impersonate `account`, which is one in its namespace: ours."""
    return Right("", "serviceaccounts", "impersonate", own=True, apply=True, name=account.name)


def token_right(account: ServiceAccount) -> Right:
    """Return the right of `account` to ask for another token of its own."""
    return Right("", "serviceaccounts/token", "create", own=True, apply=True, name=account.name)


def role_rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """Return `rights` as the rules of a Role or ClusterRole: as few as say exactly that, in a stable order."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.name, right.resource), set()).add(right.verb)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, resource), found in sorted(verbs.items()):
        resources.setdefault((group, name, tuple(sorted(found))), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": names,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(found),
        }
        for (group, name, found), names in sorted(resources.items())
    ]


class _UserInfo(msgspec.Struct):
    username: str = ""


class _ReviewStatus(msgspec.Struct, rename="camel"):
    allowed: bool = False
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _Review(msgspec.Struct):
    """Source: kubernetes/api authorization/v1 and authentication/v1 types.go, SelfSubjectAccessReview and the like."""

    status: _ReviewStatus


def is_allowed(client: ApiClient, right: Right, namespace: str, account: ServiceAccount | None = None) -> bool:
    """Return whether we, or `account` where it is given, have `right` in `namespace`, "" for all.

    Raises:
        ClusterError: the server does not say.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "version": right.version,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": right.name,
    }
    review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    return _reviewed(client, "authorization.k8s.io", review, account).allowed


def own_user(client: ApiClient, account: ServiceAccount | None = None) -> str:
    """Return the name of the user that the server takes us for, also where we impersonate `account`.

    Raises:
        ClusterError: the server does not answer.
    """
    return _reviewed(client, "authentication.k8s.io", {"kind": "SelfSubjectReview"}, account).user_info.username


def _reviewed(
    client: ApiClient, group: str, review: Mapping[str, Any], account: ServiceAccount | None
) -> _ReviewStatus:
    """Return what the server says to a review of `group`."""
    body = msgspec.json.encode({"apiVersion": f"{group}/v1", **review})
    key = (group, "v1", f"{review['kind'].lower()}s")
    return answer_to(client, object_request(client.cluster, "create", key, body=body, account=account), _Review).status
