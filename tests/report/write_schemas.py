"""Writes schemas/*.schema.json from the documents they describe."""

from __future__ import annotations

from typing import Any

from reconciler.policy.policy_kinds import POLICY_KINDS
from reconciler.policy.policy_schemas import any_policy_schema, policy_schema
from reconciler.report.json import change_schema, plan_schema, report_schema, schema_text
from tests.report.validators import SCHEMAS

if __name__ == "__main__":
    made: dict[str, Any] = {"PolicyTest": policy_schema("PolicyTest"), "Policy": any_policy_schema()}
    made |= {kind: policy_schema(kind) for kind in POLICY_KINDS} | {"Plan": plan_schema(), "Report": report_schema()}
    made["Change"] = change_schema()
    for kind, schema in made.items():
        (SCHEMAS / f"{kind.lower()}.schema.json").write_text(schema_text(schema), encoding="utf-8")
