"""The policy files of a directory: found, read, and taken apart into documents."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, groupby

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import PolicyError, Problem, UsageError
from reconciler.messages import counted, printable
from reconciler.policy.file_owners import FLEET_FILE, FileOwners, below, owners_by
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.policy.policy_kinds import POLICY_KINDS, policy_document
from reconciler.yaml.documents import Document
from reconciler.yaml.files import MAX_BYTES, FoundFiles, decoded_text, find_files, plain_path, read_bytes, spelt
from reconciler.yaml.reader import Documents, read_documents

_ENDINGS = (".yaml", ".yml")
_COMPRESSED = tuple(f"{ending}.gz" for ending in _ENDINGS)
_NEARLY = (*_ENDINGS, ".txt", ".json", *_COMPRESSED)
TESTS = tuple(f"_test{ending}" for ending in _ENDINGS)
"""How files end that hold tests of policies, and no policies."""

MOST_BYTES = 16 * 2**20
"""How large all policy files may be together."""

_MOST_DOCUMENTS = 10_000
"""How many documents the platform may have, and each tenant."""

_MOST_PROBLEMS = 100
"""How many problems of one file are reported."""

_MARKED = frozenset(("spec", "limits"))  # the places of limits are asked for of every policy
_OURS = API_VERSION.encode()
_FLEET = rb"""\bkind["']?\s*:\s*["']?Fleet\b"""
_POLICY = _FLEET.replace(b"Fleet", f"({'|'.join(POLICY_KINDS)})".encode())


class PolicyDocuments(Struct, frozen=True):
    """The documents of policy files, not judged yet. `complete` False: something could not be read, and may hold one
    more policy.

    `path` is where they come from, for messages. `digest` is the SHA-256 (hex) over the names and bytes of all files.
    What `check_deadline` raises ends the reading.
    """

    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]
    complete: bool
    digest: str
    path: str
    root: str = "."  # the folder that paths of tenants are below
    check_deadline: Callable[[], None] = lambda: None


def load(path: str | os.PathLike[str], check_deadline: Callable[[], None] = lambda: None) -> PolicyDocuments:
    """Return the documents of all policy files below `path`, or of the one file it names. `check_documents` judges
    them.

    `check_deadline` is called before each file, and by who judges the documents.

    Raises:
        PolicyError: there is no such directory, or no policy in it. An empty set of policies would wake everything.
        UsageError: it is a test of policies.
    """
    root = plain_path(path)
    found = _found(root)
    folder = root if os.path.isdir(root) else os.path.dirname(root) or "."
    owners = cache(partial(_owners_in, folder))  # asked only where all together are too large, or too many
    read: dict[str, Documents] = {}
    digest = hashlib.sha256()
    not_read = _too_large({file: stat.st_size for file, stat in found.files.items()}, folder, owners)
    for file in found.files:
        check_deadline()
        content = _content(file, root, not_read)
        data = b"" if isinstance(content, Problem) else content
        digest.update(f"{os.path.relpath(file, root)}\0{len(data)}\0".encode(errors="surrogateescape") + data)
        read[file] = documents_in(file, content)
    _leave_out_too_many(read, folder, owners)
    documents = tuple(document for part in read.values() for document in part.found)
    problems = tuple(chain(found.problems, *(part.problems for part in read.values())))
    if not documents and not problems:
        raise PolicyError.of([Problem.of_path(spelt(root), "has no policy in it, expected at least a Fleet")])
    if not problems and _are_manifests(documents):
        words = "has objects of Kubernetes and no policy in it, expected at least a Fleet"
        raise PolicyError.of(
            [Problem.of_path(spelt(root), f"{words}; a snapshot is given as --snapshot {spelt(root)}")]
        )
    complete = not found.problems and all(part.complete for part in read.values())
    return PolicyDocuments(documents, problems, complete, digest.hexdigest(), str(path), folder, check_deadline)


def _content(file: str, root: str, left_out: Mapping[str, Problem | None]) -> bytes | Problem:
    """Return what is in a policy file, b"" for one of those that are left out, or why it is not read."""
    if not os.path.relpath(file, root).isprintable():
        words = "its name holds a control character or no Unicode, expected one that can be printed"
        return Problem(printable(spelt(file)), 1, 1, "", words)
    if file in left_out:
        return left_out[file] or b""
    return read_bytes(file, root if os.path.isdir(root) else os.path.dirname(root) or ".")


