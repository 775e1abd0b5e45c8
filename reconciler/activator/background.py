"""The tasks of an event loop: what fails in one is reported once, and tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import count
from typing import Any

from reconciler.errors import reason_of

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_SOON_SECONDS = 1.0


def pauses() -> Iterator[float]:
    """Yield the seconds to wait after each attempt that failed: they double."""
    return (min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tried, 32)) for tried in count())


class BackgroundTasks:
    """`running` has each task by its key until it ends, `problems` what fails now and why; `tell` says a line.

    `is_ending`: nothing new is to begin.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.running: dict[object, asyncio.Task[None]] = {}
        self.problems: dict[object, str] = {}
        self.is_ending = False
        self._tell = tell

    def start(self, key: object, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` as a task that is not forgotten, unless one of its key runs; its failure is reported."""
        if key in self.running:
            return

        async def guarded() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a bug in one task: it is reported, the others go on
                self._tell(f"error: {reason_of(error)}")
            finally:
                self.running.pop(key, None)

        self.running[key] = asyncio.get_running_loop().create_task(guarded())

    def failed(self, what: object, why: str, level: str = "warning") -> bool:
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

    async def until_done(self, what: object, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` again and again until it succeeds, with pauses that grow."""
        for pause in pauses():
            if await self._succeeded(what, work):
                return
            await asyncio.sleep(pause)

    async def again(self, what: object, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` every so many seconds, sooner after a failure: others wait for its result."""
        while True:
            succeeded = await self._succeeded(what, work)
            await asyncio.sleep(seconds if succeeded else min(_SOON_SECONDS, seconds))

    async def _succeeded(self, what: object, work: Callable[[], Awaitable[object]]) -> bool:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
            self.failed(what, reason_of(error))
            return False
        self.failed(what, "")
        return True
