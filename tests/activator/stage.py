"""An activator without an API server: what it writes is noted."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

from reconciler.activator.activation import Activation
from reconciler.activator.activation_context import ActivatorPod
from reconciler.activator.activator import Activator
from reconciler.activator.connection_limits import ActivatorSettings
from reconciler.errors import ForbiddenError
from reconciler.time_limit import TimeLimit
from tests.activator.services import IDLE, a_watched_service

LIMIT = 60
"""Seconds after which a story fails that still waits for something."""

WEB = ("shop", "web")


class Written:
    """What a publication wrote: the slices that are there; it can lose its answers."""

    pod = ActivatorPod("reconciler", "activator-0", "uid-0", ("127.0.0.1",))

    def __init__(self) -> None:
        self.there: dict[str, Mapping[str, Any]] = {}
        self.loses_answers = False
        self.is_fresh = self.may_judge = True
        self.swept: list[frozenset[str]] = []
        self.breaks = 0

    def publish(self, manifest: Mapping[str, Any]) -> None:
        self.there[manifest["metadata"]["name"]] = manifest
        if self.loses_answers:
            raise ForbiddenError("no answer, expected one")

    def withdraw(self, _: str, name: str) -> None:
        self.there.pop(name, None)

    def withdraw_all(self, _: str) -> int:
        return 0

    def renew(self) -> None:
        if self.breaks:
            self.breaks -= 1
            raise RuntimeError("a bug")
        self.is_fresh = True

    def withdraw_dead(self, uids: set[str]) -> frozenset[str]:
        self.swept.append(frozenset(uids))
        return frozenset()


class Stage:
    def __init__(self, **settings: Any) -> None:
        self.written = Written()
        self.told: list[str] = []
        parts: Any = (SimpleNamespace(limit=TimeLimit()), None, self.written)
        taken = ActivatorSettings(**{"ports": range(21_000, 32_000), **settings})
        self.one = one = Activator(*parts, taken, self.told.append)
        one._loop = asyncio.get_running_loop()
        one._unsynced = set()

    def idle(self, name: str = "web", namespace: str = "shop", ports: int = 1) -> Activation:
        listed = (
            [{"name": f"p{number}", "port": 80 + number} for number in range(ports)] if ports > 1 else [{"port": 80}]
        )
        found = a_watched_service(name, annotations=IDLE, spec={"ports": listed})
        found.metadata.namespace = namespace
        self.one._object_changed(self.one._services, found.name, found)
        return self.one._activations[found.name]

    @property
    def activation(self) -> Activation:
        return self.one._activations[WEB]


def play(story: Callable[[Stage], Awaitable[None]], **limits: Any) -> None:
    async def told() -> None:
        stage = Stage(**limits)
        try:
            await asyncio.wait_for(story(stage), LIMIT)
        finally:
            for one in stage.one._activations.values():
                one.close()
            for task in tuple(stage.one._tasks.running.values()):
                task.cancel()
            stage.one._threads.shutdown(wait=True)

    asyncio.run(told())


Story = Callable[..., Awaitable[None]]


def stories(play: Callable[..., None]) -> Callable[..., Callable[[Story], Callable[..., None]]]:
    """Return a decorator for tests that are stories, which `play` plays, with what the decorator is given. Their first
    parameter is what `play` gives them; the others are those of any test.
    """

    def played(**limits: Any) -> Callable[[Story], Callable[..., None]]:
        def decorated(story: Story) -> Callable[..., None]:
            @wraps(story)
            def test(**given: Any) -> None:
                play(partial(story, **given), **limits)

            signature = inspect.signature(story)
            vars(test)["__signature__"] = signature.replace(parameters=[*signature.parameters.values()][1:])
            return test

        return decorated

    return played


played = stories(play)


async def until(true: Callable[[], bool]) -> None:
    """Return once it is `true`; where that never comes, `play` ends the story with a TimeoutError."""
    while not true():
        await asyncio.sleep(0.005)
