"""What is said about transitions: notices, overridden verdicts, and the reason for every number of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import AWAKE_SINCE, LAST_IDLED, WAKE_REQUESTED_AT, optional_instant
from reconciler.decide.decisions import Notice, Overridden, PolicyExplanation, Undecided, equal_priorities
from reconciler.decide.idling.blockers import custom_kind_blocker
from reconciler.decide.idling.contested import advice, contest_of, insisted, is_contested, remedy, tools_of, undo_of
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.records import Record, ServiceRecord, who_idled
from reconciler.decide.idling.scalables import ScalableState, ServiceState, is_recorded
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transition_rules import Flag, IdleAction
from reconciler.decide.idling.transitions import Transition, deciding_names, idled_by, owner_policy
from reconciler.decide.idling.verdicts import CombinedVerdict
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.messages import replica_count
from reconciler.model import FIELD_MANAGER, NOTHING, ObjectRef, PodsQuestion, Run, Workload
from reconciler.policy.types import IdlingPolicy

_LEFT = (*NOT_OURS, IdleState.UNREADABLE, IdleState.DOWN, IdleState.TAKEN_OVER)
_BY_AUTOSCALER = (
    ReasonCode.LEFT_TO_AUTOSCALER,
    ReasonCode.KEDA_LEFT,
    ReasonCode.HPA_LEFT,
    ReasonCode.HPA_SCALES_TO_ZERO,
)
_TAKEN = (IdleState.TAKEN_OVER, IdleAction.RELEASE)
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


def idling_explanations(
    transitions: Iterable[Transition], services: Iterable[ServiceState]
) -> Iterator[PolicyExplanation]:
    """Yield, for every scalable and every policy that selects it or owns its marks, what becomes of it and why.

    A selected Service is explained by itself only where no scalable is behind it, or not all are known.
    """
    explained: set[ObjectRef] = set()
    for transition in transitions:
        explained.update(service.ref for service in transition.scalable.behind)
        yield from _considered(transition)
    for service in services:
        if service.ref not in explained or service.found.undecided:
            why = _nothing_to_idle(service)
            for name in dict.fromkeys(verdict.policy.name for verdict in service.verdicts):
                yield PolicyExplanation(service.ref, "idling", name, "left as it is", (why,))


def _nothing_to_idle(service: ServiceState) -> Reason:
    if service.found.undecided:
        return reason(ReasonCode.TARGETS_UNKNOWN, problem=service.found.undecided)
    return reason(ReasonCode.NO_WORKLOAD)


def _considered(transition: Transition) -> Iterator[PolicyExplanation]:
    scalable = transition.scalable
    owner = owner_policy(transition)
    whole = PolicyExplanation(
        ref=scalable.scale.runs.ref,
        job="idling",
        policy=owner,
        outcome=_outcome(transition),
        reasons=transition.reasons,
        counterfactual=transition.counterfactual,
        idled=(transition.ref, idled_by(transition)) if transition.was_idle else None,
        selected=False,
        written=transition.ref if scalable.scale.is_paused_kind else None,
        services=tuple(service.ref for service in scalable.services if is_recorded(service)),
    )
    names = dict.fromkeys(verdict.policy.name for verdict in scalable.verdict.verdicts)
    for name in names:
        parts = _selected_by(scalable, name)
        yield replace(whole, policy=name, selected=True, selected_by=parts, reasons=_reasons_under(transition, name))
    for why in scalable.verdict.excluded:
        yield replace(whole, policy=why.values["policy"], selected=False, idled=None, reasons=(why,))
    if not names and (whole.idled or not scalable.verdict.excluded):
        yield whole


def _reasons_under(transition: Transition, policy: str) -> Reasons:
    """Return the reasons as they stand under `policy`: where others decide, what it says itself comes first."""
    deciding = deciding_names(transition)
    if not deciding or policy in deciding:
        return transition.reasons
    verdicts = transition.scalable.verdict.verdicts
    own = next(verdict.evaluation.reasons for verdict in verdicts if verdict.policy.name == policy)
    return (*own, reason(ReasonCode.OTHER_POLICY, policies=deciding), *transition.reasons)


def _selected_by(scalable: ScalableState, policy: str) -> tuple[str, ...]:
    """Return which parts of the selector of `policy` select `scalable`."""
    services = [
        service for service in scalable.behind if any(verdict.policy.name == policy for verdict in service.verdicts)
    ]
    names = ", ".join(f"Service/{service.ref.name}" for service in services)
    return (*([f"services ({names})"] if names else []), *(["workloads"] if policy in scalable.direct else []))


def _outcome(transition: Transition) -> str:
    if transition.action is not IdleAction.LEAVE and (transition.state, transition.action) != _TAKEN:
        return _OUTCOMES[transition.action]
    return "left as it is" if transition.state in _LEFT else "stays awake"


def overridden(transitions: Iterable[Transition]) -> Iterator[Overridden]:
    """Yield the wishes of policies that others of higher priority win over, where they differ."""
    for transition in transitions:
        winner = transition.scalable.verdict.policy
        if winner is not None:
            yield from _overridden_by(winner, transition.scalable)


def _overridden_by(winner: IdlingPolicy, scalable: ScalableState) -> Iterator[Overridden]:
    same = (scalable.verdict.result, CriterionResult.UNKNOWN)
    differ = {one.policy.name: one for one in scalable.overridden if one.evaluation.result not in same}
    for name in sorted(differ):
        wish = "idle" if differ[name].evaluation.result is CriterionResult.IDLE else "awake"
        why = reason(ReasonCode.HIGHER_PRIORITY, priority=winner.priority)
        if differ[name].policy.mode == "Observe":
            why = reason(ReasonCode.OBSERVES)
        yield Overridden(scalable.scale.runs.ref, "idling", name, wish, winner.name, (why,))


def undecided(transitions: Iterable[Transition], services: Iterable[ServiceState]) -> Iterator[Undecided]:
    """Yield what criteria do not know enough of, what cannot be scaled as it is, and the selected Services whose
    scalables are not all known.
    """
    for transition in transitions:
        verdict, scale = transition.scalable.verdict, transition.scalable.scale
        if verdict.policy is None or transition.action not in (IdleAction.LEAVE, IdleAction.KEEP):
            continue
        if verdict.result is CriterionResult.UNKNOWN:
            unknown = next(one for one in verdict.verdicts if one.evaluation.result is CriterionResult.UNKNOWN)
            yield Undecided(str(scale.runs.ref), "idling", unknown.policy.name, verdict.reasons)
        elif verdict.result is CriterionResult.IDLE and scale.problem:
            why = reason(ReasonCode.NOT_SCALABLE, problem=scale.problem)
            yield Undecided(str(scale.runs.ref), "idling", verdict.policy.name, (why,))
    for service in services:
        if service.verdicts and service.found.undecided:
            yield Undecided(str(service.ref), "idling", service.verdicts[0].policy.name, (_nothing_to_idle(service),))


def questions(transitions: Iterable[Transition], services: Iterable[ServiceState]) -> Iterator[PodsQuestion]:
    """Yield the pods that must be read: behind Services that would go idle if these pods were all there is to know."""
    behind: dict[ObjectRef, bool] = {}
    for transition in transitions:
        for service in transition.scalable.behind:
            behind[service.ref] = behind.get(service.ref, False) or Flag.PODS_UNREAD in transition.situation.flags
    for service in services:
        if service.found.question is not None and behind.get(service.ref, _would_idle(service)):
            yield service.found.question


def _would_idle(service: ServiceState) -> bool:
    """Return whether what may be behind `service` could go idle now."""
    is_free = service.exclusion is None and not service.has_record
    return is_free and CombinedVerdict(service.verdicts).result is CriterionResult.IDLE


def notices(transitions: Iterable[Transition], services: Iterable[ServiceState], run: Run) -> tuple[Notice, ...]:
    """Return the notices, each once, sorted.

    What is wrong with an object of a tenant makes no run partial: it is reported and counted, or one broken annotation
    would fail the runs of a whole platform.
    """
    ordered = list(transitions)
    found = list(chain.from_iterable(of(transition, run) for transition in ordered for of in _NOTICES))
    found += [notice for service in services for notice in _service_notices(service)]
    behind = {service.ref for transition in ordered for service in transition.scalable.behind}
    found += [notice for service in services if service.ref not in behind for notice in _nothing_behind(service)]
    return tuple(sorted(set(found), key=lambda notice: (notice.subject, notice.kind, notice.text)))


def query_notices(cluster: str, problems: Iterable[tuple[str, str, Reason]]) -> Iterator[Notice]:
    """Yield, for each query that cannot be used as a whole, that what it would decide is unknown."""
    for policy, query, why in problems:
        text = f"{cluster}: a query is unknown: {query}: {why}"
        yield Notice("unknownQuery", f"{cluster}/{policy}", text, policy, True, (why,))


def _service_notices(service: ServiceState) -> Iterator[Notice]:
    if service.problem and not service.is_foreign:
        yield Notice(
            "setAside", str(service.ref), f"{service.ref}: {service.problem}; its annotations are left unchanged"
        )
    elif service.is_foreign:
        yield _foreign_mark(service.ref, service.foreign)
    if service.exclusion is not None and service.exclusion.unreadable:
        yield Notice(
            "excludedUnreadable", str(service.ref), f"{service.ref}: {service.exclusion.reason}; it counts as excluded"
        )
    yield from _unreadable_request(service.ref, service.service.annotations)


def _foreign_mark(ref: ObjectRef, record: Record | ServiceRecord | None) -> Notice:
    by = who_idled("" if record is None else record.fleet)
    return Notice("foreignMark", str(ref), f"{ref} was idled by {by}")


def _nothing_behind(service: ServiceState) -> Iterator[Notice]:
    if service.found.nothing and _would_idle(service):
        text = f"{service.ref}: no workload behind it can be idled: {service.found.nothing}"
        yield Notice("nothingBehind", str(service.ref), text, service.verdicts[0].policy.name)


def _unreadable_request(ref: ObjectRef, annotations: Mapping[str, str]) -> Iterator[Notice]:
    if WAKE_REQUESTED_AT in annotations and optional_instant(annotations, WAKE_REQUESTED_AT) is None:
        text = f'{ref}: {WAKE_REQUESTED_AT} is "{annotations[WAKE_REQUESTED_AT]}", expected a time as in RFC 3339'
        yield Notice("unreadableSignal", str(ref), text)


def _overdue(transition: Transition, _run: Run) -> Iterator[Notice]:
    if transition.action is IdleAction.OVERDUE:
        ours = transition.state not in NOT_OURS
        kind, held = (
            ("overdueWake", transition.scalable.cluster.restriction) if ours else ("foreignOverdue", "somebody else's")
        )
        text = f"{transition.ref} should be awake ({transition.why}): {held}"
        yield Notice(kind, str(transition.ref), text, owner_policy(transition), ours, transition.reasons)
    if transition.action is IdleAction.DEFER:
        text = f"{transition.ref}: {transition.why}"
        yield Notice("perRun", str(transition.ref), text, owner_policy(transition), reasons=transition.reasons)


def _unreadable_record(transition: Transition, _run: Run) -> Iterator[Notice]:
    reading = transition.scalable.reading
    if transition.state is IdleState.UNREADABLE and reading is not None:
        yield Notice(
            "setAside", str(transition.ref), f"{transition.ref}: {reading.problem}; its replicas are left unchanged"
        )


def _idled_by_others(transition: Transition, _run: Run) -> Iterator[Notice]:
    if transition.state is IdleState.FOREIGN:
        yield _foreign_mark(transition.ref, transition.record)


def _unproven(transition: Transition, _run: Run) -> Iterator[Notice]:
    """A list on a Service that says more than the scalable bears out."""
    record, scalable = transition.record, transition.scalable
    if record is None:
        return
    lists = [(listing.target.replicas, listing.service.ref.name) for listing in scalable.listings]
    if transition.state is IdleState.UNPROVEN:
        names = " and ".join(f"Service/{service.ref.name}" for service in scalable.services if service.has_record)
        why = f"{names} lists it as idle with {replica_count(record.replicas)}, but it has no record of its own"
        then = "it is left unchanged: scale it, or run reconciler restore --adopt"
        yield Notice("unproven", str(transition.ref), f"{transition.ref}: {why}; {then}")
    elif transition.was_idle and lists and max(lists)[0] > record.replicas:
        most, name = max(lists)
        why = f"Service/{name} lists it with {replica_count(most)}, but its own record says {record.replicas}"
        yield Notice("unproven", str(transition.ref), f"{transition.ref}: {why}; that is what it wakes to")


def _held_together(transition: Transition, _run: Run) -> Iterator[Notice]:
    if transition.choice.flag not in (Flag.SERVICE_RUNS, Flag.OBSERVED):
        return
    for service in transition.scalable.behind:
        policies = [
            verdict.policy
            for verdict in service.verdicts
            if transition.choice.flag is Flag.SERVICE_RUNS or verdict.policy.mode == "Enforce"
        ]
        if policies:
            text = f"{service.ref}: no workload behind it is idled: {transition.why}"
            yield Notice("heldTogether", str(service.ref), text, policies[0].name, reasons=transition.reasons)


def _custom_kind(transition: Transition, _run: Run) -> Iterator[Notice]:
    found = custom_kind_blocker(transition.scalable)
    if found is not None and transition.choice.flag is Flag.BLOCKED and transition.reasons == found.reasons:
        named = found.counterfactual.values if found.counterfactual is not None else NOTHING
        then = f"to idle it too, write {named['selector']} in the selector of {' and '.join(named['policies'])}"
        text = f"{transition.scalable.scale.runs.ref}: {transition.why}; {then}"
        subject = str(transition.scalable.scale.runs.ref)
        yield Notice("customKind", subject, text, owner_policy(transition), reasons=transition.reasons)


def _unreadable_exclusion(transition: Transition, _run: Run) -> Iterator[Notice]:
    """An exclusion on a Service has a notice of its own, about that Service."""
    found = transition.scalable.exclusion
    if found is not None and found.unreadable and not found.on.startswith("Service/"):
        text = f"{transition.ref}: {found.on}: {found.reason}; it counts as excluded"
        yield Notice("excludedUnreadable", str(transition.ref), text)


def _autoscaled(transition: Transition, _run: Run) -> Iterator[Notice]:
    if transition.choice.flag is Flag.BLOCKED and transition.reasons[0].code in _BY_AUTOSCALER:
        ref, policy = transition.scalable.scale.runs.ref, owner_policy(transition)
        yield Notice("autoscaler", str(ref), f"{ref}: {transition.why}", policy, reasons=transition.reasons)
    autoscaler = transition.autoscaler
    if autoscaler is not None and autoscaler.problem:
        name, policy = autoscaler.hpa.ref, owner_policy(transition)
        yield Notice("setAside", str(name), f"{name}: {autoscaler.problem}; its bounds are left unchanged", policy)


def _contested(transition: Transition, run: Run) -> Iterator[Notice]:
    written = transition.scalable.scale.written
    if transition.state is IdleState.CONTESTED:
        contest = contest_of(written, transition.scalable.verdict.policy)
        if contest is not None:
            then = _advice(transition, contest.by, contest.autoscaler)
            why = reason(ReasonCode.CONTESTED, by=contest.by, since=contest.since)
            text = f"{transition.ref} is {why}; {then}"
            yield Notice("contested", str(transition.ref), text, owner_policy(transition), reasons=(why,))
    last = insisted(written)
    if last is not None and transition.stays_idle and transition.choice.flag is not Flag.INSISTS:
        text = f"{transition.ref} was reverted {last.count} times by {last.by}, and idled again (onRevert: Insist)"
        text = f"{text}; {_advice(transition, last.by)}"
        yield Notice("contested", str(transition.ref), text, owner_policy(transition))
    if transition.choice.flag is Flag.INSISTS and transition.record is not None:
        undo = undo_of(transition.scalable, transition.record, run.now)
        times = f"{undo.count} times in a row" if undo.count > 1 else "once"
        text = f"{transition.ref} was reverted by {undo.by} {times}; {_advice(transition, undo.by)}"
        yield Notice("contested", str(transition.ref), text, owner_policy(transition))
    undone = transition.state in (IdleState.MANUALLY_SCALED, IdleState.HPA_CHANGED)
    if undone and transition.action in (IdleAction.RELEASE, IdleAction.WAKE) and transition.record is not None:
        undo = undo_of(transition.scalable, transition.record, run.now)
        if is_contested(transition.scalable, undo):
            then = _advice(transition, undo.by, undo.autoscaler)
            text = f"{transition.ref} is contested by {undo.by}, which reverted it {undo.count} times; {then}"
            yield Notice("contested", str(transition.ref), text, owner_policy(transition))


def _advice(transition: Transition, by: str, autoscaler: str = "") -> str:
    return advice(by, transition.ref, autoscaler, transition.scalable.scale.written.replicas_path)


def _missed_run(transition: Transition, _run: Run) -> Iterator[Notice]:
    scale = transition.scalable.scale
    if transition.action is IdleAction.WAKE and scale.is_suspended_kind and scale.written.starting_deadline is None:
        text = f"{transition.ref} has no startingDeadlineSeconds: a missed run may start at once"
        yield Notice("missedRun", str(transition.ref), text, owner_policy(transition))


def _writer(transition: Transition, _run: Run) -> Iterator[Notice]:
    """A change of field manager alone is a notice and nothing else."""
    writer = transition.scalable.scale.written.replicas_writer
    if transition.state is IdleState.IDLE and writer is not None and writer.manager not in ("", FIELD_MANAGER):
        why = reason(ReasonCode.WRITTEN_BY, by=writer.manager, at=writer.at)
        text = f"{transition.ref} is idle, and {why}"
        yield Notice("fieldManager", str(transition.ref), text, owner_policy(transition), reasons=(why,))


def first_idles(transitions: Iterable[Transition]) -> Iterator[Notice]:
    """Yield for each cluster and tool that what is to be idled for the first time is written by that tool too."""
    new: dict[str, list[Workload]] = {}
    for transition in transitions:
        written = transition.scalable.scale.written
        known = LAST_IDLED in written.annotations or AWAKE_SINCE in written.annotations
        if transition.action in (IdleAction.IDLE, IdleAction.OBSERVE) and not known:
            new.setdefault(transition.ref.cluster, []).append(written)
    for cluster, workloads in sorted(new.items()):
        for by, theirs in tools_of(workloads).items():
            several = f"{len(theirs)} workloads that are idled for the first time"
            which = str(theirs[0].ref) if len(theirs) == 1 else several
            text = f"{cluster}: {by} writes the scale of {which} too, and may undo that; {remedy(by, theirs)}"
            yield Notice("otherWriter", cluster, text)


def undecided_by_equals(transitions: Iterable[Transition]) -> Iterator[Notice]:
    """Yield for each set of policies of equal priority what they select together."""
    found = ((transition.scalable.verdict.equal_policies, transition.ref) for transition in transitions)
    return equal_priorities(found, "newly idled")


def _unreadable_signal(transition: Transition, _run: Run) -> Iterator[Notice]:
    yield from _unreadable_request(transition.ref, transition.scalable.scale.written.annotations)


_NOTICES = (
    _overdue,
    _unreadable_record,
    _idled_by_others,
    _unproven,
    _held_together,
    _custom_kind,
    _unreadable_exclusion,
    _autoscaled,
    _contested,
    _missed_run,
    _writer,
    _unreadable_signal,
)


def claims(
    transitions: Mapping[ObjectRef, Transition], federated: Iterable[tuple[ObjectRef, ...]]
) -> dict[ObjectRef, str]:
    """Return every workload that is ours after this run, or that this run changes, with its policy's name.

    Where one local workload of a federated ReplicaSet is, all of them are.
    """
    found: dict[ObjectRef, str] = {}
    for transition in transitions.values():
        if _is_claimed(transition):
            found[transition.ref] = found[transition.scalable.scale.runs.ref] = owner_policy(transition)
    for refs in federated:
        claimed = [found[ref] for ref in refs if ref in found]
        if claimed:
            found |= {ref: claimed[0] for ref in refs if ref not in found}
    return {ref: found[ref] for ref in sorted(found)}


def _is_claimed(transition: Transition) -> bool:
    if transition.state is IdleState.UNREADABLE:
        return True
    changed = (IdleAction.IDLE, IdleAction.WAKE, IdleAction.RELEASE, IdleAction.CLEAR)
    return transition.action in changed or transition.was_idle
