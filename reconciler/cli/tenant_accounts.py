"""The ServiceAccounts of tenants on one cluster: whether they are impersonated as the Fleet says, and their rights."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.rbac import Right
from reconciler.errors import ForbiddenError
from reconciler.model import ServiceAccount
from reconciler.policy.types import Fleet, Tenant

_WRITES = ("create", "delete", "patch")
_SHOWN = 3


class TenantAccount(Struct, frozen=True):
    """What is found of the ServiceAccount of one tenant; `missing` are its rights, each with the namespace."""

    account: ServiceAccount
    text: str
    todo: str = ""
    missing: tuple[tuple[Right, str], ...] = ()
    doubtful: bool = False  # nobody can say whether all is well


def accounts_on(cluster: str, fleet: Fleet) -> list[tuple[Tenant, ServiceAccount]]:
    """Return the tenants that have a ServiceAccount on `cluster`, each with it."""
    return [
        (one, ServiceAccount(fleet.namespace, one.service_account))
        for one in fleet.tenants
        if one.service_account is not None and one.has_cluster(cluster)
    ]


def tenant_account(
    preflight: Preflight, tenant: Tenant, account: ServiceAccount, namespaces: Sequence[str], rights: Sequence[Right]
) -> TenantAccount:
    """Return whether writes as `account` are taken for its own, and whether it has those of `rights` that write in
    `namespaces`, all of its tenant that are there.

    Raises:
        ClusterError: the server does not say.
    """
    told = f"{tenant.name}: {account}"
    try:
        user = preflight.impersonated(account)
    except ForbiddenError as error:
        words = f"{told} may not be impersonated ({error.words})"
        return TenantAccount(account, words, "apply and bind the roles at the end of this report")
    if user not in ("", account.user):
        words = f"{told} is impersonated, and the server takes that for {user}"
        todo = "let no proxy between drop the header Impersonate-User; until then all is written as this user"
        return TenantAccount(account, words, todo)
    asked = [(right, namespace) for namespace in namespaces for right in rights if _is_needed(right, tenant)]
    missing = preflight.missing(asked, account)
    if missing:
        named = ", ".join(f"{right} in {namespace}" for right, namespace in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        words = f"{told} lacks {len(missing)} rights: {named}{more}"
        return TenantAccount(account, words, "apply the roles at the end of this report", tuple(missing))
    if not user:
        words = f"{told} has all rights; this server does not say whether it is impersonated, Kubernetes 1.28 does"
        return TenantAccount(account, words, doubtful=True)
    where = "1 namespace" if len(namespaces) == 1 else f"{len(namespaces)} namespaces"
    return TenantAccount(account, f"{told} is impersonated, and has all rights in {where}")


def _is_needed(right: Right, tenant: Tenant) -> bool:
    """Return whether what is written for `tenant` needs `right`; reads are the run's."""
    if right.own or right.verb not in _WRITES:
        return False
    return right.use != "placement" or (tenant.templates == "Any" and "FederatedReplicaSet" in tenant.kinds)
