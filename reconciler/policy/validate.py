"""Documents -> validated policies, with all problems of all files at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.errors import PolicyError, Problem
from reconciler.policy.build_calendar import build_calendar
from reconciler.policy.build_downscale import build_downscale
from reconciler.policy.build_federated import build_federated, build_replica_set
from reconciler.policy.build_fleet import build_fleet
from reconciler.policy.build_idling import build_idling
from reconciler.policy.building import Reading
from reconciler.policy.cross import cross_problems
from reconciler.policy.documents import Document
from reconciler.policy.load import load
from reconciler.policy.shape import shape_problems
from reconciler.policy.types import Calendar, Fleet, PolicySet
from reconciler.policy.words import listed, nearest, shown

API_VERSION = "reconciler/v1alpha1"
KINDS = ("Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet", "DownscalePolicy")
_OWNERS = {"ReplicaSet": "apps/v1"}


@dataclass(frozen=True)
class Built:
    """One policy, and the document it was made of."""

    kind: str
    policy: Any
    reading: Reading


@dataclass
class _Found:
    """What came of the documents so far."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    built: list[Built] = field(default_factory=list)


def read_policies(path: str | Path) -> PolicySet:
    """Return the policies below `path`.

    Raises:
        PolicyError: with all problems of all files.
    """
    policies, problems = check_policies(path)
    if policies is None:
        raise PolicyError.of(problems)
    return policies


def check_policies(path: str | Path) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return the policies below `path`, or None and all problems, sorted by file, line and column.

    Raises:
        PolicyError: there is no such directory, or no policy in it.
    """
    loaded = load(path)
    found = _Found(problems=list(loaded.problems))
    shaped = [(kind, document) for document in loaded.documents if (kind := _kind_of(document, found.problems))]
    good = [(kind, document) for kind, document in shaped if not _misshapen(kind, document, found.problems)]
    _build(good, [document for kind, document in shaped if kind == "Calendar"], found)
    found.problems += _fleets(shaped, str(path))
    found.problems += cross_problems(found.built, shaped)
    if found.problems:
        return None, tuple(sorted(set(found.problems)))
    return _policy_set(found, loaded.digest), ()


def read_fleet(path: str | Path) -> Fleet:
    """Return the Fleet below `path`, also where other policies are broken.

    Raises:
        PolicyError: there is none, there are several, or it is broken itself.
    """
    problems: list[Problem] = []
    found = _Found(problems)
    fleets = [
        ("Fleet", document)
        for document in load(path).documents
        if isinstance(document.value, dict) and document.value.get("kind") == "Fleet"
    ]
    good = [pair for pair in fleets if _kind_of(pair[1], problems) and not _misshapen(*pair, problems)]
    _build(good, [], found)
    problems += _fleets(fleets, str(path))
    if problems:
        raise PolicyError.of(problems)
    fleet: Fleet = found.built[0].policy
    return fleet


def _kind_of(document: Document, problems: list[Problem]) -> str | None:
    value = document.value
    if not isinstance(value, dict):
        problems.append(
            document.problem((), f"is {shown(value)}, expected a policy with apiVersion, kind and metadata")
        )
        return None
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in (*KINDS, *_OWNERS):
        words = (
            f"is {shown(kind)}, expected {listed(KINDS)}"
            if "kind" in value
            else f"is missing, expected {listed(KINDS)}"
        )
        problems.append(document.problem(("kind",), f"{words}{nearest(kind, KINDS) if kind else ''}"))
        return None
    wanted = _OWNERS.get(kind, API_VERSION)
    if value.get("apiVersion") != wanted:
        found = f"is {shown(value['apiVersion'])}" if "apiVersion" in value else "is missing"
        problems.append(document.problem(("apiVersion",), f'{found}, expected "{wanted}"'))
        return None
    return kind


def _misshapen(kind: str, document: Document, problems: list[Problem]) -> bool:
    found = shape_problems(document, kind)
    problems += found
    return bool(found)


def _build(good: Sequence[tuple[str, Document]], calendars: Sequence[Document], found: _Found) -> None:
    """Make policies of documents of good shape: calendars first, because others name them."""
    named: dict[str, Calendar | None] = {_name_of(document): None for document in calendars}
    for kind, document in sorted(good, key=lambda pair: pair[0] != "Calendar"):
        reading = Reading(document)
        policy = _made(kind, reading, named, found.warnings)
        if kind == "Calendar" and not reading.problems:
            named[policy.name] = policy
        if policy is not None:
            found.built.append(Built(kind, policy, reading))
        found.problems += reading.problems


def _made(kind: str, reading: Reading, calendars: Mapping[str, Calendar | None], warnings: list[str]) -> Any:
    if kind == "Calendar":
        return build_calendar(reading, ("spec",), reading.name, warnings)
    if kind == "IdlingPolicy":
        return build_idling(reading, calendars, warnings)
    return _BUILDERS[kind](reading)


_BUILDERS: dict[str, Any] = {
    "Fleet": build_fleet,
    "FederatedReplicaSet": build_federated,
    "ReplicaSet": build_replica_set,
    "DownscalePolicy": build_downscale,
}


def _name_of(document: Document) -> str:
    metadata = document.value.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _fleets(shaped: Iterable[tuple[str, Document]], path: str) -> list[Problem]:
    fleets = [document for kind, document in shaped if kind == "Fleet"]
    if not fleets:
        return [Problem(path, 1, 1, "", "has no Fleet, expected exactly one")]
    first = fleets[0]
    return [
        document.problem(("kind",), f"is a second Fleet, expected one; the first is at {first.file}:{first.line}")
        for document in fleets[1:]
    ]


def _policy_set(found: _Found, digest: str) -> PolicySet:
    def of(*kinds: str) -> list[Any]:
        return [built.policy for built in found.built if built.kind in kinds]

    return PolicySet(
        fleet=of("Fleet")[0],
        idling=tuple(sorted(of("IdlingPolicy"), key=lambda policy: policy.name)),
        calendars=tuple(sorted(of("Calendar"), key=lambda calendar: calendar.name)),
        federated=tuple(
            sorted(of("FederatedReplicaSet", "ReplicaSet"), key=lambda policy: (policy.namespace, policy.name))
        ),
        downscale=tuple(sorted(of("DownscalePolicy"), key=lambda policy: policy.name)),
        digest=digest,
        warnings=tuple(sorted(set(found.warnings))),
    )
