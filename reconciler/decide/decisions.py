"""What decisions consist of. A decision carries its reason as a value; plan/ turns decisions into actions.

What a saved plan has of them is described field by field, here where it has just the same, else in plan/change_json.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from reconciler.decide.change_codes import ChangeIf, FindChange
from reconciler.decide.reasons import Reasons, text_of
from reconciler.decide.victim_fields import DownscaleSettings, PlanNumber, VictimForecast
from reconciler.model import NOTHING, ObjectRef, PodsQuestion
from reconciler.pod_requests import NO_REQUESTS, PodRequests
from reconciler.policy.types import Writes

Job = Literal["idling", "placement", "downscale"]
KIND_OF_JOB: Mapping[str, str] = {
    "idling": "IdlingPolicy",
    "placement": "FederatedReplicaSet",
    "downscale": "DownscalePolicy",
}
"""The kind of policy by job."""


ANNOTATIONS: tuple[str, ...] = ("metadata", "annotations")
"""Where annotations stand in an object."""


def policy_title(job: str, name: str) -> str:
    """Return the policy `name` of `job` as people read it, with its kind."""
    return f"{KIND_OF_JOB[job]} {name}"


class Verb(StrEnum):
    """What a decision does to its object, in one word for people."""

    IDLE = "idle"  # a scalable goes to its idleReplicas, with its record
    WAKE = "wake"  # a scalable gets its record back
    RECORD = "record"  # a Service (or Endpoints) lists what is idle behind it
    CLEAR = "clear"  # a record goes from a Service (or Endpoints), or from an autoscaler
    SCALE = "scale"  # replicas of a scalable, up or down
    CREATE = "create"
    OVERWRITE = "overwrite"  # the template of a local ReplicaSet is replaced
    DELETE = "delete"
    REPAIR = "repair"  # our annotations are repaired, replicas stay as they are (or a half step is finished)
    RELEASE = "release"  # our annotations go, the object stays as it is
    REMEMBER = "remember"  # memory and status, ours alone


class Phase(IntEnum):
    """The order of a plan."""

    WAKE = 0
    REPAIR = 1
    INCREASE = 2
    MOVE = 3
    ANNOTATE = 4  # Services are recorded as idle, where an activator is to accept their connections before a decrease
    DECREASE = 5
    RECORD = 6


class FieldChange(Struct, frozen=True, gc=False):
    """One field of an object. `path` is its keys from the top, ("metadata", "annotations", "reconciler/owner"); None
    is absent.

    `before` is tested before anything is written. `before == after` only tests.
    """

    path: tuple[str, ...]
    before: Any
    after: Any


def replicas_change(before: int | None, after: int, path: tuple[str, ...] = ("spec", "replicas")) -> FieldChange:
    """Return the change of an object's replicas; `before` None: the field is absent."""
    return FieldChange(path, before, after)


def annotation_changes(current: Mapping[str, str], wanted: Mapping[str, str | None]) -> tuple[FieldChange, ...]:
    """Return the changes that turn `current` into `wanted`, sorted by key; None takes one off; equal ones are left
    out.
    """
    changed = [(key, before, after) for key, after in wanted.items() if (before := current.get(key)) != after]
    return _changes_of_annotations(tuple(sorted(changed)))


@lru_cache(128)  # most that goes idle at once gets the same record, and a plan keeps them all
def _changes_of_annotations(changed: tuple[tuple[str, str | None, str | None], ...]) -> tuple[FieldChange, ...]:
    return tuple([FieldChange(_annotation_path(key), before, after) for key, before, after in changed])


def annotation_tests(current: Mapping[str, str], keys: tuple[str, ...]) -> tuple[FieldChange, ...]:
    """Return changes that only test that the annotations `keys` are still what `current` says."""
    if current.keys().isdisjoint(keys):
        return _absence_tests(keys)
    found = ((key, current.get(key)) for key in sorted(keys))
    return tuple(FieldChange(_annotation_path(key), value, value) for key, value in found)


@lru_cache(128)  # the same few are on all that is idled, and a plan keeps them all
def _annotation_path(key: str) -> tuple[str, ...]:
    return (*ANNOTATIONS, key)


@lru_cache(16)  # most objects have none of the few annotations that are tested
def _absence_tests(keys: tuple[str, ...]) -> tuple[FieldChange, ...]:
    return tuple(FieldChange(_annotation_path(key), None, None) for key in sorted(keys))


class _Reasoned:
    """Something that has reasons: `why` is their text, `reason_code` the code of the first, "" without any."""

    __slots__ = ()
    reasons: Reasons

    @property
    def why(self) -> str:
        return text_of(self.reasons)

    @property
    def reason_code(self) -> str:
        return self.reasons[0].code if self.reasons else ""


