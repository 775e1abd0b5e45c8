"""Transitions -> what is written on a Service, and on its Endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.decide.annotations import (
    CAUSE,
    EXCLUDE,
    EXCLUDE_UNTIL,
    IDLED_AT,
    OWNER,
    UNIDLE_TARGETS,
    WAKE_REQUESTED_AT,
    fleet_names,
)
from reconciler.decide.decisions import Cause, Decision, Phase, Verb, annotation_changes, annotation_tests
from reconciler.decide.idling.discovery import Inventory, is_owned_by_scalable
from reconciler.decide.idling.records import (
    Record,
    ServiceRecord,
    UnidleTarget,
    foreign_record_cleared,
    read_service_record,
    service_record_annotations,
    targets_text,
)
from reconciler.decide.idling.scalables import ServiceState
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transitions import Action, Transition
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.writes_workload import (
    WriteContext,
    cause_of,
    cause_text,
    decision_key,
    own_decision_key,
    record_after,
)
from reconciler.model import Endpoints, Service

_TESTED = (EXCLUDE, EXCLUDE_UNTIL, WAKE_REQUESTED_AT)
"""What could keep a Service awake: its mark is not written where one of these changed meanwhile."""

_KEPT = (IdleState.SET_ASIDE, IdleState.UNPROVEN)
"""Of these a Service's list is all there is to go back by: an entry stays until the scalable is up."""

_UP_NOW = (Action.WAKE, Action.RELEASE)

Annotations = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ServiceTargets:
    """The scalables behind one Service. `asleep` are those that stand at their idled count after this run."""

    front: ServiceState
    rulings: tuple[Transition, ...]
    asleep: Mapping[UnidleTarget, Record]
    kept: tuple[UnidleTarget, ...]  # entries that nothing is known of, or that are set aside

    @property
    def idled(self) -> tuple[Transition, ...]:
        return tuple(ruling for ruling in self.rulings if ruling.action is Action.IDLE)

    @property
    def up(self) -> tuple[Transition, ...]:
        """Those that are listed and get up in this run."""
        listed = {entry.ref(self.front.ref) for entry in self.listed}
        return tuple(ruling for ruling in self.rulings if ruling.action in _UP_NOW and ruling.ref in listed)

    @property
    def listed(self) -> tuple[UnidleTarget, ...]:
        return self.front.mark.entries if self.front.mark is not None else ()

    @property
    def entries(self) -> tuple[UnidleTarget, ...]:
        return tuple(sorted({*self.asleep, *self.kept}))

    @property
    def asleep_already(self) -> tuple[UnidleTarget, ...]:
        """The entries without those that are idled in this run."""
        new = {ruling.ref for ruling in self.idled}
        return tuple(entry for entry in self.entries if entry.ref(self.front.ref) not in new)


@dataclass(frozen=True, slots=True)
class _ServiceWrite:
    """One write of a mark. `only_list`: nothing but its list changes, because another step follows."""

    verb: Verb
    phase: Phase
    after: ServiceRecord | None
    cause: Cause
    order: tuple[int, ...]
    needs: tuple[str, ...] = ()
    only_list: bool = False
    idles: bool = False


def service_decisions(
    front: ServiceState, rulings: Sequence[Transition], inventory: Inventory, making: WriteContext
) -> tuple[Decision, ...]:
    """Return what is done with the marks on `front`, given the rulings on everything behind it."""
    if front.mark is None and front.is_foreign:
        return tuple(_foreign_decisions(front, rulings, inventory, making))
    if front.problem:
        return ()
    steps = tuple(_service_writes(_service_targets(front, rulings, inventory, making), making))
    if not steps:
        return ()
    writer = _Writer(front, inventory, making)
    on_service = tuple(writer.decisions(front.service, steps))
    return (*on_service, *writer.endpoint_decisions(steps, on_service))


def _service_targets(
    front: ServiceState, rulings: Sequence[Transition], inventory: Inventory, making: WriteContext
) -> ServiceTargets:
    listed = {entry.ref(front.ref): entry for entry in (front.mark.entries if front.mark is not None else ())}
    adds = bool(front.bids) and front.ref not in making.running
    after = [(ruling.ref, record_after(ruling, making)) for ruling in rulings if adds or ruling.ref in listed]
    asleep = {UnidleTarget.of(ref, record.replicas): record for ref, record in after if record is not None}
    told = {ruling.ref for ruling in rulings if ruling.standing.state not in _KEPT or ruling.action in _UP_NOW}
    kept = tuple(entry for ref, entry in listed.items() if ref not in told and not _is_gone(entry, front, inventory))
    return ServiceTargets(front, tuple(rulings), asleep, kept)


