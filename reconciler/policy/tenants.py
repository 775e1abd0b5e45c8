"""Tenants and their policies: which tenant a policy file belongs to, and whether its policies stay within bounds."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.messages import Path, alternatives, shown
from reconciler.policy.globs import is_within, path_regex
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.replica_set import ANNOTATION
from reconciler.policy.policy_kinds import POLICY_KINDS, kind_stated_by
from reconciler.policy.types import (
    Calendar,
    DownscalePolicy,
    FederatedReplicaSet,
    Fleet,
    IdlingPolicy,
    PolicySet,
    Selector,
    Tenant,
)
from reconciler.yaml.documents import Document

FLEET_FILE = "fleet.yaml"
"""Where a Fleet with tenants is, below the policy directory: a place that no file of a tenant can take."""


class FileOwners(Struct, frozen=True, dict=True):
    """Whose the policy files below the folder `root` are. With tenants, the platform's are those below `platform`.

    `known` False: the Fleet does not say it, or not in a way that can be read; then nobody is said to own anything.
    """

    tenants: tuple[Tenant, ...] = ()
    platform: tuple[str, ...] = ()
    root: str = ""
    known: bool = True

    def of(self, file: str) -> Tenant | None:
        """Return the tenant of a file, None for the platform. A path that only looks different is still the tenant's:
        in other case, or in another form of Unicode.
        """
        return self._owner(below(file, self.root)) if self.tenants else None

    def name_of(self, file: str) -> str:
        """Return the name of the tenant of a file, "" for the platform."""
        tenant = self.of(file)
        return "" if tenant is None else tenant.name

    def problems(self, files: Iterable[str]) -> Iterator[Problem]:
        """Yield what leaves open whose a file is: no path of anybody, one that looks like a tenant's, or a link to what
        is another's.
        """
        for file in dict.fromkeys(files if self.tenants else ()):
            path, tenant = below(file, self.root), self.of(file)
            if tenant is None and not _matches(self.platform, path):
                words = f"is under no path of a tenant, expected it below {alternatives(self.platform)}"
                yield Problem(file, 1, 1, "", f"{words}, the platformPaths of the Fleet")
            elif tenant is not None and not _matches(tenant.paths, path):
                words = f"only looks like {alternatives(tenant.paths)}, the paths of {_at(tenant)}"
                yield Problem(file, 1, 1, "", f"{words}, expected the same characters in the same case")
            elif self._target(file) is not tenant:
                whose = "the platform" if tenant is None else f"tenant {tenant.name}"
                yield Problem(file, 1, 1, "", f"is a link to a file of another owner, expected one of {whose}")

    def _owner(self, path: str) -> Tenant | None:
        exact = next((one for one in self.tenants if _matches(one.paths, path)), None)
        if exact is not None or _matches(self.platform, path):
            return exact
        alike = _folded(path)
        return next((one for one in self.tenants if _matches(map(_folded, one.paths), alike)), None)

    def _target(self, file: str) -> Tenant | None:
        """Return whose the file is that `file` leads to. A mounted volume keeps its files in a hidden folder."""
        parts = os.path.relpath(os.path.realpath(file), self._home).split(os.sep)
        return self._owner("/".join(part for part in parts if not part.startswith(".") or part == ".."))

    @cached_property
    def _home(self) -> str:
        return os.path.realpath(self.root)


def below(file: str, root: str) -> str:
    """Return the path of `file` below the folder `root`, with slashes."""
    return os.path.relpath(file, root).replace(os.sep, "/")


def _matches(patterns: Iterable[str], path: str) -> bool:
    return any(path_regex(one).match(path) for one in patterns)


def _folded(path: str) -> str:
    """Return what paths that look alike have in common: case and forms of Unicode do not count."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def main_fleet(fleets: Sequence[Document], root: str, unread: Iterable[str] = ()) -> Document | None:
    """Return the one Fleet that counts, None where that is open: the one in `FLEET_FILE`, else the only one.

    `unread` are files with something that could not be read. Where `FLEET_FILE` is one of them no other Fleet counts:
    who may only write policies of a tenant must not become the platform by it.
    """
    there = [one for one in fleets if below(one.file, root) == FLEET_FILE]
    if there:
        return there[0] if len(there) == 1 else None
    hidden = any(below(file, root) == FLEET_FILE for file in unread)
    return fleets[0] if len(fleets) == 1 and not hidden else None


