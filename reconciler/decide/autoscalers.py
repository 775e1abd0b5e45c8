"""Which autoscaler controls a workload, and how a HorizontalPodAutoscaler is pinned while its workload is idle.

A workload that is idled to 1 or more would be scaled up again by its autoscaler: while it is idle both bounds of the
autoscaler are that number, and the wake gives it its bounds back. At 0 the autoscaler does nothing, unless its
minimum is 0 too: then that is 1 while the workload is idle.

Source: kubernetes pkg/controller/podautoscaler/horizontal.go, reconcileAutoscaler (scaling is disabled at zero replicas
where minReplicas is not 0, and since 1.36 wherever the condition ScaledToZero is not True); KEP-2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, compact, idling_owner, parsed, whole_number
from reconciler.decide.selectors import LocalKey, key_of
from reconciler.errors import AnnotationError
from reconciler.model import FIELD_MANAGER, NOTHING, HorizontalPodAutoscaler, ObjectRef, ObservedCluster, Workload
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import PREVIOUS_SCALE_UP

A = TypeVar("A", bound=HorizontalPodAutoscaler | Workload)

AUTOSCALER_LISTS = {"horizontalpodautoscalers": "HorizontalPodAutoscalers", "scaledobjects": "ScaledObjects"}
"""What lists everything that scales a workload, by its key in `ObservedCluster.unreadable`."""


def first_unread(cluster: ObservedCluster, lists: Iterable[str]) -> str:
    """Return the first of `lists` that could not be read, "" where all were."""
    return next((name for name in lists if name in cluster.unreadable), "")


class ClusterAutoscalers(Struct, frozen=True):
    """The autoscalers of one cluster by the workload they control: (namespace, kind, name).

    `rivals` are the others where several HorizontalPodAutoscalers control one, `keda_rivals` where ScaledObjects do.
    """

    horizontal: Mapping[LocalKey, HorizontalPodAutoscaler]
    keda: Mapping[LocalKey, Workload]
    rivals: Mapping[LocalKey, tuple[HorizontalPodAutoscaler, ...]] = NOTHING
    keda_rivals: Mapping[LocalKey, tuple[Workload, ...]] = NOTHING

    def name_of(self, ref: ObjectRef) -> str | None:
        """Return "HorizontalPodAutoscaler/web" or "ScaledObject/web" for what controls `ref`, None for nothing."""
        found = self.keda.get(key_of(ref)) or self.horizontal.get(key_of(ref))
        return None if found is None else f"{found.ref.kind}/{found.ref.name}"


def autoscalers_of(cluster: ObservedCluster) -> ClusterAutoscalers:
    """Return the autoscalers of `cluster`; a ScaledObject's target kind is Deployment where it names none.

    Of several of one workload it is the one that carries a record of ours.
    """
    scaled = (found for found in cluster.workloads if found.scale_target and found.kind.scaled_by == "Pause")
    keda, keda_rivals = _by_target((one.ref.namespace, one.scale_target, one) for one in scaled)
    horizontal, rivals = _by_target((hpa.ref.namespace, hpa.target, hpa) for hpa in cluster.autoscalers)
    return ClusterAutoscalers(horizontal, keda, rivals, keda_rivals)


def _by_target(
    scaling: Iterable[tuple[str, tuple[str, str] | None, A]],
) -> tuple[dict[LocalKey, A], dict[LocalKey, tuple[A, ...]]]:
    """Return which of `scaling` has the say over each target, and which others are about the same."""
    found: dict[LocalKey, A] = {}
    rivals: dict[LocalKey, tuple[A, ...]] = {}
    for namespace, target, one in scaling:
        if target is None:
            continue
        key = (namespace, *target)
        other = found.get(key)
        first, second = (other, one) if other is not None and is_recorded(other) else (one, other)
        found[key] = first
        if second is not None:
            rivals[key] = (*rivals.get(key, ()), second)
    return found, rivals


def is_recorded(autoscaler: HorizontalPodAutoscaler | Workload) -> bool:
    """Return whether our record stands on `autoscaler`, of its bounds, its pause or another field of it."""
    return any(
        key in autoscaler.annotations
        for key in (Key.PREVIOUS_BOUNDS, Key.PREVIOUS_SCALE, PREVIOUS_SCALE_UP, Key.IDLED_AT)
    )


def shrunk_by(autoscalers: ClusterAutoscalers, ref: ObjectRef) -> str | None:
    """Return the name of the autoscaler that scales `ref` down, None where none does or its way down is disabled."""
    key = key_of(ref)
    horizontal = autoscalers.horizontal.get(key)
    if horizontal is not None and all(
        hpa.scale_down_disabled for hpa in (horizontal, *autoscalers.rivals.get(key, ()))
    ):
        return None
    return autoscalers.name_of(ref)


_CLOCKS_DIFFER = timedelta(minutes=1)


class Bounds(Struct, frozen=True):
    """`minimum` None: absent, which counts as 1."""

    minimum: int | None
    maximum: int

    @property
    def least(self) -> int:
        return 1 if self.minimum is None else self.minimum

    def clamp(self, count: int) -> int:
        """Return the number nearest to `count` within the bounds."""
        return min(max(count, self.least), self.maximum)


class PinnedAutoscaler(Struct, frozen=True):
    """One autoscaler of a workload. `previous` is what it had before it was held, None where it is not held.

    `idled_to` is what both its bounds were set to, None where that is not known. `wake_begun`: it was us who gave it
    its bounds back. `problem` set: it is left as it is, as what stands on it cannot be read, or as `holder`, another
    Fleet, wrote it.
    """

    hpa: HorizontalPodAutoscaler
    previous: Bounds | None = None
    idled_to: int | None = None
    wake_begun: bool = False
    problem: str = ""
    holder: str = ""

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.hpa.minimum, self.hpa.maximum)

    @property
    def is_pinned(self) -> bool:
        """Whether its bounds are still the ones that hold it at `idled_to`."""
        return self.idled_to is not None and self.is_pinned_at(self.idled_to) and self.bounds != self.previous

    def is_pinned_at(self, idled_to: int) -> bool:
        return self.previous is not None and self.bounds == pinned_bounds(idled_to, self.previous)

    def needs_pin(self, idled_to: int) -> bool:
        """Whether it would scale up again what is idled to `idled_to`, if it were not held there."""
        return idled_to > 0 or self.own_bounds.minimum == 0

    def is_pinned_by_us(self, idled_to: int) -> bool:
        """Whether its bounds hold its workload at `idled_to`, or at another count of ours."""
        return self.is_pinned_at(idled_to) or self.is_pinned

    def is_restored_by_others(self, idled_to: int, since: datetime) -> bool:
        """Return whether somebody else gave its bounds back after we idled its workload to `idled_to` at `since`.

        Where our annotations stand on it, somebody did unless we hold it or began the wake. Where they do not, a run
        may have died before it wrote them: then somebody did only if somebody else wrote its bounds since.
        """
        if not self.needs_pin(idled_to) or self.problem or self.is_pinned_by_us(idled_to) or self.wake_begun:
            return False
        if self.previous is not None:
            return True
        writer = self.hpa.bounds_writer
        if writer is None or writer.at is None or writer.manager in ("", FIELD_MANAGER):
            return False
        return writer.at >= since - _CLOCKS_DIFFER

    @property
    def own_bounds(self) -> Bounds:
        """The bounds it has when it is not held: those before, and what somebody else changed since.

        A bound that is still at what we set goes back, as far as the other one allows.
        """
        before, bounds = self.previous, self.bounds
        if before is None or self.idled_to is None or (self.wake_begun and not self.is_pinned):
            return bounds
        held = pinned_bounds(self.idled_to, before)
        if bounds.least != held.least:
            is_held = bounds.maximum == held.maximum
            return replace(bounds, maximum=max(before.maximum, bounds.least)) if is_held else bounds
        if bounds.maximum == held.maximum:
            return before
        return replace(bounds, minimum=before.minimum if before.least <= bounds.maximum else bounds.maximum)

    @property
    def gets_back(self) -> bool:
        """Whether its bounds change when it is let go."""
        return self.own_bounds != self.bounds

    def read_by(self, fleet: str) -> PinnedAutoscaler:
        """Return the hold as `fleet` may read it, which idled the workload."""
        return replace(self, problem="", holder="") if self.holder and self.holder == fleet else self


def pinned_bounds(idled_to: int, own: Bounds) -> Bounds:
    """Return the bounds that hold its workload at `idled_to`, where its own are `own`."""
    return Bounds(idled_to, idled_to) if idled_to > 0 else Bounds(1, own.maximum)


def pinned_autoscaler(hpa: HorizontalPodAutoscaler, fleets: frozenset[str]) -> PinnedAutoscaler:
    """Return how `autoscaler` is held; what another Fleet wrote on it is not ours to use."""
    annotations = hpa.annotations
    text, owner = annotations.get(Key.PREVIOUS_BOUNDS), idling_owner(annotations)
    if text is None:
        return PinnedAutoscaler(hpa)
    try:
        previous, idled_to = _previous_bounds(parsed(text, Key.PREVIOUS_BOUNDS)), _idled_to(hpa)
    except AnnotationError as error:
        return PinnedAutoscaler(hpa, problem=str(error))
    autoscaler = PinnedAutoscaler(hpa, previous, idled_to, Key.WAKE_BEGUN_AT in annotations)
    if owner is None or owner[0] in fleets:
        return autoscaler
    return replace(autoscaler, problem=f"{Key.PREVIOUS_BOUNDS} belongs to {owner[0]}", holder=owner[0])


def _idled_to(hpa: HorizontalPodAutoscaler) -> int | None:
    """Return the count that `autoscaler` was held at; where it is not written, bounds of one number are it."""
    text = hpa.annotations.get(Key.IDLED_TO)
    if text is not None:
        return whole_number(text, Key.IDLED_TO)
    return hpa.maximum if hpa.minimum == hpa.maximum else None


def _previous_bounds(value: Any) -> Bounds:
    found = value if isinstance(value, dict) else {}
    minimum, maximum = found.get("minReplicas"), found.get("maxReplicas")
    if type(maximum) is int and maximum > 0 and (minimum is None or (type(minimum) is int and minimum >= 0)):
        return Bounds(minimum, maximum)
    raise AnnotationError(f"{Key.PREVIOUS_BOUNDS} is {compact(value)[:60]}, expected minReplicas and maxReplicas")


MINIMUM = ("spec", "minReplicas")


def lowered_by(hpa: HorizontalPodAutoscaler) -> int:
    """Return how much lower its minimum is than what our record on it says, 0 where it is not lowered."""
    had = whole_number_in(hpa.annotations.get(Key.PREVIOUS_SCALE, ""))
    return 0 if had is None else max(0, had - (1 if hpa.minimum is None else hpa.minimum))
