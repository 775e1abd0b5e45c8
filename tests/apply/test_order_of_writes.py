"""Which actions of a plan wait for which: no cluster for another one that hangs, and nothing too early."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.apply import parallel_actions
from reconciler.apply.action_runs import ActionRuns
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.decisions import Decision, Phase
from reconciler.errors import NotFoundError, RefusedError
from reconciler.plan.model import Action
from reconciler.plan.order import in_order, numbered_actions
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool
from tests.builders import a_ref, a_run
from tests.fakes import FakeLock, an_access
from tests.laws import tries
from tests.plans import a_decision

CLUSTERS = ("east", "west", "south")
LONG = 60.0
"""Seconds that something may take which is not to hang."""


@dataclass
class Writes:
    """The writes to all clusters: which began and which are over, in their order."""

    log: list[tuple[str, str]] = field(default_factory=list)
    hanging: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    ends: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def write(self, name: str) -> None:
        self._note("began", name)
        if name in self.hanging:
            assert self.ends.wait(LONG)
        self._note("over", name)
        if name in self.failing:
            raise RefusedError(f"{name}: no, expected yes")

    def _note(self, what: str, name: str) -> None:
        with self._changed:
            self.log.append((what, name))
            self._changed.notify_all()

    def seen(self, names: set[str]) -> bool:
        """Wait until the writes `names` are over; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: names <= {name for what, name in self.log if what == "over"}, LONG)

    def begun(self) -> set[str]:
        with self._changed:
            return {name for what, name in self.log if what == "began"}


@dataclass
class Server:
    """What takes the writes of one cluster."""

    writes: Writes
    name: str = "east"

    def write(self, write: Any) -> None:
        if write.ref.kind != "Event":
            self.writes.write(write.ref.name)

    def get(self, _resource: Any, namespace: str, name: str) -> Any:
        raise NotFoundError(f"{namespace}/{name}: nobody froze anything")


def apply(
    actions: Sequence[Action], writes: Writes, pool: WorkerPool, limit: TimeLimit | None = None
) -> tuple[Outcome, ...]:
    access: Any = an_access(Server(writes))
    accesses = dict.fromkeys(CLUSTERS, access)
    return ActionRuns(actions, accesses, a_run(), "reconciler", limit or TimeLimit(), pool=pool).carry_out()


def an_action(
    name: str, cluster: str, phase: Phase, group: str = "", needs: tuple[str, ...] = (), place: int = 0
) -> Decision:
    ref = a_ref(name, cluster=cluster)
    return a_decision(name, ref=ref, phase=phase, group=group or name, key=name, needs=needs, order=(0, place))


WORLD = [
    an_action("west-wakes", "west", Phase.WAKE),
    an_action("east-wakes", "east", Phase.WAKE),
    an_action("web-rises-in-west", "west", Phase.INCREASE, "web"),
    an_action("api-rises-in-east", "east", Phase.INCREASE, "api"),
    an_action("api-moves-in-south", "south", Phase.MOVE, "api"),
    an_action("web-falls-in-east", "east", Phase.DECREASE, "web"),
    an_action("web-moves-in-east", "east", Phase.MOVE, "web"),
    an_action("east-idles", "east", Phase.DECREASE),
    an_action("west-idles", "west", Phase.DECREASE),
    an_action("east-records-web", "east", Phase.RECORD, "web"),
    an_action("south-records", "south", Phase.RECORD),
]


FREE = {"east-wakes", "api-rises-in-east", "api-moves-in-south", "east-idles", "south-records"}
HELD = {"web-rises-in-west", "west-idles", "web-moves-in-east", "web-falls-in-east", "east-records-web"}


@contextmanager
def applying(
    actions: Sequence[Action], hanging: str, limit: TimeLimit | None = None
) -> Iterator[tuple[Writes, Future[tuple[Outcome, ...]]]]:
    """Apply `actions` in a thread; the write `hanging` ends only after the block."""
    writes = Writes(hanging=frozenset({hanging}))
    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(apply, actions, writes, WorkerPool(8), limit)
        try:
            yield writes, run
        finally:
            writes.ends.set()


