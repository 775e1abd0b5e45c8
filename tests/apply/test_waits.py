"""How waking by tiers waits: everybody sees what one of them saw, however many wait."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.action_runs import ActionRuns
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.apply.waits import POLL_SECONDS, Tier
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.decide.decisions import Phase, Verb
from reconciler.errors import RefusedError
from reconciler.model import PatchOperation, Write
from reconciler.plan.model import Action
from reconciler.plan.order import numbered_actions
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool
from tests.builders import a_ref, a_run
from tests.cases import cases
from tests.decide.downscale.world import a_workload_manifest, controllers_order, namespace
from tests.fakes import FakeClock, an_access
from tests.plans import a_decision

MANY = 30


class Asked:
    """A cluster, and how often each of its workloads was looked at."""

    def __init__(self, inside: SnapshotCluster) -> None:
        self._inside = inside
        self.looks: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def get(self, resource: Any, inside: str, name: str) -> Any:
        self.looks[name] += 1
        return self._inside.get(resource, inside, name)


class NeverReady(Asked):
    """A cluster in which nothing gets ready."""

    def get(self, resource: Any, inside: str, name: str) -> Any:
        return replace(super().get(resource, inside, name), ready_replicas=0)


def names(tier: str) -> list[str]:
    return [f"{tier}-{number}" for number in range(MANY)]


def access(clock: FakeClock, replicas: int = 0) -> tuple[Asked, Access]:
    """A cluster in which everything has `replicas`, of which none is ready."""
    manifests = [namespace(name) for name in ("kube-system", "shop")]
    for name in (*names("db"), *names("api"), *names("free")):
        manifest = a_workload_manifest("Deployment", name, replicas)
        manifests.append({**manifest, "status": {**manifest["status"], "readyReplicas": 0}})
    cluster: Any = Asked(MemoryCluster.of_manifests("east", manifests, controllers_order))
    return cluster, an_access(cluster, limit=TimeLimit(clock=clock))


def wakes(tier: str, after: str = "") -> list[Any]:
    return [
        a_decision(
            name,
            before=0,
            after=1,
            verb=Verb.WAKE,
            phase=Phase.WAKE,
            uid=f"uid-{name}-Deployment",
            wake_tier=tier,
            wait_ready=after,
        )
        for name in names(tier)
    ]


def apply(actions: Sequence[Action], found: Access, done: list[str] | None = None) -> Counter[OutcomeStatus]:
    """Carry them out; `done` gets the names of what was, in that order."""

    def told(action: Action, _: Outcome) -> None:
        if done is not None:
            done.append(action.ref.name)

    runs = ActionRuns(actions, {"east": found}, a_run(), "reconciler", found.limit, told, pool=WorkerPool(8))
    return Counter(outcome.status for outcome in runs.carry_out())


def test_what_is_ready_is_looked_at_once_for_all_that_wait() -> None:
    cluster, found = access(FakeClock())
    actions = numbered_actions([*wakes("db"), *wakes("api", after="db")])
    assert apply(actions, found) == {OutcomeStatus.APPLIED: 2 * MANY}
    assert cluster.looks == dict.fromkeys(names("db"), 1)


def test_what_waits_asks_where_the_last_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    is_up = Tier._is_up
    monkeypatch.setattr(Tier, "_is_up", lambda self, action: asked.append(action.id) or is_up(self, action))
    _, found = access(FakeClock())
    assert apply(numbered_actions([*wakes("db"), *wakes("api", after="db")]), found) == {
        OutcomeStatus.APPLIED: 2 * MANY
    }
    assert len(asked) <= 8 * MANY  # a tier side by side in eight threads; one by one it would be MANY * MANY


class NotYet(Asked):
    """A cluster where nothing gets ready before the clock says `at`."""

    def __init__(self, inside: SnapshotCluster, clock: FakeClock, at: float) -> None:
        super().__init__(inside)
        self._clock = clock
        self._at = at

    def get(self, resource: Any, inside: str, name: str) -> Any:
        found = super().get(resource, inside, name)
        return found if self._clock.now >= self._at else replace(found, ready_replicas=0)


def test_what_waits_for_its_tier_keeps_nobody_else_waiting() -> None:
    clock = FakeClock()
    cluster, found = access(clock)
    slow: Any = NotYet(cluster, clock, at=60)  # type: ignore[arg-type]
    done: list[str] = []
    actions = numbered_actions([*wakes("db"), *wakes("api", after="db"), *wakes("free")])
    assert apply(actions, replace(found, cluster=slow), done) == {OutcomeStatus.APPLIED: 3 * MANY}
    assert sorted(done[: 2 * MANY]) == sorted([*names("db"), *names("free")])
    assert 60 <= clock.now < 70


@cases("left waited", ("no end of the run", None, 600), ("a minute left", 61, 30))
def test_a_tier_that_does_not_get_ready_is_waited_for_within_the_run(left: float | None, waited: int) -> None:
    clock = FakeClock()

    cluster, found = access(clock)
    found = replace(found, cluster=NeverReady(cluster), limit=TimeLimit(math.inf if left is None else left, clock))
    actions = numbered_actions([wakes("db")[0], wakes("api", after="db")[0]])
    runs = ActionRuns(actions, {"east": found}, a_run(), "reconciler", found.limit)
    outcomes = runs.carry_out()
    assert outcomes[1].message == f"went on after {waited} s, {a_ref('db-0')} of the tier below not ready yet"
    assert waited - 1 <= clock.now <= waited + POLL_SECONDS


def test_why_a_change_failed_is_said_also_where_it_went_on_late() -> None:
    _, found = access(FakeClock())

    class Refusing(NeverReady):
        def write(self, write: Any) -> Any:
            if write.ref.name == "api-0":
                raise RefusedError("east: quota exceeded")
            return self._inside.write(write)

    found = replace(found, cluster=Refusing(found.cluster))
    actions = numbered_actions([wakes("db")[0], wakes("api", after="db")[0]])
    runs = ActionRuns(actions, {"east": found}, a_run(), "reconciler", found.limit)
    _, failed = runs.carry_out()
    assert failed.status is OutcomeStatus.FAILED
    assert failed.message == (
        f"east: quota exceeded; went on after 600 s, {a_ref('db-0')} of the tier below not ready yet"
    )


def woken(actions: Sequence[Action], found: Access) -> Tier:
    """A tier whose wakes were all done."""
    tier = Tier({"east": found}, {action.id: Outcome(action.id, OutcomeStatus.APPLIED) for action in actions})
    tier.wakes += actions
    return tier


@cases(
    "seconds looks",
    ("all at the same time", [0] * MANY, 1),
    ("within the time of a poll", [0, 0.5, 1, 1.5], 1),
    ("after a poll, which clocks add up from parts", [0, 0.2 * 10 - 1e-9], 2),
    ("once in each poll", [0, 1, POLL_SECONDS, POLL_SECONDS + 1, 2 * POLL_SECONDS], 3),
)
def test_what_is_not_ready_is_looked_at_once_in_a_poll(seconds: list[float], looks: int) -> None:
    clock = FakeClock()
    cluster, found = access(clock, replicas=1)
    (action, *_) = numbered_actions(wakes("db"))
    tier = woken([action], found)
    for clock.now in seconds:
        assert tier.first_not_ready() is action
    assert cluster.looks == {"db-0": looks}


def test_what_gets_ready_is_seen_at_the_next_poll() -> None:
    clock = FakeClock()
    cluster, found = access(clock, replicas=1)
    (action, *_) = numbered_actions(wakes("db"))
    tier = woken([action], found)
    assert tier.first_not_ready() is action
    ready = PatchOperation("replace", "/status/readyReplicas", 1)
    cluster.write(Write("patch", action.ref, "apps/v1", patch=(ready,)))
    assert tier.first_not_ready() is action
    clock.now = POLL_SECONDS
    assert [tier.first_not_ready() for _ in range(3)] == [None] * 3
    assert cluster.looks == {"db-0": 2}
