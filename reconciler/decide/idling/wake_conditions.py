"""What wakes what is idle, or idles it again."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.decide.idling.conditions import Check, Circumstances, Condition, MetCondition, met
from reconciler.decide.idling.contested import Contest, contest_of, is_by_tool, undo_of
from reconciler.decide.idling.subjects import IDLE_STATES, IdleState, Subject
from reconciler.decide.idling.wake_requests import counting_request
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.policy.types import Writes

_CONTESTABLE = IDLE_STATES | {IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE}
"""What may carry a contest besides what is left alone for it: a run that wrote it may have died before the rest."""


def _requested(case: Circumstances) -> MetCondition | None:
    request = counting_request(case.subject, case.now)
    if request is None:
        return None
    wakes = case.subject.state in (*IDLE_STATES, IdleState.FOREIGN) or request.at <= case.now
    return MetCondition(Condition.REQUESTED, (request.reason,), None if wakes else request.at)


def _excluded(case: Circumstances) -> MetCondition | None:
    subject = case.subject
    if subject.verdict.without_policies:
        return None
    found = subject.exclusion
    if found is not None:
        return MetCondition(Condition.EXCLUDED, (reason(ReasonCode.EXCLUDED, object=found.on), found.reason))
    contest = excluding_contest(subject)
    return None if contest is None else met(Condition.EXCLUDED, ReasonCode.CONTESTED, by=contest.by)


def excluding_contest(subject: Subject) -> Contest | None:
    """Return the contest that excludes `subject` beside its annotations, None where none does."""
    return contest_of(subject.scale.written, subject.verdict.policy) if subject.state in _CONTESTABLE else None


def _due(case: Circumstances) -> MetCondition | None:
    record = case.subject.record
    due = None if record is None or case.subject.verdict.wakes_on_requests_only else record.wake_due
    if record is None or due is None or due > case.now or not case.subject.scale.is_at_or_below(record.idled_to):
        return None
    return met(Condition.DUE, ReasonCode.WAKE_DUE, due=due)


def _production_due(case: Circumstances) -> MetCondition | None:
    """Return that it is due, where none of its policies may idle it again, whatever their criteria say."""
    due = _due(case) if case.subject.left_out_by else None
    return None if due is None else MetCondition(Condition.PRODUCTION_DUE, due.why)


def _busy(case: Circumstances) -> MetCondition | None:
    busy = case.subject.verdict.busy
    return None if busy is None else MetCondition(Condition.BUSY, busy.evaluation.reasons)


def _wake_when(case: Circumstances) -> MetCondition | None:
    waking = case.subject.verdict.wake_when
    return None if waking is None else MetCondition(Condition.WAKE_WHEN, waking.wake_when.reasons)


def _floor(case: Circumstances) -> MetCondition | None:
    idle_replicas, record = case.subject.idle_replicas, case.subject.record
    if record is None or idle_replicas < record.replicas:
        return None
    code = ReasonCode.IDLE_REPLICAS_TOO_HIGH
    return met(Condition.FLOOR, code, idleReplicas=idle_replicas, replicas=record.replicas)


def _guarded(case: Circumstances) -> MetCondition | None:
    guard, record = case.guards.of(case.subject.ref.namespace), case.subject.record
    if record is None or not guard.holds(record.policy, record.orphaned_since, case.now):
        return None
    return MetCondition(Condition.GUARDED, (guard.reason,))


def _protected(case: Circumstances) -> MetCondition | None:
    why = case.subject.protected
    return None if why is None else MetCondition(Condition.PROTECTED, (why,))


def _bounds(case: Circumstances) -> MetCondition | None:
    """Return that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    autoscaler = case.subject.pinned
    if autoscaler is None or not autoscaler.holder or not autoscaler.gets_back:
        return None
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    return met(Condition.BOUNDS, ReasonCode.HPA_PINNED_BY_FLEET, fleet=autoscaler.holder, autoscaler=name)


def _insists(case: Circumstances) -> MetCondition | None:
    """Return that what a tool scaled up is idled again.

    None where a person did, where a policy yields, or where somebody put the bounds of its autoscaler back: that raises
    it again within seconds.
    """
    subject, record = case.subject, case.subject.record
    policies = subject.verdict.policies
    if subject.state is not IdleState.MANUALLY_SCALED or record is None or not policies:
        return None
    undo = undo_of(subject, record, case.now)
    if undo.autoscaler or not is_by_tool(undo) or any(policy.on_revert == "Yield" for policy in policies):
        return None
    return met(Condition.INSISTS, ReasonCode.INSISTED, by=undo.by, replicas=subject.scale.replicas)


def _read_only(case: Circumstances) -> MetCondition | None:
    return MetCondition(Condition.READ_ONLY, ()) if case.subject.cluster.writes is Writes.NOTHING else None


WAKE_CHECKS: Mapping[Condition, Check] = {
    Condition.REQUESTED: _requested,
    Condition.EXCLUDED: _excluded,
    Condition.DUE: _due,
    Condition.PRODUCTION_DUE: _production_due,
    Condition.BUSY: _busy,
    Condition.WAKE_WHEN: _wake_when,
    Condition.FLOOR: _floor,
    Condition.GUARDED: _guarded,
    Condition.PROTECTED: _protected,
    Condition.BOUNDS: _bounds,
    Condition.INSISTS: _insists,
    Condition.READ_ONLY: _read_only,
}