def test_a_write_that_hangs_keeps_its_cluster_and_its_group_waiting_and_nobody_else() -> None:
    with applying(numbered_actions(in_order(WORLD)), "west-wakes") as (writes, run):
        assert writes.seen(FREE)
        assert not writes.begun() & HELD
    assert [outcome.status for outcome in run.result()] == [OutcomeStatus.APPLIED] * len(WORLD)


def test_a_lost_lock_lets_nothing_more_begin_on_its_cluster() -> None:
    writes, lock = Writes(), FakeLock()
    lock.lost = True
    accesses = {"east": an_access(Server(writes), lock=lock), "west": an_access(Server(writes))}
    actions = numbered_actions([an_action("in-east", "east", Phase.WAKE), an_action("in-west", "west", Phase.WAKE)])
    east, west = ActionRuns(actions, accesses, a_run(), "reconciler", TimeLimit(), pool=WorkerPool(0)).carry_out()
    assert (east.status, west.status) == (OutcomeStatus.SKIPPED, OutcomeStatus.APPLIED)
    assert east.message == "east: the lock was lost, nothing more is written there"
    assert writes.begun() == {"in-west"}


def test_a_write_that_hangs_keeps_only_its_own_thread() -> None:
    """What can begin later on the same cluster has a thread of its own, as long as the cluster has a share left."""
    plan = [
        an_action("hangs", "east", Phase.WAKE),
        an_action("web-in-east", "east", Phase.WAKE, "web"),
        an_action("web-in-west", "west", Phase.WAKE, "web"),
        an_action("web-again-in-east", "east", Phase.WAKE, "web"),
    ]
    with applying(numbered_actions(plan), "hangs") as (writes, _):
        assert writes.seen({"web-again-in-east"})


def test_what_waits_for_a_hanging_write_when_the_run_ends_is_skipped() -> None:
    limit = TimeLimit()
    actions = numbered_actions(in_order(WORLD))
    with applying(actions, "west-wakes", limit) as (writes, run):
        assert writes.seen(FREE)
        limit.cut("stopped by a test")
        outcomes = run.result(LONG)
    told = {action.ref.name: outcome for action, outcome in zip(actions, outcomes, strict=True)}
    assert told["west-wakes"].status is OutcomeStatus.FAILED
    assert "whether it was done is not known" in told["west-wakes"].message
    for name in HELD:
        assert (told[name].status, told[name].message) == (OutcomeStatus.SKIPPED, "stopped by a test")


@pytest.mark.parametrize("threads", [0, 8])
def test_what_needs_a_later_phase_of_its_group_waits_for_it_and_ends(threads: int) -> None:
    plan = [
        an_action("falls", "east", Phase.DECREASE, "web"),
        an_action("rises", "east", Phase.INCREASE, "web", ("falls",)),
        an_action("other", "east", Phase.MOVE),
    ]
    writes = Writes()
    outcomes = apply(numbered_actions(in_order(plan)), writes, WorkerPool(threads))
    assert [outcome.status for outcome in outcomes] == [OutcomeStatus.APPLIED] * 3
    assert [name for what, name in writes.log if what == "over"] == ["other", "falls", "rises"]


def test_what_needs_one_that_failed_is_skipped_and_names_its_object() -> None:
    plan = [an_action("first", "east", Phase.WAKE), an_action("then", "west", Phase.WAKE, needs=("first",))]
    failed, skipped = apply(numbered_actions(plan), Writes(failing=frozenset({"first"})), WorkerPool(0))
    words = f"needs {plan[0].ref}, which was not applied"
    assert (skipped.status, skipped.message) == (OutcomeStatus.SKIPPED, words), failed


def test_clusters_take_turns_where_there_are_few_threads() -> None:
    queued = threading.Event()

    class Pool(WorkerPool):
        def submit(self, lane: str, *work: Any, **options: Any) -> Any:
            future = super().submit(lane, *work, **options)
            if lane == "west":
                queued.set()
            return future

    plan = [an_action(f"east-{number}", "east", Phase.WAKE) for number in range(100)]
    writes = Writes(hanging=frozenset({"east-0"}), ends=queued)
    apply(numbered_actions([*plan, an_action("west", "west", Phase.WAKE)]), writes, Pool(1))
    assert writes.log.index(("over", "west")) < 10


