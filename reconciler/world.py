"""Everything outside, opened: what is read, what is written through, how many writes go side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.apply.outcomes import Access
from reconciler.observe import Source
from reconciler.policy.types import Fleet


@dataclass(frozen=True)
class World:
    """`origin` is "live" or "snapshot"."""

    sources: Mapping[str, Source]
    accesses: Mapping[str, Access]
    origin: str = "live"
    workers: int = 1


def open_world(fleet: Fleet, snapshot: str | None, now: datetime) -> World:
    """Return the clusters of `fleet`, opened: those of the snapshot directory where one is given, else the live ones."""
    raise NotImplementedError
