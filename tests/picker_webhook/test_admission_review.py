"""What an API server asks, and what is none of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.model import ObjectRef
from reconciler.picker_webhook.admission_review import admitted, review_in
from tests.picker_webhook.reviews import HPA, UID, a_review


def test_a_decrease_is_read() -> None:
    found = review_in(a_review(), "east")
    assert (found.uid, found.user, found.dry_run) == (UID, HPA, False)
    assert found.ref == ObjectRef("east", "shop", "Deployment", "web", "apps")
    assert (found.object_uid, found.before, found.after) == ("uid-web-Deployment", 6, 3)


@pytest.mark.parametrize(
    ("fields", "replicas"),
    [
        pytest.param({"before": 3, "after": 0, "sub": "scale"}, (3, 0), id="scale"),
        pytest.param({"before": 3, "after": None, "sub": "scale"}, (3, 0), id="a Scale leaves 0 out"),
        pytest.param({"before": None, "after": 0}, (1, 0), id="a Deployment without replicas has one"),
        pytest.param({"kind": "ReplicaSet"}, (6, 3), id="ReplicaSet"),
        pytest.param({"before": 3, "after": 6}, (3, 6), id="an increase"),
        pytest.param({"operation": "CREATE", "oldObject": None}, (0, 0), id="no update"),
        pytest.param({"operation": "DELETE", "object": None}, (0, 0), id="a deletion"),
        pytest.param({"kind": "StatefulSet"}, (0, 0), id="another kind"),
        pytest.param({"sub": "status"}, (0, 0), id="another subresource"),
        pytest.param({"resource": {"group": "example.com", "resource": "deployments"}}, (0, 0), id="another group"),
    ],
)
def test_which_replicas_a_review_is_about(fields: dict[str, Any], replicas: tuple[int, int]) -> None:
    found = review_in(a_review(**fields), "east")
    assert (found.before, found.after) == replicas


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        a_review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        a_review().replace(b"AdmissionReview", b"TokenReview"),
        a_review().replace(b'"uid"', b'"id"'),
        a_review(object=None),
        a_review(object={"spec": {"replicas": "three"}}),
        a_review(after=-1),  # no journal entry could say it
        a_review(before=2**31),
        json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}).encode(),
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"AdmissionReview|oldObject"):
        review_in(body, "east")


def test_the_answer_is_always_yes() -> None:
    said = json.loads(admitted(UID, "why"))
    assert said["response"] == {"uid": UID, "allowed": True, "warnings": ["why"]}
    assert said | {"response": ""} == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": ""}
    assert json.loads(admitted(UID))["response"] == {"uid": UID, "allowed": True}
