"""Marks: exactly as the seed writes them, read in every form that others write."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from reconciler.decide.idling.records import UnidleTarget, read_record, read_service_record
from tests.builders import a_cluster, a_run, a_service, a_state, a_workload
from tests.idling.idling_policies import NIGHT, a_policy, decided, workloads_selector, written

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
    assert marks_of_an_idled_service() == {
        "mark": {
            **both,
            "idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","group":"apps","replicas":3}]',
        },
        "idle": {
            **both,
            "replicas": 0,
            "idling.kubernetes.io/previous-scale": "3",
            "scale.kubernetes.io/scale-reason": "Idled",
            "scale.kubernetes.io/scale-time": "2026-11-20T22:00:00Z",
        },
    }


def test_what_is_written_is_read_back():
    marks = marks_of_an_idled_service()
    annotations = {key: text for key, text in marks["idle"].items() if key != "replicas"}
    reading = read_record(a_workload(replicas=0, annotations=annotations), OURS)
    assert reading.ours
    assert (reading.record.replicas, reading.record.idled_to, reading.record.policy) == (3, 0, "idle-dev")
    assert (reading.record.idled_at, reading.record.wake_due) == (NIGHT, datetime(2026, 11, 23, 6, tzinfo=UTC))
    mark = read_service_record(marks["mark"], OURS, GROUPS).record
    assert (mark.targets, mark.idled_at) == ((UnidleTarget("Deployment", "web", "apps", 3),), NIGHT)


@pytest.mark.parametrize(
    "text",
    [
        '[{"kind":"Deployment","name":"web","group":"apps","replicas":3}]',
        '[{"replicas": 3, "name": "web", "kind": "Deployment"}]',
        '[{"name":"web","kind":"Deployment","apiVersion":"apps/v1","replicas":3}]',
        '[{"name":"web","kind":"Deployment","group":"","replicas":3}]',
    ],
    ids=["ours", "no group, as in the seed", "apiVersion in its place", "an empty group"],
)
def test_targets_are_read_in_any_form(text):
    annotations = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": text}
    reading = read_service_record(annotations, OURS, GROUPS)
    assert reading.record.targets == (UnidleTarget("Deployment", "web", "apps", 3),)
    assert not reading.ours


def test_marks_of_oc_idle_are_read_and_are_not_ours():
    reading = read_service_record(
        {
            "idling.alpha.openshift.io/idled-at": AT,
            "idling.alpha.openshift.io/unidle-targets": '[{"kind":"ReplicationController","name":"web","replicas":2}]',
        },
        OURS,
        GROUPS,
    )
    assert (reading.ours, reading.record.targets) == (False, (UnidleTarget("ReplicationController", "web", "", 2),))


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
    reading = read_service_record(ours | annotations, OURS, GROUPS)
    assert (reading.record, reading.problem) == (None, problem)


OWN = {
    "idling.kubernetes.io/idled-at": AT,
    "idling.kubernetes.io/previous-scale": "3",
    "reconciler/owner": "production/IdlingPolicy/idle-dev",
}


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"idling.kubernetes.io/previous-scale": "three"}, 'previous-scale is "three", expected a whole number'),
        ({"idling.kubernetes.io/previous-scale": "0"}, 'previous-scale is "0", expected a whole number of at least 1'),
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


def test_an_object_without_marks_has_none():
    assert read_record(a_workload(annotations={"reconciler/awake-since": AT}), OURS) is None
    assert read_service_record({"team": "shop"}, OURS, GROUPS) is None


def test_the_owner_that_placement_wrote_on_a_local_replica_set_stays():
    theirs = {"reconciler/owner": "production/FederatedReplicaSet/shop/web"}
    workload = a_workload(kind="ReplicaSet", annotations=theirs)
    policy = a_policy(selector=workloads_selector())
    (idle,) = decided(a_state(a_cluster(workloads=(workload,))), policy).desired.decisions
    assert written(idle)["reconciler/idling-owner"] == "production/IdlingPolicy/idle-dev"
    assert "reconciler/owner" not in written(idle)
    after = theirs | {key: text for key, text in written(idle).items() if key != "replicas"}
    assert read_record(a_workload(kind="ReplicaSet", replicas=0, annotations=after), OURS).ours


def test_marks_on_endpoints_are_written_where_the_policy_wants_them(an_endpoints):
    state = a_state(a_cluster(services=(a_service(),), workloads=(a_workload(),), endpoints=(an_endpoints,)))
    plain = decided(state).desired.decisions
    assert [decision.ref.kind for decision in plain] == ["Service", "Deployment"]
    marked = decided(state, a_policy(mark_endpoints=True)).desired.decisions
    assert [decision.ref.kind for decision in marked] == ["Service", "Endpoints", "Deployment"]
    service, endpoints, deployment = marked
    assert set(written(endpoints)) == {
        "idling.kubernetes.io/idled-at",
        "idling.kubernetes.io/unidle-targets",
        "reconciler/owner",
    }
    assert endpoints.needs == (service.key,)
    assert set(deployment.needs) == {service.key, endpoints.key}
    assert json.loads(written(endpoints)["idling.kubernetes.io/unidle-targets"])[0]["name"] == "web"


@pytest.mark.parametrize(
    ("entry", "group"),
    [
        pytest.param({"kind": "Deployment"}, "apps", id="a kind that is known"),
        pytest.param({"kind": "Widget", "apiVersion": "widgets.example/v1"}, "widgets.example", id="by its apiVersion"),
        pytest.param({"kind": "Widget", "group": "a.example", "apiVersion": "b/v1"}, "a.example", id="its group"),
        pytest.param({"kind": "Widget"}, "", id="nothing says"),
    ],
)
def test_the_group_of_what_a_list_names(entry, group):
    listed = json.dumps([{"name": "web", "replicas": 3, **entry}])
    annotations = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": listed}
    assert [one.group for one in read_service_record(annotations, OURS, GROUPS).record.targets] == [group]
