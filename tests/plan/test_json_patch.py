"""A decision as one request: tests first, then changes; maps that are missing are made whole."""

from __future__ import annotations

import re

import pytest

from reconciler.apply.events import event_of, failure_event
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.decisions import FieldChange, Verb, annotation_changes
from reconciler.model import PatchOperation
from reconciler.plan.json_patch import patch_of, write_of
from reconciler.plan.model import Action
from tests.builders import a_ref, a_run
from tests.plan.decisions import a_decision

ANNOTATION = ("metadata", "annotations", "reconciler/owner")
LABEL = "/metadata/labels/app"
POINTER = "/metadata/annotations/reconciler~1owner"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            FieldChange(("spec", "replicas"), 3, 0),
            [("test", "/spec/replicas", 3), ("replace", "/spec/replicas", 0)],
            id="a number is tested and replaced",
        ),
        pytest.param(
            FieldChange(("spec", "replicas"), None, 0),
            [("test", "/spec/replicas", None), ("add", "/spec/replicas", 0)],
            id="an absent field is tested to be absent",
        ),
        pytest.param(
            FieldChange(ANNOTATION, "me", None),
            [("test", POINTER, "me"), ("remove", POINTER, None)],
            id="an annotation is taken off only where it says what it said",
        ),
        pytest.param(FieldChange(ANNOTATION, "me", "me"), [("test", POINTER, "me")], id="equal values only test"),
    ],
)
def test_patch_of_one_change(change, expected):
    assert list(patch_of([change])) == [PatchOperation(*operation) for operation in expected]


def test_all_tests_come_before_the_first_change():
    changes = [FieldChange(("spec", "replicas"), 3, 0), FieldChange(ANNOTATION, None, "me")]
    assert [operation.op for operation in patch_of(changes)] == ["test", "test", "replace", "add"]


def test_a_missing_annotations_map_is_tested_to_be_missing_and_added_whole():
    changes = [FieldChange(("spec", "replicas"), 3, 0), *annotation_changes({}, {"b": "2", "a": "1"})]
    assert list(patch_of(changes, [("metadata", "annotations")])) == [
        PatchOperation("test", "/metadata/annotations", None),
        PatchOperation("test", "/spec/replicas", 3),
        PatchOperation("add", "/metadata/annotations", {"a": "1", "b": "2"}),
        PatchOperation("replace", "/spec/replicas", 0),
    ]


def test_a_missing_map_that_gets_nothing_is_only_tested():
    tested = [FieldChange(ANNOTATION, None, None)]
    assert list(patch_of(tested, [("metadata", "annotations")])) == [
        PatchOperation("test", "/metadata/annotations", None)
    ]


def test_what_does_not_exist_is_created_and_what_goes_is_deleted_by_uid():
    create = write_of(a_decision(verb=Verb.CREATE, uid=None, manifest={"kind": "ReplicaSet"}))
    delete = write_of(a_decision(verb=Verb.DELETE, orphan=True))
    assert (create.verb, create.uid, create.manifest) == ("create", None, {"kind": "ReplicaSet"})
    assert (delete.verb, delete.uid, delete.orphan) == ("delete", "uid-web", True)


@pytest.mark.parametrize(
    ("fields", "verb"),
    [
        pytest.param({"verb": Verb.CREATE, "uid": None, "manifest": {}}, "create", id="what is created"),
        pytest.param({"verb": Verb.REMEMBER, "uid": None, "manifest": {}}, "create", id="a record that is not there"),
        pytest.param({"verb": Verb.REMEMBER, "uid": "x", "manifest": {}}, "patch", id="a record that is there"),
        pytest.param({"verb": Verb.REMEMBER, "uid": "x", "manifest": None}, "patch", id="a record without manifest"),
        pytest.param({"verb": Verb.IDLE, "uid": None, "manifest": None}, "patch", id="what nobody knows the uid of"),
        pytest.param({"verb": Verb.DELETE, "uid": "x", "manifest": None}, "delete", id="what is deleted"),
    ],
)
def test_which_request_it_is(fields, verb):
    assert write_of(a_decision(**fields)).verb == verb


@pytest.mark.parametrize(
    ("missing", "tests"),
    [
        ({}, [POINTER, LABEL]),
        ({"has_annotations": False}, ["/metadata/annotations", LABEL]),
        ({"has_labels": False}, ["/metadata/labels", POINTER]),
        ({"has_annotations": False, "has_labels": False}, ["/metadata/annotations", "/metadata/labels"]),
    ],
    ids=["both maps are there", "no annotations", "no labels", "neither"],
)
def test_a_change_tests_the_maps_that_are_missing(missing, tests):
    changes = (FieldChange(ANNOTATION, None, "me"), FieldChange(("metadata", "labels", "app"), None, "x"))
    write = write_of(a_decision(changes=changes, **missing))
    assert (write.verb, write.uid) == ("patch", "uid-web")
    assert [one.path for one in write.patch if one.op == "test"] == tests


@pytest.mark.parametrize("end", ["-blue", ".blue"])
def test_an_event_about_a_long_name_has_a_name_that_a_server_takes(end: str) -> None:
    """Source: kubernetes apimachinery pkg/util/validation, IsDNS1123Subdomain."""
    ref = a_ref("a" * 199 + end)
    action = Action(1, a_decision(ref=ref, event="Idled"))
    failure = Outcome(1, OutcomeStatus.FAILED, "no")
    for event in (event_of(action, a_run()), failure_event(action, a_run(), failure)):
        assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", part) for part in event.ref.name.split("."))
