"""The files of a snapshot on disk: which there are, who may touch them, and changes that are whole or not at all.

Nobody reads while somebody writes: an flock on the folder itself, shared or exclusive, held for as long as one request
takes. A change of one file is a rename. A change of several is written down first (`PENDING`), so that the next writer
finishes it after a crash. Readers never do: who can add a file to a folder must not have it moved by those who look.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.backends.protocols import Clock
from reconciler.errors import ClusterError, LockHeldError, Problem, SnapshotError
from reconciler.messages import printable
from reconciler.yaml.documents import Document
from reconciler.yaml.files import decoded_text, find_files, is_inside, leads_out, read_bytes
from reconciler.yaml.reader import read_documents

PENDING = ".reconciler-pending.json"
METRICS_FILES = ("metrics.yaml", "metrics.yml", "metrics.json")
RECORDING_FILE = "recording.yaml"

_SUFFIXES = (".yaml", ".yml", ".json")
_NEW = ".reconciler-new"


Signature = tuple[int, int, int]
"""Time of change in nanoseconds, size and inode: another one whenever the file was written."""


@dataclass
class Scan:
    """The manifest files of a folder by path, what could not be looked at, and what crashes left behind."""

    files: dict[str, Signature] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


@contextmanager
def locked(directory: Path, exclusive: bool) -> Iterator[None]:
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


def scan(directory: Path, root: str) -> Scan:
    """Return the manifest files below `directory`: *.yaml, *.yml, *.json; none that is hidden, no recordings.

    Links may lead anywhere below `root`.
    """
    found = find_files(str(directory), is_manifest_name, root)
    apart = {os.path.join(directory, name) for name in (*METRICS_FILES, RECORDING_FILE)}
    return Scan(
        files={path: _signature(status) for path, status in found.files.items() if path not in apart},
        problems=found.problems,
        leftovers=[path for path in found.hidden if path.endswith(_NEW) and _is_own(directory, path)],
    )


def _is_own(directory: Path, path: str) -> bool:
    return is_inside(os.path.dirname(path), os.path.realpath(directory))


def read_beside(directory: Path, name: str, root: str | Path) -> Document | list[Problem] | None:
    """Return the one document of the file `name`, which stands beside the manifests; what is wrong; None: no file."""
    path = str(directory / name)
    if not os.path.lexists(path):
        return None
    data = read_bytes(path, str(root))
    text = data if isinstance(data, Problem) else decoded_text(path, data)
    if isinstance(text, Problem):
        return [text]
    read = read_documents(path, text[0])
    if read.problems or len(read.found) != 1:
        return read.problems or [Problem(path, 1, 1, "", f"holds {len(read.found)} documents, expected one")]
    return read.found[0]


def is_manifest_name(name: str) -> bool:
    """Return whether a file called `name` is read as manifests."""
    return not name.startswith(".") and name.lower().endswith(_SUFFIXES)


def signature_of(path: str) -> Signature:
    """Return the signature of the file.

    Raises:
        OSError: it cannot be looked at.
    """
    return _signature(os.stat(path))


def _signature(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino


def replace_files(directory: Path, contents: Mapping[str, bytes | None]) -> None:
    """Give the files their new contents, None: the file goes. All of it happens, or none.

    The folder is held exclusively by the caller.

    Raises:
        ClusterError: nothing was changed, or the next writer finishes the change.
    """
    home = os.path.realpath(directory)
    try:
        steps = [_staged(home, path, content) for path, content in contents.items()]
        if len(steps) > 1:
            _sync_folders(home, steps)
            _write(os.path.join(home, PENDING + _NEW), json.dumps(steps).encode())
            os.replace(os.path.join(home, PENDING + _NEW), os.path.join(home, PENDING))
            _sync(home)
        _carry_out(home, steps)
    except OSError as error:
        where = error.filename or directory
        raise ClusterError(f"{where}: cannot be written: {error.strerror}, expected a folder to write to") from error


def remove_leftovers(leftovers: Sequence[str]) -> None:
    """Remove what crashes left half written. The folder is held exclusively by the caller."""
    for path in leftovers:
        with suppress(OSError):
            os.unlink(path)


def check_finished(directory: Path) -> None:
    """Refuse a folder in which a change of several files was begun and not finished.

    Raises:
        SnapshotError: it was.
    """
    if os.path.lexists(directory / PENDING):
        raise SnapshotError(
            f"{directory / PENDING}: a change of several files was interrupted, expected none; the next `reconciler "
            "apply`, `wake` or `restore` with this snapshot finishes it; if nobody here made it, remove the file"
        )


def finish(directory: Path) -> None:
    """Finish the change that a crash interrupted, where there is one. The folder is held exclusively by the caller.

    Raises:
        SnapshotError: what is written there is no such change. ClusterError: it cannot be finished.
    """
    pending, home = directory / PENDING, os.path.realpath(directory)
    if not os.path.lexists(pending):
        return
    try:
        steps = _pending_steps(home, read_bytes(str(pending), home))
    except (ValueError, RecursionError) as error:
        raise SnapshotError(
            f"{pending}: an interrupted change cannot be finished: {error}; if nobody here made it, remove the file"
        ) from error
    try:
        _carry_out(home, steps)
    except OSError as error:
        raise ClusterError(f"{pending}: an interrupted change cannot be finished: {error}; check the folder") from error


FileStep = tuple[str | None, str]
"""Where the new content is (None: the file goes) and which file gets it, both relative to the folder."""


def _pending_steps(home: str, data: bytes | Problem) -> list[FileStep]:
    """Return the steps in `data`.

    Raises:
        ValueError: they are not such as we write.
    """
    if isinstance(data, Problem):
        raise ValueError(data.message)
    steps = json.loads(data)
    if not isinstance(steps, list):
        raise ValueError("is no list, expected one of steps")
    for step in steps:
        if not (isinstance(step, list) and len(step) == 2 and _is_step(home, *step)):
            raise ValueError(f"step {json.dumps(step)[:200]} is not one of ours, expected files of this folder")
    return [(source, target) for source, target in steps]


def _is_step(home: str, source: Any, target: Any) -> bool:
    """Whether the target is a manifest of the folder itself, behind no link, and the source what we wrote beside it."""
    if not isinstance(target, str) or b"\0" in os.fsencode(target):
        return False
    if target != os.path.relpath(os.path.join(home, target), home):
        return False
    folder, name = os.path.split(target)
    hidden = any(part.startswith(".") for part in target.split(os.sep))
    if hidden or not is_manifest_name(name) or os.path.realpath(_at(home, folder)) != _at(home, folder):
        return False
    if source is None:
        return True
    beside = _at(home, source) if source == _beside(target) else ""
    return bool(beside) and (not os.path.lexists(beside) or stat.S_ISREG(os.lstat(beside).st_mode))


def _at(home: str, name: str) -> str:
    return os.path.join(home, name) if name else home


def _beside(target: str) -> str:
    """Return where the new content of `target` is written."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}{_NEW}")


def _staged(home: str, path: str, content: bytes | None) -> FileStep:
    """Write the new content beside the file. Behind a link the file it points to is changed."""
    target = os.path.realpath(path)
    if not is_inside(target, home):
        raise ClusterError(f"{path}: {leads_out(home)}; only what is inside is written")
    name = os.path.relpath(target, home)
    if content is None:
        return None, name
    _write(_at(home, _beside(name)), content, like=target)
    return _beside(name), name


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


def _carry_out(home: str, steps: Sequence[FileStep]) -> None:
    """Every step can be done again: what is done already has nothing beside it any more."""
    for beside, target in steps:
        with suppress(FileNotFoundError):
            if beside is None:
                os.unlink(_at(home, target))
            else:
                os.replace(_at(home, beside), _at(home, target))
    _sync_folders(home, steps)
    with suppress(FileNotFoundError):
        os.unlink(_at(home, PENDING))


def _sync_folders(home: str, steps: Sequence[FileStep]) -> None:
    for folder in sorted({os.path.dirname(_at(home, target)) for _, target in steps}):
        with suppress(FileNotFoundError):
            _sync(folder)


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
