"""Fakes of what a run works with: the lock of a cluster, the clock, the pod picker, and clusters around another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from reconciler.apply.access import Access
from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.backends.protocols import Cluster
from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.errors import PickerError
from reconciler.model import JOURNAL, Write
from reconciler.time_limit import TimeLimit


class FakeLock:
    """A lock that is held until a test says otherwise."""

    def __init__(self) -> None:
        self.lost = False

    def look(self) -> None: ...

    def acquire(self, limit: TimeLimit) -> bool:
        return False

    def held(self) -> bool:
        return not self.lost

    def release(self) -> None: ...


@dataclass
class FakeClock:
    """Time that passes only while somebody sleeps; `while_asleep` is what happens meanwhile, once."""

    now: float = 0
    while_asleep: Callable[[], None] | None = None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        happens, self.while_asleep = self.while_asleep, None
        if happens is not None:
            happens()


@dataclass
class FakePicker:
    """Says what it is told to say; keeps what it was asked."""

    says: PickerAnswer | PickerError = PickerAnswer()
    asked: list[PickerRequest] = field(default_factory=list)

    def pick(self, request: PickerRequest) -> PickerAnswer:
        self.asked.append(request)
        if isinstance(self.says, PickerError):
            raise self.says
        return self.says


class Wrapped:
    """A cluster that does what the one `inside` does; `before` is called with each write first, and may raise."""

    def __init__(self, inside: Any, before: Callable[[Write], object] = lambda _: None) -> None:
        self.inside = inside
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def write(self, write: Write) -> None:
        self._before(write)
        self.inside.write(write)


def an_access(cluster: Any, **fields: Any) -> Access:
    """What a run has of `cluster`, with these fakes."""
    store = ConfigMapStore(cluster, "reconciler", JOURNAL)
    defaults = {"lock": FakeLock(), "picker": FakePicker(), "limit": TimeLimit(clock=FakeClock())}
    return Access(cluster, store, **(defaults | fields))


class Killed(BaseException):
    """The process is gone."""


class Intercepted:
    """What does what `inside` does; `around` is given the name of each method that is called, and the call itself."""

    def __init__(self, inside: Any, around: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._inside = inside
        self._around = around

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inside, name)
        if not callable(found):
            return found
        return lambda *arguments, **options: self._around(name, partial(found, *arguments, **options))


class Counted(Intercepted):
    """A cluster of which every call is counted; from call `last` on `fails` is raised, before or after the call."""

    def __init__(self, inside: Cluster, last: int | None = None, *, after: bool = False, fails: Any = Killed) -> None:
        super().__init__(inside, self._counted)
        self._last = last
        self._after = after
        self._fails = fails
        self.calls = 0

    def _counted(self, _: str, call: Callable[[], Any]) -> Any:
        self.calls += 1
        dying = self._last is not None and self.calls >= self._last
        if dying and not (self._after and self.calls == self._last):
            raise self._fails()
        result = call()
        if dying:
            raise self._fails()
        return result
