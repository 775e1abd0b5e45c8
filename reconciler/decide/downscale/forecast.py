"""Decisions that shrink something, with the pods that go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from reconciler.decide.downscale.cut import Cut, balanced, cut_of, picker_rules, without_cost
from reconciler.decide.downscale.groups import OWN_PODS, THROUGH_REPLICA_SETS, Group, group_of, nanoseconds_at
from reconciler.decide.downscale.orders import Order, Orders, orders_in
from reconciler.decide.downscale.recovery import former_costs
from reconciler.decide.types import Decision, DownscaleSettings, Notice, VictimForecast
from reconciler.decide.victims import RankingRules, VictimRanking, is_active, rank_victims
from reconciler.model import Node, ObjectRef, ObservedCluster, ObservedState, PodsQuestion, Run
from reconciler.policy.types import PolicySet

Forecast = VictimForecast | PodsQuestion

_WITHOUT_PODS = ("CronJob", "ScaledObject")
_MARKABLE = ("Deployment", "Rollout", "ReplicaSet", "ReplicationController", "CloneSet")


def with_victims(
    decisions: Sequence[Decision], policies: PolicySet, state: ObservedState, run: Run
) -> tuple[tuple[Decision, ...], tuple[PodsQuestion, ...], tuple[Notice, ...]]:
    """Return `decisions` with the victims of every decrease, the pods that must be read for that, and what to tell."""

    @cache
    def orders(cluster: str) -> Orders:
        return orders_in(policies, state, cluster)

    @cache
    def costs(cluster: str) -> dict[str, str | None]:
        return former_costs(state.clusters[cluster], policies.fleet.namespace)

    done: list[Decision] = []
    questions: list[PodsQuestion] = []
    notices: list[Notice] = []
    for decision in decisions:
        observed = state.clusters.get(decision.ref.cluster)
        if decision.removed == 0 or decision.ref.kind in _WITHOUT_PODS or observed is None:
            done.append(decision)
            continue
        order = orders(decision.ref.cluster).order_of(decision.ref)
        if order.note:
            notices.append(Notice("victimOrder", str(decision.ref), order.note, decision.cause.policy))
        shrinking = _Shrinking(decision, order, observed, costs(decision.ref.cluster), run)
        forecast = _forecast(shrinking)
        if isinstance(forecast, PodsQuestion):
            questions.append(forecast)
        done.append(_attached(decision, order, None if isinstance(forecast, PodsQuestion) else forecast))
    return tuple(done), tuple(sorted(set(questions))), tuple(dict.fromkeys(notices))


@dataclass(frozen=True, slots=True)
class _Shrinking:
    """One decrease, and what its victims depend on."""

    decision: Decision
    order: Order
    observed: ObservedCluster
    former: dict[str, str | None]
    run: Run

    @property
    def ref(self) -> ObjectRef:
        return self.decision.ref

    @property
    def target(self) -> int:
        return self.decision.replicas_after or 0

    def told(self, note: str, *, strategy: str = "", certain: bool = False) -> VictimForecast:
        """Return a forecast without names."""
        return VictimForecast(certain=certain, strategy=strategy, count=self.decision.removed, note=note)


def _attached(decision: Decision, order: Order, forecast: VictimForecast | None) -> Decision:
    marks = order.chooses and decision.ref.kind in _MARKABLE and decision.replicas_after != 0
    return replace(decision, victims=forecast, downscale=order.settings if marks else None)


def _forecast(shrinking: _Shrinking) -> Forecast:
    kind = shrinking.ref.kind
    if kind == "StatefulSet":
        return shrinking.told("the highest ordinals go first", strategy="ordinals", certain=True)
    if shrinking.target == 0:
        return shrinking.told("all pods go", strategy=shrinking.order.settings.strategy, certain=True)
    if kind not in OWN_PODS + THROUGH_REPLICA_SETS:
        return shrinking.told(f"the controller of {kind} chooses")
    ref = shrinking.ref
    unreadable = shrinking.observed.unreadable.get(f"pods of {ref.namespace}/{ref.kind}/{ref.name}")
    if unreadable is not None:
        return shrinking.told(f"its pods could not be read: {unreadable}")
    pods = shrinking.observed.pods.get(ref)
    if pods is None:
        return PodsQuestion(ref)
    group = group_of(kind, without_cost(pods, shrinking.former))
    if group.split:
        return shrinking.told("several of its ReplicaSets have pods, its controller shares out what goes")
    return _of_group(shrinking, group)


def _of_group(shrinking: _Shrinking, group: Group) -> VictimForecast:
    settings = shrinking.order.settings
    if not shrinking.order.chooses:
        return _predicted(shrinking, group)
    rules = picker_rules(settings.logarithm_base) if settings.picker else RankingRules(base=settings.logarithm_base)
    cut = cut_of(group, shrinking.target, now_ns=nanoseconds_at(shrinking.run), rules=rules)
    if not cut.open:
        return _predicted(shrinking, group)
    if settings.strategy == "podPicker":
        return VictimForecast(
            certain=False,
            strategy=settings.strategy,
            chosen_at_apply=True,
            count=cut.count,
            requested=cut.requested,
            candidates=len(cut.candidates),
        )
    return _balanced(cut, group, shrinking)


def _predicted(shrinking: _Shrinking, group: Group) -> VictimForecast:
    """Return the victims as the controller will choose them."""
    settings = shrinking.order.settings
    own_order = shrinking.ref.kind == "CloneSet"
    logarithmic = settings.strategy != "newestFirst" and not own_order
    active = sum(is_active(pod) for pod in group.pods)
    ranking = rank_victims(
        group.pods,
        max(0, active - shrinking.target),
        now_ns=nanoseconds_at(shrinking.run),
        siblings=group.siblings,
        rules=RankingRules(logarithmic=logarithmic, base=settings.logarithm_base),
    )
    note = shrinking.order.note
    if own_order:
        note = note or "the CloneSet's own controller may put its spread and its revisions first"
    return _named(ranking, settings, note, certain=ranking.certain and not own_order)


def _named(ranking: VictimRanking, settings: DownscaleSettings, note: str, *, certain: bool) -> VictimForecast:
    return VictimForecast(
        pods=tuple(pod.name for pod in ranking.victims),
        certain=certain,
        strategy=settings.strategy,
        rules=tuple(str(rule) for rule in ranking.rules),
        count=len(ranking.victims),
        age_ratio=ranking.sorting_deletion_age_ratio,
        note=note,
    )


def _balanced(cut: Cut, group: Group, shrinking: _Shrinking) -> VictimForecast:
    key = shrinking.order.settings.topology_key
    if "nodes" in shrinking.observed.unreadable:
        return shrinking.told("the nodes could not be read, so no zones are known", strategy="zoneBalanced")
    ranking = rank_victims(group.pods, len(cut.first), now_ns=nanoseconds_at(shrinking.run), siblings=group.siblings)
    chosen = balanced(cut, domains_of(shrinking.observed.nodes, key)).pods
    return VictimForecast(
        pods=tuple(pod.name for pod in (*cut.first, *chosen)),
        strategy="zoneBalanced",
        rules=(*(str(rule) for rule in ranking.rules), *(f"balance of {key}" for _ in chosen)),
        count=cut.count,
        requested=cut.requested,
        candidates=len(cut.candidates),
    )


def domains_of(nodes: Sequence[Node], key: str) -> dict[str, str]:
    """Return the domain of each node by its name; a node without the label has none."""
    return {node.ref.name: node.labels[key] for node in nodes if key in node.labels}
