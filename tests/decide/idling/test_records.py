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
from tests.cases import cases
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


@cases(
    "annotations problem",
    (
        "no JSON",
        {"idling.kubernetes.io/unidle-targets": "[{"},
        'idling.kubernetes.io/unidle-targets is "[{", expected JSON',
    ),
    (
        "half a character",
        {"idling.kubernetes.io/unidle-targets": '["\\ud800"]'},
        'idling.kubernetes.io/unidle-targets is "["\\ud800"]", expected JSON',
    ),
    (
        "no list",
        {"idling.kubernetes.io/unidle-targets": "{}"},
        "idling.kubernetes.io/unidle-targets is no list, expected a list of targets",
    ),
    (
        "zero is never recorded",
        {"idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","replicas":0}]'},
        'idling.kubernetes.io/unidle-targets lists {"kind":"Deployment","name":"web","replicas":0}, '
        "expected kind, name and replicas of at least 1",
    ),
    (
        "a truth is no number",
        {"idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","replicas":true}]'},
        'idling.kubernetes.io/unidle-targets lists {"kind":"Deployment","name":"web","replicas":true}, '
        "expected kind, name and replicas of at least 1",
    ),
    (
        "no time",
        {"idling.kubernetes.io/idled-at": "yesterday"},
        'idling.kubernetes.io/idled-at is "yesterday", expected a time as in RFC 3339',
    ),
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


@cases(
    "owner ours",
    ("this Fleet", "production/IdlingPolicy/idle-dev", True),
    ("a former name", "prod/IdlingPolicy/idle-dev", True),
    ("another Fleet", "staging/IdlingPolicy/idle-dev", False),
    ("placement's", "production/FederatedReplicaSet/shop/web", False),
    ("a word", "somebody", False),
)
def test_whose_marks(owner, ours):
    assert read_record(a_workload(annotations=OWN | {"reconciler/owner": owner}), OURS).ours is ours


OC_IDLE = ("idling.alpha.openshift.io/idled-at", "idling.alpha.openshift.io/unidle-targets")


def of_oc_idle(world, ref):
    return {key: text for key, text in world.objects[ref].annotations.items() if key in OC_IDLE}


@cases("endpoints", ("Service", False), ("Endpoints too", True))
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


@cases(
    "entry group",
    ("a kind that is known", {"kind": "Deployment"}, "apps"),
    ("by its apiVersion", {"kind": "Widget", "apiVersion": "widgets.example/v1"}, "widgets.example"),
    ("its group", {"kind": "Widget", "group": "a.example", "apiVersion": "b/v1"}, "a.example"),
    ("nothing says", {"kind": "Widget"}, ""),
    ("another group of a kind it knows", {"kind": "Deployment", "group": "a.example"}, "a.example"),
    ("a kind of the core", {"kind": "Widget", "group": "", "apiVersion": "b.example/v1"}, ""),
    ("an empty apiVersion", {"kind": "Deployment", "apiVersion": ""}, "apps"),
    ("a number for its apiVersion", {"kind": "Deployment", "apiVersion": 1}, "apps"),
)
def test_the_group_of_what_a_list_names(entry, group):
    listed = json.dumps([{"name": "web", "replicas": 3, **entry}])
    annotations = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": listed}
    assert [ref.group for ref in read_service_record(a_service().ref, annotations, OURS, GROUPS).record.targets] == [
        group
    ]


