"""What is said of each workload: what becomes of it, why, and until when. What would change that is in
`smallest_change.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.change_codes import FindChange
from reconciler.decide.decisions import DesiredState, PolicyExplanation
from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.criteria import Verdict
from reconciler.decide.idling.notices import first_idles, nothing_to_idle, notices, overridden, undecided
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.rules import Choice, IdleAction, deciding_names, idled_by, owner_policy
from reconciler.decide.idling.smallest_change import Choices, kept_up_until
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState, Subject, is_recorded
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.decide.selectors import equal_priorities, left_out
from reconciler.model import ObjectRef

_LEFT = (*NOT_OURS, IdleState.UNREADABLE, IdleState.DOWN, IdleState.TAKEN_OVER)
_LEAVES = (IdleAction.LEAVE, IdleAction.RELEASE)


def explained(clusters: Sequence[IdlingCluster], choices: Choices, change: FindChange | None = None) -> DesiredState:
    """Return what is said of `choices` and of what they were made from, without any decision.

    `change` finds what would change a choice: what it is made from is not kept for that.
    """
    services = [service for cluster in clusters for service in cluster.services]
    ordered = list(choices.values())
    equals = ((equal, choice.ref) for choice in ordered if (equal := choice.subject.verdict.equal_policies))
    return DesiredState(
        undecided=tuple(undecided(ordered, services)),
        overridden=tuple(overridden(ordered)),
        notices=(
            *notices(ordered, services),
            *chain.from_iterable(cluster.problems for cluster in clusters),
            *first_idles(ordered),
            *equal_priorities(equals, "newly idled"),
        ),
        explanations=tuple(_idling_explanations(ordered, services, change)),
    )


def _idling_explanations(
    choices: Iterable[Choice], services: Iterable[ServiceState], change: FindChange | None
) -> Iterator[PolicyExplanation]:
    """Yield, for every scalable and every policy that selects it or owns its records, what becomes of it and why.

    A selected Service is explained by itself only where no scalable is behind it, or not all are known.
    """
    explained: set[ObjectRef] = set()
    made: dict[Hashable, tuple[PolicyExplanation, ...]] = {}
    for choice in choices:
        explained.update(service.ref for service in choice.subject.behind)
        if choice.decision_inputs is None or choice.decision_inputs not in made:
            made[choice.decision_inputs] = tuple(_considered(choice, change))
            yield from made[choice.decision_inputs]
        else:
            yield from (_about_another(found, choice) for found in made[choice.decision_inputs])
    for service in services:
        if service.ref not in explained or service.found.undecided:
            why = nothing_to_idle(service)
            for name in dict.fromkeys(verdict.policy.name for verdict in service.verdict.won):
                yield PolicyExplanation(
                    service.ref, "idling", name, "left as it is", (why,), outranked=_outranked(service.verdict)
                )


def _about_another(made: PolicyExplanation, choice: Choice) -> PolicyExplanation:
    """Return what was `made` for a choice with the `decision_inputs` of `choice` as the explanation of that."""
    runs, idled = choice.subject.scale.runs, made.idled and (choice.ref, made.idled[1])
    return replace(made, ref=runs.ref, written=choice.ref, requests=runs.requests, idled=idled)


def _considered(choice: Choice, change: FindChange | None) -> Iterator[PolicyExplanation]:
    subject, verdict, of_autoscaler = choice.subject, choice.subject.verdict, _of_autoscaler(choice)
    whole = PolicyExplanation(
        subject.scale.runs.ref,
        "idling",
        owner_policy(choice),
        _outcome(choice),
        choice.reasons + of_autoscaler,
        change=change,
        until=kept_up_until(choice),
        idled=(choice.ref, idled_by(choice)) if subject.is_idle else None,
        asleep=_asleep(choice),
        idled_at=choice.record.idled_at if choice.record is not None and subject.is_idle else None,
        requests=subject.scale.runs.requests,
        selected=False,
        written=choice.ref,
        outranked=_outranked(verdict) if verdict.lost else (),
        services=tuple([service.ref for service in subject.services if is_recorded(service)]),
    )
    for name in dict.fromkeys([own.policy.name for own in verdict.won]):
        reasons, selected = _reasons_under(choice, name) + of_autoscaler, name not in subject.left_out_by
        by = _selected_by(subject, name) if selected else ()
        yield replace(whole, policy=name, reasons=reasons, selected=selected, selected_by=by)
    for why in verdict.excluded:
        yield replace(whole, policy=why.values["policy"], reasons=(why,), idled=None)
    if not verdict.won and (whole.idled or not verdict.excluded):
        yield whole


def _outranked(verdict: Verdict) -> tuple[str, ...]:
    """Return the policies that select it, and count nowhere: where several won, it is not said over which."""
    return tuple(sorted({own.policy.name for own in verdict.lost} - verdict.names))


def _asleep(choice: Choice) -> int:
    record, scale = choice.record, choice.subject.scale
    if record is None or not choice.subject.is_idle or not scale.counts:
        return 0
    return max(0, record.replicas - scale.replicas)


def _of_autoscaler(choice: Choice) -> Reasons:
    """Return what an autoscaler that is changed in place of the workload does with it."""
    scale, record = choice.subject.scale, choice.record
    if scale.hpa is None:
        return ()
    name = f"HorizontalPodAutoscaler/{choice.ref.name}"
    if scale.keeps_at_zero:
        kept = choice.stays_idle
        return (reason(ReasonCode.HPA_KEPT_AT_ZERO if kept else ReasonCode.HPA_AT_ZERO, autoscaler=name),)
    if record is None or not (choice.subject.is_idle and choice.stays_idle):
        return ()
    return (reason(ReasonCode.HPA_LOWERED, autoscaler=name, minReplicas=scale.replicas, previous=record.replicas),)


def _reasons_under(choice: Choice, policy: str) -> Reasons:
    """Return the reasons as they stand under `policy`: where others decide, what it says itself comes first."""
    if policy in choice.subject.left_out_by:
        why = left_out(choice.subject.production, (policy,)).why
        return why if choice.because is IdlingCondition.PRODUCTION else (*choice.reasons, *why)
    deciding = () if len(choice.subject.verdict.won) == 1 else deciding_names(choice)
    if not deciding or policy in deciding:
        return choice.reasons
    verdicts = choice.subject.verdict.won
    own = next(verdict.reasons for verdict in verdicts if verdict.policy.name == policy)
    return (*own, reason(ReasonCode.OTHER_POLICY, policies=deciding), *choice.reasons)


def _selected_by(subject: Subject, policy: str) -> tuple[str, ...]:
    """Return which parts of the selector of `policy` select `subject`."""
    services = (service for service in subject.behind if policy in service.verdict.names)
    names = ", ".join(f"Service/{service.ref.name}" for service in services)
    directly = ("workloads",) if policy in subject.direct else ()
    return (f"services ({names})", *directly) if names else directly


def _outcome(choice: Choice) -> str:
    action = choice.action
    if choice.subject.scale.lowers_minimum and action.told_of_minimum != action.told:
        return action.told_of_minimum
    return "left as it is" if choice.state in _LEFT and action in _LEAVES else action.told
