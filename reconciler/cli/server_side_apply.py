"""Single objects as manifests: read, and applied by the server, as whoever sets up a cluster does. A run does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import msgspec

from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import answer_to
from reconciler.backends.kubernetes.request_form import APPLY_PATCH, ApiRequest, RequestFields, object_request
from reconciler.errors import NotFoundError

_FIELD_MANAGER = "reconciler-connect"
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Namespace": "namespaces",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}

Manifest = Mapping[str, Any]


class Manifests(msgspec.Struct, frozen=True):
    """The objects of one cluster, asked through `client`."""

    client: ApiClient

    def find(self, wanted: Manifest) -> dict[str, Any] | None:
        """Return the object of the kind, namespace and name of `wanted`, None where there is none.

        Raises:
            ClusterError: the server does not say.
        """
        try:
            return answer_to(self.client, self.request("get", wanted), dict[str, Any])
        except NotFoundError:
            return None

    def apply(self, wanted: Manifest) -> None:
        """Make the object what `wanted` says, whoever wrote these fields before; others stay.

        Raises:
            ClusterError: the server refuses it.
        """
        query = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        body = msgspec.json.encode(wanted)
        request = self.request("patch", wanted, query=query, content_type=APPLY_PATCH, body=body, writes=True)
        answer_to(self.client, request, dict[str, Any])

    def request(self, verb: str, wanted: Manifest, **how: Unpack[RequestFields]) -> ApiRequest:
        """Return the request for `verb` on the object of the kind, namespace and name of `wanted`."""
        group, _, version = wanted["apiVersion"].rpartition("/")
        metadata = wanted["metadata"]
        key = (group, version, _PLURALS[wanted["kind"]])
        return object_request(self.client.cluster, verb, key, metadata.get("namespace", ""), metadata["name"], **how)
