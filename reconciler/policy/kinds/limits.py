"""How much one run may change."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from reconciler.policy.kinds.fields import Fields, Replicas, Share
from reconciler.policy.types import Limit, Limits


class LimitFields(Fields, frozen=True, kw_only=True):
    """The greater of share of the base, rounded down, and atLeast is allowed."""

    share: Annotated[Share, Meta(description="share is the part of the base that one run may change.")] = Share(0.25)
    at_least: Annotated[
        Replicas, Meta(description="atLeast is the number that one run may change however small the base is.")
    ] = 10


_IDLED = Meta(
    description="idledWorkloads limits how many workloads one run may newly idle. What the same schedule idled in the "
    "last 35 days does not count."
)
_REMOVED = Meta(
    description="removedReplicas limits how many replicas one run may remove. Idling and moves are included."
)


class CeilingFields(LimitFields, frozen=True, kw_only=True):
    """The greater of share of the base, rounded down, and atLeast is allowed."""

    share: Annotated[Share, Meta(description="share is the part of the base that one run may change.")] = Share(0.6)


class LimitsFields(Fields, frozen=True, kw_only=True):
    """Limits of one policy."""

    idled_workloads: Annotated[LimitFields | UnsetType, _IDLED] = UNSET
    removed_replicas: Annotated[LimitFields | UnsetType, _REMOVED] = UNSET


class RemovedReplicasFields(Fields, frozen=True, kw_only=True):
    """The limit of a policy that idles nothing."""

    removed_replicas: Annotated[LimitFields | UnsetType, _REMOVED] = UNSET


class FleetLimitsFields(Fields, frozen=True, kw_only=True):
    """Limits of every policy that has none of its own."""

    idled_workloads: Annotated[LimitFields, _IDLED] = LimitFields()
    removed_replicas: Annotated[LimitFields, _REMOVED] = LimitFields()
    ceiling: Annotated[
        CeilingFields,
        Meta(
            description="ceiling limits how many workloads of a cluster one run may newly idle, for all policies "
            "together, those with limits of their own included. Those that idle most are held back first."
        ),
    ] = CeilingFields()
    fleet: Annotated[
        LimitsFields,
        Meta(
            description="fleet are limits of a policy on all clusters together. If they are not set, only those of "
            "each cluster apply."
        ),
    ] = LimitsFields()


class ClusterLimitsFields(Fields, frozen=True, kw_only=True):
    """Limits of one cluster."""

    ceiling: Annotated[
        CeilingFields | UnsetType,
        Meta(description="ceiling replaces the ceiling of the Fleet, for example for a cluster that may sleep whole."),
    ] = UNSET


def limits_of(fields: LimitsFields | FleetLimitsFields) -> Limits:
    """Return the limits that `fields` state."""
    return Limits(stated_limit(fields.idled_workloads), stated_limit(fields.removed_replicas))


def stated_limit(fields: LimitFields | UnsetType) -> Limit | None:
    """Return the limit that `fields` state, None for none."""
    return None if isinstance(fields, UnsetType) else limit_of(fields)


def limit_of(fields: LimitFields) -> Limit:
    """Return the limit that `fields` state."""
    return Limit(float(fields.share), fields.at_least)
