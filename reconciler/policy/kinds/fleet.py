"""The Fleet: the clusters, and what one run may change on them."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, field

from reconciler.messages import nearest, shown
from reconciler.model import NOTHING
from reconciler.pod_requests import Hours
from reconciler.policy.globs import GlobIndex, matches_any
from reconciler.policy.kinds.cluster import ClusterFields, FleetCluster, check_apart, cluster_of
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import (
    Fields,
    FleetLimits,
    Labels,
    Name,
    NamespaceName,
    NamespacePattern,
    OwnDocument,
    Text,
    from_fields,
    matching,
)
from reconciler.policy.kinds.notification import Notification, NotificationFields, notifications_of
from reconciler.policy.kinds.switch import SwitchFields, switches_of
from reconciler.policy.kinds.tenant import FilePattern, Tenant, TenantFields, check_tenants, tenants_of
from reconciler.untrusted_text import LARGEST
from reconciler.workload_kinds import WorkloadKind


class _PodPickers(Fields, frozen=True):
    """Restrictions for pod pickers."""

    allowed_hosts: tuple[Annotated[str, matching(r"^[A-Za-z0-9.*?:_-]+\Z", "a host or a pattern like *.svc")], ...] = (
        "*.svc.cluster.local",
        "*.svc",
    )
    """allowedHosts lists the hosts, or patterns of hosts, to which policies may send the names of pods and the values
    of secret headers."""


_Price = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[float, Meta(ge=0, le=LARGEST)] | None


class Prices(Fields, frozen=True):
    """What resources cost, in any currency."""

    cpu: _Price = None
    """cpu is what a requested core costs for an hour."""
    memory: _Price = None
    """memory is what a requested GiB costs for an hour."""

    @property
    def known(self) -> bool:
        return self.cpu is not None or self.memory is not None

    def cost(self, hours: Hours) -> float:
        """Return what `hours` cost; nothing for a resource without a price."""
        return hours.requests.cpu * (self.cpu or 0.0) + hours.requests.memory * (self.memory or 0.0)

    def over(self, other: "Prices") -> "Prices":
        """Return these prices, and those of `other` where these say nothing."""
        cpu, memory = self.cpu, self.memory
        return Prices(other.cpu if cpu is None else cpu, other.memory if memory is None else memory)


_PRODUCTION = ("prod", "prod-*", "*-prod", "*-prod-*", "production", "production-*", "*-production")


class Production(Fields, frozen=True):
    """What is production. Each of these fields adds to it."""

    namespaces: tuple[NamespacePattern, ...] = _PRODUCTION
    """namespaces lists namespaces, or patterns of their names, in which everything is production."""
    cluster_labels: Labels = field(default_factory=dict)
    """clusterLabels are labels of clusters. In a cluster that has all of them, everything is production. An empty map
    means none."""
    namespace_labels: Labels = field(default_factory=dict)
    """namespaceLabels are labels of Namespaces. In a Namespace that has all of them, or that cannot be read, everything
    is production."""
    workload_labels: Labels = field(default_factory=dict)
    """workloadLabels are labels of workloads. A workload that has all of them is production."""
    except_namespaces: tuple[NamespacePattern, ...] = ()
    """exceptNamespaces lists namespaces, or patterns of their names, in which a workload is production only by its own
    labels, for example the test namespaces of a production cluster."""

    def why(
        self, cluster: FleetCluster, namespace: str, space_labels: Mapping[str, str] | None, *labels: Mapping[str, str]
    ) -> str:
        """Return what makes a workload in `namespace` of `cluster` production, "" where nothing does.

        `space_labels` are those of its Namespace; None: they are not known, which counts as production where they
        matter. `labels` are those of the workload, and of what scales it.
        """
        if not matches_any(namespace, self.except_namespaces):
            if cluster.production or _has_labels(cluster.labels, self.cluster_labels):
                return f"cluster {cluster.name}"
            if matches_any(namespace, self.namespaces):
                return f"namespace {namespace}"
            if self.namespace_labels and space_labels is None:
                return f"namespace {namespace}, whose labels are not known,"
            if _has_labels(space_labels or NOTHING, self.namespace_labels):
                return f"namespace {namespace} with {_labels_text(self.namespace_labels)}"
        if any(_has_labels(own, self.workload_labels) for own in labels):
            return f"a workload with {_labels_text(self.workload_labels)}"
        return ""


def _has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return bool(wanted) and wanted.items() <= labels.items()


def _labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


class _FleetSpec(Fields, frozen=True, kw_only=True):
    """The clusters and the restrictions of a Fleet."""

    former_names: tuple[Name, ...] = ()
    """formerNames lists earlier names of this Fleet. Annotations written under these names are treated as those of this
    Fleet."""
    home: Text
    """home is the name of the cluster that holds the status of placement and what is recorded about clusters that do
    not answer."""
    namespace: NamespaceName = "reconciler"
    """namespace is the namespace in every cluster that holds the lock and the journal. It is protected."""
    clusters: Annotated[tuple[ClusterFields, ...], Meta(min_length=1)]
    """clusters lists the clusters."""
    state: Literal["Active", "Frozen", "ReadOnly"] = "Active"
    """state restricts what a run changes in all clusters, whatever their own state is, as the states of the same names
    do in one. If it is ReadOnly, overdue wakes are reported."""
    limits: FleetLimits = FleetLimits()
    """limits restricts what policies may take down for the first time. What exceeds a limit is held back as a whole;
    wakes never are. Numbers that a policy or a tenant states apply to it instead."""
    protected_namespaces: tuple[NamespaceName, ...] = ()
    """protectedNamespaces lists namespaces where nothing is idled or shrunk. kube-system, kube-public, kube-node-lease
    and the namespace of the reconciler always are."""
    kube_downscaler_annotations: Literal["Honor", "Ignore"] = "Honor"
    """kubeDownscalerAnnotations is Honor: downscaler/exclude and downscaler/exclude-until on namespaces and workloads
    exclude as reconciler/exclude does; or Ignore: they are not read."""
    pod_pickers: _PodPickers = _PodPickers()
    """podPickers restricts pod pickers of policies."""
    prices: Prices = Prices()
    """prices are what forecasts count savings with. --price takes precedence."""
    switches: tuple[SwitchFields, ...] = ()
    """switches lists kinds that are idled by one value of an object in place of replicas, for example a database that
    hibernates. Policies select them by kind."""
    production: Production = Production()
    """production says what is production beside the clusters with production: true. A policy selects it only where it
    says production: true, and reviews of policies name it first."""
    notify: tuple[NotificationFields, ...] = ()
    """notify lists who is sent a message about what happened in a run, whichever tenant it belongs to."""
    tenants: tuple[TenantFields, ...] = ()
    """tenants lists teams with policies of their own: which files these are, and what they may select. A Fleet with
    tenants is in the file fleet.yaml at the top of the policy directory."""
    platform_paths: Annotated[tuple[FilePattern, ...], Meta(min_length=1)] = ("*", "platform/**")
    """platformPaths lists the policy files of the platform, which may select everything. If there are tenants, a file
    that is neither below these paths nor below those of a tenant is refused."""


class FleetDocument(OwnDocument[Literal["Fleet"]], frozen=True, kw_only=True):
    """A Fleet lists the clusters and limits what one run may change. There is exactly one Fleet."""

    spec: _FleetSpec
    """spec defines the clusters and the limits."""


class Fleet(_FleetSpec, frozen=True, kw_only=True, dict=True):  # so that what is asked often can be kept
    """The Fleet as it is decided by; no namespace of a cluster belongs to two of its tenants."""

    name: str
    place: Place
    clusters: tuple[FleetCluster, ...]  # made of those of the document
    notify: tuple[Notification, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    switch_kinds: tuple[WorkloadKind, ...] = ()  # made of its switches
    from_context: bool = False  # made of contexts of a kubeconfig: only looked at, and woken
    protects_unread: bool = False  # which namespaces it protects could not be read, or not all of them

    @property
    def honors_kube_downscaler(self) -> bool:
        """Whether the exclude annotations of kube-downscaler count as ours do."""
        return self.kube_downscaler_annotations == "Honor"

    @cached_property
    def protected(self) -> frozenset[str]:
        """Every namespace that is never touched by idling, placement or downscale."""
        own = {"kube-system", "kube-public", "kube-node-lease", self.namespace}
        return frozenset(own.union(self.protected_namespaces))

    @cached_property
    def _by_name(self) -> Mapping[str, FleetCluster]:
        return {cluster.name: cluster for cluster in self.clusters}

    def cluster(self, name: str) -> FleetCluster | None:
        return self._by_name.get(name)

    def tenant(self, name: str) -> Tenant | None:
        return next((tenant for tenant in self.tenants if tenant.name == name), None)

    def tenant_at(self, cluster: str, namespace: str) -> Tenant | None:
        """Return whose `namespace` of `cluster` is, None for the platform's."""
        likely = (self.tenants[number] for number in sorted(self._tenants_by_namespace.candidates((namespace,))))
        return next((tenant for tenant in likely if tenant.has(cluster, namespace)), None)

    @cached_property
    def _tenants_by_namespace(self) -> GlobIndex:
        return GlobIndex(tenant.namespaces for tenant in self.tenants)


