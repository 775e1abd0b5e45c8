"""Choices -> what is written on a Service, and on its Endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, fleet_names
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, annotation_changes, annotation_tests
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.rules import GOES_UP, Choice, IdleAction
from reconciler.decide.idling.service_records import (
    ServiceRecord,
    foreign_record_cleared,
    read_service_record,
    service_record_annotations,
    targets_text,
)
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.workloads_behind_service import Inventory, is_owned_by_scalable
from reconciler.decide.idling.write_context import (
    WriteContext,
    cause_of,
    cause_text,
    decision_key,
    decision_on,
    own_decision_key,
)
from reconciler.decide.idling.writes_workload import goes_lower, stays_idle_as_before
from reconciler.decide.reasons import Code, ReasonCode, reason
from reconciler.model import NOTHING, Endpoints, ObjectRef, Service

_TESTED = (Key.EXCLUDE, Key.EXCLUDE_UNTIL, Key.WAKE_REQUESTED_AT)
"""What could keep a Service awake: its record is not written where one of these changed meanwhile."""

_KEPT = (IdleState.UNREADABLE, IdleState.UNPROVEN)
"""Of these a Service's list is all there is to go back by: an entry stays until the scalable is up."""


class _ServiceChoices(Struct, frozen=True, dict=True):  # so that what is asked often can be kept
    """The choices on the scalables behind one Service."""

    service: ServiceState
    choices: Sequence[Choice]
    inventory: Inventory
    context: WriteContext

    @cached_property
    def listed(self) -> Mapping[ObjectRef, int]:
        """What the record of the Service lists now."""
        return NOTHING if self.service.record is None else self.service.record.targets

    @cached_property
    def idled(self) -> list[Choice]:
        """What this run idles."""
        return [choice for choice in self.choices if choice.action is IdleAction.IDLE and choice.subject.scale.stops]

    @cached_property
    def up(self) -> list[Choice]:
        """What is listed and wakes in this run."""
        return [choice for choice in self.choices if choice.action in GOES_UP and choice.ref in self.listed]

    @cached_property
    def idle(self) -> dict[ObjectRef, Record]:
        """The record of each that stands at its idled count after this run, and is listed then."""
        adds = self.service.is_selected and self.service.ref not in self.context.running
        records = (
            (choice.ref, self.context.records[choice.ref])
            for choice in self.choices
            if choice.ref in self.listed or (adds and choice.subject.scale.stops)
        )
        return {ref: record for ref, record in records if record is not None}

    @cached_property
    def targets(self) -> dict[ObjectRef, int]:
        """What it is to list after this run, with what is listed and nothing is known of, or is set aside."""
        known = {choice.ref for choice in self.choices if choice.state not in _KEPT or choice.action in GOES_UP}
        # A target that was listed itself, before it had a ScaledObject, is woken with that.
        targets = {choice.subject.scale.runs.ref for choice in self.choices if choice.subject.scale.has_target}
        known |= targets - {choice.ref for choice in self.choices}
        kept = {ref: count for ref, count in self.listed.items() if ref not in known and not self.is_gone(ref)}
        idle = {ref: record.replicas for ref, record in self.idle.items()}
        return dict(sorted((idle | kept).items()))

    def is_gone(self, ref: ObjectRef) -> bool:
        workload = self.inventory.by_ref.get(ref)
        if workload is None:
            return self.inventory.is_listed((ref.group, ref.kind))
        return is_owned_by_scalable(workload, self.inventory)


class _ServiceWrite(Struct, frozen=True):
    """One write of a record: `decision` on the Service, without changes, that leaves `after`.

    `only_list`: nothing but its list changes, because another step follows.
    """

    decision: Decision
    after: ServiceRecord | None
    only_list: bool = False


def service_decisions(
    service: ServiceState, choices: Sequence[Choice], inventory: Inventory, context: WriteContext
) -> tuple[Decision, ...]:
    """Return the decisions on the records of `service` and its Endpoints, given the choices of its targets."""
    behind, endpoints = _ServiceChoices(service, choices, inventory, context), service.endpoints
    if service.record is None and service.is_foreign:
        return tuple(_foreign_decisions(behind))
    if service.problem:
        return ()
    steps = tuple(_service_writes(behind))
    on_service = tuple(_on_holder(service.service, steps, behind))
    ours = service.on_endpoints is not None and service.on_endpoints.ours
    asked = any(verdict.policy.mark_endpoints for verdict in service.verdict.won)
    if endpoints is None or not (ours or asked):
        return on_service
    return (*on_service, *_following(on_service, _on_holder(endpoints, steps, behind), endpoints))


