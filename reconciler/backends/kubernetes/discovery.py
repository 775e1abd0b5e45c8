"""What a cluster serves, and which kinds have a scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from reconciler.backends.base import BUILT_IN_SCALES
from reconciler.backends.decode.objects import CustomResourceDefinition
from reconciler.backends.decode.scale_kinds import scale_kind_of
from reconciler.backends.kubernetes.answers import Question
from reconciler.backends.kubernetes.pages import decoded
from reconciler.backends.kubernetes.requests import Request, Requests
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError, NotFoundError
from reconciler.model import ScaleKind

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)
_NO_SCALE_OF_OURS = frozenset({"extensions"})  # served until Kubernetes 1.16, the same objects as in apps


class _ResponseKind(msgspec.Struct, rename="camel"):
    group: str | None = None
    version: str | None = None
    kind: str | None = None


class _Subresource(msgspec.Struct):
    subresource: str


class _Resource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str | None = None
    verbs: list[str] = []
    subresources: list[_Subresource] = []


class _Version(msgspec.Struct):
    version: str
    resources: list[_Resource] = []


class _Named(msgspec.Struct):
    name: str


class _Group(msgspec.Struct):
    metadata: _Named
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    """Source: kubernetes/api apidiscovery/v2 types.go, APIGroupDiscoveryList."""

    kind: str = ""
    items: list[_Group] = []


class _OldVersion(msgspec.Struct, rename="camel"):
    group_version: str
    version: str


class _OldGroup(msgspec.Struct):
    name: str
    versions: list[_OldVersion] = []


class _OldGroups(msgspec.Struct):
    """Source: apimachinery meta/v1 types.go, APIGroupList."""

    groups: list[_OldGroup] = []


class _OldResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True
    verbs: list[str] = []


class _OldResources(msgspec.Struct):
    resources: list[_OldResource] = []


@dataclass(frozen=True, slots=True)
class Served:
    """One served resource in one version; `scales`: it has /scale."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    scales: bool = False


@dataclass(frozen=True)
class Discovery:
    """`served` by (group, version, plural); `scale_kinds` are the built-in and the custom ones with a scale.

    `unreadable` are those of which it is not known where their replicas are, by plural, and why.
    """

    served: Mapping[tuple[str, str, str], Served]
    scale_kinds: tuple[ScaleKind, ...]
    unreadable: Mapping[tuple[str, str], ClusterError] = field(default_factory=dict)

    def serves(self, group: str, version: str, plural: str) -> bool:
        """Return whether the cluster has this resource; the core group is always there."""
        return not group or (group, version, plural) in self.served


def discover(requests: Requests, cluster: str) -> Discovery:
    """Return what the cluster serves, with the paths of replicas from the CustomResourceDefinitions.

    Raises:
        ClusterError: the cluster does not say what it serves.
    """
    served = {(one.group, one.version, one.plural): one for one in _served(requests, cluster)}
    kinds: dict[tuple[str, str], ScaleKind] = {}
    unreadable: dict[tuple[str, str], ClusterError] = {}
    for group, plural in sorted(_custom_scales(served.values())):
        fallback = next(one for one in served.values() if (one.group, one.plural) == (group, plural) and one.scales)
        try:
            kind = _scale_kind(requests, cluster, fallback)
        except (ForbiddenError, MalformedAnswerError) as error:
            unreadable[group, plural] = error
            kind = ScaleKind(group, fallback.version, fallback.kind, plural)
        if kind is not None:
            kinds[group, kind.kind] = kind
    return Discovery(served, (*BUILT_IN_SCALES, *(kinds[key] for key in sorted(kinds))), unreadable)


def _custom_scales(served: Iterable[Served]) -> set[tuple[str, str]]:
    built_in = {(kind.group, kind.plural) for kind in BUILT_IN_SCALES}
    return {
        (one.group, one.plural)
        for one in served
        if one.scales and (one.group, one.plural) not in built_in and one.group not in _NO_SCALE_OF_OURS
    }


def _scale_kind(requests: Requests, cluster: str, found: Served) -> ScaleKind | None:
    """Return the kind as its CustomResourceDefinition describes it.

    What an aggregated API server serves has none; its replicas are where the built-in kinds have theirs.
    """
    name = f"{found.plural}.{found.group}"
    question = Question(cluster, "get", "customresourcedefinitions.apiextensions.k8s.io", name=name)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    try:
        answer = requests.send(Request("GET", path, question))
    except NotFoundError:
        return ScaleKind(found.group, found.version, found.kind, found.plural)
    return scale_kind_of(decoded(answer, CustomResourceDefinition, question))


def _served(requests: Requests, cluster: str) -> list[Served]:
    question = Question(cluster, "get", "/apis")
    answer = requests.send(Request("GET", "/apis", question, accept=_AGGREGATED))
    groups = decoded(answer, _Groups, question)
    if groups.kind == "APIGroupDiscoveryList":
        return [one for group in groups.items for one in _of_group(group)]
    return [one for group in decoded(answer, _OldGroups, question).groups for one in _of_old(requests, cluster, group)]


def _of_group(group: _Group) -> list[Served]:
    return [
        Served(
            group=group.metadata.name,
            version=version.version,
            kind=(found.response_kind or _ResponseKind()).kind or "",
            plural=found.resource,
            namespaced=found.scope != "Cluster",
            scales=any(one.subresource == "scale" for one in found.subresources),
        )
        for version in group.versions
        for found in version.resources
        if "list" in found.verbs
    ]


def _of_old(requests: Requests, cluster: str, group: _OldGroup) -> list[Served]:
    """Ask version by version, as servers before Kubernetes 1.27 want it."""
    found: list[Served] = []
    for version in group.versions:
        question = Question(cluster, "get", f"/apis/{version.group_version}")
        answer = requests.send(Request("GET", f"/apis/{version.group_version}", question))
        resources = decoded(answer, _OldResources, question).resources
        scaled = {one.name.removesuffix("/scale") for one in resources if one.name.endswith("/scale")}
        found += [
            Served(group.name, version.version, one.kind, one.name, one.namespaced, one.name in scaled)
            for one in resources
            if "/" not in one.name and "list" in one.verbs
        ]
    return found
