"""The rights that a run needs on one cluster, ours and those of the ServiceAccounts of tenants, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.rights import Right, impersonation_right, role_rules, secret_right
from reconciler.cli.doctor_findings import (
    ClusterCheck,
    Finding,
    MissingRules,
    slices_of_activators,
    unexpected,
    words_of,
)
from reconciler.cli.rbac import needed_rights, picker_secrets
from reconciler.errors import ClusterError, ForbiddenError
from reconciler.messages import counted, first_of
from reconciler.model import ServiceAccount
from reconciler.policy.types import Fleet, Tenant

_CLUSTER_WIDE = frozenset({"namespaces", "nodes", "customresourcedefinitions"})
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
        (tenant, ServiceAccount(fleet.namespace, tenant.service_account))
        for tenant in fleet.tenants
        if tenant.service_account is not None and tenant.has_cluster(cluster)
    ]


def tenant_account(
    preflight: Preflight, tenant: Tenant, account: ServiceAccount, namespaces: Sequence[str], rights: Sequence[Right]
) -> TenantAccount:
    """Return whether writes as `account` are taken for its own, and whether it has those of `rights` that write in
    `namespaces`, all of its tenant that are there.

    Raises:
        ClusterError: the server does not say.
    """
    whose = f"{tenant.name}: {account}"
    try:
        user = preflight.impersonated(account)
    except ForbiddenError as error:
        words = f"{whose} may not be impersonated ({error.words})"
        return TenantAccount(account, words, "apply and bind the roles at the end of this report")
    if user not in ("", account.user):
        words = f"{whose} is impersonated, and the server takes that for {user}"
        todo = "let no proxy between drop the header Impersonate-User; until then all is written as this user"
        return TenantAccount(account, words, todo)
    asked = [(right, namespace) for namespace in namespaces for right in rights if _is_needed(right, tenant)]
    missing = preflight.missing(asked, account)
    if missing:
        named = first_of([f"{right} in {namespace}" for right, namespace in missing], _SHOWN)
        words = f"{whose} lacks {len(missing)} rights: {named}"
        return TenantAccount(account, words, "apply the roles at the end of this report", tuple(missing))
    if not user:
        words = f"{whose} has all rights; this server does not say whether it is impersonated, Kubernetes 1.28 does"
        return TenantAccount(account, words, doubtful=True)
    return TenantAccount(
        account, f"{whose} is impersonated, and has all rights in {counted(len(namespaces), 'namespace')}"
    )


def _is_needed(right: Right, tenant: Tenant) -> bool:
    """Return whether what is written for `tenant` needs `right`; reads are the run's."""
    if right.own or right.verb not in _WRITES:
        return False
    return right.use != "placement" or (tenant.templates == "Any" and "FederatedReplicaSet" in tenant.kinds)


def missing_rights(case: ClusterCheck) -> list[tuple[Right, str]] | Exception:
    try:
        return case.preflight.missing(list(wanted_rights(case)))
    except Exception as error:  # noqa: BLE001 - one of the findings
        return error


def wanted_rights(case: ClusterCheck) -> Iterator[tuple[Right, str]]:
    """Yield the rights that plan, and apply where asked for, need with these policies, each with its namespace.

    Raises:
        ClusterError: the cluster does not say what it serves.
    """
    for right in _used_rights(case):
        if case.writing or not right.apply:
            yield _scoped(right, case.scope.namespace), _namespace_of(right, case)
    if case.writing:
        yield from _secret_rights(case)
        for _, account in accounts_on(case.name, case.policies.fleet):
            yield impersonation_right(account), account.namespace


def _used_rights(case: ClusterCheck) -> tuple[Right, ...]:
    """Return the rights that plan and apply need with these policies."""
    return needed_rights(
        case.policies_there,
        case.cluster.scale_kinds(),
        keda=case.preflight.serves("keda.sh"),
        activator=bool(slices_of_activators(case)),
    )


def _secret_rights(case: ClusterCheck) -> Iterator[tuple[Right, str]]:
    """Yield the rights to read the Secrets of pod pickers, in the namespaces that are there."""
    spaces = () if case.observed is None else case.observed.namespaces
    for secret in picker_secrets(case.policies_there):
        for space in spaces:
            if secret.namespaces.matches(space.ref.name, space.labels):
                yield secret_right(secret.name), space.ref.name


def tenant_findings(found: list[TenantAccount], case: ClusterCheck) -> Iterator[Finding]:
    """Report on the ServiceAccounts of tenants, and add what is known of each to `found`."""
    accounts = accounts_on(case.name, case.policies.fleet) if case.writing else []
    rights = _used_rights(case) if accounts else []
    observed = () if case.observed is None else case.observed.namespaces
    for tenant, account in accounts:
        spaces = [space.ref.name for space in observed if tenant.has_namespace(space.ref.name)]
        try:
            one = tenant_account(case.preflight, tenant, account, spaces, rights)
        except ClusterError as error:
            yield Finding("tenant", "FAIL", f"{tenant.name}: {words_of(case, error)}")
            continue
        found.append(one)
        yield Finding("tenant", "FAIL" if one.todo else "WARN" if one.doubtful else "OK", one.text, one.todo)


def _scoped(right: Right, namespace: str) -> Right:
    """In one namespace, that Namespace is read in place of a list of them."""
    if not namespace or (right.resource, right.verb) != ("namespaces", "list"):
        return right
    return Right("", "namespaces", "get", name=namespace)


def _namespace_of(right: Right, case: ClusterCheck) -> str:
    if right.own:
        return case.policies.fleet.namespace
    if (right.resource, right.verb) == ("namespaces", "list"):
        return case.scope.namespace
    return "" if right.resource in _CLUSTER_WIDE else case.scope.namespace


def rights_finding(case: ClusterCheck, missing: list[tuple[Right, str]] | Exception) -> Finding:
    verb = "plan and apply" if case.writing else "plan"
    if isinstance(missing, ClusterError):
        return Finding("rights", "FAIL", words_of(case, missing), "")
    if isinstance(missing, Exception):
        return unexpected("rights", missing)
    if not missing:
        return Finding("rights", "OK", f"{verb} {'have' if case.writing else 'has'} all rights")
    named = [str(right) + (f" in {namespace}" if namespace else "") for right, namespace in missing]
    words = f"{len(named)} missing for {verb}: {first_of(named, _SHOWN)}"
    return Finding("rights", "FAIL", words, "apply and bind the roles at the end of this report")


def missing_rules(
    missing: Iterable[tuple[Right, str]], account: ServiceAccount | None = None
) -> tuple[MissingRules, ...]:
    by_namespace: dict[str, list[Right]] = {}
    for right, namespace in missing:
        by_namespace.setdefault(namespace, []).append(right)
    return tuple(
        MissingRules(namespace, tuple(role_rules(by_namespace[namespace])), account)
        for namespace in sorted(by_namespace)
    )
