"""The victims of each decision that scales down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, takewhile

from msgspec import Struct
from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.decisions import NO_VICTIMS, Decision, DesiredState, Notice, VictimForecast
from reconciler.decide.downscale.deletion_order import PodRule, RankingRules, VictimRanking, age_scale, rank_victims
from reconciler.decide.downscale.journal import former_costs
from reconciler.decide.downscale.victim_choice import (
    DEFAULT,
    ChosenVictims,
    PodGroup,
    VictimSelection,
    VictimStrategy,
    balanced,
    first_of,
    foreign_costs,
    nanoseconds_at,
    of_strangers,
    picked,
    picker_request,
    pod_group,
    ranking_rules,
    relatives_in,
    siblings_in,
    victim_selection,
    victim_strategies,
    without_cost,
    without_domains,
)
from reconciler.model import (
    NOTHING,
    Node,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Pod,
    PodsQuestion,
    Run,
    unreadable_pods_key,
)
from reconciler.policy.types import PolicySet
from reconciler.workload_kinds import workload_kind

_AT_ONCE = 500  # more are deleted in several steps, and ranked anew in each: replica_set.go, BurstReplicas


def with_victims(
    desired: DesiredState,
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    answers: Mapping[ObjectRef, PickerAnswer] = NOTHING,
) -> DesiredState:
    """Return `desired` with the victims of every decrease, the questions which pods there are for that, and notices.

    `answers` are what pickers said to `picker_requests`, by workload; without one the victims are chosen at apply.
    """
    strategies = cache(lambda cluster: victim_strategies(policies, state, cluster))
    costs = cache(lambda cluster: former_costs(state.clusters[cluster], policies.fleet.namespace))
    relatives = cache(lambda cluster: relatives_in(state.clusters[cluster].workloads))

    def planned(decision: Decision) -> _PlannedScaleDown | None:
        ref, name = decision.ref, decision.ref.cluster
        if decision.removed == 0 or workload_kind(ref.kind).pods == "None" or name not in state.clusters:
            return None
        beside = relatives(name).get(ref) if ref.kind == "ReplicaSet" else None
        strategy, observed = strategies(name).strategy_of(ref), state.clusters[name]
        return _PlannedScaleDown(decision, strategy, observed, costs(name), run, answers.get(ref), beside)

    scale_downs = [planned(decision) for decision in desired.decisions]
    forecasts = [None if one is None else _forecast(one) for one in scale_downs]
    questions = {forecast for forecast in forecasts if isinstance(forecast, PodsQuestion)}
    decisions = [
        decision if one is None or forecast is None else _with_forecast(one, forecast)
        for decision, one, forecast in zip(desired.decisions, scale_downs, forecasts, strict=True)
    ]
    notices = [
        Notice("victimOrder", str(one.ref), one.strategy.note, one.decision.cause.policy)
        for one in scale_downs
        if one is not None and one.strategy.note
    ]
    return replace(
        desired,
        decisions=tuple(decisions),
        questions=tuple(sorted({*desired.questions, *questions})),
        notices=(*desired.notices, *(notice for notice in dict.fromkeys(notices) if notice not in desired.notices)),
    )


def _with_forecast(scale_down: _PlannedScaleDown, forecast: VictimForecast | PodsQuestion) -> Decision:
    strategy, decision = scale_down.strategy, scale_down.decision
    chooses = strategy.chooses and workload_kind(scale_down.ref.kind).takes_deletion_cost
    settings = strategy.settings if chooses and decision.replicas_after != 0 else None
    return replace(decision, victims=None if isinstance(forecast, PodsQuestion) else forecast, downscale=settings)


class _PlannedScaleDown(Struct, frozen=True):
    """One decrease, and what its victims depend on; `relatives` as in `siblings_in`."""

    decision: Decision
    strategy: VictimStrategy
    observed: ObservedCluster
    former: dict[str, str | None]
    run: Run
    answer: PickerAnswer | None = None
    relatives: tuple[ObjectRef, ...] | None = None

    @property
    def ref(self) -> ObjectRef:
        return self.decision.ref

    @property
    def target(self) -> int:
        return self.decision.replicas_after or 0

    def without_names(self, note: str, *, strategy: str = "", certain: bool = False) -> VictimForecast:
        """Return a forecast without names."""
        return replace(NO_VICTIMS, certain=certain, strategy=strategy, count=self.decision.removed, note=note)


def _forecast(scale_down: _PlannedScaleDown) -> VictimForecast | PodsQuestion:
    kind = workload_kind(scale_down.ref.kind)
    if kind.pods == "Ordinals":
        certain = scale_down.target == 0 or scale_down.ref.group == kind.group  # that of Kruise leaves ordinals out
        return scale_down.without_names("the highest ordinals go first", strategy="ordinals", certain=certain)
    if scale_down.target == 0:
        return scale_down.without_names("all pods go", strategy=DEFAULT.strategy, certain=True)
    if kind.pods == "Controller":
        return scale_down.without_names(f"the controller of {scale_down.ref.kind} chooses")
    ref = scale_down.ref
    unreadable = scale_down.observed.unreadable.get(unreadable_pods_key(ref))
    if unreadable is not None:
        return scale_down.without_names(f"its pods could not be read: {unreadable}")
    unasked = [read for read in (ref, *(scale_down.relatives or ())) if read not in scale_down.observed.pods]
    if unasked:
        return PodsQuestion(unasked[0])
    pods = without_cost(scale_down.observed.pods[ref], scale_down.former)
    group = pod_group(scale_down.ref.kind, pods, siblings_in(scale_down.observed, scale_down.relatives))
    if group.split:
        return scale_down.without_names("several of its ReplicaSets have pods; the controller chooses")
    return _of_group(scale_down, group)


def picker_requests(
    decisions: Sequence[Decision], policies: PolicySet, state: ObservedState, run: Run
) -> dict[ObjectRef, PickerRequest]:
    """Return the requests to the pod pickers of `decisions` (as `with_victims` returned them), by workload."""
    found: dict[ObjectRef, PickerRequest] = {}
    for decision in decisions:
        settings, forecast = decision.downscale, decision.victims
        if settings is None or settings.picker is None or forecast is None or not forecast.chosen_at_apply:
            continue
        observed = state.clusters[decision.ref.cluster]
        former = former_costs(observed, policies.fleet.namespace)
        scale_down = _PlannedScaleDown(decision, VictimStrategy(settings), observed, former, run)
        group = pod_group(decision.ref.kind, without_cost(observed.pods[decision.ref], former))
        found[decision.ref] = picker_request(_selection(scale_down, group), settings.picker, decision.ref.namespace)
    return found


def _selection(scale_down: _PlannedScaleDown, group: PodGroup) -> VictimSelection:
    rules = ranking_rules(scale_down.strategy.settings)
    return victim_selection(group, scale_down.target, now_ns=nanoseconds_at(scale_down.run), rules=rules)


def _of_group(scale_down: _PlannedScaleDown, group: PodGroup) -> VictimForecast:
    selection = _selection(scale_down, group)
    if not scale_down.strategy.chooses or not selection.open:
        return _predicted(scale_down, group)
    settings = scale_down.strategy.settings
    if settings.picker is not None:
        return _by_picker(selection, group, scale_down)
    if settings.strategy == "ZoneBalanced":
        return _balanced(selection, group, scale_down)
    return _chosen(selection, group, scale_down, first_of(selection), _rules_of(selection, group, scale_down))


def _by_picker(selection: VictimSelection, group: PodGroup, scale_down: _PlannedScaleDown) -> VictimForecast:
    """Return the victims as the picker chooses them now, as far as it was asked; it is asked again at apply."""
    if scale_down.answer is None:
        return _before_picker(selection, scale_down)
    choice = picked(selection, scale_down.answer)
    if choice is None:
        note = "the picker has no preference; the controller chooses"
        return replace(_predicted(scale_down, group), certain=False, note=note)
    return replace(_chosen(selection, group, scale_down, choice, choice.rules), certain=False)


def _before_picker(selection: VictimSelection, scale_down: _PlannedScaleDown) -> VictimForecast:
    """Return a forecast before the picker is asked. A cost that is not above a victim's is in its way in any case."""
    foreign = of_strangers(foreign_costs(selection, selection.candidates)[0])
    always = of_strangers(foreign_costs(selection, ())[1])
    if always and _heeds_costs(scale_down):
        return _deferred(scale_down, always)
    note = f"deferred if it chooses any of {_costs(foreign)} with a foreign deletion cost (onForeignCost: Skip)"
    return replace(
        NO_VICTIMS,
        certain=False,
        strategy="PodPicker",
        chosen_at_apply=True,
        count=selection.count,
        requested=selection.requested,
        candidates=len(selection.candidates),
        note=note if foreign and _heeds_costs(scale_down) else "",
    )