@pytest.mark.parametrize("threads", [0, 8])
def test_what_cannot_be_shown_ends_the_run(threads: int) -> None:
    def shown(_: Action, __: Outcome) -> None:
        raise BrokenPipeError

    access: Any = an_access(Server(Writes()))
    actions = numbered_actions(in_order(WORLD))
    runs = ActionRuns(
        actions, dict.fromkeys(CLUSTERS, access), a_run(), "reconciler", TimeLimit(), shown, pool=WorkerPool(threads)
    )
    with pytest.raises(BrokenPipeError):
        runs.carry_out()


def test_after_a_failure_nothing_is_asked_again_whether_it_may_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_actions, "POLL_SECONDS", 0.01)
    asked, failed = [], threading.Event()

    class Pool(WorkerPool):
        def submit(self, lane: str, *work: Any, **options: Any) -> Any:
            asked.append(lane)
            return super().submit(lane, *work, **options)

    def attempt(action: Action) -> bool:
        if action.ref.name == "fails":
            failed.set()
            raise BrokenPipeError
        if action.ref.name == "hangs":
            assert failed.wait(LONG)
            time.sleep(2.0)  # as long as others would be asked
        return action.ref.name != "waits"

    plan = [
        an_action(name, cluster, Phase.WAKE)
        for name, cluster in zip(("waits", "hangs", "fails"), CLUSTERS, strict=True)
    ]
    with pytest.raises(BrokenPipeError):
        parallel_actions.ParallelActions(numbered_actions(plan), attempt, Pool(8), lambda *_: None).carry_out(
            TimeLimit()
        )
    assert len(asked) < 8


decisions = st.lists(
    st.tuples(
        st.sampled_from(CLUSTERS), st.sampled_from(list(Phase)), st.sampled_from(["a", "b", "c", "d"]), st.booleans()
    ),
    max_size=24,
).map(lambda parts: [_numbered(place, part, parts) for place, part in enumerate(parts)])


def _numbered(
    place: int, part: tuple[str, Phase, str, bool], parts: Sequence[tuple[str, Phase, str, bool]]
) -> Decision:
    """An action that may need the one before it of its group, in an earlier phase or the same."""
    cluster, phase, group, wants = part
    before = [other for other in range(place) if parts[other][2] == group and parts[other][1] <= phase]
    needs = (f"w{before[-1]}",) if wants and before else ()
    return an_action(f"w{place}", cluster, phase, group, needs, place)


@pytest.mark.laws
@tries(150)
@given(decisions, st.sampled_from([0, 3, 8]), st.sets(st.integers(0, 23), max_size=3))
def test_law_nothing_begins_before_what_is_earlier_in_its_group_or_on_its_cluster(
    plan: list[Decision], threads: int, failing: set[int]
) -> None:
    """On its cluster: but for what has something to do on another cluster first."""
    writes = Writes(failing=frozenset(f"w{number}" for number in failing))
    actions = numbered_actions(in_order(plan))
    outcomes = apply(actions, writes, WorkerPool(threads))
    by_name = {action.ref.name: action for action in actions}
    became = {action.ref.name: outcome.status for action, outcome in zip(actions, outcomes, strict=True)}
    over = {
        name for name, status in became.items() if status is OutcomeStatus.SKIPPED
    }  # what it needs failed: no write
    for what, name in writes.log:
        if what == "over":
            over.add(name)
        else:
            before = [one for one in actions if _is_before(one, by_name[name], actions)]
            assert {one.ref.name for one in before} <= over
    written = {name for what, name in writes.log if what == "over"}
    assert written == {
        name for name, status in became.items() if status in (OutcomeStatus.APPLIED, OutcomeStatus.FAILED)
    }
    assert over == set(by_name)


@tries(50)
@given(decisions)
def test_law_without_threads_all_is_in_the_order_of_the_plan(plan: list[Decision]) -> None:
    writes = Writes()
    actions = numbered_actions(in_order(plan))
    apply(actions, writes, WorkerPool(0))
    assert [name for what, name in writes.log if what == "began"] == [action.ref.name for action in actions]


def _is_before(one: Action, other: Action, actions: Sequence[Action]) -> bool:
    group = one.decision.group
    if group == other.decision.group:
        return one.id < other.id
    elsewhere = [
        first
        for first in actions
        if first.decision.group == group and first.id < one.id and first.ref.cluster != one.ref.cluster
    ]
    return one.decision.phase < other.decision.phase and one.ref.cluster == other.ref.cluster and not elsewhere
