"""A scale-down from its deletion costs to the cleanup, over a snapshot cluster whose controller obeys them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.apply.outcomes import Failure, Outcome, OutcomeStatus
from reconciler.apply.scale_down import scale_down
from reconciler.connection_settings import PickerAnswer
from reconciler.errors import ClusterError, LockLostError, PickerError, RefusedError, UnreachableError
from reconciler.model import ObjectRef, PatchOperation, Pod, Workload, Write
from reconciler.plan.model import Action
from reconciler.policy.kinds.downscale_policy import Logarithm, ZoneBalanced
from tests.builders import a_run
from tests.cases import cases
from tests.decide.downscale.world import COST, LABEL, PICKER, World, a_pod_manifest, a_world
from tests.fakes import Counted, FakeClock, FakePicker, Wrapped
from tests.laws import share_of

KINDS_WITH_COSTS = ["Deployment", "ReplicaSet", "Rollout", "ReplicationController"]
KINDS = [*KINDS_WITH_COSTS, "CloneSet"]

# By age the controller would take web-0, web-1 and web-2; the zones say web-2, web-3 and web-4.
ZONED = [{"zone": zone, "days": 2.0 ** (index - 3)} for index, zone in enumerate("abcccc")]


def outcome_of(world: World, **options: Any) -> Outcome:
    _, outcomes = world.run(**options)
    return outcomes[-1]


def assert_clean(world: World) -> None:
    assert (world.marked(), dict(world.journal())) == ([], {})


@pytest.mark.parametrize("kind", KINDS)
def test_zone_balanced_takes_what_the_zones_say(kind: str) -> None:
    world = a_world(kind, pods=ZONED, to=3)
    decisions, [outcome] = world.run()
    assert decisions[0].victims is not None
    assert decisions[0].victims.pods == ("web-2", "web-3", "web-4")
    assert outcome == Outcome(1, OutcomeStatus.APPLIED, hit=3)
    assert world.names() == ["web-0", "web-1", "web-5"]
    assert_clean(world)
    assert world.costs() == {}
    assert world.run() == ((), ())


@pytest.mark.parametrize("kind", KINDS)
@cases(
    "fields left",
    ("the newest", {"strategy": "NewestFirst"}, ["web-0", "web-1", "web-2"]),
    ("base 10", {"strategy": "Logarithmic", "logarithm": Logarithm(10)}, ["web-0", "web-4", "web-5"]),
)
def test_what_the_controller_has_no_setting_for_is_done_by_deletion_costs(
    kind: str, fields: dict[str, Any], left: list[str]
) -> None:
    """To base 2 all six have one scale, and the controller would take web-0, web-1 and web-2 by their uids."""
    world = a_world(kind, pods=[{"days": days} for days in (12, 11, 10, 9, 8, 7)], to=3, **fields)
    decisions, [outcome] = world.run()
    assert decisions[0].victims is not None
    assert decisions[0].victims.certain
    assert set(decisions[0].victims.pods).isdisjoint(left)
    assert (outcome.hit, outcome.missed, outcome.substituted) == (3, 0, 0)
    assert world.names() == left
    assert_clean(world)


@pytest.mark.parametrize("kind", KINDS_WITH_COSTS)
def test_without_zones_no_costs_are_written(kind: str) -> None:
    world = a_world(kind, pods=ZONED, to=3, zone_balanced=ZoneBalanced("rack"))
    decisions, [outcome] = world.run()
    assert decisions[0].victims is not None
    assert not decisions[0].victims.certain
    assert "no node has the label rack" in outcome.message
    assert world.names() == ["web-3", "web-4", "web-5"]
    assert dict(world.journal()) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_the_picker_decides(kind: str) -> None:
    picker = FakePicker(PickerAnswer(("web-5",), ("web-4", "web-0")))
    world = a_world(kind, pods=[*ZONED, {"ready": False}], to=4, pod_picker=PICKER, picker=picker)
    decisions, [outcome] = world.run()
    forecast = decisions[0].victims
    assert forecast is not None
    assert (forecast.chosen_at_apply, forecast.count, forecast.requested, forecast.candidates) == (True, 3, 2, 6)
    [asked] = picker.asked
    assert (asked.count, asked.candidates) == (2, ("web-0", "web-1", "web-2", "web-3", "web-4", "web-5"))
    assert asked.namespace == "shop"
    assert (outcome.status, outcome.hit, outcome.missed, outcome.substituted) == (OutcomeStatus.APPLIED, 3, 0, 0)
    assert outcome.message == "a tie at the cut was broken by the controller's order"
    assert world.names() == ["web-1", "web-2", "web-3", "web-4"]
    assert_clean(world)


@pytest.mark.parametrize("kind", ["Deployment", "CloneSet"])
@cases(
    "unready to",
    ("those not Ready suffice", 3, 3),
    ("to one replica", 2, 1),
    ("all go", 2, 0),
)
def test_no_call_where_there_is_nothing_to_choose(kind: str, unready: int, to: int) -> None:
    pods = [{"ready": index >= unready} for index in range(unready + (to or 1))]
    picker = FakePicker(PickerError("pod picker: must not be asked"))
    world = a_world(kind, pods=pods, to=to, pod_picker=PICKER, picker=picker)
    assert outcome_of(world).status is OutcomeStatus.APPLIED
    assert picker.asked == []
    assert len(world.names()) == to
    assert_clean(world)


@cases(
    "on_error status words left",
    ("fallback", "fallback", OutcomeStatus.APPLIED, "tried 1 times; the controller chose (onError: fallback)", 3),
    ("skip", "skip", OutcomeStatus.DEFERRED, "left to the next run (onError: skip)", 6),
)
def test_a_failed_call(on_error: Any, status: OutcomeStatus, words: str, left: int) -> None:
    picker = FakePicker(PickerError("pod picker https://x: status 500, expected an answer; tried 1 times"))
    world = a_world(pods=ZONED, to=3, pod_picker=replace(PICKER, on_error=on_error), picker=picker)
    outcome = outcome_of(world)
    assert (outcome.status, words in outcome.message, outcome.picker_failed) == (status, True, True)
    assert world.names() == ["web-0", "web-1", "web-2", "web-3", "web-4", "web-5"][-left:]
    assert_clean(world)


@cases(
    "picker_fields chosen status failed left",
    ("no opinion", {}, (), OutcomeStatus.APPLIED, False, "345"),
    ("too few, filled", {}, ("web-5",), OutcomeStatus.APPLIED, False, "234"),
    (
        "too few, rejected, skipped",
        {"on_too_few": "reject", "on_error": "skip"},
        ("web-5",),
        OutcomeStatus.DEFERRED,
        True,
        "012345",
    ),
    ("too few, rejected, default order", {"on_too_few": "reject"}, ("web-5",), OutcomeStatus.APPLIED, True, "345"),
)
def test_what_a_picker_may_say(
    picker_fields: dict[str, Any],
    chosen: tuple[str, ...],
    status: OutcomeStatus,
    failed: bool,
    left: str,
) -> None:
    picker = replace(PICKER, **picker_fields)
    world = a_world(pods=ZONED, to=3, pod_picker=picker, picker=FakePicker(PickerAnswer(chosen)))
    outcome = outcome_of(world)
    assert (outcome.status, outcome.picker_failed) == (status, failed)
    assert ("the answer names 1 of 3 pods" in outcome.message) is failed
    assert world.names() == [f"web-{index}" for index in left]
    assert_clean(world)


# While it settles


def begin_rollout(world: World) -> None:
    operations = (PatchOperation("replace", "/status/updatedReplicas", 1),)
    world.cluster.write(Write("patch", world.ref, "apps/v1", patch=operations))


def meanwhile(world: World, happens: Callable[[World], None]) -> Outcome:
    world.clock = FakeClock(while_asleep=lambda: happens(world))
    return outcome_of(world)


def cost_of(name: str, text: str) -> Callable[[World], None]:
    path = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost"
    return lambda world: world.patch_pod(name, PatchOperation("replace", path, text))


def ready(name: str, status: str) -> Callable[[World], None]:
    return lambda world: world.patch_pod(name, PatchOperation("replace", "/status/conditions/0/status", status))


UNREADY = (PatchOperation("replace", "/status/conditions/0/status", "False"),)


def delete(name: str) -> Callable[[World], None]:
    return lambda world: world.cluster.write(Write("delete", ObjectRef("east", "shop", "Pod", name), "v1"))


@pytest.mark.parametrize("kind", KINDS_WITH_COSTS)
@cases(
    "happens words",
    ("a victim is not Ready", ready("web-3", "False"), "web-3 is not Ready any more"),
    ("another pod is not Ready", ready("web-0", "False"), "web-0 is not Ready any more"),
    ("one that would go first is Ready", ready("web-6", "True"), "web-6 is Ready now"),
    ("a victim is gone", delete("web-3"), "web-3 is gone"),
    ("another pod is gone", delete("web-0"), "web-0 is gone"),
    ("somebody scaled", lambda world: world.scale(9), "replicas are 9, expected 7"),
    ("somebody wrote over a cost", cost_of("web-3", "5"), "web-3 no longer has our deletion cost"),
)
def test_what_changes_while_it_settles_undoes_it(kind: str, happens: Callable[[World], None], words: str) -> None:
    world = a_world(kind, pods=[*ZONED, {"ready": False}], to=3)
    outcome = meanwhile(world, happens)
    assert outcome.status is OutcomeStatus.DEFERRED
    assert words in outcome.message
    assert len(world.names()) >= 6
    assert_clean(world)
    assert world.costs() == ({"web-3": "5"} if "no longer has" in words else {})


def make_a_pod(world: World) -> None:
    manifest = a_pod_manifest(9, ("ReplicaSet", "web-1"))
    world.cluster.write(Write("create", ObjectRef("east", "shop", "Pod", "web-9"), "v1", manifest=manifest))


@cases(
    "happens words left",
    ("a new pod", make_a_pod, "web-9 is new", 7),
    ("a rollout", begin_rollout, "a rollout has begun", 6),
)
def test_what_changes_of_a_deployment_while_it_settles_undoes_it(
    happens: Callable[[World], None], words: str, left: int
) -> None:
    world = a_world(pods=ZONED, to=3)
    outcome = meanwhile(world, happens)
    assert (outcome.status, words in outcome.message) == (OutcomeStatus.DEFERRED, True)
    assert len(world.names()) == left
    assert_clean(world)


def test_a_victim_that_is_going_by_itself_keeps_its_mark() -> None:
    world = a_world(pods=ZONED, to=3)
    going = PatchOperation("add", "/metadata/deletionTimestamp", "2026-11-20T15:41:24Z")
    outcome = meanwhile(world, lambda _: world.patch_pod("web-3", going))
    assert (outcome.status, "web-3 is gone" in outcome.message) == (OutcomeStatus.DEFERRED, True)
    assert world.marked() == ["web-3"]
    assert dict(world.journal()) == {}


@pytest.mark.parametrize("cost", ["-2147483648", "-2147483647"])
def test_a_cost_no_higher_than_the_mark_that_turns_up_undoes_it(cost: str) -> None:
    world = a_world(pods=[*ZONED[:-1], ZONED[-1] | {"cost": "7"}], to=4)
    outcome = meanwhile(world, cost_of("web-5", cost))
    assert (outcome.status, outcome.message.count(f"web-5 has a cost of {cost} by now")) == (
        OutcomeStatus.DEFERRED,
        1,
    )
    assert len(world.names()) == 6
    assert_clean(world)


@pytest.mark.parametrize("kind", ["Deployment", "CloneSet"])
def test_the_lock_lost_at_any_write_stops_all_writing(kind: str) -> None:
    """The client finds it out, between the check of the lock and the write; the next run does what is left."""
    for last in itertools.count():
        world = a_world(kind, pods=ZONED, to=3)
        [decision] = world.decided(a_run())
        losing = Losing(world, last)
        outcome = scale_down(Action(1, decision), world.access(losing), a_run(), "reconciler")
        if not world.lock.lost:
            break
        assert losing.writes == last
        lost = "the lock was lost, nothing more is written there"
        if len(world.names()) == 6:
            assert outcome.status is OutcomeStatus.SKIPPED
            assert outcome.message.endswith(lost)
        else:
            assert outcome.status is OutcomeStatus.APPLIED
            assert outcome.message.startswith("scaled, not verified; the next run cleans up: ")
            assert outcome.message.endswith(lost)
        world.lock.lost = False
        world.run()
        assert world.names() == ["web-0", "web-1", "web-5"]
        assert_clean(world)
        assert world.costs() == {}
    assert last > 0
    assert outcome.status is OutcomeStatus.APPLIED


class Losing(Wrapped):
    """A cluster whose lock is lost after `last` writes; `writes` counts those that were done."""

    def __init__(self, world: World, last: int) -> None:
        super().__init__(world.cluster, self._count)
        self._lock = world.lock
        self._last = last
        self.writes = 0

    def _count(self, write: Write) -> None:
        if self.writes == self._last:
            self._lock.lost = True
            raise LockLostError(write.ref)
        self.writes += 1


# Foreign costs


@cases(
    "pods",
    ("a victim has a cost", [*ZONED[:4], ZONED[4] | {"cost": "-10"}, ZONED[5]]),
    ("a pod that stays is below the mark", [ZONED[0] | {"cost": "-2147483648"}, *ZONED[1:]]),
    ("a pod that stays is at the mark", [ZONED[0] | {"cost": "-2147483647"}, *ZONED[1:]]),
)
def test_foreign_costs_are_left_alone(pods: list[dict[str, Any]]) -> None:
    world = a_world(pods=pods, to=4)
    before = world.costs()
    outcome = outcome_of(world)
    assert outcome.status is OutcomeStatus.DEFERRED
    assert "foreign deletion costs on" in outcome.message
    assert len(world.names()) == 6
    assert world.costs() == before
    assert_clean(world)


def test_a_higher_cost_of_a_pod_that_stays_is_nobodys_business() -> None:
    world = a_world(pods=[ZONED[0] | {"cost": "-2147483646"}, *ZONED[1:]], to=3)
    assert outcome_of(world).status is OutcomeStatus.APPLIED
    assert world.names() == ["web-0", "web-1", "web-5"]
    assert world.costs() == {"web-0": "-2147483646"}


def test_foreign_costs_overridden_go_back_to_the_survivors() -> None:
    pods = [
        ZONED[0] | {"cost": "-2147483648"},
        ZONED[1] | {"cost": "12"},
        ZONED[2],
        ZONED[3] | {"cost": "3"},
        *ZONED[4:],
    ]
    world = a_world(pods=pods, to=3, on_foreign_cost="Override")
    outcome = outcome_of(world)
    assert (outcome.status, outcome.hit) == (OutcomeStatus.APPLIED, 3)
    assert world.names() == ["web-0", "web-1", "web-3"]
    assert world.costs() == {"web-0": "-2147483648", "web-1": "12", "web-3": "3"}
    assert_clean(world)


KARPENTER = {"writer": "karpenter"}


def test_the_costs_of_karpenter_are_replaced_and_go_back_to_the_survivors() -> None:
    """It ranks the pods of the nodes that it wants to empty: those of a node that it drains have the lowest cost."""
    costs = ["-2147483648", "-3", None, "-2", "-2147483648", "-1"]
    pods = [one | ({} if cost is None else {"cost": cost, **KARPENTER}) for one, cost in zip(ZONED, costs, strict=True)]
    world = a_world(pods=pods, to=3)
    outcome = outcome_of(world)
    assert (outcome.status, outcome.hit) == (OutcomeStatus.APPLIED, 3)
    assert world.names() == ["web-0", "web-1", "web-2"]  # in a zone the costs say who goes first
    assert world.costs() == {"web-0": "-2147483648", "web-1": "-3"}
    assert_clean(world)


def test_one_cost_of_a_stranger_beside_those_of_karpenter_is_in_the_way() -> None:
    pods = [*(one | {"cost": "-5", **KARPENTER} for one in ZONED[:4]), ZONED[4] | {"cost": "-10", "writer": "spark"}]
    world = a_world(pods=pods, to=2)
    outcome = outcome_of(world)
    assert outcome.status is OutcomeStatus.DEFERRED
    assert outcome.message.endswith("foreign deletion costs on web-4 (-10), expected none (onForeignCost: Skip)")


def test_a_foreign_cost_written_at_the_last_moment_is_not_overwritten() -> None:
    world = a_world(pods=ZONED, to=3, on_foreign_cost="Override")

    class Racing(FakePicker):
        def pick(self, request: Any) -> PickerAnswer:
            add = PatchOperation("add", "/metadata/annotations", {COST: "77"})
            world.patch_pod("web-4", add)
            return PickerAnswer(("web-3", "web-4", "web-5"))

    world.policy = replace(world.policy, pod_picker=PICKER, strategy="Logarithmic")
    world.picker = Racing()
    outcome = outcome_of(world)
    assert outcome.status is OutcomeStatus.STALE
    assert len(world.names()) == 6
    assert world.costs() == {"web-4": "77"}
    assert_clean(world)


# Before it begins


def add_autoscaler(world: World, **behavior: Any) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9} | behavior,
    }
    ref = ObjectRef("east", "shop", "HorizontalPodAutoscaler", "web", "autoscaling")
    world.cluster.write(Write("create", ref, "autoscaling/v2", manifest=manifest))


def add_disabled_autoscaler(world: World) -> None:
    add_autoscaler(world, behavior={"scaleDown": {"selectPolicy": "Disabled"}})


SCALED = "east/shop/Deployment/web: replicas are 8, expected 6; plan again"


@cases(
    "happens ours status words left",
    ("scaled", lambda world: world.scale(8), "reconciler", OutcomeStatus.STALE, SCALED, 6),
    ("a rollout began", begin_rollout, "reconciler", OutcomeStatus.DEFERRED, "rollout", 6),
    ("an autoscaler turned up", add_autoscaler, "reconciler", OutcomeStatus.DEFERRED, "", 6),
    ("an autoscaler that only scales up", add_disabled_autoscaler, "reconciler", OutcomeStatus.APPLIED, "", 3),
    ("our own namespace is never scaled", lambda _: None, "shop", OutcomeStatus.FAILED, "", 6),
)
def test_what_is_found_before_it_begins(
    happens: Callable[[World], None], ours: str, status: OutcomeStatus, words: str, left: int
) -> None:
    world = a_world(pods=ZONED, to=3)
    [decision] = world.decided(a_run())
    happens(world)
    outcome = scale_down(Action(1, decision), world.access(), a_run(), ours)
    assert (outcome.status, words in outcome.message) == (status, True)
    assert len(world.names()) == left
    assert_clean(world)


# What the controller does, and what the server does


def test_a_controller_that_takes_others_is_told() -> None:
    world = a_world(pods=ZONED, to=3, victim_order=lambda pods, count, _: pods[:count])
    outcome = outcome_of(world)
    assert (outcome.status, outcome.hit, outcome.missed, outcome.substituted) == (OutcomeStatus.APPLIED, 1, 2, 2)
    assert outcome.message == "1 of 3 victims went, 2 other pods went"
    assert_clean(world)
    assert world.costs() == {}
    assert world.clock.now >= world.policy.settle_seconds + world.policy.verify_seconds


class Lagging(Wrapped):
    """A cluster whose status of the workload stays as it was."""

    def get(self, resource: Any, namespace: str, name: str) -> Any:
        found = self.inside.get(resource, namespace, name)
        return replace(found, status_replicas=6) if resource.model_type is Workload else found

    def list(self, resource: Any, **options: Any) -> Any:
        found = self.inside.list(resource, **options)
        return tuple(replace(one, status_replicas=6) if resource.model_type is Workload else one for one in found)


def test_costs_stay_while_the_status_lags() -> None:
    pods = [ZONED[0] | {"cost": "-2147483648"}, *ZONED[1:]]
    world = a_world(pods=pods, to=3, on_foreign_cost="Override")
    outcome = outcome_of(world, through=Lagging(world.cluster))
    assert (outcome.status, outcome.hit) == (OutcomeStatus.APPLIED, 3)
    assert outcome.message == "its status did not reach 3 in 30 s"
    assert (world.marked(), len(world.journal())) == (["web-0"], 1)
    assert world.run(through=Lagging(world.cluster)) == ((), ())
    world.run()
    assert world.costs() == {"web-0": "-2147483648"}
    assert_clean(world)


def test_what_an_earlier_run_left_is_put_right_first() -> None:
    """Also where nobody recovered it before, as with a saved plan."""
    world = a_world(pods=[*ZONED[:5], ZONED[5] | {"cost": "5"}], to=3)
    world.policy = replace(world.policy, on_foreign_cost="Override", pod_picker=PICKER, strategy="Logarithmic")
    world.picker = FakePicker(PickerAnswer(("web-0", "web-4", "web-5")))
    [decision] = world.decided(a_run())
    world.clock = FakeClock(while_asleep=lambda: setattr(world.lock, "lost", True))
    assert (
        scale_down(Action(1, decision), world.access(), a_run(id="first"), "reconciler").status is OutcomeStatus.SKIPPED
    )
    assert world.marked() == ["web-0", "web-4", "web-5"]
    world.lock.lost = False
    world.picker = FakePicker(PickerAnswer(("web-1", "web-2", "web-3")))
    outcome = scale_down(Action(1, decision), world.access(), a_run(id="second"), "reconciler")
    assert (outcome.status, outcome.hit) == (OutcomeStatus.APPLIED, 3)
    assert world.names() == ["web-0", "web-4", "web-5"]
    assert world.costs() == {"web-5": "5"}
    assert_clean(world)


class AnswerLost(Wrapped):
    """A cluster that loses the answer to the first write of replicas, which is `done` or not; or it is `late`."""

    def __init__(self, inside: Any, *, done: bool = False) -> None:
        super().__init__(inside, self._lose)
        self._done = done
        self.late: Write | None = None

    def _lose(self, write: Write) -> None:
        scales = any(operation.path == "/spec/replicas" and operation.op == "replace" for operation in write.patch)
        if not scales or self.late:
            return
        self.late = write
        if self._done:
            self.inside.write(write)
        raise UnreachableError("east: no answer in 30 s, expected one")


def test_a_scale_whose_answer_was_lost_is_found_to_be_done() -> None:
    world = a_world(pods=ZONED, to=3)
    assert outcome_of(world, through=AnswerLost(world.cluster, done=True)).status is OutcomeStatus.APPLIED
    assert world.names() == ["web-0", "web-1", "web-5"]
    assert_clean(world)


@cases("arrives", ("late", True), ("never", False))
def test_a_scale_without_an_answer_that_may_still_arrive_finds_the_costs_of_its_victims(arrives: bool) -> None:
    world = a_world(pods=ZONED, to=3)
    through = AnswerLost(world.cluster)
    outcome = outcome_of(world, through=through)
    assert (outcome.status, outcome.event) == (OutcomeStatus.FAILED, "")
    assert outcome.message.endswith("whether it was scaled is not known, the next run corrects it")
    assert (len(world.names()), world.marked()) == (6, ["web-2", "web-3", "web-4"])
    if arrives:
        assert through.late is not None
        world.cluster.write(through.late)
    world.run()
    assert world.names() == ["web-0", "web-1", "web-5"]
    assert_clean(world)
    assert world.costs() == {}


@pytest.mark.laws
@pytest.mark.parametrize("kind", ["Deployment", "CloneSet"])
def test_errors_at_any_call_leave_nothing_dead_and_no_costs(kind: str) -> None:
    """From the nth call on the cluster answers no more, then it does again."""
    whole = a_world(kind, pods=ZONED, to=3)
    counted = Counted(whole.cluster)
    whole.run(through=counted)
    for last in range(1, counted.calls + 1, 3 // share_of(3)):
        world = a_world(kind, pods=ZONED, to=3)
        [decision] = world.decided(a_run())
        failing = Counted(world.cluster, last, fails=lambda: UnreachableError("east: no answer, expected one"))
        first = scale_down(Action(1, decision), world.access(failing), a_run(), "reconciler")
        assert len(world.names()) == 6 or first.status is OutcomeStatus.APPLIED or "next run" in first.message
        world.run()
        assert world.names() == ["web-0", "web-1", "web-5"]
        assert_clean(world)
        assert world.costs() == {}


def test_one_pod_that_takes_no_cost_undoes_the_others() -> None:
    world = a_world(pods=ZONED, to=3)

    def refuse(write: Write) -> None:
        if write.ref.name == "web-3" and write.ref.kind == "Pod":
            raise ClusterError("east/shop/Pod/web-3: no")

    outcome = outcome_of(world, through=Wrapped(world.cluster, refuse))
    assert outcome == Outcome(
        1,
        OutcomeStatus.FAILED,
        "east/shop/Pod/web-3: no",
        failure=Failure("ClusterError", words="east/shop/Pod/web-3: no"),
    )
    assert len(world.names()) == 6
    assert_clean(world)
    assert world.costs() == {}


def test_a_refusal_of_named_pods_is_told_in_the_words_of_whoever_refused() -> None:
    """Where the list of names may be is there already, so there is no other way to ask for it."""
    world = a_world("CloneSet", pods=ZONED, to=3)
    strategy = PatchOperation("add", "/spec/scaleStrategy", {"podsToDelete": []})
    [decision] = world.decided(a_run())
    world.cluster.write(Write("patch", decision.ref, decision.api_version, uid=decision.uid, patch=(strategy,)))

    def refuse(write: Write) -> None:
        if write.patch[-1].path == "/spec/scaleStrategy/podsToDelete":
            raise RefusedError("east: admission webhook quota denied the request: no")

    outcome = outcome_of(world, through=Wrapped(world.cluster, refuse))
    assert (outcome.status, outcome.message) == (
        OutcomeStatus.FAILED,
        "east: admission webhook quota denied the request: no",
    )
    assert len(world.names()) == 6


def test_a_cost_written_over_just_before_it_is_taken_off() -> None:
    world = a_world(pods=ZONED, to=3)
    theirs = PatchOperation("replace", "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost", "5")

    raced: list[Write] = []

    def race(write: Write) -> None:
        if not raced and any(operation.op == "remove" for operation in write.patch):
            raced.append(write)
            world.patch_pod(write.ref.name, theirs)

    world.clock = FakeClock(while_asleep=lambda: world.patch_pod("web-0", *UNREADY))
    outcome = outcome_of(world, through=Wrapped(world.cluster, race))
    assert outcome.status is OutcomeStatus.DEFERRED
    assert list(world.costs().values()) == ["5"]
    assert_clean(world)


def test_a_choice_is_one_patch_with_cost_and_label() -> None:
    world = a_world(pods=ZONED, to=3)
    seen: list[tuple[str, str | None, str | None]] = []

    def look() -> None:
        marked: list[Pod] = [pod for pod in world.pods() if LABEL in pod.labels]
        seen.extend((pod.name, pod.deletion_cost, pod.labels[LABEL]) for pod in marked)

    world.clock = FakeClock(while_asleep=look)
    world.run(a_run(id="run-7"))
    assert seen == [(name, "-2147483647", "run-7") for name in ("web-2", "web-3", "web-4")]


def test_a_run_that_is_asked_to_stop_waits_no_longer_and_takes_the_costs_off() -> None:
    world = a_world("Deployment", pods=ZONED, to=3)
    world.clock.while_asleep = lambda: world.limit.cut("stopped by SIGTERM")
    outcome = outcome_of(world)
    assert outcome.status is OutcomeStatus.DEFERRED
    assert "stopped by SIGTERM; the deletion costs were restored, left to the next run" in outcome.message
    assert world.clock.now < 1
    assert len(world.names()) == 6
    assert_clean(world)
    assert world.costs() == {}
