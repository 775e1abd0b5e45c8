"""The choice of victims of a workload: by which policy and strategy, among which pods, and the chosen ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace

from msgspec import Struct, structs

from reconciler.connection_settings import PickerAnswer, PickerRequest, PodPicker
from reconciler.decide.annotations import VICTIM_COST
from reconciler.decide.autoscalers import ClusterAutoscalers, autoscalers_of, shrunk_by
from reconciler.decide.decisions import Cause, Decision, Phase, Verb, group_name
from reconciler.decide.downscale.deletion_order import (
    ALL_RULES,
    PodRule,
    RankingRules,
    VictimRanking,
    deletion_cost,
    goes_first,
    rank_victims,
)
from reconciler.decide.owners_and_rollouts import OwnerKey, owner_key
from reconciler.decide.selectors import LocalKey, SelectingPolicies, federated_by_local_key, key_of, of_highest_priority
from reconciler.decide.victim_fields import DownscaleSettings, Strategy
from reconciler.errors import PickerError
from reconciler.model import FIELD_MANAGER, ObjectRef, ObservedCluster, ObservedState, Pod, Run, Workload
from reconciler.policy.types import DownscalePolicy, FederatedReplicaSet, FleetCluster, PolicySet
from reconciler.workload_kinds import workload_kind

DEFAULT = DownscaleSettings("", "Logarithmic", None, 2.0, "", "Skip", 2.0, 30.0)
"""What the controller does by itself."""


class VictimStrategy(Struct, frozen=True):
    """How the victims of one workload are found. `note` is what a person should know of it."""

    settings: DownscaleSettings = DEFAULT
    note: str = ""

    @property
    def chooses(self) -> bool:
        """Whether the controller would choose other victims, so that ours get a cost."""
        own = (self.settings.strategy, self.settings.logarithm_base)
        return own != (DEFAULT.strategy, DEFAULT.logarithm_base)


_CONTROLLER = VictimStrategy()


class VictimStrategies(Struct, frozen=True):
    """The strategies of the workloads of one cluster."""

    policies: Mapping[ObjectRef, list[DownscalePolicy]]
    federated: Mapping[LocalKey, FederatedReplicaSet]
    autoscalers: ClusterAutoscalers

    def strategy_of(self, ref: ObjectRef) -> VictimStrategy:
        """Return that of a workload; while an autoscaler scales it down too the choice is the controller's."""
        stated = self.stated(ref)
        name = shrunk_by(self.autoscalers, ref) if stated.chooses else None
        if name is None:
            return stated
        return VictimStrategy(
            note=f"{stated.settings.strategy} needs {name} to leave scaling down alone, the controller chooses"
        )

    def stated(self, ref: ObjectRef) -> VictimStrategy:
        """Return what policies say of a workload, whoever scales it down."""
        if not (self.policies or self.federated):
            return _CONTROLLER
        federated = self.federated.get(key_of(ref))
        if federated is not None and federated.pod_picker is not None:
            settings = structs.replace(
                DEFAULT, policy=federated.name, strategy="PodPicker", picker=federated.pod_picker
            )
            return VictimStrategy(settings)
        best = of_highest_priority([policy for policy in self.policies.get(ref, ()) if policy.mode == "Enforce"])
        if len(best) > 1:
            names = " and ".join(policy.name for policy in best)
            return VictimStrategy(note=f"{names} have the same priority, the controller chooses")
        return VictimStrategy(_downscale_settings(best[0])) if best else _CONTROLLER


def victim_strategies(policies: PolicySet, state: ObservedState, cluster: str) -> VictimStrategies:
    """Return the strategies of the workloads of `cluster`."""
    fleet_cluster, observed = policies.fleet.cluster(cluster), state.clusters.get(cluster)
    if fleet_cluster is None or observed is None:
        observed = ObservedCluster(cluster, "")
    return VictimStrategies(
        policies=policies_by_workload(policies.downscale, fleet_cluster, observed) if fleet_cluster else {},
        federated=federated_by_local_key(federated for federated in policies.federated if federated.is_on(cluster)),
        autoscalers=autoscalers_of(observed),
    )


