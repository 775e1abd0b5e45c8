"""The files of a snapshot on disk: which there are, who may touch them, and how one is replaced.

Nobody reads while somebody writes: an flock on the folder itself, shared or exclusive, held for as long as one request
takes. A file is replaced by a rename, so that it is the old or the new one whatever happens.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

from reconciler.backends.decode.mismatches import problem_at, read_as
from reconciler.backends.decode.values import Wire
from reconciler.errors import ClusterError, LockHeldError, Problem, SnapshotError
from reconciler.messages import printable
from reconciler.time_limit import TimeLimit
from reconciler.yaml.documents import Document
from reconciler.yaml.files import (
    FoundFiles,
    decoded_text,
    find_files,
    is_inside,
    leads_out,
    path_in,
    plain_path,
    read_bytes,
)
from reconciler.yaml.reader import read_documents

METRICS_FILES = ("metrics.yaml", "metrics.yml", "metrics.json")
RECORDING_FILE = "recording.yaml"

_SUFFIXES = (".yaml", ".yml", ".json")
_NEW = ".reconciler-new"


W = TypeVar("W", bound=Wire)

Signature = tuple[int, int, int]
"""Time of change in nanoseconds, size and inode: another one whenever the file was written."""


@contextmanager
def locked(directory: str, exclusive: bool) -> Iterator[None]:
    """Hold the folder, alone or together with other readers; where the file system knows no locks, readers go on.

    Raises:
        SnapshotError: the folder cannot be opened. ClusterError: it cannot be locked for writing.
    """
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SnapshotError(f"{directory}: {error.strerror}, expected a folder with manifests") from error
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        except OSError as error:
            if exclusive:
                raise ClusterError(
                    f"{directory}: cannot be locked, {error.strerror}, expected a local folder"
                ) from error
        yield
    finally:
        os.close(folder)


def scan(directory: str, root: str) -> FoundFiles:
    """Return the manifest files below `directory`: *.yaml, *.yml, *.json; none that is hidden, no recordings.

    Links may lead anywhere below `root`.
    """
    found = find_files(directory, is_manifest_name, root)
    for name in (*METRICS_FILES, RECORDING_FILE):
        found.files.pop(path_in(directory, name), None)
    return found


def read_side_file(directory: str, name: str, root: str, shape: type[W]) -> tuple[W, Document] | list[Problem]:
    """Return what the file `name`, which stands beside the manifests, says as a `shape`, or all that is wrong with it;
    [] where it is not there. Links may lead anywhere below `root`, by default the directory.
    """
    path = path_in(directory, name)
    if not os.path.lexists(path):
        return []
    text = decoded_text(path, read_bytes(path, root or directory))
    if isinstance(text, Problem):
        return [text]
    read = read_documents(path, text)
    if read.problems or len(read.found) != 1:
        many = Problem(path, 1, 1, "", f"holds {len(read.found)} documents, expected one")
        return read.problems or [many]
    document = read.found[0]
    value = read_as(shape, document.value)
    if not isinstance(value, list):
        return value, document
    return [problem_at(document, wrong.path, wrong.words(), key=bool(wrong.unknown)) for wrong in value]


def is_manifest_name(name: str) -> bool:
    """Return whether a file called `name` is read as manifests."""
    return not name.startswith(".") and name.lower().endswith(_SUFFIXES)


def changed_at(folder: str) -> int:
    """Return when a file was last added to the folder, replaced in it or removed from it, -1 where it is gone."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return -1


def signature_of(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino


def check_writable(directory: str, paths: Iterable[str]) -> None:
    """Look at the places of `paths` before the first of them is written.

    Raises:
        ClusterError: one leads out of `directory` by a link, or is in a folder that cannot be written to.
    """
    home = os.path.realpath(directory)
    folders = {os.path.dirname(_target(home, path)) for path in paths}
    for folder in sorted(folders):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ClusterError(f"{folder}: cannot be written: permission denied, expected a folder to write to")


def replace_file(directory: str, path: str, content: bytes) -> None:
    """Give the file its new content; behind a link the file that it points to. It is whole, or nothing has changed.

    Raises:
        ClusterError: it cannot be written.
    """
    target = _target(os.path.realpath(directory), path)
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name}{_NEW}")
    with _words_of(directory):
        _write(beside, content, like=target)
        os.replace(beside, target)


def remove_file(directory: str, path: str) -> None:
    """Remove the file, or the one that the link there points to, once the new files of `directory` are on the disk.

    Raises:
        ClusterError: it cannot be removed.
    """
    target = _target(os.path.realpath(directory), path)
    with _words_of(directory):
        _sync(directory)
        with suppress(FileNotFoundError):
            os.unlink(target)


@contextmanager
def _words_of(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or directory
        raise ClusterError(f"{where}: cannot be written: {error.strerror}, expected a folder to write to") from error


def _target(home: str, path: str) -> str:
    target = os.path.realpath(path)
    if not is_inside(target, home):
        raise ClusterError(f"{path}: {leads_out(home)}; only what is inside is written")
    return target


def remove_temporary_files(directory: str, hidden: Iterable[str]) -> None:
    """Remove what crashes left half written of the `hidden` files. The folder is held exclusively by the caller."""
    home = os.path.realpath(directory)
    for path in hidden:
        if path.endswith(_NEW) and is_inside(os.path.dirname(path), home):
            with suppress(OSError):
                os.unlink(path)


def _write(path: str, content: bytes, like: str = "") -> None:
    """Write a file through to the disk, with the mode of `like` where that exists, else for us alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, stat.S_IMODE(os.stat(like).st_mode) if os.path.exists(like) else 0o600)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
