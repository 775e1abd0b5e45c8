"""Every key of ours on the objects of a cluster -> what takes it off, once nothing is idle any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.decide.annotations import IDLED, OUR_ANNOTATIONS, SPARED_COST, VICTIM_COST, Key, idling_owner
from reconciler.decide.decisions import Cause, Decision, DesiredState, FieldChange, Notice, Phase, Verb, group_name
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import ACTIVATOR_MANAGER, DELETION_COST, MANAGED_BY_LABEL, NOTHING, ObjectRef
from reconciler.workload_kinds import PREVIOUS_VALUES

_RECORDS = (Key.IDLED_AT, Key.UNIDLE_TARGETS, Key.PREVIOUS_SCALE, *PREVIOUS_VALUES, Key.PREVIOUS_BOUNDS, Key.PLACED)
_OF_OTHERS = "idling.alpha.openshift.io/"
_SCALE = Key.SCALE_REASON.partition("/")[0] + "/"
_COPIED = frozenset({"Endpoints", "EndpointSlice"})
"""Kinds whose annotations Kubernetes copies from a Service: they follow it."""


class AnnotatedObject(Struct, frozen=True):
    """The metadata of one object of any kind; `controlled`: a controller made it, and its annotations are copies."""

    ref: ObjectRef
    api_version: str
    uid: str
    annotations: Mapping[str, str] = NOTHING
    labels: Mapping[str, str] = NOTHING
    controlled: bool = False

    @property
    def our_annotations(self) -> tuple[str, ...]:
        """The keys of ours; those of a scale that somebody else gave a reason for are theirs."""
        ours = {key for key in self.annotations if key.startswith(OUR_ANNOTATIONS) and not key.startswith(_OF_OTHERS)}
        if self.annotations.get(Key.SCALE_REASON, IDLED) != IDLED:
            ours = {key for key in ours if not key.startswith(_SCALE)}
        if Key.VICTIM_LABEL in self.labels and self.annotations.get(DELETION_COST) in (VICTIM_COST, SPARED_COST):
            ours.add(DELETION_COST)
        return tuple(sorted(ours))

    @property
    def our_labels(self) -> tuple[str, ...]:
        return tuple(sorted(key for key in self.labels if key.startswith("reconciler/")))

    @property
    def has_our_metadata(self) -> bool:
        return bool(self.our_annotations or self.our_labels)

    def is_of(self, fleets: frozenset[str] | None) -> bool:
        """Return whether a Fleet of `fleets` wrote on it, or nothing says which one did; None stands for all."""
        owner = idling_owner(self.annotations)
        names = {self.annotations.get(Key.OWNER, "").partition("/")[0], self.annotations.get(Key.RECORDED_BY, "")} - {
            ""
        }
        names |= set() if owner is None else {owner[0]}
        return fleets is None or not names or bool(names & fleets)

    @property
    def holds_record(self) -> bool:
        """Whether something on it says how it, or what is behind it, was before."""
        copied = self.controlled or self.ref.kind in _COPIED
        return not copied and any(key in self.annotations for key in _RECORDS)


def decide_uninstall(found: Iterable[AnnotatedObject], fleets: frozenset[str] | None) -> DesiredState:
    """Return what takes all keys of ours off `found`; objects that are ours alone are deleted.

    What still holds a record is left, and the run is partial: it would never come back as it was. `fleets` are the
    names whose objects are ours, None for all.
    """
    decisions: list[Decision] = []
    notices: list[Notice] = []
    for one in sorted(found, key=lambda found: found.ref):
        if not one.has_our_metadata or not one.is_of(fleets):
            continue
        if one.holds_record:
            words = "still holds what it was before; restore it, or scale it and take its annotations off"
            notices.append(Notice("notUninstalled", str(one.ref), words, partial=True))
        else:
            decisions.append(_removal(one))
    return DesiredState(tuple(decisions), notices=tuple(notices))


def _removal(found: AnnotatedObject) -> Decision:
    deleted = found.labels.get(MANAGED_BY_LABEL) == ACTIVATOR_MANAGER
    verb = Verb.DELETE if deleted else Verb.RELEASE
    annotations = [(("metadata", "annotations", key), found.annotations[key]) for key in found.our_annotations]
    labels = [(("metadata", "labels", key), found.labels[key]) for key in found.our_labels]
    return Decision(
        key=f"uninstall/{found.ref}",
        job="idling",
        verb=verb,
        phase=Phase.RECORD,
        ref=found.ref,
        api_version=found.api_version,
        uid=found.uid,
        changes=() if deleted else tuple(FieldChange(path, value, None) for path, value in (*annotations, *labels)),
        cause=Cause("", "", (reason(ReasonCode.UNINSTALLED),)),
        group=group_name("idling", found.ref),
    )
