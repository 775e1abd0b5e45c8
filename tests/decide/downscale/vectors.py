"""The reference implementation's own cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.model import Pod

DATA = Path(__file__).parents[2] / "data"


def load(name: str) -> dict[str, Any]:
    """Return the vectors in `name`."""
    found: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return found


def cases(vectors: dict[str, Any], *kinds: str) -> list[Any]:
    """Return the cases of `kinds` as parameters."""
    return [pytest.param(case, id=case["id"]) for case in vectors["cases"] if case["kind"] in kinds]


def pods_of(vectors: dict[str, Any]) -> dict[str, Pod]:
    return {key: _pod(fields) for key, fields in vectors["pods"].items()}


def _pod(fields: dict[str, Any]) -> Pod:
    return Pod(
        name=fields["name"],
        uid=fields["uid"],
        node=fields["node"],
        phase=fields["phase"],
        ready=fields["ready"],
        ready_since_ns=fields["readySince"],
        created_ns=fields["created"],
        restarts=fields["restarts"],
        sidecar_restarts=fields["sidecarRestarts"],
        deletion_cost=fields["deletionCost"],
        terminating=fields["terminating"],
    )
