"""The choice for a decrease that somebody else asks for: the same as that of a run, and taken off by the next run."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.cli.doctor_findings import ClusterCheck, picker_findings
from reconciler.connection_settings import PickerAnswer
from reconciler.decide.annotations import VICTIM_COST
from reconciler.decide.downscale.decreases_by_others import RECORD, record_text, replicas_in, seen_replicas
from reconciler.decide.downscale.journal import JournalEntry, entry_text
from reconciler.decide.freeze import freezes_text
from reconciler.errors import PickerError
from reconciler.model import ObjectRef, PatchOperation, Write
from reconciler.observe.clusters import observe
from reconciler.observe.needed_objects import EVERYTHING
from reconciler.picker_webhook.admission_review import review_in
from reconciler.picker_webhook.picker import Picker as Webhook
from reconciler.picker_webhook.picker import Result, ReviewAnswer
from reconciler.policy.kinds.downscale_policy import Logarithm
from reconciler.policy.types import Freeze
from reconciler.time_limit import TimeLimit
from tests.builders import NOW, a_run
from tests.cases import cases
from tests.decide.downscale.world import COST, LABEL, PICKER, World, a_world
from tests.fakes import Counted, FakePicker, Killed, Wrapped
from tests.laws import share_of
from tests.picker_webhook.reviews import a_review

PODS = [{"days": days} for days in (12, 11, 10, 9, 8, 7)]
LATER = a_run(NOW + timedelta(minutes=5))


def webhook(world: World, cluster: Any = None) -> Webhook:
    return Webhook(
        world.policies, "east", lambda _: cluster or world.cluster, ("someone",), client=lambda *_: world.picker
    )


def reviewed(world: World, cluster: Any = None, limit: TimeLimit | None = None, **review: Any) -> ReviewAnswer:
    asked = review_in(a_review(**{"kind": world.ref.kind, **review}), "east")
    return webhook(world, cluster).review(asked, limit or TimeLimit(60), NOW)


def a_picked_world(kind: str = "Deployment", *, lets_in: bool = True, **fields: Any) -> World:
    """One with a picker that names what the controller would keep."""
    picker = FakePicker(PickerAnswer(("web-0", "web-1", "web-2")))
    world = a_world(kind, **{"pods": PODS, "pod_picker": PICKER, "picker": picker, **fields})
    return let_in(world) if lets_in else world


def let_in(world: World) -> World:
    """Label the namespace as people do, so that the API server asks the picker."""
    patch = (PatchOperation("add", "/metadata/labels", {"reconciler/picker": "enabled"}),)
    world.cluster.write(Write("patch", ObjectRef("east", "", "Namespace", "shop"), "v1", patch=patch))
    return world


def message(verdict: ReviewAnswer) -> str:
    assert verdict.event is not None
    assert verdict.event.manifest is not None
    return str(verdict.event.manifest["message"])


STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "ZoneBalanced"},
    {"strategy": "NewestFirst"},
    {"strategy": "Logarithmic", "logarithm": Logarithm(10)},
    {"pod_picker": PICKER},
]


@pytest.mark.laws
@pytest.mark.parametrize("fields", STRATEGIES, ids=["zones", "newest", "base 10", "picker"])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
@pytest.mark.parametrize("seed", range(share_of(6)))
def test_the_pods_are_those_of_a_runs_own_decrease(kind: str, fields: dict[str, Any], seed: int) -> None:
    draw = random.Random(seed)
    pods = [
        {"zone": draw.choice("abc"), "days": draw.choice((1, 2, 8, 30)), "ready": draw.random() < 0.8} for _ in range(8)
    ]
    names = [f"web-{index}" for index, pod in enumerate(pods) if pod["ready"]]
    answer = PickerAnswer(tuple(draw.sample(names, min(3, len(names)))))
    target = draw.randint(1, 5)
    fields = {**fields, "picker": FakePicker(answer)}
    by_run, by_webhook = (let_in(a_world(kind, pods=pods, to=target, **fields)) for _ in range(2))

    by_run.run()
    verdict = reviewed(by_webhook, before=8, after=target)
    by_webhook.scale(target)

    assert verdict.result is not Result.UNPICKED
    assert by_webhook.names() == by_run.names()
    assert by_webhook.picker.asked == by_run.picker.asked  # type: ignore[attr-defined]
    by_webhook.run(LATER)
    assert (by_webhook.marked(), by_webhook.costs(), dict(by_webhook.journal())) == ([], {}, {})


def test_the_chosen_pods_are_marked_and_the_next_run_takes_that_off() -> None:
    world = a_picked_world()
    verdict = reviewed(world)
    assert verdict.result is Result.PICKED
    assert world.marked() == ["web-0", "web-1", "web-2"]
    assert message(verdict) == (
        "replicas 6 -> 3 by system:serviceaccount:kube-system:horizontal-pod-autoscaler; "
        "deletes web-0, web-1, web-2 (shrink, PodPicker)"
    )
    assert world.run()[0][0].job == "downscale"  # it waits: the decrease is admitted, and about to be stored
    assert world.marked() == ["web-0", "web-1", "web-2"] or world.names() == ["web-3", "web-4", "web-5"]


def test_a_run_within_a_minute_leaves_what_is_about_to_be_stored_and_a_later_one_does_not() -> None:
    world = a_picked_world(target=None)
    reviewed(world)
    world.run()
    assert len(world.marked()) == 3
    world.run(LATER)  # it was admitted, and refused by somebody else
    assert (world.marked(), dict(world.journal())) == ([], {})
    assert len(world.names()) == 6


@pytest.mark.parametrize(
    "review",
    [
        pytest.param({"after": 6}, id="not a decrease"),
        pytest.param({"after": 7}, id="an increase"),
        pytest.param({"dryRun": True}, id="dry run"),
        pytest.param({"userInfo": {"username": "system:serviceaccount:reconciler:reconciler"}}, id="a run"),
        pytest.param({"userInfo": {"username": "system:serviceaccount:reconciler:reconciler-team-a"}}, id="a tenant"),
        pytest.param({"userInfo": {"username": "someone"}}, id="a user that is named"),
        pytest.param({"after": 0}, id="all go"),
    ],
)
def test_what_is_not_chosen_passes(review: dict[str, Any]) -> None:
    world = a_picked_world()
    assert reviewed(world, **review) == ReviewAnswer(Result.PASSED)
    assert world.marked() == []
    assert world.picker.asked == []  # type: ignore[attr-defined]


def mark(world: World, ref: ObjectRef, **annotations: str) -> None:
    api = "v1" if ref.kind == "Namespace" else "apps/v1"
    patch = (PatchOperation("add", "/metadata/annotations", annotations),)
    world.cluster.write(Write("patch", ref, api, patch=patch))


def excluded(world: World) -> None:
    mark(world, world.ref, **{"reconciler/exclude": "true"})


def excluded_namespace(world: World) -> None:
    mark(world, ObjectRef("east", "", "Namespace", "shop"), **{"reconciler/exclude": "true"})


def a_freeze(world: World) -> None:
    text = freezes_text([Freeze("", "shop", NOW + timedelta(hours=1), "an incident", "somebody")])
    metadata = {"name": "freeze", "namespace": "reconciler"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"freezes": text}}
    world.cluster.write(
        Write("create", ObjectRef("east", "reconciler", "ConfigMap", "freeze"), "v1", manifest=manifest)
    )


def observing(world: World) -> None:
    world.policy = replace(world.policy, mode="Observe")


def like_the_controller(world: World) -> None:
    world.policy = replace(world.policy, pod_picker=None, strategy="Logarithmic")


@pytest.mark.parametrize("change", [excluded, excluded_namespace, a_freeze, observing, like_the_controller])
def test_what_a_run_would_leave_alone_passes(change: Any) -> None:
    world = a_picked_world()
    change(world)
    assert reviewed(world) == ReviewAnswer(Result.PASSED)
    assert (world.marked(), dict(world.journal())) == ([], {})


def test_what_a_deployment_owns_passes() -> None:
    world = a_picked_world()
    old = {"metadata": {"uid": "uid-web-1-ReplicaSet"}, "spec": {"replicas": 6}}
    review = a_review(kind="ReplicaSet", name="web-1", oldObject=old)
    assert webhook(world).review(review_in(review, "east"), TimeLimit(60), NOW) == ReviewAnswer(Result.PASSED)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param(
            {"picker": FakePicker(PickerError("no answer"))}, "no answer; the controller chose", id="fallback"
        ),
        pytest.param(
            {"picker": FakePicker(PickerError("no answer")), "pod_picker": replace(PICKER, on_error="skip")},
            "no answer; left to the next run (onError: skip)",
            id="skip",
        ),
        pytest.param({"picker": FakePicker()}, "the picker has no opinion", id="no opinion"),
        pytest.param(
            {"pods": [{**one, "cost": "-3"} for one in PODS], "on_foreign_cost": "Skip"},
            "foreign deletion costs",
            id="foreign",
        ),
    ],
)
def test_where_nothing_can_be_chosen_an_event_says_why(fields: dict[str, Any], why: str) -> None:
    world = a_picked_world(**fields)
    verdict = reviewed(world)
    assert verdict.result is Result.UNPICKED
    assert "decreased without a picker: " in message(verdict)
    assert why in message(verdict)
    assert world.marked() == []
    assert len(world.journal()) == 1  # so that the next run does not say it again
    world.scale(3)
    world.run(LATER)
    assert dict(world.journal()) == {}


def test_too_late_writes_nothing() -> None:
    world = a_picked_world()
    limit = TimeLimit(0)

    class Slow(Counted):
        def __getattr__(self, name: str) -> Any:
            raise PickerError("not sent")

    assert reviewed(world, Slow(world.cluster), limit).result is Result.UNPICKED
    assert world.marked() == []


class MarkedMeanwhile(Wrapped):
    """A cluster on which another review marks a pod once more as soon as its entry is taken off the journal."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster)
        self.world = world

    def write(self, write: Write) -> None:
        super().write(write)
        if write.ref.kind == "ConfigMap" and any(one.op == "remove" for one in write.patch):
            cost = PatchOperation("add", "/metadata/annotations", {COST: VICTIM_COST})
            self.world.patch_pod("web-0", cost, PatchOperation("add", "/metadata/labels", {"app": "web", LABEL: "a"}))


