"""Plan and backends -> outcomes. Every action is one write that tests what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby

from reconciler.apply.downscale import shrink
from reconciler.apply.events import event_of
from reconciler.apply.locks import LeftOut
from reconciler.apply.outcomes import Access, Outcome, Status
from reconciler.apply.readiness import POLL_SECONDS, Readiness
from reconciler.backends.stop import Stop
from reconciler.decide.types import DownscaleSettings
from reconciler.errors import (
    AlreadyExistsError,
    ClusterError,
    LockLostError,
    NotFoundError,
    ReconcilerError,
    RefusedError,
    StaleError,
    StoppedError,
)
from reconciler.model import Run
from reconciler.plan.actions import Action
from reconciler.plan.writes import write_of

TIER_WAIT_SECONDS = 600.0

Progress = Callable[[Action, Outcome], None]


@dataclass(frozen=True)
class Applying:
    """What one apply works with. `left_out` maps a cluster to the reason why nothing may be written there."""

    accesses: Mapping[str, Access]
    run: Run
    namespace: str
    stop: Stop
    progress: Progress
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    workers: int = 1


@dataclass(frozen=True)
class _Work:
    """The plan being carried out: its actions by id, what became of them so far, and the groups that are left alone."""

    applying: Applying
    actions: Mapping[int, Action]
    barred: Mapping[str, LeftOut]
    done: dict[int, Outcome]
    readiness: Readiness = field(default_factory=Readiness)


def apply_actions(actions: Sequence[Action], applying: Applying) -> tuple[Outcome, ...]:
    """Carry out `actions` phase by phase and return an outcome for each, in their order.

    Inside a phase the groups go side by side (`workers`), each in its own order.
    """
    work = _Work(applying, {action.id: action for action in actions}, _barred(actions, applying.left_out), {})
    with ThreadPoolExecutor(max_workers=applying.workers) as pool:
        for _, phase in groupby(actions, key=lambda action: action.decision.phase):
            groups: dict[str, list[Action]] = {}
            for action in phase:
                groups.setdefault(action.decision.group, []).append(action)
            for finished in [pool.submit(_apply_group, inside, work) for inside in groups.values()]:
                finished.result()
    return tuple(work.done[action.id] for action in actions)


def _barred(actions: Iterable[Action], left_out: Mapping[str, LeftOut]) -> dict[str, LeftOut]:
    """Return the groups that are left out whole, because one of their clusters may not be written to."""
    return {
        action.decision.group: _told(action.ref.cluster, left_out[action.ref.cluster])
        for action in actions
        if action.ref.cluster in left_out
    }


def _told(cluster: str, left_out: LeftOut) -> LeftOut:
    return replace(left_out, why=f"{cluster}: {left_out.why.removeprefix(f'{cluster}: ')}")


def _apply_group(actions: Sequence[Action], work: _Work) -> None:
    for action in actions:
        why = _why_not(action, work)
        outcome = why or _apply_one(action, work)
        work.done[action.id] = outcome
        work.applying.progress(action, outcome)


def _why_not(action: Action, work: _Work) -> Outcome | None:
    """Return why an action is not even tried, None where it is."""
    if work.applying.stop.asked:
        return Outcome(action.id, Status.SKIPPED, work.applying.stop.why)
    barred = work.barred.get(action.decision.group)
    if barred is not None:
        return Outcome(action.id, Status.SKIPPED, barred.why, locked=barred.held)
    missing = [need for need in action.needs if work.done[need].status is not Status.APPLIED]
    if missing:
        return Outcome(action.id, Status.SKIPPED, f"needs action {missing[0]}, which was not applied")
    if not work.applying.accesses[action.ref.cluster].lock.held():
        why = f"{action.ref.cluster}: the lock was lost, nothing more is written there"
        return Outcome(action.id, Status.SKIPPED, why)
    return None


def _apply_one(action: Action, work: _Work) -> Outcome:
    late = _wait_ready(action, work)
    if work.applying.stop.asked:
        return Outcome(action.id, Status.SKIPPED, work.applying.stop.why)
    try:
        outcome = _carry_out(action, work.applying)
    except (StoppedError, LockLostError) as error:
        return Outcome(action.id, Status.SKIPPED, str(error))
    except (StaleError, NotFoundError, AlreadyExistsError) as error:
        return Outcome(action.id, Status.STALE, str(error))
    except ReconcilerError as error:
        return Outcome(action.id, Status.FAILED, str(error), refused=isinstance(error, RefusedError))
    untold = _tell(action, work.applying) if outcome.status is Status.APPLIED else ""
    return replace(outcome, message="; ".join(part for part in (late or outcome.message, untold) if part))


def _carry_out(action: Action, applying: Applying) -> Outcome:
    access = applying.accesses[action.ref.cluster]
    if must_mark(action.decision.downscale):
        return shrink(action.id, action.decision, access, applying.run, applying.namespace)
    access.cluster.write(write_of(action.decision))
    return Outcome(action.id, Status.APPLIED)


def must_mark(settings: DownscaleSettings | None) -> bool:
    """Return whether the victims are ours to choose, so that they are marked before the scale."""
    return settings is not None and settings.strategy in ("zoneBalanced", "podPicker")


def _tell(action: Action, applying: Applying) -> str:
    """Write the Event of an applied action; one that cannot be written is not worth failing for.

    Return what to tell about one that was not written, "" where all is well.
    """
    if not action.decision.event:
        return ""
    try:
        applying.accesses[action.ref.cluster].cluster.write(event_of(action, applying.run))
    except ClusterError as error:
        return f"no Event was written: {error}"
    return ""


def _wait_ready(action: Action, work: _Work) -> str:
    """Wait until what the action waits for is ready; return what to tell when it still was not after ten minutes."""
    clock = work.applying.accesses[action.ref.cluster].clock
    until = clock.monotonic() + TIER_WAIT_SECONDS
    waiting = list(action.wait_ready)
    while waiting and not work.applying.stop.asked:
        waiting = [other for other in waiting if not _is_up(other, work)]
        if not waiting or clock.monotonic() >= until:
            break
        clock.sleep(POLL_SECONDS)
    return f"went on after 10 minutes, {len(waiting)} of the tier below not ready yet" if waiting else ""


def _is_up(action: int, work: _Work) -> bool:
    """Return whether nobody need wait for an action (any more): it did not happen, or what it woke is ready."""
    outcome = work.done.get(action)
    if outcome is None:
        return False
    found = work.actions[action]
    if outcome.status is not Status.APPLIED:
        return True
    return work.readiness.of(found, work.applying.accesses[found.ref.cluster])
