"""A plan as data: actions in a total order, and everything that is told beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from reconciler.decide.types import Considered, Decision, Notice, Overridden, PlacementView, Undecided
from reconciler.model import NOTHING, ObjectRef, QueryKey


@dataclass(frozen=True, slots=True)
class Action:
    """One write of the plan. `id` counts from 1 in the plan's order; `needs` are ids, `wait_ready` is a wake tier."""

    id: int
    decision: Decision
    needs: tuple[int, ...] = ()
    wait_ready: str = ""

    @property
    def ref(self) -> ObjectRef:
        return self.decision.ref

    @property
    def verb(self) -> str:
        return str(self.decision.verb)

    @property
    def policy(self) -> str:
        return self.decision.cause.policy

    @property
    def before(self) -> dict[str, Any]:
        """JSON pointer -> value before; None: absent."""
        return {pointer(change.path): change.before for change in self.decision.changes}

    @property
    def after(self) -> dict[str, Any]:
        """JSON pointer -> value after; None: taken off."""
        return {pointer(change.path): change.after for change in self.decision.changes}


def pointer(path: tuple[str, ...]) -> str:
    """Return the RFC 6901 JSON pointer of `path`."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


@dataclass(frozen=True, slots=True)
class HeldBackActions:
    """What a limit or a guard keeps out of the plan; `allow` is the name for --allow-exceed.

    `used` and `allowed` are numbers of `unit` ("workloads", "replicas"), `base` what the share is taken of; 0 for
    guards.
    """

    allow: str
    why: str
    decisions: tuple[Decision, ...]
    unit: str = ""
    used: int = 0
    allowed: int = 0
    base: int = 0


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How much of one limit the plan uses. `name` is "fleet" or a policy's name; `unit` "workloads" or "replicas".

    The Fleet's limits hold for each policy on each `cluster`; of a cluster the `policy` that uses most is told, "" for
    none.
    """

    name: str
    unit: str
    used: int
    allowed: int
    base: int
    cluster: str = ""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan. `to_dict()` is described by schemas/plan.schema.json."""

    made_at: datetime
    run: str
    fleet: str
    policy_digest: str
    input_digest: str
    clusters: Mapping[str, str]  # name -> identity, of the clusters that answered
    actions: tuple[Action, ...] = ()
    held_back: tuple[HeldBackActions, ...] = ()
    observed: tuple[Decision, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    unknown: Mapping[str, str] = NOTHING  # cluster (or cluster/what) -> why it could not be read
    notices: tuple[Notice, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    placements: tuple[PlacementView, ...] = ()
    considered: tuple[Considered, ...] = ()  # for `explain`; not part of to_dict()
    unknown_since: Mapping[str, datetime] = NOTHING  # cluster that did not answer -> since when; not part of to_dict()
    places: Mapping[str, str] = NOTHING  # "Kind name" of policies and the Fleet -> file:line; not part of to_dict()
    zones: Mapping[str, tzinfo] = NOTHING  # of calendars, as reasons name these; not part of to_dict()
    unanswered: tuple[QueryKey, ...] = ()  # queries without any answer; in to_dict() they are part of `unknown`
    dropped: int = 0  # actions dropped by filters
    revision: str = ""
    source: str = "live"  # or "snapshot"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values, as schemas/plan.schema.json says."""
        from reconciler.plan.serialise import plan_to_dict

        return plan_to_dict(self)