@pytest.mark.parametrize("foreign", ["Skip", "Override"])
def test_of_two_decreases_at_once_no_cost_stays(foreign: str) -> None:
    world = a_picked_world(target=None, on_foreign_cost=foreign)
    reviewed(world)
    reviewed(world, MarkedMeanwhile(world), after=4)
    world.run(LATER)
    assert (world.marked(), world.costs(), dict(world.journal())) == ([], {}, {})


# What anybody in the cluster could send, and no API server would.


def test_of_a_namespace_that_did_not_opt_in_nothing_is_chosen() -> None:
    world = a_picked_world(lets_in=False)
    assert reviewed(world) == ReviewAnswer(Result.PASSED)
    assert (world.marked(), dict(world.journal())) == ([], {})


@pytest.mark.parametrize(
    "review",
    [
        pytest.param({"name": "api"}, id="of no object"),
        pytest.param({"namespace": "kube-system"}, id="of no namespace that opted in"),
        pytest.param({"namespace": "gone"}, id="of no namespace"),
        pytest.param({"oldObject": {"metadata": {"uid": "1"}, "spec": {"replicas": 6}}}, id="of another object"),
    ],
)
def test_of_what_is_not_there_no_event_speaks(review: dict[str, Any]) -> None:
    world = a_picked_world()
    assert reviewed(world, **review).event is None
    assert (world.marked(), dict(world.journal())) == ([], {})


