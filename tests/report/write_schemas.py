"""Writes schemas/*.schema.json from the documents they describe."""

from __future__ import annotations

import json
from typing import Any

from reconciler.policy.policy_kinds import POLICY_KINDS
from tests.report.json_schema import any_policy_schema, policy_schema
from tests.report.validators import OUTPUTS, SCHEMAS, output_schema

if __name__ == "__main__":
    made: dict[str, Any] = {"PolicyTest": policy_schema("PolicyTest"), "Policy": any_policy_schema()}
    made |= {kind: policy_schema(kind) for kind in POLICY_KINDS} | {title: output_schema(title) for title in OUTPUTS}
    for kind, schema in made.items():
        (SCHEMAS / f"{kind.lower()}.schema.json").write_text(
            json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