class Cause(_Reasoned, Struct, frozen=True):
    """Why. `policy` is the policy's name ("" for none), `at` its file:line, `values` what decided.

    `tenant` is whose the policy is that decides, "" for the platform's or none. No annotation ever says it.
    """

    policy: str
    at: str
    reasons: Reasons
    values: Mapping[str, Any] = NOTHING
    tenant: str = ""


def group_name(job: Job, ref: ObjectRef) -> str:
    """Return the name of a group of decisions of `job` that `ref` gives its name to."""
    return f"{job}/{ref}"


class Decision(Struct, frozen=True):
    """One change of one object.

    `key` is unique in a run; `needs` are keys of decisions that must be applied first. `group` stands or falls together
    in filters and limits ("idling/east/dev-a/Service/api", "placement/shop/web"). `order`
    sorts inside a phase and group. `uid` None: the object does not exist yet (CREATE, with `manifest`). For a
    scalable's change of replicas `replicas_before` and `replicas_after` are the numbers of replicas meant (absent
    counts as 1), None where replicas are not touched. `requests` are those of one pod of a workload that idling scales.
    """

    key: str
    job: Job
    verb: Verb
    phase: Phase
    ref: ObjectRef
    api_version: str
    uid: str | None
    changes: tuple[FieldChange, ...]
    cause: Cause
    group: str
    order: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
    manifest: Mapping[str, Any] | None = None
    orphan: bool = False  # DELETE: leave the pods running
    replicas_before: int | None = None
    replicas_after: int | None = None
    victims: VictimForecast | None = None
    downscale: DownscaleSettings | None = None
    wake_tier: str = ""  # the tier of a wake that others wait for, "" where none do
    wait_ready: str = ""  # the wake tier whose objects should be ready first, 10 minutes at most; "" for none
    wait_activator: bool = False  # an activator should accept the Services' connections first; for 15 s at most
    event: str = ""  # reason of the Event about it ("Idled", "Woken", ...), "" for none
    idles: bool = False  # idles a workload
    known: bool = False  # it was idled on the same hours before, so that no limit counts it
    has_annotations: bool = True  # False: the object has no annotations map yet
    has_labels: bool = True
    requests: PodRequests = NO_REQUESTS

    @property
    def policy(self) -> str:
        """The name of the policy as people see it: namespace/name for a FederatedReplicaSet, "" for no policy."""
        if self.job != "placement" or not self.cause.policy:
            return self.cause.policy
        kind, _, key = self.group.partition("/")
        return key if kind == "placement" else self.cause.policy

    @property
    def writes(self) -> Writes:
        """What its cluster must allow: wakes, repairs of what is idle, and records go on while it is frozen."""
        wakes = self.phase in (Phase.WAKE, Phase.RECORD) or (self.job == "idling" and self.phase is Phase.REPAIR)
        return Writes.WAKES if wakes else Writes.EVERYTHING

    @property
    def removed(self) -> int:
        """How many replicas this takes away; 0 for anything but a decrease."""
        before, after = self.replicas_before, self.replicas_after
        return 0 if before is None or after is None or before <= after else before - after


class Undecided(_Reasoned, Struct, frozen=True):
    """An object or cluster that nothing is decided for."""

    subject: str
    job: Job
    policy: str
    reasons: Reasons


class Overridden(_Reasoned, Struct, frozen=True):
    """A policy that was overridden: `policy` wanted `desired` for `ref`, but `winner` decides there."""

    ref: ObjectRef
    job: Job
    policy: str
    desired: str
    winner: str
    reasons: Reasons


if TYPE_CHECKING:
    NoticeKind = Literal[
        "aboveShare",  # production that a policy leaves out, and that keeps more than its share
        "activator",
        "autoscaler",
        "clusterLeft",
        "conflict",
        "contested",
        "customKind",
        "drainKeeps",
        "equalPriorities",
        "excludedUnreadable",
        "exclusion",
        "fieldManager",
        "foreignOverdue",
        "foreignRecord",  # somebody else idled it, or placed it; the latter has reasons
        "frozen",
        "heldTogether",
        "lostVolumes",
        "missedRun",
        "noSignal",
        "notAdopted",
        "notAvailable",
        "notHeld",  # no activator could hold its connections, wherever one lives
        "notServed",
        "notUninstalled",
        "nothingBehind",
        "otherWriter",
        "overdueWake",
        "perRun",
        "picker",
        "placedAgain",
        "setAside",
        "tenantStopped",  # the run ends with exit 3
        "unknownQuery",
        "unproven",
        "unreadableSignal",
        "victimOrder",
        "wokenOnly",
        "wouldBeHeldBack",  # of a policy with `mode: Observe`
    ]
else:
    NoticeKind = str  # a saved plan may have one of another version


