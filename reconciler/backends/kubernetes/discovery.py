"""What a cluster serves, which kinds have a scale, and the objects of any kind as it has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.backends.decode.objects import scale_kind_of
from reconciler.backends.decode.shapes import CustomResourceDefinition
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import METADATA_ONLY, answer_to, listed
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation, object_request, resource_name
from reconciler.backends.kubernetes.request_limits import MOST_KINDS, ReadBudget
from reconciler.backends.protocols import BUILT_IN_SCALES
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError, NotFoundError
from reconciler.model import EVERY_KIND
from reconciler.workload_kinds import WorkloadKind, joined_version

_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")
)
"""Before Kubernetes 1.30 it is v2beta1."""
_NO_SCALE_OF_OURS = frozenset({"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"})
"""Groups of numbers, whose API servers are often not there."""
_DEFINITIONS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_CUSTOM_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+", re.ASCII)
_PLURAL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class _ResponseKind(msgspec.Struct):
    kind: str | None = None


class _Subresource(msgspec.Struct):
    subresource: str


class _ServedResource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str | None = None
    verbs: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _GroupVersion(msgspec.Struct):
    version: str
    resources: list[_ServedResource] | None = None
    freshness: str | None = None


class _GroupName(msgspec.Struct):
    name: str = ""  # left out of the core group


class _Group(msgspec.Struct):
    metadata: _GroupName
    versions: list[_GroupVersion] | None = None


class _GroupList(msgspec.Struct):
    """Source: kubernetes/api apidiscovery/v2 types.go, APIGroupDiscoveryList."""

    kind: str | None = None
    items: list[_Group] | None = None


class Served(Struct, frozen=True):
    """One served resource in one version; `scales`: it has /scale."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    scales: bool = False


class ServedKinds(Struct, frozen=True):
    """`served` by (group, version, plural); `scale_kinds` are the built-in and the custom ones with a scale.

    `unreadable` are those of which it is not known where their replicas are, by group and plural, and why. `silent` are
    the groups that do not say all they serve, and why: a kind called EVERY_KIND stands for those nobody can name.
    """

    cluster: str
    served: Mapping[tuple[str, str, str], Served]
    scale_kinds: tuple[WorkloadKind, ...]
    unreadable: Mapping[tuple[str, str], ClusterError] = field(default_factory=dict)
    silent: Mapping[str, ClusterError] = field(default_factory=dict)

    def serves(self, group: str, version: str, plural: str) -> bool:
        """Return whether the cluster has this resource; the core group is always there.

        Raises:
            ClusterError: that is not known, or there is something of that name in other versions.
        """
        if not group or (group, version, plural) in self.served:
            return True
        if group in self.silent:
            raise self.silent[group]
        others = sorted(kind.version for kind in self.served.values() if (kind.group, kind.plural) == (group, plural))
        if others:
            raise MalformedAnswerError(
                f"{self.cluster}: serves {resource_name(group, plural)} only in {', '.join(others)}, expected {version}"
            )
        return False

    def is_namespaced(self, group: str, version: str, plural: str) -> bool:
        """Return whether objects of this resource lie in namespaces; what is not known does."""
        found = self.served.get((group, version, plural))
        return found is None or found.namespaced


def discover(client: ApiClient, switches: Iterable[WorkloadKind]) -> ServedKinds:
    """Return what the cluster serves, with the paths of replicas from the CustomResourceDefinitions.

    Those of `switches` that it serves are switched off, also where they have /scale.

    Raises:
        ClusterError: the cluster does not say what it serves.
    """
    groups = _served(client, "/apis")
    found, silent = _listable(groups), dict(_stale(client.cluster, groups))
    served = {(kind.group, kind.version, kind.plural): kind for kind in found}
    kinds: dict[tuple[str, str], WorkloadKind] = {}
    unreadable: dict[tuple[str, str], ClusterError] = {}
    switched = {(switch.group, switch.kind) for switch in switches}
    custom = _custom_scales(kind for kind in served.values() if (kind.group, kind.kind) not in switched)
    silent = {**_too_many(client.cluster, custom), **silent}
    for first in custom if len(custom) <= MOST_KINDS else ():
        try:
            kind = _scale_kind(client, first)
        except (ForbiddenError, MalformedAnswerError) as error:
            unreadable[first.group, first.plural] = error
            kind = WorkloadKind(first.group, first.version, first.kind, first.plural)
        if kind is not None:
            kinds[first.group, kind.kind] = kind
    for switch in switches:
        for each in found:
            if (each.group, each.kind) == (switch.group, switch.kind):
                kinds[switch.group, switch.kind] = replace(switch, plural=each.plural)
    for group in silent.keys() - _NO_SCALE_OF_OURS:
        unreadable[group, EVERY_KIND] = silent[group]
        kinds[group, EVERY_KIND] = WorkloadKind(group, EVERY_KIND, EVERY_KIND, EVERY_KIND)
    return ServedKinds(
        client.cluster, served, (*BUILT_IN_SCALES, *(kinds[key] for key in sorted(kinds))), unreadable, silent
    )


def _too_many(cluster: str, custom: Sequence[Served]) -> dict[str, ClusterError]:
    """Return the groups of `custom` kinds, with the reason, where there are more kinds than are read."""
    if len(custom) <= MOST_KINDS:
        return {}
    words = f"{cluster}: serves {len(custom)} custom kinds with a scale, expected at most {MOST_KINDS}; none is read"
    return {kind.group: MalformedAnswerError(words) for kind in custom}


