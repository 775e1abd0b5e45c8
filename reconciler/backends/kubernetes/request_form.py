"""The form of a request to an API server: on which objects it is, what it asks for, and when it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, Unpack
from urllib.parse import quote

from msgspec import Struct, field

from reconciler.model import ServiceAccount

JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""The content type of server-side apply."""


class Operation(Struct, frozen=True):
    """What was asked, for messages: "east: list deployments in shop"."""

    cluster: str
    verb: str
    resource: str  # "deployments.apps", "deployments.apps/scale"
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.cluster}: {self.verb} {self.resource}{name}{where}"

    @property
    def kind(self) -> tuple[str, str, str]:
        """What it has in common with others that fail together: verb, resource, namespace."""
        return self.verb, self.resource, self.namespace

    @property
    def rule(self) -> str:
        """The role that gives the right to this, in words: "a Role in shop with {apiGroups: [apps], ...}"."""
        if self.resource.startswith("/"):
            return f"a ClusterRole with {{nonResourceURLs: [{self.resource}], verbs: [{self.verb}]}}"
        name, slash, subresource = self.resource.partition("/")
        plural, _, group = name.partition(".")
        namespace = self.name if self.resource == "namespaces" else self.namespace  # a Role may give its own Namespace
        role = f"a Role in {namespace}" if namespace else "a ClusterRole"
        rule = f"apiGroups: [{group or chr(34) * 2}], resources: [{plural}{slash}{subresource}], verbs: [{self.verb}]"
        return f"{role} with {{{rule}}}"


def resource_name(group: str, resource: str) -> str:
    """Return a resource, "deployments/scale", as roles and messages name it: deployments.apps/scale, pods."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource


When = Literal["in turn", "at once", "at the end"]
"""When a request is sent: behind others; before them, as what keeps the lock; or even when the run's time is over."""


class ApiRequest(Struct, frozen=True):
    """One request. `accept` is the answer's form; `body` is sent as `content_type`. `writes`: it changes something.

    `account` is impersonated; its groups are those of every ServiceAccount of its namespace, as the API server knows.
    """

    method: str
    path: str
    operation: Operation
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    writes: bool = False
    when: When = "in turn"
    account: ServiceAccount | None = None


class RequestFields(TypedDict, total=False):
    """Fields of an `ApiRequest`."""

    query: Mapping[str, str]
    body: bytes
    content_type: str
    accept: str
    writes: bool
    when: When
    account: ServiceAccount | None


_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}


def object_request(
    cluster: str,
    verb: str,
    key: tuple[str, str, str],
    namespace: str = "",
    name: str = "",
    **how: Unpack[RequestFields],
) -> ApiRequest:
    """Return what asks for `verb` on one object; without a name on all of its kind, in one namespace where given.

    `key` is (group, version, plural); after the plural there may be a subresource, "deployments/scale". `how` are other
    fields of the request.
    """
    group, version, resource = key
    plural, slash, subresource = resource.partition("/")
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path += f"/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"/{plural}"
    if name and verb != "create":
        path += f"/{quote(name, safe='')}{slash}{subresource}"  # names may hold what paths may not
    operation = Operation(cluster, verb, resource_name(group, resource), namespace, name)
    return ApiRequest(_METHODS.get(verb, "GET"), path, operation, **how)
