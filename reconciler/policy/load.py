"""Policy files -> documents: every file below a directory, all problems at once."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import PolicyError, Problem
from reconciler.yaml.documents import Document
from reconciler.yaml.files import FoundFiles, decoded, find_files, read_bytes, spelt
from reconciler.yaml.reader import Documents, read_documents

_ENDINGS = (".yaml", ".yml")
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


def load(path: str | Path) -> Loaded:
    """Return the documents of all policy files below `path`, or of the one file it names.

    Raises:
        PolicyError: there is no such directory, or no policy in it. An empty set of policies would wake everything.
    """
    root = str(Path(path))
    found = _found(root)
    read = [Documents(problems=found.problems, complete=not found.problems)]
    digest = hashlib.sha256()
    for file in found.files:
        content = read_bytes(file, root if os.path.isdir(root) else os.path.dirname(root) or ".")
        data = b"" if isinstance(content, Problem) else content
        digest.update(f"{os.path.relpath(file, root)}\0{len(data)}\0".encode(errors="surrogateescape") + data)
        read.append(_read(file, content))
    documents = tuple(document for one in read for document in one.found)
    problems = tuple(problem for one in read for problem in one.problems)
    if not documents and not problems:
        raise PolicyError.of([Problem(spelt(root), 1, 1, "", "has no policy in it, expected at least a Fleet")])
    return Loaded(documents, problems, all(one.complete for one in read), digest.hexdigest())


def left_out(path: str | Path) -> tuple[str, ...]:
    """Return the other files with policies beside or below `path`, sorted, where that is the one file with a Fleet.

    Who names that file alone has left them out: what they want idle would be woken. A directory leaves nothing out, and
    where other files have a Fleet too, nobody can tell what belongs together.
    """
    root = Path(path)
    if not root.is_file():
        return ()
    folder = str(root.parent)
    contents = {file: read_bytes(file, folder) for file in _found(folder).files if not os.path.samefile(file, root)}
    found = {file: data for file, data in contents.items() if isinstance(data, bytes) and _OURS in data}
    return () if any(map(_FLEET.search, found.values())) else tuple(map(spelt, sorted(found)))


def _is_policy_name(name: str) -> bool:
    return name.endswith(_ENDINGS)


def _found(root: str) -> FoundFiles:
    """Return the policy files below `root`, or the one it names; hidden files and folders are skipped.

    Raises:
        PolicyError: there is nothing of that name.
    """
    if not os.path.exists(root):
        missing = "does not exist, expected a directory with policy files"
        raise PolicyError.of([Problem(spelt(root), 1, 1, "", missing)])
    return find_files(root, _is_policy_name) if os.path.isdir(root) else FoundFiles({root: os.stat(root)})


def _read(file: str, content: bytes | Problem) -> Documents:
    text = content if isinstance(content, Problem) else decoded(spelt(file), content)
    if isinstance(text, Problem):
        return Documents(problems=[text], complete=False)
    return read_documents(spelt(file), text[0])
