"""What is asked to wake, so that all idle workloads of some name wake, and what would be asked in vain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.idling.idle_workloads import idle_workloads, once_asked
from reconciler.model import ObjectRef
from reconciler.policy.types import Autoscalers, Fleet
from tests.builders import a_fleet, a_run, a_service, a_workload, an_endpoints, an_hpa
from tests.cases import cases
from tests.decide.idling.idling_policies import NIGHT, a_policy, run_in
from tests.decide.idling.world import World, a_world

AT = "2026-11-20T21:00:00Z"
LISTED = "idling.kubernetes.io/unidle-targets"
SEED = {"idling.kubernetes.io/idled-at": AT, LISTED: '[{"kind":"Deployment","name":"web","replicas":4}]'}
RECORD = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "4"}
STAGING = {"reconciler/owner": "staging/IdlingPolicy/night"}


def everything(_ref: ObjectRef) -> bool:
    return True


def of_kinds(*kinds: str) -> Callable[[ObjectRef], bool]:
    return lambda ref: ref.kind in kinds


def asked(
    world: World, named: Callable[[ObjectRef], bool] = everything, fleet: Fleet | None = None
) -> dict[str, tuple[list[str], str]]:
    """KIND/NAME of what is asked -> KIND/NAME of what wakes then, and why it would be in vain."""
    found = idle_workloads(fleet or a_fleet(), world.state(), a_run(world.now), named)
    assert [one.asked.ref for one in found] == sorted(one.asked.ref for one in found)
    return {
        f"{one.asked.ref.kind}/{one.asked.ref.name}": (
            sorted(f"{ref.kind}/{ref.name}" for ref in one.wakes),
            one.problem,
        )
        for one in found
    }


def idled(*objects: Any, policy=None) -> World:
    world = a_world(*(objects or (a_service(), a_workload())), now=NIGHT)
    run_in(world, policy or a_policy())
    world.now += timedelta(minutes=1)
    return world


def test_what_is_asked_of_an_autoscaler_is_in_the_plan_that_is_approved():
    lowers = a_policy(idle_replicas=1, autoscalers=Autoscalers("LowerMinimum"))
    world = idled(a_service(), a_workload(replicas=5), an_hpa(), policy=lowers)
    state, run = world.state(), a_run(world.now)
    refs = {one.asked.ref for one in idle_workloads(a_fleet(), state, run, everything)}
    cluster = once_asked(state.clusters["east"], refs, {"reconciler/wake-requested-at": world.now.isoformat()})
    planned = decide_wakes_due(a_fleet(), replace(state, clusters={"east": cluster}), run)
    assert [(one.verb, one.ref.kind) for one in planned.decisions] == [("wake", "HorizontalPodAutoscaler")]


def of_tier(name: str):
    return a_workload(name, template_labels={"tier": "app"})


class TestWho:
    @cases(
        "named expected",
        ("both", everything, {"Deployment/web": ["Deployment/web"], "Service/web": ["Deployment/web"]}),
        ("itself", of_kinds("Deployment"), {"Deployment/web": ["Deployment/web"]}),
        ("its Service", of_kinds("Service"), {"Service/web": ["Deployment/web"]}),
        ("its Endpoints", of_kinds("Endpoints"), {"Service/web": ["Deployment/web"]}),
        ("neither", of_kinds("StatefulSet"), {}),
    )
    def test_what_is_named(self, named, expected):
        world = idled(a_service(), a_workload(), an_endpoints())
        assert asked(world, named) == {name: (wakes, "") for name, wakes in expected.items()}

    @pytest.mark.parametrize("kind", ["ScaledObject", "Deployment"])
    def test_a_scaled_object_is_asked_under_its_own_name_and_that_of_its_target(self, kind):
        scaled = a_workload("web-so", kind="ScaledObject", replicas=None, scale_target=("Deployment", "web"))
        world = idled(a_service(), a_workload(), scaled)
        assert asked(world, of_kinds(kind)) == {"ScaledObject/web-so": (["ScaledObject/web-so"], "")}

    def test_what_runs_with_a_record_of_ours_wakes_nothing(self):
        record = RECORD | {"reconciler/owner": "production/IdlingPolicy/idle-dev"}
        assert asked(a_world(a_workload(annotations=record), now=NIGHT)) == {"Deployment/web": ([], "")}


class TestInVain:
    @cases(
        "service workload fleet expected",
        (
            "unproven",
            SEED,
            {},
            {},
            "a Service lists it as idle, but it has no record of its own; `restore --adopt` takes its word",
        ),
        ("another tool's", {}, RECORD, {}, ""),
        (
            "another tool's, in a protected namespace",
            {},
            RECORD,
            {"protected_namespaces": ("shop",)},
            "the namespace shop is protected, and this Fleet did not idle it; scale it",
        ),
    )
    def test_whose_word_is_not_ours(self, service, workload, fleet, expected):
        world = a_world(a_service(annotations=service), a_workload(replicas=0, annotations=workload), now=NIGHT)
        assert asked(world, of_kinds("Deployment"), a_fleet(**fleet)) == {
            "Deployment/web": ([] if expected else ["Deployment/web"], expected)
        }

    @pytest.mark.parametrize("holder", ["test", "staging"])
    def test_an_autoscaler_that_a_third_fleet_holds(self, holder):
        held = {
            "reconciler/previous-bounds": '{"minReplicas":2,"maxReplicas":10}',
            "reconciler/owner": f"{holder}/IdlingPolicy/x",
        }
        record = RECORD | STAGING | {"reconciler/idled-to": "1"}
        hpa = an_hpa(minimum=1, maximum=1, annotations=held)
        world = a_world(a_workload(replicas=1, annotations=record), hpa, now=NIGHT)
        ((_, problem),) = asked(world).values()
        assert problem == (
            "Fleet test pins HorizontalPodAutoscaler/web, but did not idle it; `wake --context` gives its bounds back"
            if holder == "test"
            else ""
        )

    def test_a_record_that_cannot_be_read_and_not_the_service_that_wakes_others_too(self):
        broken = RECORD | {
            "idling.kubernetes.io/previous-scale": "many",
            "reconciler/owner": "production/IdlingPolicy/x",
        }
        world = a_world(a_service(), a_workload(replicas=0, annotations=broken), now=NIGHT)
        problem = (
            'idling.kubernetes.io/previous-scale is "many", expected a whole number of at least 1; '
            "`restore` gives back what can be read"
        )
        assert asked(world) == {"Deployment/web": ([], problem)}
        assert asked(world, of_kinds("Service")) == {"Service/web": (["Deployment/web"], "")}

    @pytest.mark.parametrize("name", ["api", "web"])
    def test_of_all_behind_a_service_it_is_told_whichever_it_concerns_and_the_others_wake(self, name):
        listed = '[{"kind":"Deployment","name":"api","replicas":4},{"kind":"Deployment","name":"web","replicas":4}]'
        service = a_service(selector={"tier": "app"}, annotations=SEED | {LISTED: listed})
        objects = [
            replace(of_tier(one), replicas=0, annotations={} if one == name else RECORD) for one in ("api", "web")
        ]
        state = a_world(service, *objects, now=NIGHT).state()
        (request,) = idle_workloads(a_fleet(), state, a_run(NIGHT), of_kinds("Service"))
        assert {ref.name for ref in request.wakes} == {"api", "web"} - {name}
        assert (request.problem, request.in_vain) == (
            f"Deployment/{name} behind it: a Service lists it as idle, but it has no record of its own; "
            "`restore --adopt` takes its word",
            False,
        )