def _predicted(scale_down: _PlannedScaleDown, group: PodGroup) -> VictimForecast:
    """Return the victims as the controller will choose them, whatever the policy's strategy is."""
    own_order = bool(workload_kind(scale_down.ref.kind).victims_path)
    rules = RankingRules(logarithmic=not own_order)
    count = max(0, len(group.active) - scale_down.target)

    def ranking_at(now_ns: int) -> VictimRanking:
        return rank_victims(group.pods, count, now_ns=now_ns, siblings=group.siblings, rules=rules)

    def sure_at(now_ns: int) -> frozenset[str] | None:
        found = ranking_at(now_ns)
        return frozenset(pod.uid for pod in found.victims) if found.certain else None

    now_ns = nanoseconds_at(scale_down.run)
    ranking = ranking_at(now_ns)
    note = scale_down.strategy.note
    if own_order:
        note = note or f"the {scale_down.ref.kind}'s own controller may put its spread and its revisions first"
    certain = not own_order and count <= _AT_ONCE and is_steady(group.active, now_ns, rules, sure_at)
    return replace(
        NO_VICTIMS,
        pods=tuple(pod.name for pod in ranking.victims),
        certain=certain,
        strategy=DEFAULT.strategy,
        rules=tuple(str(rule) for rule in ranking.rules),
        count=len(ranking.victims),
        age_ratios=ranking.age_ratios,
        note=note,
    )