def _downscale_settings(policy: DownscalePolicy) -> DownscaleSettings:
    """Return the settings that apply needs to choose victims by `policy`."""
    return DownscaleSettings(
        policy=policy.name,
        strategy=strategy_of(policy),
        picker=policy.pod_picker,
        logarithm_base=float(policy.logarithm.base),
        topology_key=policy.zone_balanced.topology_key,
        on_foreign_cost=policy.on_foreign_cost,
        settle_seconds=float(policy.settle_seconds),
        verify_seconds=float(policy.verify_seconds),
    )


# Which DownscalePolicies select a workload.


def policies_by_workload(
    policies: Iterable[DownscalePolicy], fleet_cluster: FleetCluster, observed: ObservedCluster
) -> dict[ObjectRef, list[DownscalePolicy]]:
    """Return for each workload that any of `policies` selects in this cluster those that do, in their order."""
    selecting = SelectingPolicies(policies, fleet_cluster, observed)
    if not selecting.reaching:
        return {}
    found: dict[ObjectRef, list[DownscalePolicy]] = {}
    for workload in observed.workloads:
        if workload.owner is None and workload.kind.pods != "None":
            excluding = {policy.name for policy, _ in selecting.excluding(workload)}
            chosen = [policy for policy in selecting.on_workload(workload) if policy.name not in excluding]
            if chosen:
                found[workload.ref] = chosen
    return found


def strategy_of(policy: DownscalePolicy) -> Strategy:
    """Return the policy's strategy in one word, "PodPicker" where it has one."""
    return policy.strategy if policy.pod_picker is None else "PodPicker"


# Whose pods go when a workload is scaled down.


class PodGroup(Struct, frozen=True):
    """The pods of the one ReplicaSet (or the like) that is scaled down; `siblings` as in `rank_victims`.

    `split`: several ReplicaSets have pods, so there is no such one.
    """

    pods: tuple[Pod, ...] = ()
    siblings: tuple[Pod, ...] | None = None
    split: bool = False

    @property
    def active(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.is_active)

    def ranked(self, count: int, now_ns: int, rules: RankingRules = ALL_RULES) -> VictimRanking:
        """Return its pods in the order in which they go, `count` of them as victims."""
        return rank_victims(self.pods, count, now_ns=now_ns, siblings=self.siblings, rules=rules)


def pod_group(kind: str, pods: Sequence[Pod], siblings: tuple[Pod, ...] | None = None) -> PodGroup:
    """Return the pods that a decrease of a workload of `kind` chooses among; `pods` are all of the workload's.

    `siblings` are those of the other ReplicaSets beside a ReplicaSet that has a controller.
    """
    if workload_kind(kind).pods != "ReplicaSets":
        return PodGroup(tuple(pods), siblings)
    owners = sorted({pod.owner_uid for pod in pods if pod.is_active})
    if len(owners) > 1:
        return PodGroup(split=True)
    return PodGroup(
        pods=tuple(pod for pod in pods if pod.owner_uid in owners),
        siblings=tuple(pod for pod in pods if pod.owner_uid not in owners),
    )


def relatives_in(workloads: Iterable[Workload]) -> dict[ObjectRef, tuple[ObjectRef, ...]]:
    """Return for each ReplicaSet that has a controller the other ReplicaSets of that controller.

    Source: kubernetes pkg/controller/replicaset/replica_set.go, getReplicaSetsWithSameController.
    """
    families: dict[OwnerKey, list[ObjectRef]] = {}
    for workload in workloads:
        owner = owner_key(workload) if workload.ref.kind == "ReplicaSet" else None
        if owner is not None:
            families.setdefault(owner, []).append(workload.ref)
    return {
        ref: tuple(relative for relative in family if relative != ref) for family in families.values() for ref in family
    }


