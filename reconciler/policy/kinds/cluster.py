"""A cluster of the Fleet: how it is reached, and what may be written on it."""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum
from functools import cached_property
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from reconciler.connection_settings import HEADER_NAME, RESERVED_HEADERS, ClusterConnection, PrometheusConnection
from reconciler.messages import Path, shown
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import ClusterName, Fields, HttpUrl, Labels, Text, from_fields, given, matching

_ProxyUrl = Annotated[
    str,
    matching(r"^(https?|socks5h?)://[^\s/?#]+/?\Z", "an http, https or socks5 URL without a path", min_length=1),
]
_NOT_OURS_TO_SET = (*RESERVED_HEADERS, "authorization", "accept-encoding")


class _ConnectionFields(Fields, frozen=True, kw_only=True):
    """The connection to the API server of a cluster."""

    in_cluster: bool = False
    """inCluster is true for the cluster that the reconciler itself runs in."""
    kubeconfig: Text | None = None
    """kubeconfig is the path of a kubeconfig file. null means the default file."""
    context: Text | None = None
    """context is a context of the kubeconfig. null means the name of the cluster."""


class _BasicAuthFields(Fields, frozen=True, kw_only=True):
    """A user and a password."""

    username: Annotated[str, matching(r"^[^:\x00-\x1f\x7f]+\Z", "a user name without a colon", min_length=1)]
    """username is the name of the user."""
    password_file: Text
    """passwordFile is the path of a file that holds the password."""


class PrometheusFields(Fields, frozen=True, kw_only=True):
    """The connection to the Prometheus of a cluster."""

    url: HttpUrl
    """url is the address of Prometheus."""
    bearer_token_file: Text | None = None
    """bearerTokenFile is the path of a file that holds the token to send."""
    basic_auth: _BasicAuthFields | UnsetType = UNSET
    """basicAuth is the user and password to send. It cannot be set together with bearerTokenFile."""
    allow_insecure_auth: bool = False
    """allowInsecureAuth allows the token or password to be sent over plain http."""
    headers: dict[str, Text] = field(default_factory=dict)
    """headers are sent with each query, for example X-Scope-OrgID, which names a tenant. They must not hold secrets."""
    ca_file: Text | None = None
    """caFile is the path of a file with the certificates to trust. null means those of the system."""
    cert_file: Text | None = None
    """certFile is the path of a file with the client certificate, and with its key if keyFile is null."""
    key_file: Text | None = None
    """keyFile is the path of a file with the key of the client certificate."""
    proxy_url: _ProxyUrl | None = None
    """proxyUrl is the address of a proxy. null means no proxy, whatever the environment variables are."""


class ClusterFields(Fields, frozen=True, kw_only=True):
    """A cluster of the Fleet."""

    name: ClusterName
    """name is unique in the Fleet."""
    labels: Labels = field(default_factory=dict)
    """labels are labels that policies select clusters by."""
    production: bool = False
    """production is true for a cluster in which everything is production, but what production.exceptNamespaces names. A
    policy selects it only where it says production: true."""
    identity: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    """identity is the uid of the Namespace kube-system. A cluster with another uid is treated as unknown. null accepts
    any uid that no other cluster of the Fleet has."""
    connection: _ConnectionFields = _ConnectionFields()
    """connection tells how to connect to the API server. The default is the context that is called like the cluster."""
    prometheus: PrometheusFields | UnsetType = UNSET
    """prometheus tells how to connect to the Prometheus of the cluster. Without it every query there is unknown."""
    state: Literal["Active", "Frozen", "ReadOnly", "Draining", "Leaving"] = "Active"
    """state restricts what a run changes in the cluster. Active: no restriction. Frozen: wakes continue, but nothing is
    idled, scaled down, moved or created. ReadOnly: nothing is written. Draining: placement moves all replicas to other
    clusters. Leaving: like Draining, and all idle workloads are woken."""


class Writes(IntEnum):
    """What may be written on a cluster. Each value includes those below it."""

    NOTHING = 0
    WAKES = 1  # wakes, what belongs to them, and our own records
    EVERYTHING = 2


_RESTRICTED = {
    "ReadOnly": (Writes.NOTHING, "the cluster is read-only"),
    "Frozen": (Writes.WAKES, "the cluster is frozen"),
}


class Freeze(Struct, frozen=True):
    """Somebody froze what it covers until `until`: a `cluster` ("": all), there a `namespace` ("": all).

    `until` None: nobody knows, as what says so cannot be read; `reason` is why then, and `by` "".
    """

    cluster: str
    namespace: str
    until: datetime | None
    reason: str
    by: str = ""

    def covers(self, cluster: str, namespace: str) -> bool:
        """Return whether it freezes `namespace` of `cluster`, "" for what is in none."""
        return self.cluster in ("", cluster) and self.namespace in ("", namespace)


