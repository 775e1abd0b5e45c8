"""The victims of each decision that scales down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count, takewhile

from msgspec import Struct
from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.decisions import Decision, DesiredState, Notice
from reconciler.decide.downscale.deletion_order import PodRule, RankingRules, age_scale
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
    relatives_in,
    siblings_in,
    victim_selection,
    victim_strategies,
    without_cost,
    without_domains,
)
from reconciler.decide.victim_fields import NO_VICTIMS, VictimForecast
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

    questions, notices = set(desired.questions), dict[Notice, None]()

    def with_forecast(decision: Decision) -> Decision:
        ref, name = decision.ref, decision.ref.cluster
        kind = workload_kind(ref.kind)
        if decision.removed == 0 or kind.pods == "None" or name not in state.clusters:
            return decision
        beside = relatives(name).get(ref) if ref.kind == "ReplicaSet" else None
        strategy, observed = strategies(name).strategy_of(ref), state.clusters[name]
        forecast = _forecast(
            _PlannedScaleDown(decision, strategy, observed, costs(name), run, answers.get(ref), beside)
        )
        if strategy.note:
            notices[Notice("victimOrder", str(ref), strategy.note, decision.cause.policy)] = None
        chooses = strategy.chooses and kind.takes_deletion_cost and decision.replicas_after != 0
        settings = strategy.settings if chooses else None
        if isinstance(forecast, PodsQuestion):
            questions.add(forecast)
            return replace(decision, victims=None, downscale=settings)
        return replace(decision, victims=forecast, downscale=settings)

    return replace(
        desired,
        decisions=tuple([with_forecast(decision) for decision in desired.decisions]),
        questions=tuple(sorted(questions)),
        notices=(*desired.notices, *(notice for notice in notices if notice not in desired.notices)),
    )


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
        return _without_names(self.decision.removed, note, strategy, certain)


@lru_cache(128)  # a plan keeps them, and most that goes idle at once is alike
def _without_names(count: int, note: str, strategy: str, certain: bool) -> VictimForecast:
    return replace(NO_VICTIMS, certain=certain, strategy=strategy, count=count, note=note)


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
        group = pod_group(decision.ref.kind, without_cost(observed.pods[decision.ref], former))
        selection = victim_selection(group, decision.replicas_after or 0, run, settings)
        found[decision.ref] = picker_request(selection, settings.picker, decision.ref.namespace)
    return found


def _of_group(scale_down: _PlannedScaleDown, group: PodGroup) -> VictimForecast:
    settings = scale_down.strategy.settings
    selection = victim_selection(group, scale_down.target, scale_down.run, settings)
    if not scale_down.strategy.chooses or not selection.open:
        return _predicted(scale_down, selection)
    if settings.picker is not None:
        return _by_picker(scale_down, selection)
    if settings.strategy == "ZoneBalanced":
        return _balanced(scale_down, selection)
    # Our costs settle what the controller leaves to the order of its cache: by uid, as the cut is.
    rules = [PodRule.UID if rule is PodRule.CACHE else rule for rule in selection.rules[len(selection.first) :]]
    return _chosen(scale_down, selection, first_of(selection), rules)


def _by_picker(scale_down: _PlannedScaleDown, selection: VictimSelection) -> VictimForecast:
    """Return the victims as the picker chooses them now, as far as it was asked; it is asked again at apply."""
    if scale_down.answer is None:
        return _before_picker(scale_down, selection)
    choice = picked(selection, scale_down.answer)
    if choice is None:
        note = "the picker has no preference; the controller chooses"
        return replace(_predicted(scale_down, selection), certain=False, note=note)
    return replace(_chosen(scale_down, selection, choice, choice.rules), certain=False)


def _before_picker(scale_down: _PlannedScaleDown, selection: VictimSelection) -> VictimForecast:
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


def _predicted(scale_down: _PlannedScaleDown, selection: VictimSelection) -> VictimForecast:
    """Return the victims as the controller will choose them, whatever the policy's strategy is."""
    group, count, now_ns = selection.group, selection.count, nanoseconds_at(scale_down.run)
    own_order = bool(workload_kind(scale_down.ref.kind).victims_path)
    rules = RankingRules(logarithmic=not own_order)

    def sure_at(now_ns: int) -> frozenset[str] | None:
        found = group.ranked(count, now_ns, rules)
        return frozenset(pod.uid for pod in found.victims) if found.certain else None

    ranking = group.ranked(count, now_ns, rules)
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


def _balanced(scale_down: _PlannedScaleDown, selection: VictimSelection) -> VictimForecast:
    key = scale_down.strategy.settings.topology_key
    if "nodes" in scale_down.observed.unreadable:
        return scale_down.without_names("the nodes could not be read, so no zones are known", strategy="ZoneBalanced")
    domains = domains_of(scale_down.observed.nodes, key)
    why = without_domains(selection, domains, key)
    if why:
        return replace(_predicted(scale_down, selection), certain=False, note=f"{why}; the controller chooses")
    choice = balanced(selection, domains)
    return _chosen(scale_down, selection, choice, [f"{BALANCE}{key}"] * len(choice.pods))


def _chosen(
    scale_down: _PlannedScaleDown, selection: VictimSelection, choice: ChosenVictims, rules: Sequence[str]
) -> VictimForecast:
    """Return a forecast of those that go before all others, then of the `choice`, each by its rule of `rules`.

    It is certain, as a plan is applied with the time at which it was made, and just these get our cost.
    """
    foreign = [pod for pods in foreign_costs(selection, choice.pods) for pod in of_strangers(pods)]
    if foreign and _heeds_costs(scale_down):
        return _deferred(scale_down, foreign)
    first = selection.group.ranked(len(selection.first), nanoseconds_at(scale_down.run))
    return replace(
        NO_VICTIMS,
        pods=tuple(pod.name for pod in (*first.victims, *choice.pods)),
        strategy=scale_down.strategy.settings.strategy,
        rules=tuple(map(str, (*first.rules, *rules))),
        count=selection.count,
        requested=selection.requested,
        candidates=len(selection.candidates),
        note=choice.note,
    )


def _heeds_costs(scale_down: _PlannedScaleDown) -> bool:
    named = workload_kind(scale_down.ref.kind).victims_path
    return scale_down.strategy.settings.on_foreign_cost == "Skip" and not named


def _deferred(scale_down: _PlannedScaleDown, foreign: Sequence[Pod]) -> VictimForecast:
    note = f"deferred: foreign deletion costs on {_costs(foreign)}, expected none (onForeignCost: Skip)"
    return replace(NO_VICTIMS, certain=False, strategy=scale_down.strategy.settings.strategy, note=note, deferred=True)


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