def _balanced(selection: VictimSelection, group: PodGroup, scale_down: _PlannedScaleDown) -> VictimForecast:
    key = scale_down.strategy.settings.topology_key
    if "nodes" in scale_down.observed.unreadable:
        return scale_down.without_names("the nodes could not be read, so no zones are known", strategy="ZoneBalanced")
    domains = domains_of(scale_down.observed.nodes, key)
    why = without_domains(selection, domains, key)
    if why:
        return replace(_predicted(scale_down, group), certain=False, note=f"{why}; the controller chooses")
    choice = balanced(selection, domains)
    return _chosen(selection, group, scale_down, choice, [f"{BALANCE}{key}"] * len(choice.pods))


def _rules_of(selection: VictimSelection, group: PodGroup, scale_down: _PlannedScaleDown) -> Sequence[str]:
    """Return what puts each of the pods that are first in the order of the cut before the first one that stays.

    Our costs settle what the controller leaves to the order of its cache: by uid, as the cut is.
    """
    rules, now_ns = ranking_rules(scale_down.strategy.settings), nanoseconds_at(scale_down.run)
    ranking = rank_victims(group.pods, selection.count, now_ns=now_ns, siblings=group.siblings, rules=rules)
    chosen = ranking.rules[len(selection.first) :]
    return [str(PodRule.UID if rule is PodRule.CACHE else rule) for rule in chosen]


