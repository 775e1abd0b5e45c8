"""The conditions that the rules name: what holds of one scalable besides its state and the verdict of its policies.

What meets them is in `wake_conditions.py` and `keep_up_conditions.py`; what neighbours say in `idle_groups.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.subjects import Subject
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.model import ObjectRef
from reconciler.policy.types import IdlingPolicy


class Condition(StrEnum):
    REQUESTED = auto()  # somebody asked for it since it was idled
    EXCLUDED = auto()  # it, its Service, its namespace or its cluster opts out, or it is contested
    DUE = auto()  # its wake-due has passed
    PRODUCTION_DUE = auto()  # its wake-due has passed, and it is production that its policies leave out
    BUSY = auto()  # a policy that wakes automatically calls it busy
    WAKE_WHEN = auto()  # a wakeWhen of a policy that wakes automatically holds
    FLOOR = auto()  # the floor is at or above what it had
    GUARDED = auto()  # its policy was removed, and so are too many others
    PROTECTED = auto()  # its namespace is one that the Fleet protects
    BOUNDS = auto()  # another Fleet than the one that idled it holds its autoscaler at a floor
    INSISTS = auto()  # its policy idles again what another tool scales up
    READ_ONLY = auto()  # nothing may be written on its cluster

    # what keeps it up
    PRODUCTION = auto()  # it is production, and one of its policies does not say production: true
    RESTRICTED = auto()  # its cluster or its namespace is frozen, or not all may be written there
    EQUAL_PRIORITIES = auto()
    UNREADABLE = auto()  # something that idling it would need could not be read, or is somebody else's
    CUSTOM_KIND = auto()  # no policy names its kind, and nobody else knows what its scale means
    ITSELF = auto()  # it is the reconciler
    AUTOSCALED = auto()  # an autoscaler has the say
    AT_IDLE_REPLICAS = auto()
    TIME_UNREADABLE = auto()  # it says since when or until when it is awake, in no way that can be read
    MIN_AWAKE = auto()
    KEPT_AWAKE = auto()
    MIN_AGE = auto()
    TERMINATING = auto()
    ROLLOUT = auto()
    MAY_WAKE = auto()  # a wakeWhen holds or is unknown, of any policy

    # what its neighbours say
    CLUSTER_UNREAD = auto()  # its federated ReplicaSet may run on a cluster that did not answer
    FEDERATED_PAUSED = auto()
    RUNS_ELSEWHERE = auto()  # its federated ReplicaSet runs on another cluster
    SERVICE_RUNS = auto()  # something else behind one of its Services stays up
    PODS_UNREAD = auto()  # the pods behind one of its Services were not read yet
    OBSERVED = auto()  # a policy that only observes has a say, here or for what goes idle with it


class MetCondition(Struct, frozen=True):
    """A condition that is met, and why. `until` it ends by itself; None: not by time.

    `neighbours` are the other scalables that it holds because of: it ends when they are decided otherwise.
    """

    name: Condition
    why: Reasons
    until: datetime | None = None
    neighbours: tuple[ObjectRef, ...] = ()


def met(name: Condition, code: ReasonCode, /, *, until: datetime | None = None, **values: Any) -> MetCondition:
    """Return that the condition is met, for one reason."""
    return MetCondition(name, (reason(code, **values),), until)


class TimedCondition(Struct, frozen=True):
    """A condition that ends by itself: when the time in the annotation `since` and what `wait` says are over.

    Without `since` it is the time when the object was created. `name` is what people know it by. `strictly`: it is met
    in the very second of that time, whatever the wait.
    """

    code: ReasonCode
    name: str
    since: str
    wait: Callable[[IdlingPolicy], timedelta]
    strictly: bool = False


TIMED_CONDITIONS = (
    TimedCondition(ReasonCode.MIN_AGE, "minAge", "", lambda policy: policy.min_age),
    TimedCondition(ReasonCode.MIN_AWAKE, "minAwake", AWAKE_SINCE, lambda policy: policy.min_awake, strictly=True),
    TimedCondition(ReasonCode.KEPT_AWAKE, AWAKE_UNTIL, AWAKE_UNTIL, lambda _policy: timedelta()),
)
"""Forecasts look at when they end, and the summary of a plan says what waits for them."""


class Circumstances:
    """What conditions are judged by: a scalable, the guards over removed policies, and the time."""

    __slots__ = ("guards", "now", "subject")

    def __init__(self, subject: Subject, guards: FleetGuards, now: datetime) -> None:
        self.subject = subject
        self.guards = guards
        self.now = now


Check = Callable[[Circumstances], MetCondition | None]
