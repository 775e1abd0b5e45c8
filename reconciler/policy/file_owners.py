"""Whose a policy file is: a tenant's or the platform's; and which Fleet counts, which says so."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.messages import alternatives
from reconciler.policy.globs import GlobIndex, path_regex
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.types import Tenant
from reconciler.yaml.documents import Document

FLEET_FILE = "fleet.yaml"
"""Where a Fleet with tenants is, below the policy directory: a place that no file of a tenant can take."""


class FileOwners(Struct, frozen=True, dict=True):
    """Whose the policy files below the folder `root` are. With tenants, the platform's are those below `platform`.

    `known` False: the Fleet does not say it, or not in a way that can be read; then nobody is said to own anything.
    """

    tenants: tuple[Tenant, ...] = ()
    platform: tuple[str, ...] = ()
    root: str = ""
    known: bool = True

    def of(self, file: str) -> Tenant | None:
        """Return the tenant of a file, None for the platform. A path that only looks different is still the tenant's:
        in other case, or in another form of Unicode.
        """
        return self._owner(below(file, self.root)) if self.tenants else None

    def name_of(self, file: str) -> str:
        """Return the name of the tenant of a file, "" for the platform."""
        tenant = self.of(file)
        return "" if tenant is None else tenant.name

    def problems(self, files: Iterable[str]) -> Iterator[Problem]:
        """Yield what leaves open whose a file is: no path of anybody, one that looks like a tenant's, or a link to what
        is another's.
        """
        for file in dict.fromkeys(files if self.tenants else ()):
            path, tenant = below(file, self.root), self.of(file)
            if tenant is None and not _matches(self.platform, path):
                words = f"is under no path of a tenant, expected it below {alternatives(self.platform)}"
                yield Problem(file, 1, 1, "", f"{words}, the platformPaths of the Fleet")
            elif tenant is not None and not _matches(tenant.paths, path):
                words = f"only looks like {alternatives(tenant.paths)}, the paths of {tenant}"
                yield Problem(file, 1, 1, "", f"{words}, expected the same characters in the same case")
            elif self._target(file) is not tenant:
                whose = "the platform" if tenant is None else f"tenant {tenant.name}"
                yield Problem(file, 1, 1, "", f"is a link to a file of another owner, expected one of {whose}")

    def _owner(self, path: str) -> Tenant | None:
        likely = (self.tenants[number] for number in sorted(self._by_path.candidates((path,))))
        exact = next((tenant for tenant in likely if _matches(tenant.paths, path)), None)
        if exact is not None or _matches(self.platform, path):
            return exact
        alike = _folded(path)
        likely = (self.tenants[number] for number in sorted(self._by_folded_path.candidates((alike,))))
        return next((tenant for tenant in likely if _matches(map(_folded, tenant.paths), alike)), None)

    @cached_property
    def _by_path(self) -> GlobIndex:
        return GlobIndex(tenant.paths for tenant in self.tenants)

    @cached_property
    def _by_folded_path(self) -> GlobIndex:
        return GlobIndex(map(_folded, tenant.paths) for tenant in self.tenants)

    def _target(self, file: str) -> Tenant | None:
        """Return whose the file is that `file` leads to. A mounted volume keeps its files in a hidden folder."""
        parts = os.path.relpath(os.path.realpath(file), self._home).split(os.sep)
        return self._owner("/".join(part for part in parts if not part.startswith(".") or part == ".."))

    @cached_property
    def _home(self) -> str:
        return os.path.realpath(self.root)


def owners_by(document: PolicyDocument, root: str) -> FileOwners:
    """Return whose the files below `root` are, as the Fleet in `document` says."""
    if not document.is_readable(("spec", "tenants")):
        return FileOwners(known=False)
    return FileOwners(document.policy.tenants, document.policy.platform_paths, root)


def below(file: str, root: str) -> str:
    """Return the path of `file` below the folder `root`, with slashes."""
    return os.path.relpath(file, root).replace(os.sep, "/")


def _matches(patterns: Iterable[str], path: str) -> bool:
    return any(path_regex(pattern).match(path) for pattern in patterns)


def _folded(path: str) -> str:
    """Return what paths that look alike have in common: case and forms of Unicode do not count."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def main_fleet(fleets: Sequence[Document], root: str, unread: Iterable[str]) -> Document | None:
    """Return the one Fleet that counts, None where that is open: the one in `FLEET_FILE`, else the only one.

    `unread` are files with something that could not be read. Where `FLEET_FILE` is one of them no other Fleet counts:
    who may only write policies of a tenant must not become the platform by it.
    """
    there = [document for document in fleets if below(document.file, root) == FLEET_FILE]
    if there:
        return there[0] if len(there) == 1 else None
    hidden = any(below(file, root) == FLEET_FILE for file in unread)
    return fleets[0] if len(fleets) == 1 and not hidden else None
