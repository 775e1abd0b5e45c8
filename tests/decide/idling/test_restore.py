"""What `restore` finds, what it leaves, and what it says of that."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState, Verb
from reconciler.decide.idling.idle_workloads import idle_workloads
from reconciler.decide.idling.restore import Restoration, decide_restore, origins
from reconciler.model import FieldWriter
from tests.builders import a_fleet, a_ref, a_run, a_service, a_workload, an_hpa, an_idle_record
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_policy,
    an_idle_world,
    decided,
    of_state,
    run_in,
    workloads_selector,
)
from tests.decide.idling.world import World, a_world

WEB, SERVICE = a_ref("web"), a_ref("web", kind="Service")
AT = "2026-11-20T21:00:00Z"
OWNER = "reconciler/owner"
STAGING, OURS = an_idle_record(4, "staging/IdlingPolicy/night"), an_idle_record(4)
OC = {"idling.alpha.openshift.io/idled-at": AT, "idling.alpha.openshift.io/previous-scale": "4"}


def idle(name: str, annotations: dict[str, str], replicas: int = 0) -> Any:
    return a_workload(name, replicas=replicas, annotations=annotations)


def restored(world: World, **fields: Any) -> DesiredState:
    return decide_restore(a_fleet(), world.state(), a_run(world.now), Restoration(**fields))


def unproven() -> World:
    """Of an idle workload its Service alone tells, and somebody else scaled it last."""
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    web = world.objects[WEB]
    return world.add(replace(web, annotations={}, replicas_writer=FieldWriter("kubectl", NIGHT)))


TARGETS, SCALE_IT = "idling.alpha.openshift.io/unidle-targets", "scale what is behind it"


def listed(targets: str) -> World:
    """What `oc idle` lists on a Service alone."""
    service = a_service(annotations={"idling.alpha.openshift.io/idled-at": AT, TARGETS: targets})
    return a_world(service, idle("web", {}), now=NIGHT)


LEFT = "1 idle object stays idle, as Fleet production did not idle it"


@cases(
    "world fields text partial",
    (
        "another Fleet's alone",
        a_world(idle("web", STAGING), now=NIGHT),
        {},
        f"{LEFT} (1 by Fleet staging); add --adopt to restore it too",
        True,
    ),
    (
        "another Fleet's beside ours",
        a_world(idle("web", STAGING), idle("api", OURS), now=NIGHT),
        {},
        f"{LEFT} (1 by Fleet staging); add --adopt to restore it too",
        False,
    ),
    (
        "two",
        a_world(idle("web", STAGING), idle("api", OC), now=NIGHT),
        {},
        "2 idle objects stay idle, as Fleet production did not idle them (1 by Fleet staging, 1 by somebody else); "
        "add --adopt to restore them too",
        True,
    ),
    (
        "oc idle's",
        a_world(idle("web", OC), now=NIGHT),
        {},
        f"{LEFT} (1 by somebody else); add --adopt to restore it too",
        False,
    ),
    ("a list alone", unproven(), {}, f"{LEFT} (1 only listed on a Service); add --adopt to restore it too", False),
    (
        "of no Fleet",
        a_world(idle("web", OC), now=NIGHT),
        {"any_fleet": True},
        "1 idle object stays idle, as no Fleet idled it (1 by somebody else); add --adopt to restore it too",
        False,
    ),
    ("what runs", a_world(idle("web", STAGING, replicas=2), now=NIGHT), {}, None, False),
    ("adopted", a_world(idle("web", STAGING), now=NIGHT), {"adopt": True}, None, False),
    ("any Fleet's", a_world(idle("web", STAGING), now=NIGHT), {"any_fleet": True}, None, False),
    ("ours", a_world(idle("web", OURS), now=NIGHT), {}, None, False),
    ("a list that is no JSON", listed("[{"), {"adopt": True}, f'{TARGETS} is "[{{", expected JSON; {SCALE_IT}', True),
    (
        "a list of what is not there",
        listed('[{"kind":"DeploymentConfig","group":"apps.openshift.io","name":"web","replicas":2}]'),
        {"adopt": True},
        f"it lists DeploymentConfig.apps.openshift.io web, which is not found here; {SCALE_IT}",
        True,
    ),
    ("such a list, of another policy", listed("[{"), {"adopt": True, "policies": ("nights",)}, None, False),
)
def test_what_is_left_as_others_idled_it(world, fields, text, partial):
    told = [(one.text, one.partial) for one in restored(world, **fields).notices if one.kind == "notAdopted"]
    assert told == ([] if text is None else [(text, partial)])


@pytest.mark.parametrize("group", ['"group":"extensions"', '"apiVersion":"extensions/v1beta1"'])
def test_a_list_with_the_group_of_long_ago_is_adopted(group):
    adopted = restored(listed(f'[{{"kind":"Deployment",{group},"name":"web","replicas":2}}]'), adopt=True)
    assert [(one.verb, one.replicas_after) for one in adopted.decisions if one.ref == WEB] == [(Verb.WAKE, 2)]


def test_what_is_adopted_is_not_said_to_be_left_unchanged():
    assert [one.kind for one in restored(unproven()).notices if one.subject == str(WEB)] == ["unproven"]
    adopted = restored(unproven(), adopt=True)
    assert [one.verb for one in adopted.decisions if one.ref == WEB] == [Verb.WAKE]
    assert [one.kind for one in adopted.notices if one.subject == str(WEB)] == []


@cases(
    "annotations replicas expected partial",
    ("its number can be read", OURS | {"idling.kubernetes.io/idled-at": "x"}, 0, [4], []),
    ("and it runs", OURS | {"idling.kubernetes.io/idled-at": "x"}, 2, [], [True]),
    ("its number cannot be read", OURS | {"idling.kubernetes.io/previous-scale": "x"}, 0, [], [True]),
)
def test_a_broken_record(annotations, replicas, expected, partial):
    found = restored(a_world(idle("web", annotations, replicas), now=NIGHT))
    assert [one.replicas_after for one in found.decisions] == expected
    assert [one.partial for one in found.notices] == partial


@pytest.mark.parametrize(
    ("globs", "names"),
    [((), ["api", "web"]), (("idle-*", "x"), ["web"]), (("x", "*"), ["api", "web"]), (("x",), [])],
    ids=str,
)
def test_of_several_globs_one_is_enough(globs, names):
    batch = OURS | {OWNER: "production/IdlingPolicy/batch"}
    broken = OURS | {"idling.kubernetes.io/previous-scale": "x"}
    world = a_world(idle("web", OURS), idle("api", batch), idle("broken", broken), now=NIGHT)
    assert [one.ref.name for one in restored(world, policies=globs).decisions] == names


def test_origins_are_those_of_the_objects_that_are_named():
    world = a_world(a_workload(), a_workload("api"), a_workload("new", replicas=0), now=NIGHT)
    run_in(world, a_policy(selector=workloads_selector()))
    world.add(idle("api", STAGING))

    def found(*names: str, **fields: Any) -> frozenset[tuple[str, str]]:
        restoration = Restoration(objects=lambda ref: ref.name in names, **fields)
        return origins(a_fleet(), world.state(), a_run(world.now), restoration)

    assert found("web", "new") == {("idle-dev", "0123456789ab")}
    assert found("new") == frozenset()
    assert found("api") == found("api", any_fleet=True) == {("night", "")}


@pytest.mark.parametrize(("fields", "bounds"), [({}, (1, 1)), ({"adopt": True}, (2, 10))])
def test_an_autoscaler_that_another_fleet_holds_is_given_back_only_where_that_is_adopted(fields, bounds):
    autoscaler = an_hpa()
    hpa = autoscaler.ref
    policy = a_policy("nights", idle_replicas=1, selector=workloads_selector())
    world = a_world(a_workload(replicas=5), autoscaler, now=NIGHT)
    run_in(world, policy, fleet=a_fleet(name="staging"))
    assert (world.objects[hpa].minimum, world.objects[hpa].maximum) == (1, 1)
    world.apply(restored(world, **fields).decisions)
    assert (world.objects[hpa].minimum, world.objects[hpa].maximum) == bounds


@cases(
    "marks bounds",
    ("nobody remembers it as idle", {}, (2, 10)),
    ("only its Service still lists it", {"reconciler/awake-since": "2026-11-20T22:00:00Z"}, (2, 10)),
    ("another Fleet idled it", STAGING, (1, 1)),
)
def test_an_autoscaler_that_we_hold_is_given_back_where_nobody_remembers_its_workload_as_idle(marks, bounds):
    autoscaler = an_hpa()
    hpa = autoscaler.ref
    world = a_world(a_service(), a_workload(replicas=5), autoscaler, now=NIGHT)
    run_in(world, a_policy("nights", idle_replicas=1))
    assert (world.objects[hpa].minimum, world.objects[hpa].maximum) == (1, 1)
    if "reconciler/awake-since" not in marks:
        del world.objects[a_service().ref]
    world.add(replace(world.objects[WEB], replicas=5, annotations=marks))
    world.apply(restored(world).decisions)
    assert (world.objects[hpa].minimum, world.objects[hpa].maximum) == bounds


def carried_out(world: World, fleet=None, **wish) -> DesiredState:
    desired = decide_restore(fleet or a_fleet(), world.state(), a_run(world.now), Restoration(**wish))
    world.apply(desired.decisions)
    return desired


class TestWhatItGivesBack:
    def test_a_number_that_only_the_annotation_of_the_scale_has(self):
        world = an_idle_world()
        del world.objects[SERVICE]
        world.annotate(WEB, "idling.kubernetes.io/previous-scale", "many")
        carried_out(world)
        assert world.replicas(WEB) == 3

    @cases("awake_since", ("scaled by hand", None), ("it came back", "2026-11-20T22:00:30Z"))
    def test_what_runs_is_only_freed_of_its_record(self, awake_since):
        world = an_idle_world()
        world.scale(WEB, 7)
        world.annotate(WEB, "reconciler/awake-since", awake_since)
        carried_out(world)
        assert world.replicas(WEB) == 7
        assert "idling.kubernetes.io/previous-scale" not in world.objects[WEB].annotations
        assert ("reconciler/undone" in world.objects[WEB].annotations) is (awake_since is None)

    def test_what_somebody_else_scaled_down_since_is_found_and_woken(self):
        """By `wake` and by `restore`; a run leaves it as it is."""
        world = an_idle_world()
        world.annotate(WEB, "scale.kubernetes.io/scale-reason", "Maintenance")
        (left,) = (one for one in decided(world.state()).desired.explanations if one.ref == WEB)
        assert (left.outcome, left.why) == ("left as it is", "scaled by another writer (scale-reason)")
        (found, *_) = idle_workloads(a_fleet(), world.state(), a_run(world.now), lambda ref: ref == WEB)
        assert found.asked.ref == WEB
        carried_out(world)
        assert world.replicas(WEB) == 3

    def test_a_read_only_cluster_is_told(self):
        world = an_idle_world()
        desired = carried_out(world, of_state("ReadOnly"))
        assert desired.decisions == ()
        assert [notice.kind for notice in desired.notices] == ["overdueWake"]
