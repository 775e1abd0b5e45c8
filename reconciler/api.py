"""The public API: what other programs import. Semantic versioning covers these names and nothing else.

- `validate(path)` says what is wrong with a directory of policies.
- `plan(path, snapshot=..., now=...)` says what they would change on the clusters of a snapshot.
- `allocate_replicas(...)` spreads replicas over clusters.
- `rank_victims(...)` says which pods of a ReplicaSet go first.

Nothing here writes anything.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.decide.annotations import FIRST_YEAR, LAST_YEAR, is_near
from reconciler.decide.downscale.deletion_order import RankingRules, VictimRanking, rank_victims
from reconciler.decide.placement.allocation import Allocation, allocate_replicas
from reconciler.errors import PolicyError, Problem, SnapshotError, UsageError
from reconciler.model import Pod
from reconciler.pipeline import RunRequest
from reconciler.pipeline import plan as make_plan
from reconciler.plan import model
from reconciler.plan.json import plan_to_dict
from reconciler.plan.model import Action
from reconciler.policy.load import check_policies, read_policies
from reconciler.policy.types import PolicySet
from reconciler.world import open_world

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
    """The whole plan. `to_dict()` is described by schemas/plan.schema.json."""

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


def plan(path: str | Path, *, snapshot: str | Path, now: datetime) -> Plan:
    """Return what the policies below `path` would change on the clusters of `snapshot` at the time `now`.

    The same inputs and the same `now` (whole seconds count) give the same plan. Nothing is written.

    Raises:
        PolicyError: with all problems. SnapshotError: the snapshot cannot be read. UsageError: `now` has no time zone,
            or is outside of the years 1970 to 9000.
    """
    at = _moment(now)
    policies = read_policies(path)
    made = make_plan(policies, open_world(policies.fleet, str(snapshot), at), RunRequest(now=at))
    return Plan(**asdict(made))


def _moment(now: datetime) -> datetime:
    if now.tzinfo is None or now.utcoffset() is None:
        raise UsageError(f"now: {now.isoformat()} has no time zone, expected one, like datetime.now(UTC)")
    try:
        at = now.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        at = None
    if at is None or not is_near(at):
        raise UsageError(f"now: {now.isoformat()} is too far away, expected a year from {FIRST_YEAR} to {LAST_YEAR}")
    return at