def test_a_review_of_other_replicas_leaves_the_costs_of_a_decrease_that_is_about_to_be_stored() -> None:
    world = a_picked_world()
    reviewed(world)
    assert reviewed(world, before=5, after=1).why == "its replicas are 6 by now"
    assert world.marked() == ["web-0", "web-1", "web-2"]


def test_during_a_run_of_the_same_workload_its_own_decrease_passes_and_another_one_is_said() -> None:
    world = a_picked_world()
    uid = "uid-web-Deployment"
    entry = JournalEntry(world.ref, uid, 6, 3, (), NOW, "0123456789ab", "shrink")
    world.access().store.write(uid, entry_text(entry), None)
    assert reviewed(world) == ReviewAnswer(Result.PASSED)
    assert "run 0123456789ab scales it down" in reviewed(world, after=4).why
    assert world.marked() == []


def test_a_second_decrease_before_the_next_run_is_chosen_afresh() -> None:
    world = a_picked_world(target=None)
    reviewed(world)
    world.scale(3)
    world.picker.says = PickerAnswer(("web-4",))  # type: ignore[attr-defined]
    assert reviewed(world, before=3, after=2).result is Result.PICKED
    assert world.marked() == ["web-4"]
    world.scale(2)
    assert world.names() == ["web-3", "web-5"]
    world.run(LATER)
    assert (world.marked(), dict(world.journal())) == ([], {})