def _custom_scales(served: Iterable[Served]) -> list[Served]:
    """Return the custom kinds with a scale, each in the first version with one, by group and plural.

    Rights are granted by these names: whatever a cluster says, none of them is "*" or a group of Kubernetes itself.
    """
    built_in = {(kind.group, kind.plural) for kind in BUILT_IN_SCALES}
    found: dict[tuple[str, str], Served] = {}
    for kind in served:
        is_custom = _CUSTOM_GROUP.fullmatch(kind.group) and not kind.group.endswith(".k8s.io")
        if kind.scales and (kind.group, kind.plural) not in built_in and is_custom and _PLURAL.fullmatch(kind.plural):
            found.setdefault((kind.group, kind.plural), kind)
    return [found[key] for key in sorted(found)]


def _scale_kind(client: ApiClient, found: Served) -> WorkloadKind | None:
    """Return the kind as its CustomResourceDefinition describes it.

    What an aggregated API server serves has none; its replicas are where the built-in kinds have theirs.
    """
    name = f"{found.plural}.{found.group}"
    request = object_request(client.cluster, "get", _DEFINITIONS, name=name)
    client.turns.check_reading(request.operation)
    try:
        kind = scale_kind_of(answer_to(client, request, CustomResourceDefinition))
    except NotFoundError:
        return WorkloadKind(found.group, found.version, found.kind, found.plural)
    if kind is None:
        return None
    paths = (("spec", kind.replicas_path), ("status", kind.status_path))
    is_own = (kind.group, kind.plural) == (found.group, found.plural)
    if not is_own or not all(path[0] == top and len(path) > 1 and all(path) for top, path in paths):
        raise MalformedAnswerError(
            f"{request.operation}: describes another kind, or replicas elsewhere, expected {name} with replicas "
            "below .spec and .status"
        )
    return kind


def _served(client: ApiClient, path: str) -> Sequence[_Group]:
    """Return the groups that are served below `path`."""
    operation = Operation(client.cluster, "get", path)
    request = ApiRequest("GET", path, operation, accept=f"{_AGGREGATED},application/json")
    found = answer_to(client, request, _GroupList)
    if found.kind != "APIGroupDiscoveryList":
        words = "does not say in one answer what it serves, expected an API server of Kubernetes 1.28 or later"
        raise MalformedAnswerError(f"{operation}: {words}")
    return found.items or ()


def _stale(cluster: str, groups: Iterable[_Group]) -> Iterator[tuple[str, ClusterError]]:
    """Yield the groups whose own API server did not answer the one that we ask.

    Where it did at some time, what it served then is still there, and known.
    """
    for group in groups:
        stale = [
            version.version
            for version in group.versions or ()
            if version.freshness == "Stale" and not version.resources
        ]
        if stale:
            name = f"{group.metadata.name}/{stale[0]}"
            words = (
                f"{cluster}: get /apis: {name} does not say what it serves, expected the API server behind it to answer"
            )
            yield group.metadata.name, MalformedAnswerError(words)


def _listable(groups: Iterable[_Group]) -> list[Served]:
    """Return the resources of `groups` that can be listed."""
    return [
        Served(
            group=group.metadata.name,
            version=version.version,
            kind=(found.response_kind or _ResponseKind()).kind or "",
            plural=found.resource,
            namespaced=found.scope != "Cluster",
            scales=any(inside.subresource == "scale" for inside in found.subresources or ()),
        )
        for group in groups
        for version in group.versions or ()
        for found in version.resources or ()
        if "list" in (found.verbs or ())
    ]


class ServedObjects:
    """What a cluster serves, asked through `client`; its kinds are asked once."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._kinds: tuple[Served, ...] | None = None

    def kinds(self) -> tuple[Served, ...]:
        """Return every kind that can be listed, each in the version that the cluster names first.

        Raises:
            ClusterError: the cluster does not say what it serves.
        """
        if self._kinds is None:
            found: dict[tuple[str, str], Served] = {}
            groups = (*_served(self._client, "/api"), *_served(self._client, "/apis"))
            for resource in _listable(groups):
                found.setdefault((resource.group, resource.plural), resource)
            self._kinds = tuple(found.values())
        return self._kinds

    def manifests(self, group: str, kind: str) -> list[dict[str, Any]]:
        """Return all objects of a kind, with apiVersion and kind; a kind that is not served gives none.

        Raises:
            ClusterError: they cannot be listed.
        """
        return [
            {**manifest, "apiVersion": joined_version(group, served.version), "kind": kind}
            for served in self.kinds()
            if (served.group, served.kind) == (group, kind)
            for manifest in self._listed(served, "application/json")
        ]

    def metadata(self, served: Served) -> list[dict[str, Any]]:
        """Return the metadata of all objects of a kind.

        Raises:
            ClusterError: they cannot be listed.
        """
        return [
            manifest["metadata"]
            for manifest in self._listed(served, METADATA_ONLY)
            if isinstance(manifest.get("metadata"), dict)
        ]

    def _listed(self, served: Served, accept: str) -> list[dict[str, Any]]:
        key = (served.group, served.version, served.plural)
        request = object_request(self._client.cluster, "list", key, accept=accept)
        found, _ = listed(self._client, request, dict[str, Any], lambda manifest: manifest, ReadBudget())
        return found
