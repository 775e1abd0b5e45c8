"""The decisions of all IdlingPolicies on the observed clusters, each with its reasons; and wakes that need no policy.

Each decision goes one way; what a reader asks stands in the module named:

- look: which workloads (`observed.py`), behind which Service (`service_targets.py`), idle by which record (`state.py`);
- judge: which policies count (`selection.py`), and what they say by schedules and metrics (`verdicts.py`);
- choose: what keeps it up or wakes it besides, such as minAge, a rollout or a request (`conditions.py`), and the table
  of rules, which makes the choice (`rules.py`);
- settle: what goes idle together (`idle_groups.py`), which wakes wait for the next run (`wake_order.py`), and what all
  that leaves to the other jobs (`idling_outcome.py`);
- write: decisions on all objects concerned (`writes.py`, `writes_*.py`); what is said of each (below, `notices.py`),
  and what would change it (`change_if.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any

from msgspec.structs import replace

from reconciler.decide.change_codes import ChangeIfWhenAsked
from reconciler.decide.decisions import Decision, DesiredState, Ending, HeldBack, PolicyExplanation, equal_priorities
from reconciler.decide.idling.change_if import change_if_of, kept_up_until
from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.idle_groups import federated_members, idled_together, pods_to_read
from reconciler.decide.idling.idling_outcome import IdlingOutcome, claims
from reconciler.decide.idling.notices import (
    first_idles,
    nothing_to_idle,
    notices,
    overridden,
    query_notices,
    undecided,
)
from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters, subjects_of
from reconciler.decide.idling.rules import (
    Choice,
    IdleAction,
    choices_of,
    deciding_names,
    guarded_choices,
    idled_by,
    owner_policy,
)
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState, Subject, is_recorded
from reconciler.decide.idling.verdicts import Verdict
from reconciler.decide.idling.wake_order import owner_in, staggered
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.idling.writes import abandoned_decisions, decisions_of
from reconciler.decide.last_idled import hours_of
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.decide.removal_guard import FleetGuards
from reconciler.decide.selectors import left_out
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet


def decide_idling(policies: PolicySet, state: ObservedState, run: Run) -> IdlingOutcome:
    """Return the idles, wakes and repairs of this run, and the workloads that idling decides."""
    clusters = idling_clusters(IdlingInputs(policies.fleet, state, run, policies.idling))
    guards, alone = guarded_choices(subjects_of(clusters), policies, run)
    federated = federated_members(policies.federated, state, alone)
    choices = staggered(idled_together(alone, federated), run.now, owner_in(policies.fleet))
    named = {policy.name: policy for policy in policies.idling}
    places = {name: str(policy.place) for name, policy in named.items()}
    together = tuple(members.refs for members in federated.values())
    context = WriteContext(
        policies.fleet, run, clusters, choices, places, lambda name: hours_of(named[name]), idle_together=together
    )
    held_back = _if_done(IdleAction.HOLD_BACK, IdleAction.WAKE, context)
    desired = replace(
        explained(clusters, choices, run),
        decisions=(*decisions_of(context), *abandoned_decisions(context)),
        observed=tuple(map(_observed, _if_done(IdleAction.OBSERVE, IdleAction.IDLE, context))),
        held_back=(HeldBack("", guards.words, held_back),) if held_back else (),
        questions=pods_to_read(choices, clusters),
    )
    return IdlingOutcome(desired, claims(choices), [members.all for members in federated.values()])


_DONE_BLIND = frozenset({IdleAction.WAKE, IdleAction.RELEASE, IdleAction.OVERDUE})


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes where the policies cannot be used: those that are due by their record, or requested.

    What was scaled by hand is released; nothing else is repaired. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    clusters = idling_clusters(IdlingInputs(fleet, every, run, policies=None))
    alone = choices_of(subjects_of(clusters), FleetGuards(), run.now)
    done = {ref: choice for ref, choice in alone.items() if choice.action in _DONE_BLIND}
    choices = staggered(done, run.now, owner_in(fleet))
    desired = explained(clusters, choices, run)
    context = WriteContext(fleet, run, clusters, _others_kept(alone, choices), repairs=False)
    return replace(desired, decisions=decisions_of(context), explanations=())


def _others_kept(alone: Mapping[ObjectRef, Choice], done: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, Choice]:
    """Return `done`, and for everything else that it stays as it is: its Service's record still lists it."""
    return {
        ref: done.get(ref, choice if choice.subject.is_idle else choice.doing(IdleAction.LEAVE, choice.reasons))
        for ref, choice in alone.items()
    }


