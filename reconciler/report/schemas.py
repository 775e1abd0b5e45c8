"""The JSON Schemas of plan and report, made from the documents they describe."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from reconciler.plan.documents import PlanDocument
from reconciler.policy.kinds.json_schema import json_schema
from reconciler.report.documents import ReportDocument


def plan_schema() -> dict[str, Any]:
    """Return the schema of a plan (draft 2020-12), closed, every field described."""
    return _titled("Plan", PlanDocument)


def report_schema() -> dict[str, Any]:
    """Return the schema of the report of an apply (draft 2020-12), closed, every field described."""
    return _titled("Report", ReportDocument)


def schema_text(schema: dict[str, Any]) -> str:
    """Return `schema` as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _titled(title: str, document: type[msgspec.Struct]) -> dict[str, Any]:
    schema = json_schema(document)
    return {"$schema": schema.pop("$schema"), "title": title, **schema}
