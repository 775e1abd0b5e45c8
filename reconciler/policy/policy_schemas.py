"""The JSON Schemas of policies, and the catalog of them, for editors."""

from __future__ import annotations

from typing import Any

from reconciler.policy.kinds.federated_replica_set import Preferences
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.policy.kinds.json_schema import JSON_SCHEMA, json_schema
from reconciler.policy.kinds.policy_test import PolicyTestDocument
from reconciler.policy.policy_kinds import POLICY_KINDS

_VERSION = API_VERSION.partition("/")[2]


def policy_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of policies of `kind`, or of their tests, PolicyTest."""
    document = PolicyTestDocument if kind == "PolicyTest" else POLICY_KINDS[kind].document
    return json_schema(kind, _VERSION, document, (Preferences,) if kind == "ReplicaSet" else ())


def any_policy_schema() -> dict[str, Any]:
    """Return the one JSON Schema of policies of any kind, for editors: a file may hold several kinds."""
    kinds = {kind: policy_schema(kind) for kind in POLICY_KINDS}
    return {
        "$schema": JSON_SCHEMA,
        "$id": f"urn:reconciler:{_VERSION}:Policy",
        "title": "Policy",
        "description": "A policy of any kind.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {"kind": {"enum": list(kinds)}},
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"#/$defs/{kind}"}} for kind in kinds
        ],
        "$defs": {kind: _embedded(schema, kind) for kind, schema in kinds.items()},
    }


def _embedded(schema: Any, kind: str) -> Any:
    """Return `schema` as it stands among the `$defs` of another one: its references lead there."""
    if isinstance(schema, list):
        return [_embedded(one, kind) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _embedded(value, kind) for key, value in schema.items() if key not in ("$schema", "$id")}
    if isinstance(found.get("$ref"), str):
        found["$ref"] = found["$ref"].replace("#/", f"#/$defs/{kind}/", 1)
    return found


def schema_catalog(address: str) -> dict[str, Any]:
    """Return a catalog of the schemas, for editors, in the form of SchemaStore; `address` is where they are served.

    Source: SchemaStore/schemastore src/schemas/json/schema-catalog.json.
    """
    return {
        "$schema": "https://www.schemastore.org/schema-catalog.json",
        "version": 1,
        "schemas": [
            {
                "name": "reconciler policies",
                "description": "Policies of the reconciler: the scale of workloads on many Kubernetes clusters",
                "fileMatch": ["*.reconciler.yaml", "*.reconciler.yml"],
                "url": f"{address}/policy.schema.json",
            },
            {
                "name": "reconciler policy tests",
                "description": "Tests of policies of the reconciler",
                "fileMatch": ["*.reconciler_test.yaml", "*.reconciler_test.yml"],
                "url": f"{address}/policytest.schema.json",
            },
        ],
    }
