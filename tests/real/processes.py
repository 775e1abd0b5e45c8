"""Processes of real parts: started with a log, waited for, ended by their own ids whatever becomes of the test run."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import urllib3

READY_AFTER_AT_MOST = 90.0
ENDED_AFTER_AT_MOST = 600.0  # of a command such as promtool, which reads a month several times
"""Seconds; only a broken start takes this long, also on a machine with much else to do."""

_PORTS_TO_TRY = 5
_BELOW_THE_EPHEMERAL_PORTS = range(12_000, 32_000)
_LAST_LINES = 12
_UNHURRIED = {"GOGC": "400"}
"""Go cleans up a quarter as often: tests have memory to spare, and no processor time."""

_TIED = Path(__file__).with_name("tied.py")

# A tied process ends with the thread that started it: all are started by one that lives as long as this process.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")
_running: set[Process] = set()
log_folders: list[Path] = []
"""Where the processes of this test run write, for reports of failing tests."""


class StartError(Exception):
    """A real part that ended, or did not get ready; says where its log is."""


class Process:
    """One process of a real part."""

    def __init__(
        self, command: Path, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = command.name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.parent not in log_folders:
            log_folders.append(log.parent)
        self._is_asked = False
        self._process = _starter.submit(self._start, [str(command), *arguments], environment).result()
        _running.add(self)

    def _start(self, line: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
        tied = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), *line]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                tied,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_UNHURRIED, **(environment or {})},
                cwd=self.log.parent,
                process_group=0,  # Ctrl-C is for the test run, which then ends its processes
            )

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def terminate_once(self) -> None:
        """Ask it to end; it may have time for that."""
        if not self._is_asked:
            self._is_asked = True
            self.send(signal.SIGTERM)

    def stop(self) -> None:
        """End it at once and wait for that: nothing of a real part is worth an orderly end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(30)
        _running.discard(self)

    def ends_with(self) -> int:
        """Its exit status, once it has ended."""
        return self._process.wait(ENDED_AFTER_AT_MOST)

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Return when `ready`.

        Raises:
            StartError: the process ended first, or too much time went by.
        """
        deadline = time.monotonic() + READY_AFTER_AT_MOST
        while not ready():
            if not self.alive:
                raise StartError(self.said(f"ended with {self._process.returncode}, expected {what}"))
            if time.monotonic() > deadline:
                raise StartError(self.said(f"not ready after {READY_AFTER_AT_MOST:.0f} s, expected {what}"))
            time.sleep(0.05)

    def said(self, what: str) -> str:
        """`what` became of it, with the end of its log."""
        last = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return f"{self.name}: {what}; the whole log: {self.log}; its end:\n" + "\n".join(last)


def in_starter(work: Callable[[], None]) -> None:
    """Do `work` in the thread that starts all processes."""
    _starter.submit(work).result()


def free_port() -> int:
    """A loopback port nobody listens on, outside the range that outgoing connections take theirs from.

    Somebody else may still take it first: who starts a server tries again with another one.
    """
    for port in random.SystemRandom().sample(_BELOW_THE_EPHEMERAL_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise StartError("127.0.0.1: 100 ports are taken, expected a free one")


def on_a_free_port(start: Callable[[int], Process]) -> tuple[int, Process]:
    """The port and what was started on it; again with another port where somebody took it in between.

    Raises:
        StartError: it ended or did not get ready for another reason.
    """
    for _ in range(_PORTS_TO_TRY - 1):
        port = free_port()
        try:
            return port, start(port)
        except StartError:
            if _is_free(port):
                raise
    port = free_port()
    return port, start(port)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that linger do not take it
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def ready(process: Process, ready: Callable[[], bool], what: str) -> Process:
    try:
        process.wait_until(ready, what)
    except BaseException:
        process.stop()
        raise
    return process


def answers(url: str, ca_file: Path | None = None, token: str = "") -> bool:
    """Whether `url` answers 200."""
    with urllib3.PoolManager(ca_certs=str(ca_file) if ca_file else None, timeout=5.0, retries=False) as pool:
        try:
            return pool.request("GET", url, headers={"Authorization": f"Bearer {token}"}).status == 200
        except urllib3.exceptions.HTTPError:
            return False


def run(command: Path, arguments: Sequence[str], log: Path) -> None:
    """Run a command to its end.

    Raises:
        StartError: it failed.
    """
    process = Process(command, arguments, log)
    try:
        if process.ends_with() != 0:
            raise StartError(process.said("failed, expected success"))
    finally:
        process.stop()


@atexit.register
def stop_all() -> None:
    """End all processes of this test run that still run."""
    for process in list(_running):
        process.stop()
