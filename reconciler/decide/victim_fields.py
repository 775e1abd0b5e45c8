"""What a saved plan says of a scale-down: which pods it deletes, and by what apply chooses them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from reconciler.connection_settings import PodPicker

PlanNumber = Annotated[int, Meta(ge=0)]


class VictimForecast(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The pods that are deleted when a workload is scaled down."""

    count: PlanNumber
    """The number of pods that are deleted."""
    pods: tuple[str, ...]
    """Their names, in the order in which they are deleted; empty if they are chosen during apply."""
    rules: tuple[str, ...]
    """For each of the pods, the rule that decided its place."""
    certain: bool
    """The controller deletes exactly these pods."""
    strategy: str
    """The strategy by which the pods are chosen."""
    chosen_at_apply: bool
    """A pod picker is asked during apply."""
    requested: PlanNumber
    """The number of pods that the pod picker is asked for."""
    candidates: PlanNumber
    """The number of pods that it can choose from."""
    age_ratios: tuple[float | None, ...]
    """For each of the pods, where the controller chooses, the metric sorting_deletion_age_ratio of KEP-2185; null where
    age did not decide."""
    note: str
    """Remarks about the choice, for people."""
    deferred: bool
    """The scale-down is deferred to a later run; the note has the reason."""


NO_VICTIMS = VictimForecast(0, (), (), True, "Logarithmic", False, 0, 0, (), "", False)

Strategy = Literal["Logarithmic", "NewestFirst", "ZoneBalanced", "PodPicker"]
"""How the victims of a scale-down are chosen: by the policy's `strategy`, or by its pod picker."""


class DownscaleSettings(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What apply needs to choose the pods of a scale-down."""

    policy: str
    """The policy, or what else orders the pods."""
    strategy: Strategy
    """The strategy by which pods are chosen."""
    picker: PodPicker | None
    """The pod picker; null: none."""
    logarithm_base: float
    """Ages are compared by their logarithm to this base."""
    topology_key: str
    """The node label whose values are the zones, for ZoneBalanced."""
    on_foreign_cost: Literal["Skip", "Override"]
    """What happens to a deletion cost that something else set."""
    settle_seconds: float
    """The time between annotating the pods and scaling, in seconds."""
    verify_seconds: float
    """The time to wait until the pods are deleted, in seconds."""
