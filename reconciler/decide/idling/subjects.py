"""One scalable and the Services that it is behind: everything that is known before anything is decided."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import compact, format_time
from reconciler.decide.autoscalers import ClusterAutoscalers, PinnedAutoscaler
from reconciler.decide.change_codes import Fact
from reconciler.decide.idling.criteria import CriterionResult, Exclusions, Verdict
from reconciler.decide.idling.records import Reading, Record, awake_since
from reconciler.decide.idling.scale import Scale
from reconciler.decide.idling.service_records import ServiceRecord, record_of
from reconciler.decide.idling.workloads_behind_service import DiscoveredTargets
from reconciler.decide.reasons import Code, Reason, ReasonCode, reason
from reconciler.decide.removal_guard import FleetGuards
from reconciler.decide.selectors import Exclusion, key_of
from reconciler.model import NOTHING, Endpoints, HorizontalPodAutoscaler, ObjectRef, Service
from reconciler.policy.types import FleetCluster


class IdleState(StrEnum):
    """What a scalable is found as. `why` is the reason of what is done with it then, but for going idle; None where
    that is a condition, or what its policies say.
    """

    why: Code | None

    def __new__(cls, name: str, why: Code | None = None) -> IdleState:
        member = str.__new__(cls, name)
        member._value_ = name
        member.why = why
        return member

    AWAKE = "awake"
    DOWN = "down", ReasonCode.DOWN_WITHOUT_RECORD  # at or below idleReplicas, and nobody remembers more
    IDLE = "idle"
    SCALED_BY_HPA = "scaled_by_hpa"  # idle, and its autoscaler is not held yet
    WAKE_IN_PROGRESS = "wake_in_progress", ReasonCode.WAKE_IN_PROGRESS  # idle, its autoscaler has its bounds back
    # while it was idle somebody else changed the bounds of its autoscaler, gave another reason for its scale, scaled it
    HPA_CHANGED = "hpa_changed", ReasonCode.HPA_CHANGED
    TAKEN_OVER = "taken_over", ReasonCode.TAKEN_OVER
    MANUALLY_SCALED = "manually_scaled", ReasonCode.MANUALLY_SCALED
    # an earlier run did not finish its idle, or its wake; or it runs, and its record came back from the past
    IDLE_INCOMPLETE = "idle_incomplete", ReasonCode.IDLE_INCOMPLETE
    WAKE_INCOMPLETE = "wake_incomplete", ReasonCode.WAKE_INCOMPLETE
    RECORD_STALE = "record_stale", ReasonCode.RECORD_STALE
    CONTESTED = "contested", ReasonCode.CONTESTED
    FOREIGN = "foreign", ReasonCode.FOREIGN
    UNPROVEN = "unproven", ReasonCode.UNPROVEN  # at zero, and the list of a Service alone says that anybody idled it
    UNREADABLE = "unreadable", ReasonCode.RECORD_UNREADABLE


IDLE_BY_US = (
    IdleState.IDLE,
    IdleState.SCALED_BY_HPA,
    IdleState.WAKE_IN_PROGRESS,
    IdleState.HPA_CHANGED,
    IdleState.TAKEN_OVER,
)
LEFTOVERS = (IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.RECORD_STALE)
NOT_OURS = frozenset({IdleState.FOREIGN, IdleState.UNPROVEN})
"""What is idle by somebody's word, and not by ours."""


class WakeRequest(Struct, frozen=True, order=True):
    """Somebody asked at `at`; it counts for what was idled then or earlier."""

    at: datetime
    code: Code = ReasonCode.WAKE_REQUESTED

    @property
    def reason(self) -> Reason:
        return reason(self.code, at=self.at)


class Undo(Struct, frozen=True):
    """Somebody undid that it is idle: by which field manager, when, and the how-manieth time in a row.

    `autoscaler` is the name of the HorizontalPodAutoscaler whose bounds were put back, "" where it was the scale.
    """

    by: str
    at: datetime
    count: int
    autoscaler: str = ""

    @property
    def text(self) -> str:
        return compact({"by": self.by, "at": format_time(self.at), "count": self.count})


