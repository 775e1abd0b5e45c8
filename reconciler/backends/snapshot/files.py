"""The files of a snapshot on disk: which there are, who may touch them, and how one is replaced.

Nobody reads while somebody writes: an flock on the folder itself, shared or exclusive, held for as long as one request
takes. A file is replaced by a rename, so that it is the old or the new one whatever happens.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from reconciler.backends.decode.mismatches import problem_at, read_as
from reconciler.backends.decode.values import Wire
from reconciler.errors import ClusterError, Problem, SnapshotError
from reconciler.yaml.documents import Document
from reconciler.yaml.files import (
    FoundFiles,
    decoded_text,
    find_files,
    is_inside,
    leads_out,
    path_in,
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
