"""A plan as data: actions in a total order, and the notices beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from reconciler.decide.decisions import (
    Decision,
    HeldBack,
    LimitUse,
    Notice,
    Overridden,
    PlacementView,
    PolicyExplanation,
    Undecided,
)
from reconciler.decide.downscale.decreases_by_others import SeenReplicas
from reconciler.decide.victim_fields import PlanNumber
from reconciler.model import NOTHING, ObjectRef, QueryKey, pointer


class Action(Struct, frozen=True):
    """One write of the plan. `id` counts from 1 in the plan's order; `needs` are ids. A tier that its `decision` waits
    for is one of the plan.
    """

    id: int
    decision: Decision
    needs: tuple[int, ...] = ()

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


class Awake(Struct, frozen=True):
    """A workload that was woken, or released, lately: since when, how many replicas it has, and which field manager
    wrote them last ("": nobody knows).
    """

    ref: ObjectRef
    since: datetime
    replicas: int
    by: str = ""


class KeptUp(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Workloads that only time or a rollout keeps from being idled."""

    by: str
    """What ends last of all that keeps them awake."""
    number: PlanNumber
    """How many there are."""
    until: Annotated[datetime, Meta(tz=True)] | None
    """When that ends for the last of them; null: nobody knows, or their criteria say something else by then."""


QUERY_OF = "/query of "
"""What stands in the name of an unknown query between its cluster and its policy."""


class Plan(Struct, frozen=True):
    """The whole plan, at the end what only its run knows: one that was read from a file has nothing of it."""

    made_at: datetime
    run: str
    fleet: str
    policy_digest: str
    input_digest: str
    clusters: Mapping[str, str]  # name -> identity, of the clusters that answered
    actions: tuple[Action, ...] = ()
    held_back: tuple[HeldBack, ...] = ()
    observed: tuple[Decision, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    unknown: Mapping[str, str] = NOTHING  # cluster (or cluster/what) -> why it could not be read
    notices: tuple[Notice, ...] = ()
    limits: tuple[LimitUse, ...] = ()
    placements: tuple[PlacementView, ...] = ()
    dropped: int = 0  # actions dropped by filters
    revision: str = ""
    source: str = "live"  # or "snapshot"
    time_zones: tuple[str, ...] = ()  # of the calendars of its policies, by name
    unanswered: tuple[QueryKey, ...] = ()  # queries without any answer; in its JSON they are part of `unknown`
    places: Mapping[str, str] = NOTHING  # "Kind name" of policies and the Fleet -> file:line
    without_workloads: tuple[str, ...] = ()  # the policies that select nothing, where all was read
    only_production: tuple[str, ...] = ()  # those that would select production, and nothing else
    kept_up: tuple[KeptUp, ...] = ()

    # Not in its file:
    explanations: tuple[PolicyExplanation, ...] = ()
    unknown_since: Mapping[str, datetime] = NOTHING  # cluster that did not answer -> since when
    awake: tuple[Awake, ...] = ()  # what woke in the last two days, for the history
    seen: tuple[SeenReplicas, ...] = ()  # of what a picker reviews, on each cluster that has one
    shard: str = ""  # which part of the Fleet was decided, "2/8"

    @property
    def unknown_clusters(self) -> Mapping[str, str]:
        """The clusters that could not be read, with the reason."""
        return {name: why for name, why in self.unknown.items() if "/" not in name}

    @property
    def unread(self) -> Mapping[str, str]:
        """What of `unknown` are clusters and lists of their objects; the rest are queries."""
        return {name: why for name, why in self.unknown.items() if QUERY_OF not in name}


_PLAIN = frozenset((str, bool, int, type(None)))


def json_value(value: Any) -> Any:
    """Return `value` made of dict, list, str, int, float, bool and None alone; mappings sorted by key.

    A number JSON cannot hold becomes "NaN", "+Inf" or "-Inf" as Prometheus writes them, a time RFC 3339, a duration its
    seconds, a set a sorted list, anything else its text.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if isinstance(value, Mapping):
        return {str(key): json_value(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((json_value(item) for item in value), key=str)
    return _text(value)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return int(value) if isinstance(value, int) else str(value)