class ServiceState(Struct, frozen=True):
    """A Service that a policy selects, that carries records, that opts out, or with a wake request.

    `record` is ours, from the Service or else from its Endpoints; `foreign` somebody else's; `problem` says why one of
    them cannot be read.
    """

    service: Service
    found: DiscoveredTargets = DiscoveredTargets()
    verdict: Verdict = Verdict()
    on_service: Reading[ServiceRecord] | None = None
    on_endpoints: Reading[ServiceRecord] | None = None
    endpoints: Endpoints | None = None
    request: WakeRequest | None = None
    exclusion: Exclusion | None = None
    excluded: Exclusions = NOTHING  # what is behind it is excluded with it

    @property
    def ref(self) -> ObjectRef:
        return self.service.ref

    @property
    def is_selected(self) -> bool:
        """Whether some policy selects it."""
        return bool(self.verdict.won)

    @property
    def would_idle(self) -> bool:
        """Whether what may be behind it could go idle now."""
        is_free = self.exclusion is None and not self.has_record
        return is_free and self.verdict.result is CriterionResult.IDLE

    @property
    def readings(self) -> tuple[Reading[ServiceRecord], ...]:
        """What the records on it and on its Endpoints say."""
        return tuple([reading for reading in (self.on_service, self.on_endpoints) if reading is not None])

    @property
    def record(self) -> ServiceRecord | None:
        return next((reading.record for reading in self.readings if reading.ours and reading.record is not None), None)

    @property
    def foreign(self) -> ServiceRecord | None:
        return next(
            (reading.record for reading in self.readings if not reading.ours and reading.record is not None), None
        )

    @property
    def has_record(self) -> bool:
        """Whether anybody's record is on it, in a way that can be read or not."""
        return self.on_service is not None or self.on_endpoints is not None

    @property
    def problem(self) -> str:
        return next((reading.problem for reading in self.readings if reading.problem), "")

    @property
    def is_foreign(self) -> bool:
        """Whether it has a record of somebody else, in a way that can be read or not."""
        return any(not reading.ours for reading in self.readings)