def part_of(policies: PolicySet, tenant: Tenant) -> PolicySet:
    """Return what concerns `tenant`: its clusters, its policies and the platform's, its problems alone."""
    fleet = policies.fleet
    clusters = tuple(one for one in fleet.clusters if tenant.has_cluster(one.name))
    home = fleet.home if tenant.has_cluster(fleet.home) or not clusters else clusters[0].name
    return replace(
        policies,
        fleet=replace(fleet, clusters=clusters, home=home),
        idling=tuple(one for one in policies.idling if one.tenant in ("", tenant.name)),
        calendars=tuple(one for one in policies.calendars if one.name.rpartition("/")[0] in ("", tenant.name)),
        federated=tuple(
            one for one in policies.federated if one.tenant in ("", tenant.name) and tenant.has_namespace(one.namespace)
        ),
        downscale=tuple(one for one in policies.downscale if one.tenant in ("", tenant.name)),
        conflicts=tuple(one for one in policies.conflicts if one.file in _files_of(policies, tenant)),
        stopped=tuple(one for one in policies.stopped if one.name == tenant.name),
        problems={name: inside for name, inside in policies.problems.items() if name == tenant.name},
        only=tenant,
    )


def _files_of(policies: PolicySet, tenant: Tenant) -> set[str]:
    selecting: tuple[IdlingPolicy | DownscalePolicy, ...] = (*policies.idling, *policies.downscale)
    return {one.place.file for one in selecting if one.tenant == tenant.name}


def kind_problem(document: Document, kind: str, tenant: Tenant) -> Problem | None:
    """Return that `tenant` may have no policy of `kind`, None where it may."""
    if kind_stated_by(kind) in tenant.kinds:
        return None
    words = f"is {shown(kind)}, expected {alternatives(tenant.kinds)}, the kinds of {_at(tenant)}"
    return document.problem(("kind",), words)


def bounded(document: PolicyDocument, tenant: Tenant, fleet: Fleet) -> Any:
    """Return the policy of `document` as one of `tenant`: with its name, and selecting nothing else than what it has.

    What reaches further is a problem of `document`.
    """
    policy, row, bounds = document.policy, POLICY_KINDS[document.kind], _Bounds(document, tenant, fleet)
    if row.namespace is not None:
        bounds.check_namespace(row.namespace)
    if row.pod_picker is not None:
        bounds.check_picker(policy, row.pod_picker)
    if row.equals:
        bounds.check_selecting(policy)
    if row.production is not None:
        bounds.check_production(policy, row.production)
    if isinstance(policy, IdlingPolicy):
        order = replace(policy.wake_order, group=f"{tenant.name}/{policy.wake_order.group}")
        return replace(bounds.owned(policy), wake_order=order)
    if isinstance(policy, DownscalePolicy):
        return bounds.owned(policy)
    if isinstance(policy, FederatedReplicaSet):
        return bounds.placed(policy)
    return replace(policy, name=f"{tenant.name}/{policy.name}") if isinstance(policy, Calendar) else policy


def _at(tenant: Tenant) -> str:
    return f"tenant {tenant.name} at {tenant.place}"


