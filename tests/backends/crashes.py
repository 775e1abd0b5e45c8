"""A process that dies at the Nth step of a write, as the operating system sees it.

Steps are the calls that change something on disk: opening for writing, writing (half of the bytes are written before
the process dies), syncing, renaming, removing. It exits with 9 where it died, with 0 where the write was done first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.model import ObjectRef, Write
from tests.backends.folders import last_names_first, patch

DIED = 9
DEPLOYMENT = ObjectRef("east", "shop", "Deployment", "web", "apps")
WRITES: dict[str, Write] = {
    "scale": patch(DEPLOYMENT, ("test", "/spec/replicas", 3), ("replace", "/spec/replicas", 1)),
    "annotate": patch(DEPLOYMENT, ("add", "/metadata/annotations", {"a": "b"})),
    "delete": Write("delete", DEPLOYMENT, "apps/v1"),
    "create": Write("create", ObjectRef("east", "shop", "ConfigMap", "new"), "v1", manifest={"data": {"a": "b"}}),
}


class Steps:
    """Counts down the steps; the process dies at the last one."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self) -> bool:
        self.left -= 1
        return self.left == 0

    def dying(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            if self.take():
                os._exit(DIED)
            return call(*args, **kwargs)

        return stepped

    def writing(self, call: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def stepped(descriptor: int, data: Any) -> int:
            if self.take():
                call(descriptor, data[: len(data) // 2])
                os._exit(DIED)
            return call(descriptor, data)

        return stepped

    def opening(self, call: Callable[..., int]) -> Callable[..., int]:
        def stepped(path: Any, flags: int, *rest: Any, **kwargs: Any) -> int:
            if flags & os.O_WRONLY and self.take():
                os._exit(DIED)
            return call(path, flags, *rest, **kwargs)

        return stepped


def main(folder: str, left: int, write: str) -> None:
    """Make the write in `folder`, and die at its step `left`."""
    cluster = SnapshotCluster(Store(Path(folder), "east"), victim_order=last_names_first)
    cluster.scale_kinds()
    steps = Steps(left)
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, steps.dying(getattr(os, name)))
    os.write = steps.writing(os.write)  # type: ignore[assignment]
    os.open = steps.opening(os.open)
    cluster.write(WRITES[write])
