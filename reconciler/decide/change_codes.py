"""What would change a decision, the clause of "it would change if ...": a code of a closed list, with values.

Each job looks for facts in the order of a table: what holds of a workload, why, and what would end it; the first that
it finds is the reason. Which of these it takes to change a decision is found in `smallest_change.py` of idling and of
placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import format_time
from reconciler.decide.reasons import TEXTS, Code, Reasons, code, filled, json_values, reason
from reconciler.model import NOTHING, ObjectRef


class ChangeIfCode:
    """What would change a decision."""

    AT = code("At", "it is {at:edge} or later")
    AFTER = code("After", "it is {at:edge} or later", "it is {at:edge} or later (in {at:age})")
    WINDOW = code("Window", "there is a window of {calendar}")
    ANOTHER_WINDOW = code("AnotherWindow", "there is another window of {calendar}")
    END = code("End", "there is an end of {calendar}")
    METRIC_ABOVE = code("MetricAbove", "the metric[ {name}] is above {bound}")
    METRIC_AT_MOST = code("MetricAtMost", "the metric[ {name}][ of {field}] is at most {bound}")
    METRIC_KNOWN = code(
        "MetricKnown", "the metric[ {name}][ of {field}] has a value[ of at most {atMost}][ above {above}]"
    )
    CLUSTER_STATE = code("ClusterState", "its cluster has another state")
    UNFROZEN = code("Unfrozen", "the freeze ends (reconciler unfreeze)")
    DIFFERENT_PRIORITIES = code("DifferentPriorities", "the priorities differ")
    READABLE = code("Readable", "{object:it} can be read")
    MANIFEST_CORRECTED = code("ManifestCorrected", "the manifest[ of {object}] is corrected")
    RECORD_READABLE = code("RecordReadable", "the record[ of {object}] can be read")
    TIME_READABLE = code("TimeReadable", "the time[ on {object}] can be read")
    RECORD_REMOVED = code("RecordRemoved", "the record of {object} is removed")
    ANNOTATION_REMOVED = code("AnnotationRemoved", "{annotation} is removed[ from {object}]")
    POLICY_CHANGES = code("PolicyChanges", "its policy changes")
    UNPROTECTED = code("Unprotected", "the namespace is removed from protectedNamespaces of the Fleet")
    NAMED = code("Named", "{selector} is in the selector of {policies}")
    FIELD_IS = code("FieldIs", "{field} is {value}")
    OTHER_TARGET = code("OtherTarget", "the target is anything but {replicas}")
    HPA_SCALES_UP = code("HPAScalesUp", "its autoscaler scales it up")
    WOKEN = code("Woken", "it is woken")
    OBJECT_EXISTS = code("ObjectExists", "{object} exists")
    WRITE_ACCEPTED = code("WriteAccepted", "its write is not refused")
    CLUSTER_ENTRY = code("ClusterEntry", 'preferences.clusters has an entry for {cluster} or "*"')
    MORE_REPLICAS = code("MoreReplicas", "{object:it} has more than {replicas replica|replicas}")
    SWITCHED_ON = code("SwitchedOn", "{object:it} is switched on")
    ROLLOUT_ENDS = code("RolloutEnds", "the rollout[ of {object}] ends")
    ROLLOUT_RESUMED = code("RolloutResumed", "the rollout[ of {object}] is resumed, and ends")
    WAKE_REQUEST = code("WakeRequest", "there is a wake request")
    POLICY = code("Policy", "there is a policy that selects it")
    SCALED_OR_ADOPTED = code("ScaledOrAdopted", "it is scaled, or `reconciler restore --adopt` is run")
    FLAG = code("Flag", "the run has {flag}")
    ALL = code("All", "")
    ANY = code("Any", "")


class ChangeIf(Struct, frozen=True):
    """What would change a decision; of `ALL` and `ANY` it is `parts` that would."""

    code: Code
    values: Mapping[str, Any] = NOTHING
    parts: tuple[ChangeIf, ...] = ()

    def __hash__(self) -> int:
        return hash((self.code, self.parts))

    def shown(self, show: Callable[[ChangeIf], str]) -> str:
        """Return the clause, each part as `show` shows it.

        Alternatives come last, so that nobody reads what else it takes as a part of the last one.
        """
        if not self.parts:
            return show(self)
        if self.code == ChangeIfCode.ANY:
            return (", or " if any(part.parts for part in self.parts) else " or ").join(
                part.shown(show) for part in self.parts
            )
        needed = [part.shown(show) for part in self.parts if part.code != ChangeIfCode.ANY]
        either = [f"either {part.shown(show)}" for part in self.parts if part.code == ChangeIfCode.ANY]
        return ", and ".join([*filter(None, (" and ".join(needed),)), *either])

    def __str__(self) -> str:
        return self.shown(lambda part: filled(TEXTS[part.code], part.values))

    def of(self, object_: str) -> ChangeIf:
        """Return it as a change of `object_`, "Service/web", where it is about an object and names none yet."""
        if self.parts:
            return replace(self, parts=tuple(part.of(object_) for part in self.parts))
        is_about_one = "{object" in TEXTS[self.code] or "annotation" in self.values
        if not is_about_one or "object" in self.values:
            return self
        return replace(self, values={**self.values, "object": object_})


def change_if(code: Code, **values: Any) -> ChangeIf:
    """Return the change_if with `values`, as for a reason."""
    return ChangeIf(code, json_values(values))


def field_is(field: str, value: str | int) -> ChangeIf:
    """Return that it changes if `field` of the policy is `value`, which may also be words such as "above 3"."""
    return change_if(ChangeIfCode.FIELD_IS, field=field, value=value)


def joint_change(code: Code, changes: Iterable[ChangeIf | None]) -> ChangeIf | None:
    """Return `changes` as one, each once: `ALL` of them, or `ANY`; None for none.

    What one of them says already is left out: alternatives one of which is needed anyway, and more than is enough.
    """
    known = (change for change in changes if change is not None)
    inside = (change.parts if change.code == code else (change,) for change in known)
    found = dict.fromkeys(chain.from_iterable(inside))
    parts = tuple(part for part in found if found.keys().isdisjoint(part.parts))
    return parts[0] if len(parts) == 1 else ChangeIf(code, parts=parts) if parts else None


def all_known(changes: Iterable[ChangeIf | None]) -> ChangeIf | None:
    """Return `changes` as one, None where one of them is not known."""
    found = tuple(changes)
    return None if None in found else joint_change(ChangeIfCode.ALL, found)


def all_changes(changes: Iterable[ChangeIf | None], ends: datetime | None) -> ChangeIf | None:
    """Return what ends several causes, where each of `changes` ends one; None where that is not known.

    Of several times it is the latest. One at or after `ends`, when the criteria no longer call it idle, comes too late:
    then it takes the removal of the annotation with the time.
    """
    whole = all_known(changes)
    if whole is None:
        return None
    parts = whole.parts if whole.code == ChangeIfCode.ALL else (whole,)
    known = [in_time for part in parts if (in_time := _in_time(part, ends)) is not None]
    if len(known) < len(parts):
        return None
    times = [change for change in known if change.code in (ChangeIfCode.AFTER, ChangeIfCode.AT)]
    latest = max(times, key=lambda change: (change.values["at"], change.code == ChangeIfCode.AT), default=None)
    if latest is None or latest.code == ChangeIfCode.AT:
        return joint_change(ChangeIfCode.ALL, (change for change in known if not is_time(change)))
    return joint_change(ChangeIfCode.ALL, (latest, *(change for change in known if change not in times)))


def _in_time(change: ChangeIf, ends: datetime | None) -> ChangeIf | None:
    if ends is None or not is_time(change) or change.values["at"] < format_time(ends):
        return change
    values = change.values
    return change_if(ChangeIfCode.ANNOTATION_REMOVED, **{**values, "at": None}) if "annotation" in values else None


def is_time(change: ChangeIf | None) -> bool:
    """Return whether `change` is only a matter of time."""
    return change is not None and change.code == ChangeIfCode.AFTER


def after(at: datetime, annotation: str = "") -> ChangeIf:
    """Return that it changes by itself once `at` is over, which `annotation` says if it is one."""
    return change_if(ChangeIfCode.AFTER, at=at, annotation=annotation)


FindChange = Callable[[ObjectRef], ChangeIf | None]
"""Finds what would change what is decided of an object; that may cost as much as deciding, and only `explain` asks."""


class Fact(Struct, frozen=True):
    """What decides, and why. `until` it ends by itself; None: not by time. `lift` is what else would end it, or finds
    that; None: nothing that is known does.

    `neighbours` are the other workloads that it holds because of: it ends when they are decided otherwise.
    """

    why: Reasons
    lift: ChangeIf | Callable[[], ChangeIf | None] | None = None
    until: datetime | None = None
    neighbours: tuple[ObjectRef, ...] = ()

    @property
    def change_if(self) -> ChangeIf | None:
        """What would end it, None where that is not known."""
        if self.lift is None and self.until is not None:
            return after(self.until)
        return self.lift() if callable(self.lift) else self.lift


def fact(code: Code, lift: ChangeIf | None = None, /, **values: Any) -> Fact:
    """Return a fact with one reason."""
    return Fact((reason(code, **values),), lift)
