"""How much each owner of policy files may write: a tenant that writes too much is stopped alone."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby

from reconciler.errors import Problem
from reconciler.messages import printable
from reconciler.policy.tenants import FLEET_FILE, FileOwners, below
from reconciler.yaml.files import MAX_BYTES, spelt
from reconciler.yaml.reader import Documents

MOST_BYTES = 16 * 2**20
"""How large all policy files may be together."""

MOST_DOCUMENTS = 10_000
"""How many documents the platform may have, and each tenant."""


MOST_PROBLEMS = 100
"""How many problems of one file are told."""


class FileLimits:
    """Which policy files below the folder `root` are read, of `sizes` in bytes.

    Whose they are is asked only where all together are too large, or too many.
    """

    def __init__(self, sizes: Mapping[str, int], root: str, owners: Callable[[], FileOwners]) -> None:
        self._sizes = {file: size for file, size in sizes.items() if size <= MAX_BYTES}
        self._root = root
        self._read_owners = owners
        self._total = 0
        self._counts: dict[str, int] = {}  # documents by file
        self._by_owner: Counter[str] = Counter()  # documents by owner, once it is asked
        self._beyond: set[str] = set()  # owners with too many of them

    @cached_property
    def _owners(self) -> FileOwners:
        return self._read_owners()

    def _owner(self, file: str) -> str:
        """Return the name of a tenant, "" for the platform."""
        tenant = self._owners.of(file)
        return "" if tenant is None else tenant.name

    @cached_property
    def left_out(self) -> dict[str, Problem | None]:
        """The files that are not read because all together are too large, each with its problem, or None.

        Those of the tenant with the most bytes go first, with one problem for all of them, then those of the next one;
        of the platform's the largest, and never the Fleet.
        """
        total, found = sum(self._sizes.values()), dict[str, Problem | None]()
        if total <= MOST_BYTES:
            return found
        by_owner: dict[str, list[str]] = {}
        for file in sorted(self._sizes, key=lambda one: (-self._sizes[one], one)):
            by_owner.setdefault(self._owner(file), []).append(file)
        of_platform = [one for one in by_owner.pop("", []) if below(one, self._root) != FLEET_FILE]
        bytes_of = {name: sum(map(self._sizes.__getitem__, files)) for name, files in by_owner.items()}
        words = f"all policy files together have more than {MOST_BYTES} bytes, expected fewer"
        for name in sorted(bytes_of, key=lambda one: (-bytes_of[one], one)):
            if total <= MOST_BYTES:
                return found
            total -= bytes_of[name]
            first, *others = by_owner[name]
            most = f"{words}; those of tenant {name} have {bytes_of[name]}, the most, and none of them is read"
            found |= {first: _of_file(first, most), **dict.fromkeys(others)}
        for file in of_platform:
            if total <= MOST_BYTES:
                break
            total -= self._sizes[file]
            found[file] = _of_file(file, f"{words}; it is the largest left")
        return found

    def counted(self, file: str, documents: Documents) -> Documents:
        """Return `documents`, those of `file`, and for the first file of an owner with too many the problem."""
        self._counts[file] = len(documents.found)
        self._total += len(documents.found)
        if self._total <= MOST_DOCUMENTS:
            return documents
        if not self._by_owner:
            for one, count in self._counts.items():
                self._by_owner[self._owner(one)] += count
        else:
            self._by_owner[self._owner(file)] += len(documents.found)
        owner = self._owner(file)
        if self._by_owner[owner] <= MOST_DOCUMENTS:
            return documents
        if owner in self._beyond:
            return Documents()
        self._beyond.add(owner)
        whose = f"tenant {owner}" if owner else "the platform"
        words = f"holds one of more than {MOST_DOCUMENTS} documents of {whose}"
        return Documents(problems=[_of_file(file, f"{words}, expected fewer; none of them is used")], complete=False)

    def is_used(self, file: str) -> bool:
        """Return whether the documents of `file` count: its owner has not too many, or it is the Fleet's."""
        return not self._beyond or self._owner(file) not in self._beyond or below(file, self._root) == FLEET_FILE


def _of_file(file: str, words: str) -> Problem:
    return Problem(printable(spelt(file)), 1, 1, "", words)


def first_problems(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the first problems of each file, and how many more there are; they are sorted."""
    for _, inside in groupby(problems, key=lambda one: one.file):
        all_of_file = list(inside)
        yield from all_of_file[:MOST_PROBLEMS]
        if others := all_of_file[MOST_PROBLEMS:]:
            yield dataclasses.replace(others[0], field="", message=f"and {len(others)} more problems of this file")
