"""Decreases that others ask for: whether their pods are ours to choose, and which ones nobody chose for.

While no picker can be reached, a decrease goes through. So each run keeps in the journal, below `picker`, how many
replicas every workload had whose pods are ours to choose, in namespaces that let the picker in. A picker makes that
record when it starts: where there is none there is no picker. What has fewer replicas by then, without a run or a
picker that wrote it down, was decreased unseen:

    picker: {"replicas": {"<uid of the workload>": 6}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.decide.annotations import PICKER_ENABLED, PICKER_LABEL, compact
from reconciler.decide.decisions import Decision
from reconciler.decide.downscale.journal import journal_of
from reconciler.decide.downscale.victim_choice import VictimStrategies, VictimStrategy, victim_strategies
from reconciler.decide.freeze import frozen, restriction
from reconciler.decide.selectors import exclusions, namespace_annotations, namespace_labels
from reconciler.model import ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import Fleet, FleetCluster, PolicySet
from reconciler.untrusted_text import parse_json

RECORD = "picker"
"""The key of the record in the journal."""

KINDS = ("Deployment", "ReplicaSet")
"""The kinds of which every decrease is reviewed."""


class _EveryDecrease(Struct, frozen=True):
    """Of which workloads of one cluster the pods are ours to choose, whoever scales them down."""

    fleet: Fleet
    cluster: FleetCluster
    strategies: VictimStrategies
    namespaces: Mapping[str, Mapping[str, str]]  # their annotations, by name
    run: Run

    def strategy_of(self, workload: Workload) -> VictimStrategy:
        """Return how the victims are chosen; the controller's way where a run would leave the workload alone."""
        space = workload.ref.namespace
        if workload.owner is not None or workload.ref.kind not in KINDS or space in self.fleet.protected:
            return VictimStrategy()
        stated = self.strategies.stated(workload.ref)
        if stated == VictimStrategy() or restriction(self.cluster, space) is not None:
            return VictimStrategy()
        annotations = (workload.annotations, self.namespaces.get(space, {}))
        downscaler = self.fleet.honors_kube_downscaler
        if any(next(exclusions(on, self.run.now, kube_downscaler=downscaler), None) for on in annotations):
            return VictimStrategy()
        return stated


def every_decrease(policies: PolicySet, state: ObservedState, name: str, run: Run) -> _EveryDecrease | None:
    """Return what is chosen on the cluster `name` of `state`; None where the Fleet has none of that name."""
    fleet = frozen(policies.fleet, state, run.now)
    cluster = fleet.cluster(name)
    if cluster is None:
        return None
    namespaces = namespace_annotations(state.clusters[name])
    return _EveryDecrease(fleet, cluster, victim_strategies(policies, state, name), namespaces, run)


class _UnseenDecrease(Struct, frozen=True):
    """A workload that has fewer replicas than before, and no picker was asked."""

    workload: Workload
    before: int
    policy: str

    @property
    def message(self) -> str:
        numbers = f"replicas {self.before} -> {self.workload.spec_replicas}"
        return f"{numbers}; decreased without a picker: none was asked, so the controller chose ({self.policy})"


class SeenReplicas(Struct, frozen=True):
    """What a run found on one cluster: the decreases, and the record in the journal, as it is and as it should be."""

    cluster: str
    decreases: tuple[_UnseenDecrease, ...]
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
        journal, _, _ = journal_of(observed, policies.fleet.namespace)
        decrease = every_decrease(policies, state, name, run) if journal and RECORD in journal.data else None
        if decrease is not None:
            found.append(_seen(decrease, observed, desired, whole=is_whole and not observed.unreadable))
    return tuple(found)


def _seen(
    decrease: _EveryDecrease, observed: ObservedCluster, desired: Mapping[ObjectRef, int], *, whole: bool
) -> SeenReplicas:
    journal, entries, _ = journal_of(observed, decrease.fleet.namespace)
    text = "" if journal is None else journal.data[RECORD]
    known = replicas_in(text)
    replicas: dict[str, int] = {} if whole else dict(known)
    decreases: list[_UnseenDecrease] = []
    reviewed = {
        name for name, labels in namespace_labels(observed).items() if labels.get(PICKER_LABEL) == PICKER_ENABLED
    }
    for workload in observed.workloads:
        strategy = decrease.strategy_of(workload)
        if workload.ref.namespace not in reviewed or not strategy.chooses:
            continue
        count, entry = workload.spec_replicas, entries.get(workload.uid)
        if 0 < count < known.get(workload.uid, 0) and (entry is None or entry.after != count):
            decreases.append(_UnseenDecrease(workload, known[workload.uid], strategy.settings.policy))
        replicas[workload.uid] = min(count, desired.get(workload.ref, count))
    return SeenReplicas(observed.name, tuple(decreases), text, record_text(replicas))


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
