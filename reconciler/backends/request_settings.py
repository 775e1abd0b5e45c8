"""How live clusters are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.model import NOTHING
from reconciler.time_limit import TimeLimit


class RequestSettings(Struct, frozen=True):
    """How much a run may ask of a cluster, and how long it waits.

    `timeout` is seconds for one request, until a whole answer has come. `qps` is writes a second, 0 for no limit.
    `limit` is that of the run: after its end nothing is waited for. Once it is cut, what is in flight has a few
    seconds, and nothing is begun.

    `clients` are `kubernetes.client.ApiClient`s by cluster: their connections count in place of what the Fleet says.
    """

    timeout: float = 30.0
    qps: float = 50.0
    in_flight: int = 16
    limit: TimeLimit = field(default_factory=TimeLimit)
    clients: Mapping[str, Any] = NOTHING


DEFAULTS = RequestSettings()