def _is_gone(entry: UnidleTarget, front: ServiceState, inventory: Inventory) -> bool:
    ref = entry.ref(front.ref)
    workload = inventory.by_ref.get(ref)
    if workload is None:
        return inventory.is_listed((ref.group, ref.kind))
    return is_owned_by_scalable(workload, inventory)


def _service_writes(behind: ServiceTargets, making: WriteContext) -> Iterator[_ServiceWrite]:
    """Yield the writes of one Service's mark: its list gets shorter after the wakes, longer before the idles."""
    if behind.up:
        yield _shortened(behind, making)
    if behind.idled:
        needs = (decision_key(Verb.UNMARK, behind.front.ref),) if behind.up else ()
        after = _record_after(behind, behind.entries, making)
        cause = cause_of(behind.idled[0], making)
        yield _ServiceWrite(Verb.MARK, Phase.DECREASE, after, cause, (0,), needs, idles=True)
    elif not behind.up and making.repairs:
        yield _repaired(behind, making)


def _shortened(behind: ServiceTargets, making: WriteContext) -> _ServiceWrite:
    up = behind.up
    released = any(ruling.action is Action.RELEASE for ruling in up)
    after = _record_after(behind, behind.asleep_already, making)
    if after is None and behind.idled and behind.front.mark is not None:
        after = replace(behind.front.mark, entries=())
    return _ServiceWrite(
        verb=Verb.UNMARK,
        phase=Phase.REPAIR if released else Phase.WAKE,
        after=after,
        cause=cause_of(up[0], making),
        order=(2,) if released else (max(tier(ruling) for ruling in up), 2),
        needs=tuple(own_decision_key(ruling) for ruling in up),
        only_list=bool(behind.idled),
    )


def _repaired(behind: ServiceTargets, making: WriteContext) -> _ServiceWrite:
    """Return what brings a mark to what it should be where nothing behind the Service is idled or gets up."""
    after = _record_after(behind, behind.entries, making)
    verb, why = _repair_words(set(behind.listed), set(after.entries) if after is not None else set())
    first = tuple(own_decision_key(ruling) for ruling in behind.rulings if ruling.standing.state is IdleState.STALE)
    mark = behind.front.mark
    policy = after.policy if after is not None else mark.policy if mark is not None else ""
    return _ServiceWrite(verb, Phase.REPAIR, after, Cause(policy, making.places.get(policy, ""), why), (2,), first)


def _repair_words(listed: set[UnidleTarget], after: set[UnidleTarget]) -> tuple[Verb, str]:
    if not after:
        return Verb.UNMARK, "nothing behind it is idle"
    if after - listed:
        return Verb.MARK, "what is behind it is idle"
    return (
        (Verb.UNMARK, "not all of what it lists is idle")
        if listed - after
        else (Verb.REPAIR, "its mark is brought up to date")
    )


def _record_after(
    behind: ServiceTargets, entries: tuple[UnidleTarget, ...], making: WriteContext
) -> ServiceRecord | None:
    """Return the mark of a Service behind which `entries` are idle, None for none."""
    mark = behind.front.mark
    if not entries:
        return None
    if mark is not None and not making.repairs:
        return replace(mark, entries=entries)
    records = [behind.asleep[entry] for entry in entries if entry in behind.asleep]
    old = set(behind.listed)
    new = {ruling.ref for ruling in behind.idled}
    longer = any(entry not in old or entry.ref(behind.front.ref) in new for entry in entries)
    dues = [record.wake_due for record in records if record.wake_due is not None]
    fleet, policy = _owner(behind, records, making)
    return ServiceRecord(
        idled_at=making.run.now if mark is None or longer else mark.idled_at,
        entries=entries,
        idled_to=max((record.idled_to for record in records), default=mark.idled_to if mark is not None else 0),
        fleet=fleet,
        policy=policy,
        wake_due=min(dues, default=None) if records or mark is None else mark.wake_due,
    )


