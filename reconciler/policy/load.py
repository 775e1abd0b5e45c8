"""Policy files -> validated policies: every file below a directory, with all problems at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from reconciler.errors import PolicyError, Problem
from reconciler.messages import alternatives, nearest, printable, shown
from reconciler.policy.check import cross_problems, cross_warnings
from reconciler.policy.file_owners import FLEET_FILE, FileOwners, below, main_fleet, owners_by
from reconciler.policy.kinds.document import Calendars, PolicyDocument
from reconciler.policy.kinds.document_fields import UNKNOWN
from reconciler.policy.overlaps import conflicts
from reconciler.policy.policy_files import (
    PolicyDocuments,
    broken_fleets,
    first_problems,
    fleet_document,
    left_out,
    load,
)
from reconciler.policy.policy_kinds import OWN_KINDS, POLICY_KINDS, policy_document
from reconciler.policy.tenant_bounds import bounded, kind_problem
from reconciler.policy.types import Calendar, Fleet, FleetCluster, PolicySet, Tenant
from reconciler.yaml.documents import Document
from reconciler.yaml.files import plain_path


def read_policies(
    path: str | os.PathLike[str], *, partly: bool = False, check_deadline: Callable[[], None] = lambda: None
) -> PolicySet:
    """Return the policies below `path`; with `partly` also where files of tenants have problems, without theirs.

    `check_deadline` is called before each file is read, and each policy judged; what it raises ends it.

    Raises:
        PolicyError: with all problems of all files, or `path` leaves out the policies beside it.
    """
    policies, problems = check_documents(load(path, check_deadline))
    if policies is None or (problems and not partly):
        raise PolicyError.of(problems)
    others = left_out(path)
    if others:
        words = f"is one of several files with policies ({others[0]}, ...), expected the directory that holds them all"
        raise PolicyError.of([Problem(str(path), 1, 1, "", f"{words}; what is left out would be woken")])
    return policies


def check_policies(path: str | os.PathLike[str]) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return the policies below `path`, None where they cannot be used, and all problems, by file, line and column.

    Where only files of tenants have problems, the policies of all others can be used.

    Raises:
        PolicyError: there is no such directory, or no policy in it.
    """
    return check_documents(load(path))


def check_documents(loaded: PolicyDocuments) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return what `check_policies` does, of documents that were read before: by `load`, or of what stands in no file,
    such as a Fleet that is made of a context.
    """
    problems = list(loaded.problems)
    stated = [(kind, source) for source in loaded.documents if (kind := _kind_of(source, problems))]
    complete = loaded.complete and len(stated) == len(loaded.documents)
    unread = tuple(problem.file for problem in problems)  # files that may hold one more policy
    loaded.check_deadline()
    main = main_fleet([source for kind, source in stated if kind == "Fleet"], loaded.root, unread)
    fleet = None if main is None else policy_document(main, "Fleet")
    owners = FileOwners() if fleet is None else _checked_owners(fleet, loaded.root)
    problems += owners.problems(source.file for source in loaded.documents)
    refused = {id(one): found for kind, one in stated if (found := kind_problem(one, kind, owners.of(one.file)))}
    problems += refused.values()
    stated = [(kind, source) for kind, source in stated if id(source) not in refused]
    unread_of = frozenset(owners.name_of(file) for file in unread)
    made = list(
        _made(
            [(kind, source) for kind, source in stated if source is not main],
            None if fleet is None else fleet.policy,
            owners,
            lambda owner: unread_of.isdisjoint({"", owner}) if owners.tenants else complete,
            loaded.check_deadline,
        )
    )
    built = [*(() if fleet is None else (fleet,)), *(one for one in made if isinstance(one, PolicyDocument))]
    problems += (one for one in made if isinstance(one, Problem))
    problems += _not_one([source for kind, source in stated if kind == "Fleet"], loaded.path, complete=complete)
    problems += cross_problems(built, stated, owners)
    problems += (problem for document in built for problem in document.problems)
    loaded.check_deadline()
    told = tuple(first_problems(sorted(set(_once(problems, loaded.problems)))))
    if None in {owners.of(problem.file) for problem in told}:
        return None, told
    return _policy_set(built, owners, loaded, told), told


def _checked_owners(document: PolicyDocument, root: str) -> FileOwners:
    """Return whose the files below `root` are, as the Fleet in `document` says; nobody's where that cannot count."""
    file, owners = document.source.file, owners_by(document, root)
    if owners.tenants and below(file, root) != FLEET_FILE:
        words = f"is in {file}, expected a Fleet with tenants in {FLEET_FILE} at the top of the policy directory"
        document.add(("spec", "tenants"), words)
    if (owner := owners.of(file)) is not None:
        words = f'is "Fleet" in a file of tenant {owner.name}, expected it under no path of a tenant'
        document.problems.append(document.source.problem(("kind",), words))
        return FileOwners(known=False)
    return owners


