"""Inputs and exact results of the federation planner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parents[2] / "data" / "planner.json"


def planner_cases() -> list[Any]:
    """Return each case as a pytest parameter."""
    cases = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["name"]) for case in cases]
