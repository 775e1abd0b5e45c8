"""What policies say of a workload: each by its criteria, and all that select it as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from msgspec import Struct

from reconciler.decide.idling.criteria import (
    CriterionResult,
    PolicyVerdict,
    WakeWhen,
    reasons_of,
    schedules_of,
    window_end,
)
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.decide.selectors import of_highest_priority
from reconciler.policy.types import IdlingPolicy

MIN_AWAKE_BY_DEFAULT = timedelta(hours=2)  # where no policy is known


Exclusions = Mapping[str, Reason]
"""The policies that exclude something which they select otherwise, each with how."""


class Verdict(Struct, frozen=True, dict=True):  # so that what is asked often can be kept
    """What all policies say of a Service or a scalable: `won` counts, `lost` is of those that others win over.

    Without any that won, no policy selects it, or all that do exclude it. `equal_policies` are the names of policies of
    the same, highest priority that select the same object, () where no two do.
    """

    won: tuple[PolicyVerdict, ...] = ()
    lost: tuple[PolicyVerdict, ...] = ()
    without_policies: bool = False  # the policies are not known: nothing can be said of what they want
    excluded: tuple[Reason, ...] = ()  # by which policies that would select it otherwise
    equal_policies: tuple[str, ...] = ()

    @cached_property
    def policy(self) -> IdlingPolicy | None:
        """The policy that owns the records: of the highest priority, then the first by name."""
        highest = of_highest_priority([verdict.policy for verdict in self.won])
        return min(highest, key=lambda policy: policy.name, default=None)

    @cached_property
    def policies(self) -> tuple[IdlingPolicy, ...]:
        """Every policy that verdicts, once, by name."""
        found = {verdict.policy.name: verdict.policy for verdict in self.won}
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def result(self) -> CriterionResult:
        """Idle where all verdicts are, busy where any is, else unknown."""
        if self.without_policies:
            return CriterionResult.UNKNOWN
        if not self.won:
            return CriterionResult.NOT_SELECTED
        said = {verdict.result for verdict in self.won}
        if CriterionResult.BUSY in said:
            return CriterionResult.BUSY
        return CriterionResult.IDLE if said == {CriterionResult.IDLE} else CriterionResult.UNKNOWN

    @cached_property
    def deciding(self) -> tuple[PolicyVerdict, ...]:
        """The verdicts that make it say what it says."""
        return tuple(verdict for verdict in self.won if verdict.result is self.result)

    @cached_property
    def reasons(self) -> Reasons:
        if self.without_policies:
            return (reason(ReasonCode.POLICIES_UNREADABLE),)
        return reasons_of(self.deciding) or self.excluded or (reason(ReasonCode.NOT_SELECTED),)

    @cached_property
    def until(self) -> datetime | None:
        """When the first schedule that keeps it idle ends."""
        return first_end(self.won)

    @cached_property
    def wakes_on_requests_only(self) -> bool:
        """Whether policies select it, and all of them have `wake: OnSignal`."""
        return bool(self.won) and not any(verdict.wakes for verdict in self.won)

    @cached_property
    def busy(self) -> PolicyVerdict | None:
        """The first verdict of a policy that wakes automatically and calls it busy, None where none does."""
        return next((verdict for verdict in self.won if verdict.wakes and verdict.result is CriterionResult.BUSY), None)

    @cached_property
    def wake_when(self) -> PolicyVerdict | None:
        """The first verdict of a policy that wakes automatically and whose `wakeWhen` holds, None for none."""
        return next((verdict for verdict in self.won if verdict.wakes and verdict.wake_when.holds), None)

    @cached_property
    def wake_when_blocker(self) -> WakeWhen | None:
        """A `wakeWhen` that holds or is unknown, of any policy."""
        return next((verdict.wake_when for verdict in self.won if verdict.wake_when.may_hold), None)

    @cached_property
    def observing(self) -> tuple[PolicyVerdict, ...]:
        """The verdicts of policies that only observe: it is not idled while there is one."""
        return tuple(verdict for verdict in self.won if verdict.policy.mode == "Observe")

    @cached_property
    def enforcing(self) -> tuple[PolicyVerdict, ...]:
        return tuple(verdict for verdict in self.won if verdict.policy.mode == "Enforce")

    @cached_property
    def idle_replicas(self) -> int:
        return max((verdict.policy.idle_replicas for verdict in self.won), default=0)

    @cached_property
    def lowers_minimum(self) -> bool:
        """Whether only the minimum of its autoscaler is lowered: one policy says so, and none leaves it."""
        said = {policy.autoscalers.hpa for policy in self.policies}
        return "LowerMinimum" in said and "Leave" not in said

    @cached_property
    def min_age(self) -> timedelta:
        return max((verdict.policy.min_age for verdict in self.won), default=timedelta(0))

    @cached_property
    def min_awake(self) -> timedelta:
        return max((verdict.policy.min_awake for verdict in self.won), default=MIN_AWAKE_BY_DEFAULT)

    def wake_deadline(self, recorded: datetime | None = None) -> datetime | None:
        """Return when what is idle by it is due to wake, None where only a request or a metric wakes it.

        It is when the first schedule ends of a policy that wakes automatically; while schedules have no end, what is
        `recorded`.
        """
        first = first_end(verdict for verdict in self.won if verdict.wakes)
        if first is not None or self.wakes_on_requests_only:
            return first
        is_scheduled = any(True for policy in self.policies for _ in schedules_of(policy.idle_when))
        return recorded if is_scheduled else None

    def window_end(self, now: datetime) -> datetime | None:
        """Return when the last of the schedule windows open now ends."""
        ends = [window_end(policy, now) for policy in self.policies]
        return max((end for end in ends if end is not None), default=None)


def first_end(verdicts: Iterable[PolicyVerdict]) -> datetime | None:
    """Return when the first schedule ends that keeps something idle, None where none does."""
    ends = (verdict.until for verdict in verdicts)
    return min((end for end in ends if end is not None), default=None)
