"""What a cluster is read through, and lists of it read side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from reconciler.backends.base import Cluster, MetricsSource, Resource

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Source:
    """What one cluster is read through. `error` set: it could not even be opened, the others are None then.

    `workers` is how many of its lists are read side by side.
    """

    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    error: str = ""
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One list that is asked for."""

    resource: Resource[Any]
    namespace: str = ""
    labels: str = ""


def each(read: Callable[[T], R], things: Sequence[T], workers: int) -> list[R]:
    """Return what `read` gives for each of `things`, in their order; `workers` are read side by side."""
    if workers == 1:
        return [read(thing) for thing in things]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        return list(pool.map(read, things))
