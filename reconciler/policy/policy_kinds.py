"""The kinds of policies, one row each: its document, what becomes of it, and what of it names other things.

The job that decides by a policy is not in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from reconciler.messages import Path
from reconciler.policy.kinds.calendar import CalendarDocument, calendar_policy_of
from reconciler.policy.kinds.document import Calendars, PolicyDocument
from reconciler.policy.kinds.document_fields import read
from reconciler.policy.kinds.downscale_policy import (
    PICKER,
    POD_PICKER,
    DeploymentDocument,
    DownscalePolicyDocument,
    deployment_of,
    downscale_policy_of,
)
from reconciler.policy.kinds.federated_replica_set import FederatedReplicaSetDocument, federated_replica_set_of
from reconciler.policy.kinds.fleet import FleetDocument, fleet_of
from reconciler.policy.kinds.idling_policy import IdlingPolicyDocument, idling_policy_of
from reconciler.policy.kinds.replica_set import ANNOTATION, PRODUCTION_ANNOTATION, ReplicaSetDocument, replica_set_of
from reconciler.policy.types import PolicySet
from reconciler.yaml.documents import Document

_NAMESPACE: Path = ("metadata", "namespace")
_PRODUCTION: Path = ("spec", "production")


class _PolicyKind(Struct, frozen=True, kw_only=True):
    """What is known of a kind of policies. Paths are those of fields; None: it has none.

    `build` makes the policy of a document and its fields; problems are gathered in the document. `into` is the field of
    a PolicySet that has the policies of the kind.
    """

    document: type[Struct]
    build: Callable[[PolicyDocument, Any], Any]
    into: str
    form_of: str = ""  # the kind that it is another way to write
    equals: str = ""  # what happens to an object that two policies of equal priority select; "": it has no selector
    namespace: Path | None = None  # where it names the one namespace that it is for
    clusters: Path | None = None  # of a mapping by the name of a cluster
    pod_picker: Path | None = None
    production: Path | None = None  # where it says that it selects production


def policy_document(
    source: Document, kind: str, tenant: str = "", calendars: Calendars | None = None
) -> PolicyDocument:
    """Return a document of `kind` with the policy that it states, and all that is wrong with it."""
    document, row = PolicyDocument(source, kind, tenant, calendars), POLICY_KINDS[kind]
    fields: Any = read(document, kind, row.document)
    document.spec = fields.spec
    document.policy = row.build(document, fields)
    return document


POLICY_KINDS = {
    "Fleet": _PolicyKind(document=FleetDocument, build=fleet_of, into="fleet"),
    "IdlingPolicy": _PolicyKind(
        document=IdlingPolicyDocument,
        build=idling_policy_of,
        into="idling",
        equals="is not newly idled",
        production=_PRODUCTION,
    ),
    "Calendar": _PolicyKind(document=CalendarDocument, build=calendar_policy_of, into="calendars"),
    "FederatedReplicaSet": _PolicyKind(
        document=FederatedReplicaSetDocument,
        build=federated_replica_set_of,
        into="federated",
        namespace=_NAMESPACE,
        clusters=("spec", "preferences", "clusters"),
        pod_picker=("spec", "downscalePodPicker"),
        production=_PRODUCTION,
    ),
    "DownscalePolicy": _PolicyKind(
        document=DownscalePolicyDocument,
        build=downscale_policy_of,
        into="downscale",
        equals="is not changed",
        pod_picker=POD_PICKER,
        production=_PRODUCTION,
    ),
    "ReplicaSet": _PolicyKind(
        document=ReplicaSetDocument,
        build=replica_set_of,
        into="federated",
        form_of="FederatedReplicaSet",
        namespace=_NAMESPACE,
        clusters=ANNOTATION,
        pod_picker=("spec", "downscalePodPicker"),
        production=PRODUCTION_ANNOTATION,
    ),
    "Deployment": _PolicyKind(
        document=DeploymentDocument,
        build=deployment_of,
        into="downscale",
        form_of="DownscalePolicy",
        namespace=_NAMESPACE,
        pod_picker=PICKER,
    ),
}
OWN_KINDS = tuple(kind for kind, row in POLICY_KINDS.items() if not row.form_of)
"""The kinds of our own API group."""


def kind_stated_by(name: str) -> str:
    """Return the kind of a policy written as `name`, which is another where that is a form of it."""
    return POLICY_KINDS[name].form_of or name


def policies_of(policies: PolicySet, kind: str) -> tuple[Any, ...]:
    """Return the policies of a kind of our own API group, sorted as they are in `policies`."""
    found = getattr(policies, POLICY_KINDS[kind].into)
    return found if isinstance(found, tuple) else (found,)