def _service_writes(behind: _ServiceChoices) -> Iterator[_ServiceWrite]:
    """Yield the writes of one Service's record: its list gets shorter after the wakes, longer before the idles."""
    if behind.up:
        new = {choice.ref for choice in behind.idled}
        already = {ref: count for ref, count in behind.targets.items() if ref not in new}
        yield _ServiceWrite(_cleared(behind, behind.up), _record_after(behind, already), only_list=bool(behind.idled))
    if behind.idled:
        needs = (decision_key(Verb.CLEAR, behind.service.ref),) if behind.up else ()
        service, group = behind.service.service, behind.context.group(behind.service.ref, idles=True)
        decision = decision_on(service, Verb.RECORD, cause_of(behind.idled[0], behind.context))
        decision = replace(decision, phase=Phase.DECREASE, group=group, order=(0,), needs=needs)
        yield _ServiceWrite(decision, _record_after(behind, behind.targets))
    elif not behind.up and behind.context.repairs:
        yield _repaired(behind)


def _cleared(behind: _ServiceChoices, up: Sequence[Choice]) -> Decision:
    """Return that a record gets shorter, or goes, once `up` are woken or released; without its changes."""
    wakes = all(choice.action is IdleAction.WAKE for choice in up)
    return replace(
        decision_on(behind.service.service, Verb.CLEAR, cause_of(up[0], behind.context)),
        phase=Phase.WAKE if wakes else Phase.REPAIR,
        group=behind.context.group(behind.service.ref),
        order=(max(map(tier, up)), 2) if wakes else (2,),
        needs=tuple(map(own_decision_key, up)),
    )


def _repaired(behind: _ServiceChoices) -> _ServiceWrite:
    """Return the repair of a Service's record in a run that neither idles nor wakes its targets."""
    context, after = behind.context, _record_after(behind, behind.targets)
    verb, code = _repair(set(behind.listed.items()), set() if after is None else set(after.targets.items()))
    first = tuple(
        own_decision_key(choice)
        for choice in behind.choices
        if choice.state is IdleState.RECORD_STALE or choice.keeps_request
    )
    record = after or behind.service.record
    policy = "" if record is None else record.policy
    cause, group = Cause(policy, context.place(policy), (reason(code),)), context.group(behind.service.ref)
    decision = replace(decision_on(behind.service.service, verb, cause), group=group, order=(2,), needs=first)
    # What is idle already goes down to a lower idled count: what holds that back holds this back too.
    if verb is Verb.RECORD and any(
        goes_lower(one, behind.idle[one.ref]) for one in behind.choices if one.ref in behind.idle
    ):
        decision = replace(decision, phase=Phase.DECREASE, order=(2,) if first else (0,))
    return _ServiceWrite(decision, after)


def _repair(listed: set[tuple[ObjectRef, int]], after: set[tuple[ObjectRef, int]]) -> tuple[Verb, Code]:
    if not after:
        return Verb.CLEAR, ReasonCode.SERVICE_NOT_IDLE
    if after - listed:
        return Verb.RECORD, ReasonCode.SERVICE_IDLE
    if listed - after:
        return Verb.CLEAR, ReasonCode.SERVICE_PARTLY_AWAKE
    return Verb.REPAIR, ReasonCode.RECORD_UPDATED


def _record_after(behind: _ServiceChoices, targets: Mapping[ObjectRef, int]) -> ServiceRecord | None:
    """Return the record of a Service behind which `targets` are idle, None for none.

    The policy that it names answers for it as long as that has a part in it.
    """
    context, before = behind.context, behind.service.record
    if not targets:
        return None
    if before is not None and not context.repairs:
        return replace(before, targets=targets)
    records = [behind.idle[ref] for ref in targets if ref in behind.idle]
    down = context.down_at.get(behind.service.ref, 0)
    if before is not None and not records:
        return replace(before, targets=targets, idled_to=max(before.idled_to, down))
    new = {choice.ref for choice in behind.idled}
    longer = any(ref in new or behind.listed.get(ref) != count for ref, count in targets.items())
    dues = [record.wake_due for record in records if record.wake_due is not None]
    owners = {record.policy for record in records}
    if before is None or before.policy not in owners:
        policy = min(owners & behind.service.verdict.names or owners)
    else:
        policy = before.policy
    return ServiceRecord(
        idled_at=context.run.now if before is None or longer else before.idled_at,
        targets=targets,
        idled_to=max(down, *(record.idled_to for record in records)),
        fleet=context.fleet.name,
        policy=policy,
        wake_due=min(dues, default=None),
    )


