"""The decisions of `reconciler restore`, without any policy, and what they leave as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import idling_owner, json_object, read_placed
from reconciler.decide.decisions import DesiredState, Notice, Verb
from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.decide import decisions_of
from reconciler.decide.idling.idle_workloads import choices_without_policies, list_in_vain
from reconciler.decide.idling.notices import notices
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.records import readable_part
from reconciler.decide.idling.rules import Choice, IdleAction
from reconciler.decide.idling.service_records import who_idled
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, Subject
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.reasons import ReasonCode, reason, text_of
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, Writes


class Restoration(Struct, frozen=True):
    """What is given back: what `objects` accepts (the scalable, or a Service it is behind), of policies that match
    one of the globs `policies`, idled by one of the `runs`. An empty part does not narrow.

    `adopt`: also what somebody else idled. `any_fleet`: every Fleet's records count as its own. `hold_until`: it is not
    idled again before then. `repairs`: also the lists of Services go whose workloads are awake already.
    """

    objects: Callable[[ObjectRef], bool] = lambda _ref: True
    policies: tuple[str, ...] = ()
    runs: frozenset[str] = frozenset()
    adopt: bool = False
    any_fleet: bool = False
    hold_until: datetime | None = None
    repairs: bool = False


def decide_restore(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> DesiredState:
    """Return the wakes that give everything in `restoration` its replicas back; nothing else is repaired.

    The run is partial where the record of something cannot be read, and where only another Fleet's is found.
    """
    fleet = of_every_fleet(fleet, state) if restoration.any_fleet else fleet
    clusters, alone = choices_without_policies(fleet, state, run, restoration.objects)
    choices = {ref: _restored(choice, restoration, run) for ref, choice in alone.items()}
    hold_until = restoration.hold_until
    context = WriteContext(fleet, run, clusters, choices, repairs=restoration.repairs, hold_until=hold_until)
    chosen = [choice for choice in choices.values() if _is_chosen(choice, restoration)]
    # What could not be read of what is woken does not matter any more.
    read = [
        choice for choice in chosen if choice.state is not IdleState.UNREADABLE or choice.action is not IdleAction.WAKE
    ]
    reported = notices(read, ())
    return DesiredState(
        decisions=decisions_of(context),
        notices=(
            *(replace(notice, partial=notice.partial or notice.kind == "setAside") for notice in reported),
            *_not_adopted(chosen, fleet, restoration),
            *_lists_in_vain(clusters, restoration),
        ),
    )


def origins(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> frozenset[tuple[str, str]]:
    """Return the policies and runs that idled the objects which `restoration` names; "" for what no record says."""
    fleet = of_every_fleet(fleet, state) if restoration.any_fleet else fleet
    _, choices = choices_without_policies(fleet, state, run, restoration.objects)
    named = (
        choice
        for choice in choices.values()
        if choice.record is not None and _is_named(choice.subject, restoration.objects)
    )
    return frozenset(_origin(choice) for choice in named)


def of_every_fleet(fleet: Fleet, state: ObservedState) -> Fleet:
    """Return `fleet` as one whose own records are those of every Fleet that wrote any in `state`."""
    names = set(fleet.former_names)
    for cluster in state.clusters.values():
        for objects in (cluster.workloads, cluster.services, cluster.endpoints, cluster.autoscalers):
            owners = (idling_owner(holder.annotations) for holder in objects)
            names.update(owner[0] for owner in owners if owner is not None)
    return replace(fleet, former_names=tuple(sorted(names)))


def _not_adopted(chosen: Sequence[Choice], fleet: Fleet, restoration: Restoration) -> Iterator[Notice]:
    """Report how much of what was asked for is left, because this Fleet did not idle it."""
    foreign = [choice for choice in chosen if choice.state in NOT_OURS and choice.subject.is_at_idled_count]
    left = [choice for choice in foreign if not _is_adopted(choice, restoration)]
    if not left:
        return
    counts = Counter(map(_idler, left))
    listed = ", ".join(f"{count} {idler}" for idler, count in sorted(counts.items()))
    who = "no Fleet idled" if restoration.any_fleet else f"Fleet {fleet.name} did not idle"
    how_many, them = ("1 idle object stays", "it") if len(left) == 1 else (f"{len(left)} idle objects stay", "them")
    whys = dict.fromkeys(_why_left(choice) for choice in left)
    then = " or ".join(whys) if restoration.adopt else f"add --adopt to restore {them} too"
    others = any(
        choice.state is IdleState.FOREIGN and choice.record is not None and choice.record.fleet for choice in left
    )
    nothing_of_ours = all(choice.record is None or choice.state in NOT_OURS for choice in chosen)
    text = f"{how_many} idle, as {who} {them} ({listed}); {then}"
    yield Notice("notAdopted", fleet.name, text, partial=others and nothing_of_ours)


def _lists_in_vain(clusters: Iterable[IdlingCluster], restoration: Restoration) -> Iterator[Notice]:
    """Report the lists of others that would be adopted, and say nothing that can be woken."""
    if not restoration.adopt or restoration.policies or restoration.runs:
        return
    for cluster in clusters:
        for service in filter(lambda service: restoration.objects(service.ref), cluster.services):
            if why := list_in_vain(service, cluster):
                yield Notice("notAdopted", str(service.ref), why, partial=True)


def _why_left(choice: Choice) -> str:
    """Return why what is not ours is left where that is asked for too, and what gives it back."""
    pinned = choice.conditions.get(IdlingCondition.BOUNDS)
    if pinned is None or choice.subject.protected:
        return "in a protected namespace: scale it"
    return f"{text_of(pinned.why)}: use --context in place of the Fleet"


def _idler(choice: Choice) -> str:
    if choice.state is IdleState.UNPROVEN:
        return "only listed on a Service"
    return f"by {who_idled(choice.record)}"


def _restored(choice: Choice, restoration: Restoration, run: Run) -> Choice:
    if not _is_chosen(choice, restoration):
        return choice.unchanged
    written = choice.subject.cluster.writes is not Writes.NOTHING
    if choice.subject.is_idle or _is_adopted(choice, restoration):
        action = IdleAction.WAKE if written else IdleAction.OVERDUE
        return choice.doing(action, (reason(ReasonCode.RESTORED),))
    if choice.state is IdleState.UNREADABLE and written:
        return _salvaged(choice, run)
    if choice.state is IdleState.MANUALLY_SCALED and written:
        return choice
    if choice.state is IdleState.RECORD_STALE and written:
        return choice.doing(IdleAction.CLEAR, choice.reasons)
    if _is_pinned_for_nothing(choice) and written:
        why = reason(ReasonCode.HPA_PINNED_FOR_NOTHING)
        return choice.doing(IdleAction.RELEASE, (why,))
    return choice.unchanged


def _is_pinned_for_nothing(choice: Choice) -> bool:
    """Return whether its autoscaler is held by us while nobody remembers it as idle."""
    autoscaler = choice.subject.pinned
    held = autoscaler is not None and autoscaler.previous is not None and not autoscaler.problem
    return held and choice.record is None and choice.state is not IdleState.UNREADABLE


def _salvaged(choice: Choice, run: Run) -> Choice:
    """Return the wake to the number that can still be read in a broken record, where there is one."""
    record = readable_part(choice.subject.scale.written, run.now)
    if record is None or not choice.subject.scale.is_at_or_below(0):
        return choice.unchanged
    salvaged = replace(choice, subject=replace(choice.subject, record=record))
    return salvaged.doing(IdleAction.WAKE, (reason(ReasonCode.RESTORED_IN_PART),))


def _is_adopted(choice: Choice, restoration: Restoration) -> bool:
    held = choice.subject.protected is not None or IdlingCondition.BOUNDS in choice.conditions
    return restoration.adopt and not held and choice.state in NOT_OURS and choice.subject.is_at_idled_count


def _is_chosen(choice: Choice, restoration: Restoration) -> bool:
    policy, run = _origin(choice)
    named = not restoration.policies or any(fnmatchcase(policy, pattern) for pattern in restoration.policies)
    of_run = not restoration.runs or run in restoration.runs
    return named and of_run and _is_named(choice.subject, restoration.objects)


def _is_named(subject: Subject, objects: Callable[[ObjectRef], bool]) -> bool:
    return any(map(objects, (subject.ref, subject.scale.runs.ref, *(service.ref for service in subject.services))))


def _origin(choice: Choice) -> tuple[str, str]:
    """Return the policy and the run that idled it, by its record."""
    run = None if choice.record is None else json_object(choice.record.cause).get("run")
    return ("" if choice.record is None else choice.record.policy), (run if isinstance(run, str) else "")


# What placement took away before.


def restore_notices(state: ObservedState, restored: DesiredState, *, hold: bool) -> Iterator[Notice]:
    """Yield what `restored`, the decisions of `reconciler restore`, does not give back, or not for long. `hold`: it is
    to stay so, which is asked of idling alone.
    """
    given_back = [
        decision
        for decision in restored.decisions
        if decision.verb is Verb.RELEASE and decision.replicas_after is not None
    ]
    counts = Counter(decision.group.partition("/")[2] for decision in given_back)
    for key, count in sorted(counts.items()):
        them = "it" if count == 1 else "them"
        words = f"the next run lowers {them} again while this policy says so"
        held = "--hold does not keep that up; " if hold else ""
        text = f"{_workloads(count)} scaled down by it; {words}; {held}remove it, or set its paused: true"
        yield Notice("placedAgain", f"FederatedReplicaSet {key}", text, partial=hold)
    woken = {decision.ref: decision.replicas_after for decision in restored.decisions if decision.verb is Verb.WAKE}
    lowered = [
        placed.previous
        for cluster in {ref.cluster for ref in woken}
        for workload in state.clusters[cluster].workloads
        if workload.ref in woken and (placed := read_placed(workload.annotations)) is not None
        if woken[workload.ref] == placed.replicas < placed.previous
    ]
    if lowered:
        text = f"{_workloads(len(lowered))} idle and scaled down by placement before that; this is the wake alone"
        yield Notice("wokenOnly", "placement", f"{text}, restore once more for the replicas of before placement")


def _workloads(count: int) -> str:
    return "1 workload was" if count == 1 else f"{count} workloads were"