class Notice(_Reasoned, Struct, frozen=True):
    """A message for people."""

    kind: NoticeKind
    subject: str
    text: str  # it has that of `reasons`
    policy: str = ""
    partial: bool = False
    reasons: Reasons = ()

    @property
    def words(self) -> str:
        """The message without the subject, or its cluster, in front."""
        cluster = self.subject.partition("/")[0]
        return self.text.removeprefix(self.subject).removeprefix(f"{cluster}: ").lstrip(": ")


class LimitUse(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A limit, and how much of it the plan uses."""

    name: str
    """The policy that states the limit, "fleet default" or "tenant NAME"."""
    unit: str
    """What is counted: "workloads" or "replicas"."""
    used: PlanNumber
    """The number of this run and of the last 24 hours, held back or not."""
    allowed: PlanNumber
    """The number that is allowed."""
    base: PlanNumber
    """The base of the share: workloads, or running replicas; 0: no share."""
    cluster: str
    """The cluster that the limit applies to; "": all clusters."""
    policy: str
    """The policy that it holds back; "": none."""


class HeldBack(Struct, frozen=True):
    """What limits, or a guard (no `limits`), keep out of the plan: all of one policy.

    `policy` is the name that --allow-exceed takes, "" for the guard, which --allow-removed lifts. `why` also says what
    would let it through.
    """

    policy: str
    why: str
    decisions: tuple[Decision, ...]
    limits: tuple[LimitUse, ...] = ()


Ending = tuple[str, datetime | None]
"""What ends last of all that keeps a workload from being idled, and when; None for what is not idled by then either:
its criteria say something else at that time.
"""


class PolicyExplanation(_Reasoned, Struct, frozen=True, gc=False):
    """For `explain`: what one job thinks of one object, also when nothing changes.

    `outcome` is the state it ends in ("stays awake", "6 replicas"), `change` the smallest change that would alter it,
    None where none is known. `idled` is the object with the record and the policy of it, where it stands at its
    idled count because of us before this run; None otherwise. `asleep` are the replicas that it has fewer for that
    since `idled_at`; 0 for a CronJob. `requests` are those of one of its pods. `selected`: `policy` selects it; else it
    only owns the records.
    """

    ref: ObjectRef
    job: Job
    policy: str
    outcome: str
    reasons: Reasons
    change: ChangeIf | FindChange | None = None
    idled: tuple[ObjectRef, str] | None = None
    asleep: int = 0
    idled_at: datetime | None = None
    requests: PodRequests = NO_REQUESTS
    selected: bool = True
    written: ObjectRef | None = None  # what is changed for it, where that is another object (its ScaledObject)
    services: tuple[ObjectRef, ...] = ()  # those with records or a policy that it stands behind
    selected_by: tuple[str, ...] = ()  # the parts of the policy's selector that select it, in words
    until: Ending | None = None  # None: more than time or a rollout keeps it from being idled
    outranked: tuple[str, ...] = ()  # the policies that select it too, and do not count there

    @property
    def change_if(self) -> ChangeIf | None:
        return self.change(self.written or self.ref) if callable(self.change) else self.change


class PlacementRow(_Reasoned, Struct, frozen=True):
    """The part of a cluster in a FederatedReplicaSet."""

    cluster: str
    desired: int | None
    spec_replicas: int | None
    current: int | None
    running: int | None
    capacity: int | None = None
    overflow: int = 0
    reasons: Reasons = ()


class PlacementView(Struct, frozen=True):
    """A FederatedReplicaSet and its clusters."""

    key: str
    total: int
    rows: tuple[PlacementRow, ...]


class DesiredState(Struct, frozen=True):
    """The desired state: decisions, and the notices beside them. Every tuple is in a fixed order.

    `decisions` are what limits and guards leave, `held_back` is the rest, `limits` how much of each limit they all use.
    """

    decisions: tuple[Decision, ...] = ()
    observed: tuple[Decision, ...] = ()  # mode observe: planned and reported, never applied
    held_back: tuple[HeldBack, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    notices: tuple[Notice, ...] = ()
    explanations: tuple[PolicyExplanation, ...] = ()
    placements: tuple[PlacementView, ...] = ()
    questions: tuple[PodsQuestion, ...] = ()  # what must be answered before this is final

    @property
    def wanted(self) -> tuple[Decision, ...]:
        """The decisions with what limits hold back of them; what a guard holds back is none of it."""
        held = (held.decisions for held in self.held_back if held.limits)
        return (*self.decisions, *chain.from_iterable(held))

    def joined(self, *others: DesiredState) -> DesiredState:
        """Return this and `others` as one."""
        return DesiredState(
            **{
                field: tuple(chain.from_iterable(getattr(part, field) for part in (self, *others)))
                for field in self.__struct_fields__
            }
        )
