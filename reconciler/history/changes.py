"""The changes of scale that the history keeps: those that a run made, and those by hands that it found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.annotations import Key, fleet_names, format_time, idling_owner, json_object, parse_time
from reconciler.decide.autoscalers import MINIMUM
from reconciler.decide.decisions import Decision, Verb
from reconciler.decide.reasons import ReasonCode
from reconciler.model import Run
from reconciler.plan.effects import Effect, effect_of
from reconciler.plan.model import Action
from reconciler.policy.types import Fleet
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import PREVIOUS_VALUES

SLASHES = 3
"""At least so many are in CLUSTER/NAMESPACE/KIND/NAME."""

BY_RECONCILER, BY_ACTIVATOR = "reconciler", "activator"
_CHANGES = frozenset({Effect.IDLE, Effect.WAKE, Effect.UP, Effect.DOWN, Effect.CREATE, Effect.DELETE, Effect.OVERWRITE})


class Change(Struct, frozen=True, omit_defaults=True, rename={"before": "from", "after": "to"}):
    """One scale of one object."""

    at: Annotated[str, Meta(description="When it was: RFC 3339 in UTC.")]
    object: Annotated[str, Meta(description="CLUSTER/NAMESPACE/KIND/NAME.")]
    verb: Annotated[str, Meta(description='What was done: "idle", "wake", "scale", ...')]
    by: Annotated[str, Meta(description='Who wrote it: "reconciler", "activator", or the field manager of a hand.')]
    before: Annotated[int | None, Meta(description="The replicas before; of what has a switch 1 is on, 0 off.")] = None
    after: Annotated[int | None, Meta(description="The replicas after; absent where nobody knows.")] = None
    switch: Annotated[bool, Meta(description="Whether it has a switch, so that 1 is on and 0 is off.")] = False
    policy: Annotated[str, Meta(description="The policy that decided it.")] = ""
    place: Annotated[str, Meta(description="Where that policy stands, as file:line.")] = ""
    commit: Annotated[str, Meta(description="The commit at which the policies were.")] = ""
    run: Annotated[str, Meta(description="The id of the run.")] = ""
    shard: Annotated[str, Meta(description="The shard whose run it was, INDEX/COUNT; absent without --shard.")] = ""
    why: Annotated[str, Meta(description="The reason, for people.")] = ""
    since: Annotated[str, Meta(description="Of a wake: since when it was idle, RFC 3339 in UTC.")] = ""
    asleep: Annotated[int, Meta(description="Of a wake: how many replicas it had fewer while it was idle.")] = 0
    cpu: Annotated[float | None, Meta(description="What one of its pods requests, in cores.")] = None
    memory: Annotated[float | None, Meta(description="What one of its pods requests, in GiB.")] = None
    user: Annotated[
        str, Meta(description="Who called wake or restore, as the API server calls them, else this machine.")
    ] = ""
    tenant: Annotated[str, Meta(description="Whose its namespace was; absent for the platform's.")] = ""

    @property
    def time(self) -> datetime:
        return parse_time(self.at) or datetime.fromtimestamp(0, UTC)


def changes_of(
    actions: Sequence[Action], outcomes: Sequence[Outcome], run: Run, fleet: Fleet, shard: str = ""
) -> tuple[Change, ...]:
    """Return the changes that a run of `fleet` made, and what it found that hands had done."""
    applied = {outcome.action for outcome in outcomes if outcome.status is OutcomeStatus.APPLIED}
    decisions = (action.decision for action in actions if action.id in applied)
    found = (change for decision in decisions for change in _of(decision, run, fleet_names(fleet)))
    return tuple(replace(change, shard=shard) if shard else change for change in found)


def called_by(changes: Sequence[Change], caller: str, accesses: Mapping[str, Access]) -> tuple[Change, ...]:
    """Return `changes` of a verb that somebody called by hand, with that user as each cluster knows them.

    `caller` is the user of this machine, who stands in where a cluster does not say; "" for a run by itself.
    """
    if not caller:
        return tuple(changes)
    clusters = dict.fromkeys(change.object.partition("/")[0] for change in changes if change.by == BY_RECONCILER)
    users = {name: _user_on(accesses[name], caller) for name in clusters}
    return tuple(
        replace(change, user=users[change.object.partition("/")[0]]) if change.by == BY_RECONCILER else change
        for change in changes
    )


def _user_on(access: Access, caller: str) -> str:
    try:
        return access.cluster.user() or caller
    except Exception:  # noqa: BLE001 - whatever it is, who sits at this machine is known all the same
        return caller


def _of(decision: Decision, run: Run, fleets: frozenset[str]) -> Iterator[Change]:
    since, asleep = _idle_until_now(decision, fleets)
    idle: dict[str, Any] = {"since": since, "asleep": asleep}
    idle |= {"cpu": decision.requests.cpu or None, "memory": decision.requests.memory or None}
    if decision.verb is Verb.RELEASE:
        yield from (replace(change, **idle) for change in _by_hand(decision, run))
    beside = decision.ref.kind == "HorizontalPodAutoscaler" and decision.verb not in (Verb.IDLE, Verb.WAKE)
    if beside or decision.ref.kind == "ConfigMap" or effect_of(decision) not in _CHANGES:
        return
    before, after = _numbers(decision)
    yield Change(
        at=format_time(run.now),
        object=str(decision.ref),
        verb=str(decision.verb),
        by=BY_RECONCILER,
        before=before,
        after=after,
        switch=_is_of_switch(decision),
        policy=decision.policy,
        place=decision.cause.at,
        commit=run.revision,
        run=run.id,
        why=decision.cause.why,
        **idle,
    )


def _idle_until_now(decision: Decision, fleets: frozenset[str]) -> tuple[str, int]:
    """Return since when the object was idle that `decision` takes the record off, and how many replicas fewer it had;
    "" and 0 where it takes off none, or one that is not of `fleets`: what others idled is no saving of ours.
    """
    texts = {change.path[-1]: change.before for change in decision.changes if change.after != change.before}
    since, had = texts.get(Key.IDLED_AT), texts.get(Key.PREVIOUS_SCALE)
    if decision.ref.kind == "HorizontalPodAutoscaler":  # what it made of its minimum nobody knows
        had = None
    owner = idling_owner({key: str(before) for key, before in texts.items()})
    if decision.idles or since is None or owner is None or owner[0] not in fleets:
        return "", 0
    return str(since), max(0, (whole_number_in(str(had)) or 0) - (whole_number_in(str(texts.get(Key.IDLED_TO))) or 0))


def _numbers(decision: Decision) -> tuple[int | None, int | None]:
    """Return the replicas before and after, or the minimum of an autoscaler; of what is switched off 1 while it runs,
    else 0.
    """
    if _is_of_switch(decision):
        return _SWITCHED.get(effect_of(decision), (None, None))
    minimum = next((change for change in decision.changes if change.path == MINIMUM), None)
    if minimum is not None:
        return minimum.before, minimum.after
    return decision.replicas_before, decision.replicas_after


def _is_of_switch(decision: Decision) -> bool:
    return any(change.path[-1] in PREVIOUS_VALUES for change in decision.changes)


_SWITCHED: Mapping[Effect, tuple[int, int]] = {Effect.IDLE: (1, 0), Effect.WAKE: (0, 1)}


_BY_HAND = (ReasonCode.SCALED_BY, ReasonCode.SWITCHED_ON_BY)


def _by_hand(decision: Decision, run: Run) -> Iterator[Change]:
    """Yield what was scaled by somebody else while it was idle, which is why it is released."""
    found = next((reason for reason in decision.cause.reasons if reason.code in _BY_HAND), None)
    if found is None:
        return
    texts = {change.path[-1]: change for change in decision.changes}
    idled_to = texts[Key.IDLED_TO].before if Key.IDLED_TO in texts else None
    undone = json_object(texts[Key.UNDONE].after) if Key.UNDONE in texts else {}
    yield Change(
        at=str(undone.get("at") or format_time(run.now)),
        object=str(decision.ref),
        verb="wake",
        by=str(found.values.get("by", "somebody")),
        before=int(idled_to) if isinstance(idled_to, str) and idled_to.isdecimal() else 0,
        after=found.values.get("replicas", 1),
        switch=found.code == ReasonCode.SWITCHED_ON_BY,
        policy=decision.policy,
        run=run.id,
        why=f"{decision.cause.why}; released",
    )
