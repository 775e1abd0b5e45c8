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
from tests.cases import cases
from tests.plans import a_decision

ANNOTATION = ("metadata", "annotations", "reconciler/owner")
POINTER = "/metadata/annotations/reconciler~1owner"


@cases(
    "change expected",
    (
        "a number is tested and replaced",
        FieldChange(("spec", "replicas"), 3, 0),
        [("test", "/spec/replicas", 3), ("replace", "/spec/replicas", 0)],
    ),
    (
        "an absent field is tested to be absent",
        FieldChange(("spec", "replicas"), None, 0),
        [("test", "/spec/replicas", None), ("add", "/spec/replicas", 0)],
    ),
    (
        "an annotation is taken off only where it says what it said",
        FieldChange(ANNOTATION, "me", None),
        [("test", POINTER, "me"), ("remove", POINTER, None)],
    ),
    ("equal values only test", FieldChange(ANNOTATION, "me", "me"), [("test", POINTER, "me")]),
)
def test_patch_of_one_change(change, expected):
    assert list(patch_of([change])) == [PatchOperation(*operation) for operation in expected]


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


@cases(
    "fields verb",
    ("what is created", {"verb": Verb.CREATE, "uid": None, "manifest": {}}, "create"),
    ("a record that is not there", {"verb": Verb.REMEMBER, "uid": None, "manifest": {}}, "create"),
    ("a record that is there", {"verb": Verb.REMEMBER, "uid": "x", "manifest": {}}, "patch"),
    ("a record without manifest", {"verb": Verb.REMEMBER, "uid": "x", "manifest": None}, "patch"),
    ("what nobody knows the uid of", {"verb": Verb.IDLE, "uid": None, "manifest": None}, "patch"),
    ("what is deleted", {"verb": Verb.DELETE, "uid": "x", "manifest": None}, "delete"),
)
def test_which_request_it_is(fields, verb):
    assert write_of(a_decision(**fields)).verb == verb


@pytest.mark.parametrize("end", ["-blue", ".blue"])
def test_an_event_about_a_long_name_has_a_name_that_a_server_takes(end: str) -> None:
    """Source: kubernetes apimachinery pkg/util/validation, IsDNS1123Subdomain."""
    ref = a_ref("a" * 199 + end)
    action = Action(1, a_decision(ref=ref, event="Idled"))
    failure = Outcome(1, OutcomeStatus.FAILED, "no")
    for event in (event_of(action, a_run()), failure_event(action, a_run(), failure)):
        assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", part) for part in event.ref.name.split("."))