def fleet_of(document: PolicyDocument, fields: FleetDocument) -> Fleet:
    """Return the Fleet; its problems are gathered in `document`."""
    spec = fields.spec
    fleet = from_fields(
        Fleet,
        spec,
        name=fields.metadata.name,
        place=document.place,
        clusters=tuple(
            cluster_of(document, ("spec", "clusters", n), stated, spec.state) for n, stated in enumerate(spec.clusters)
        ),
        notify=notifications_of(document, ("spec", "notify"), spec.notify),
        tenants=tenants_of(document, spec.tenants),
        switch_kinds=switches_of(document, spec.switches),
    )
    check_tenants(document, fleet.tenants, fleet.protected, [member.name for member in fleet.clusters])
    check_apart(document, fleet.clusters)
    _check_names(document, fleet)
    return fleet


def _check_names(document: PolicyDocument, fleet: Fleet) -> None:
    names = [cluster.name for cluster in fleet.clusters]
    if fleet.home not in names and document.is_readable(("spec", "clusters")):
        document.add(
            ("spec", "home"),
            f"is {shown(fleet.home)}, expected the name of one of the clusters{nearest(fleet.home, names)}",
        )
    for position, name in enumerate(fleet.former_names):
        if name == fleet.name:
            document.add(("spec", "formerNames", position), f"is {shown(name)}, expected a name that was given up")
