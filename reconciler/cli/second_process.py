"""Work that is done beside other work, by a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pickle import PickleError
from typing import TypeVar

P = TypeVar("P")
T = TypeVar("T")


def beside(work: Callable[[], T]) -> Callable[[], T]:
    """Start `work` in a process that begins as a copy of this one, and return what waits for its result.

    The result is sent from there. Where there is no such process, or it fails, `work` is done here when its result is
    asked for, so that errors are those of `work`. `work` writes nothing: what it changes stays in the copy. The process
    ends with this one, also where nobody asks for the result.
    """
    if sys.platform != "linux":
        return work
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def sent() -> None:
        receiver.close()  # else it would go on to wait for itself to read, once this process is gone
        _send(sender.send, work)

    process = context.Process(target=sent, daemon=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # no thread here holds a lock that it needs
            process.start()
    except OSError:
        return work
    sender.close()

    def result() -> T:
        try:
            found: T = receiver.recv()
        except (EOFError, OSError, PickleError):
            return work()
        finally:
            process.join()
        return found

    return result


def in_processes(work: Callable[[Sequence[P]], list[T]], items: Sequence[P]) -> list[T]:
    """Return what `work` makes of all `items`, which as many processes share as there are processors, 8 at most."""
    count = min(8, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1
    others = [beside(partial(work, items[number::count])) for number in range(1, count)]
    found = work(items[0::count])
    return [*found, *(one for other in others for one in other())]


def _send(send: Callable[[T], None], work: Callable[[], T]) -> None:
    """Send what `work` returns, or nothing where it fails: who waits does it again, and sees why.

    Signals end it at once: what a run does with them is for the run itself.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        send(work())
    except Exception:  # noqa: BLE001 - see above
        return
