"""What a person should read of choices: what is overdue, contested, left alone, undecided, or cannot be read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import Key, read_time
from reconciler.decide.decisions import Notice, NoticeKind, Overridden, Undecided
from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.contested import (
    AUTOSCALER,
    advice,
    contest_of,
    insisted,
    is_contested,
    remedy,
    scaled_at,
    tools_of,
)
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.rules import GOES_IDLE, GOES_UP, Choice, IdleAction, owner_policy
from reconciler.decide.idling.service_records import ServiceRecord, who_idled
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.messages import counted
from reconciler.model import FIELD_MANAGER, ObjectRef, by_key

_BY_AUTOSCALER = (
    ReasonCode.LEFT_TO_AUTOSCALER,
    ReasonCode.KEDA_LEFT,
    ReasonCode.HPA_LEFT,
    ReasonCode.SEVERAL_HPAS,
    ReasonCode.SEVERAL_SCALED_OBJECTS,
)


def notices(choices: Iterable[Choice], services: Iterable[ServiceState]) -> tuple[Notice, ...]:
    """Return the notices, each once, sorted.

    What is wrong with an object of a tenant makes no run partial: it is reported and counted, or one broken annotation
    would fail the runs of a whole platform.
    """
    ordered = list(choices)
    found: list[Notice] = []
    without: set[Hashable] = set()  # decision inputs of which there is no notice
    for choice in ordered:
        if choice.decision_inputs is None or choice.decision_inputs not in without:
            reported = list(chain.from_iterable(of(choice) for of in _NOTICES))
            found += reported
            without.update(() if reported else (choice.decision_inputs,))
    found += [notice for service in services for notice in _service_notices(service)]
    empty = [service for service in services if service.found.nothing and service.would_idle]
    behind = {service.ref for choice in (ordered if empty else ()) for service in choice.subject.behind}
    for service in empty:
        if service.ref not in behind:
            words = f": no workload behind it can be idled: {service.found.nothing}"
            found.append(_about(service.ref, "nothingBehind", words, service.verdict.won[0].policy.name))
    return tuple(sorted(set(found), key=lambda notice: (notice.subject, notice.kind, notice.text)))


def _about(ref: ObjectRef, kind: NoticeKind, words: str, policy: str = "", reasons: Reasons = ()) -> Notice:
    """Return the notice that says `words` of `ref`."""
    return Notice(kind, str(ref), f"{ref}{words}", policy, reasons=reasons)


def _service_notices(service: ServiceState) -> Iterator[Notice]:
    ref, found = service.ref, service.exclusion
    if service.problem and not service.is_foreign:
        yield _about(ref, "setAside", f": {service.problem}; its annotations are left unchanged")
    elif service.is_foreign:
        yield _foreign_record(ref, service.foreign)
    if found is not None and found.unreadable:
        yield _about(ref, "excludedUnreadable", f": {found.why[0]}; it counts as excluded")
    yield from _unreadable_request(ref, service.service.annotations)


def _foreign_record(ref: ObjectRef, record: Record | ServiceRecord | None) -> Notice:
    return _about(ref, "foreignRecord", f" was idled by {who_idled(record)}")


def _unreadable_request(ref: ObjectRef, annotations: Mapping[str, str]) -> Iterator[Notice]:
    if Key.WAKE_REQUESTED_AT in annotations and read_time(annotations.get(Key.WAKE_REQUESTED_AT)) is None:
        found = annotations[Key.WAKE_REQUESTED_AT]
        words = f': {Key.WAKE_REQUESTED_AT} is "{found}", expected a time as in RFC 3339'
        yield _about(ref, "unreadableSignal", words)


def _overdue(choice: Choice) -> Iterator[Notice]:
    if choice.action is IdleAction.DEFER:
        yield _about(choice.ref, "perRun", f": {choice.why}", owner_policy(choice), choice.reasons)
    if choice.action is IdleAction.OVERDUE:
        ours = choice.state not in NOT_OURS
        kind: NoticeKind = "overdueWake" if ours else "foreignOverdue"
        who = who_idled(choice.record)
        theirs = f"was idled by {who}; to wake it: reconciler restore {choice.ref} --adopt"
        words = f" should be awake ({choice.why}): {choice.subject.cluster.restriction if ours else theirs}"
        yield replace(_about(choice.ref, kind, words, owner_policy(choice), choice.reasons), partial=ours)


def _left_alone(choice: Choice) -> Iterator[Notice]:
    """What is not ours, or cannot be read; an exclusion on a Service has a notice of its own, about that Service."""
    reading, found = choice.subject.reading, choice.subject.exclusion
    if choice.state is IdleState.UNREADABLE and reading is not None:
        yield _about(choice.ref, "setAside", f": {reading.problem}; its replicas are left unchanged")
    if choice.state is IdleState.FOREIGN:
        yield _foreign_record(choice.ref, choice.record)
    if found is not None and found.unreadable and not found.on.startswith("Service/"):
        yield _about(choice.ref, "excludedUnreadable", f": {found.on}: {found.why[0]}; it counts as excluded")
    yield from _unreadable_request(choice.ref, choice.subject.scale.written.annotations)


def _unproven(choice: Choice) -> Iterator[Notice]:
    """A list on a Service that says more than the scalable bears out."""
    record, subject = choice.record, choice.subject
    if record is None:
        return
    lists = [(said.replicas, service.name) for service, said in subject.listings]
    if choice.state is IdleState.UNPROVEN and choice.action is not IdleAction.WAKE:
        names = [f"Service/{service.ref.name}" for service in subject.services if service.has_record]
        listed = f"{' and '.join(names)} {'lists' if len(names) == 1 else 'list'} it"
        why = f"{listed} as idle with {counted(record.replicas, 'replica')}, but it has no record of its own"
        then = f"it is left unchanged: scale it, or run reconciler restore {choice.ref} --adopt"
        yield _about(choice.ref, "unproven", f": {why}; {then}")
    elif choice.subject.is_idle and lists and max(lists)[0] > record.replicas:
        most, name = max(lists)
        why = f"Service/{name} lists it with {counted(most, 'replica')}, its own records at most {record.replicas}"
        yield _about(choice.ref, "unproven", f": {why}; that is what it wakes to")


def _kept_up(choice: Choice) -> Iterator[Notice]:
    """What keeps it up, where that is no matter of time: another workload, its kind, or its autoscaler."""
    ref, autoscaler, because = choice.subject.scale.runs.ref, choice.subject.pinned, choice.because
    if because is IdlingCondition.SERVICE_RUNS:
        for service in choice.subject.behind:
            words, policy = f": no workload behind it is idled: {choice.why}", service.verdict.won[0].policy.name
            yield _about(service.ref, "heldTogether", words, policy, choice.reasons)
    elif because is IdlingCondition.CUSTOM_KIND and choice.fact and (lift := choice.fact.change_if) is not None:
        selector, policies = lift.values["selector"], " and ".join(lift.values["policies"])
        words = f": {choice.why}; to idle it too, write {selector} in the selector of {policies}"
        yield _about(ref, "customKind", words, owner_policy(choice), choice.reasons)
    elif because is IdlingCondition.AUTOSCALED and choice.reasons[0].code in _BY_AUTOSCALER:
        yield _about(ref, "autoscaler", f": {choice.why}", owner_policy(choice), choice.reasons)
    if autoscaler is not None and autoscaler.problem:
        words = f": {autoscaler.problem}; its bounds are left unchanged"
        yield _about(autoscaler.hpa.ref, "setAside", words, owner_policy(choice))


def _contested(choice: Choice) -> Iterator[Notice]:
    for words, by, autoscaler, reasons in _contests(choice):
        then = advice(by, choice.ref, autoscaler, choice.subject.scale.written.replicas_path)
        yield _about(choice.ref, "contested", f" {words}; {then}", owner_policy(choice), reasons)


def _contests(choice: Choice) -> Iterator[tuple[str, str, str, Reasons]]:
    """Yield each fight about it: in words, who fights, about which autoscaler, and the reasons."""
    subject, undo = choice.subject, choice.subject.undo
    contest = contest_of(subject.scale.written, subject.verdict.policy)
    if contest is not None and choice.state is IdleState.CONTESTED:
        why = reason(ReasonCode.CONTESTED, by=contest.by, since=contest.since)
        yield f"is {why}", contest.by, contest.autoscaler, (why,)
    last, insists = insisted(subject), choice.because is IdlingCondition.INSISTS
    if last is not None and choice.stays_idle and not insists:
        yield f"was reverted {last.count} times by {last.by}, and idled again (onRevert: Insist)", last.by, "", ()
    if undo is not None and insists:
        times = f"{undo.count} times in a row" if undo.count > 1 else "once"
        yield f"was reverted by {undo.by} {times}", undo.by, "", ()
    if undo is not None and choice.action in GOES_UP and is_contested(subject, undo):
        yield f"is contested by {undo.by}, which reverted it {undo.count} times", undo.by, undo.autoscaler, ()


def _lost(choice: Choice) -> Iterator[Notice]:
    """What its idle may cost: a run of a CronJob, or the data of its pods."""
    ref, written, runs = choice.ref, choice.subject.scale.written, choice.subject.scale.runs
    if written.kind.scheduled and choice.action in {*GOES_IDLE, IdleAction.WAKE} and written.starting_deadline is None:
        words = " has no startingDeadlineSeconds: a missed run may start at once when it wakes"
        yield _about(ref, "missedRun", words, owner_policy(choice))
    if choice.action in GOES_IDLE and runs.loses_volumes:
        which = "persistentVolumeClaimRetentionPolicy.whenScaled is Delete"
        words = f" loses the volumes of the pods that go, and their data: its {which}"
        yield _about(ref, "lostVolumes", words, owner_policy(choice))


_EXPECTED = ("", FIELD_MANAGER, AUTOSCALER)


def _writer(choice: Choice) -> Iterator[Notice]:
    """A change of field manager alone is a notice and nothing else; who wrote before the record, as what another tool
    has idled is adopted, changed nothing.
    """
    written, record = choice.subject.scale.written, choice.record
    writer = written.replicas_writer
    if choice.state is not IdleState.IDLE or writer is None or writer.manager in _EXPECTED:
        return
    if writer.at is None or record is None or writer.at >= scaled_at(written, record):
        why = reason(ReasonCode.WRITTEN_BY, by=writer.manager, at=writer.at)
        yield _about(choice.ref, "fieldManager", f" is idle, and {why}", owner_policy(choice), (why,))


def first_idles(choices: Iterable[Choice]) -> Iterator[Notice]:
    """Yield for each cluster and tool that what is to be idled for the first time is written by that tool too."""
    idled = (choice.subject.scale.written for choice in choices if choice.action in GOES_IDLE)
    known = (Key.LAST_IDLED, Key.AWAKE_SINCE)
    new = by_key((one.ref.cluster, one) for one in idled if one.annotations.keys().isdisjoint(known))
    for cluster, workloads in sorted(new.items()):
        for by, theirs in tools_of(workloads).items():
            several = f"{len(theirs)} workloads that are idled for the first time"
            which = str(theirs[0].ref) if len(theirs) == 1 else several
            text = f"{cluster}: {by} writes the scale of {which} too, and may undo that; {remedy(by, theirs)}"
            yield Notice("otherWriter", cluster, text)


_NOTICES = (
    _overdue,
    _left_alone,
    _unproven,
    _kept_up,
    _contested,
    _lost,
    _writer,
)


# What policies say that does not count, or cannot be known.


def overridden(choices: Iterable[Choice]) -> Iterator[Overridden]:
    """Yield what policies of lower priority want of a workload, where that is not what the deciding ones say."""
    for subject in (choice.subject for choice in choices if choice.subject.verdict.lost):
        winner, same = subject.verdict.policy, (subject.verdict.result, CriterionResult.UNKNOWN)
        if winner is None:
            continue
        differ = {verdict.policy.name: verdict for verdict in subject.verdict.lost if verdict.result not in same}
        for name in sorted(differ):
            desired = "idle" if differ[name].result is CriterionResult.IDLE else "awake"
            why = reason(ReasonCode.HIGHER_PRIORITY, priority=winner.priority)
            if differ[name].policy.mode == "Observe":
                why = reason(ReasonCode.OBSERVES)
            yield Overridden(subject.scale.runs.ref, "idling", name, desired, winner.name, (why,))


def nothing_to_idle(service: ServiceState) -> Reason:
    if service.found.undecided:
        return reason(ReasonCode.TARGETS_UNKNOWN, problem=service.found.undecided)
    return reason(ReasonCode.NO_WORKLOAD)


def undecided(choices: Iterable[Choice], services: Iterable[ServiceState]) -> Iterator[Undecided]:
    """Yield what criteria do not know enough of, what cannot be scaled as it is, and the selected Services whose
    scalables are not all known.
    """
    for choice in choices:
        verdict, scale = choice.subject.verdict, choice.subject.scale
        if verdict.policy is None or choice.action not in (IdleAction.LEAVE, IdleAction.KEEP):
            continue
        if choice.because is IdlingCondition.PRODUCTION:
            continue
        if verdict.result is CriterionResult.UNKNOWN:
            unknown = next(own_verdict for own_verdict in verdict.won if own_verdict.result is CriterionResult.UNKNOWN)
            yield Undecided(str(scale.runs.ref), "idling", unknown.policy.name, verdict.reasons)
        elif verdict.result is CriterionResult.IDLE and scale.written.no_place and scale.replicas:
            why = reason(ReasonCode.NOT_SCALABLE, problem=scale.written.no_place)
            yield Undecided(str(scale.runs.ref), "idling", verdict.policy.name, (why,))
    for service in services:
        if service.is_selected and service.found.undecided:
            yield Undecided(str(service.ref), "idling", service.verdict.won[0].policy.name, (nothing_to_idle(service),))
