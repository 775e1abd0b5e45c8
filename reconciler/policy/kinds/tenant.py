"""Tenants of a Fleet: which files belong to a team, and what these may select."""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from reconciler.messages import Path, shown
from reconciler.policy.globs import GlobIndex, matches_any, overlap
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import (
    ClusterPattern,
    Fields,
    Limits,
    NamespaceName,
    NamespacePattern,
    Whole,
    from_fields,
    matching,
)
from reconciler.policy.kinds.notification import Notification, NotificationFields, notifications_of

FilePattern = Annotated[
    str,
    matching(
        r"^(?!/)(?!.*//)(?!(.*/)?\.{1,2}(/|\Z))[^\\\[\]\x00-\x1f]+(?<!/)\Z",
        "a path below the policy directory or a pattern like teams/a/**",
    ),
]


_NOT_A_TENANTS = ("reconciler-activator", "reconciler-plan")

_AccountName = Annotated[
    str,
    matching(
        rf"^(?!({'|'.join(_NOT_A_TENANTS)})\Z)reconciler-[a-z0-9]([-a-z0-9]{{0,50}}[a-z0-9])?\Z",
        "a name like reconciler-team-a, which is none of our other ServiceAccounts",
    ),
]


class TenantFields(Fields, frozen=True, kw_only=True):
    """A team with policies of its own."""

    name: NamespaceName
    """name is unique in the Fleet. The policies of the tenant are called NAME/POLICY."""
    paths: Annotated[tuple[FilePattern, ...], Meta(min_length=1)]
    """paths lists the policy files of the tenant, below the policy directory. * matches within a folder, ** also
    folders."""
    namespaces: Annotated[tuple[NamespacePattern, ...], Meta(min_length=1)]
    """namespaces lists the namespaces of the tenant, or patterns of their names. Its policies select nothing else. No
    other tenant may have them in the same cluster, or in any cluster if both may have a FederatedReplicaSet."""
    clusters: Annotated[tuple[ClusterPattern, ...], Meta(min_length=1)] = ("*",)
    """clusters lists the clusters of the tenant, or patterns of their names. Its policies select no others."""
    kinds: Annotated[
        tuple[Literal["Calendar", "DownscalePolicy", "FederatedReplicaSet", "IdlingPolicy"], ...], Meta(min_length=1)
    ] = ("Calendar", "IdlingPolicy")
    """kinds lists the kinds of policies that the tenant may have."""
    max_priority: Whole = 0
    """maxPriority is the greatest priority of its policies. Of the same priority, policies that belong to no tenant
    win."""
    production: bool = False
    """production is true if policies of the tenant may say production: true."""
    templates: Literal["None", "Any"] = "None"
    """templates says which pod templates a FederatedReplicaSet of the tenant may state. None: only targetRef. Any: all,
    with any ServiceAccount, Secret and host access that the namespace admits."""
    service_account: _AccountName | None = None
    """serviceAccount names a ServiceAccount in the namespace of the Fleet, in each cluster. What policies of the tenant
    decide, and whatever else is written in its namespaces, impersonates it, so that the API server checks its rights
    too. No other tenant has it. If it is not set, the run writes as itself."""
    limits: Limits = Limits()
    """limits are limits of all policies of the tenant together; those that its policies state apply beside them. If
    they are not set, 25% of the workloads in its namespaces, at least 3, and 25% of the replicas, at least 10. The
    policies of a tenant do not count in limits.default."""
    notify: tuple[NotificationFields, ...] = ()
    """notify lists who is sent a message about what happened to the tenant in a run, and about nothing else."""


class Tenant(TenantFields, frozen=True, kw_only=True):
    """A team: which policy files are its own, and what these may select; `place` is where the Fleet states it."""

    place: Place
    limits_place: Place | None = None
    notify: tuple[Notification, ...] = ()

    def __str__(self) -> str:
        return f"tenant {self.name} at {self.place}"

    def has(self, cluster: str, namespace: str) -> bool:
        """Return whether `namespace` of `cluster` belongs to it."""
        return self.has_cluster(cluster) and self.has_namespace(namespace)

    def has_cluster(self, cluster: str) -> bool:
        return matches_any(cluster, self.clusters)

    def has_namespace(self, namespace: str) -> bool:
        return matches_any(namespace, self.namespaces)


def tenants_of(document: PolicyDocument, fields: Sequence[TenantFields]) -> tuple[Tenant, ...]:
    """Return the tenants that a Fleet states."""
    return tuple(
        from_fields(
            Tenant,
            tenant,
            place=document.place_of(("spec", "tenants", position)),
            limits_place=document.limits_place(("spec", "tenants", position)),
            notify=notifications_of(document, ("spec", "tenants", position, "notify"), tenant.notify),
        )
        for position, tenant in enumerate(fields)
    )


def check_tenants(
    document: PolicyDocument, tenants: Sequence[Tenant], protected: Collection[str], clusters: Sequence[str]
) -> None:
    """Add a problem where two tenants are not apart: by name, files, or namespaces of one of `clusters`."""
    before = GlobIndex()
    for position, tenant in enumerate(tenants):
        here: Path = ("spec", "tenants", position)
        own = tuple(_own_names(tenant))
        if document.is_readable(here):
            for number, name in enumerate(tenant.namespaces):
                if name in protected:
                    document.warn((*here, "namespaces", number), f"is {shown(name)}, a protected namespace")
            for other in sorted(before.candidates(own)):
                _check_apart(document, here, (tenant, tenants[other]), clusters)
        before.add(position, own)


def _own_names(tenant: Tenant) -> Iterator[str]:
    """Yield all that no two tenants may have in common, as globs."""
    yield f"name {tenant.name}"
    if tenant.service_account is not None:
        yield f"account {tenant.service_account}"
    yield from (f"path {pattern}" for pattern in tenant.paths)
    yield from (f"namespace {pattern}" for pattern in tenant.namespaces)


def _check_apart(document: PolicyDocument, here: Path, pair: tuple[Tenant, Tenant], clusters: Sequence[str]) -> None:
    tenant, other = pair
    if tenant.name == other.name:
        document.add((*here, "name"), f"is {shown(tenant.name)} a second time, expected each name once")
        return
    whose = str(other)
    if tenant.service_account is not None and tenant.service_account == other.service_account:
        words = f"is {shown(tenant.service_account)}, expected another one than that of {whose}"
        document.add((*here, "serviceAccount"), words)
    for number, pattern in enumerate(tenant.paths):
        if any(overlap(pattern, theirs, path=True) for theirs in other.paths):
            document.add((*here, "paths", number), f"is {shown(pattern)}, expected files apart from those of {whose}")
    why = _why_apart(pair, clusters)
    for number, pattern in enumerate(tenant.namespaces if why else ()):
        twin = next((theirs for theirs in other.namespaces if overlap(pattern, theirs)), None)
        if twin is not None:
            words = f"is {shown(pattern)}, expected namespaces apart from {shown(twin)} of {whose}, {why}"
            document.add((*here, "namespaces", number), words)


def _why_apart(pair: tuple[Tenant, Tenant], clusters: Sequence[str]) -> str:
    """Return why two tenants may not have the same namespaces, "" where they may.

    A FederatedReplicaSet is known by its namespace and name in all clusters: by its records, and as an owner.
    """
    tenant, other = pair
    shared = [name for name in clusters if tenant.has_cluster(name) and other.has_cluster(name)]
    if shared:
        return f"which is in {shared[0]} too"
    placing = all("FederatedReplicaSet" in either.kinds for either in pair)
    return "as both may have a FederatedReplicaSet of the same namespace and name" if placing else ""