class Subject(Struct, frozen=True):
    """One scalable with everything that bears on it.

    `services` are the Services it is behind or that list it; `listed_only` those of them that list it and that it is
    not behind. `autoscaler` is the one that is held, `autoscalers` all of its cluster. `unknown` says what could not be
    read that idling it would need, `protected` why it is left alone where it is not ours, None where it need not be.
    `direct` are the policies that select it themselves, not just a Service it is behind.
    `production` says what makes it production, "" for nothing. `lost` is our record where that is not on it any more.
    `on_target` is the record that a ScaledObject has on its target; with `target_is_idle` the target has one of its
    own. `record` is what it goes back to: of its own record and those of its Services the newest; None where it is not
    idled. `undo` is how somebody else changed what was idle, None where nobody did, or only gave another reason.
    Those with equal `decision_inputs` differ in their names and in `PER_WORKLOAD` conditions alone; None: not compared.
    """

    scale: Scale
    verdict: Verdict
    cluster: FleetCluster
    autoscalers: ClusterAutoscalers
    services: tuple[ServiceState, ...] = ()
    reading: Reading[Record] | None = None
    autoscaler: PinnedAutoscaler | None = None
    exclusions: tuple[Exclusion, ...] = ()
    request: WakeRequest | None = None
    unknown: str = ""
    protected: Fact | None = None
    listed_only: frozenset[ObjectRef] = frozenset()
    most_recorded: int = 0
    lost: Record | None = None
    direct: frozenset[str] = frozenset()
    production: str = ""
    on_target: Reading[Record] | None = None
    target_is_idle: bool = False
    state: IdleState = IdleState.AWAKE
    record: Record | None = None
    undo: Undo | None = None
    decision_inputs: Hashable = None

    @property
    def is_idle(self) -> bool:
        """Whether it is idle with a record of ours, until it is woken or released."""
        return self.state in IDLE_BY_US

    @property
    def is_at_idled_count(self) -> bool:
        """Whether it stands where a record says that it is idle, or below."""
        return self.record is not None and self.scale.is_at_or_below(self.record.idled_to)

    @property
    def idle_replicas(self) -> int:
        """At how many replicas it counts as idle by its policies."""
        return 0 if self.scale.keeps_at_zero else self.verdict.idle_replicas

    @property
    def is_down(self) -> bool:
        """Whether it is at or below its idle replicas; what somebody scaled to zero needs no lower minimum, and at a
        minimum of 0 its autoscaler may scale it up.
        """
        stopped = self.scale.lowers_minimum and self.scale.runs.spec_replicas == 0
        return stopped or self.scale.replicas <= self.idle_replicas

    @property
    def rivals(self) -> tuple[HorizontalPodAutoscaler, ...]:
        """The HorizontalPodAutoscalers it has beside the one that is held."""
        rivals = self.autoscalers.rivals
        return rivals.get(key_of(self.scale.runs.ref), ()) if rivals else ()

    @property
    def is_held_by_rivals(self) -> bool:
        """Whether it has several autoscalers, and more than one would scale up what is idle."""
        autoscaler, rivals = self.autoscaler, self.rivals
        if not rivals or self.scale.hpa is not None:
            return bool(rivals)
        everyone = (*rivals, *(() if autoscaler is None else (autoscaler.hpa,)))
        return self.idle_replicas > 0 or any(hpa.minimum == 0 for hpa in everyone)

    @property
    def lacks_zero(self) -> bool:
        """Whether its autoscaler takes no minimum of 0, which is what its policies want."""
        hpa = self.scale.hpa if self.scale.lowers_minimum else None
        return hpa is not None and self.idle_replicas == 0 and not hpa.may_be_zero

    @property
    def ref(self) -> ObjectRef:
        return self.scale.written.ref

    @property
    def name(self) -> str:
        """What runs, as people know it: "Deployment/web"."""
        return f"{self.scale.runs.ref.kind}/{self.scale.runs.ref.name}"

    @property
    def exclusion(self) -> Exclusion | None:
        """What excludes it, the first of several; None where nothing does."""
        return self.exclusions[0] if self.exclusions else None

    @property
    def left_out_by(self) -> tuple[str, ...]:
        """The policies that would decide it, and leave production as it is."""
        if not self.production:
            return ()
        return tuple(policy.name for policy in self.verdict.policies if not policy.production)

    @property
    def behind(self) -> tuple[ServiceState, ...]:
        """The Services that some policy selects and that it is behind."""
        if not self.services:
            return ()
        return tuple(
            service for service in self.services if service.is_selected and service.ref not in self.listed_only
        )

    @property
    def listings(self) -> tuple[tuple[ObjectRef, Record], ...]:
        """The Services that list it with our record, and what stands there of it."""
        if not self.services:
            return ()
        records = ((service.ref, service.record) for service in self.services)
        return tuple((ref, record_of(said, self.ref)) for ref, said in records if said and self.ref in said.targets)

    @property
    def pinned(self) -> PinnedAutoscaler | None:
        """How its autoscaler is held, as whoever idled it may read that.

        Where its bounds are the idled count of the record, it is held at that.
        """
        autoscaler, record = self.autoscaler, self.record
        if autoscaler is None or record is None:
            return autoscaler
        read = autoscaler.read_by(record.fleet) if self.state in NOT_OURS else autoscaler
        return replace(read, idled_to=record.idled_to) if read.is_pinned_at(record.idled_to) else read

    @property
    def awake_since(self) -> datetime | None:
        return awake_since(self.scale.written)

    @property
    def kept_by(self) -> tuple[Mapping[str, str], ...]:
        """The annotations that may keep it awake: an autoscaler is at times written in place of its workload."""
        written, runs = self.scale.written.annotations, self.scale.runs.annotations
        if self.scale.hpa is not None:
            return written, runs
        return (written,) if self.autoscaler is None else (written, self.autoscaler.hpa.annotations)


class IdlingCase:
    """A scalable at the time of a run, with the guards over policies that were removed."""

    __slots__ = ("guards", "now", "subject")

    def __init__(self, subject: Subject, guards: FleetGuards, now: datetime) -> None:
        self.subject = subject
        self.guards = guards
        self.now = now


def is_recorded(service: ServiceState) -> bool:
    """Return whether records on the Service are read or written; one that only opts out is left as it is."""
    return service.is_selected or service.has_record
