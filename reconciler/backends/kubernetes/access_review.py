"""What the API server says about us: whether we have a right, and which user it takes us for."""

from __future__ import annotations

import msgspec

from reconciler.backends.kubernetes.client import ApiClient, ApiRequest
from reconciler.backends.kubernetes.errors import Operation
from reconciler.backends.kubernetes.pages import answer_to
from reconciler.backends.kubernetes.rights import Right
from reconciler.errors import NotFoundError
from reconciler.model import ServiceAccount

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_USERS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    """Source: kubernetes/api authorization/v1 types.go, SelfSubjectAccessReview."""

    status: _Verdict


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
    operation = Operation(client.cluster, "create", "selfsubjectaccessreviews.authorization.k8s.io")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    request = ApiRequest("POST", _REVIEWS, operation, body=msgspec.json.encode(review), account=account)
    return answer_to(client, request, _Review).status.allowed


class _UserInfo(msgspec.Struct):
    username: str = ""


class _UserStatus(msgspec.Struct, rename="camel"):
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _UserReview(msgspec.Struct):
    """Source: kubernetes/api authentication/v1 types.go, SelfSubjectReview."""

    status: _UserStatus


def own_user(client: ApiClient, account: ServiceAccount | None = None) -> str:
    """Return the name of the user that the server takes us for, also where we impersonate `account`; "" where it serves
    no such question.

    Raises:
        ClusterError: the server does not answer.
    """
    operation = Operation(client.cluster, "create", "selfsubjectreviews.authentication.k8s.io")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    request = ApiRequest("POST", _USERS, operation, body=msgspec.json.encode(review), account=account)
    try:
        return answer_to(client, request, _UserReview).status.user_info.username
    except NotFoundError:
        return ""
