"""The schema files of the repository, as validators, and what those of outputs must say."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from reconciler.history.changes import Change
from reconciler.plan.documents import PlanDocument
from reconciler.report.json import ReportDocument
from tests.report.json_schema import json_schema

SCHEMAS = Path(__file__).parents[2] / "schemas"
OUTPUTS = {"Plan": PlanDocument, "Report": ReportDocument, "Change": Change}
"""The documents that are printed, by title; a change is a line of the history."""


def output_schema(title: str) -> dict[str, Any]:
    """Return the schema of a document that is printed (draft 2020-12), closed, every field described."""
    return json_schema(title, "v1alpha2", OUTPUTS[title])


def schema_file(name: str) -> str:
    return (SCHEMAS / name).read_text(encoding="utf-8")


@lru_cache
def validator_of(name: str) -> Draft202012Validator:
    schema = json.loads(schema_file(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
