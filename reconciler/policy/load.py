"""Policy files -> documents: every file below a directory, all problems at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import PolicyError, Problem
from reconciler.policy.documents import Document, read_documents

_ENDINGS = (".yaml", ".yml")
_LARGEST_FILE = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Loaded:
    """`digest` is the SHA-256 (hex) over the names and bytes of all files."""

    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]
    digest: str


def load(path: str | Path) -> Loaded:
    """Return the documents of all policy files below `path`, or of the one file it names.

    Raises:
        PolicyError: there is no such directory, or no policy in it. An empty set of policies would wake everything.
    """
    root = str(path)
    files = list(policy_files(root))
    documents: list[Document] = []
    problems: list[Problem] = []
    digest = hashlib.sha256()
    for file in files:
        content = _bytes(file, problems)
        digest.update(f"{os.path.relpath(file, root)}\0{len(content)}\0".encode(errors="surrogateescape") + content)
        found, faults = _read(file, content)
        documents += found
        problems += faults
    if not documents and not problems:
        raise PolicyError.of([_nothing(root, "has no policy in it, expected at least a Fleet")])
    return Loaded(tuple(documents), tuple(problems), digest.hexdigest())


def policy_files(root: str) -> Iterator[str]:
    """Yield the policy files below `root`, sorted; hidden files and folders are skipped, links to folders not followed.

    Raises:
        PolicyError: there is nothing of that name.
    """
    if os.path.isfile(root):
        yield root
        return
    if not os.path.isdir(root):
        raise PolicyError.of([_nothing(root, "does not exist, expected a directory with policy files")])
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_ENDINGS) and not name.startswith("."):
                yield os.path.join(folder, name)


def _nothing(root: str, message: str) -> Problem:
    return Problem(root, 1, 1, "", message)


def _bytes(file: str, problems: list[Problem]) -> bytes:
    try:
        if os.path.getsize(file) > _LARGEST_FILE:
            problems.append(Problem(file, 1, 1, "", f"is larger than {_LARGEST_FILE} bytes, expected policies"))
            return b""
        with open(file, "rb") as stream:
            return stream.read()
    except OSError as error:
        problems.append(Problem(file, 1, 1, "", f"cannot be read: {error.strerror}"))
        return b""


def _read(file: str, content: bytes) -> tuple[list[Document], list[Problem]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return [], [
            Problem(file, line, column, "", f"byte #x{content[error.start]:02x} is no UTF-8, expected UTF-8 text")
        ]
    return read_documents(file, text)
