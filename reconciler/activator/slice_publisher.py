"""Writes and deletes the EndpointSlices of activations, in the background, until they are as they should be."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from functools import partial
from typing import Any

from reconciler.activator.activation import Activation
from reconciler.activator.background import BackgroundTasks
from reconciler.activator.objects import NamespacedName
from reconciler.activator.publication import Publication


def slices_problem(service: NamespacedName) -> str:
    """Return the key of the problem that the slices of a Service cannot be written."""
    return f"slices of {'/'.join(service)}"


class SlicePublisher:
    """Writes through `publication`, in `threads`; what fails is reported by `tasks`, and tried again."""

    def __init__(self, publication: Publication, tasks: BackgroundTasks, threads: Executor) -> None:
        self._publication = publication
        self._tasks = tasks
        self._threads = threads
        self._is_ending = False

    def end(self) -> None:
        """Begin no more writes."""
        self._is_ending = True

    def publish(self, activation: Activation) -> None:
        """Write what the slices of `activation` lack, soon."""
        key = ("slices", activation.name)
        if key not in self._tasks.running and not self._is_ending and activation.manifests() != activation.published:
            publish = partial(self._publish, activation)
            self._tasks.start(key, partial(self._tasks.until_done, slices_problem(activation.name), publish))

    def withdraw(self, namespace: str, name: str) -> None:
        """Delete a slice of ours that no activation knows, soon."""
        key = ("stray", namespace, name)
        if key not in self._tasks.running and not self._is_ending:
            withdraw = partial(self._publication.withdraw, namespace, name)
            self._tasks.start(key, partial(asyncio.get_running_loop().run_in_executor, self._threads, withdraw))

    async def _publish(self, activation: Activation) -> None:
        """Write and delete slices until they are as they should be."""
        while not self._is_ending and (wanted := activation.manifests()) != activation.published:
            # A write that fails may have been done all the same, or in part: it counts from here on.
            activation.published = {**{name: {} for name in wanted}, **activation.published}
            write = partial(self._write, activation.name[0], wanted, tuple(activation.published))
            await asyncio.get_running_loop().run_in_executor(self._threads, write)
            activation.published = dict(wanted)
            if not wanted:
                activation.withdrawn()

    def _write(self, namespace: str, wanted: dict[str, Any], published: tuple[str, ...]) -> None:
        for manifest in wanted.values():
            self._publication.publish(manifest)
        for name in published:
            if name not in wanted:
                self._publication.withdraw(namespace, name)
