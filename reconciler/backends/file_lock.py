"""One writer at a time in a folder: a lock file that is locked as long as its holder lives."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from reconciler.backends.protocols import Clock
from reconciler.errors import ClusterError, LockHeldError
from reconciler.messages import printable
from reconciler.yaml.files import read_bytes

LOCK_FILE = ".reconciler.lock"

_POLL_SECONDS = 0.05
_MAX_WORDS = 1000
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Who can add a file to the folder must not choose what we write to, nor make us wait."""


class FileLock:
    """`Lock` over the file `.reconciler.lock` in `directory`.

    The file is there while the lock is held, and says by whom; it counts only as long as its holder has it locked, so
    that one who dies frees it. `holder` is what another one is told.
    """

    def __init__(self, directory: str | Path, holder: str, clock: Clock) -> None:
        self._path = Path(directory) / LOCK_FILE
        self._holder = holder
        self._clock = clock
        self._descriptor: int | None = None

    def acquire(self, timeout_seconds: float) -> None:
        """Take the lock; nothing happens when it is ours already.

        Raises:
            LockHeldError: somebody else held it all that time. ClusterError: the file cannot be made.
        """
        until = self._clock.monotonic() + timeout_seconds
        while not self.held():
            try:
                taken = self._try()
            except OSError as error:
                words = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
                raise ClusterError(
                    f"{self._path}: {words}, expected a regular file, in a folder to write to"
                ) from error
            if taken:
                return
            left = until - self._clock.monotonic()
            if left <= 0:
                raise LockHeldError(f"{self._path}: held by {self._words()}, expected it free; try again later")
            self._clock.sleep(min(_POLL_SECONDS, left))

    def held(self) -> bool:
        """Return whether the file we locked is still the one at its place."""
        return self._descriptor is not None and _is_at(self._descriptor, self._path)

    def release(self) -> None:
        """Remove the file and let go of it; nothing happens when it is not ours."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            if self.held():
                self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None

    def _try(self) -> bool:
        """A file that was removed before we got it locked is not the one that others see: try again."""
        with ExitStack() as opened:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _CAREFULLY, 0o600)
            opened.callback(os.close, descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is no regular file")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if not _is_at(descriptor, self._path):
                return False
            self.release()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{self._holder}\n".encode(), 0)
            opened.pop_all()
        self._descriptor = descriptor
        return True

    def _words(self) -> str:
        content = read_bytes(str(self._path), str(self._path.parent))
        words = content[:_MAX_WORDS].decode(errors="replace") if isinstance(content, bytes) else ""
        return printable(words.strip()) or "somebody"


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
