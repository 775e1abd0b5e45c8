"""The Fleet: the clusters, and what one run may change on them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from reconciler.messages import nearest, shown
from reconciler.pod_requests import Hours
from reconciler.policy.kinds.cluster import ClusterFields, FleetCluster, check_unlike, cluster_of
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import (
    KIND,
    ApiVersionField,
    Fields,
    FleetLimits,
    MetadataField,
    Name,
    NamespaceName,
    Text,
    from_fields,
    matching,
)
from reconciler.policy.kinds.notifications import Notification, NotificationFields, notifications_of
from reconciler.policy.kinds.production import Production
from reconciler.policy.kinds.tenant import FilePattern, Tenant, TenantFields, check_tenants, tenants_of
from reconciler.untrusted_text import LARGEST


class PodPickers(Fields, frozen=True):
    """Restrictions for pod pickers."""

    allowed_hosts: Annotated[
        tuple[
            Annotated[
                str,
                matching(r"^[A-Za-z0-9.*?:_-]+\Z", "a host or a pattern like *.svc"),
            ],
            ...,
        ],
        Meta(
            description="allowedHosts lists the hosts, or patterns of hosts, to which policies may send the names of "
            "pods and the values of secret headers."
        ),
    ] = ("*.svc.cluster.local", "*.svc")


Price = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[float, Meta(ge=0, le=LARGEST)] | None


class Prices(Fields, frozen=True):
    """What resources cost, in any currency."""

    cpu: Annotated[
        Price, Meta(description="cpu is what a requested core costs for an hour. null means that it is not known.")
    ] = None
    memory: Annotated[
        Price, Meta(description="memory is what a requested GiB costs for an hour. null means that it is not known.")
    ] = None

    @property
    def known(self) -> bool:
        return self.cpu is not None or self.memory is not None

    def cost(self, hours: Hours) -> float:
        """Return what `hours` cost; nothing for a resource without a price."""
        return hours.requests.cpu * (self.cpu or 0.0) + hours.requests.memory * (self.memory or 0.0)

    def over(self, other: Prices) -> Prices:
        """Return these prices, and those of `other` where these say nothing."""
        cpu, memory = self.cpu, self.memory
        return Prices(other.cpu if cpu is None else cpu, other.memory if memory is None else memory)


class FleetSpec(Fields, frozen=True, kw_only=True):
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
        FleetLimits,
        Meta(
            description="limits restricts what policies may take down for the first time. What exceeds a limit is "
            "held back as a whole; wakes never are. Numbers that a policy or a tenant states apply to it instead."
        ),
    ] = FleetLimits()
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
    pod_pickers: Annotated[PodPickers, Meta(description="podPickers restricts pod pickers of policies.")] = PodPickers()
    prices: Annotated[
        Prices, Meta(description="prices are what forecasts count savings with. --price takes precedence.")
    ] = Prices()
    production: Annotated[
        Production,
        Meta(
            description="production says what is production beside the clusters with production: true. A policy "
            "selects it only where it says production: true, and reviews of policies name it first."
        ),
    ] = Production()
    notify: Annotated[
        tuple[NotificationFields, ...],
        Meta(
            description="notify lists who is sent a message about what happened in a run, whichever tenant it belongs "
            "to."
        ),
    ] = ()
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
    spec: Annotated[FleetSpec, Meta(description="spec defines the clusters and the limits.")]


class Fleet(FleetSpec, frozen=True, kw_only=True):
    """The Fleet as it is decided by; no namespace of a cluster belongs to two of its tenants."""

    name: str
    place: Place
    clusters: tuple[FleetCluster, ...]  # type: ignore[assignment]  # made of those of the document
    notify: tuple[Notification, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    from_context: bool = False  # made of contexts of a kubeconfig: only looked at, and woken
    protects_unread: bool = False  # which namespaces it protects could not be read, or not all of them

    @property
    def honors_kube_downscaler(self) -> bool:
        """Whether the exclude annotations of kube-downscaler count as ours do."""
        return self.kube_downscaler_annotations == "Honor"

    @property
    def protected(self) -> frozenset[str]:
        """Every namespace that is never touched by idling, placement or downscale."""
        own = {"kube-system", "kube-public", "kube-node-lease", self.namespace}
        return frozenset(own.union(self.protected_namespaces))

    def cluster(self, name: str) -> FleetCluster | None:
        return next((cluster for cluster in self.clusters if cluster.name == name), None)

    def tenant(self, name: str) -> Tenant | None:
        return next((tenant for tenant in self.tenants if tenant.name == name), None)

    def tenant_at(self, cluster: str, namespace: str) -> Tenant | None:
        """Return whose `namespace` of `cluster` is, None for the platform's."""
        return next((tenant for tenant in self.tenants if tenant.has(cluster, namespace)), None)


def fleet_of(document: PolicyDocument, fields: FleetDocument) -> Fleet:
    """Return the Fleet; its problems are gathered in `document`."""
    spec = fields.spec
    fleet = from_fields(
        Fleet,
        spec,
        name=fields.metadata.name,
        place=document.place,
        clusters=tuple(
            cluster_of(document, ("spec", "clusters", n), one, spec.state) for n, one in enumerate(spec.clusters)
        ),
        notify=notifications_of(document, ("spec", "notify"), spec.notify),
        tenants=tenants_of(document, spec.tenants),
    )
    check_tenants(document, fleet.tenants, fleet.protected, [one.name for one in fleet.clusters])
    for position, cluster in enumerate(fleet.clusters):
        check_unlike(document, ("spec", "clusters", position), cluster, fleet.clusters[:position])
    _check_names(document, fleet)
    return fleet


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