def siblings_in(observed: ObservedCluster, relatives: Sequence[ObjectRef] | None) -> tuple[Pod, ...] | None:
    """Return the pods of `relatives` (see `relatives_in`), None where there are none because there is no controller."""
    if relatives is None:
        return None
    return tuple(pod for ref in relatives for pod in observed.pods.get(ref, ()))


def nanoseconds_at(run: Run) -> int:
    """Return the run's `now` in nanoseconds since the epoch."""
    return int(run.now.timestamp()) * 10**9


def decrease_of(workload: Workload, before: int, after: int, settings: DownscaleSettings | None = None) -> Decision:
    """Return a decrease of `workload` that no run decided: somebody else asks for it, or what it would delete."""
    return Decision(
        key=f"picker/{workload.ref}",
        job="downscale",
        verb=Verb.SCALE,
        phase=Phase.DECREASE,
        ref=workload.ref,
        api_version=workload.api_version,
        uid=workload.uid,
        changes=(),
        cause=Cause("" if settings is None else settings.policy, "", ()),
        group=group_name("downscale", workload.ref),
        replicas_before=before,
        replicas_after=after,
        downscale=settings,
    )


# Where the choice is ours: who may be chosen, how many, and the choice itself.

_CHOSEN, _TIED, _OTHER = 0, 1, 3  # ranks, source: seed downscale-pod-picker.md, Controller Behaviour Changes
_RANKS = {_CHOSEN: "chosen by the picker", _TIED: "tied by the picker", _OTHER: "the controller's order"}


class VictimSelection(Struct, frozen=True):
    """How `group` is scaled down: `count` pods go, before all others those of `first` that are not Running and Ready.

    `candidates` are the others, in the controller's order. `requested` of them are ours to choose where it is `open`;
    elsewhere there is no choice: those of `first` suffice, or everything goes. `rules` say for each that goes in that
    order what puts it before the first one that stays.
    """

    group: PodGroup
    count: int
    rules: tuple[PodRule, ...]
    first: tuple[Pod, ...]
    candidates: tuple[Pod, ...]

    @property
    def requested(self) -> int:
        return self.count - len(self.first)

    @property
    def open(self) -> bool:
        return 0 < self.requested < len(self.candidates)


def victim_selection(group: PodGroup, target: int, run: Run, settings: DownscaleSettings) -> VictimSelection:
    """Return the cut that leaves `target` of the active pods of `group`."""
    count = max(0, len(group.active) - target)
    ranking = group.ranked(count, nanoseconds_at(run), _ranking_rules(settings))
    return VictimSelection(
        group=group,
        count=count,
        rules=ranking.rules,
        first=tuple(pod for pod in ranking.order if goes_first(pod)),
        candidates=tuple(pod for pod in ranking.order if not goes_first(pod)),
    )


def _ranking_rules(settings: DownscaleSettings) -> RankingRules:
    """Return the rules by which we put pods in order; a picker's ranks stand in for the cost and what is before it."""
    return RankingRules(
        logarithmic=settings.strategy != "NewestFirst",
        base=settings.logarithm_base,
        deletion_cost=settings.picker is None,
    )


def picker_request(selection: VictimSelection, picker: PodPicker, namespace: str) -> PickerRequest:
    """Return the request to the pod picker."""
    return PickerRequest(
        picker, namespace, selection.requested, tuple(sorted(pod.name for pod in selection.candidates))
    )


def accepted(answer: PickerAnswer, request: PickerRequest) -> PickerAnswer:
    """Return `answer`, what the picker said to `request`; both lists empty is no opinion, which is not too few.

    Raises:
        PickerError: it names too few, and the picker's `on_too_few` is reject.
    """
    named = len(answer.chosen) + len(answer.tied)
    if request.picker.on_too_few == "reject" and 0 < named < request.count:
        why = f"the answer names {named} of {request.count} pods, expected all (onTooFew: reject)"
        raise PickerError(f"{request.picker}: {why}")
    return answer


class ChosenVictims(Struct, frozen=True):
    """The chosen candidates, and what a person should know of how; `rules` are those of a picker's choice."""

    pods: tuple[Pod, ...]
    note: str = ""
    picker_failed: bool = False
    rules: tuple[str, ...] = ()


