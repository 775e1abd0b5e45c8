"""What the policies want of one scalable: each policy's bid, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reconciler.decide.idling.criteria import Says, Verdict, window_end
from reconciler.decide.selectors import of_highest_priority
from reconciler.model import NOTHING, ObjectRef
from reconciler.policy.types import IdlingPolicy

UNDONE_HOLDS = timedelta(hours=2)  # minAwake by default, where no policy is known


@dataclass(frozen=True, slots=True)
class Bid:
    """What `policy` says of `subject`, a Service or a scalable that it selects.

    `wake_when` is BUSY where it holds and IDLE where it does not. `rivals` are the names of all policies of the same,
    highest priority, () where there is just this one.
    """

    policy: IdlingPolicy
    subject: ObjectRef
    verdict: Verdict
    wake_when: Verdict
    rivals: tuple[str, ...] = ()

    @property
    def wakes(self) -> bool:
        """Whether what it says wakes: not with `wake: OnSignal`."""
        return self.policy.wake == "Automatic"


def winning(selecting: Sequence[IdlingPolicy]) -> tuple[IdlingPolicy, ...]:
    """Return those of the policies that select one object which decide there: several only with equal priority.

    One that only observes decides nothing, so it never stands in the way of one that enforces.
    """
    enforcing = [policy for policy in selecting if policy.mode == "Enforce"]
    return tuple(sorted(of_highest_priority(enforcing or selecting), key=lambda policy: policy.name))


@dataclass(frozen=True, slots=True)
class Want:
    """All bids for one scalable. Without any, nobody wants it idle."""

    bids: tuple[Bid, ...] = ()
    blind: bool = False  # the policies are not known: nothing can be said of what they want

    @property
    def policy(self) -> IdlingPolicy | None:
        """The policy that owns the marks: of the highest priority, then the first by name."""
        return min((bid.policy for bid in self.bids), key=lambda policy: (-policy.priority, policy.name), default=None)

    @property
    def policies(self) -> tuple[IdlingPolicy, ...]:
        """Every policy that bids, once, by name."""
        found = {bid.policy.name: bid.policy for bid in self.bids}
        return tuple(found[name] for name in sorted(found))

    @property
    def says(self) -> Says:
        """Idle where all bids are, busy where any is, else unknown."""
        if self.blind:
            return Says.UNKNOWN
        if not self.bids:
            return Says.NOBODY
        said = {bid.verdict.says for bid in self.bids}
        if Says.BUSY in said:
            return Says.BUSY
        return Says.IDLE if said == {Says.IDLE} else Says.UNKNOWN

    @property
    def deciding(self) -> tuple[Verdict, ...]:
        """The verdicts that make it say what it says."""
        return tuple(bid.verdict for bid in self.bids if bid.verdict.says is self.says)

    @property
    def words(self) -> str:
        if self.blind:
            return "the policies cannot be read"
        return ", ".join(dict.fromkeys(verdict.words for verdict in self.deciding)) or "no policy selects it"

    @property
    def flip(self) -> str:
        return " and ".join(dict.fromkeys(verdict.flip for verdict in self.deciding if verdict.flip))

    @property
    def values(self) -> Mapping[str, Any]:
        joined = {key: value for verdict in self.deciding for key, value in verdict.values.items()}
        return joined or NOTHING

    @property
    def until(self) -> datetime | None:
        """When the first schedule that keeps it idle ends."""
        return min((bid.verdict.until for bid in self.bids if bid.verdict.until is not None), default=None)

    @property
    def busy(self) -> Bid | None:
        """The first bid of a policy that wakes by itself and calls it busy, None where none does."""
        return next((bid for bid in self.bids if bid.wakes and bid.verdict.says is Says.BUSY), None)

    @property
    def wake_when(self) -> Bid | None:
        """The first bid of a policy that wakes by itself and whose `wakeWhen` holds, None for none."""
        return next((bid for bid in self.bids if bid.wakes and bid.wake_when.says is Says.BUSY), None)

    @property
    def unquiet(self) -> Verdict | None:
        """A `wakeWhen` that holds or is unknown, of any policy."""
        return next((bid.wake_when for bid in self.bids if bid.wake_when.says is not Says.IDLE), None)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The policies of equal priority that select the same object, () where no two do."""
        return next((bid.rivals for bid in self.bids if bid.rivals), ())

    @property
    def observing(self) -> tuple[Bid, ...]:
        """The bids of policies that only observe: it is not idled while there is one."""
        return tuple(bid for bid in self.bids if bid.policy.mode == "Observe")

    @property
    def enforcing(self) -> tuple[Bid, ...]:
        return tuple(bid for bid in self.bids if bid.policy.mode == "Enforce")

    @property
    def idle_replicas(self) -> int:
        return max((bid.policy.idle_replicas for bid in self.bids), default=0)

    @property
    def min_age(self) -> timedelta:
        return max((bid.policy.min_age for bid in self.bids), default=timedelta(0))

    @property
    def min_awake(self) -> timedelta:
        return max((bid.policy.min_awake for bid in self.bids), default=UNDONE_HOLDS)

    @property
    def leaves_autoscalers(self) -> frozenset[str]:
        """Which kinds of autoscaler some policy leaves alone: "hpa", "keda"."""
        hpa = {"hpa" for bid in self.bids if bid.policy.hpa == "Leave"}
        return frozenset(hpa | {"keda" for bid in self.bids if bid.policy.keda == "Leave"})

    def window_end(self, now: datetime) -> datetime | None:
        """Return when the last of the schedule windows open now ends."""
        ends = [window_end(policy, now) for policy in self.policies]
        return max((end for end in ends if end is not None), default=None)
