"""What people are told about the rulings: notices, wishes that lost, and the reason for every number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.decide.annotations import FIELD_MANAGER, WAKE_REQUESTED_AT, format_time, optional_instant
from reconciler.decide.decisions import Considered, Notice, Overridden, Undecided
from reconciler.decide.idling.blockers import unnamed
from reconciler.decide.idling.contested import contest_of, is_contest, snippet, undo_of
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.scalables import ScalableState, ServiceState, is_marking
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transitions import Action, Flag, Transition
from reconciler.decide.idling.writes_workload import owner_policy
from reconciler.model import ObjectRef, PodsQuestion, Run

_LEFT = (*NOT_OURS, IdleState.SET_ASIDE, IdleState.DOWN, IdleState.TAKEN_OVER)
_TAKEN = (IdleState.TAKEN_OVER, Action.RELEASE)
_OUTCOMES = {
    Action.IDLE: "goes idle",
    Action.OBSERVE: "would go idle",
    Action.KEEP: "stays idle",
    Action.WAKE: "wakes",
    Action.RELEASE: "stays awake",
    Action.CLEAR: "stays awake",
    Action.PUT_OFF: "stays idle",
    Action.OVERDUE: "stays idle",
    Action.DEFER: "stays idle",
}


def considered(rulings: Iterable[Transition], fronts: Iterable[ServiceState]) -> Iterator[Considered]:
    """Yield, for every scalable and every policy that selects it or owns its marks, what becomes of it and why.

    A selected Service is told of by itself only where no scalable is behind it, or not all are known.
    """
    told: set[ObjectRef] = set()
    for ruling in rulings:
        told.update(front.ref for front in ruling.target.behind)
        yield from _considered(ruling)
    for front in fronts:
        if front.ref not in told or front.found.undecided:
            why = front.found.undecided or "nothing that can be scaled is behind it"
            for name in dict.fromkeys(bid.policy.name for bid in front.bids):
                yield Considered(front.ref, "idling", name, "left as it is", why)


def _considered(ruling: Transition) -> Iterator[Considered]:
    target = ruling.target
    told = Considered(
        ref=target.scale.runs.ref,
        job="idling",
        policy=owner_policy(ruling),
        outcome=_outcome(ruling),
        why=ruling.why,
        flip=ruling.flip,
        idled=(ruling.ref, owner_policy(ruling)) if ruling.was_asleep else None,
        selected=False,
        written=ruling.ref if target.scale.is_paused_kind else None,
        services=tuple(front.ref for front in target.fronts if is_marking(front)),
    )
    names = dict.fromkeys(bid.policy.name for bid in target.want.bids)
    yield from (replace(told, policy=name, selected=True, selected_by=_selected_by(target, name)) for name in names)
    if not names:
        yield told


def _selected_by(target: ScalableState, policy: str) -> tuple[str, ...]:
    """Return which parts of the selector of `policy` select `target`."""
    services = [front for front in target.behind if any(bid.policy.name == policy for bid in front.bids)]
    names = ", ".join(f"Service/{front.ref.name}" for front in services)
    return (*([f"services ({names})"] if names else []), *(["workloads"] if policy in target.direct else []))


def _outcome(ruling: Transition) -> str:
    if ruling.action is not Action.LEAVE and (ruling.standing.state, ruling.action) != _TAKEN:
        return _OUTCOMES[ruling.action]
    return "left as it is" if ruling.standing.state in _LEFT else "stays awake"


def overridden(rulings: Iterable[Transition]) -> Iterator[Overridden]:
    """Yield the wishes of policies that others of higher priority win over, where they differ."""
    for ruling in rulings:
        target = ruling.target
        lost = {bid.policy.name: bid for bid in [*target.lost, *(bid for front in target.fronts for bid in front.lost)]}
        winner = target.want.policy
        for name in sorted(lost):
            says = lost[name].verdict.says
            if winner is None or says is target.want.says or says is CriterionResult.UNKNOWN:
                continue
            wish = "idle" if says is CriterionResult.IDLE else "awake"
            why = "it only observes" if lost[name].policy.mode == "Observe" else f"priority {winner.priority}"
            yield Overridden(target.scale.runs.ref, "idling", name, wish, winner.name, why)


def undecided(rulings: Iterable[Transition], fronts: Iterable[ServiceState]) -> Iterator[Undecided]:
    """Yield what criteria do not know enough of, what cannot be scaled as it is, and the selected Services whose
    scalables are not all known.
    """
    for ruling in rulings:
        want, scale = ruling.target.want, ruling.target.scale
        if want.policy is None or ruling.action not in (Action.LEAVE, Action.KEEP):
            continue
        if want.says is CriterionResult.UNKNOWN:
            yield Undecided(str(scale.runs.ref), "idling", want.policy.name, want.words)
        elif want.says is CriterionResult.IDLE and scale.problem:
            yield Undecided(str(scale.runs.ref), "idling", want.policy.name, scale.problem)
    for front in fronts:
        if front.bids and front.found.undecided:
            yield Undecided(str(front.ref), "idling", front.bids[0].policy.name, front.found.undecided)


def questions(rulings: Iterable[Transition], fronts: Iterable[ServiceState]) -> Iterator[PodsQuestion]:
    """Yield the pods that must be read: behind Services that would go idle if these pods were all there is to know."""
    behind: dict[ObjectRef, bool] = {}
    for ruling in rulings:
        for front in ruling.target.behind:
            behind[front.ref] = behind.get(front.ref, False) or Flag.UNSEEN in ruling.situation.flags
    for front in fronts:
        if front.found.question is not None and behind.get(front.ref, _would_idle(front)):
            yield front.found.question


def _would_idle(front: ServiceState) -> bool:
    """Return whether what may be behind `front` could go idle now."""
    is_free = front.exclusion is None and not front.is_marked
    return is_free and any(bid.verdict.says is CriterionResult.IDLE for bid in front.bids)


def notices(rulings: Iterable[Transition], fronts: Iterable[ServiceState], run: Run) -> tuple[Notice, ...]:
    """Return what a person should read, each once, sorted.

    What is wrong with an object of a tenant makes no run partial: it is told and counted, or one broken annotation
    would fail the runs of a whole platform.
    """
    ordered = list(rulings)
    found = [notice for ruling in ordered for tell in _NOTICES for notice in tell(ruling, run)]
    found += [notice for front in fronts for notice in _service_notices(front)]
    behind = {front.ref for ruling in ordered for front in ruling.target.behind}
    found += [notice for front in fronts if front.ref not in behind for notice in _nothing_behind(front)]
    return tuple(sorted(set(found), key=lambda notice: (notice.subject, notice.kind, notice.text)))


def query_notices(cluster: str, problems: Iterable[tuple[str, str]]) -> Iterator[Notice]:
    """Yield, for each query that cannot be used as a whole, that what it would decide is unknown."""
    for policy, why in problems:
        yield Notice(
            "unknownQuery", f"{cluster}/{policy}", f"{cluster}: a query of {policy} is unknown: {why}", policy, True
        )


def _service_notices(front: ServiceState) -> Iterator[Notice]:
    if front.problem and not front.is_foreign:
        yield Notice("setAside", str(front.ref), f"{front.ref}: {front.problem}; its marks stay as they are")
    elif front.is_foreign:
        owner = front.foreign.fleet if front.foreign is not None and front.foreign.fleet else "somebody else"
        yield Notice("foreignMark", str(front.ref), f"{front.ref} was marked idle by {owner}")
    if front.exclusion is not None and front.exclusion.unreadable:
        yield Notice("excludedUnreadable", str(front.ref), f"{front.ref}: {front.exclusion.why}; it counts as excluded")
    yield from _unreadable_request(front.ref, front.service.annotations)


def _nothing_behind(front: ServiceState) -> Iterator[Notice]:
    if front.found.nothing and _would_idle(front):
        text = f"{front.ref}: nothing behind it can be idled: {front.found.nothing}"
        yield Notice("nothingBehind", str(front.ref), text, front.bids[0].policy.name)


def _unreadable_request(ref: ObjectRef, annotations: Mapping[str, str]) -> Iterator[Notice]:
    if WAKE_REQUESTED_AT in annotations and optional_instant(annotations, WAKE_REQUESTED_AT) is None:
        text = f'{ref}: {WAKE_REQUESTED_AT} is "{annotations[WAKE_REQUESTED_AT]}", expected a time as in RFC 3339'
        yield Notice("unreadableSignal", str(ref), text)


def _overdue(ruling: Transition, _run: Run) -> Iterator[Notice]:
    if ruling.action is Action.OVERDUE:
        ours = ruling.standing.state not in NOT_OURS
        kind, held = (
            ("overdueWake", ruling.target.cluster.restriction) if ours else ("foreignOverdue", "somebody else's")
        )
        text = f"{ruling.ref} should be awake ({ruling.why}): {held}"
        yield Notice(kind, str(ruling.ref), text, owner_policy(ruling), partial=ours)
    if ruling.action is Action.DEFER:
        yield Notice("perRun", str(ruling.ref), f"{ruling.ref}: {ruling.why}", owner_policy(ruling))


def _set_aside(ruling: Transition, _run: Run) -> Iterator[Notice]:
    reading = ruling.target.reading
    if ruling.standing.state is IdleState.SET_ASIDE and reading is not None:
        yield Notice("setAside", str(ruling.ref), f"{ruling.ref}: {reading.problem}; its scale stays as it is")


def _foreign(ruling: Transition, _run: Run) -> Iterator[Notice]:
    if ruling.standing.state is IdleState.FOREIGN:
        fleet = ruling.record.fleet if ruling.record is not None and ruling.record.fleet else "somebody else"
        yield Notice("foreignMark", str(ruling.ref), f"{ruling.ref} was idled by {fleet}")


def _unproven(ruling: Transition, _run: Run) -> Iterator[Notice]:
    """A list on a Service that says more than the scalable bears out."""
    record, target = ruling.record, ruling.target
    lists = [(listing.entry.replicas, listing.front.ref.name) for listing in target.listings]
    if ruling.standing.state is IdleState.UNPROVEN and record is not None:
        names = " and ".join(f"Service/{front.ref.name}" for front in target.fronts if front.is_marked)
        why = f"{names} lists it as idle with {record.replicas} replicas, and nothing on it says that it was idled"
        then = "it stays as it is: scale it, or reconciler restore --adopt"
        yield Notice("unproven", str(ruling.ref), f"{ruling.ref}: {why}; {then}")
    elif ruling.was_asleep and record is not None and lists and max(lists)[0] > record.replicas:
        most, name = max(lists)
        why = f"Service/{name} lists it with {most} replicas, and nothing on it says more than {record.replicas}"
        yield Notice("unproven", str(ruling.ref), f"{ruling.ref}: {why}; that is what it wakes to")


def _kept_together(ruling: Transition, _run: Run) -> Iterator[Notice]:
    if ruling.choice.told not in (Flag.TOGETHER, Flag.OBSERVED):
        return
    for front in ruling.target.behind:
        policies = [
            bid.policy for bid in front.bids if ruling.choice.told is Flag.TOGETHER or bid.policy.mode == "Enforce"
        ]
        if policies:
            text = f"{front.ref}: nothing behind it goes idle: {ruling.why}"
            yield Notice("heldTogether", str(front.ref), text, policies[0].name)


def _custom_kind(ruling: Transition, _run: Run) -> Iterator[Notice]:
    reason = unnamed(ruling.target)
    if reason is not None and ruling.choice.told is Flag.HELD and ruling.why == reason.words:
        text = f"{ruling.target.scale.runs.ref}: {reason.words}; to idle it too, write {reason.flip}"
        yield Notice("customKind", str(ruling.target.scale.runs.ref), text, owner_policy(ruling))


def _equal(ruling: Transition, _run: Run) -> Iterator[Notice]:
    rivals = ruling.target.want.rivals
    if rivals:
        text = f"{ruling.ref}: {' and '.join(rivals)} select it with the same priority; nothing new is decided for it"
        yield Notice("equalPriorities", str(ruling.ref), text, rivals[0], True)


def _unreadable_exclusion(ruling: Transition, _run: Run) -> Iterator[Notice]:
    found = ruling.target.exclusion
    told = any(front.exclusion is not None and front.exclusion.unreadable for front in ruling.target.fronts)
    if found is not None and found.unreadable and not told:
        yield Notice("excludedUnreadable", str(ruling.ref), f"{ruling.ref}: {found.why}; it counts as excluded")


def _autoscaler(ruling: Transition, _run: Run) -> Iterator[Notice]:
    held = ruling.situation.words.get(Flag.HELD, "")
    hold, policy = ruling.hold, owner_policy(ruling)
    if ruling.action is Action.LEAVE and ruling.choice.why == held and _by_autoscaler(ruling):
        yield Notice("autoscaler", str(ruling.target.scale.runs.ref), f"{ruling.target.scale.runs.ref}: {held}", policy)
    if hold is not None and hold.problem:
        name = hold.autoscaler.ref
        yield Notice("setAside", str(name), f"{name}: {hold.problem}; its bounds stay as they are", policy)


def _by_autoscaler(ruling: Transition) -> bool:
    target = ruling.target
    zeros = target.hold is not None and target.hold.own_bounds.minimum == 0
    left = target.want.leaves_autoscalers
    leaves = ("hpa" in left and target.hold is not None) or ("keda" in left and target.scale.is_paused_kind)
    return zeros or leaves or bool(target.controller)


def _contested(ruling: Transition, run: Run) -> Iterator[Notice]:
    written = ruling.target.scale.written
    if ruling.standing.state is IdleState.CONTESTED:
        contest = contest_of(written, ruling.target.want.policy)
        if contest is not None:
            then = snippet(contest.by, ruling.ref, contest.autoscaler)
            text = f"{ruling.ref} is contested by {contest.by} since {contest.since}; {then}"
            yield Notice("contested", str(ruling.ref), text, owner_policy(ruling))
    undone = ruling.standing.state in (IdleState.HAND, IdleState.UNHELD)
    if undone and ruling.action in (Action.RELEASE, Action.WAKE) and ruling.record is not None:
        undo = undo_of(ruling.target, ruling.record, run.now)
        if is_contest(undo):
            then = snippet(undo.by, ruling.ref, undo.autoscaler)
            text = f"{ruling.ref} is contested by {undo.by}, which undid it {undo.count} times; {then}"
            yield Notice("contested", str(ruling.ref), text, owner_policy(ruling))


def _missed_run(ruling: Transition, _run: Run) -> Iterator[Notice]:
    scale = ruling.target.scale
    if ruling.action is Action.WAKE and scale.is_suspended_kind and scale.written.starting_deadline is None:
        text = f"{ruling.ref} has no startingDeadlineSeconds: a missed run may start at once"
        yield Notice("missedRun", str(ruling.ref), text, owner_policy(ruling))


def _writer(ruling: Transition, _run: Run) -> Iterator[Notice]:
    """A change of field manager alone is only told."""
    writer = ruling.target.scale.written.replicas_writer
    if ruling.standing.state is IdleState.IDLE and writer is not None and writer.manager not in ("", FIELD_MANAGER):
        when = "" if writer.at is None else f" at {format_time(writer.at)}"
        text = f"{ruling.ref} is idle, and {writer.manager} wrote its replicas last{when}"
        yield Notice("fieldManager", str(ruling.ref), text, owner_policy(ruling))


def _unreadable_signal(ruling: Transition, _run: Run) -> Iterator[Notice]:
    yield from _unreadable_request(ruling.ref, ruling.target.scale.written.annotations)


_NOTICES = (
    _overdue,
    _set_aside,
    _foreign,
    _unproven,
    _kept_together,
    _custom_kind,
    _equal,
    _unreadable_exclusion,
    _autoscaler,
    _contested,
    _missed_run,
    _writer,
    _unreadable_signal,
)


def claims(rulings: Mapping[ObjectRef, Transition], federated: Iterable[tuple[ObjectRef, ...]]) -> dict[ObjectRef, str]:
    """Return every workload that is ours after this run, or that this run changes, with its policy's name.

    Where one local workload of a federated ReplicaSet is, all of them are.
    """
    found: dict[ObjectRef, str] = {}
    for ruling in rulings.values():
        if _is_claimed(ruling):
            found |= dict.fromkeys((ruling.ref, ruling.target.scale.runs.ref), owner_policy(ruling))
    for refs in federated:
        claimed = [found[ref] for ref in refs if ref in found]
        if claimed:
            found |= {ref: claimed[0] for ref in refs if ref not in found}
    return {ref: found[ref] for ref in sorted(found)}


def _is_claimed(ruling: Transition) -> bool:
    if ruling.standing.state is IdleState.SET_ASIDE:
        return True
    changed = (Action.IDLE, Action.WAKE, Action.RELEASE, Action.CLEAR)
    return ruling.action in changed or ruling.was_asleep
