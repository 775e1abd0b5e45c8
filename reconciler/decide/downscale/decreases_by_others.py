"""Decreases that others ask for: whether their pods are ours to choose, and which ones nobody chose for.

While no picker can be reached, a decrease goes through. So each run keeps in the journal, below `picker`, how many
replicas every workload had whose pods are ours to choose, in namespaces that let the picker in. A picker makes that
record when it starts: where there is none there is no picker. What has fewer replicas by then, without a run or a
picker that wrote it down, was decreased unseen:

    picker: {"replicas": {"<uid of the workload>": 6}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.decide.annotations import PICKER_ENABLED, Key, compact
from reconciler.decide.decisions import Decision
from reconciler.decide.downscale.journal import journal_of
from reconciler.decide.downscale.victim_choice import VictimStrategy, victim_strategies
from reconciler.decide.freeze import frozen, restriction
from reconciler.decide.protected_namespaces import protection
from reconciler.decide.selectors import exclusions, namespace_annotations, namespace_labels
from reconciler.model import ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import PolicySet
from reconciler.untrusted_text import parse_json

RECORD = "picker"
"""The key of the record in the journal."""

KINDS = ("Deployment", "ReplicaSet")
"""The kinds of which every decrease is reviewed."""


def every_decrease(
    policies: PolicySet, state: ObservedState, name: str, run: Run
) -> Callable[[Workload], VictimStrategy] | None:
    """Return what says of a workload of the cluster `name` how its victims are chosen, whoever scales it down: the
    controller's way where a run would leave it alone. None where the Fleet has no cluster of that name.
    """
    fleet = frozen(policies.fleet, state, run.now)
    cluster = fleet.cluster(name)
    if cluster is None:
        return None
    strategies, namespaces = victim_strategies(policies, state, name), namespace_annotations(state.clusters[name])

    def strategy_of(workload: Workload) -> VictimStrategy:
        space = workload.ref.namespace
        stated = strategies.stated(workload.ref) if workload.owner is None and workload.ref.kind in KINDS else None
        if stated is None or protection(fleet, space) or restriction(cluster, space):
            return VictimStrategy()
        annotations = (workload.annotations, namespaces.get(space, {}))
        found = (exclusions(on, run.now, kube_downscaler=fleet.honors_kube_downscaler) for on in annotations)
        return VictimStrategy() if any(next(excluded, None) for excluded in found) else stated

    return strategy_of


class SeenReplicas(Struct, frozen=True):
    """What a run found on one cluster: the workloads that have fewer replicas than before, though no picker was asked,
    each with what is said of that; and the record in the journal, as it is and as it should be.
    """

    cluster: str
    decreases: tuple[tuple[Workload, str], ...]
    before: str
    after: str


def seen_replicas(
    policies: PolicySet, state: ObservedState, decisions: Iterable[Decision], run: Run, *, whole: bool
) -> tuple[SeenReplicas, ...]:
    """Return what was found on each cluster where a picker made a record; `decisions` are those of the run.

    `whole`: all namespaces were looked at, so what was not found is gone.
    """
    desired = {decision.ref: decision.replicas_after for decision in decisions if decision.replicas_after is not None}
    is_whole = whole and policies.shard is None
    found: list[SeenReplicas] = []
    for name, observed in sorted(state.clusters.items()):
        journal, entries, _ = journal_of(observed, policies.fleet.namespace)
        text = None if journal is None else journal.data.get(RECORD)
        strategy_of = None if text is None else every_decrease(policies, state, name, run)
        if text is None or strategy_of is None:
            continue
        known, decreases = replicas_in(text), list[tuple[Workload, str]]()
        replicas = {} if is_whole and not observed.unreadable else known.copy()
        for workload, policy in _reviewed(observed, strategy_of):
            count, entry = workload.spec_replicas, entries.get(workload.uid)
            if 0 < count < known.get(workload.uid, 0) and (entry is None or entry.after != count):
                why = f"decreased without a picker: none was asked, so the controller chose ({policy})"
                decreases.append((workload, f"replicas {known[workload.uid]} -> {count}; {why}"))
            replicas[workload.uid] = min(count, desired.get(workload.ref, count))
        found.append(SeenReplicas(name, tuple(decreases), text, record_text(replicas)))
    return tuple(found)


def _reviewed(
    observed: ObservedCluster, strategy_of: Callable[[Workload], VictimStrategy]
) -> Iterator[tuple[Workload, str]]:
    """Yield the workloads whose pods are ours to choose in namespaces that let the picker in, and by which policy."""
    spaces = {
        name for name, labels in namespace_labels(observed).items() if labels.get(Key.PICKER_LABEL) == PICKER_ENABLED
    }
    for workload in observed.workloads:
        if workload.ref.namespace in spaces and (strategy := strategy_of(workload)).chooses:
            yield workload, strategy.settings.policy


def replicas_in(text: str) -> dict[str, int]:
    """Return the replicas by uid that a record says; what cannot be read says nothing."""
    try:
        found = parse_json(text)["replicas"]
        return {uid: count for uid, count in found.items() if type(count) is int}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def record_text(replicas: Mapping[str, int]) -> str:
    """Return the record of these replicas by uid."""
    return compact({"replicas": dict(replicas)})
