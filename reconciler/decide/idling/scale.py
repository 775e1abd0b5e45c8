"""Where a scalable is scaled: its replicas, the switch of a CronJob, the pause of a ScaledObject, or a field of its
HorizontalPodAutoscaler.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from reconciler.decide.annotations import Key
from reconciler.decide.autoscalers import MINIMUM
from reconciler.decide.decisions import FieldChange, replicas_change
from reconciler.decide.idling.records import Record
from reconciler.model import NOTHING, HorizontalPodAutoscaler, ObjectRef, Switch, Workload
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import PAUSED_REPLICAS, PREVIOUS_SCALE_UP, SCALE_UP, Scalar, WorkloadKind

_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))
"""Source: kedacore/keda apis/keda/v1alpha1 scaledobject_types.go, getBoolAnnotation: strconv.ParseBool, and any other
text is true.
"""


class Scale(Struct, frozen=True):
    """`written` is the object that is changed, `runs` the one whose pods it governs: the target of a ScaledObject, or
    of `hpa`, the HorizontalPodAutoscaler that is changed in place of its target. None: none is.
    """

    written: Workload
    runs: Workload
    hpa: HorizontalPodAutoscaler | None = None

    @property
    def ref(self) -> ObjectRef:
        return self.written.ref

    @property
    def kind(self) -> WorkloadKind:
        return self.written.kind

    @property
    def is_paused_kind(self) -> bool:
        """Whether it is idled by pausing KEDA; its target is then left to KEDA."""
        return self.kind.scaled_by == "Pause"

    @property
    def lowers_minimum(self) -> bool:
        """Whether the minimum of its autoscaler is lowered: how many replicas that leaves nobody knows."""
        return self.hpa is not None and self.written.switch is None

    @property
    def keeps_at_zero(self) -> bool:
        """Whether its autoscaler, which scaled it to zero, is kept from scaling up: that is a switch."""
        return self.hpa is not None and self.written.switch is not None

    @property
    def switch(self) -> Switch | None:
        """What it is switched off by itself, None for nothing."""
        return None if self.hpa is not None else self.written.switch

    @property
    def stops(self) -> bool:
        """Whether its pods go where it is idled, so that its Services list it."""
        return self.hpa is None

    @property
    def counts(self) -> bool:
        """Whether its replicas are what is changed."""
        return self.hpa is None and not self.kind.is_switch

    @property
    def replicas(self) -> int:
        """Replicas asked for now, or the minimum of its autoscaler; of a switch 0 while it is off, else 1."""
        return self.runs.spec_replicas if self.hpa is None else self.written.spec_replicas

    @property
    def has_target(self) -> bool:
        """Whether it is a ScaledObject, and what it scales was found."""
        return self.hpa is None and self.runs is not self.written

    @property
    def paused_by(self) -> str:
        """What pauses a ScaledObject, "" for nothing."""
        if self.is_paused_kind and PAUSED_REPLICAS in self.written.annotations:
            return PAUSED_REPLICAS
        return Key.PAUSED if self.is_frozen_by_others else ""

    @property
    def is_frozen_by_others(self) -> bool:
        """Whether it is a ScaledObject that leaves its target at the replicas it has, once no number pauses it."""
        return self.is_paused_kind and self.written.annotations.get(Key.PAUSED, "false") not in _FALSE

    @property
    def is_scaled_meanwhile(self) -> bool:
        """Whether it runs, although its autoscaler scaled it to zero and is kept from scaling it up."""
        return self.keeps_at_zero and self.written is not self.runs and self.runs.spec_replicas > 0

    def is_at_or_below(self, count: int) -> bool:
        """Return whether it is at or below `count`, so that a scalable with a record is idle."""
        if not self.is_paused_kind:
            return self.replicas <= count
        paused = whole_number_in(self.written.annotations.get(PAUSED_REPLICAS, ""))
        return paused is not None and paused <= count

    def change_to(self, count: int) -> FieldChange:
        """Return the change that idles it to `count`."""
        return self._change(count, str(count), self.kind.off)

    def change_back(self, count: int, record: Record) -> FieldChange:
        """Return the change that wakes it: to `count` replicas; a ScaledObject goes back to KEDA, a switch to what
        `record` says.
        """
        return self._change(count, None, record.value, has_map=record.has_map)

    def _change(self, count: int, paused_at: str | None, switched: Scalar, *, has_map: bool = True) -> FieldChange:
        path, switch = self.written.replicas_path, self.written.switch
        if switch is not None:
            return (
                _scale_up_change(self.hpa, switched) if self.hpa else _switch_change(switch, switched, has_map=has_map)
            )
        if self.is_paused_kind:
            path = self.kind.replicas_path
            return FieldChange(path, self.written.annotations.get(path[-1]), paused_at)
        return replicas_change(self.written.replicas, count, path)

    def unchanged(self) -> tuple[FieldChange, ...]:
        """Return the change that only tests that the scale is what was seen; none where it has no place any more."""
        seen = self.change_to(0)
        return () if self.written.no_place else (FieldChange(seen.path, seen.before, seen.before),)


def _switch_change(switch: Switch, after: Scalar, *, has_map: bool) -> FieldChange:
    """Return the change of a switch to `after`; without `has_map` the map that holds it goes too, if it holds no more.

    What a missing value means is written out where the kind says that.
    """
    path, wanted = switch.kind.replicas_path, switch.kind.absent if after is None else after
    if switch.kind.in_map and path[0] == "spec":
        if not switch.has_map:
            return FieldChange(path[:-1], None, {path[-1]: wanted})
        if not has_map and switch.alone:
            return FieldChange(path[:-1], {path[-1]: switch.value}, None)
    return FieldChange(path, switch.value, wanted)


# A field of an autoscaler that is changed in place of its target. One that scaled its target to zero itself scales it
# up at any minimum: then it is kept from scaling up at all, and the target is left as it is. So it is where only its
# minimum is lowered.

HpaField = Literal["", "Minimum", "ScaleUp"]
"""What of its HorizontalPodAutoscaler is changed in place of a workload: its minimum is lowered, or it is kept from
scaling up; "" for nothing.
"""


def recorded_field(hpa: HorizontalPodAutoscaler) -> HpaField:
    """Return what of `hpa` its own idle record is about, "" where it has none.

    KEDA copies that of a ScaledObject to the one that it makes of it, which has no owner any more if it outlives that.

    Source: kedacore/keda controllers/keda/hpa.go, newHPAForScaledObject.
    """
    if Key.PREVIOUS_BOUNDS in hpa.annotations or hpa.made_by == "ScaledObject":
        return ""
    if PREVIOUS_SCALE_UP in hpa.annotations:
        return "ScaleUp"
    return "Minimum" if Key.IDLED_AT in hpa.annotations or Key.PREVIOUS_SCALE in hpa.annotations else ""


def scale_through(hpa: HorizontalPodAutoscaler, field: HpaField, target: Workload | None) -> Scale:
    """Return how `target` is scaled by `field` of `hpa`: its minimum stands for replicas, or scaling up is a switch."""
    written = Workload(
        ref=hpa.ref,
        uid=hpa.uid,
        api_version=hpa.api_version,
        replicas=hpa.minimum if field == "Minimum" else None,
        labels=hpa.labels,
        annotations=hpa.annotations,
        replicas_writer=hpa.minimum_writer if field == "Minimum" else None,
        replicas_path=MINIMUM,
        switch=Switch(SCALE_UP, _scale_up_policy(hpa)) if field == "ScaleUp" else None,
        scale_target=hpa.target,
        has_annotations=hpa.has_annotations,
    )
    return Scale(written, target or written, hpa)


_BEHAVIOR = ("spec", "behavior")
_DEFAULT_UP = {
    "stabilizationWindowSeconds": 0,
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DEFAULT_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
"""What the API server puts into a behavior that states nothing.

