"""The bounds of a tenant: whether a policy of its files stays within its namespaces, clusters, kinds and priority."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.messages import Path, alternatives, shown
from reconciler.policy.globs import is_within
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.policy_kinds import POLICY_KINDS, kind_stated_by
from reconciler.policy.types import Calendar, FederatedReplicaSet, Fleet, IdlingPolicy, Selector, Tenant
from reconciler.yaml.documents import Document


def kind_problem(document: Document, kind: str, tenant: Tenant | None) -> Problem | None:
    """Return that `tenant`, None for the platform, may have no policy of `kind`; None where it may."""
    if tenant is None or kind_stated_by(kind) in tenant.kinds:
        return None
    words = f"is {shown(kind)}, expected {alternatives(tenant.kinds)}, the kinds of {tenant}"
    return document.problem(("kind",), words)


def bounded(document: PolicyDocument, tenant: Tenant, fleet: Fleet) -> Any:
    """Return the policy of `document` as one of `tenant`, which selects nothing else than what that has; what reaches
    further is a problem of `document`.
    """
    policy, row = document.policy, POLICY_KINDS[document.kind]
    if row.namespace is not None:
        _check_namespace(document, tenant, row.namespace)
    if row.pod_picker is not None:
        _check_picker(document, tenant, fleet, (*row.pod_picker, "http", "host"))
    if row.equals:
        _check_selecting(document, tenant)
    if row.production is not None and policy.production and not tenant.production:
        words = f"expected no production in a policy of {tenant}; the platform may allow it there"
        document.add(row.production, f"is true, {words}: production: true")
    if isinstance(policy, FederatedReplicaSet):
        return _placing(document, tenant, fleet)
    named = replace(policy, name=f"{tenant.name}/{policy.name}")
    return named if isinstance(policy, Calendar) else _selecting(named, tenant)


def _placing(document: PolicyDocument, tenant: Tenant, fleet: Fleet) -> FederatedReplicaSet:
    """Return a FederatedReplicaSet as one of `tenant`, whose "*" is all of its clusters."""
    policy: FederatedReplicaSet = document.policy
    named_at = POLICY_KINDS[document.kind].clusters or ()
    if policy.template is not None and tenant.templates == "None":
        words = f"expected targetRef, as the templates of {tenant} are None; pods would run with any rights"
        document.add(("spec", "template"), f"is a pod template, {words}")
    for name in policy.clusters:
        if name != "*" and not tenant.has_cluster(name):
            words = f"expected a cluster within {alternatives(tenant.clusters)}, those of {tenant}"
            if document.kind == "ReplicaSet":
                document.add(named_at, f"clusters.{name}: {words}")
            else:
                document.add((*named_at, name), words, key=True)
    names = [cluster.name for cluster in fleet.clusters if tenant.has_cluster(cluster.name)]
    clusters = {name: found for name in names if (found := policy.preference(name)) is not None}
    if not clusters:
        document.add(("spec",), f"runs on no cluster of {tenant}, expected at least one")
    preferences = replace(policy.preferences, clusters=clusters or policy.clusters)
    unnamed = tuple(name for name in clusters if not policy.is_named(name))
    return replace(policy, preferences=preferences, tenant=tenant.name, within=tenant.clusters, unnamed=unnamed)


def _selecting(policy: Any, tenant: Tenant) -> Any:
    """Return a policy with a selector as one of `tenant`, with wake groups of its own."""
    owned = replace(
        policy,
        tenant=tenant.name,
        selector=_within(policy.selector, tenant),
        exclude=tuple(_within(exclusion, tenant) for exclusion in policy.exclude),
    )
    if not isinstance(owned, IdlingPolicy):
        return owned
    order = owned.wake_order
    return replace(owned, wake_order=replace(order, group=f"{tenant.name}/{order.group}"))


def _within(selector: Selector, tenant: Tenant) -> Selector:
    return replace(
        selector,
        clusters=replace(selector.clusters, within=tenant.clusters),
        namespaces=replace(selector.namespaces, within=tenant.namespaces),
    )


def _check_selecting(document: PolicyDocument, tenant: Tenant) -> None:
    """Add a problem for each part of a policy's selector that is outside of the bounds, and for its priority."""
    policy = document.policy
    if policy.priority > tenant.max_priority:
        words = f'is "{policy.priority}", expected at most {tenant.max_priority}, maxPriority of {tenant}'
        document.add(("spec", "priority"), words)
    for part, patterns, allowed in (
        ("clusters", policy.selector.clusters.include, tenant.clusters),
        ("namespaces", policy.selector.namespaces.include, tenant.namespaces),
    ):
        for position, pattern in enumerate(patterns):
            if pattern != "*" and not is_within(pattern, allowed):
                words = f'expected {part} within {alternatives(allowed)}, those of {tenant}; "*" means all of them'
                document.add(("spec", "selector", part, "include", position), f"is {shown(pattern)}, {words}")


def _check_namespace(document: PolicyDocument, tenant: Tenant, path: Path) -> None:
    """Add a problem where the one namespace at `path` is not the tenant's."""
    namespace = str(document.get(path) or "default")
    if not tenant.has_namespace(namespace):
        words = f"expected one within {alternatives(tenant.namespaces)}, those of {tenant}"
        document.add(path, f"is {shown(namespace)}, {words}")


def _check_picker(document: PolicyDocument, tenant: Tenant, fleet: Fleet, path: Path) -> None:
    """Add a problem where the pod picker, whose host is at `path`, may be a Service outside of the tenant's namespaces.

    One that the Fleet allows by its whole name, not by a pattern, is there for everyone but for another tenant's.
    """
    picker = document.policy.pod_picker
    host = "" if picker is None else picker.host.lower().rstrip(".")
    foreign = [name for name in _namespaces_in(host) if not tenant.has_namespace(name)]
    other = next((one for name in foreign for one in fleet.tenants if one.has_namespace(name)), None)
    if other is not None:
        document.add(path, f"is {shown(host)}, a Service of {other}, expected one of tenant {tenant.name}")
    elif foreign and host not in {allowed.lower().rstrip(".") for allowed in fleet.pod_pickers.allowed_hosts}:
        words = f"is {shown(host)}, a Service of the platform, expected one of tenant {tenant.name}"
        document.add(path, f"{words}, or one that podPickers.allowedHosts has by its whole name")


def _namespaces_in(host: str) -> Iterator[str]:
    """Yield the namespaces of which `host` may be a Service, or a pod behind one: it stands before "svc".

    A name without dots is looked up in the namespace of the run, which is called "" here.

    Source: kubernetes/dns docs/specification.md, "Records for a Service" and "Records for a Headless Service".
    """
    parts = host.split(".")
    if host and len(parts) <= 2:
        yield parts[1] if len(parts) == 2 else ""
    yield from (parts[at - 1] for at in range(2, len(parts)) if parts[at] == "svc")
