"""The order of wakes: the tiers of those that wake together, and whose turn it is where at most so many do in a run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.rules import Choice, IdleAction
from reconciler.decide.idling.subjects import IdleState
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import ObjectRef, by_key
from reconciler.policy.types import Fleet, WakeOrder

_DEFAULT_TIER = WakeOrder("").tier
_WAKES = (IdleAction.WAKE, IdleAction.DEFER)
_TURN_COUNTS = timedelta(hours=1)  # so a namespace that removes its records, or cannot be woken, goes first no longer


def _wake_group(choice: Choice) -> str:
    """Return the wake group of a scalable: that of the policy that idles it, else that of its record's policy."""
    policy = choice.subject.verdict.policy
    if policy is not None:
        return policy.wake_order.group or policy.name
    return choice.record.policy if choice.record is not None else ""


def tier(choice: Choice) -> int:
    """Return the tier of a scalable in its wake group."""
    policy = choice.subject.verdict.policy
    return _DEFAULT_TIER if policy is None else policy.wake_order.tier


def staggered(choices: Mapping[ObjectRef, Choice], now: datetime, fleet: Fleet) -> dict[ObjectRef, Choice]:
    """Return the choices where wakes above the `perRun` of their policy wait for the next run.

    A `perRun` binds the workloads of the policy that states it; policies of one wake group that state the same share
    it. So nobody slows down the wakes of another policy by naming its group. Tenants and the namespaces of others take
    turns, and in a tenant its namespaces do, in one run and from run to run, so that neither many wakes nor many
    requests nor many namespaces of one of them keep the others waiting. In each namespace, what was begun goes first,
    then by tier, then what somebody asked for, then by name.
    """
    result = dict(choices)
    for (_, name, limit), bound in sorted(_limited(choices.values()).items()):
        for choice in _by_turns(bound, now, fleet)[limit:]:
            why = reason(ReasonCode.WAKE_DEFERRED, perRun=limit, group=name)
            result[choice.ref] = choice.doing(IdleAction.DEFER, (why,))
    return result


def wakes_before(choice: Choice, choices: Iterable[Choice], now: datetime, fleet: Fleet) -> int:
    """Return how many of the wakes that are bound by the same `perRun` go before that of `choice`, which waits."""
    bound = next(some for some in _limited(choices).values() if any(one.ref == choice.ref for one in some))
    return [one.ref for one in _by_turns(bound, now, fleet)].index(choice.ref)


def _limited(choices: Iterable[Choice]) -> dict[tuple[str, str, int], list[Choice]]:
    """Return the choices bound by a `perRun`, by (cluster, wake group, perRun); clusters never wait for others."""
    found: dict[tuple[str, str, int], list[Choice]] = {}
    for choice in choices:
        policy = choice.subject.verdict.policy
        limit = None if policy is None else policy.wake_order.per_run
        if limit is not None:
            found.setdefault((choice.ref.cluster, _wake_group(choice), limit), []).append(choice)
    return found


def _by_turns(bound: Sequence[Choice], now: datetime, fleet: Fleet) -> list[Choice]:
    """Return the wakes of `bound`, also those that wait: the most urgent one of each owner first, then the second of
    each, and so on.

    Those of one owner are in the same order by its namespaces.
    """

    def owner(ref: ObjectRef) -> str:
        tenant = fleet.tenant_at(ref.cluster, ref.namespace)
        return ref.namespace if tenant is None else f"tenant {tenant.name}"

    waking = sorted((choice for choice in bound if choice.action in _WAKES), key=_urgency)
    return _in_turns(_in_turns(waking, bound, now, lambda ref: ref.namespace), bound, now, owner)


def _in_turns(
    ordered: Sequence[Choice], bound: Iterable[Choice], now: datetime, owner: Callable[[ObjectRef], str]
) -> list[Choice]:
    """Return `ordered` so that owners take turns; who had none for longest begins, then who had fewer.

    Turns are the wakes since `_TURN_COUNTS` of what the same `perRun` binds: what another policy wakes in a namespace
    costs it no turn. Where the share of a run cannot be divided evenly, the number of them lets the rest go to another
    one in the next run.
    """
    earliest = now - _TURN_COUNTS
    last: dict[str, tuple[datetime, int]] = {}
    for choice in bound:
        name, woken = owner(choice.ref), choice.subject.awake_since
        known, count = last.setdefault(name, (earliest, 0))
        if woken is not None and earliest < woken <= now:
            last[name] = (max(known, woken), count + 1)
    inside: Counter[str] = Counter()
    turns: list[tuple[int, tuple[datetime, int], str, int]] = []
    for position, choice in enumerate(ordered):
        name = owner(choice.ref)
        lot = hashlib.sha256(f"{now.isoformat()} {name}".encode()).hexdigest()  # so that no name is better
        turns.append((inside[name], last[name], lot, position))
        inside[name] += 1
    return [ordered[position] for *_, position in sorted(turns)]


def _urgency(choice: Choice) -> tuple[bool, int, bool, ObjectRef]:
    """Return the sort key of the wakes of one namespace."""
    begun = choice.state is IdleState.WAKE_IN_PROGRESS
    return (not begun, tier(choice), IdlingCondition.REQUESTED not in choice.conditions, choice.ref)


def wake_tiers(choices: Iterable[Choice]) -> dict[ObjectRef, tuple[str, str]]:
    """Return by scalable that wakes the tier that others wait for, and the one that it waits for itself; "" for none.

    Tiers are of one wake group in one namespace: no namespace waits for what runs in another one.
    """
    woken = (choice for choice in choices if choice.action is IdleAction.WAKE)
    groups = by_key(((choice.ref.cluster, choice.ref.namespace, _wake_group(choice)), choice) for choice in woken)
    result: dict[ObjectRef, tuple[str, str]] = {}
    for (cluster, namespace, group), waking in groups.items():
        numbers = sorted({tier(choice) for choice in waking})
        names = [f"{cluster}/{namespace}/{group}/{number}" for number in numbers]
        tiers = dict(zip(numbers, zip([*names[:-1], ""], ["", *names[:-1]], strict=True), strict=True))
        result |= {choice.ref: tiers[tier(choice)] for choice in waking}
    return result
