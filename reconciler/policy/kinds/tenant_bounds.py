"""The bounds of a tenant: whether a policy of its files stays within its namespaces, clusters, kinds and priority."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.connection_settings import PodPicker
from reconciler.messages import Path, alternatives, shown
from reconciler.policy.globs import is_within
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fleet import Fleet
from reconciler.policy.kinds.selector import Selector
from reconciler.policy.kinds.tenant import Tenant


class TenantBounds(Struct, frozen=True):
    """The bounds of `tenant`, of `fleet`, for the policy of `document`, in which problems are gathered."""

    document: PolicyDocument
    tenant: Tenant
    fleet: Fleet

    def check_selecting(self, policy: Any) -> None:
        """Add a problem for each part of a policy's selector that is outside of the bounds, and for its priority."""
        tenant = self.tenant
        if policy.priority > tenant.max_priority:
            words = f'is "{policy.priority}", expected at most {tenant.max_priority}, maxPriority of {self.tenant}'
            self.document.add(("spec", "priority"), words)
        for part, patterns, allowed in (
            ("clusters", policy.selector.clusters.include, tenant.clusters),
            ("namespaces", policy.selector.namespaces.include, tenant.namespaces),
        ):
            for position, pattern in enumerate(patterns):
                if pattern != "*" and not is_within(pattern, allowed):
                    self.document.add(
                        ("spec", "selector", part, "include", position),
                        f"is {shown(pattern)}, expected {part} within {alternatives(allowed)}, "
                        f"those of {self.tenant}"
                        '; "*" means all of them',
                    )

    def check_production(self, policy: Any, path: Path) -> None:
        """Add a problem where a policy selects production, and the platform does not let the tenant do so."""
        if policy.production and not self.tenant.production:
            words = f"expected no production in a policy of {self.tenant}; the platform may allow it there"
            self.document.add(path, f"is true, {words}: production: true")

    def owned(self, policy: Any) -> Any:
        """Return a policy with a selector, as one that is the tenant's and selects nothing else than what it has."""
        return replace(
            policy,
            name=f"{self.tenant.name}/{policy.name}",
            tenant=self.tenant.name,
            selector=self._within(policy.selector),
            exclude=tuple(self._within(exclusion) for exclusion in policy.exclude),
        )

    def _within(self, selector: Selector) -> Selector:
        return replace(
            selector,
            clusters=replace(selector.clusters, within=self.tenant.clusters),
            namespaces=replace(selector.namespaces, within=self.tenant.namespaces),
        )

    def check_namespace(self, path: Path) -> None:
        """Add a problem where the one namespace at `path` is not the tenant's."""
        namespace = str(self.document.get(path) or "default")
        if not self.tenant.has_namespace(namespace):
            words = f"expected one within {alternatives(self.tenant.namespaces)}, those of {self.tenant}"
            self.document.add(path, f"is {shown(namespace)}, {words}")

    def check_picker(self, picker: PodPicker | None, path: Path) -> None:
        """Add a problem where the pod picker may be a Service outside of the tenant's namespaces.

        One that the Fleet allows by its whole name, not by a pattern, is there for everyone but for another tenant's.
        """
        host = "" if picker is None else picker.host.lower().rstrip(".")
        foreign = [name for name in _namespaces_in(host) if not self.tenant.has_namespace(name)]
        other = next((tenant for name in foreign for tenant in self.fleet.tenants if tenant.has_namespace(name)), None)
        if other is not None:
            words = f"is {shown(host)}, a Service of {other}, expected one of tenant {self.tenant.name}"
            self.document.add((*path, "http", "host"), words)
        elif foreign and host not in {allowed.lower().rstrip(".") for allowed in self.fleet.pod_pickers.allowed_hosts}:
            words = f"is {shown(host)}, a Service of the platform, expected one of tenant {self.tenant.name}"
            words += ", or one that podPickers.allowedHosts has by its whole name"
            self.document.add((*path, "http", "host"), words)


def _namespaces_in(host: str) -> Iterator[str]:
    """Yield the namespaces of which `host` may be a Service, or a pod behind one: it stands before "svc".

    A name without dots is looked up in the namespace of the run, which is called "" here.

    Source: kubernetes/dns docs/specification.md, "Records for a Service" and "Records for a Headless Service".
    """
    parts = host.split(".")
    if host and len(parts) <= 2:
        yield parts[1] if len(parts) == 2 else ""
    yield from (parts[at - 1] for at in range(2, len(parts)) if parts[at] == "svc")
