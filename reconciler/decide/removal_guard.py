"""The guard against a repository that lost a folder: too many policies gone at once change nothing by that alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.reasons import Reason, ReasonCode, reason

REMOVED_FLAG = "--allow-removed"
_HOUR = timedelta(hours=1)
PATIENCE = 24 * _HOUR


class _FleetGuard(Struct, frozen=True):
    """`gone` are the policies that own records and are not there any more; `tripped`: they are too many."""

    gone: frozenset[str] = frozenset()
    owners: int = 0
    tripped: bool = False

    @property
    def reason(self) -> Reason:
        code = ReasonCode.POLICIES_REMOVED
        return reason(code, count=len(self.gone), owners=self.owners, policies=_first(self.gone))

    @property
    def words(self) -> str:
        return f"{self.reason}; to allow: once {REMOVED_FLAG}"

    def holds(self, policy: str, orphaned_since: datetime | None, now: datetime) -> bool:
        """Return whether a wake waits: its `policy` is gone, and the day of patience is not over."""
        if not self.tripped or policy not in self.gone:
            return False
        return orphaned_since is None or now < orphaned_since + PATIENCE


class FleetGuards(Struct, frozen=True):
    """The guard of each namespace in which policies that are gone own records, and what all that tripped count."""

    by_namespace: Mapping[str, _FleetGuard] = field(default_factory=dict)
    together: _FleetGuard = _FleetGuard()

    def of(self, namespace: str) -> _FleetGuard:
        """Return the guard of `namespace`; where nothing is gone it never trips."""
        return self.by_namespace.get(namespace, _NONE)

    def still(self, later: FleetGuards) -> FleetGuards:
        """Return these guards, tripped only where `later` are, too."""
        return _guards(
            {
                namespace: replace(guard, tripped=guard.tripped and later.of(namespace).tripped)
                for namespace, guard in self.by_namespace.items()
            }
        )

    @property
    def words(self) -> str:
        patience = f"what they idled waits for up to {PATIENCE // _HOUR}h"
        return f"{self.together.reason}; {patience}; to allow: once {REMOVED_FLAG}"


NO_GUARDS = FleetGuards()
"""They hold nothing."""


def _guards(by_namespace: Mapping[str, _FleetGuard]) -> FleetGuards:
    tripped = [guard for guard in by_namespace.values() if guard.tripped]
    gone = frozenset[str]().union(*(guard.gone for guard in tripped))
    there = min((guard.owners - len(guard.gone) for guard in tripped), default=0)  # the same in each
    return FleetGuards(by_namespace, _FleetGuard(gone, there + len(gone), bool(tripped)))


_NONE = _FleetGuard()


def removal_guards(
    owned: Iterable[tuple[str, str]], names: frozenset[str], allow_removed: bool, *, left_out: int = 1
) -> FleetGuards:
    """Return the guard of each namespace; `owned` are (namespace, policy) that owns records there.

    A namespace counts what is gone in itself, and of each other one a single policy, of which it leaves out one: so
    what is written in one namespace alone never holds anything in another one, and a folder that is lost, which is
    seen in many, holds them all. With `left_out` 0 it counts all of these, so that two in two namespaces hold too.
    """
    gone: dict[str, set[str]] = {}
    there: set[str] = set()
    for namespace, policy in owned:
        if policy in names:
            there.add(policy)
        else:
            gone.setdefault(namespace, set()).add(policy)
    elsewhere = _one_each(gone)
    guards: dict[str, _FleetGuard] = {}
    for namespace in sorted(gone):
        others = sorted(policy for policy, where in elsewhere.items() if where != namespace)
        counted = [policy for policy in others if policy not in gone[namespace]][left_out:]
        found = frozenset((*gone[namespace], *counted))
        owners = len(there) + len(found)
        # One policy may always be removed, however few there are.
        tripped = not allow_removed and len(found) > max(1, owners // 4)
        guards[namespace] = _FleetGuard(found, owners, tripped)
    return _guards(guards)


def _one_each(gone: Mapping[str, set[str]]) -> dict[str, str]:
    """Return for each policy that is gone one namespace that stands for it, each namespace for one policy at most."""
    found: dict[str, str] = {}
    for namespace in sorted(gone, key=lambda namespace: (len(gone[namespace]), namespace)):
        new = sorted(gone[namespace] - found.keys())
        if new:
            found[new[0]] = namespace
    return found


def _first(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:5]) + (", ..." if len(ordered) > 5 else "")
