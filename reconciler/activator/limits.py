"""What bounds an activator."""

from __future__ import annotations

from msgspec import Struct


class ActivatorLimits(Struct, frozen=True):
    """Times are seconds. `held` and `held_per_service` count connections that wait for a pod; the oldest one gives way.
    `spliced` counts those that are joined with one; beyond it a connection is reset when it is its turn.

    `silent` is how long an open connection on which nothing came yet is before it counts as traffic.
    """

    held: int = 10_000
    held_per_service: int = 100
    spliced: int = 10_000
    hold_timeout: float = 60.0
    silent: float = 2.0
    ports: range = range(20_000, 30_000)