def _on_holder(
    holder: Service | Endpoints, steps: Sequence[_ServiceWrite], behind: _ServiceChoices
) -> Iterator[Decision]:
    """Yield the decisions on one holder of records, one after the other: a later step finds what the earlier wrote."""
    prefixed = any(verdict.policy.mark_prefix == "openshift" for verdict in behind.service.verdict.won)
    current: dict[str, str] = dict(holder.annotations)
    for step in steps:
        wanted = _wanted(step, current, isinstance(holder, Service), behind)
        wanted |= _as_oc_idle_writes(current, wanted, asked=prefixed)
        changes = annotation_changes(current, wanted)
        if changes:
            tests = annotation_tests(current, _TESTED) if step.decision.phase is Phase.DECREASE else ()
            yield _on(holder, step.decision, (*changes, *tests))
        if step.only_list:
            current = {key: text for key, text in {**current, **wanted}.items() if text is not None}


_OF_OC_IDLE = {Key.IDLED_AT: Key.OPENSHIFT_IDLED_AT, Key.UNIDLE_TARGETS: Key.OPENSHIFT_UNIDLE_TARGETS}


def _as_oc_idle_writes(
    current: Mapping[str, str], wanted: Mapping[str, str | None], *, asked: bool
) -> dict[str, str | None]:
    """Return what `wanted` leaves as `oc idle` writes it, where that is `asked` for, or is there until the wake.

    Source: openshift/oc pkg/cli/idle/idle.go; the values have the same form.
    """
    if not asked and current.keys().isdisjoint(_OF_OC_IDLE.values()):
        return {}
    after = {**current, **wanted}
    return {theirs: after.get(ours) for ours, theirs in _OF_OC_IDLE.items()}


def _following(
    on_service: Sequence[Decision], decisions: Iterable[Decision], endpoints: Endpoints
) -> Iterator[Decision]:
    """Yield `decisions`, which are on the Endpoints, after those on the Service.

    Where a need is the step before on the Service, it is the same step on the Endpoints here.
    """
    marked = {decision.verb: decision.key for decision in on_service}
    cleared, own = marked.get(Verb.CLEAR), decision_key(Verb.CLEAR, endpoints.ref)
    for decision in decisions:
        before = (marked[decision.verb],) if decision.verb is Verb.RECORD and decision.verb in marked else ()
        needs = (own if need == cleared else need for need in decision.needs)
        yield replace(decision, needs=(*needs, *before), order=(*decision.order, 1))


def _wanted(
    step: _ServiceWrite, current: Mapping[str, str], is_service: bool, behind: _ServiceChoices
) -> dict[str, str | None]:
    if step.only_list:
        return {Key.UNIDLE_TARGETS: targets_text(NOTHING if step.after is None else step.after.targets)}
    wanted = service_record_annotations(step.after)
    if step.after is None:
        return wanted
    reading = read_service_record(
        step.decision.ref, current, fleet_names(behind.context.fleet), behind.inventory.groups
    )
    same = reading.record if reading is not None and reading.ours else None
    if same is not None and same.idled_at == step.after.idled_at:
        wanted[Key.IDLED_AT] = current.get(Key.IDLED_AT)
    if same is not None and same.targets == step.after.targets:
        wanted[Key.UNIDLE_TARGETS] = current.get(Key.UNIDLE_TARGETS)
    if not is_service:
        return {key: wanted[key] for key in (Key.IDLED_AT, Key.UNIDLE_TARGETS, Key.OWNER)}
    if same is not None and same == replace(step.after, cause=same.cause):
        return {}
    if stays_idle_as_before(step.decision.cause, current):
        return wanted
    return {**wanted, Key.CAUSE: cause_text(step.decision.cause, behind.context.run)}


def _on(holder: Service | Endpoints, decision: Decision, changes: tuple[FieldChange, ...]) -> Decision:
    """Return `decision`, which is one on a Service, with `changes` of `holder`: that Service, or its Endpoints."""
    key, annotated = decision_key(decision.verb, holder.ref), holder.has_annotations
    return replace(decision, key=key, ref=holder.ref, uid=holder.uid, has_annotations=annotated, changes=changes)


def _foreign_decisions(behind: _ServiceChoices) -> Iterator[Decision]:
    """Yield what takes somebody else's records off, each once everything it lists is woken, runs or is gone."""
    service = behind.service
    up = [choice for choice in behind.choices if choice.state in NOT_OURS and choice.action is IdleAction.WAKE]
    if not up:
        return
    ruled = {choice.ref: choice for choice in behind.choices}

    def stays(ref: ObjectRef, idled_to: int) -> bool:
        choice = ruled.get(ref)
        if choice is None:
            return not behind.is_gone(ref)
        return choice.action is not IdleAction.WAKE and choice.subject.scale.is_at_or_below(idled_to)

    decision = _cleared(behind, up)
    for holder, reading in ((service.service, service.on_service), (service.endpoints, service.on_endpoints)):
        mark = None if reading is None else reading.record
        if holder is None or mark is None or any(stays(ref, mark.idled_to) for ref in mark.targets):
            continue
        changes = annotation_changes(holder.annotations, foreign_record_cleared())
        yield _on(holder, decision, changes)
