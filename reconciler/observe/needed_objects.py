"""What is read of a cluster: what decisions of the policies may rest on, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.protocols import REPLICA_SETS
from reconciler.decide.selectors import names_kind
from reconciler.errors import ClusterError, ForbiddenError
from reconciler.model import EVERY_KIND, Event, Namespace, Pod, Workload
from reconciler.policy.types import DownscalePolicy, IdlingPolicy, PolicySet, Selector, Tenant
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind


class Scope(Struct, frozen=True):
    """How much is looked at. `namespace` set: only what is in it, so that rights there are enough.

    `alone`: there is one cluster, so nothing rests on its identity, and that may stay unknown. `whole`: also what no
    decision of these policies needs.
    """

    namespace: str = ""
    alone: bool = False
    whole: bool = False

    def words(self, error: ClusterError) -> str:
        """Return the message about a list that cannot be read."""
        hint = self.alone and not self.namespace and isinstance(error, ForbiddenError)
        return f"{error}, or look at one namespace: -n NAMESPACE" if hint else str(error)


EVERYTHING = Scope()


def placed_names(policies: PolicySet) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the local ReplicaSets of `policies`: those whose pod templates are compared."""
    return frozenset(
        (federated.namespace, federated.target.name if federated.target else federated.name)
        for federated in policies.federated
    )


class NeededObjects(Struct, frozen=True):
    """What is read of each cluster."""

    own_namespace: str
    nodes: bool
    scope: Scope
    placed: frozenset[tuple[str, str]]
    kinds: frozenset[str] = frozenset()  # that policies name, in lower case
    tenant: Tenant | None = None  # only what is in its namespaces, so that rights there are enough
    decides: Callable[[str], bool] | None = None  # only what is in these namespaces; None: in all
    namespaces: tuple[str, ...] | None = None  # the only ones of which anything is read
    of_deployments: bool = True  # the ReplicaSets of Deployments too

    def keeps(self, found: Any) -> bool:
        """Return whether an object, or what is in it, is decided in this run."""
        return self.decides is None or self.decides(_namespace_of(found))

    def forgoes(self, kind: WorkloadKind) -> bool:
        """Return whether a run does without `kind` where it may not read that: no policy can select it."""
        built_in = (kind.group, kind.kind) in SCALABLE_KINDS
        return not built_in and kind.kind != EVERY_KIND and self.kinds.isdisjoint(kind.names)

    def reduced(self, workload: Workload) -> Workload:
        """Return `workload` without its pod template where nothing compares that."""
        if workload.template is None or (workload.ref.namespace, workload.ref.name) in self.placed:
            return workload
        return replace(workload, template=None)


_MOST_APART = 20
"""Of so many namespaces each is listed by itself; of more, the whole cluster is."""


def needed_objects(
    policies: PolicySet, cluster: str, scope: Scope, placed: frozenset[tuple[str, str]]
) -> NeededObjects:
    """Return what is read of `cluster`, of which `policies` may select something."""
    zones = any(policy.strategy == "ZoneBalanced" for policy in policies.downscale)
    wanted = NeededObjects(
        policies.fleet.namespace,
        zones,
        scope,
        placed,
        frozenset(map(str.lower, policies.kinds)),
        policies.only,
        of_deployments=scope.whole or _decides_beyond_deployments(policies),
    )
    if policies.shard is None:
        return wanted
    names = policies.shard.namespaces_on(cluster)
    apart = None if names is None or len(names) > _MOST_APART else names
    return replace(wanted, decides=policies.shard.decides_on(cluster), namespaces=apart)


def _decides_beyond_deployments(policies: PolicySet) -> bool:
    """Return whether decisions may rest on the ReplicaSets of Deployments: where policies may select ReplicaSets, or
    have to do with Services, whose pods they own. Without policies somebody asks by hand, for whatever there is.
    """
    selecting: tuple[IdlingPolicy | DownscalePolicy, ...] = (*policies.idling, *policies.downscale)
    return (
        not selecting
        or bool(policies.federated)
        or any(part.workloads is None or part.services is not None for policy in selecting for part in policy.exclude)
        or any(_selects_replica_sets_or_services(policy.selector) for policy in selecting)
    )


def _selects_replica_sets_or_services(selector: Selector) -> bool:
    workloads = selector.workloads
    others_only = workloads is not None and workloads.kinds and not names_kind(workloads, REPLICA_SETS.kind)
    return selector.services is not None or not others_only


def _namespace_of(found: Any) -> str:
    """Return the namespace that an object is in, or is."""
    if isinstance(found, Namespace):
        return found.ref.name
    return found.namespace if isinstance(found, Pod | Event) else found.ref.namespace
