"""What a scale down of one workload to some number would delete: all of its pods, first to go first."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState
from reconciler.decide.downscale.deletion_order import PodRule, rank_victims
from reconciler.decide.downscale.planned_victims import BALANCE, domains_of, with_victims
from reconciler.decide.downscale.victim_choice import decrease_of, nanoseconds_at, pod_group, relatives_in, siblings_in
from reconciler.decide.victim_fields import NO_VICTIMS, VictimForecast
from reconciler.model import ObservedState, Pod, PodsQuestion, Run, Workload
from reconciler.policy.types import PolicySet


class RankedPod(Struct, frozen=True):
    """`goes` is None where that is not known yet. `rule` is what puts a victim before the first pod that stays; "" for
    others. `domain` is the zone of its node (or what else is balanced), "" where nothing is balanced or it has none.
    """

    name: str
    goes: bool | None
    rule: str = ""
    domain: str = ""


class PodRanking(Struct, frozen=True):
    """`pods` are all active pods, first to go first; `forecast` is what a plan would say of the decrease."""

    workload: Workload
    to: int
    forecast: VictimForecast
    pods: tuple[RankedPod, ...]


def pods_to_rank(workload: Workload, state: ObservedState) -> list[PodsQuestion]:
    """Return the pods that `pod_ranking_of` needs: those of `workload`, and of the ReplicaSets beside it."""
    relatives = relatives_in(state.clusters[workload.ref.cluster].workloads).get(workload.ref, ())
    return [PodsQuestion(ref) for ref in (workload.ref, *relatives)]


def pod_ranking_of(
    workload: Workload, policies: PolicySet, state: ObservedState, run: Run, to: int | None
) -> PodRanking:
    """Return the victims when `workload` is scaled down to `to` replicas; None: to one less than its active pods."""
    observed = state.clusters[workload.ref.cluster]
    pods = observed.pods.get(workload.ref, ())
    active = [pod for pod in pods if pod.is_active]
    target = max(0, len(active) - 1) if to is None else to
    ordered = _by_ordinals(workload, active, target)
    before = len(active) if ordered is None else target + sum(pod.goes is True for pod in ordered)
    decrease = DesiredState(decisions=(decrease_of(workload, before, target),))
    forecast = with_victims(decrease, policies, state, run).decisions[0].victims
    forecast = forecast or replace(NO_VICTIMS, strategy="none", note="no pods are deleted")
    siblings = siblings_in(observed, relatives_in(observed.workloads).get(workload.ref))
    siblings = pod_group(workload.ref.kind, pods, siblings).siblings
    ranked = _ranked(pods, siblings, forecast, target, run) if ordered is None else ordered
    keys = [rule.removeprefix(BALANCE) for rule in forecast.rules if rule.startswith(BALANCE)]
    if keys:
        domains = domains_of(observed.nodes, keys[0])
        placed = {pod.name: domains.get(pod.node, "") for pod in pods}
        ranked = tuple(replace(pod, domain=placed[pod.name]) for pod in ranked)
    return PodRanking(workload, target, forecast, ranked)


def _by_ordinals(workload: Workload, active: Sequence[Pod], target: int) -> tuple[RankedPod, ...] | None:
    """Return the pods of a StatefulSet, None for any other kind. All of those outside of its range of ordinals go, and
    what is missing inside is made.

    Source: kubernetes pkg/controller/statefulset/stateful_set_control.go, updateStatefulSet; stateful_set_utils.go,
    podInOrdinalRange.
    """
    if workload.kind.pods != "Ordinals" or workload.ref.group != workload.kind.group:
        return None
    stays = range(workload.first_ordinal, workload.first_ordinal + target)
    going = {pod.name for pod in active if pod.ordinal >= 0 and pod.ordinal not in stays}
    order = sorted(active, key=lambda pod: (pod.name in going, pod.ordinal, pod.name), reverse=True)
    rule = "ordinal out of range" if stays else str(PodRule.ALL)
    return tuple(RankedPod(pod.name, pod.name in going, rule if pod.name in going else "") for pod in order)


def _ranked(
    pods: Sequence[Pod], siblings: Sequence[Pod] | None, forecast: VictimForecast, target: int, run: Run
) -> tuple[RankedPod, ...]:
    first = forecast.count - forecast.requested if forecast.chosen_at_apply else 0
    ranking = rank_victims(pods, first, now_ns=nanoseconds_at(run), siblings=siblings)
    order = ranking.order
    if target == 0:
        return tuple(RankedPod(pod.name, True, str(PodRule.ALL)) for pod in order)
    going = dict(zip(forecast.pods, forecast.rules, strict=True))
    going |= {pod.name: str(rule) for pod, rule in zip(ranking.victims, ranking.rules, strict=True)}
    others = False if len(going) == forecast.count else None
    staying = (pod.name for pod in order if pod.name not in going)
    ranked = (RankedPod(name, True, rule) for name, rule in going.items())
    return (*ranked, *(RankedPod(name, others) for name in staying))