def _if_done(instead_of: IdleAction, action: IdleAction, context: WriteContext) -> tuple[Decision, ...]:
    """Return the decisions there would be if `action` were done `instead_of` what is, and only those for it."""
    concerned = {ref: choice for ref, choice in context.choices.items() if choice.action is instead_of}
    if not concerned:
        return ()
    assumed = {ref: choice.doing(action, choice.own_reasons) for ref, choice in concerned.items()}
    return tuple(_bound_to(concerned.keys(), decisions_of(replace(context, choices={**context.choices, **assumed}))))


def _observed(decision: Decision) -> Decision:
    needs = tuple(f"observed/{need}" for need in decision.needs)
    return replace(decision, key=f"observed/{decision.key}", needs=needs)


def _bound_to(concerned: Set[ObjectRef], decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Yield the decisions on `concerned`, what they need, and what needs them."""
    own = {decision.key for decision in decisions if decision.ref in concerned}
    needed = {need for decision in decisions if decision.key in own for need in decision.needs}
    for decision in decisions:
        if decision.key in own | needed or own & set(decision.needs):
            yield decision


# Why each workload is as it is.

_LEFT = (*NOT_OURS, IdleState.UNREADABLE, IdleState.DOWN)
_OUTCOMES = {
    IdleAction.IDLE: "goes idle",
    IdleAction.OBSERVE: "would go idle",
    IdleAction.KEEP: "stays idle",
    IdleAction.WAKE: "wakes",
    IdleAction.RELEASE: "stays awake",
    IdleAction.CLEAR: "stays awake",
    IdleAction.HOLD_BACK: "stays idle",
    IdleAction.OVERDUE: "stays idle",
    IdleAction.DEFER: "stays idle",
}
_OUTCOMES_OF_MINIMUM = {
    IdleAction.IDLE: "gets a lower minimum",
    IdleAction.OBSERVE: "would get a lower minimum",
    IdleAction.KEEP: "keeps its lower minimum",
    IdleAction.WAKE: "gets its minimum back",
    IdleAction.RELEASE: "keeps the minimum that it was given",
}


def explained(clusters: Sequence[IdlingCluster], choices: Mapping[ObjectRef, Choice], run: Run) -> DesiredState:
    """Return what is said of `choices` and of what they were made from, without any decision."""
    services = [service for cluster in clusters for service in cluster.services]
    ordered = list(choices.values())
    equals = ((choice.subject.verdict.equal_policies, choice.ref) for choice in ordered)
    unusable = (query_notices(cluster.name, cluster.problems) for cluster in clusters)
    return DesiredState(
        undecided=tuple(undecided(ordered, services)),
        overridden=tuple(overridden(ordered)),
        notices=(
            *notices(ordered, services, run),
            *chain.from_iterable(unusable),
            *first_idles(ordered),
            *equal_priorities(equals, "newly idled"),
        ),
        explanations=tuple(idling_explanations(choices, services)),
    )


def idling_explanations(
    choices: Mapping[ObjectRef, Choice], services: Iterable[ServiceState]
) -> Iterator[PolicyExplanation]:
    """Yield, for every scalable and every policy that selects it or owns its records, what becomes of it and why.

    A selected Service is explained by itself only where no scalable is behind it, or not all are known.
    """
    explained: set[ObjectRef] = set()
    for choice in choices.values():
        explained.update(service.ref for service in choice.subject.behind)
        change = ChangeIfWhenAsked(change_if_of, choice, choices)
        yield from _considered(choice, change, kept_up_until(choice))
    for service in services:
        if service.ref not in explained or service.found.undecided:
            why = nothing_to_idle(service)
            for name in dict.fromkeys(verdict.policy.name for verdict in service.verdict.won):
                yield PolicyExplanation(
                    service.ref, "idling", name, "left as it is", (why,), outranked=_outranked(service.verdict)
                )


def _considered(choice: Choice, change: ChangeIfWhenAsked, until: Ending | None) -> Iterator[PolicyExplanation]:
    subject, verdict, of_autoscaler = choice.subject, choice.subject.verdict, _of_autoscaler(choice)
    whole: dict[str, Any] = {
        "ref": subject.scale.runs.ref,
        "job": "idling",
        "outcome": _outcome(choice),
        "change": change,
        "until": until,
        "idled": (choice.ref, idled_by(choice)) if choice.subject.is_idle else None,
        "asleep": _asleep(choice),
        "idled_at": choice.record.idled_at if choice.record is not None and choice.subject.is_idle else None,
        "requests": subject.scale.runs.requests,
        "selected": False,
        "written": choice.ref if subject.scale.is_paused_kind or subject.scale.hpa_field else None,
        "outranked": _outranked(verdict) if verdict.lost else (),
        "services": tuple([service.ref for service in subject.services if is_recorded(service)]),
    }
    for name in dict.fromkeys([own.policy.name for own in verdict.won]):
        selected = name not in subject.left_out_by
        of_policy = {"reasons": (*_reasons_under(choice, name), *of_autoscaler), "selected": selected}
        yield PolicyExplanation(
            policy=name, selected_by=_selected_by(subject, name) if selected else (), **(whole | of_policy)
        )
    for why in verdict.excluded:
        yield PolicyExplanation(policy=why.values["policy"], reasons=(why,), **(whole | {"idled": None}))
    if not verdict.won and (whole["idled"] or not verdict.excluded):
        yield PolicyExplanation(policy=owner_policy(choice), reasons=(*choice.reasons, *of_autoscaler), **whole)


def _outranked(verdict: Verdict) -> tuple[str, ...]:
    """Return the policies that select it, and count nowhere: where several won, it is not said over which."""
    won = {own.policy.name for own in verdict.won}
    return tuple(sorted({own.policy.name for own in verdict.lost} - won))


def _asleep(choice: Choice) -> int:
    record, scale = choice.record, choice.subject.scale
    if record is None or not choice.subject.is_idle or not scale.counts:
        return 0
    return max(0, record.replicas - scale.replicas)


def _of_autoscaler(choice: Choice) -> Reasons:
    """Return what an autoscaler that is changed in place of the workload does with it."""
    scale, record = choice.subject.scale, choice.record
    if not scale.hpa_field:
        return ()
    name = f"HorizontalPodAutoscaler/{choice.ref.name}"
    if scale.hpa_field == "ScaleUp":
        kept = choice.stays_idle
        return (reason(ReasonCode.HPA_KEPT_AT_ZERO if kept else ReasonCode.HPA_AT_ZERO, autoscaler=name),)
    if record is None or not (choice.subject.is_idle and choice.stays_idle):
        return ()
    return (reason(ReasonCode.HPA_LOWERED, autoscaler=name, minReplicas=scale.replicas, previous=record.replicas),)


def _reasons_under(choice: Choice, policy: str) -> Reasons:
    """Return the reasons as they stand under `policy`: where others decide, what it says itself comes first."""
    deciding = deciding_names(choice)
    if policy in choice.subject.left_out_by:
        why = left_out(choice.subject.production, (policy,))
        return (why,) if choice.because is IdlingCondition.PRODUCTION else (*choice.reasons, why)
    if not deciding or policy in deciding:
        return choice.reasons
    verdicts = choice.subject.verdict.won
    own = next(verdict.reasons for verdict in verdicts if verdict.policy.name == policy)
    return (*own, reason(ReasonCode.OTHER_POLICY, policies=deciding), *choice.reasons)


def _selected_by(subject: Subject, policy: str) -> tuple[str, ...]:
    """Return which parts of the selector of `policy` select `subject`."""
    services = [
        service for service in subject.behind if any(verdict.policy.name == policy for verdict in service.verdict.won)
    ]
    names = ", ".join(f"Service/{service.ref.name}" for service in services)
    return (*([f"services ({names})"] if names else []), *(["workloads"] if policy in subject.direct else []))


def _outcome(choice: Choice) -> str:
    if choice.subject.scale.hpa_field == "Minimum" and choice.action in _OUTCOMES_OF_MINIMUM:
        return _OUTCOMES_OF_MINIMUM[choice.action]
    is_taken = choice.state is IdleState.TAKEN_OVER
    if choice.action is not IdleAction.LEAVE and not (is_taken and choice.action is IdleAction.RELEASE):
        return _OUTCOMES[choice.action]
    return "left as it is" if is_taken or choice.state in _LEFT else "stays awake"
