"""Writes schemas/plan.schema.json and schemas/report.schema.json from the documents they describe."""

from __future__ import annotations

from reconciler.report.schemas import plan_schema, report_schema, schema_text
from tests.report.validators import SCHEMAS

if __name__ == "__main__":
    (SCHEMAS / "plan.schema.json").write_text(schema_text(plan_schema()), encoding="utf-8")
    (SCHEMAS / "report.schema.json").write_text(schema_text(report_schema()), encoding="utf-8")
