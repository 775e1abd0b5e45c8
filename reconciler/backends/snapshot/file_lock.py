"""The lock of a run on a snapshot: a file in its folder, in the place of the Lease of a cluster."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack, suppress

from reconciler.errors import ClusterError, LockHeldError
from reconciler.messages import printable
from reconciler.time_limit import TimeLimit
from reconciler.yaml.files import path_in, plain_path, read_bytes

LOCK_FILE = ".reconciler.lock"

_POLL_SECONDS = 0.05
_MAX_WORDS = 1000
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Who can add a file to the folder must not choose what we write to, nor make us wait."""


class FileLock:
    """`Lock` over the file `.reconciler.lock` in `directory`.

    The file is there while the lock is held, and says by whom; it counts only as long as its holder has it locked, so
    that one who dies frees it. `holder` is what another one reads of it.
    """

    def __init__(self, directory: str | os.PathLike[str], holder: str) -> None:
        self._path = path_in(plain_path(directory), LOCK_FILE)
        self._holder = holder
        self._descriptor: int | None = None

    def look(self) -> None:
        """Note nothing: a file does not tell who had it meanwhile."""

    def acquire(self, limit: TimeLimit) -> bool:
        """Take the lock, at least try once; nothing happens when it is ours already. What comes back: False.

        Raises:
            LockHeldError: somebody else held it all that time. ClusterError: the file cannot be made.
        """
        while not self.held():
            try:
                taken = self._try()
            except OSError as error:
                words = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
                raise ClusterError(
                    f"{self._path}: {words}, expected a regular file, in a folder to write to"
                ) from error
            if taken:
                break
            if limit.over:
                raise LockHeldError(f"{self._path}: held by {self._words()}, expected it free; try again later")
            limit.sleep(_POLL_SECONDS)
        return False

    def held(self) -> bool:
        """Return whether the file we locked is still the one at its place."""
        return self._descriptor is not None and _is_at(self._descriptor, self._path)

    def release(self) -> None:
        """Remove the file and let go of it; nothing happens when it is not ours."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            if self.held():
                os.unlink(self._path)
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
        content = read_bytes(self._path, os.path.dirname(self._path) or ".")
        words = content[:_MAX_WORDS].decode(errors="replace") if isinstance(content, bytes) else ""
        return printable(words.strip()) or "somebody"


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
