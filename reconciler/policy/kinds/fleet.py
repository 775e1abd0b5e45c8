"""The Fleet: the clusters, and what one run may change on them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from reconciler.connection_settings import HEADER_NAME, RESERVED_HEADERS, ClusterConnection, PrometheusConnection
from reconciler.labels import LabelSelector
from reconciler.messages import Path, nearest, shown
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import (
    KIND,
    ApiVersionField,
    ClusterLimitsFields,
    ClusterName,
    Fields,
    FleetLimitsFields,
    Labels,
    MetadataField,
    Name,
    NamespaceName,
    NamespacePattern,
    Text,
    expected,
    given,
    limit_of,
    limits_of,
    stated_limit,
)
from reconciler.policy.kinds.tenant import FilePattern, TenantFields, check_tenants, tenants_of
from reconciler.policy.types import Fleet, FleetCluster, Prices, Production
from reconciler.untrusted_text import LARGEST

_NOT_OURS_TO_SET = (*RESERVED_HEADERS, "authorization", "accept-encoding")


class ConnectionFields(Fields, frozen=True, kw_only=True):
    """The connection to the API server of a cluster."""

    in_cluster: Annotated[
        bool, Meta(description="inCluster is true for the cluster that the reconciler itself runs in.")
    ] = False
    kubeconfig: Annotated[
        Text | None, Meta(description="kubeconfig is the path of a kubeconfig file. null means the default file.")
    ] = None
    context: Annotated[
        Text | None, Meta(description="context is a context of the kubeconfig. null means the name of the cluster.")
    ] = None


class BasicAuthFields(Fields, frozen=True, kw_only=True):
    """A user and a password."""

    username: Annotated[
        str,
        Meta(
            min_length=1,
            pattern=r"^[^:\x00-\x1f\x7f]+\Z",
            description="username is the name of the user.",
            extra_json_schema=expected("a user name without a colon"),
        ),
    ]
    password_file: Annotated[Text, Meta(description="passwordFile is the path of a file that holds the password.")]


class PrometheusFields(Fields, frozen=True, kw_only=True):
    """The connection to the Prometheus of a cluster."""

    url: Annotated[
        str,
        Meta(
            pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?\Z",
            description="url is the address of Prometheus.",
            extra_json_schema=expected("an http or https URL without user, password, query or fragment"),
        ),
    ]
    bearer_token_file: Annotated[
        Text | None,
        Meta(description="bearerTokenFile is the path of a file that holds the token to send. null means no token."),
    ] = None
    basic_auth: Annotated[
        BasicAuthFields | UnsetType,
        Meta(description="basicAuth is the user and password to send. It cannot be set together with bearerTokenFile."),
    ] = UNSET
    allow_insecure_auth: Annotated[
        bool, Meta(description="allowInsecureAuth allows the token or password to be sent over plain http.")
    ] = False
    headers: Annotated[
        dict[str, Text],
        Meta(
            description="headers are sent with each query, for example X-Scope-OrgID, which names a tenant. They must "
            "not hold secrets."
        ),
    ] = field(default_factory=dict)
    ca_file: Annotated[
        Text | None,
        Meta(
            description="caFile is the path of a file with the certificates to trust. null means those of the system."
        ),
    ] = None
    cert_file: Annotated[
        Text | None,
        Meta(
            description="certFile is the path of a file with the client certificate, and with its key if keyFile is "
            "null. null means no client certificate."
        ),
    ] = None
    key_file: Annotated[
        Text | None, Meta(description="keyFile is the path of a file with the key of the client certificate.")
    ] = None
    proxy_url: Annotated[
        Annotated[
            str,
            Meta(
                min_length=1,
                pattern=r"^(https?|socks5h?)://[^\s/?#]+/?\Z",
                extra_json_schema=expected("an http, https or socks5 URL without a path"),
            ),
        ]
        | None,
        Meta(
            description="proxyUrl is the address of a proxy. null means no proxy, whatever the environment "
            "variables are."
        ),
    ] = None


class ClusterFields(Fields, frozen=True, kw_only=True):
    """A cluster of the Fleet."""

    name: Annotated[ClusterName, Meta(description="name is unique in the Fleet.")]
    labels: Annotated[Labels, Meta(description="labels are labels that policies select clusters by.")] = field(
        default_factory=dict
    )
    identity: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description="identity is the uid of the Namespace kube-system. A cluster with another uid is treated as "
            "unknown. null accepts any uid that no other cluster of the Fleet has."
        ),
    ] = None
    connection: Annotated[
        ConnectionFields,
        Meta(
            description="connection tells how to connect to the API server. The default is the context that is called "
            "like the cluster."
        ),
    ] = ConnectionFields()
    prometheus: Annotated[
        PrometheusFields | UnsetType,
        Meta(
            description="prometheus tells how to connect to the Prometheus of the cluster. If it is not set, the "
            "result of every query in this cluster is unknown."
        ),
    ] = UNSET
    state: Annotated[
        Literal["Active", "Frozen", "ReadOnly", "Draining", "Leaving"],
        Meta(
            description="state restricts what a run changes in the cluster. Active: no restriction. Frozen: wakes "
            "continue, but nothing is idled, scaled down, moved or created. ReadOnly: nothing is written. Draining: "
            "placement moves all replicas to other clusters. Leaving: like Draining, and all idle workloads are woken."
        ),
    ] = "Active"

    limits: Annotated[ClusterLimitsFields, Meta(description="limits are limits of this cluster.")] = (
        ClusterLimitsFields()
    )


class PodPickersFields(Fields, frozen=True, kw_only=True):
    """Restrictions for pod pickers."""

    allowed_hosts: Annotated[
        tuple[
            Annotated[
                str,
                Meta(pattern=r"^[A-Za-z0-9.*?:_-]+\Z", extra_json_schema=expected("a host or a pattern like *.svc")),
            ],
            ...,
        ],
        Meta(
            description="allowedHosts lists the hosts, or patterns of hosts, to which policies may send the names of "
            "pods and the values of secret headers."
        ),
    ] = ("*.svc.cluster.local", "*.svc")


Price = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[float, Meta(ge=0, le=LARGEST)] | None


class PricesFields(Fields, frozen=True, kw_only=True):
    """What resources cost, in any currency."""

    cpu: Annotated[
        Price, Meta(description="cpu is what a requested core costs for an hour. null means that it is not known.")
    ] = None
    memory: Annotated[
        Price, Meta(description="memory is what a requested GiB costs for an hour. null means that it is not known.")
    ] = None


class ProductionFields(Fields, frozen=True, kw_only=True):
    """What is production."""

    namespaces: Annotated[
        tuple[NamespacePattern, ...],
        Meta(description="namespaces lists namespaces, or patterns of their names, in which everything is production."),
    ] = ("prod", "prod-*", "*-prod", "*-prod-*", "production", "production-*", "*-production")
    match_labels: Annotated[
        Labels,
        Meta(
            description="matchLabels are labels. What has all of them, by itself or by its namespace, is production in "
            "any namespace. An empty map means none."
        ),
    ] = field(default_factory=dict)


class FleetFields(Fields, frozen=True, kw_only=True):
    """The clusters and the restrictions of a Fleet."""

    former_names: Annotated[
        tuple[Name, ...],
        Meta(
            description="formerNames lists earlier names of this Fleet. Annotations written under these names are "
            "treated as those of this Fleet."
        ),
    ] = ()
    home: Annotated[
        Text,
        Meta(
            description="home is the name of the cluster that holds the status of placement and what is recorded about "
            "clusters that do not answer."
        ),
    ]
    namespace: Annotated[
        NamespaceName,
        Meta(
            description="namespace is the namespace in every cluster that holds the lock and the journal. It is "
            "protected."
        ),
    ] = "reconciler"
    clusters: Annotated[tuple[ClusterFields, ...], Meta(min_length=1, description="clusters lists the clusters.")]
    state: Annotated[
        Literal["Active", "Frozen", "ReadOnly"],
        Meta(
            description="state restricts what a run changes in all clusters, whatever their own state is. Active: no "
            "restriction. Frozen: wakes continue, but nothing is idled, scaled down, moved or created. ReadOnly: "
            "nothing is written, and overdue wakes are reported."
        ),
    ] = "Active"
    limits: Annotated[
        FleetLimitsFields,
        Meta(
            description="limits restricts what one run may change, for each policy in each cluster. Changes of a "
            "policy that exceed a limit are held back as a whole. The base of a share is all workloads "
            "of the cluster, each with the replicas that are running. A limit that a policy states itself applies to "
            "it instead."
        ),
    ] = FleetLimitsFields()
    protected_namespaces: Annotated[
        tuple[NamespaceName, ...],
        Meta(
            description="protectedNamespaces lists namespaces that are never changed. kube-system, kube-public, "
            "kube-node-lease and the namespace of the reconciler are always protected."
        ),
    ] = ()
    kube_downscaler_annotations: Annotated[
        Literal["Honor", "Ignore"],
        Meta(
            description="kubeDownscalerAnnotations is Honor: downscaler/exclude and downscaler/exclude-until on "
            "namespaces and workloads exclude as reconciler/exclude does; or Ignore: they are not read."
        ),
    ] = "Honor"
    pod_pickers: Annotated[PodPickersFields, Meta(description="podPickers restricts pod pickers of policies.")] = (
        PodPickersFields()
    )
    prices: Annotated[
        PricesFields, Meta(description="prices are what forecasts count savings with. --price takes precedence.")
    ] = PricesFields()
    production: Annotated[
        ProductionFields,
        Meta(
            description="production says what reviews of policies name first and always show in full. It changes "
            "nothing that a run does."
        ),
    ] = ProductionFields()
    tenants: Annotated[
        tuple[TenantFields, ...],
        Meta(
            description="tenants lists teams with policies of their own: which files these are, and what they may "
            "select. A Fleet with tenants is in the file fleet.yaml at the top of the policy directory."
        ),
    ] = ()
    platform_paths: Annotated[
        tuple[FilePattern, ...],
        Meta(
            min_length=1,
            description="platformPaths lists the policy files of the platform, which may select everything. If there "
            "are tenants, a file that is neither below these paths nor below those of a tenant is refused.",
        ),
    ] = ("*", "platform/**")


class FleetDocument(Fields, frozen=True, kw_only=True):
    """A Fleet lists the clusters and limits what one run may change. There is exactly one Fleet."""

    api_version: ApiVersionField
    kind: Annotated[Literal["Fleet"], KIND]
    metadata: MetadataField
    spec: Annotated[FleetFields, Meta(description="spec defines the clusters and the limits.")]


def fleet_of(document: PolicyDocument, fields: FleetDocument) -> Fleet:
    """Return the Fleet; its problems are gathered in `document`."""
    spec = fields.spec
    fleet = Fleet(
        name=fields.metadata.name,
        place=document.place,
        clusters=tuple(
            replace(_cluster(document, ("spec", "clusters", n), one), fleet_state=spec.state)
            for n, one in enumerate(spec.clusters)
        ),
        home=spec.home,
        namespace=spec.namespace,
        former_names=spec.former_names,
        limits=limits_of(spec.limits),
        limits_of_all_clusters=limits_of(spec.limits.fleet),
        ceiling=limit_of(spec.limits.ceiling),
        protected_namespaces=spec.protected_namespaces,
        allowed_picker_hosts=spec.pod_pickers.allowed_hosts,
        honors_kube_downscaler=spec.kube_downscaler_annotations == "Honor",
        prices=Prices(spec.prices.cpu, spec.prices.memory),
        production=Production(
            spec.production.namespaces, LabelSelector(tuple(sorted(spec.production.match_labels.items())))
        ),
        tenants=tenants_of(document, spec.tenants),
        platform_paths=spec.platform_paths,
    )
    check_tenants(document, fleet)
    for position, cluster in enumerate(fleet.clusters):
        _check_unlike(document, ("spec", "clusters", position), cluster, fleet.clusters[:position])
    _check_names(document, fleet)
    return fleet


def _cluster(document: PolicyDocument, path: Path, fields: ClusterFields) -> FleetCluster:
    connection = fields.connection
    if connection.in_cluster and (connection.kubeconfig or connection.context):
        document.add((*path, "connection"), "has inCluster beside kubeconfig or context, expected one way to connect")
    return FleetCluster(
        name=fields.name,
        labels=fields.labels,
        connection=ClusterConnection(
            name=fields.name,
            in_cluster=connection.in_cluster,
            kubeconfig=connection.kubeconfig,
            context=None if connection.in_cluster else connection.context or fields.name,
            prometheus=_prometheus(document, (*path, "prometheus"), given(fields.prometheus)),
        ),
        state=fields.state,
        ceiling=stated_limit(fields.limits.ceiling),
        identity=fields.identity or "",
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
        if name.lower() in _NOT_OURS_TO_SET or not HEADER_NAME.fullmatch(name):
            document.add((*path, "headers", name), f"is {shown(name)}, expected a header that is not ours to set")
        if not value.isascii() or not value.isprintable():
            document.add((*path, "headers", name), f"is {shown(value)}, expected printable ASCII")
    return PrometheusConnection(
        url=fields.url,
        bearer_token_file=fields.bearer_token_file,
        username=None if login is None else login.username,
        password_file=None if login is None else login.password_file,
        headers=tuple(sorted(fields.headers.items())),
        ca_file=fields.ca_file,
        certificate_file=fields.cert_file,
        key_file=fields.key_file,
        proxy_url=fields.proxy_url,
    )


def _check_unlike(
    document: PolicyDocument, path: Path, cluster: FleetCluster, others: tuple[FleetCluster, ...]
) -> None:
    """Add a problem where `cluster` is one of the `others` before it."""
    if any(cluster.name == other.name for other in others):
        document.add((*path, "name"), f"is {shown(cluster.name)} a second time, expected each name once")
        return
    same = next((other.name for other in others if _reached(other) == _reached(cluster)), None)
    if same is not None:
        document.add(path, f"is reached like {same}, expected a connection of its own")
    twin = next((other.name for other in others if cluster.identity and other.identity == cluster.identity), None)
    if twin is not None:
        document.add((*path, "identity"), f"is that of {twin}, expected the uid of another cluster's kube-system")


def _reached(cluster: FleetCluster) -> tuple[bool, str | None, str | None]:
    return (cluster.connection.in_cluster, cluster.connection.kubeconfig, cluster.connection.context)


def _check_names(document: PolicyDocument, fleet: Fleet) -> None:
    names = [cluster.name for cluster in fleet.clusters]
    if fleet.home not in names and document.is_judged(("spec", "clusters")):
        document.add(
            ("spec", "home"),
            f"is {shown(fleet.home)}, expected the name of one of the clusters{nearest(fleet.home, names)}",
        )
    for position, name in enumerate(fleet.former_names):
        if name == fleet.name:
            document.add(("spec", "formerNames", position), f"is {shown(name)}, expected a name that was given up")