class FleetCluster(ClusterFields, frozen=True, kw_only=True, dict=True):  # so that what is asked often can be kept
    """A cluster as it is decided by: all that the Fleet states of it, and how it is reached."""

    connection: ClusterConnection  # type: ignore[assignment]
    fleet_state: Literal["Active", "Frozen", "ReadOnly"] = "Active"  # what the Fleet says for all its clusters
    freezes: tuple[Freeze, ...] = ()  # those in force, of this cluster or parts of it

    @property
    def writes(self) -> Writes:
        """What may be written there by its state and that of the Fleet."""
        return self._restriction[0]

    @property
    def restriction(self) -> str:
        """Why not everything may be written there by its state or that of the Fleet, "" where everything may."""
        return self._restriction[1]

    @cached_property
    def _restriction(self) -> tuple[Writes, str]:
        everything = (Writes.EVERYTHING, "")
        own, fleet = _RESTRICTED.get(self.state, everything), _RESTRICTED.get(self.fleet_state, everything)
        return own if own[0] <= fleet[0] else (fleet[0], fleet[1].replace("cluster", "Fleet"))

    def freeze_of(self, namespace: str) -> Freeze | None:
        """Return the freeze that covers `namespace` and lasts longest, None where nothing is frozen there."""
        if not self.freezes:
            return None
        found = [freeze for freeze in self.freezes if freeze.covers(self.name, namespace)]
        return max(found, key=lambda freeze: (freeze.until is None, freeze.until), default=None)


def cluster_of(
    document: PolicyDocument, path: Path, fields: ClusterFields, fleet_state: Literal["Active", "Frozen", "ReadOnly"]
) -> FleetCluster:
    """Return the cluster at `path`; its problems are gathered in `document`."""
    connection = fields.connection
    if connection.in_cluster and (connection.kubeconfig or connection.context):
        document.add((*path, "connection"), "has inCluster beside kubeconfig or context, expected one way to connect")
    return from_fields(
        FleetCluster,
        fields,
        connection=from_fields(
            ClusterConnection,
            connection,
            name=fields.name,
            context=None if connection.in_cluster else connection.context or fields.name,
            prometheus=_prometheus(document, (*path, "prometheus"), given(fields.prometheus)),
        ),
        fleet_state=fleet_state,
    )


def _prometheus(document: PolicyDocument, path: Path, fields: PrometheusFields | None) -> PrometheusConnection | None:
    if fields is None or not fields.url:
        return None
    login = given(fields.basic_auth)
    if fields.bearer_token_file is not None and login is not None:
        document.add((*path, "basicAuth"), "stands beside bearerTokenFile, expected one of the two")
    has_secret = fields.bearer_token_file is not None or login is not None
    if has_secret and fields.url.startswith("http://") and not fields.allow_insecure_auth:
        words = f'is {shown(fields.url)} with a token or password, expected "https://"'
        document.add((*path, "url"), f"{words}; or say allowInsecureAuth: true")
    if fields.key_file is not None and fields.cert_file is None:
        document.add((*path, "keyFile"), "stands without certFile, expected the certificate of this key")
    for name, value in fields.headers.items():
        if name.lower() in _NOT_OURS_TO_SET or not re.fullmatch(HEADER_NAME, name):
            document.add((*path, "headers", name), f"is {shown(name)}, expected a header that is not ours to set")
        if not value.isascii() or not value.isprintable():
            document.add((*path, "headers", name), f"is {shown(value)}, expected printable ASCII")
    stated = (fields,) if login is None else (fields, login)
    return from_fields(PrometheusConnection, *stated, headers=tuple(sorted(fields.headers.items())))


def check_apart(document: PolicyDocument, clusters: Sequence[FleetCluster]) -> None:
    """Add a problem where one of the `clusters` of a Fleet is one of those before it."""
    seen: dict[object, str] = {}  # names, by themselves, by how they are reached, and by uid
    for position, cluster in enumerate(clusters):
        here, connection, identity = ("spec", "clusters", position), cluster.connection, ("uid", cluster.identity)
        reached = (connection.in_cluster, connection.kubeconfig, connection.context)
        if cluster.name in seen:
            document.add((*here, "name"), f"is {shown(cluster.name)} a second time, expected each name once")
        elif reached in seen:
            document.add(here, f"is reached like {seen[reached]}, expected a connection of its own")
        if cluster.identity and identity in seen and cluster.name not in seen:
            words = f"is that of {seen[identity]}, expected the uid of another cluster's kube-system"
            document.add((*here, "identity"), words)
        for key in (cluster.name, reached, identity):
            seen.setdefault(key, cluster.name)
