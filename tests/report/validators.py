"""The schema files of the repository, as validators, and what those of outputs must say."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from reconciler.history.changes import Change
from reconciler.plan.json import PlanDocument
from reconciler.policy.policy_kinds import POLICY_KINDS
from reconciler.report.json import ReportDocument
from tests.report.json_schema import any_policy_schema, json_schema, policy_schema

SCHEMAS = Path(__file__).parents[2] / "schemas"
OUTPUTS = {"Plan": PlanDocument, "Report": ReportDocument, "Change": Change}
"""The documents that are printed, by title; a change is a line of the history."""


def output_schema(title: str) -> dict[str, Any]:
    """Return the schema of a document that is printed (draft 2020-12), closed, every field described."""
    return json_schema(title, "v1alpha2", OUTPUTS[title])


def schema_files() -> dict[Path, str]:
    """Return the files of `schemas`, each as it should be."""
    made = {kind: policy_schema(kind) for kind in (*POLICY_KINDS, "PolicyTest")} | {"Policy": any_policy_schema()}
    made |= {title: output_schema(title) for title in OUTPUTS}
    return {
        SCHEMAS / f"{title.lower()}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for title, schema in made.items()
    }


def schema_file(name: str) -> str:
    return (SCHEMAS / name).read_text(encoding="utf-8")


@lru_cache
def validator_of(name: str) -> Draft202012Validator:
    schema = json.loads(schema_file(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
