"""Policy files -> validated policies: every file below a directory, with all problems at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import PolicyError, Problem
from reconciler.messages import alternatives, nearest, printable, shown
from reconciler.policy.check import cross_problems, cross_warnings
from reconciler.policy.file_owners import FLEET_FILE, FileOwners, below, main_fleet
from reconciler.policy.kinds.document import Calendars, PolicyDocument
from reconciler.policy.kinds.reading import UNKNOWN
from reconciler.policy.overlaps import conflicts
from reconciler.policy.policy_files import Loaded, broken_fleets, first_problems, fleet_document, left_out, load
from reconciler.policy.policy_kinds import OWN_KINDS, POLICY_KINDS, policy_document
from reconciler.policy.tenant_bounds import bounded, kind_problem
from reconciler.policy.types import Calendar, Fleet, FleetCluster, PolicySet
from reconciler.yaml.documents import Document


class _Found(Struct):
    """What came of the documents so far. `fleet` None: there is not exactly one, or none yet."""

    problems: list[Problem] = field(default_factory=list)
    built: list[PolicyDocument] = field(default_factory=list)
    fleet: Fleet | None = None
    owners: FileOwners = FileOwners()
    unread: tuple[str, ...] = ()  # files that may hold one more policy


def read_policies(
    path: str | Path, *, partly: bool = False, check_deadline: Callable[[], None] = lambda: None
) -> PolicySet:
    """Return the policies below `path`; with `partly` also where files of tenants have problems, without theirs.

    `check_deadline` is called before each file is read, and each policy judged; what it raises ends it.

    Raises:
        PolicyError: with all problems of all files, or `path` leaves out the policies beside it.
    """
    policies, problems = check_loaded(load(path, check_deadline), str(path))
    if policies is None or (problems and not partly):
        raise PolicyError.of(problems)
    others = left_out(path)
    if others:
        words = f"is one of several files with policies ({others[0]}, ...), expected the directory that holds them all"
        raise PolicyError.of([Problem(str(path), 1, 1, "", f"{words}; what is left out would be woken")])
    return policies


def check_policies(path: str | Path) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return the policies below `path`, None where they cannot be used, and all problems, by file, line and column.

    Where only files of tenants have problems, the policies of all others can be used.

    Raises:
        PolicyError: there is no such directory, or no policy in it.
    """
    return check_loaded(load(path), str(path))


def check_loaded(loaded: Loaded, path: str) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return what `check_policies` does; `path` is where `loaded` comes from, for messages."""
    found = _Found(problems=list(loaded.problems))
    shaped = [(kind, document) for document in loaded.documents if (kind := _kind_of(document, found.problems))]
    complete = loaded.complete and len(shaped) == len(loaded.documents)
    found.unread = tuple(problem.file for problem in found.problems)
    loaded.check_deadline()
    shaped = _make_fleet(shaped, found, loaded)
    _make(shaped, found, loaded, complete=complete)
    found.problems += _not_one([source for kind, source in shaped if kind == "Fleet"], path, complete=complete)
    found.problems += cross_problems(found.built, shaped, found.owners)
    loaded.check_deadline()
    problems = tuple(first_problems(sorted(set(_once(found.problems, loaded.problems)))))
    stopped = {found.owners.of(problem.file) for problem in problems}
    if None in stopped:
        return None, problems
    return _policy_set(found, loaded, problems), problems


def _make_fleet(shaped: list[tuple[str, Document]], found: _Found, loaded: Loaded) -> list[tuple[str, Document]]:
    """Make the Fleet, and return `shaped` without what tenants may not have."""
    main = main_fleet([document for kind, document in shaped if kind == "Fleet"], loaded.root, found.unread)
    if main is None:
        return shaped
    document = policy_document(main, "Fleet")
    fleet: Fleet = document.policy
    owners = FileOwners(fleet.tenants, fleet.platform_paths, loaded.root)
    if fleet.tenants and below(main.file, loaded.root) != FLEET_FILE:
        words = f"is in {main.file}, expected a Fleet with tenants in {FLEET_FILE} at the top of the policy directory"
        document.add(("spec", "tenants"), words)
    if not document.is_judged(("spec", "tenants")):
        owners = FileOwners(known=False)
    if (owner := owners.of(main.file)) is not None:
        words = f'is "Fleet" in a file of tenant {owner.name}, expected it under no path of a tenant'
        document.problems.append(main.problem(("kind",), words))
        owners = FileOwners(known=False)
    found.fleet, found.owners = fleet, owners
    found.problems += [*document.problems, *owners.problems([document.file for document in loaded.documents])]
    found.built.append(document)
    wrong = {
        id(one): problem
        for kind, one in shaped
        if (tenant := owners.of(one.file)) is not None and (problem := kind_problem(one, kind, tenant)) is not None
    }
    found.problems += wrong.values()
    return [(kind, source) for kind, source in shaped if id(source) not in wrong]


def _once(problems: Iterable[Problem], unreadable: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems, of those at a value that could not be read only that it could not."""
    unread = {_place(problem) for problem in unreadable}
    yield from unreadable
    yield from (problem for problem in problems if _place(problem) not in unread)


