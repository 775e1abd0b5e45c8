"""The Services that traffic came for, until each is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from reconciler.activator.activation import Activation
from reconciler.activator.background import BackgroundTasks, pauses
from reconciler.activator.metrics import ActivatorMetrics
from reconciler.activator.objects import NamespacedName
from reconciler.activator.wake import Waker
from reconciler.errors import reason_of

_NAMESPACES = 4
"""How many namespaces are woken at a time."""


def wake_problem(service: NamespacedName) -> str:
    """Return the key of the problem that a Service cannot be woken."""
    return f"wake of {'/'.join(service)}"


class WakeQueue:
    """Services that traffic came for, woken soon by `waker`, those of one namespace together; what fails is tried again
    as long as `activations` have traffic.
    """

    def __init__(
        self,
        waker: Waker,
        metrics: ActivatorMetrics,
        tasks: BackgroundTasks,
        activations: Mapping[NamespacedName, Activation],
    ) -> None:
        self._waker = waker
        self._metrics = metrics
        self._tasks = tasks
        self._activations = activations
        self._names: dict[str, set[str]] = {}  # by namespace
        self._threads = ThreadPoolExecutor(_NAMESPACES, thread_name_prefix="wake")

    def add(self, service: NamespacedName) -> None:
        """Wake a Service soon, together with others of its namespace that wait for that."""
        namespace, name = service
        self._names.setdefault(namespace, set()).add(name)
        if ("wake", namespace) not in self._tasks.running:
            self._tasks.start(("wake", namespace), partial(self._wake, namespace))

    def end(self) -> None:
        """Begin no more wakes."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _wake(self, namespace: str) -> None:
        later = pauses()
        while names := frozenset(self._names.pop(namespace, ())):
            try:
                wake = partial(self._waker.wake, namespace, names)
                problems = await asyncio.get_running_loop().run_in_executor(self._threads, wake)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                problems = dict.fromkeys(names, reason_of(error))
            failed = {name: why for name, why in problems.items() if why}
            self._metrics.counters["woken"] += 0 if self._waker.read_only else len(problems) - len(failed)
            self._metrics.counters["wake_failures"] += len(failed)
            for name in names:
                self._tasks.failed(wake_problem((namespace, name)), failed.get(name, ""))
            known = {name: self._activations.get((namespace, name)) for name in failed}
            again = {name for name, activation in known.items() if activation is not None and activation.has_traffic}
            if again:
                self._names.setdefault(namespace, set()).update(again)
                await asyncio.sleep(next(later))
