"""What all activations and connections of one activator share: its Pod, its settings, and how much there is of all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from reconciler.activator.limits import SharedLimit
from reconciler.activator.listener import PortRange
from reconciler.activator.metrics import ActivatorMetrics
from reconciler.activator.objects import EndpointAddress, NamespacedName


class ActivatorPod(Struct, frozen=True):
    """The Pod of this process; `addresses` are its IPs, at most one of each family."""

    namespace: str
    name: str
    uid: str
    addresses: tuple[str, ...]


class ActivatorSettings(Struct, frozen=True):
    """What an activator may have, and how it treats connections. Times are seconds.

    `held` and `held_per_service` count connections that wait for a pod, `spliced` those that are spliced with one,
    `listeners` ports that are listened on, `kept` bytes that a slow receiver has not taken yet. Each is for all
    namespaces together, but `held_per_service`; beyond it the namespace with the most gives way.

    `silent` is how long an open connection on which nothing came yet is before it counts as traffic. `grace` is how
    long connections have after SIGTERM. `proxy_protocol`: pods are told who the client is. `never_splices`: no
    connection is spliced with a pod.
    """

    held: int = 10_000
    held_per_service: int = 100
    spliced: int = 10_000
    listeners: int = 10_000
    kept: int = 256 << 20
    hold_timeout: float = 60.0
    silent: float = 2.0
    ports: range = range(20_000, 30_000)
    grace: float = 30.0
    proxy_protocol: bool = False
    never_splices: bool = False


@dataclass
class ActivatorContext:
    """What all activations and connections of one activator share. `signal` wakes a Service; `changed` is called when
    its slices are to be looked at. `is_pods` says whether a backend is what it says it is: a Pod of the namespace.

    `held` are all connections that wait for a pod, `spliced` all that are spliced with one, `kept` the bytes that slow
    receivers have not taken yet; of `listeners` each activation has one for each port.
    """

    pod: ActivatorPod
    settings: ActivatorSettings
    metrics: ActivatorMetrics
    signal: Callable[[NamespacedName], None]
    changed: Callable[[NamespacedName], None]
    is_pods: Callable[[str, EndpointAddress], Awaitable[bool]]

    def __post_init__(self) -> None:
        settings = self.settings
        self.ports = PortRange(settings.ports)
        self.held: SharedLimit[Any] = SharedLimit(settings.held)
        self.spliced: SharedLimit[Any] = SharedLimit(settings.spliced)
        self.kept: SharedLimit[Any] = SharedLimit(settings.kept)
        self.listeners: SharedLimit[Any] = SharedLimit(settings.listeners)
