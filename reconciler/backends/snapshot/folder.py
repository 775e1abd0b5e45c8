"""The files of a snapshot on disk: which there are, who may touch them, and changes that are whole or not at all.

Nobody reads while somebody writes: an flock on the folder itself, shared or exclusive, held for as long as one request
takes. A change of one file is a rename. A change of several is written down first (`PENDING`), so that whoever comes
after a crash finishes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import ClusterError, Problem, SnapshotError

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


def scan(directory: Path) -> Scan:
    """Return the manifest files below `directory`: *.yaml, *.yml, *.json; none that is hidden, no recordings."""
    found = Scan()
    _scan(str(directory), found, set(), top=True)
    return found


def _scan(directory: str, found: Scan, seen: set[tuple[int, int]], top: bool = False) -> None:
    try:
        here = os.stat(directory)
        if (here.st_dev, here.st_ino) in seen:
            return
        seen.add((here.st_dev, here.st_ino))
        names = sorted(os.listdir(directory))
    except OSError as error:
        found.problems.append(_problem(directory, error, "a folder that can be read"))
        return
    for name in names:
        if name.startswith(".") and name.endswith(_NEW):
            found.leftovers.append(f"{directory}/{name}")
        if not name.startswith(".") and not (top and name in (*METRICS_FILES, RECORDING_FILE)):
            _look_at(directory, name, found, seen)


def is_manifest_name(name: str) -> bool:
    """Return whether a file called `name` is read as manifests."""
    return not name.startswith(".") and name.lower().endswith(_SUFFIXES)


def signature_of(path: str) -> Signature:
    """Return the signature of the file.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _look_at(directory: str, name: str, found: Scan, seen: set[tuple[int, int]]) -> None:
    path = f"{directory}/{name}"
    is_manifest = is_manifest_name(name)
    try:
        status = os.stat(path)
    except OSError as error:
        if is_manifest:
            found.problems.append(_problem(path, error, "a file that can be read"))
        return
    if stat.S_ISDIR(status.st_mode):
        _scan(path, found, seen)
    elif is_manifest and stat.S_ISREG(status.st_mode):
        found.files[path] = (status.st_mtime_ns, status.st_size, status.st_ino)


def _problem(path: str, error: OSError, expected: str) -> Problem:
    return Problem(path, 1, 1, "", f"cannot be read: {error.strerror}, expected {expected}")


def read_bytes(path: str) -> bytes | Problem:
    """Return what is in the file, or why it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        return _problem(path, error, "a file that can be read")


def replace_files(directory: Path, contents: Mapping[str, bytes | None]) -> None:
    """Give the files their new contents, None: the file goes. All of it happens, or none.

    The folder is held exclusively by the caller.

    Raises:
        ClusterError: nothing was changed, or the next reader or writer finishes the change.
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


def is_interrupted(directory: Path) -> bool:
    """Return whether a change of several files was begun and not finished."""
    return (directory / PENDING).exists()


def finish(directory: Path) -> None:
    """Finish the change that a crash interrupted. The folder is held exclusively by the caller.

    Raises:
        ClusterError: it cannot be finished.
    """
    pending = directory / PENDING
    try:
        _carry_out(os.path.realpath(directory), json.loads(pending.read_bytes()))
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"{pending}: an interrupted change cannot be finished: {error}; check the folder") from error


Step = tuple[str | None, str]
"""Where the new content is (None: the file goes) and which file gets it, both relative to the folder."""


def _staged(home: str, path: str, content: bytes | None) -> Step:
    """Write the new content beside the file. Behind a link the file it points to is changed."""
    target = os.path.realpath(path)
    if content is None:
        return None, os.path.relpath(target, home)
    beside = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}{_NEW}")
    _write(beside, content, like=target)
    return os.path.relpath(beside, home), os.path.relpath(target, home)


def _write(path: str, content: bytes, like: str = "") -> None:
    """Write a file through to the disk, with the mode of `like` where that exists."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        if os.path.exists(like):
            os.fchmod(descriptor, stat.S_IMODE(os.stat(like).st_mode))
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _carry_out(home: str, steps: Sequence[Step]) -> None:
    """Every step can be done again: what is done already has nothing beside it any more."""
    for beside, target in steps:
        if beside is None:
            Path(home, target).unlink(missing_ok=True)
        elif os.path.exists(os.path.join(home, beside)):
            os.replace(os.path.join(home, beside), os.path.join(home, target))
    _sync_folders(home, steps)
    Path(home, PENDING).unlink(missing_ok=True)


def _sync_folders(home: str, steps: Sequence[Step]) -> None:
    for folder in sorted({os.path.dirname(os.path.join(home, target)) for _, target in steps}):
        _sync(folder)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