def _place(problem: Problem) -> tuple[str, int, int]:
    return (problem.file, problem.line, problem.column)


def read_fleet(path: str | Path) -> Fleet:
    """Return the Fleet below `path`, also where other policies are broken.

    Raises:
        PolicyError: there is none, there are several, or it is broken itself.
    """
    document, problems = _read_fleet(path)
    if document is None or problems:
        raise PolicyError.of(problems)
    fleet: Fleet = document.policy
    return fleet


def read_fleet_for_wakes(path: str | Path) -> tuple[Fleet, tuple[Problem, ...]]:
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
    return not document.is_judged(path) and (found is None or None in found)


def _usable_clusters(document: PolicyDocument, problems: Sequence[Problem]) -> Iterator[FleetCluster]:
    """Yield the clusters that can be written to although there are `problems`: labels and metrics are not needed."""
    for position, cluster in enumerate(document.policy.clusters):
        here = f"spec.clusters[{position}]"
        inside = [one.field for one in problems if one.field == here or one.field.startswith(f"{here}.")]
        if all(field.startswith((f"{here}.labels", f"{here}.prometheus")) for field in inside):
            yield cluster


def _read_fleet(path: str | Path) -> tuple[PolicyDocument | None, tuple[Problem, ...]]:
    """Return the one Fleet below `path`, None where there is not exactly one, and all that is wrong with it.

    Where `FLEET_FILE` has it no other file is read: whatever stands in these must not keep a wake waiting.
    """
    if os.path.isdir(path) and (alone := fleet_document(str(Path(path)))) is not None:
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


def _make(shaped: Sequence[tuple[str, Document]], found: _Found, loaded: Loaded, *, complete: bool) -> None:
    """Make policies of documents: calendars first, because others name them.

    `complete` False: some document could not be read at all, so what seems to be missing may be there.
    """
    owners, named = found.owners, dict[str, dict[str, Calendar | None]]({"": {}})
    for kind, source in shaped:
        if kind == "Calendar":
            named.setdefault(owners.name_of(source.file), {})[_name_of(source)] = None
    unread = {owners.name_of(file) for file in found.unread if owners.tenants}

    @cache
    def known_to(owner: str) -> Calendars:
        """Return what an owner may name, once all are made: a tenant sees its own and the platform's."""
        whole = unread.isdisjoint({"", owner}) if owners.tenants else complete
        return Calendars({**named[""], **named.get(owner, {})}, whole)

    made = {id(built.source) for built in found.built}
    for kind, source in sorted(shaped, key=lambda pair: pair[0] != "Calendar"):
        if id(source) in made:
            continue
        loaded.check_deadline()
        owner = owners.name_of(source.file)
        document = _made(source, kind, None if kind == "Calendar" else known_to(owner), found)
        if document is None:
            continue
        if kind == "Calendar" and not document.problems:
            named[owner][_name_of(source)] = document.policy
        found.built.append(document)
        found.problems += document.problems


def _made(source: Document, kind: str, calendars: Calendars | None, found: _Found) -> PolicyDocument | None:
    """Return the document of `source` with its policy, as one of its owner; None, and a problem, where it fails."""
    tenant = found.owners.of(source.file)
    try:
        document = policy_document(source, kind, found.owners.name_of(source.file), calendars)
        if tenant is not None and found.fleet is not None:
            document.policy = bounded(document, tenant, found.fleet)
    except Exception as error:  # noqa: BLE001 - the one place where a policy fails: whose it is is stopped alone
        words = f"cannot be read, a bug: {printable(repr(error))}, expected a policy; please report it"
        found.problems.append(source.problem((), words))
        return None
    return document


def _name_of(document: Document) -> str:
    metadata = document.value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _not_one(fleets: Sequence[Document], path: str, *, complete: bool) -> list[Problem]:
    """Return the problems of having no Fleet, unless one may be in what could not be read, or several."""
    if not fleets:
        return [Problem.of_path(path, "has no Fleet, expected exactly one")] if complete else []
    first = fleets[0]
    return [
        document.problem(("kind",), f"is a second Fleet, expected one; the first is at {first.file}:{first.line}")
        for document in fleets[1:]
    ]


def _policy_set(found: _Found, loaded: Loaded, problems: tuple[Problem, ...]) -> PolicySet:
    """Return the policies of all but the tenants in whose files there are `problems`."""
    wrong: dict[str, list[Problem]] = {}
    for problem in problems:
        if (tenant := found.owners.of(problem.file)) is not None:
            wrong.setdefault(tenant.name, []).append(problem)
    kept = [document for document in found.built if document.tenant not in wrong] if wrong else found.built

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
        stopped=tuple(tenant for tenant in found.owners.tenants if tenant.name in wrong),
        problems={name: tuple(inside) for name, inside in wrong.items()},
    )
