"""What is behind a Service goes idle together, or not at all.

A Service of which something still runs is not idle, and whoever finds it marked would hold its connections back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.decide.idling.blockers import Reason
from reconciler.decide.idling.scalables import ServiceState
from reconciler.decide.idling.transitions import Action, Flag, Transition
from reconciler.model import ObjectRef

_GOES_IDLE = frozenset({Action.IDLE, Action.OBSERVE})


@dataclass(frozen=True, slots=True)
class ServiceBackends:
    """A Service that some policy selects, and the scalables behind it, sorted by name."""

    front: ServiceState
    refs: list[ObjectRef]


def all_or_none(rulings: Mapping[ObjectRef, Transition]) -> dict[ObjectRef, Transition]:
    """Return the rulings where nothing goes idle behind a selected Service while anything else behind it stays up.

    That holds through all Services that share a scalable. What is idle already stays so: it is woken for reasons of its
    own. Where a policy only observes, all of them would go idle.
    """
    services = _services(rulings.values())
    result = dict(rulings)
    for flag, found in ((Flag.TOGETHER, _running), (Flag.UNSEEN, _not_known), (Flag.OBSERVED, _observed)):
        reasons = {ref: reason for ref, one in services.items() if (reason := found(one, result)) is not None}
        _spread(reasons, flag, services, result)
    return result


def _services(rulings: Iterable[Transition]) -> dict[ObjectRef, ServiceBackends]:
    found: dict[ObjectRef, ServiceBackends] = {}
    for ruling in rulings:
        for front in ruling.target.behind:
            found.setdefault(front.ref, ServiceBackends(front, [])).refs.append(ruling.ref)
    return {ref: found[ref] for ref in sorted(found)}


def _spread(
    reasons: dict[ObjectRef, Reason],
    flag: Flag,
    services: Mapping[ObjectRef, ServiceBackends],
    rulings: dict[ObjectRef, Transition],
) -> None:
    """Set `flag` on all that goes idle behind the Services in `reasons`, and behind those that share it with them."""
    changed = {Action.IDLE} if flag is Flag.OBSERVED else _GOES_IDLE
    waiting = deque(reasons)
    while waiting:
        service = waiting.popleft()
        reason = reasons[service]
        for ruling in [rulings[ref] for ref in services[service].refs if rulings[ref].action in changed]:
            rulings[ruling.ref] = ruling.with_flag(flag, reason.words, reason.flip)
            others = [front.ref for front in ruling.target.behind if front.ref not in reasons]
            reasons.update(dict.fromkeys(others, reason))
            waiting.extend(others)


def _running(service: ServiceBackends, rulings: Mapping[ObjectRef, Transition]) -> Reason | None:
    """Return what keeps everything behind `service` up: the first scalable that stays up, None where none does."""
    up = next((rulings[ref] for ref in service.refs if _stays_up(rulings[ref])), None)
    if up is None:
        return None
    ref, verb = up.target.scale.runs.ref, "wakes" if up.action is Action.WAKE else "stays awake"
    return Reason(f"{ref.kind}/{ref.name} behind Service/{service.front.ref.name} {verb}: {up.why}", up.flip)


def _stays_up(ruling: Transition) -> bool:
    return ruling.stays_up and ruling.action is not Action.OBSERVE


def _not_known(service: ServiceBackends, _rulings: Mapping[ObjectRef, Transition]) -> Reason | None:
    if service.front.found.question is None:
        return None
    return Reason(f"the pods behind Service/{service.front.ref.name} are not known yet")


def _observed(service: ServiceBackends, rulings: Mapping[ObjectRef, Transition]) -> Reason | None:
    """Return which policy only observes something behind `service` that would go idle, None where none does."""
    observed = next((rulings[ref] for ref in service.refs if rulings[ref].action is Action.OBSERVE), None)
    return None if observed is None else Reason(observed.why, observed.flip)