def _chosen(
    selection: VictimSelection,
    group: PodGroup,
    scale_down: _PlannedScaleDown,
    choice: ChosenVictims,
    rules: Sequence[str],
) -> VictimForecast:
    """Return a forecast of those that go before all others, then of the `choice`, each by its rule of `rules`.

    It is certain, as a plan is applied with the time at which it was made, and just these get our cost.
    """
    foreign = [pod for pods in foreign_costs(selection, choice.pods) for pod in of_strangers(pods)]
    if foreign and _heeds_costs(scale_down):
        return _deferred(scale_down, foreign)
    now_ns = nanoseconds_at(scale_down.run)
    first = rank_victims(group.pods, len(selection.first), now_ns=now_ns, siblings=group.siblings)
    return replace(
        NO_VICTIMS,
        pods=tuple(pod.name for pod in (*first.victims, *choice.pods)),
        strategy=scale_down.strategy.settings.strategy,
        rules=(*map(str, first.rules), *rules),
        count=selection.count,
        requested=selection.requested,
        candidates=len(selection.candidates),
        note=choice.note,
    )


def _heeds_costs(scale_down: _PlannedScaleDown) -> bool:
    named = workload_kind(scale_down.ref.kind).victims_path
    return scale_down.strategy.settings.on_foreign_cost == "Skip" and not named


def _deferred(scale_down: _PlannedScaleDown, foreign: Sequence[Pod]) -> VictimForecast:
    why = f"foreign deletion costs on {_costs(foreign)}, expected none (onForeignCost: Skip)"
    return replace(
        NO_VICTIMS,
        certain=False,
        strategy=scale_down.strategy.settings.strategy,
        note=f"deferred: {why}",
        deferred=True,
    )


def _costs(pods: Sequence[Pod]) -> str:
    named = ", ".join(f"{pod.name} ({pod.deletion_cost})" for pod in pods[:5])
    return named + (", ..." if len(pods) > 5 else "")


def domains_of(nodes: Sequence[Node], key: str) -> dict[str, str]:
    """Return the domain of each node by its name; a node without the label has none."""
    return {node.ref.name: node.labels[key] for node in nodes if key in node.labels}


# Whether a set of victims is still the same when the pods are a little older.
#
# Ages are compared on a logarithmic scale, so the order of two pods changes each time one of them passes a power of the
# base. A plan is read by people before it is applied, and the controller's clock is not ours.

_BEFORE = 10 * 10**9  # ns: how far the controller's clock may be behind ours
_AFTER = 3_600 * 10**9  # ns: how old a saved plan may be by default when it is applied
_MOST = 200  # moments that are looked at


def is_steady(
    pods: Iterable[Pod], now_ns: int, rules: RankingRules, victims_at: Callable[[int], frozenset[str] | None]
) -> bool:
    """Return whether `victims_at` gives the same set of uids whenever the plan is carried out; None: not certain then.

    Where the scales of `pods` change too often to look at each time, it counts as not steady.
    """
    expected = victims_at(now_ns)
    if expected is None:
        return False
    moments = {now_ns - _BEFORE}
    since = {time_ns for pod in pods for time_ns in (pod.ready_since_ns, pod.created_ns) if time_ns is not None}
    for time_ns in since if rules.logarithmic else ():
        for moment in _moments_of(time_ns, now_ns, rules.base):
            moments.add(moment)
            if len(moments) > _MOST:
                return False
    return all(victims_at(moment) == expected for moment in moments)


def _moments_of(time_ns: int, now_ns: int, base: float) -> Iterator[int]:
    """Yield when the scale of the age since `time_ns` changes while a plan made at `now_ns` may be applied."""
    first = age_scale(now_ns - _BEFORE - time_ns, base) + 1
    powers = (_past_power(base, exponent) for exponent in count(max(0, first)))
    return (time_ns + age for age in takewhile(lambda age: time_ns + age <= now_ns + _AFTER, powers))


def _past_power(base: float, exponent: int) -> int:
    """Return the first age in nanoseconds of that scale."""
    age = int(base**exponent)
    return next(later for later in count(age) if age_scale(later, base) >= exponent)


BALANCE = "balance of "
