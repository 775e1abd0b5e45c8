"""The digests of what a plan was made from, and the id of its run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reconciler.model import ObservedState, QueryAnswer, QueryKey, Run

_AT_ONCE = 256
"""Objects that are written down side by side: the text of a whole fleet would be larger than the fleet."""


def state_digest(state: ObservedState) -> str:
    """Return the SHA-256 (hex) over everything in `state` that decisions may look at."""
    digest = hashlib.sha256()
    for part in _parts(state):
        digest.update(_ENCODER.encode(part))
    for text in _texts_of_answers(state.answers):
        digest.update(text)
    return digest.hexdigest()


def _texts_of_answers(answers: Mapping[QueryKey, QueryAnswer]) -> Iterator[bytes]:
    """Yield what ["", "answers", [[key, answer], ...]] is as JSON, never all of it at once.

    Many policies have the same query, and so one answer: it is encoded once.
    """
    shared = {id(answer): answer for answer in answers.values()}
    texts = {number: _ENCODER.encode(answer) for number, answer in shared.items()}
    before = b'["","answers",[['
    for key, answer in sorted(answers.items(), key=lambda item: item[0]):
        yield from (before, _ENCODER.encode(key), b",", texts[id(answer)])
        before = b"],["
    yield b"]]]" if answers else b'["","answers",[]]'


def _parts(state: ObservedState) -> Iterator[list[Any]]:
    """Yield all of `state` but answers in small lists; each says what it is part of, so that no two states give the
    same lists.
    """
    for name, cluster in sorted({**state.clusters, **state.wakes_only}.items()):
        for field in cluster.__struct_fields__:
            value = getattr(cluster, field)
            if value is None:
                continue
            if field == "scale_kinds":  # what we know of a kind ourselves is no part of a cluster
                value = tuple(kind.served for kind in cluster.scale_kinds)
            if isinstance(value, Mapping):
                value = sorted(value.items())
            starts = range(0, len(value), _AT_ONCE)
            pieces = [value] if isinstance(value, str) else (value[start : start + _AT_ONCE] for start in starts)
            yield from ([name, field, piece] for piece in pieces)
    yield ["", "unreachable", sorted(state.unreachable.items())]


def digest_with_activators(digest: str, state: ObservedState) -> str:
    """Return the digest of `state`, which is `digest` without what is known of activators.

    A run is not named after them: they are asked when all else is decided.
    """
    known = {
        name: cluster.activators for name, cluster in sorted(state.clusters.items()) if cluster.activators is not None
    }
    return hashlib.sha256(digest.encode() + _ENCODER.encode(known)).hexdigest() if known else digest


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
