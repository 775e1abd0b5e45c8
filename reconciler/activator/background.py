"""The tasks of an event loop: what fails in one is reported once, and tried again. The wakes among them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

from reconciler.activator.activation import Activation
from reconciler.activator.metrics import ActivatorMetrics
from reconciler.activator.objects import NamespacedName
from reconciler.activator.wake import Waker
from reconciler.errors import reason_of

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_SOON_SECONDS = 1.0
_NAMESPACES = 4
"""How many namespaces are woken at a time."""


def pauses() -> Iterator[float]:
    """Yield the seconds to wait after each attempt that failed: they double."""
    return (min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tried, 32)) for tried in count())


class BackgroundTasks:
    """`running` has each task by its key until it ends, `problems` what fails now and why; `tell` says a line."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.running: dict[object, asyncio.Task[None]] = {}
        self.problems: dict[str, str] = {}
        self._tell = tell

    def start(self, key: object, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` as a task that is not forgotten; its failure is reported."""

        async def guarded() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a bug in one task: it is reported, the others go on
                self._tell(f"error: {reason_of(error)}")
            finally:
                if self.running.get(key) is asyncio.current_task():
                    del self.running[key]

        self.running[key] = asyncio.get_running_loop().create_task(guarded())

    def failed(self, what: str, why: str, level: str = "warning") -> bool:
        """Record a failure, or its end; each is reported once. Return whether it was reported now."""
        if not why:
            self.problems.pop(what, None)
            return False
        is_new = self.problems.get(what) != why
        self.problems[what] = why
        if is_new:
            self._tell(f"{level}: {why}")
        return is_new

    def unexpected(self, _: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Report what failed in the event loop itself, one line for each kind."""
        error = context.get("exception")
        self.failed("event loop", f"{context['message']}{f': {reason_of(error)}' if error else ''}")

    async def until_done(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` again and again until it succeeds, with pauses that grow."""
        for pause in pauses():
            if await self._succeeded(what, work):
                return
            await asyncio.sleep(pause)

    async def again(self, what: str, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` every so many seconds, sooner after a failure: others wait for its result."""
        while True:
            succeeded = await self._succeeded(what, work)
            await asyncio.sleep(seconds if succeeded else min(_SOON_SECONDS, seconds))

    async def _succeeded(self, what: str, work: Callable[[], Awaitable[object]]) -> bool:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
            self.failed(what, reason_of(error))
            return False
        self.failed(what, "")
        return True


class Signals:
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
                self._tasks.failed(f"wake of {namespace}/{name}", failed.get(name, ""))
            known = {name: self._activations.get((namespace, name)) for name in failed}
            again = {name for name, activation in known.items() if activation is not None and activation.has_traffic}
            if again:
                self._names.setdefault(namespace, set()).update(again)
                await asyncio.sleep(next(later))