def _owner(behind: ServiceTargets, records: Sequence[Record], making: WriteContext) -> tuple[str, str]:
    """Return (Fleet, policy) that answers for the mark: the one it names, as long as that policy has a part in it."""
    mark = behind.front.mark
    if mark is not None and not records:
        return mark.fleet, mark.policy
    names = {record.policy for record in records}
    fleet = making.fleet.name if any(record.fleet == making.fleet.name for record in records) else records[0].fleet
    if mark is not None and mark.policy in names:
        return fleet, mark.policy
    bidding = [bid.policy.name for bid in behind.front.bids if bid.policy.name in names]
    return fleet, min(bidding or names)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Turns steps into decisions on one holder of marks after the other; a later step finds what the earlier wrote."""

    front: ServiceState
    inventory: Inventory
    making: WriteContext

    def decisions(self, holder: Service | Endpoints, steps: Sequence[_ServiceWrite]) -> Iterator[Decision]:
        current: dict[str, str] = dict(holder.annotations)
        for step in steps:
            wanted = self._wanted(step, current, isinstance(holder, Service))
            changes = annotation_changes(current, wanted)
            if changes:
                tests = annotation_tests(current, _TESTED) if step.idles else ()
                yield replace(self._decision(holder, step), changes=(*changes, *tests))
            current = {key: text for key, text in {**current, **wanted}.items() if text is not None}

    def endpoint_decisions(self, steps: Sequence[_ServiceWrite], on_service: Sequence[Decision]) -> Iterator[Decision]:
        """Yield the writes on the Endpoints: they follow those on the Service, where a policy wants that."""
        endpoints = self.front.endpoints
        ours = self.front.on_endpoints is not None and self.front.on_endpoints.ours
        asked = any(bid.policy.mark_endpoints for bid in self.front.bids)
        if endpoints is None or not (ours or asked):
            return
        marked = {decision.verb: decision.key for decision in on_service}
        for decision in self.decisions(endpoints, steps):
            before = (marked[decision.verb],) if decision.verb is Verb.MARK and decision.verb in marked else ()
            needs = (self._own_key(need, endpoints, marked) for need in decision.needs)
            yield replace(decision, needs=(*needs, *before), order=(*decision.order, 1))

    @staticmethod
    def _own_key(need: str, endpoints: Endpoints, on_service: Mapping[Verb, str]) -> str:
        """Return `need`, or where that is the step before on the Service, the same step on the Endpoints."""
        return decision_key(Verb.UNMARK, endpoints.ref) if need == on_service.get(Verb.UNMARK) else need

    def _wanted(self, step: _ServiceWrite, current: Mapping[str, str], is_service: bool) -> dict[str, str | None]:
        if step.only_list:
            return {UNIDLE_TARGETS: targets_text(step.after.entries if step.after is not None else ())}
        wanted = service_record_annotations(step.after)
        if step.after is None:
            return wanted
        reading = read_service_record(current, fleet_names(self.making.fleet), self.inventory.groups)
        same = reading.mark if reading is not None and reading.ours else None
        if same is not None and same.idled_at == step.after.idled_at:
            wanted[IDLED_AT] = current.get(IDLED_AT)
        if same is not None and same.entries == step.after.entries:
            wanted[UNIDLE_TARGETS] = current.get(UNIDLE_TARGETS)
        if not is_service:
            return {key: wanted[key] for key in (IDLED_AT, UNIDLE_TARGETS, OWNER)}
        if same is not None and same == replace(step.after, cause=same.cause):
            return {}
        return {**wanted, CAUSE: cause_text(step.cause, self.making.run)}

    def _decision(self, holder: Service | Endpoints, step: _ServiceWrite) -> Decision:
        return Decision(
            key=decision_key(step.verb, holder.ref),
            job="idling",
            verb=step.verb,
            phase=step.phase,
            ref=holder.ref,
            api_version="v1",
            uid=holder.uid,
            changes=(),
            cause=step.cause,
            group=self.making.group(self.front.ref, idles=step.idles),
            order=step.order,
            needs=step.needs,
            has_annotations=holder.has_annotations,
        )


def _foreign_decisions(
    front: ServiceState, rulings: Sequence[Transition], inventory: Inventory, making: WriteContext
) -> Iterator[Decision]:
    """Yield what takes somebody else's mark off, once everything it lists is woken, runs or is gone."""
    foreign = front.foreign
    ruled = {ruling.ref: ruling for ruling in rulings}
    up = [ruling for ruling in rulings if ruling.standing.state in NOT_OURS and ruling.action is Action.WAKE]
    if foreign is None or not up:
        return
    for entry in foreign.entries:
        ruling = ruled.get(entry.ref(front.ref))
        if ruling is None and not _is_gone(entry, front, inventory):
            return
        waits = ruling is not None and ruling.action is not Action.WAKE
        if ruling is not None and waits and ruling.target.scale.stands_at(foreign.idled_to):
            return
    step = _ServiceWrite(
        verb=Verb.UNMARK,
        phase=Phase.WAKE,
        after=None,
        cause=cause_of(up[0], making),
        order=(max(tier(ruling) for ruling in up), 2),
        needs=tuple(own_decision_key(ruling) for ruling in up),
    )
    writer = _Writer(front, inventory, making)
    for holder, reading in ((front.service, front.on_service), (front.endpoints, front.on_endpoints)):
        if holder is not None and reading is not None:
            changes = annotation_changes(holder.annotations, foreign_record_cleared())
            yield replace(writer._decision(holder, step), changes=changes)
