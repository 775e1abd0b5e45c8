"""The decisions of `reconciler restore`, without any policy, and what `reconciler wake` can ask to wake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import IDLED_AT, OPENSHIFT_IDLED_AT, idling_owner, json_object
from reconciler.decide.decisions import DesiredState, Notice
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.decide import decisions_of
from reconciler.decide.idling.explain import notices
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.records import readable_part, who_idled
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transition_rules import ChosenAction, Flag, IdleAction
from reconciler.decide.idling.transitions import Transition, transitions_of
from reconciler.decide.idling.writes_workload import WriteContext
from reconciler.decide.reasons import ReasonCode, reason, text_of
from reconciler.model import ObjectRef, ObservedState, Run, Service, Workload
from reconciler.policy.types import Fleet, Writes


def _everything(_ref: ObjectRef) -> bool:
    return True


class Restoration(Struct, frozen=True):
    """What is given back: what `objects` accepts (the scalable, or a Service it is behind), of policies that match
    one of the globs `policies`, idled by one of the `runs`. An empty part does not narrow.

    `adopt`: also what somebody else idled. `any_fleet`: every Fleet's marks count as its own. `hold_until`: it is not
    idled again before then.
    """

    objects: Callable[[ObjectRef], bool] = _everything
    policies: tuple[str, ...] = ()
    runs: frozenset[str] = frozenset()
    adopt: bool = False
    any_fleet: bool = False
    hold_until: datetime | None = None


def decide_restore(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> DesiredState:
    """Return the wakes that give everything in `restoration` its replicas back; nothing else is repaired.

    The run is partial where the record of something cannot be read, and where only another Fleet's is found.
    """
    fleet = of_every_fleet(fleet, state) if restoration.any_fleet else fleet
    clusters = idling_clusters(IdlingInputs(fleet, state, run, named=restoration.objects))
    alone = transitions_of([scalable for cluster in clusters for scalable in cluster.scalables], FleetGuards(), run.now)
    transitions = {ref: _restored(transition, restoration, run) for ref, transition in alone.items()}
    services = [(service, cluster.inventory) for cluster in clusters for service in cluster.services]
    context = WriteContext(fleet, run, repairs=False, hold_until=restoration.hold_until)
    chosen = [transition for transition in transitions.values() if _is_chosen(transition, restoration)]
    reported = notices([transition for transition in chosen if not _is_repaired(transition)], (), run)
    return DesiredState(
        decisions=decisions_of(transitions, services, context),
        notices=(
            *(replace(one, partial=one.partial or one.kind == "setAside") for one in reported),
            *_not_adopted(chosen, fleet, restoration),
        ),
    )


class Origin(Struct, frozen=True):
    """What idled something, by its record; "" for what the record does not say."""

    policy: str
    run: str


def origins(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> frozenset[Origin]:
    """Return the policies and runs that idled the objects which `restoration` names."""
    fleet = of_every_fleet(fleet, state) if restoration.any_fleet else fleet
    clusters = idling_clusters(IdlingInputs(fleet, state, run, named=restoration.objects))
    transitions = transitions_of(
        [scalable for cluster in clusters for scalable in cluster.scalables], FleetGuards(), run.now
    )
    named = (
        one for one in transitions.values() if one.record is not None and _is_named(one.scalable, restoration.objects)
    )
    return frozenset(_origin(transition) for transition in named)


def of_every_fleet(fleet: Fleet, state: ObservedState) -> Fleet:
    """Return `fleet` as one whose own marks are those of every Fleet that wrote any in `state`."""
    return replace(fleet, former_names=tuple(sorted({*fleet.former_names, *_marking(state)})))


def _marking(state: ObservedState) -> Iterator[str]:
    for cluster in state.clusters.values():
        for objects in (cluster.workloads, cluster.services, cluster.endpoints, cluster.autoscalers):
            owners = (idling_owner(one.annotations) for one in objects)
            yield from (owner[0] for owner in owners if owner is not None)


def _not_adopted(chosen: Sequence[Transition], fleet: Fleet, restoration: Restoration) -> Iterator[Notice]:
    """Report how much of what was asked for is left, because this Fleet did not idle it."""
    foreign = [one for one in chosen if one.state in NOT_OURS and _is_idle_now(one)]
    left = [one for one in foreign if not _is_adopted(one, restoration)]
    if not left:
        return
    counts = Counter(map(_idler, left))
    listed = ", ".join(f"{count} {idler}" for idler, count in sorted(counts.items()))
    who = "no Fleet idled" if restoration.any_fleet else f"Fleet {fleet.name} did not idle"
    how_many, them = ("1 idle object stays", "it") if len(left) == 1 else (f"{len(left)} idle objects stay", "them")
    whys = dict.fromkeys(_why_left(one) for one in left)
    then = " or ".join(whys) if restoration.adopt else f"add --adopt to restore {them} too"
    others = any(one.state is IdleState.FOREIGN and one.record is not None and one.record.fleet for one in left)
    nothing_of_ours = all(one.record is None or one.state in NOT_OURS for one in chosen)
    text = f"{how_many} idle, as {who} {them} ({listed}); {then}"
    yield Notice("notAdopted", fleet.name, text, partial=others and nothing_of_ours)


def _why_left(transition: Transition) -> str:
    """Return why what is not ours is left where that is asked for too, and what gives it back."""
    pinned = transition.situation.reasons.get(Flag.BOUNDS)
    if pinned is None or transition.scalable.protected:
        return "in a protected namespace: scale it"
    return f"{text_of(pinned)}: use --context in place of the Fleet"


def _idler(transition: Transition) -> str:
    if transition.state is IdleState.UNPROVEN:
        return "only listed on a Service"
    return f"by {who_idled('' if transition.record is None else transition.record.fleet)}"


def _is_repaired(transition: Transition) -> bool:
    """Return whether what could not be read of it does not matter any more."""
    return transition.state is IdleState.UNREADABLE and transition.action is IdleAction.WAKE


def _restored(transition: Transition, restoration: Restoration, run: Run) -> Transition:
    if not _is_chosen(transition, restoration):
        return _unchanged(transition)
    written = transition.scalable.cluster.writes is not Writes.NOTHING
    if transition.was_idle or _is_adopted(transition, restoration):
        action = IdleAction.WAKE if written else IdleAction.OVERDUE
        return replace(transition, choice=ChosenAction(action, (reason(ReasonCode.RESTORED),)))
    if transition.state is IdleState.UNREADABLE and written:
        return _salvaged(transition, run)
    if transition.state is IdleState.MANUALLY_SCALED and written:
        return transition
    if transition.state is IdleState.STALE and written:
        return replace(transition, choice=ChosenAction(IdleAction.CLEAR, transition.reasons))
    if _is_pinned_for_nothing(transition) and written:
        why = reason(ReasonCode.HPA_PINNED_FOR_NOTHING)
        return replace(transition, choice=ChosenAction(IdleAction.RELEASE, (why,)))
    return _unchanged(transition)


def _is_pinned_for_nothing(transition: Transition) -> bool:
    """Return whether its autoscaler is held by us while nobody remembers it as idle."""
    autoscaler = transition.autoscaler
    held = autoscaler is not None and autoscaler.previous is not None and not autoscaler.problem
    return held and transition.record is None and transition.state is not IdleState.UNREADABLE


def _salvaged(transition: Transition, run: Run) -> Transition:
    """Return the wake to the number that can still be read in a broken record, where there is one."""
    record = readable_part(transition.scalable.scale.written, run.now)
    if record is None or not transition.scalable.scale.is_at_or_below(0):
        return _unchanged(transition)
    classification = replace(transition.classification, record=record)
    return replace(
        transition,
        classification=classification,
        choice=ChosenAction(IdleAction.WAKE, (reason(ReasonCode.RESTORED_IN_PART),)),
    )


def _unchanged(transition: Transition) -> Transition:
    """Return the transition that leaves it as it is, idle or not."""
    action = IdleAction.KEEP if transition.was_idle else IdleAction.LEAVE
    return replace(transition, choice=ChosenAction(action, transition.reasons))


def _is_adopted(transition: Transition, restoration: Restoration) -> bool:
    held = transition.scalable.protected is not None or Flag.BOUNDS in transition.situation.flags
    return restoration.adopt and not held and transition.state in NOT_OURS and _is_idle_now(transition)


def _is_idle_now(transition: Transition) -> bool:
    return transition.record is not None and transition.scalable.scale.is_at_or_below(transition.record.idled_to)


def _is_chosen(transition: Transition, restoration: Restoration) -> bool:
    origin = _origin(transition)
    named = not restoration.policies or any(fnmatchcase(origin.policy, pattern) for pattern in restoration.policies)
    of_run = not restoration.runs or origin.run in restoration.runs
    return named and of_run and _is_named(transition.scalable, restoration.objects)


def _is_named(scalable: ScalableState, objects: Callable[[ObjectRef], bool]) -> bool:
    return any(objects(ref) for ref in _names(scalable))


def _names(scalable: ScalableState) -> Iterable[ObjectRef]:
    return (scalable.ref, scalable.scale.runs.ref, *(service.ref for service in scalable.services))


def _origin(transition: Transition) -> Origin:
    record = transition.record
    if record is None:
        return Origin("", "")
    run = json_object(record.cause).get("run")
    return Origin(record.policy, run if isinstance(run, str) else "")


# The idle workloads that can be asked to wake, found as the decisions find them: by their records, or by a list.


class IdleWorkload(Struct, frozen=True):
    """Something to ask. `wakes` are the scalables that wake then; `problem` set: it would be in vain, and why."""

    asked: Service | Workload
    wakes: frozenset[ObjectRef] = frozenset()
    problem: str = ""


def idle_workloads(
    fleet: Fleet, state: ObservedState, run: Run, named: Callable[[ObjectRef], bool]
) -> tuple[IdleWorkload, ...]:
    """Return the objects that get a wake request, so that all idle workloads that `named` accepts wake; sorted by name.

    A Service (or its Endpoints) is asked for all that is behind it, in whatever way that was idled. Also what only
    looks idle, by a mark on it, is asked: a run that died may have left it half way.
    """
    found: dict[ObjectRef, IdleWorkload] = {}
    clusters = idling_clusters(IdlingInputs(fleet, state, run, named=named))
    transitions = transitions_of(
        [scalable for cluster in clusters for scalable in cluster.scalables], FleetGuards(), run.now
    )
    for transition in transitions.values():
        for one in _asked(transition, named):
            known = found.get(one.ref, IdleWorkload(one))
            found[one.ref] = IdleWorkload(
                one, known.wakes | {transition.ref}, known.problem or _problem(transition, one)
            )
    # The target of a ScaledObject has its record too, and wakes with it.
    with_another = {one.scalable.scale.runs.ref for one in transitions.values() if one.scalable.has_target}
    for cluster in state.clusters.values():
        # A Deployment's annotations are copied to its ReplicaSets, which nobody asks.
        objects: list[Service | Workload] = [
            *cluster.services,
            *(one for one in cluster.workloads if one.owner is None),
        ]
        for marked in objects:
            has_record = IDLED_AT in marked.annotations or OPENSHIFT_IDLED_AT in marked.annotations
            if has_record and named(marked.ref) and marked.ref not in with_another - transitions.keys():
                found.setdefault(marked.ref, IdleWorkload(marked))
    return tuple(found[ref] for ref in sorted(found))


def _asked(transition: Transition, named: Callable[[ObjectRef], bool]) -> Iterator[Service | Workload]:
    """Yield what is asked for the sake of one scalable: itself where it is named, and its Services that are."""
    if not (transition.was_idle or transition.state in (*NOT_OURS, IdleState.UNREADABLE)):
        return
    scale = transition.scalable.scale
    itself = named(scale.written.ref) or named(scale.runs.ref)
    if itself:
        yield scale.written
    for service in transition.scalable.services:
        is_needed = service.has_record or not itself
        if is_needed and (named(service.ref) or (service.endpoints is not None and named(service.endpoints.ref))):
            yield service.service


def _problem(transition: Transition, asked: Service | Workload) -> str:
    reading = transition.scalable.reading
    if transition.state is IdleState.UNPROVEN:
        return f"{transition.why}; `restore --adopt` takes its word"
    if transition.state is IdleState.FOREIGN and transition.scalable.protected:
        return f"{transition.why}, and this Fleet did not idle it; scale it"
    if transition.state is IdleState.FOREIGN and Flag.BOUNDS in transition.situation.flags:
        return f"{text_of(transition.situation.reasons[Flag.BOUNDS])}; `wake --context` gives its bounds back"
    if reading is not None and transition.state is IdleState.UNREADABLE and asked is transition.scalable.scale.written:
        return f"{reading.problem}; `restore` gives back what can be read"
    return ""