def _once(problems: Iterable[Problem], unreadable: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems, of those at a value that could not be read only that it could not."""
    unread = {_place(problem) for problem in unreadable}
    yield from unreadable
    yield from (problem for problem in problems if _place(problem) not in unread)


def _place(problem: Problem) -> tuple[str, int, int]:
    return (problem.file, problem.line, problem.column)


def read_fleet(path: str | os.PathLike[str]) -> Fleet:
    """Return the Fleet below `path`, also where other policies are broken.

    Raises:
        PolicyError: there is none, there are several, or it is broken itself.
    """
    document, problems = _read_fleet(path)
    if document is None or problems:
        raise PolicyError.of(problems)
    fleet: Fleet = document.policy
    return fleet


def read_fleet_for_wakes(path: str | os.PathLike[str]) -> tuple[Fleet, tuple[Problem, ...]]:
    """Return what of the Fleet below `path` a wake needs, and all that is wrong with it.

    What cannot be read is left out or at its default: limits, labels, and the clusters of which name, connection or
    state cannot be read. A typo there must not keep the others dark. Where protected namespaces may be lost, every
    namespace counts as one for what this Fleet did not idle.

    Raises:
        PolicyError: there is no Fleet, there are several, or nothing is left: no name, or no cluster.
    """
    document, problems = _read_fleet(path)
    usable = () if document is None else tuple(_usable_clusters(document, problems))
    if document is None or not document.policy.name or not usable:
        raise PolicyError.of(problems)
    fleet: Fleet = document.policy
    home = fleet.home if fleet.home in {cluster.name for cluster in usable} else usable[0].name
    unread = _protects_unread(document, problems)
    return replace(fleet, clusters=usable, home=home, protects_unread=unread), problems


def _protects_unread(document: PolicyDocument, problems: Sequence[Problem]) -> bool:
    """Return whether a protected namespace may be lost: by a problem there, or in a field of which nobody knows what
    was meant."""
    path = ("spec", "protectedNamespaces")
    if not document.source.whole or any(problem.message == UNKNOWN for problem in problems):
        return True
    found = document.get(path)
    return not document.is_readable(path) and (found is None or None in found)


def _usable_clusters(document: PolicyDocument, problems: Sequence[Problem]) -> Iterator[FleetCluster]:
    """Yield the clusters that can be written to although there are `problems`: labels and metrics are not needed."""
    for position, cluster in enumerate(document.policy.clusters):
        here = f"spec.clusters[{position}]"
        inside = [one.field for one in problems if one.field == here or one.field.startswith(f"{here}.")]
        if all(field.startswith((f"{here}.labels", f"{here}.prometheus")) for field in inside):
            yield cluster


def _read_fleet(path: str | os.PathLike[str]) -> tuple[PolicyDocument | None, tuple[Problem, ...]]:
    """Return the one Fleet below `path`, None where there is not exactly one, and all that is wrong with it.

    Where `FLEET_FILE` has it no other file is read: whatever stands in these must not keep a wake waiting.
    """
    if os.path.isdir(path) and (alone := fleet_document(plain_path(path))) is not None:
        document = policy_document(alone, "Fleet")
        return document, tuple(sorted(document.problems))
    loaded = load(path)
    problems: list[Problem] = []
    fleets = [one for one in loaded.documents if isinstance(one.value, dict) and one.value.get("kind") == "Fleet"]
    if (main := main_fleet(fleets, loaded.root, [problem.file for problem in loaded.problems])) is not None:
        fleets = [main]
    else:
        broken = list(broken_fleets(loaded.problems, loaded.root))
        own = [one for one in broken if below(one.file, loaded.root) == FLEET_FILE] or ([] if fleets else broken)
        problems += loaded.problems if own or not fleets else ()
        fleets = own or fleets
    made = [policy_document(source, "Fleet") for source in fleets]
    problems += [problem for part in made for problem in part.problems]
    problems += _not_one(fleets, str(path), complete=True)
    return (made[0] if len(made) == 1 else None), tuple(sorted(problems))


def _kind_of(document: Document, problems: list[Problem]) -> str | None:
    value = document.value
    if not isinstance(value, dict):
        problems.append(
            document.problem((), f"is {shown(value)}, expected a policy with apiVersion, kind and metadata")
        )
        return None
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in POLICY_KINDS:
        what = f"is {shown(kind)}" if "kind" in value else "is missing"
        words = f"{what}, expected {alternatives(OWN_KINDS)}{nearest(kind, OWN_KINDS) if kind else ''}"
        problems.append(document.problem(("kind",), words))
        return None
    return kind


def _made(
    stated: Sequence[tuple[str, Document]],
    fleet: Fleet | None,
    owners: FileOwners,
    is_whole: Callable[[str], bool],
    check_deadline: Callable[[], None],
) -> Iterator[PolicyDocument | Problem]:
    """Yield each document with its policy, or why it has none: calendars first, because others name them.

    `is_whole` tells of an owner whether every Calendar that it may name is among them.
    """
    named = dict[str, dict[str, Calendar | None]]({"": {}})
    for kind, source in stated:
        if kind == "Calendar":
            named.setdefault(owners.name_of(source.file), {})[_name_of(source)] = None

    @cache
    def known_to(owner: str) -> Calendars:
        """Return what an owner may name, once all are made: a tenant sees its own and the platform's."""
        return Calendars({**named[""], **named.get(owner, {})}, is_whole(owner))

    for kind, source in sorted(stated, key=lambda pair: pair[0] != "Calendar"):
        check_deadline()
        owner = owners.name_of(source.file)
        made = _one_made(source, kind, owners.of(source.file), fleet, None if kind == "Calendar" else known_to(owner))
        if kind == "Calendar" and isinstance(made, PolicyDocument) and not made.problems:
            named[owner][_name_of(source)] = made.policy
        yield made


def _one_made(
    source: Document, kind: str, tenant: Tenant | None, fleet: Fleet | None, calendars: Calendars | None
) -> PolicyDocument | Problem:
    try:
        document = policy_document(source, kind, "" if tenant is None else tenant.name, calendars)
        if tenant is not None and fleet is not None:
            document.policy = bounded(document, tenant, fleet)
    except Exception as error:  # noqa: BLE001 - the one place where a policy fails: whose it is is stopped alone
        words = f"cannot be read, a bug: {printable(repr(error))}, expected a policy; please report it"
        return source.problem((), words)
    return document


def _name_of(document: Document) -> str:
    metadata = document.value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _not_one(fleets: Sequence[Document], path: str, *, complete: bool) -> list[Problem]:
    """Return the problems of having no Fleet, unless one may be in what could not be read, or several."""
    if not fleets:
        advice = "; name the directory that holds it" if os.path.isfile(path) else ""
        return [Problem.of_path(path, f"has no Fleet, expected exactly one{advice}")] if complete else []
    first = fleets[0]
    return [
        document.problem(("kind",), f"is a second Fleet, expected one; the first is at {first.file}:{first.line}")
        for document in fleets[1:]
    ]


def _policy_set(
    built: list[PolicyDocument], owners: FileOwners, loaded: PolicyDocuments, problems: tuple[Problem, ...]
) -> PolicySet:
    """Return the policies of all but the tenants in whose files there are `problems`."""
    wrong: dict[str, list[Problem]] = {}
    for problem in problems:
        if (tenant := owners.of(problem.file)) is not None:
            wrong.setdefault(tenant.name, []).append(problem)
    kept = [document for document in built if document.tenant not in wrong] if wrong else built

    sets: dict[str, list[Any]] = {}
    for document in kept:
        sets.setdefault(POLICY_KINDS[document.kind].into, []).append(document.policy)
    (fleet,) = sets.pop("fleet")
    in_order: Any = {
        into: tuple(sorted(those, key=lambda one: (getattr(one, "namespace", ""), one.name)))
        for into, those in sets.items()
    }
    return PolicySet(
        fleet=fleet,
        **in_order,
        digest=loaded.digest,
        warnings=tuple(sorted(set(cross_warnings(kept)))),
        conflicts=tuple(sorted(conflicts(kept, loaded.check_deadline))),
        specs={document.place: document.spec for document in kept},
        stopped=tuple(tenant for tenant in owners.tenants if tenant.name in wrong),
        problems={name: tuple(inside) for name, inside in wrong.items()},
    )
