"""The kinds of policies: the document of each, and its JSON Schema."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from reconciler.policy.kinds.calendar import CalendarDocument
from reconciler.policy.kinds.downscale_policy import DownscalePolicyDocument
from reconciler.policy.kinds.federated_replica_set import FederatedReplicaSetDocument, PreferencesFields
from reconciler.policy.kinds.fleet import FleetDocument
from reconciler.policy.kinds.idling_policy import IdlingPolicyDocument
from reconciler.policy.kinds.json_schema import json_schema
from reconciler.policy.kinds.metadata import API_VERSION
from reconciler.policy.kinds.replica_set import ReplicaSetDocument

DOCUMENTS: dict[str, type[Struct]] = {
    "Fleet": FleetDocument,
    "IdlingPolicy": IdlingPolicyDocument,
    "Calendar": CalendarDocument,
    "FederatedReplicaSet": FederatedReplicaSetDocument,
    "DownscalePolicy": DownscalePolicyDocument,
    "ReplicaSet": ReplicaSetDocument,
}
"""The last one is the seed's form of a FederatedReplicaSet."""


def policy_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of policies of `kind`."""
    parts = (PreferencesFields,) if kind == "ReplicaSet" else ()
    schema = json_schema(DOCUMENTS[kind], parts)
    head = {"$schema": schema.pop("$schema"), "$id": f"urn:{API_VERSION.replace('/', ':')}:{kind}", "title": kind}
    return {**head, **schema}
