"""Rules between policies: names, the clusters and switches of the Fleet, and one policy for each workload."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from reconciler.errors import Problem
from reconciler.messages import Path, nearest, shown
from reconciler.policy.file_owners import FileOwners
from reconciler.policy.globs import is_pattern
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.downscale_policy import name_of_deployment
from reconciler.policy.kinds.pod_picker import check_host
from reconciler.policy.kinds.selector import kind_fault
from reconciler.policy.policy_kinds import POLICY_KINDS, kind_stated_by
from reconciler.policy.types import FederatedReplicaSet, Fleet, IdlingPolicy, Selector, Tenant
from reconciler.workload_kinds import BROUGHT_SWITCHES, SWITCHES
from reconciler.yaml.documents import Document


def cross_problems(
    built: Sequence[PolicyDocument], stated: Sequence[tuple[str, Document]], owners: FileOwners
) -> Iterator[Problem]:
    """Yield what is wrong between policies; what does not fit the Fleet is gathered in each document, unless there is
    not exactly one good Fleet.

    What two owners state is never the platform's problem, nor another tenant's.
    """
    yield from _repeated(stated, owners) if owners.known else ()
    yield from _same_workload(built)
    fleets = [document for document in built if document.kind == "Fleet"]
    if len(fleets) == 1:
        names = frozenset(cluster.name for cluster in fleets[0].policy.clusters)
        for document in built:
            _check_against(fleets[0], names, document)


def cross_warnings(built: Sequence[PolicyDocument]) -> list[Problem]:
    """Return what is allowed between policies, and probably a mistake. All of them are valid.

    A policy that names a protected namespace is no problem: protecting one in a hurry must not stop everything else.
    """
    fleet = next(document.policy for document in built if document.kind == "Fleet")
    for document in built:
        for selected, selector in _selectors(document):
            if not any(map(selector.selects_cluster, fleet.clusters)):
                document.warn((*selected, "clusters"), "selects no cluster of the Fleet")
        if isinstance(document.policy, IdlingPolicy):
            _warn_without_switch(document, fleet)
        for path, namespace in _namespaces(document):
            if namespace in fleet.protected:
                document.warn(path, f"is {shown(namespace)}, a protected namespace, where nothing is ever touched")
    return [warning for document in built for warning in document.warnings]


def _selectors(document: PolicyDocument) -> Iterator[tuple[Path, Selector]]:
    """Yield what a policy selects and what it excludes, with their paths."""
    if POLICY_KINDS[document.kind].equals:
        yield ("spec", "selector"), document.policy.selector
        yield from ((("spec", "exclude", n), selector) for n, selector in enumerate(document.policy.exclude))


def _namespaces(document: PolicyDocument) -> Iterator[tuple[Path, str]]:
    """Yield the namespaces that are named outright, with their paths."""
    row = POLICY_KINDS[document.kind]
    if row.namespace is not None:
        yield row.namespace, str(document.get(row.namespace) or "default")
    if row.equals:
        include: Path = ("spec", "selector", "namespaces", "include")
        yield from (
            ((*include, position), name) for position, name in enumerate(document.policy.selector.namespaces.include)
        )


def _repeated(stated: Sequence[tuple[str, Document]], owners: FileOwners) -> Iterator[Problem]:
    """Yield a problem for each name that an owner uses twice; both forms of a federated ReplicaSet are one kind."""
    seen: dict[tuple[str, str, str, Tenant | None], Document] = {}
    for kind, document in stated:
        metadata = document.value.get("metadata")
        if kind == "Fleet" or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            continue
        namespace = str(metadata.get("namespace", "default")) if POLICY_KINDS[kind].namespace else ""
        name = namespace, metadata["name"]
        named = ("", name_of_deployment(*name)) if kind == "Deployment" else name
        first = seen.setdefault((kind_stated_by(kind), *named, owners.of(document.file)), document)
        if first is not document:
            yield document.problem(
                ("metadata", "name"),
                f"is {shown(metadata['name'])} a second time, expected a name of its own; "
                f"the first is at {first.file}:{first.line}",
            )


def _same_workload(built: Sequence[PolicyDocument]) -> Iterator[Problem]:
    """Yield a problem for each workload that two policies drive, and for each name that two owners give to policies of
    one namespace; where one is the platform's, at the other.
    """
    seen: dict[tuple[str, ...], FederatedReplicaSet] = {}
    for document in sorted(built, key=lambda document: bool(document.tenant)):
        policy = document.policy
        if not isinstance(policy, FederatedReplicaSet) or document.taken_out:
            continue
        for key, path, words, verb in _taken_by(policy):
            first = seen.get((*key, "")) or seen.setdefault((*key, document.tenant), policy)
            if first is not policy and (first.name, first.tenant) != (policy.name, document.tenant):
                yield document.source.problem(path, f"{words}; {first.name} at {first.place} {verb}")
                break


def _taken_by(policy: FederatedReplicaSet) -> Iterator[tuple[tuple[str, ...], Path, str, str]]:
    """Yield what no other policy may have too: the workload, and the name, by which it is known in the clusters."""
    group, kind, name = _driven(policy)
    path = ("spec", "targetRef") if policy.target is not None else ("metadata", "name")
    words = f"drives {kind} {policy.namespace}/{name}, expected one policy for it"
    yield ("workload", policy.namespace, group, kind.lower(), name), path, words, "does"
    words = f"is {shown(policy.name)}, expected one policy of that name in namespace {policy.namespace}"
    yield ("name", policy.namespace, policy.name), ("metadata", "name"), words, "has it"


def _driven(policy: FederatedReplicaSet) -> tuple[str, str, str]:
    """Return (group, kind, name) of the local workloads of `policy`."""
    if policy.target is None:
        return ("apps", "ReplicaSet", policy.name)
    return (policy.target.api_version.rpartition("/")[0], policy.target.kind, policy.target.name)


def _check_against(fleet: PolicyDocument, names: frozenset[str], document: PolicyDocument) -> None:
    """Check that a policy names clusters, kinds and a pod picker that the Fleet has; `names` are its clusters."""
    if fleet.is_readable(("spec", "clusters")):
        for path in _cluster_paths(document):
            _check_cluster(document, path, names)
    if fleet.is_readable(("spec", "switches")):
        _check_switched(document, {kind.kind.lower() for kind in fleet.policy.switch_kinds} - {"service"})
    picker = POLICY_KINDS[document.kind].pod_picker
    if picker is not None and fleet.is_readable(("spec", "podPickers", "allowedHosts")):
        check_host(document, picker, document.policy.pod_picker, fleet.policy.pod_pickers.allowed_hosts)


def _check_switched(document: PolicyDocument, switched: Collection[str]) -> None:
    """Check that kinds without replicas are selected only where the Fleet has a switch for them, and never placed."""
    for path, selector in _selectors(document):
        for position, kind in enumerate(() if selector.workloads is None else selector.workloads.kinds):
            fault = kind_fault(kind)
            if fault is not None and kind.lower() not in switched:
                has_switch = any(kind.lower() in brought.names for brought in BROUGHT_SWITCHES)
                remedy = "; name it in spec.switches of the Fleet to switch it off" if has_switch else ""
                document.add((*path, "workloads", "kinds", position), f"is {shown(kind)}, {fault}{remedy}")
    target = document.policy.target if isinstance(document.policy, FederatedReplicaSet) else None
    if target is not None and target.kind.lower() in switched:
        words = "expected a kind whose replicas can be spread; the Fleet has a switch for it"
        document.add(("spec", "targetRef", "kind"), f"is {shown(target.kind)}, {words}")


def _warn_without_switch(document: PolicyDocument, fleet: Fleet) -> None:
    """Add a warning for each kind whose switch is known and that the Fleet does not name. One of the same name may have
    /scale.
    """
    named = {name for kind in fleet.switch_kinds for name in kind.names}
    workloads = document.policy.selector.workloads
    for position, written in enumerate(() if workloads is None else workloads.kinds):
        known = [kind for kind in SWITCHES.values() if written.lower() in kind.names]
        if known and written.lower() not in named:
            expected = f"expected {known[0].kind}.{known[0].group} in spec.switches of the Fleet"
            words = f"is {shown(written)}, {expected}; without it such a kind is idled only where it has /scale"
            document.warn(("spec", "selector", "workloads", "kinds", position), words)


def _cluster_paths(document: PolicyDocument) -> Iterator[Path]:
    """Yield the paths at which a cluster is named."""
    for selector, _ in _selectors(document):
        for part in ("include", "exclude"):
            names: Path = (*selector, "clusters", part)
            yield from ((*names, position) for position in range(len(document.get(names) or ())))
    clusters = POLICY_KINDS[document.kind].clusters
    if clusters is not None:
        written = document.get(clusters)
        yield from ((*clusters, name) for name in (written if isinstance(written, dict) else document.policy.clusters))


_nearest_cluster = lru_cache(maxsize=1024)(nearest)


def _check_cluster(document: PolicyDocument, path: Path, names: frozenset[str]) -> None:
    in_list = isinstance(path[-1], int)
    name = str(document.get(path)) if in_list else str(path[-1])
    if name in names or name == "*" or (in_list and is_pattern(name)):
        return
    message = f"expected a cluster of the Fleet{_nearest_cluster(name, names)}"
    if document.kind == "ReplicaSet":
        document.add(path[:-1], f"clusters.{name}: unknown cluster, {message}")
    elif in_list:
        document.add(path, f"is {shown(name)}, {message}")
    else:
        document.add(path, f"unknown cluster, {message}", key=True)
