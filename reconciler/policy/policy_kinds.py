"""The kinds of policies, one row each: its document, what becomes of it, and what of it names other things.

The job that decides by a policy is not in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from reconciler.messages import Path
from reconciler.policy.kinds.calendar import CalendarDocument, calendar_of
from reconciler.policy.kinds.criteria import Calendars
from reconciler.policy.kinds.deployment import PICKER, DeploymentDocument, deployment_of
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.downscale_policy import POD_PICKER, DownscalePolicyDocument, downscale_policy_of
from reconciler.policy.kinds.federated_replica_set import FederatedReplicaSetDocument, federated_replica_set_of
from reconciler.policy.kinds.fleet import FleetDocument, fleet_of
from reconciler.policy.kinds.idling_policy import IdlingPolicyDocument, idling_policy_of
from reconciler.policy.kinds.replica_set import ANNOTATION, ReplicaSetDocument, replica_set_of

_NAMESPACE: Path = ("metadata", "namespace")


class PolicyKind(Struct, frozen=True, kw_only=True):
    """What is known of a kind of policies. Paths are those of fields; None: it has none.

    `build` makes the policy of a document and its fields, and returns it with the fields of its spec; problems are
    gathered in the document. `into` is the field of a PolicySet that has the policies of the kind.
    """

    document: type[Struct]
    build: Callable[[PolicyDocument, Any, Calendars], tuple[Any, Struct]]
    into: str
    form_of: str = ""  # the kind that it is another way to write
    equals: str = ""  # what happens to an object that two policies of equal priority select; "": it has no selector
    namespace: Path | None = None  # where it names the one namespace that it is for
    clusters: Path | None = None  # of a mapping by the name of a cluster
    pod_picker: Path | None = None


def _alone(build: Callable[[PolicyDocument, Any], Any]) -> Callable[[PolicyDocument, Any, Calendars], Any]:
    """Return how a policy is made that names no calendar."""
    return lambda document, fields, _: (build(document, fields), fields.spec)


POLICY_KINDS = {
    "Fleet": PolicyKind(document=FleetDocument, build=_alone(fleet_of), into="fleet"),
    "IdlingPolicy": PolicyKind(
        document=IdlingPolicyDocument,
        build=lambda document, fields, calendars: (idling_policy_of(document, fields, calendars), fields.spec),
        into="idling",
        equals="is not newly idled",
    ),
    "Calendar": PolicyKind(
        document=CalendarDocument,
        build=lambda document, fields, _: (
            calendar_of(document, ("spec",), fields.spec, fields.metadata.name),
            fields.spec,
        ),
        into="calendars",
    ),
    "FederatedReplicaSet": PolicyKind(
        document=FederatedReplicaSetDocument,
        build=_alone(federated_replica_set_of),
        into="federated",
        namespace=_NAMESPACE,
        clusters=("spec", "preferences", "clusters"),
        pod_picker=("spec", "downscalePodPicker"),
    ),
    "DownscalePolicy": PolicyKind(
        document=DownscalePolicyDocument,
        build=_alone(downscale_policy_of),
        into="downscale",
        equals="is not changed",
        pod_picker=POD_PICKER,
    ),
    "ReplicaSet": PolicyKind(
        document=ReplicaSetDocument,
        build=lambda document, fields, _: replica_set_of(document, fields),
        into="federated",
        form_of="FederatedReplicaSet",
        namespace=_NAMESPACE,
        clusters=ANNOTATION,
        pod_picker=("spec", "downscalePodPicker"),
    ),
    "Deployment": PolicyKind(
        document=DeploymentDocument,
        build=lambda document, fields, _: deployment_of(document, fields),
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