def _owners_in(folder: str) -> FileOwners:
    """Return whose the files in `folder` are by its Fleet alone; everything is the platform's where it does not say."""
    source = fleet_document(folder)
    return FileOwners() if source is None else owners_by(policy_document(source, "Fleet"), folder)


def fleet_document(folder: str) -> Document | None:
    """Return the Fleet in `FLEET_FILE`, None where there is not exactly one that can be read."""
    file = FLEET_FILE if folder == "." else os.path.join(folder, FLEET_FILE)
    read = documents_in(file, read_bytes(file, folder))
    found = [one for one in read.found if isinstance(one.value, dict) and one.value.get("kind") == "Fleet"]
    return found[0] if len(found) == 1 and not read.problems else None


def left_out(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the other files with policies beside or below `path`, sorted, where that is the one file with a Fleet.

    Who names that file alone has left them out: what they want idle would be woken. A directory leaves nothing out, and
    where other files have a Fleet too, nobody can say what belongs together.
    """
    root = plain_path(path)
    if not os.path.isfile(root):
        return ()
    folder = os.path.dirname(root) or "."
    contents = {file: read_bytes(file, folder) for file in _found(folder).files if not os.path.samefile(file, root)}
    found = {file: data for file, data in contents.items() if isinstance(data, bytes) and _OURS in data}
    return () if any(re.search(_FLEET, text) for text in found.values()) else tuple(map(spelt, sorted(found)))


def _is_policy_name(name: str) -> bool:
    return name.endswith(_ENDINGS) and not name.endswith(TESTS)


def overlooked(path: str | os.PathLike[str]) -> tuple[Problem, ...]:
    """Return a warning for each file below `path` that holds a policy, or is compressed, and is not read because of its
    name.
    """
    root = plain_path(path)
    if not os.path.isdir(root):
        return ()
    words = "and is not read, expected a name that ends in .yaml or .yml, not in _test, and begins with no dot"
    others = find_files(root, lambda name: name.lower().endswith(_NEARLY) and not _is_policy_name(name))
    found = (*others.files, *(file for file in others.hidden if file.lower().endswith(_NEARLY)))
    return tuple(
        Problem.of_path(spelt(file), f"{'is compressed' if is_compressed else 'holds a policy'} {words}")
        for file in sorted(found)
        if (is_compressed := file.lower().endswith(_COMPRESSED)) or _holds_policy(read_bytes(file, root))
    )


def _holds_policy(content: bytes | Problem) -> bool:
    return isinstance(content, bytes) and _OURS in content and re.search(_POLICY, content) is not None


def _are_manifests(documents: Sequence[Document]) -> bool:
    """Return whether `documents` have objects of Kubernetes and none of ours; a ReplicaSet may be either."""
    values = [one.value for one in documents if isinstance(one.value, dict) and one.value.get("kind") != "ReplicaSet"]
    groups = {str(value["apiVersion"]).partition("/")[0] for value in values if "apiVersion" in value}
    return bool(groups) and API_VERSION.partition("/")[0] not in groups


def _found(root: str) -> FoundFiles:
    """Return the policy files below `root`, or the one it names; hidden files and folders are skipped.

    Raises:
        PolicyError: there is nothing of that name. UsageError: that is a test of policies.
    """
    if not os.path.exists(root):
        missing = "does not exist, expected a directory with policy files"
        raise PolicyError.of([Problem.of_path(spelt(root), missing)])
    if root.endswith(TESTS) and not os.path.isdir(root):
        words = "is a test of policies, expected a directory with policy files"
        raise UsageError(f"{spelt(root)}: {words}; `reconciler test` runs it")
    if not os.path.isdir(root):
        return FoundFiles({root: os.stat(root)})
    return find_files(root, _is_policy_name)


def documents_in(file: str, content: bytes | Problem) -> Documents:
    """Return the documents of a file of which this was read, or the one problem why none was."""
    text = decoded_text(spelt(file), content)
    if isinstance(text, Problem):
        return Documents(problems=[text], complete=False)
    return read_documents(spelt(file), text, most=_MOST_DOCUMENTS, marked_keys=_MARKED)


# A Fleet in a file that is not valid YAML from some line on: the part above that line is read, for wakes only.


_NEEDED = r"\s*(namespace|formerNames)\s*:"
_MOST_LINES = 300_000
"""How many lines are read in all, for the readable part may end at any of them."""


def broken_fleets(problems: Iterable[Problem], root: str) -> Iterator[Document]:
    """Yield the Fleets above the first line that cannot be read, of each file below `root` that has such a `problem`.

    They are not `whole`. Of one that may say below that line where its records and its lock are, nothing is used.
    """
    for file, line in {problem.file: problem.line for problem in problems}.items():
        text = decoded_text(file, read_bytes(file, root))
        if not isinstance(text, Problem):
            yield from _above(file, text.splitlines(keepends=True), line)


def _above(file: str, lines: list[str], broken: int) -> Iterator[Document]:
    needed = max((number for number, line in enumerate(lines, 1) if re.match(_NEEDED, line)), default=1)
    ends = [number for number, line in enumerate(lines[:broken], 1) if number >= needed and line.strip()]
    for end in ends[: -max(10, _MOST_LINES // broken) - 1 : -1]:
        read = read_documents(file, "".join(lines[:end]))
        found = [one for one in read.found if isinstance(one.value, dict) and one.value.get("kind") == "Fleet"]
        if found and not read.problems:
            found[0].whole = False
            yield found[0]
            return


# How much each owner of policy files may write: a tenant that writes too much is stopped alone.


def _too_large(sizes: Mapping[str, int], root: str, owners: Callable[[], FileOwners]) -> dict[str, Problem | None]:
    """Return the files that are not read because all together are too large, each with its problem, or None.

    Those of the tenant with the most bytes go first, with one problem for all of them, then those of the next one; of
    the platform's the largest, and never the Fleet.
    """
    small = {file: size for file, size in sizes.items() if size <= MAX_BYTES}
    total, found, by_owner = sum(small.values()), dict[str, Problem | None](), dict[str, list[str]]()
    for file in sorted(small, key=lambda one: (-small[one], one)) if total > MOST_BYTES else ():
        by_owner.setdefault(owners().name_of(file), []).append(file)
    of_platform = [([one], "it is the largest left") for one in by_owner.pop("", ()) if below(one, root) != FLEET_FILE]
    bytes_of = {name: sum(map(small.__getitem__, files)) for name, files in by_owner.items()}
    of_tenants = [
        (by_owner[name], f"those of tenant {name} have {bytes_of[name]}, the most, and none of them is read")
        for name in sorted(by_owner, key=lambda one: (-bytes_of[one], one))
    ]
    for (first, *others), why in (*of_tenants, *of_platform):
        if total <= MOST_BYTES:
            break
        total -= sum(small[file] for file in (first, *others))
        words = f"all policy files together have more than {MOST_BYTES} bytes, expected fewer; {why}"
        found |= {first: _of_file(first, words), **dict.fromkeys(others)}
    return found


def _leave_out_too_many(read: Mapping[str, Documents], root: str, owners: Callable[[], FileOwners]) -> None:
    """Take out the documents of each owner that has too many, but for those of the Fleet's file; the first file that
    has one of these gets the problem.
    """
    if sum(len(documents.found) for documents in read.values()) <= _MOST_DOCUMENTS:
        return
    counts: Counter[str] = Counter()
    for file, documents in read.items():
        owner = owners().name_of(file)
        known = counts[owner]
        counts[owner] += len(documents.found)
        if counts[owner] > _MOST_DOCUMENTS:
            documents.found, documents.problems = [], []
        if known <= _MOST_DOCUMENTS < counts[owner]:
            whose = f"tenant {owner}" if owner else "the platform"
            words = f"holds one of more than {_MOST_DOCUMENTS} documents of {whose}, expected fewer"
            documents.problems, documents.complete = [_of_file(file, f"{words}; none of them is used")], False
    for file, documents in read.items():
        if counts[owners().name_of(file)] > _MOST_DOCUMENTS and below(file, root) != FLEET_FILE:
            documents.found = []


def _of_file(file: str, words: str) -> Problem:
    return Problem(printable(spelt(file)), 1, 1, "", words)


def first_problems(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the first problems of each file, and how many more there are; they are sorted."""
    for _, inside in groupby(problems, key=lambda problem: problem.file):
        all_of_file = list(inside)
        yield from all_of_file[:_MOST_PROBLEMS]
        if others := all_of_file[_MOST_PROBLEMS:]:
            yield replace(others[0], field="", message=f"and {counted(len(others), 'more problem')} of this file")
