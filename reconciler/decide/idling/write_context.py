"""What every decision of idling is made with: its key, its cause, and what of the run it needs to know."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, compact, json_object
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, group_name
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.idle_together import groups_of
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.records import Record, record_annotations
from reconciler.decide.idling.rules import Choice, IdleAction, owner_policy, waking_policy
from reconciler.decide.idling.subjects import ServiceState, Subject, is_recorded
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.workloads_behind_service import Inventory
from reconciler.decide.reasons import MEASURED, Reasons
from reconciler.model import NOTHING, Endpoints, HorizontalPodAutoscaler, ObjectRef, Run, Service, Workload
from reconciler.policy.types import Fleet, IdlingPolicy, Writes


class WriteContext(Struct, frozen=True, dict=True):  # so that what is made of the choices can be kept
    """`policies` are those that are known, by name. Without `repairs` only wakes and releases are made.

    `hold_until`: what is woken opts out until then. The members of each of `idle_together` go idle as one, on whatever
    clusters they are.
    """

    fleet: Fleet
    run: Run
    clusters: Sequence[IdlingCluster]
    choices: Mapping[ObjectRef, Choice]
    policies: Mapping[str, IdlingPolicy] = NOTHING
    repairs: bool = True
    hold_until: datetime | None = None
    idle_together: tuple[tuple[ObjectRef, ...], ...] = ()

    def place(self, policy: str) -> str:
        """Return the file:line of the policy of that name, "" where it is not known."""
        return str(self.policies[policy].place) if policy in self.policies else ""

    @cached_property
    def written(self) -> frozenset[str]:
        """The clusters where anything may be written."""
        return frozenset(cluster.name for cluster in self.fleet.clusters if cluster.writes is not Writes.NOTHING)

    @cached_property
    def live(self) -> list[Choice]:
        """The choices that something may have to be written for."""
        return [choice for choice in self.choices.values() if choice.ref.cluster in self.written and _is_live(choice)]

    @cached_property
    def decisions_by_inputs(self) -> dict[Hashable, Decision | None]:
        """The decisions on scalables themselves, by the `decision_inputs` of their choices."""
        return {}

    @cached_property
    def idled_annotations(self) -> dict[Hashable, tuple[FieldChange, ...]]:
        """The changes of annotations of what goes idle, by the values that they are made of: some by their id, which is
        theirs as long as `choices` and `records` keep them.
        """
        return {}

    @cached_property
    def records(self) -> dict[ObjectRef, Record | None]:
        """The record that each of them has after this run, None where it has none."""
        return {choice.ref: _record_after(choice, self) for choice in self.live}

    @cached_property
    def recorded(self) -> list[tuple[ServiceState, Inventory]]:
        """The Services whose records may be written."""
        clusters = [cluster for cluster in self.clusters if cluster.name in self.written]
        return [(service, each.inventory) for each in clusters for service in each.services if is_recorded(service)]

    @cached_property
    def running(self) -> frozenset[ObjectRef]:
        """The Services of which something stays up."""
        up = (choice for choice in self.choices.values() if choice.stays_up)
        return frozenset(service.ref for choice in up for service in choice.subject.behind)

    @cached_property
    def down_at(self) -> dict[ObjectRef, int]:
        """The most replicas behind each Service that are no idle of ours, and low enough for it to be idle."""
        found: dict[ObjectRef, int] = {}
        for choice in self.choices.values():
            if not choice.stays_up and not choice.stays_idle:
                for service in choice.subject.behind:
                    found[service.ref] = max(choice.next_replicas, found.get(service.ref, 0))
        return found

    @cached_property
    def _groups(self) -> tuple[dict[ObjectRef, str], dict[ObjectRef, str]]:
        return groups_of(self.live, self.idle_together)

    def group(self, ref: ObjectRef, *, idles: bool = False) -> str:
        """Return the group of what is done with `ref`; a federated ReplicaSet is idled as one on all clusters."""
        return self._groups[idles].get(ref) or group_name("idling", ref)


def _is_live(choice: Choice) -> bool:
    """Return whether anything may have to be written for it: what just runs, without a record, costs no more work."""
    subject, held = choice.subject, choice.subject.autoscaler
    is_recorded_on = any(service.has_record for service in subject.services) or subject.on_target is not None
    return choice.action is not IdleAction.LEAVE or is_recorded_on or (held is not None and held.previous is not None)


def decision_key(verb: Verb, ref: ObjectRef, part: str = "") -> str:
    """Return the key of the decision that does `verb` to `ref`."""
    group = f"{ref.group}/" if ref.group else ""
    return f"idling/{verb}/{group}{ref}{part}"


def cause_of(choice: Choice, context: WriteContext, reasons: Reasons = ()) -> Cause:
    """Return why something is done with a scalable; `reasons` in place of those of the choice."""
    policy, record = waking_policy(choice) or owner_policy(choice), choice.record
    at, deciding, reasons = context.place(policy), choice.subject.verdict.policy, reasons or choice.reasons
    if policy and not at and record is not None and record.policy == policy:
        at = _recorded_place(record.cause)
    values = dict(chain.from_iterable(why.values.items() for why in reasons if why.code in MEASURED)) or NOTHING
    return Cause(policy, at, reasons, values, "" if deciding is None else deciding.tenant)


def _recorded_place(cause: str) -> str:
    """Return the file:line of a policy that is gone, from the cause in its record."""
    at = json_object(cause).get("at")
    return at if isinstance(at, str) else ""


def cause_text(cause: Cause, run: Run) -> str:
    """Return the cause as the annotation holds it."""
    return _cause_text(cause.policy, cause.at, run.revision, run.id, cause.why)


@lru_cache(128)  # most that goes idle at once does for the same reason
def _cause_text(policy: str, at: str, revision: str, run: str, why: str) -> str:
    return compact({"policy": policy, "at": at, "revision": revision, "run": run, "why": why})


def own_decision_key(choice: Choice) -> str:
    """Return the key of the decision on the scalable of `choice` itself."""
    return decision_key(choice.action.verb, choice.ref)


def decision_on(
    written: Workload | HorizontalPodAutoscaler | Service | Endpoints,
    verb: Verb,
    cause: Cause,
    changes: tuple[FieldChange, ...] = (),
) -> Decision:
    """Return the decision of idling that does `verb` to `written`, as a repair in a group of its own."""
    return Decision(
        key=decision_key(verb, written.ref),
        job="idling",
        verb=verb,
        phase=Phase.REPAIR,
        ref=written.ref,
        api_version=getattr(written, "api_version", "v1"),
        uid=written.uid,
        changes=changes,
        cause=cause,
        group=group_name("idling", written.ref),
        has_annotations=written.has_annotations,
        has_labels=getattr(written, "has_labels", True),
    )


def placed(
    decision: Decision, choice: Choice, context: WriteContext, *step: int, own: Decision | None = None
) -> Decision:
    """Return `decision` in the phase and the group of a scalable, at a `step` of all that is written for it.

    `own` is the decision on the scalable itself, which is step 1: what comes later needs that.
    """
    wakes, idles = choice.action is IdleAction.WAKE, choice.action is IdleAction.IDLE
    return replace(
        decision,
        phase=choice.action.phase if own is None else own.phase,
        order=(tier(choice), *step) if wakes else step,
        group=context.group(choice.ref, idles=idles),
        needs=(own.key,) if own is not None and step > (1,) else (),
    )


def annotations_of(record: Record, on: Workload, cause: Cause, run: Run) -> dict[str, str | None]:
    """Return all annotations of `on` that say `record`, and why."""
    said = record_annotations(record, on.annotations, on.kind, on.ref.kind)
    said[Key.CAUSE] = cause_text(cause, run)
    return said


def _record_after(choice: Choice, context: WriteContext) -> Record | None:
    """Return the record a scalable has after this run, None where it has none."""
    if choice.action is IdleAction.IDLE:
        return _new_record(choice, context)
    record = choice.record
    if record is None or not choice.stays_idle:
        return None
    if choice.action is IdleAction.HOLD_BACK:
        since = record.orphaned_since or (context.run.now if record.wake_due is None else None)
        return replace(record, orphaned_since=since)
    return _kept_record(record, choice.subject, context) if choice.action is IdleAction.KEEP else record


def _new_record(choice: Choice, context: WriteContext) -> Record:
    verdict, switch = choice.subject.verdict, choice.subject.scale.written.switch
    found = _record(
        context.run.now,
        choice.subject.scale.replicas,
        choice.subject.idle_replicas,
        context.fleet.name,
        verdict.policy.name if verdict.policy is not None else "",
        verdict.wake_deadline(),
    )
    if switch is None:
        return found
    return replace(found, value=switch.value, has_map=switch.has_map or not switch.kind.in_map)


_record = lru_cache(128)(Record)  # most that goes idle at once gets the same one


def _kept_record(record: Record, subject: Subject, context: WriteContext) -> Record:
    """Return the record of what stays idle: while all say idle it passes to a policy that wants it, and follows it.

    On a frozen cluster its idled count stays. Production that its policies leave out keeps the record it has.
    """
    verdict = subject.verdict
    if verdict.result is not CriterionResult.IDLE or verdict.policy is None or subject.left_out_by:
        kept = None if verdict.wakes_on_requests_only else record.wake_due
        return replace(record, orphaned_since=None, wake_due=kept)
    is_restricted = restriction(subject.cluster, subject.ref.namespace) is not None
    decided = not (verdict.is_observed or verdict.equal_policies or is_restricted or subject.lacks_zero)
    if subject.scale.hpa is not None or subject.autoscaler is not None:  # in another way it is idled once it was woken
        decided &= verdict.lowers_minimum is subject.scale.lowers_minimum
    return replace(
        record,
        idled_to=subject.idle_replicas if decided else record.idled_to,
        fleet=context.fleet.name,
        policy=record.policy if record.policy in verdict.names else verdict.policy.name,
        wake_due=verdict.wake_deadline(record.wake_due),
        orphaned_since=None,
    )