@pytest.mark.parametrize("stored", [True, False])
def test_a_crash_at_any_moment_loses_nothing(stored: bool) -> None:
    foreign: dict[str, Any] = {"pods": [{**PODS[0], "cost": "7"}, *PODS[1:]], "on_foreign_cost": "Override"}
    whole = a_picked_world(**foreign)
    counted = Counted(whole.cluster)
    reviewed(whole, counted)
    assert counted.calls > 8
    for last in range(1, counted.calls + 1):
        world = a_picked_world(target=None, **foreign)
        with pytest.raises(Killed):
            reviewed(world, Counted(world.cluster, last, after=True))
        if stored:
            world.scale(3)
        world.run(LATER)
        assert (world.marked(), dict(world.journal())) == ([], {})
        assert world.costs() in ({"web-0": "7"}, {})
        assert len(world.names()) == (3 if stored else 6)


# What no picker saw.


def seen(world: World) -> tuple[list[str], dict[str, int]]:
    state = observe(world.policies, {"east": Backend("east", world.cluster)})
    found = seen_replicas(world.policies, state, (), a_run(), whole=True)
    return [message for each in found for _, message in each.decreases], {
        uid: count for each in found for uid, count in replicas_in(each.after).items()
    }


def test_without_a_picker_nothing_is_recorded() -> None:
    world = a_picked_world()
    assert seen(world) == ([], {})


def test_a_decrease_that_no_picker_saw_is_said_once() -> None:
    world = a_picked_world(target=None)
    webhook(world).begin(TimeLimit(60))
    webhook(world).begin(TimeLimit(60))
    assert seen(world) == ([], {"uid-web-Deployment": 6})
    world.access().store.write(RECORD, record_text(seen(world)[1]), record_text({}))
    world.scale(4)
    said, record = seen(world)
    assert said == ["replicas 6 -> 4; decreased without a picker: none was asked, so the controller chose (shrink)"]
    world.access().store.write(RECORD, record_text(record), record_text({"uid-web-Deployment": 6}))
    assert seen(world) == ([], {"uid-web-Deployment": 4})


def test_one_that_a_picker_saw_is_not_said() -> None:
    world = a_picked_world(target=None)
    webhook(world).begin(TimeLimit(60))
    world.access().store.write(RECORD, record_text({"uid-web-Deployment": 6}), record_text({}))
    reviewed(world)
    world.scale(3)
    assert seen(world) == ([], {"uid-web-Deployment": 3})
    world.scale(2)  # while it was down
    assert len(seen(world)[0]) == 1


@cases(
    "label state words",
    ("namespace lets the picker in", True, "OK", "chooses the pods of 1 workload"),
    ("namespace without the label", False, "WARN", "chooses the pods of 0 workloads"),
)
def test_doctor_says_what_it_chooses(label: bool, state: str, words: str) -> None:
    world = a_picked_world(lets_in=label, target=None)
    observed = observe(world.policies, {"east": Backend("east", world.cluster)})

    def check() -> list[Any]:
        backend = Backend(name="east", cluster=world.cluster)
        return list(picker_findings(ClusterCheck("east", backend, world.policies, observed, EVERYTHING, NOW, True)))

    assert check() == []
    webhook(world).begin(TimeLimit(60))
    observed = observe(world.policies, {"east": Backend("east", world.cluster)})
    [found] = check()
    assert (found.check, found.state, bool(found.todo)) == ("picker", state, not label)
    assert words in found.text


def test_of_a_namespace_that_did_not_opt_in_nothing_is_said() -> None:
    world = a_picked_world(lets_in=False, target=None)
    webhook(world).begin(TimeLimit(60))
    world.access().store.write(RECORD, record_text({"uid-web-Deployment": 9}), record_text({}))
    assert seen(world) == ([], {})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"replicas": [1]}', '{"replicas": {"a": "b"}}', "[" * 100_000])
def test_a_record_that_cannot_be_read_says_nothing(text: str) -> None:
    assert replicas_in(text) == {}