class _Bounds(Struct, frozen=True):
    document: PolicyDocument
    tenant: Tenant
    fleet: Fleet

    def check_selecting(self, policy: Any) -> None:
        """Add a problem for each part of a policy's selector that is outside of the bounds, and for its priority."""
        tenant = self.tenant
        if policy.priority > tenant.max_priority:
            words = f'is "{policy.priority}", expected at most {tenant.max_priority}, maxPriority of {_at(tenant)}'
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
                        f"those of {_at(self.tenant)}"
                        '; "*" means all of them',
                    )

    def check_production(self, policy: Any, path: Path) -> None:
        """Add a problem where a policy selects production, and the platform does not let the tenant do so."""
        if policy.production and not self.tenant.production:
            words = f"expected no production in a policy of {_at(self.tenant)}; the platform may allow it there"
            self.document.add(path, f"is true, {words}: production: true")

    def owned(self, policy: Any) -> Any:
        """Return a policy with a selector, as one that is the tenant's and selects nothing else than what it has."""
        return replace(
            policy,
            name=f"{self.tenant.name}/{policy.name}",
            tenant=self.tenant.name,
            selector=self._within(policy.selector),
            exclude=tuple(self._within(one) for one in policy.exclude),
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
            words = f"expected one within {alternatives(self.tenant.namespaces)}, those of {_at(self.tenant)}"
            self.document.add(path, f"is {shown(namespace)}, {words}")

    def placed(self, policy: FederatedReplicaSet) -> FederatedReplicaSet:
        """Return a federated ReplicaSet whose "*" is all clusters of the tenant."""
        tenant = self.tenant
        if policy.template is not None and tenant.templates == "None":
            words = f"expected targetRef, as the templates of {_at(tenant)} are None; pods would run with any rights"
            self.document.add(("spec", "template"), f"is a pod template, {words}")
        for name in policy.clusters:
            if name != "*" and not tenant.has_cluster(name):
                self._check_placed_on(name)
        names = [one.name for one in self.fleet.clusters if tenant.has_cluster(one.name)]
        clusters = {name: found for name in names if (found := policy.preference(name)) is not None}
        if not clusters:
            self.document.add(("spec",), f"runs on no cluster of {_at(tenant)}, expected at least one")
        preferences = replace(policy.preferences, clusters=clusters or policy.clusters)
        unnamed = tuple(name for name in clusters if not policy.is_named(name))
        return replace(policy, preferences=preferences, tenant=tenant.name, within=tenant.clusters, unnamed=unnamed)

    def _check_placed_on(self, name: str) -> None:
        words = f"expected a cluster within {alternatives(self.tenant.clusters)}, those of {_at(self.tenant)}"
        if self.document.get(ANNOTATION) is not None:
            self.document.add(ANNOTATION, f"clusters.{name}: {words}")
        else:
            self.document.add(("spec", "preferences", "clusters", name), words, key=True)

    def check_picker(self, policy: DownscalePolicy | FederatedReplicaSet, path: Path) -> None:
        """Add a problem where the pod picker may be a Service outside of the tenant's namespaces.

        One that the Fleet allows by its whole name, not by a pattern, is there for everyone but for another tenant's.
        """
        host = "" if policy.pod_picker is None else policy.pod_picker.host.lower().rstrip(".")
        foreign = [name for name in _namespaces_in(host) if not self.tenant.has_namespace(name)]
        other = next((one for name in foreign for one in self.fleet.tenants if one.has_namespace(name)), None)
        if other is not None:
            words = f"is {shown(host)}, a Service of {_at(other)}, expected one of tenant {self.tenant.name}"
            self.document.add((*path, "http", "host"), words)
        elif foreign and host not in {one.lower().rstrip(".") for one in self.fleet.pod_pickers.allowed_hosts}:
            words = (
                f"is {shown(host)}, a Service of the platform, expected one of tenant {self.tenant.name}, or one that"
            )
            self.document.add((*path, "http", "host"), f"{words} podPickers.allowedHosts has by its whole name")


def _namespaces_in(host: str) -> Iterator[str]:
    """Yield the namespaces of which `host` may be a Service, or a pod behind one: it stands before "svc".

    A name without dots is looked up in the namespace of the run, which is called "" here.

    Source: kubernetes/dns docs/specification.md, "Records for a Service" and "Records for a Headless Service".
    """
    parts = host.split(".")
    if host and len(parts) <= 2:
        yield parts[1] if len(parts) == 2 else ""
    yield from (parts[at - 1] for at in range(2, len(parts)) if parts[at] == "svc")