Source: kubernetes pkg/apis/autoscaling/v2/defaults.go.
"""


def _scale_up_policy(hpa: HorizontalPodAutoscaler) -> str | None:
    found = (hpa.behavior.get("scaleUp") or NOTHING).get("selectPolicy")
    return found if isinstance(found, str) else None


def _scale_up_change(hpa: HorizontalPodAutoscaler, after: Scalar) -> FieldChange:
    """Return the change of the selectPolicy by which `hpa` scales up; None: it was absent.

    What was absent goes again, with what the API server put beside it, unless somebody stated more meanwhile.
    """
    up, down = hpa.behavior.get("scaleUp"), hpa.behavior.get("scaleDown")
    leaf = SCALE_UP.replicas_path
    if after == SCALE_UP.off:
        if not hpa.behavior:
            return FieldChange(_BEHAVIOR, None, {"scaleUp": {"selectPolicy": after}})
        if not up:
            return FieldChange(leaf[:-1], None, {"selectPolicy": after})
        return FieldChange(leaf, up.get("selectPolicy"), after)
    held = {"selectPolicy": SCALE_UP.off}
    if after is None and up in (held, _DEFAULT_UP | held) and down in (None, _DEFAULT_DOWN):
        return FieldChange(_BEHAVIOR, dict(hpa.behavior), None)
    return FieldChange(leaf, _scale_up_policy(hpa), after or "Max")
