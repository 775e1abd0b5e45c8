"""The JSON Schemas of plan and report, made from the documents they describe."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from reconciler.plan.documents import PlanDocument
from reconciler.report.documents import ReportDocument

_SUFFIX = "Document"
_NULL = {"type": "null"}


def plan_schema() -> dict[str, Any]:
    """Return the schema of a plan (draft 2020-12), closed, every field described."""
    return _schema_of(PlanDocument)


def report_schema() -> dict[str, Any]:
    """Return the schema of the report of an apply (draft 2020-12), closed, every field described."""
    return _schema_of(ReportDocument)


def schema_text(schema: dict[str, Any]) -> str:
    """Return `schema` as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _schema_of(document: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    definitions = {name: _renamed(components[name]) for name in sorted(components)}
    root = definitions.pop(document.__name__)
    named = {name.removesuffix(_SUFFIX): found for name, found in definitions.items()}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": named}


def _renamed(value: Any) -> Any:
    """Return a part of a schema with the documents named without their suffix, of several types null at the end.

    The order of alternatives is not the same in all releases of msgspec.
    """
    if isinstance(value, dict):
        return {key: _renamed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner) for inner in sorted(value, key=lambda one: one == _NULL)]
    return value.removesuffix(_SUFFIX) if isinstance(value, str) else value
