"""What a plan was made from, as one number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from reconciler.model import NOTHING, ObservedState, Run


def state_digest(state: ObservedState) -> str:
    """Return the SHA-256 (hex) over everything in `state` that decisions may look at."""
    parts = [
        [replace(state.clusters[name], pods=NOTHING) for name in sorted(state.clusters)],
        [sorted(state.clusters[name].pods.items()) for name in sorted(state.clusters)],
        sorted(state.unreachable.items()),
        sorted(state.answers.items()),
    ]
    return hashlib.sha256(_ENCODER.encode(parts)).hexdigest()


def run_id(policy_digest: str, input_digest: str, run: Run) -> str:
    """Return the id of a run that was given none: 12 hex digits over policies, inputs and `now`."""
    text = f"{policy_digest}\n{input_digest}\n{run.now.isoformat()}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> Any:
    """Return a mapping that is no dict as sorted pairs, and a number of a kind of its own as a number."""
    if isinstance(value, Mapping):
        return sorted(value.items())
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"{type(value).__name__} has no place in an observed state")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="sorted")
