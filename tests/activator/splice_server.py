"""An activation on loopback in a process of its own: `python -m tests.activator.splice_server TARGET_PORT [HELD]`.

It prints its port, then serves; what comes is held until SIGUSR1, and joined with the target from then on.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from reconciler.activator.activation import NO_ENDPOINTS, Activation, ObservedService
from reconciler.activator.activation_context import ActivatorContext, ActivatorMetrics, ActivatorPod
from reconciler.activator.connection_limits import ActivatorSettings
from reconciler.activator.objects import EndpointAddress, ServiceEndpoints
from reconciler.cli.activator import within_descriptors
from tests.activator.services import IDLE, a_watched_service


async def is_pods(_: str, backend: EndpointAddress) -> bool:
    return backend.pod == "web-1"


async def serve(target: int, most: int) -> None:
    limits = ActivatorSettings(
        held=most,
        held_per_service=most,
        spliced=most,
        listeners=1,
        hold_timeout=3600.0,
        silent=3600.0,
        ports=range(21_000, 32_000),
    )
    pod = ActivatorPod("reconciler", "activator-0", "uid-0", ("127.0.0.1",))
    context = ActivatorContext(pod, limits, ActivatorMetrics(), lambda _: None, lambda _: None, is_pods)
    activation = Activation(("shop", "web"), context)

    def observe(backends: ServiceEndpoints) -> None:
        activation.observe(ObservedService(a_watched_service(annotations=IDLE), backends))

    observe(NO_ENDPOINTS)
    there = ServiceEndpoints({("", "TCP"): (EndpointAddress("127.0.0.1", target, "web-1"),)}, {})
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, observe, there)
    [made] = activation.manifests().values()
    print(made["ports"][0]["port"], flush=True)
    while True:
        await asyncio.sleep(1)
        print(activation.held, activation.spliced, flush=True)


if __name__ == "__main__":
    number, connections = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    within_descriptors(ActivatorSettings(held=connections, spliced=connections, listeners=1), 1)
    asyncio.run(serve(number, connections))
