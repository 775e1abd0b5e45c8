"""AdmissionReviews as an API server sends them."""

from __future__ import annotations

import json
from typing import Any

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


def a_review(
    before: int | None = 6, after: int | None = 3, *, kind: str = "Deployment", sub: str = "", **request: Any
) -> bytes:
    """The review of an update of `web` in `shop`; None leaves the replicas out."""
    metadata = {"name": "web", "namespace": "shop", "uid": f"uid-web-{kind}"}

    def an_object(replicas: int | None) -> dict[str, Any]:
        return {"metadata": metadata, "spec": {} if replicas is None else {"replicas": replicas}}

    fields = {
        "uid": UID,
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": f"{kind.lower()}s"},
        "subResource": sub,
        "name": "web",
        "namespace": "shop",
        "operation": "UPDATE",
        "userInfo": {"username": HPA},
        "object": an_object(after),
        "oldObject": an_object(before),
        "dryRun": False,
        **request,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}).encode()
