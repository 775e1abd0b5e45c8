"""The public API: what other programs import. Semantic versioning covers these names and nothing else.

- `validate(path)` says what is wrong with a directory of policies.
- `plan(path, snapshot=..., now=...)` says what they would change on the clusters of a snapshot, `plan(path,
  clients=..., now=...)` what on live ones.
- `allocate_replicas(...)` spreads replicas over clusters.
- `rank_victims(...)` says which pods of a ReplicaSet go first.

Nothing here writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.backends.protocols import RequestSettings
from reconciler.decide.annotations import FIRST_YEAR, LAST_YEAR, is_near
from reconciler.decide.downscale.deletion_order import RankingRules, VictimRanking, rank_victims
from reconciler.decide.placement.replicas_per_cluster import Allocation, allocate_replicas
from reconciler.errors import PolicyError, Problem, SnapshotError, UsageError
from reconciler.messages import literal, nearest, shown
from reconciler.model import Pod
from reconciler.pipeline import RunRequest
from reconciler.pipeline import plan as make_plan
from reconciler.plan import model
from reconciler.plan.json import plan_to_dict
from reconciler.plan.model import Action
from reconciler.policy.load import check_policies, read_policies
from reconciler.policy.types import PolicySet
from reconciler.world import open_world

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = [
    "Action",
    "Allocation",
    "Plan",
    "Pod",
    "PolicyError",
    "PolicySet",
    "Problem",
    "RankingRules",
    "SnapshotError",
    "UsageError",
    "ValidationResult",
    "VictimRanking",
    "allocate_replicas",
    "plan",
    "rank_victims",
    "validate",
]


class ValidationResult(Struct, frozen=True):
    """`problems` are sorted by file, line and column; `policies` is None where there are any."""

    problems: tuple[Problem, ...]
    policies: PolicySet | None

    @property
    def valid(self) -> bool:
        return not self.problems


class Plan(model.Plan, frozen=True):
    """The whole plan. `to_dict()` is described by schemas/plan.schema.json; plans with the same JSON are equal."""

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.run)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values, as schemas/plan.schema.json says."""
        return plan_to_dict(self)


def validate(path: str | Path) -> ValidationResult:
    """Return all problems of the policy files below `path` (a directory, or one file), or the policies.

    A missing or empty directory is a problem too. Nothing is raised for bad input.
    """
    try:
        policies, problems = check_policies(path)
    except PolicyError as error:
        return ValidationResult(error.problems or (Problem(str(path), 1, 1, "", str(error)),), None)
    return ValidationResult(problems, None if problems else policies)


def plan(
    path: str | Path,
    *,
    snapshot: str | Path | None = None,
    clients: Mapping[str, ApiClient] | None = None,
    now: datetime,
) -> Plan:
    """Return what the policies below `path` would change at the time `now`: on the clusters of `snapshot`, or on live
    ones that are reached as `clients` are, by the names that the Fleet has for them.

    Of an `ApiClient` of the package kubernetes the address, the credentials and the TLS settings count; the requests
    are ours. A cluster without one is reached as the Fleet says. One that cannot be read is in `unknown` of the plan.

    The same inputs and the same `now` (whole seconds count) give the same plan. Nothing is written.

    Raises:
        PolicyError: with all problems. SnapshotError: the snapshot cannot be read. UsageError: `now` is no datetime,
            has no time zone, or is outside of the years 1970 to 9000; not exactly one of `snapshot` and `clients` is
            given, or a client for a cluster that the Fleet does not have.
    """
    at = _moment(now)
    if (snapshot is None) == (clients is None):
        words = "has neither snapshot nor clients" if snapshot is None else "has snapshot and clients"
        raise UsageError(f"plan: {words}, expected exactly one of the two")
    policies = read_policies(path)
    names = [cluster.name for cluster in policies.fleet.clusters]
    for name in clients or {}:
        if name not in names:
            raise UsageError(f"clients: {shown(name)} is no cluster of the Fleet{nearest(name, names)}")
    settings = RequestSettings(clients=clients or {})
    world = open_world(policies.fleet, None if snapshot is None else str(snapshot), at, settings)
    return Plan(**asdict(make_plan(policies, world, RunRequest(now=at))))


def _moment(now: datetime) -> datetime:
    if not isinstance(now, datetime):
        raise UsageError(f"now: {literal(now)}, expected a datetime with a time zone, like datetime.now(UTC)")
    if now.tzinfo is None or now.utcoffset() is None:
        raise UsageError(f"now: {now.isoformat()} has no time zone, expected one, like datetime.now(UTC)")
    try:
        at = now.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        at = None
    if at is None or not is_near(at):
        raise UsageError(f"now: {now.isoformat()} is too far away, expected a year from {FIRST_YEAR} to {LAST_YEAR}")
    return at
