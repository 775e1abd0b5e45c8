"""Marks: exactly as the seed writes them, read in every form that others write."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from reconciler.decide.idling.contested import reason_of_others
from reconciler.decide.idling.records import (
    Record,
    is_written_by_us,
    lost_records,
    most_by_owner,
    most_recorded,
    read_record,
    readable_part,
)
from reconciler.decide.idling.service_records import LONG_AGO, read_service_record
from reconciler.decide.last_idled import hours_of
from reconciler.model import FieldWriter, OwnerReference, Workload
from tests.builders import a_cluster, a_ref, a_run, a_service, a_state, a_workload, an_endpoints, an_idle_record
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, decided, notices_of, run_in, written
from tests.decide.idling.world import a_world

OURS = frozenset({"production", "prod"})
GROUPS = {"Deployment": "apps", "ReplicationController": ""}
AT = "2026-11-20T15:41:23Z"
TIME = datetime(2026, 11, 20, 15, 41, 23, tzinfo=UTC)


def marks_of_an_idled_service():
    outcome = decided(
        a_state(a_cluster(services=(a_service(),), workloads=(a_workload(),))), run=a_run(NIGHT, revision="3f2c1ab")
    )
    return {str(decision.verb): written(decision) for decision in outcome.desired.decisions}


def test_the_marks_are_written_as_the_seed_has_them():
    cause = (
        '{"at":"policies/idle-dev.yaml:4","policy":"idle-dev","revision":"3f2c1ab","run":"0123456789ab",'
        '"why":"schedule office-hours-off until 2026-11-23T06:00:00Z"}'
    )
    both = {
        "idling.kubernetes.io/idled-at": "2026-11-20T22:00:00Z",
        "reconciler/owner": "production/IdlingPolicy/idle-dev",
        "reconciler/idled-to": "0",
        "reconciler/wake-due": "2026-11-23T06:00:00Z",
        "reconciler/cause": cause,
    }
    hours = hours_of(a_policy())
    assert marks_of_an_idled_service() == {
        "record": {
            **both,
            "idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","group":"apps","replicas":3}]',
        },
        "idle": {
            **both,
            "replicas": 0,
            "idling.kubernetes.io/previous-scale": "3",
            "scale.kubernetes.io/previous-scale": "3",
            "scale.kubernetes.io/scale-reason": "Idled",
            "scale.kubernetes.io/scale-time": "2026-11-20T22:00:00Z",
            "reconciler/last-idled": (
                f'{{"first":"2026-11-20T22:00:00Z","hours":{{"{hours}":"2026-11-20T22:00:00Z"}},"policy":"idle-dev"}}'
            ),
        },
    }


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        pytest.param(
            {"idling.kubernetes.io/unidle-targets": "[{"},
            'idling.kubernetes.io/unidle-targets is "[{", expected JSON',
            id="no JSON",
        ),
        pytest.param(
            {"idling.kubernetes.io/unidle-targets": '["\\ud800"]'},
            'idling.kubernetes.io/unidle-targets is "["\\ud800"]", expected JSON',
            id="half a character",
        ),
        pytest.param(
            {"idling.kubernetes.io/unidle-targets": "{}"},
            "idling.kubernetes.io/unidle-targets is no list, expected a list of targets",
            id="no list",
        ),
        pytest.param(
            {"idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","replicas":0}]'},
            'idling.kubernetes.io/unidle-targets lists {"kind":"Deployment","name":"web","replicas":0}, '
            "expected kind, name and replicas of at least 1",
            id="zero is never recorded",
        ),
        pytest.param(
            {"idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","replicas":true}]'},
            'idling.kubernetes.io/unidle-targets lists {"kind":"Deployment","name":"web","replicas":true}, '
            "expected kind, name and replicas of at least 1",
            id="a truth is no number",
        ),
        pytest.param(
            {"idling.kubernetes.io/idled-at": "yesterday"},
            'idling.kubernetes.io/idled-at is "yesterday", expected a time as in RFC 3339',
            id="no time",
        ),
    ],
)
def test_a_mark_that_cannot_be_read(annotations, problem):
    ours = {"reconciler/owner": "production/IdlingPolicy/idle-dev", "idling.kubernetes.io/idled-at": AT}
    reading = read_service_record(a_service().ref, ours | annotations, OURS, GROUPS)
    assert (reading.record, reading.problem) == (None, problem)


OURS_OWNER = "production/IdlingPolicy/idle-dev"
TARGETS = "idling.kubernetes.io/unidle-targets"
ONE_TARGET = '[{"kind":"Deployment","name":"web","replicas":3}]'
OWN = an_idle_record(at=AT)


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"idling.kubernetes.io/previous-scale": "three"}, 'previous-scale is "three", expected a whole number'),
        ({"idling.kubernetes.io/previous-scale": "0"}, 'previous-scale is "0", expected a whole number of at least 1'),
        ({"idling.kubernetes.io/previous-scale": "2147483648"}, "expected a whole number of at most 2147483647"),
        ({"idling.kubernetes.io/previous-scale": "-1"}, 'previous-scale is "-1"'),
        ({"idling.kubernetes.io/previous-scale": "٣"}, 'previous-scale is "٣"'),
        ({"idling.kubernetes.io/previous-scale": "99999999999"}, 'previous-scale is "99999999999"'),
        ({"idling.kubernetes.io/idled-at": "2026-11-20T15:41:23"}, "expected a time as in RFC 3339"),
        ({"reconciler/idled-to": "x"}, 'reconciler/idled-to is "x"'),
        ({"reconciler/idled-to": "3"}, "reconciler/idled-to is 3, expected less than the 3 that is recorded"),
    ],
)
def test_a_record_that_cannot_be_read(annotations, problem):
    reading = read_record(a_workload(annotations=OWN | annotations), OURS)
    assert reading.record is None
    assert problem in reading.problem


@pytest.mark.parametrize(
    ("owner", "ours"),
    [
        ("production/IdlingPolicy/idle-dev", True),
        ("prod/IdlingPolicy/idle-dev", True),
        ("staging/IdlingPolicy/idle-dev", False),
        ("production/FederatedReplicaSet/shop/web", False),
        ("somebody", False),
    ],
    ids=["this Fleet", "a former name", "another Fleet", "placement's", "a word"],
)
def test_whose_marks(owner, ours):
    assert read_record(a_workload(annotations=OWN | {"reconciler/owner": owner}), OURS).ours is ours


OC_IDLE = ("idling.alpha.openshift.io/idled-at", "idling.alpha.openshift.io/unidle-targets")


def of_oc_idle(world, ref):
    return {key: text for key, text in world.objects[ref].annotations.items() if key in OC_IDLE}


@pytest.mark.parametrize("endpoints", [False, True], ids=["Service", "Endpoints too"])
def test_a_platform_sees_what_is_idle_as_oc_idle_writes_it(endpoints):
    policy = a_policy(mark_prefix="openshift", mark_endpoints=endpoints)
    world = a_world(a_service(), a_workload(), an_endpoints(), now=NIGHT)
    run_in(world, policy)
    service, ends = a_service().ref, an_endpoints().ref
    expected = {
        OC_IDLE[0]: "2026-11-20T22:00:00Z",
        OC_IDLE[1]: '[{"kind":"Deployment","name":"web","group":"apps","replicas":3}]',
    }
    assert of_oc_idle(world, service) == expected
    assert of_oc_idle(world, ends) == (expected if endpoints else {})
    assert run_in(world, policy).desired.decisions == ()
    world.now = MONDAY
    run_in(world, policy)
    assert (of_oc_idle(world, service), of_oc_idle(world, ends), world.replicas(a_ref())) == ({}, {}, 3)


@pytest.mark.parametrize("on_revert", ["Yield", "Insist"])
def test_what_a_platform_woke_counts_as_scaled_by_hand_and_its_marks_go(on_revert):
    policy = a_policy(mark_prefix="openshift", on_revert=on_revert)
    world = a_world(a_service(), a_workload(), now=NIGHT)
    service = a_service().ref
    for _ in range(3):  # traffic on several nights is no contest
        assert notices_of(run_in(world, policy), "contested") == []
        assert world.replicas(a_ref()) == 0
        for key in OC_IDLE:  # as its unidling does, which knows no others
            world.annotate(service, key, None)
        world.scale(a_ref(), 3, "openshift-controller-manager")
        world.now += timedelta(minutes=5)
        run_in(world, policy)
        run_in(world, policy)
        assert world.replicas(a_ref()) == 3
        assert of_oc_idle(world, service) == {}
        assert "idling.kubernetes.io/idled-at" not in world.objects[service].annotations
        world.now += timedelta(days=7)


def test_a_policy_that_wants_them_no_longer_takes_them_off_with_the_wake():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world, a_policy(mark_prefix="openshift"))
    world.now += timedelta(minutes=5)
    assert run_in(world, a_policy()).desired.decisions == ()
    world.now = MONDAY
    run_in(world, a_policy())
    assert of_oc_idle(world, a_service().ref) == {}


@pytest.mark.parametrize(
    ("entry", "group"),
    [
        pytest.param({"kind": "Deployment"}, "apps", id="a kind that is known"),
        pytest.param({"kind": "Widget", "apiVersion": "widgets.example/v1"}, "widgets.example", id="by its apiVersion"),
        pytest.param({"kind": "Widget", "group": "a.example", "apiVersion": "b/v1"}, "a.example", id="its group"),
        pytest.param({"kind": "Widget"}, "", id="nothing says"),
        pytest.param({"kind": "Deployment", "group": "a.example"}, "a.example", id="another group of a kind it knows"),
        pytest.param({"kind": "Widget", "group": "", "apiVersion": "b.example/v1"}, "", id="a kind of the core"),
        pytest.param({"kind": "Deployment", "apiVersion": ""}, "apps", id="an empty apiVersion"),
        pytest.param({"kind": "Deployment", "apiVersion": 1}, "apps", id="a number for its apiVersion"),
    ],
)
def test_the_group_of_what_a_list_names(entry, group):
    listed = json.dumps([{"name": "web", "replicas": 3, **entry}])
    annotations = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": listed}
    assert [ref.group for ref in read_service_record(a_service().ref, annotations, OURS, GROUPS).record.targets] == [
        group
    ]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param({"reconciler/owner": OURS_OWNER}, (LONG_AGO, {}), id="the owner alone"),
        pytest.param({"reconciler/owner": OURS_OWNER, TARGETS: "[]"}, (LONG_AGO, {}), id="an empty list"),
        pytest.param({TARGETS: "[]", "idling.kubernetes.io/idled-at": AT}, (TIME, {}), id="an empty list and a time"),
        pytest.param({TARGETS: ONE_TARGET}, None, id="a list of something without a time"),
    ],
)
def test_a_service_without_a_time(told, expected):
    reading = read_service_record(a_service().ref, told, OURS, GROUPS)
    assert reading is not None
    found = reading.record
    assert (None if found is None else (found.idled_at, found.targets)) == expected


def a_copy(previous: str | None, owner: str = OURS_OWNER, *, owned: bool = True) -> Workload:
    """A ReplicaSet of Deployment/web, with a record that the Deployment controller copied to it."""
    texts = {"idling.kubernetes.io/previous-scale": previous, "reconciler/owner": owner}
    annotations = {key: text for key, text in texts.items() if text is not None}
    by = OwnerReference("apps/v1", "Deployment", "web", a_workload().uid)
    return a_workload("web-1", kind="ReplicaSet", annotations=annotations, owner=by if owned else None)


@pytest.mark.parametrize(
    ("writer", "own", "copies", "expected"),
    [
        pytest.param("reconciler", {}, (), (True, 0), id="our write alone"),
        pytest.param("reconciler", {}, (a_copy("1"),), (True, 1), id="a copy that says one"),
        pytest.param("reconciler", {}, (a_copy("4"), a_copy("2")), (True, 4), id="of two copies the higher"),
        pytest.param("reconciler", OWN, (), (True, 3), id="its own"),
        pytest.param("reconciler", OWN, (a_copy("2"),), (True, 3), id="its own, higher than a copy"),
        pytest.param("reconciler", OWN, (a_copy("5"),), (True, 5), id="a copy, higher than its own"),
        pytest.param("reconciler", {}, (a_copy("4", "staging/IdlingPolicy/x"),), (True, 0), id="another Fleet's"),
        pytest.param("reconciler", {}, (a_copy("4", "somebody"),), (True, 4), id="of an owner that nobody can read"),
        pytest.param("reconciler", {**OWN, "reconciler/owner": "?"}, (), (True, 3), id="its own, the owner broken"),
        pytest.param("reconciler", {}, (a_copy("many"),), (True, 0), id="no number"),
        pytest.param("reconciler", {}, (a_copy(None),), (True, 0), id="an owner without a number"),
        pytest.param("reconciler", {}, (a_copy("4", owned=False),), (True, 0), id="of nobody"),
        pytest.param("kubectl", OWN, (a_copy("5"),), (False, 5), id="somebody else's write"),
        pytest.param(None, OWN, (), (False, 3), id="a write of nobody"),
    ],
)
def test_what_proves_that_we_idled_it(writer, own, copies, expected):
    web = a_workload(annotations=own, replicas_writer=None if writer is None else FieldWriter(writer, NIGHT))
    assert (is_written_by_us(web), most_recorded(web, most_by_owner((web, *copies), OURS), OURS)) == expected


def idled_on(day: int, previous: int, **more: str) -> dict[str, str]:
    return {**an_idle_record(previous, at=f"2026-11-{day}T20:00:00Z"), **more}


AWAKE_ON_21 = {"reconciler/awake-since": "2026-11-21T07:00:00Z"}
NIGHT_20, NIGHT_21 = idled_on(20, 4), idled_on(21, 5)


@pytest.mark.parametrize(
    ("own", "copies", "more", "expected"),
    [
        pytest.param({}, [NIGHT_20], {}, 4, id="one copy"),
        pytest.param({}, [NIGHT_21, NIGHT_20], {}, 5, id="the newest of two"),
        pytest.param(AWAKE_ON_21, [NIGHT_21], {}, 5, id="woken before"),
        pytest.param(NIGHT_20, [NIGHT_21], {}, None, id="its own is there, a copy is of a run whose clock was ahead"),
        pytest.param(NIGHT_21, [NIGHT_21], {}, None, id="its own is there"),
        pytest.param({}, [], {}, None, id="no copy"),
        pytest.param(AWAKE_ON_21, [NIGHT_20], {}, None, id="woken or released since"),
        pytest.param({}, [NIGHT_20, AWAKE_ON_21], {}, None, id="woken since, which it lost too"),
        pytest.param({}, [NIGHT_20], {"replicas": 1}, None, id="it runs"),
        pytest.param({}, [NIGHT_20], {"replicas_writer": FieldWriter("kubectl", NIGHT)}, None, id="scaled by others"),
        pytest.param({}, [{**NIGHT_20, "reconciler/owner": "x/IdlingPolicy/x"}], {}, None, id="another Fleet's"),
    ],
)
def test_a_record_that_is_gone_is_found_on_what_the_workload_owns(own, copies, more, expected):
    ours = {"replicas": 0, "replicas_writer": FieldWriter("reconciler", NIGHT), "annotations": own}
    web = a_workload(**(ours | more))
    by = OwnerReference("apps/v1", "Deployment", "web", web.uid)
    sets = [
        a_workload(f"web-{place}", kind="ReplicaSet", annotations=copied, owner=by)
        for place, copied in enumerate(copies)
    ]
    every = (web, *sets)
    readings = {one.ref: found for one in every if (found := read_record(one, OURS)) is not None}
    found = lost_records(every, readings)
    assert {ref: record.replicas for ref, record in found.items()} == ({} if expected is None else {web.ref: expected})


@pytest.mark.parametrize(
    ("told", "replicas"),
    [
        pytest.param({"idled-at": AT, "previous-scale": "0"}, 1, id="zero is one"),
        pytest.param({"idled-at": AT, "previous-scale": "1"}, 1, id="one"),
        pytest.param({"idled-at": AT, "previous-scale": "2"}, 2, id="two"),
        pytest.param({"idled-at": AT}, None, id="no number"),
        pytest.param({"previous-scale": "2"}, None, id="no time"),
    ],
)
def test_the_record_of_oc_idle_on_a_workload(told, replicas):
    annotations = {f"idling.alpha.openshift.io/{key}": text for key, text in told.items()}
    reading = read_record(a_workload(replicas=0, annotations=annotations), OURS)
    assert reading is not None
    assert (reading.ours, reading.record and reading.record.replicas) == (False, replicas)


@pytest.mark.parametrize(
    ("kind", "key", "text", "replicas"),
    [
        pytest.param("CronJob", "reconciler/previous-suspend", "false", 1, id="a CronJob"),
        pytest.param("CronJob", "reconciler/previous-suspend", "true", None, id="a CronJob that was suspended"),
        pytest.param("CronJob", "idling.kubernetes.io/previous-scale", "3", None, id="a CronJob with replicas"),
        pytest.param("Deployment", "idling.kubernetes.io/previous-scale", "3", 3, id="a Deployment"),
        pytest.param("Deployment", "idling.kubernetes.io/previous-scale", "0", None, id="a Deployment of none"),
        pytest.param("Deployment", "reconciler/previous-suspend", "false", None, id="a Deployment with suspend"),
    ],
)
def test_what_a_record_says_it_had(kind, key, text, replicas):
    texts = {"idling.kubernetes.io/idled-at": AT, "reconciler/owner": "production/IdlingPolicy/idle-dev", key: text}
    workload = a_workload(kind=kind, replicas=0, annotations=texts)
    reading = read_record(workload, OURS)
    assert reading is not None
    assert (reading.ours, reading.record and reading.record.replicas) == (True, replicas)
    part = readable_part(workload, NIGHT)
    assert part == (None if replicas is None else Record(NIGHT, replicas))


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        pytest.param({"reason": "Maintenance"}, "Maintenance", id="a reason of others"),
        pytest.param({"reason": "Idled"}, None, id="ours"),
        pytest.param({"reason": ""}, "", id="an empty one"),
        pytest.param({"time": AT}, "", id="a time without a reason"),
        pytest.param({}, None, id="neither"),
        pytest.param({"reason": "Maintenance", "awake": AT}, "Maintenance", id="idled in the second of its last wake"),
        pytest.param({"reason": "Maintenance", "awake": "2026-11-20T15:41:24Z"}, None, id="woken since"),
        pytest.param({"reason": "Maintenance", "at": None}, None, id="no record of its own"),
    ],
)
def test_for_which_reason_others_scaled_it(texts, reason):
    keys = {
        "reason": "scale.kubernetes.io/scale-reason",
        "time": "scale.kubernetes.io/scale-time",
        "awake": "reconciler/awake-since",
        "at": "idling.kubernetes.io/idled-at",
    }
    found = {keys[key]: text for key, text in ({"at": AT} | texts).items() if text is not None}
    assert reason_of_others(a_workload(replicas=0, annotations=found), Record(TIME, 3)) == reason


@pytest.mark.parametrize(
    ("entry", "replicas"),
    [
        pytest.param({"kind": "Deployment", "name": "web", "replicas": 0}, 1, id="zero is one"),
        pytest.param({"kind": "Deployment", "name": "web", "replicas": 1}, 1, id="one"),
        pytest.param({"kind": "Deployment", "name": "web", "replicas": 2147483647}, 2147483647, id="the most"),
        pytest.param({"kind": "Deployment", "name": "web", "replicas": 2147483648}, None, id="more"),
        pytest.param({"kind": "Deployment", "name": "web", "replicas": -1}, None, id="less than none"),
        pytest.param({"kind": "Deployment", "name": "", "replicas": 1}, None, id="no name"),
        pytest.param({"kind": 1, "name": "web", "replicas": 1}, None, id="a number for a kind"),
        pytest.param({"kind": "Deployment", "replicas": 1}, None, id="a kind alone"),
        pytest.param("web", None, id="a word"),
    ],
)
def test_what_oc_idle_lists(entry, replicas):
    texts = {"idled-at": AT, "unidle-targets": json.dumps([entry])}
    reading = read_service_record(
        a_service().ref, {f"idling.alpha.openshift.io/{key}": texts[key] for key in texts}, OURS, GROUPS
    )
    assert reading is not None
    assert not reading.ours
    assert list(reading.record.targets.values()) == [replicas] if reading.record else replicas is None


def test_of_two_entries_of_one_name_the_higher_number_counts():
    entries = [{"kind": "Deployment", "name": "web", "replicas": number} for number in (2, 5, 3)]
    texts = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": json.dumps(entries)}
    reading = read_service_record(a_service().ref, texts, OURS, GROUPS)
    assert reading is not None
    assert reading.record is not None
    assert list(reading.record.targets.values()) == [5]


@pytest.mark.parametrize("key", ["idled-at", "unidle-targets"])
def test_one_annotation_of_oc_idle_is_a_record(key):
    assert read_service_record(a_service().ref, {f"idling.alpha.openshift.io/{key}": "x"}, OURS, GROUPS) is not None
