"""Policy files -> documents: every file below a directory, all problems at once."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import PolicyError, Problem
from reconciler.policy.documents import Document
from reconciler.policy.reader import read_documents

_ENDINGS = (".yaml", ".yml")
_LARGEST_FILE = 8 * 2**20
_OURS = b"reconciler/v1alpha1"
_FLEET = re.compile(rb"""\bkind["']?\s*:\s*["']?Fleet\b""")


@dataclass(frozen=True, slots=True)
class Loaded:
    """`complete` False: something could not be read, and may hold one more policy.

    `digest` is the SHA-256 (hex) over the names and bytes of all files.
    """

    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]
    complete: bool
    digest: str


@dataclass(slots=True)
class _Loading:
    documents: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True

    def refuse(self, file: str, message: str, line: int = 1, column: int = 1) -> None:
        self.problems.append(Problem(_spelt(file), line, column, "", message))
        self.complete = False


def load(path: str | Path) -> Loaded:
    """Return the documents of all policy files below `path`, or of the one file it names.

    Raises:
        PolicyError: there is no such directory, or no policy in it. An empty set of policies would wake everything.
    """
    root = str(Path(path))
    loading = _Loading()
    digest = hashlib.sha256()
    for file in sorted(policy_files(root, loading), key=lambda file: file.split(os.sep)):
        content = _bytes(file, loading)
        digest.update(f"{os.path.relpath(file, root)}\0{len(content)}\0".encode(errors="surrogateescape") + content)
        _read(file, content, loading)
    if not loading.documents and not loading.problems:
        raise PolicyError.of([Problem(_spelt(root), 1, 1, "", "has no policy in it, expected at least a Fleet")])
    return Loaded(tuple(loading.documents), tuple(loading.problems), loading.complete, digest.hexdigest())


def left_out(path: str | Path) -> tuple[str, ...]:
    """Return the other files with policies beside or below `path`, sorted, where that is the one file with a Fleet.

    Who names that file alone has left them out: what they want idle would be woken. A directory leaves nothing out, and
    where other files have a Fleet too, nobody can tell what belongs together.
    """
    root = Path(path)
    if not root.is_file():
        return ()
    loading = _Loading()
    found = {
        file: content
        for file in policy_files(str(root.parent), loading)
        if _OURS in (content := _bytes(file, loading)) and not os.path.samefile(file, root)
    }
    return () if any(map(_FLEET.search, found.values())) else tuple(map(_spelt, sorted(found)))


def policy_files(root: str, loading: _Loading) -> Iterator[str]:
    """Yield the policy files below `root` in no order; hidden files and folders are skipped.

    Links are followed, because a mounted ConfigMap is made of them, but no folder is entered twice.

    Raises:
        PolicyError: there is nothing of that name.
    """
    if not os.path.exists(root):
        missing = "does not exist, expected a directory with policy files"
        raise PolicyError.of([Problem(_spelt(root), 1, 1, "", missing)])
    if not os.path.isdir(root):
        yield root
        return
    entered: set[tuple[int, int]] = set()
    pending = [root]
    while pending:
        for inside in _entries(pending.pop(), entered, loading):
            if os.path.isdir(inside):
                pending.append(inside)
            elif inside.endswith(_ENDINGS):
                yield inside


def _entries(folder: str, entered: set[tuple[int, int]], loading: _Loading) -> list[str]:
    """Return the paths of what is in `folder` and not hidden, the last first; nothing where it was entered before."""
    try:
        found = os.stat(folder)
        names = sorted(os.listdir(folder), reverse=True)
    except OSError as error:
        loading.refuse(folder, f"cannot be read: {error.strerror}")
        return []
    identity = (found.st_dev, found.st_ino)
    if identity in entered:
        return []
    entered.add(identity)
    within = "" if folder == "." else folder
    return [os.path.join(within, name) for name in names if not name.startswith(".")]


def _bytes(file: str, loading: _Loading) -> bytes:
    try:
        found = os.stat(file)
        if not stat.S_ISREG(found.st_mode):
            loading.refuse(file, "is no regular file, expected policies")
        elif found.st_size > _LARGEST_FILE:
            loading.refuse(file, f"is larger than {_LARGEST_FILE} bytes, expected policies")
        else:
            with open(file, "rb") as stream:
                return stream.read()
    except OSError as error:
        loading.refuse(file, f"cannot be read: {error.strerror}")
    return b""


def _read(file: str, content: bytes, loading: _Loading) -> None:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        found = f"byte #x{content[error.start]:02x} is no UTF-8, expected UTF-8 text"
        loading.refuse(file, found, line, column)
        return
    documents, problems, complete = read_documents(_spelt(file), text)
    loading.documents += documents
    loading.problems += problems
    loading.complete = loading.complete and complete


def _spelt(file: str) -> str:
    """Return a file's name as it can be printed, also where it is no UTF-8, or can be no file's name."""
    try:
        return os.fsencode(file).decode("utf-8", errors="backslashreplace")
    except UnicodeEncodeError:
        return file.encode(errors="backslashreplace").decode()
