"""The schema files of the repository, as validators."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "schemas"


def schema_file(name: str) -> str:
    return (SCHEMAS / name).read_text(encoding="utf-8")


@lru_cache
def validator_of(name: str) -> Draft202012Validator:
    schema = json.loads(schema_file(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
