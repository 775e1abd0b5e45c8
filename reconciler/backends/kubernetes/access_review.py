"""Whether we have a right, as the API server itself says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reconciler.backends.kubernetes.client import Request, Requests
from reconciler.backends.kubernetes.errors import Operation
from reconciler.backends.kubernetes.pages import decoded

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    """Source: kubernetes/api authorization/v1 types.go, SelfSubjectAccessReview."""

    status: _Verdict


def is_allowed(requests: Requests, cluster: str, attributes: Mapping[str, str]) -> bool:
    """Return whether we may do what `attributes` (resourceAttributes: verb, group, resource, ...) say.

    Raises:
        ClusterError: the server does not tell.
    """
    operation = Operation(cluster, "create", "selfsubjectaccessreviews.authorization.k8s.io")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = requests.send(Request("POST", _PATH, operation, body=msgspec.json.encode(review)))
    return decoded(answer, _Review, operation).status.allowed