@cases(
    "told expected",
    ("the owner alone", {"reconciler/owner": OURS_OWNER}, (LONG_AGO, {})),
    ("an empty list", {"reconciler/owner": OURS_OWNER, TARGETS: "[]"}, (LONG_AGO, {})),
    ("an empty list and a time", {TARGETS: "[]", "idling.kubernetes.io/idled-at": AT}, (TIME, {})),
    ("a list of something without a time", {TARGETS: ONE_TARGET}, None),
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


@cases(
    "writer own copies expected",
    ("our write alone", "reconciler", {}, (), (True, 0)),
    ("a copy that says one", "reconciler", {}, (a_copy("1"),), (True, 1)),
    ("of two copies the higher", "reconciler", {}, (a_copy("4"), a_copy("2")), (True, 4)),
    ("its own", "reconciler", OWN, (), (True, 3)),
    ("its own, higher than a copy", "reconciler", OWN, (a_copy("2"),), (True, 3)),
    ("a copy, higher than its own", "reconciler", OWN, (a_copy("5"),), (True, 5)),
    ("another Fleet's", "reconciler", {}, (a_copy("4", "staging/IdlingPolicy/x"),), (True, 0)),
    ("of an owner that nobody can read", "reconciler", {}, (a_copy("4", "somebody"),), (True, 4)),
    ("its own, the owner broken", "reconciler", {**OWN, "reconciler/owner": "?"}, (), (True, 3)),
    ("no number", "reconciler", {}, (a_copy("many"),), (True, 0)),
    ("an owner without a number", "reconciler", {}, (a_copy(None),), (True, 0)),
    ("of nobody", "reconciler", {}, (a_copy("4", owned=False),), (True, 0)),
    ("somebody else's write", "kubectl", OWN, (a_copy("5"),), (False, 5)),
    ("a write of nobody", None, OWN, (), (False, 3)),
)
def test_what_proves_that_we_idled_it(writer, own, copies, expected):
    web = a_workload(annotations=own, replicas_writer=None if writer is None else FieldWriter(writer, NIGHT))
    assert (is_written_by_us(web), most_recorded(web, most_by_owner((web, *copies), OURS), OURS)) == expected


def idled_on(day: int, previous: int, **more: str) -> dict[str, str]:
    return {**an_idle_record(previous, at=f"2026-11-{day}T20:00:00Z"), **more}


AWAKE_ON_21 = {"reconciler/awake-since": "2026-11-21T07:00:00Z"}
NIGHT_20, NIGHT_21 = idled_on(20, 4), idled_on(21, 5)


@cases(
    "own copies more expected",
    ("one copy", {}, [NIGHT_20], {}, 4),
    ("the newest of two", {}, [NIGHT_21, NIGHT_20], {}, 5),
    ("woken before", AWAKE_ON_21, [NIGHT_21], {}, 5),
    ("its own is there, a copy is of a run whose clock was ahead", NIGHT_20, [NIGHT_21], {}, None),
    ("its own is there", NIGHT_21, [NIGHT_21], {}, None),
    ("no copy", {}, [], {}, None),
    ("woken or released since", AWAKE_ON_21, [NIGHT_20], {}, None),
    ("woken since, which it lost too", {}, [NIGHT_20, AWAKE_ON_21], {}, None),
    ("it runs", {}, [NIGHT_20], {"replicas": 1}, None),
    ("scaled by others", {}, [NIGHT_20], {"replicas_writer": FieldWriter("kubectl", NIGHT)}, None),
    ("another Fleet's", {}, [{**NIGHT_20, "reconciler/owner": "x/IdlingPolicy/x"}], {}, None),
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


@cases(
    "told replicas",
    ("zero is one", {"idled-at": AT, "previous-scale": "0"}, 1),
    ("one", {"idled-at": AT, "previous-scale": "1"}, 1),
    ("two", {"idled-at": AT, "previous-scale": "2"}, 2),
    ("no number", {"idled-at": AT}, None),
    ("no time", {"previous-scale": "2"}, None),
)
def test_the_record_of_oc_idle_on_a_workload(told, replicas):
    annotations = {f"idling.alpha.openshift.io/{key}": text for key, text in told.items()}
    reading = read_record(a_workload(replicas=0, annotations=annotations), OURS)
    assert reading is not None
    assert (reading.ours, reading.record and reading.record.replicas) == (False, replicas)


@cases(
    "kind key text replicas",
    ("a CronJob", "CronJob", "reconciler/previous-suspend", "false", 1),
    ("a CronJob that was suspended", "CronJob", "reconciler/previous-suspend", "true", None),
    ("a CronJob with replicas", "CronJob", "idling.kubernetes.io/previous-scale", "3", None),
    ("a Deployment", "Deployment", "idling.kubernetes.io/previous-scale", "3", 3),
    ("a Deployment of none", "Deployment", "idling.kubernetes.io/previous-scale", "0", None),
    ("a Deployment with suspend", "Deployment", "reconciler/previous-suspend", "false", None),
)
def test_what_a_record_says_it_had(kind, key, text, replicas):
    texts = {"idling.kubernetes.io/idled-at": AT, "reconciler/owner": "production/IdlingPolicy/idle-dev", key: text}
    workload = a_workload(kind=kind, replicas=0, annotations=texts)
    reading = read_record(workload, OURS)
    assert reading is not None
    assert (reading.ours, reading.record and reading.record.replicas) == (True, replicas)
    part = readable_part(workload, NIGHT)
    assert part == (None if replicas is None else Record(NIGHT, replicas))


@cases(
    "texts reason",
    ("a reason of others", {"reason": "Maintenance"}, "Maintenance"),
    ("ours", {"reason": "Idled"}, None),
    ("an empty one", {"reason": ""}, ""),
    ("a time without a reason", {"time": AT}, ""),
    ("neither", {}, None),
    ("idled in the second of its last wake", {"reason": "Maintenance", "awake": AT}, "Maintenance"),
    ("woken since", {"reason": "Maintenance", "awake": "2026-11-20T15:41:24Z"}, None),
    ("no record of its own", {"reason": "Maintenance", "at": None}, None),
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


@cases(
    "entry replicas",
    ("zero is one", {"kind": "Deployment", "name": "web", "replicas": 0}, 1),
    ("one", {"kind": "Deployment", "name": "web", "replicas": 1}, 1),
    ("the most", {"kind": "Deployment", "name": "web", "replicas": 2147483647}, 2147483647),
    ("more", {"kind": "Deployment", "name": "web", "replicas": 2147483648}, None),
    ("less than none", {"kind": "Deployment", "name": "web", "replicas": -1}, None),
    ("no name", {"kind": "Deployment", "name": "", "replicas": 1}, None),
    ("a number for a kind", {"kind": 1, "name": "web", "replicas": 1}, None),
    ("a kind alone", {"kind": "Deployment", "replicas": 1}, None),
    ("a word", "web", None),
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
