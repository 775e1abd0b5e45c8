"""A run where activators live: Services are recorded first, what is behind waits for them; what dead ones left goes."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.apply.waits import ACCEPTED_WITHIN_SECONDS, Acceptance, WaitingActions
from reconciler.cli.doctor_findings import activator_finding
from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Decision, DesiredState, FieldChange, Phase, PolicyExplanation, Verb
from reconciler.decide.idling.activators import announced, announcements, clusters_to_ask, with_activators
from reconciler.errors import ForbiddenError
from reconciler.model import ActivatorReplica, EndpointSlice, Lease, ObjectRef, ObservedState, Service
from reconciler.observe.pods import activators_of
from reconciler.plan.json import plan_from_dict
from reconciler.plan.order import numbered_actions
from reconciler.policy.types import PolicySet
from reconciler.time_limit import TimeLimit
from tests.builders import NOW, a_cluster, a_fleet, a_ref, a_service, a_state
from tests.decide.idling.idling_policies import a_policy
from tests.pipeline.calls import Folder
from tests.plans import a_decision

SCENARIO = Path(__file__).parents[1] / "scenarios" / "an-activator-takes-over"
AT = "2026-11-20T22:00:00Z"
SERVICE = a_ref("web", kind="Service")
LIVES = (ActivatorReplica("uid-a", True),)


def a_record(name: str = "web", *, idled_to: str = "0") -> Decision:
    changes = (FieldChange(("metadata", "annotations", "reconciler/idled-to"), None, idled_to),)
    ref = replace(SERVICE, name=name)
    return a_decision(key=f"record/{name}", verb=Verb.RECORD, ref=ref, policy="sleep", changes=changes)


def an_idle(name: str = "web", *needs: str) -> Decision:
    return a_decision(name, key=f"idle/{name}", needs=needs or (f"record/{name}",))


def a_slice(service: str = "web", activator: str = "uid-a") -> EndpointSlice:
    ref = ObjectRef("east", "shop", "EndpointSlice", f"{service}-{activator}", "discovery.k8s.io")
    return EndpointSlice(ref, service, uid="uid-slice", activator=activator)


def a_world(*services: Service, **more: Any) -> ObservedState:
    return a_state(replace(a_cluster(), services=services or (a_service(),), **more))


ON_SIGNAL = PolicySet(a_fleet(), idling=(replace(a_policy(), name="sleep", wake="OnSignal"),))


@pytest.mark.parametrize(
    ("decisions", "state", "expected"),
    [
        pytest.param((a_record(), an_idle()), a_world(), ("east",), id="a Service goes idle at zero"),
        pytest.param((a_record(idled_to="1"), an_idle()), a_world(), (), id="at a floor pods answer"),
        pytest.param((an_idle(),), a_world(), (), id="a workload without a Service"),
        pytest.param((), a_world(), (), id="nothing goes idle"),
        pytest.param((), a_world(endpoint_slices=(a_slice(),)), ("east",), id="an activator has a slice"),
        pytest.param((), a_world(endpoint_slices=(a_slice(activator=""),)), (), id="a slice of others"),
        pytest.param((a_record(), an_idle()), a_world(activators=()), (), id="asked already"),
        pytest.param((replace(a_record(), ref=replace(SERVICE, cluster="west")),), a_world(), (), id="not observed"),
    ],
)
def test_activators_are_asked_about_only_where_it_matters(
    decisions: tuple[Decision, ...], state: ObservedState, expected: tuple[str, ...]
) -> None:
    assert clusters_to_ask(DesiredState(decisions=decisions), ON_SIGNAL, state) == expected


def test_activators_are_not_asked_about_where_nothing_idles() -> None:
    assert clusters_to_ask(DesiredState(), PolicySet(a_fleet()), a_world(endpoint_slices=(a_slice(),))) == ()


@pytest.mark.parametrize(
    ("state", "is_announced"),
    [
        pytest.param(a_world(activators=LIVES), True, id="one lives"),
        pytest.param(
            a_world(activators=(ActivatorReplica("uid-a", False), ActivatorReplica("uid-b", True))),
            True,
            id="one of two",
        ),
        pytest.param(a_world(activators=(ActivatorReplica("uid-a", False),)), False, id="it is dead"),
        pytest.param(a_world(activators=()), False, id="there is none"),
        pytest.param(a_world(), False, id="nothing is known"),
        pytest.param(a_world(a_service(unheld="it is headless"), activators=LIVES), False, id="it cannot be held"),
    ],
)
def test_services_are_recorded_first_where_an_activator_lives(state: ObservedState, is_announced: bool) -> None:
    record, idle = announced((a_record(), an_idle()), state)
    assert (record.phase, idle.phase) == (Phase.ANNOTATE if is_announced else Phase.DECREASE, Phase.DECREASE)
    assert idle.wait_activator is is_announced
    assert [one.subject for one in announcements((record, idle))] == ["east"] * is_announced


def test_what_waits_for_no_record_is_left_as_it_is() -> None:
    others = (an_idle("api", "record/none"), replace(a_record("api", idled_to="1"), key="x"))
    state = a_world(a_service(), a_service("api"), activators=LIVES)
    assert announced((a_record(), *others), state)[1:] == others


def test_a_record_that_is_there_already_counts_with_what_it_says() -> None:
    record = replace(a_record(), changes=())
    state = a_world(a_service(annotations={"reconciler/idled-to": "0"}), activators=LIVES)
    assert announced((record,), state)[0].phase is Phase.ANNOTATE


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(replace(a_record(), phase=Phase.REPAIR), id="a repair"),
        pytest.param(replace(a_record(), verb=Verb.CLEAR, phase=Phase.RECORD, changes=()), id="its record is cleared"),
        pytest.param(replace(a_record(), ref=replace(SERVICE, kind="Endpoints")), id="of its Endpoints"),
    ],
)
def test_only_the_record_of_an_idle_goes_first(record: Decision) -> None:
    state = a_world(a_service(annotations={"reconciler/idled-to": "0"}), activators=LIVES)
    assert announced((record,), state) == (record,)


@pytest.mark.parametrize(
    ("services", "words"),
    [
        (1, "1 Service is recorded as idle first; what is behind is scaled once an activator accepts its connections"),
        (2, "2 Services are recorded as idle first; what is behind is scaled once an activator accepts their connect"),
    ],
)
def test_how_many_services_are_recorded_first_is_told(services: int, words: str) -> None:
    records = [replace(a_record(), phase=Phase.ANNOTATE)] * services
    (notice,) = announcements((*records, an_idle()))
    assert notice.text.startswith(f"east: {words}")


@pytest.mark.parametrize(
    ("activators", "state", "deleted"),
    [
        pytest.param((ActivatorReplica("uid-a", False),), "Active", True, id="its Lease has expired"),
        pytest.param(LIVES, "Active", False, id="it lives"),
        pytest.param(
            (ActivatorReplica("uid-b", False),), "Active", False, id="it has no Lease: maybe in another namespace"
        ),
        pytest.param(None, "Active", False, id="Leases cannot be read"),
        pytest.param((ActivatorReplica("uid-a", False),), "ReadOnly", False, id="a read-only cluster"),
        pytest.param((ActivatorReplica("uid-a", False),), "Frozen", True, id="a frozen cluster"),
    ],
)
def test_slices_of_dead_activators_are_deleted(
    activators: tuple[ActivatorReplica, ...] | None, state: str, deleted: bool
) -> None:
    fleet = a_fleet()
    fleet = replace(fleet, clusters=tuple(replace(one, state=state) for one in fleet.clusters))
    seen = a_world(activators=activators, endpoint_slices=(a_slice(), a_slice("api", "")))
    found = with_activators(DesiredState(), replace(ON_SIGNAL, fleet=fleet), seen).decisions
    assert [(one.verb, one.ref, one.uid) for one in found] == [(Verb.DELETE, a_slice().ref, "uid-slice")] * deleted


def selected(policy: str = "sleep") -> DesiredState:
    why = PolicyExplanation(a_ref("web"), "idling", policy, "", (), services=(SERVICE,))
    return DesiredState(explanations=(why,))


@pytest.mark.parametrize(
    ("desired", "state", "expected"),
    [
        pytest.param(
            selected(),
            a_world(a_service(unheld="it is headless")),
            ["an activator cannot hold its connections: it is headless"],
            id="not to be held, awake",
        ),
        pytest.param(selected(), a_world(), [], id="awake: whether an activator lives is not asked"),
        pytest.param(
            replace(selected(), decisions=(a_record(),)), a_world(), ["no activator is known there"], id="goes idle"
        ),
        pytest.param(selected(), a_world(activators=()), ["no activator is known there"], id="there is none"),
        pytest.param(replace(selected(), decisions=(a_record(),)), a_world(activators=LIVES), [], id="one lives"),
        pytest.param(selected("other"), a_world(activators=()), [], id="of a policy that wakes by itself too"),
    ],
)
def test_what_nobody_can_signal_is_told(desired: DesiredState, state: ObservedState, expected: list[str]) -> None:
    found = with_activators(desired, ON_SIGNAL, state).notices
    said = [f"east: nothing signals shop/web (wake: OnSignal): {why}" for why in expected]
    kind = "notHeld" if "cannot hold" in "".join(expected) else "noSignal"
    assert [(one.kind, one.subject, one.text) for one in found] == [(kind, "east/sleep", one) for one in said]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("ab", "shop/a, shop/b", id="two"),
        pytest.param("abc", "shop/a, shop/b, shop/c", id="three"),
        pytest.param("abcd", "shop/a, shop/b, shop/c and 1 more", id="four"),
        pytest.param("abcde", "shop/a, shop/b, shop/c and 2 more", id="five"),
    ],
)
def test_three_of_those_that_nobody_can_signal_are_named(names: str, expected: str) -> None:
    services = [a_service(name) for name in names]
    why = PolicyExplanation(a_ref(), "idling", "sleep", "", (), services=tuple(one.ref for one in services))
    found = with_activators(DesiredState(explanations=(why,)), ON_SIGNAL, a_world(*services, activators=())).notices
    assert [one.text for one in found] == [
        f"east: nothing signals {expected} (wake: OnSignal): no activator is known there"
    ]


class Asked:
    """A cluster whose slices of activators, and Services, a test sets; and a clock that stands unless it is set."""

    name = "east"

    def __init__(self) -> None:
        self.seconds = 0.0
        self.lists: dict[str, Callable[[], tuple[Any, ...]]] = {
            "EndpointSlice": tuple,
            "Service": lambda: (a_service(annotations={Key.IDLED_AT: AT}),),
        }
        self.asked: list[str] = []

    def list(self, resource: Any, **_: str) -> tuple[Any, ...]:
        self.asked.append(resource.kind)
        return self.lists[resource.kind]()

    def now(self) -> Any:
        return NOW

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def waited(asked: Asked, *services: ObjectRef) -> list[bool]:
    """Ask every second for so long as it waits; return the answers."""
    recorded = {number: Outcome(number, OutcomeStatus.APPLIED) for number in range(len(services))}
    acceptance = Acceptance(recorded)
    acceptance.unrecorded |= enumerate(services)
    access = Access(*([asked] * 4), TimeLimit(clock=asked))  # type: ignore[arg-type]
    found = [acceptance.is_waited_for(access)]
    while found[-1]:
        asked.sleep(1.0)
        found.append(acceptance.is_waited_for(access))
    return found


def refused() -> tuple[Any, ...]:
    raise ForbiddenError("forbidden")


@pytest.mark.parametrize(
    ("lists", "seconds"),
    [
        pytest.param({"EndpointSlice": lambda: (a_slice(),)}, 2, id="accepted: 2 s for the proxies"),
        pytest.param({}, 15, id="never accepted"),
        pytest.param({"Service": lambda: (a_service(),)}, 2, id="woken meanwhile"),
        pytest.param({"EndpointSlice": refused}, 15, id="it cannot be seen"),
        pytest.param({"EndpointSlice": lambda: (a_slice("api"),)}, 15, id="a slice for another Service"),
    ],
)
def test_it_is_waited_for_so_long(lists: Mapping[str, Any], seconds: int) -> None:
    asked = Asked()
    asked.lists |= lists
    assert waited(asked, SERVICE) == [True] * seconds + [False]
    assert asked.asked.count("EndpointSlice") <= 1 + seconds / 2


def test_a_service_that_is_recorded_later_is_waited_for_as_well_and_the_time_begins_anew() -> None:
    asked, done = Asked(), {0: Outcome(0, OutcomeStatus.APPLIED)}
    idle = {Key.IDLED_AT: AT}
    asked.lists["Service"] = lambda: (a_service(annotations=idle), a_service("api", annotations=idle))
    access = Access(*([asked] * 4), TimeLimit(clock=asked))  # type: ignore[arg-type]
    acceptance = Acceptance(done)
    acceptance.unrecorded |= {0: SERVICE, 1: replace(SERVICE, name="api"), 2: replace(SERVICE, name="refused")}
    assert acceptance.is_waited_for(access)
    assert {ref.name for ref in acceptance.missing} == {"web"}
    asked.sleep(ACCEPTED_WITHIN_SECONDS - 5)
    done |= {1: Outcome(1, OutcomeStatus.APPLIED), 2: Outcome(2, OutcomeStatus.FAILED)}
    assert acceptance.is_waited_for(access)
    assert {ref.name for ref in acceptance.missing} == {"web", "api"}
    asked.sleep(ACCEPTED_WITHIN_SECONDS - 1)
    assert acceptance.is_waited_for(access)
    asked.sleep(1)
    assert not acceptance.is_waited_for(access)


def test_a_cluster_that_does_not_answer_keeps_nobody_waiting_on_another_one() -> None:
    slow, quick = Asked(), Asked()
    quick.name = "west"
    asked, answered = threading.Event(), threading.Event()

    def late() -> tuple[Any, ...]:
        asked.set()
        assert answered.wait(60)
        return ()

    slow.lists["EndpointSlice"] = late
    here, there = (Access(*([one] * 4), TimeLimit(clock=one)) for one in (slow, quick))  # type: ignore[arg-type]
    record = replace(a_record(), phase=Phase.ANNOTATE)
    actions = numbered_actions(
        [
            record,
            *(
                replace(an_idle(), ref=replace(a_ref("web"), cluster=name), key=name, needs=(), wait_activator=True)
                for name in ("east", "west")
            ),
        ]
    )
    waits = WaitingActions(actions, {"east": here, "west": there}, TimeLimit(), {1: Outcome(1, OutcomeStatus.APPLIED)})
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(waits.must_wait, actions[1])
        try:
            assert asked.wait(60)
            assert threads.submit(waits.must_wait, actions[2]).result(60)
            assert threads.submit(waits.remark, actions[2]).result(60) == ""
        finally:
            answered.set()
        assert waiting.result(60)


def test_a_lease_is_fresh_for_17_seconds_by_the_clock_of_its_server() -> None:
    asked, ref = Asked(), ObjectRef("east", "reconciler", "Lease", "x", "coordination.k8s.io")
    ages = {"fresh": 17, "late": 18}
    leases = [Lease(ref, pod, NOW - timedelta(seconds=age)) for pod, age in ages.items()] + [
        Lease(ref, "never"),
        Lease(ref),
    ]
    asked.lists["Lease"] = lambda: tuple(leases)
    found = activators_of(asked, "reconciler")  # type: ignore[arg-type]
    assert found == (ActivatorReplica("fresh", True), ActivatorReplica("late", False), ActivatorReplica("never", False))


def a_lease(pod: str, age: float) -> Lease:
    ref = ObjectRef("east", "reconciler", "Lease", pod, "coordination.k8s.io")
    return Lease(ref, pod, NOW - timedelta(seconds=age))


@pytest.mark.parametrize(
    ("leases", "slices", "expected"),
    [
        pytest.param([], {}, ("WARN", "none lives, and policies wait for signals (wake: OnSignal): sleep"), id="none"),
        pytest.param(
            [a_lease("b", 4), a_lease("a", 3.4)],
            {"a": 2, "b": 1},
            ("OK", "2 live, renewed 3 s, 4 s ago, 3 EndpointSlices"),
            id="two live",
        ),
        pytest.param(
            [a_lease("a", 0), a_lease("b", 60)],
            {"b": 2, "c": 1},
            ("WARN", "1 live, renewed 0 s ago, 0 EndpointSlices; 3 EndpointSlices of others that are gone"),
            id="one is gone",
        ),
    ],
)
def test_doctor_tells_of_activators(leases: list[Lease], slices: Mapping[str, int], expected: tuple[str, str]) -> None:
    found = activator_finding(leases, NOW, slices, ON_SIGNAL)
    assert (found.state, found.text) == expected


def test_doctor_is_content_without_activators_where_nothing_waits_for_signals() -> None:
    found = activator_finding([], NOW, {}, PolicySet(a_fleet(), idling=(a_policy(),)))
    assert (found.state, found.text) == ("OK", "none lives")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    shutil.copytree(SCENARIO / "policies", tmp_path / "policies")
    shutil.copytree(SCENARIO / "before", tmp_path / "snapshot")
    return Folder(tmp_path)


def test_all_services_are_recorded_before_anything_is_scaled(folder: Folder) -> None:
    said = folder.plan(AT, "-o", "json")
    plan = plan_from_dict(json.loads(said.out))
    east = [one for one in plan.actions if one.ref.cluster == "east"]
    order = [(one.decision.phase.name, one.ref.name) for one in east]
    assert order == [
        ("REPAIR", "web-activator-b-ipv4"),
        ("ANNOTATE", "api"),
        ("ANNOTATE", "web"),
        ("DECREASE", "api"),
        ("DECREASE", "db"),
        ("DECREASE", "db"),
        ("DECREASE", "web"),
    ]
    waits = {one.ref.name for one in plan.actions if one.decision.wait_activator}
    assert waits == {"api", "web"}
    assert not any(one.decision.wait_activator for one in plan.actions if one.ref.cluster == "west")


def test_a_run_goes_on_without_an_activator_and_says_so(folder: Folder) -> None:
    said = folder.call("apply", "policies", "--snapshot", "snapshot", "--now", AT, "--auto-approve")
    assert said.code == 0, said.err
    assert "went on without an activator: it has no EndpointSlice for east/dev-shop/Service/web yet" in (
        said.out + said.err
    )
    assert "for east/dev-shop/Service/api" not in said.out + said.err
    replicas = {
        key[3]: one["spec"]["replicas"] for key, one in folder.objects().items() if "replicas" in one.get("spec", {})
    }
    assert set(replicas.values()) == {0}


def test_a_saved_plan_of_another_time_of_the_activator_is_carried_out(folder: Folder) -> None:
    folder.write("plan.json", folder.plan(AT, "-o", "json").out)
    lease = folder.path / "snapshot" / "east" / "activators.yaml"
    lease.write_text(lease.read_text().replace("21:59:45Z", "21:00:00Z"))
    said = folder.call("apply", "plan.json", "--policies", "policies", "--snapshot", "snapshot", "--now", AT)
    assert "a fresh plan" not in said.out + said.err, said.out + said.err
    assert said.code == 0, said.err


def test_a_folder_where_leases_were_not_recorded_has_no_activator(folder: Folder) -> None:
    (folder.path / "snapshot" / "east" / "activators.yaml").unlink()
    said = folder.plan(AT)
    assert "recorded as idle first" not in said.out
    assert (
        "east/previews  nothing signals dev-shop/api, dev-shop/web (wake: OnSignal): no activator is known" in said.out
    )
