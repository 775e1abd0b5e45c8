"""The reference implementation's own cases, where they are found beside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from reconciler.model import Pod

_PLACE = Path("../shared/vectors")  # from the root of the repository


def load(name: str) -> dict[str, Any]:
    """Return the vectors in `name`; {} where there are none, which is a failure only under CI=true."""
    path = Path(__file__).parents[2] / _PLACE / name
    if not path.is_file():
        if os.environ.get("CI") == "true":
            raise FileNotFoundError(f"{path}: no vectors, expected them under CI")
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def cases(vectors: dict[str, Any], *kinds: str) -> list[Any]:
    """Return the cases of `kinds` as parameters; one that is skipped, with the reason, where there are no vectors."""
    if not vectors:
        return [pytest.param({}, id="vectors", marks=pytest.mark.skip(reason=f"no vectors in {_PLACE}"))]
    return [pytest.param(case, id=case["id"]) for case in vectors["cases"] if case["kind"] in kinds]


def pods_of(vectors: dict[str, Any]) -> dict[str, Pod]:
    return {key: _pod(fields) for key, fields in vectors.get("pods", {}).items()}


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
