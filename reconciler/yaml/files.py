"""Files below a directory, found and read without ever leaving it.

Links are followed, because a mounted ConfigMap is made of them, but none that leads out: who may add a file to a
repository must not read, through us, what we may read.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from reconciler.errors import Problem

MAX_BYTES = 64 * 2**20
MAX_FOLDERS = 64
"""How large a file may be, and how many folders may be inside one another."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NOT_REGULAR = "is no regular file"
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class FoundFiles(Struct):
    """Files by path, sorted by the names on it; hidden entries, none of which is entered; what is wrong."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def find_files(folder: str, is_wanted: Callable[[str], bool], root: str = "") -> FoundFiles:
    """Return the regular files below `folder` whose name is wanted; links may lead anywhere below `root`.

    `root` "" is the folder itself. No folder is entered twice, and none through a link that can be entered without:
    who may add a link must not give the files of others another path.
    """
    walk = _Walk(os.path.realpath(root or folder), is_wanted)
    pending = [("" if folder == "." else folder, 0)]
    while pending or walk.links:
        path, depth = pending.pop() if pending else walk.links.pop(0)
        try:
            pending += [(os.path.join(path, name), depth + 1) for name in walk.names_at(path, depth)]
        except OSError as error:
            if depth == 0 or is_wanted(os.path.basename(path)) or error.errno not in (errno.ENOENT, errno.ELOOP):
                walk.add(path or folder, f"cannot be read: {error.strerror}, expected a file that can be read")
    return walk.ended()


class _Walk:
    def __init__(self, home: str, is_wanted: Callable[[str], bool]) -> None:
        self.found = FoundFiles()
        self._home = home
        self._is_wanted = is_wanted
        self._entered: set[tuple[int, int]] = set()
        self._followed: set[str] = set()
        self.links: list[tuple[str, int]] = []

    def ended(self) -> FoundFiles:
        """Return what was found; what came last, through a link, stands at its name."""
        if self._followed:
            self.found.files = dict(sorted(self.found.files.items(), key=lambda entry: entry[0].split(os.sep)))
        return self.found

    def names_at(self, path: str, depth: int) -> list[str]:
        """Return what is in the folder at `path`, the last name first, nothing for a file, which is kept.

        Raises:
            OSError: it cannot be looked at.
        """
        status = os.lstat(path or ".") if depth else os.stat(path or ".")
        linked = stat.S_ISLNK(status.st_mode)
        if linked:
            status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            if linked and path not in self._followed:
                self._followed.add(path)
                self.links += [(path, depth)] if self._stays(path) else []
                return []
            return self._names_in(path, depth, status)
        if self._is_wanted(os.path.basename(path)) and (not linked or self._stays(path)):
            if stat.S_ISREG(status.st_mode):
                self.found.files[path] = status
            else:
                self.add(path, "is no regular file, expected one")
        return []

    def add(self, path: str, words: str) -> None:
        self.found.problems.append(Problem(spelt(path), 1, 1, "", words))

    def _names_in(self, path: str, depth: int, status: os.stat_result) -> list[str]:
        if depth > MAX_FOLDERS:
            self.add(path, f"is inside more than {MAX_FOLDERS} folders, expected fewer")
            return []
        identity = (status.st_dev, status.st_ino)
        if identity in self._entered:
            return []
        self._entered.add(identity)
        names = sorted(os.listdir(path or "."), reverse=True)
        self.found.hidden += [os.path.join(path, name) for name in names if name.startswith(".")]
        return [name for name in names if not name.startswith(".")]

    def _stays(self, path: str) -> bool:
        if is_inside(path, self._home):
            return True
        self.add(path, leads_out(self._home))
        return False


def plain_path(path: str | os.PathLike[str]) -> str:
    """Return `path` without what names nothing: "." and empty parts. A ".." stays: what is before it may be a link."""
    text = os.fspath(path)
    return "/" * text.startswith("/") + "/".join(part for part in text.split("/") if part not in ("", ".")) or "."


def path_in(folder: str, name: str) -> str:
    """Return the path of what is called `name` in `folder`, which `plain_path` gave."""
    return name if folder == "." else os.path.join(folder, name)


def is_inside(path: str, home: str) -> bool:
    """Return whether what `path` leads to lies in the folder `home`, a path without links."""
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(home, ""))


def leads_out(home: str) -> str:
    """Return the words about a link that leaves `home`."""
    return f"is a link that leads out of {spelt(home)}, expected one that stays inside"


def read_bytes(path: str, root: str) -> bytes | Problem:
    """Return what is in the regular file at `path`, a link only where it stays below `root`; or why it is not read."""
    try:
        content = _content(path, root)
    except OSError as error:
        content = f"cannot be read: {error.strerror}, expected a file that can be read"
    return content if isinstance(content, bytes) else Problem(spelt(path), 1, 1, "", content)


def _content(path: str, root: str) -> bytes | str:
    """Return the bytes, or what is wrong with the file."""
    try:
        descriptor = os.open(path, _READ | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        target, home = os.path.realpath(path), os.path.realpath(root)
        if not is_inside(target, home):
            return leads_out(home)
        descriptor = os.open(target, _READ | os.O_NOFOLLOW)
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return "is no regular file, expected one"
        if found.st_size > MAX_BYTES:
            return f"is larger than {MAX_BYTES} bytes, expected a smaller file"
        return stream.read(found.st_size)


def write_private(path: str, parts: Iterable[str]) -> None:
    """Write the text in `parts` to the file at `path`, which only we may read then; a link there is not followed.

    Raises:
        OSError: it cannot be written, or is no regular file.
    """
    _write(path, parts, 0o600)


def write_new(path: str, text: str, mode: int) -> None:
    """Write `text` to a new file at `path` with the permissions `mode`.

    Raises:
        OSError: it cannot be written, or something is there already.
    """
    _write(path, (text,), mode, os.O_EXCL)


def _write(path: str, parts: Iterable[str], mode: int, flags: int = 0) -> None:
    try:
        descriptor = os.open(path, _WRITE | flags, mode)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a pipe that nobody reads
            raise
        raise OSError(errno.ENXIO, _NOT_REGULAR, path) from error
    with open(descriptor, "w", encoding="utf-8") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, _NOT_REGULAR, path)
        os.fchmod(descriptor, mode)
        os.ftruncate(descriptor, 0)
        stream.writelines(parts)


def decoded_text(file: str, data: bytes | Problem) -> str | Problem:
    """Return the text of `data`, the content of `file`, which a byte order mark may tell the encoding of; or why there
    is none, which may have been known before.
    """
    if isinstance(data, Problem):
        return data
    if data.startswith(b"version https://git-lfs.github.com/"):
        return Problem(file, 1, 1, "", "is a pointer of Git LFS, expected the content; run git lfs pull")
    mark, codec = next(((mark, codec) for mark, codec in _BOMS if data.startswith(mark)), (b"", "utf-8"))
    try:
        return data[len(mark) :].decode(codec)
    except UnicodeDecodeError as error:
        at = len(mark) + error.start
        before = data[len(mark) : at].decode(codec, errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return Problem(file, line, column, "", f"byte #x{data[at]:02x} is no {codec.upper()}, expected text")


def spelt(file: str) -> str:
    """Return a file's name as it can be printed, also where it is no UTF-8, or can be no file's name."""
    try:
        return os.fsencode(file).decode("utf-8", errors="backslashreplace")
    except UnicodeEncodeError:
        return file.encode(errors="backslashreplace").decode()
