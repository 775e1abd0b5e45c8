"""What a change means for the workload, whatever its verb."""

from __future__ import annotations

from typing import Any

from reconciler.decide.decisions import FieldChange, Verb
from reconciler.model import ObjectRef
from reconciler.plan.effects import Effect, effect_of, is_acted_on
from reconciler.plan.model import Action
from tests.builders import a_ref
from tests.cases import cases
from tests.plans import a_decision

LABEL = FieldChange(("metadata", "labels", "app"), None, "x")

OURS = FieldChange(("metadata", "annotations", "reconciler/owner"), None, "x")
THEIRS = FieldChange(("metadata", "annotations", "example.com/x"), None, "x")
SUSPEND = FieldChange(("spec", "suspend"), None, True)
HPA = ObjectRef("east", "shop", "HorizontalPodAutoscaler", "web", "autoscaling")


@cases(
    "verb before after fields expected",
    ("idled to zero replicas", Verb.IDLE, 3, 0, {}, Effect.IDLE),
    ("woken from zero replicas", Verb.WAKE, 0, 3, {}, Effect.WAKE),
    ("idled autoscaler, annotation only", Verb.IDLE, None, None, {"ref": HPA, "changes": (OURS,)}, Effect.IDLE),
    ("scaled up", Verb.SCALE, 1, 3, {}, Effect.UP),
    ("scaled down", Verb.SCALE, 3, 1, {}, Effect.DOWN),
    ("repair to fewer replicas", Verb.REPAIR, 3, 1, {}, Effect.DOWN),
    ("repair of our annotation", Verb.REPAIR, None, None, {"changes": (OURS,)}, Effect.METADATA),
    ("repair of the spec, too", Verb.REPAIR, None, None, {"changes": (OURS, SUSPEND)}, Effect.UPDATE),
    ("repair that adopts", Verb.REPAIR, None, None, {"changes": (OURS,), "event": "Adopted"}, Effect.UPDATE),
    ("release of our annotation", Verb.RELEASE, None, None, {"changes": (OURS,)}, Effect.UPDATE),
    ("record of fewer replicas", Verb.RECORD, 3, 1, {"changes": (OURS,)}, Effect.METADATA),
    ("record of an adoption", Verb.RECORD, None, None, {"changes": (OURS,), "event": "Adopted"}, Effect.METADATA),
    ("annotation of others cleared, too", Verb.CLEAR, None, None, {"changes": (OURS, THEIRS)}, Effect.UPDATE),
    ("workload created", Verb.CREATE, 0, 3, {}, Effect.CREATE),
    ("template overwritten", Verb.OVERWRITE, 3, 3, {}, Effect.OVERWRITE),
    ("workload deleted", Verb.DELETE, 3, 0, {}, Effect.DELETE),
    ("ConfigMap deleted", Verb.DELETE, None, None, {"ref": a_ref(kind="ConfigMap")}, Effect.METADATA),
    ("ConfigMap with remembered state", Verb.REMEMBER, None, None,
     {"changes": (FieldChange(("spec", "x"), 1, 2),), "ref": a_ref(kind="ConfigMap")}, Effect.METADATA),
)  # fmt: skip
def test_what_a_change_means(verb, before, after, fields: dict[str, Any], expected):
    defaults = {"replicas_before": before, "replicas_after": after, "changes": ()}
    assert effect_of(a_decision(verb=verb, **(defaults | fields))) is expected


def test_an_action_tells_what_it_writes():
    action = Action(1, a_decision(changes=(OURS, FieldChange(("spec", "replicas"), 3, 0)), policy="nights"))
    assert (action.verb, action.policy) == ("idle", "nights")
    assert action.before == {"/metadata/annotations/reconciler~1owner": None, "/spec/replicas": 3}
    assert action.after == {"/metadata/annotations/reconciler~1owner": "x", "/spec/replicas": 0}


@cases(
    "change expected",
    ("the spec", SUSPEND, True),
    ("the spec, only tested", FieldChange(("spec", "suspend"), True, True), False),
    ("an annotation of ours", OURS, False),
    ("an annotation of others", THEIRS, True),
    ("an annotation of others, only tested", FieldChange(THEIRS.path, "x", "x"), False),
    ("a label", LABEL, False),
    ("data", FieldChange(("data", "x"), None, "x"), False),
)
def test_what_somebody_else_acts_on(change, expected):
    assert is_acted_on(change) is expected
