"""An AdmissionReview of an update of replicas: what the API server asks, and what it is answered.

Source: kubernetes/api admission/v1 types.go, AdmissionReview.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from reconciler.decide.downscale.decreases_by_others import KINDS
from reconciler.model import ObjectRef
from reconciler.untrusted_text import MOST_REPLICAS
from reconciler.workload_kinds import SCALABLE_KINDS

_KINDS = {SCALABLE_KINDS["apps", kind].plural: kind for kind in KINDS}
_VERSION = "admission.k8s.io/v1"


class ScaleReview(Struct, frozen=True):
    """Who asks for which replicas of `ref`; `uid` is that of the review, `object_uid` that of the object.

    `before` and `after` are equal where the request is no update of the replicas of a Deployment or ReplicaSet.
    """

    uid: str
    ref: ObjectRef
    object_uid: str
    user: str
    before: int
    after: int
    dry_run: bool = False


class _Metadata(Struct):
    uid: str = ""


class _Spec(Struct):
    replicas: Annotated[int, Meta(ge=0, le=MOST_REPLICAS)] | None = None


class _Object(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec = field(default_factory=_Spec)


class _Resource(Struct):
    group: str
    resource: str


class _User(Struct):
    username: str = ""


class _Request(Struct, rename="camel"):
    uid: str
    resource: _Resource
    operation: str
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: _User = field(default_factory=_User)
    object: _Object | None = None
    old_object: _Object | None = None
    dry_run: bool | None = None


class _AdmissionReview(Struct, rename="camel"):
    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: _Request


def review_in(body: bytes, cluster: str) -> ScaleReview:
    """Return the review in `body`, about an object of `cluster`.

    Raises:
        ValueError: it is none.
    """
    try:
        request = msgspec.json.decode(body, type=_AdmissionReview).request
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the body is no AdmissionReview of {_VERSION} with a request: {error}") from error
    kind = _KINDS.get(request.resource.resource, "")
    scaled = request.resource.group == "apps" and kind and request.sub_resource in ("", "scale")
    is_update = scaled and request.operation == "UPDATE"
    absent = 0 if request.sub_resource else 1  # a Scale leaves 0 out, and a Deployment has 1 where nothing is said
    before, after = (_replicas(version, absent) if is_update else 0 for version in (request.old_object, request.object))
    return ScaleReview(
        uid=request.uid,
        ref=ObjectRef(cluster, request.namespace, kind or request.resource.resource, request.name, "apps"),
        object_uid=(request.old_object or _Object()).metadata.uid,
        user=request.user_info.username,
        before=before,
        after=after,
        dry_run=bool(request.dry_run),
    )


def _replicas(found: _Object | None, absent: int) -> int:
    if found is None:
        raise ValueError("the request has no object or no oldObject, expected both in an update")
    return absent if found.spec.replicas is None else found.spec.replicas


def admitted(uid: str, warning: str = "") -> bytes:
    """Return the answer to the review `uid`, which is always yes; `warning` is for who asked, "" for none."""
    response = {"uid": uid, "allowed": True, **({"warnings": [warning]} if warning else {})}
    return msgspec.json.encode({"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response})
