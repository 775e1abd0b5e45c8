"""Inputs and exact results of the federation planner, where they are at hand beside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).resolve().parents[2].parent / "shared" / "vectors" / "planner.json"


def planner_cases() -> list[Any]:
    """Return each case as a pytest parameter; where there are none, one that is skipped (under CI=true: fails)."""
    if VECTORS.is_file():
        cases = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]
        return [pytest.param(case, id=case["name"]) for case in cases]
    if os.environ.get("CI") == "true":
        return [pytest.param(None, id="missing")]
    why = f"no {VECTORS.parent.parent.name}/{VECTORS.parent.name}/{VECTORS.name} beside the repository"
    return [pytest.param(None, id="missing", marks=pytest.mark.skip(reason=why))]
