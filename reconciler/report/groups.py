"""The changes of a plan in the order people read them: by cluster and policy, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from reconciler.decide.types import Decision
from reconciler.plan.actions import Action
from reconciler.plan.counts import Effect, effect_of

_WORST_FIRST = {
    Effect.DELETE: 0,
    Effect.OVERWRITE: 1,
    Effect.IDLE: 2,
    Effect.DOWN: 2,
    Effect.UP: 3,
    Effect.CREATE: 3,
    Effect.WAKE: 3,
    Effect.REPAIR: 4,
    Effect.NOTE: 5,
}
_QUIET = (Effect.REPAIR, Effect.NOTE)


@dataclass(frozen=True, slots=True)
class Line:
    """One change to be shown, and what only goes along with it: marks and records of the same group and cluster."""

    action: Action
    along: tuple[Action, ...] = ()

    @property
    def decision(self) -> Decision:
        return self.action.decision


@dataclass(frozen=True, slots=True)
class Group:
    """What one policy does in one cluster."""

    cluster: str
    job: str
    policy: str
    lines: tuple[Line, ...]


def grouped(
    actions: Sequence[Action],
    *,
    fold: Callable[[Action], bool] = lambda _: True,
    urgent: Callable[[Action], bool] = lambda _: False,
) -> tuple[Group, ...]:
    """Return `actions` as groups: those with anything `urgent` first, then the one that takes most away; so inside one.

    Marks and records for which `fold` holds go along with a change of the same group and cluster, where there is one.
    """

    def badness(line: Line) -> tuple[bool, int, int, str, int]:
        return (not urgent(line.action), *_badness(line))

    members: dict[tuple[str, str, str], list[Line]] = {}
    for line in _folded(actions, fold):
        decision = line.decision
        members.setdefault((decision.ref.cluster, decision.cause.policy, decision.job), []).append(line)
    groups = [
        Group(cluster, job, policy, tuple(sorted(lines, key=badness)))
        for (cluster, policy, job), lines in members.items()
    ]
    return tuple(sorted(groups, key=lambda group: (not urgent(group.lines[0].action), *_group_badness(group))))


def worst_first(actions: Sequence[Action], urgent: Callable[[Action], bool] = lambda _: False) -> list[Action]:
    """Return `actions` in the order of their groups, nothing folded."""
    return [line.action for group in grouped(actions, fold=lambda _: False, urgent=urgent) for line in group.lines]


def is_quiet(decision: Decision) -> bool:
    """Return whether a change leaves the number of replicas alone: marks, records, memory."""
    return effect_of(decision) in _QUIET


def _folded(actions: Sequence[Action], fold: Callable[[Action], bool]) -> Iterable[Line]:
    lines = [Line(action) for action in actions if not (is_quiet(action.decision) and fold(action))]
    hosts = {_host(line.action): n for n, line in enumerate(lines) if not is_quiet(line.decision)}
    along: dict[int, list[Action]] = {}
    alone: list[Line] = []
    for action in actions:
        if is_quiet(action.decision) and fold(action):
            host = hosts.get(_host(action))
            if host is None:
                alone.append(Line(action))
            else:
                along.setdefault(host, []).append(action)
    return [replace(line, along=tuple(along.get(n, ()))) for n, line in enumerate(lines)] + alone


def _host(action: Action) -> tuple[str, str, str, str]:
    decision = action.decision
    return (decision.group, decision.ref.cluster, decision.cause.policy, decision.job)


def _badness(line: Line) -> tuple[int, int, str, int]:
    decision = line.decision
    return (_WORST_FIRST[effect_of(decision)], -decision.removed, str(decision.ref), line.action.id)


def _group_badness(group: Group) -> tuple[int, int, str, str, str]:
    worst = min(_WORST_FIRST[effect_of(line.decision)] for line in group.lines)
    removed = sum(line.decision.removed for line in group.lines)
    return (worst, -removed, group.cluster, group.policy, group.job)