def picked(selection: VictimSelection, answer: PickerAnswer) -> ChosenVictims | None:
    """Return the candidates that `answer` names, None where it has no opinion.

    Chosen before tied before all others; among equals at the cut the controller's order decides.
    """
    ranks = dict.fromkeys(answer.tied, _TIED) | dict.fromkeys(answer.chosen, _CHOSEN)
    if not ranks:
        return None
    in_order = sorted(selection.candidates, key=lambda pod: ranks.get(pod.name, _OTHER))
    taken, left = in_order[: selection.requested], in_order[selection.requested :]
    last, next_ = ranks.get(taken[-1].name, _OTHER), ranks.get(left[0].name, _OTHER)
    if last == _OTHER:
        note = f"the picker named {len(ranks)} of {selection.requested}, the controller's order filled up"
    else:
        note = "a tie at the cut was broken by the controller's order" if last == next_ else ""
    return ChosenVictims(tuple(taken), note, rules=tuple(_RANKS[ranks.get(pod.name, _OTHER)] for pod in taken))


def balanced(selection: VictimSelection, domains: Mapping[str, str]) -> ChosenVictims:
    """Return candidates so that those that stay are spread over their domains as evenly as can be.

    `domains` maps a node to its domain; nodes without one are one domain together. Each time a pod of the largest
    domain goes, of equally large ones of that whose next pod is first in the controller's order.
    """
    queues: dict[str, deque[tuple[int, Pod]]] = {}
    for position, pod in enumerate(selection.candidates):
        queues.setdefault(domains.get(pod.node, ""), deque()).append((position, pod))
    heap = [(-len(queue), queue[0][0], domain) for domain, queue in queues.items()]
    heapify(heap)
    taken: list[Pod] = []
    while len(taken) < selection.requested:
        queue = queues[heap[0][2]]
        taken.append(queue.popleft()[1])
        heapreplace(heap, (-len(queue), queue[0][0] if queue else 0, heap[0][2]))
    return ChosenVictims(tuple(taken))


def without_domains(selection: VictimSelection, domains: Mapping[str, str], key: str) -> str:
    """Return why there is nothing to balance, "" where at least one candidate's node has a domain."""
    if any(pod.node in domains for pod in selection.candidates):
        return ""
    return f"no node has the label {key}"


def first_of(selection: VictimSelection) -> ChosenVictims:
    """Return the candidates that are first in the order of the cut."""
    return ChosenVictims(selection.candidates[: selection.requested])


_KNOWN_COST_WRITERS = frozenset({"karpenter", FIELD_MANAGER})
"""Who writes deletion costs that may be replaced for a decrease, by field manager: the controller of Karpenter, which
ranks the pods of the nodes that it wants to empty, and we, who write its costs back.

Source: kubernetes-sigs/karpenter designs/pod-deletion-cost-controller.md; pkg/operator/operator.go, appName, whose user
agent is the manager of its patches.
"""


def of_strangers(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return those of `pods` whose deletion costs stand in the way: nobody knows what they are for."""
    return tuple(pod for pod in pods if pod.cost_writer not in _KNOWN_COST_WRITERS)


def foreign_costs(selection: VictimSelection, victims: Sequence[Pod]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods whose cost somebody else wrote and that are in the way: victims, and pods that stay.

    A pod that stays is in the way when its cost is not above that of a victim: the controller would take it as well.
    """
    names = {pod.uid for pod in victims}
    with_cost = tuple(pod for pod in victims if pod.deletion_cost is not None)
    return with_cost, tuple(
        pod
        for pod in selection.candidates
        if pod.uid not in names and deletion_cost(pod.deletion_cost) <= int(VICTIM_COST)
    )


def without_cost(pods: Sequence[Pod], former: Mapping[str, str | None]) -> tuple[Pod, ...]:
    """Return `pods` with the costs they had before they got ours; `former` is by uid."""
    return tuple(replace(pod, deletion_cost=former[pod.uid]) if pod.uid in former else pod for pod in pods)
