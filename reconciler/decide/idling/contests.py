"""Who undid an idle by hand, how often, and when that is a fight to stay out of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reconciler.decide.idling.marks import CONTESTED, SCALE_TIME, UNDONE, compact, optional_instant, parsed
from reconciler.decide.idling.records import Record
from reconciler.decide.selection import format_time
from reconciler.errors import AnnotationError
from reconciler.model import Workload
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, Place, ScheduleCriterion

OUR_MANAGER = "reconciler"
QUICK = timedelta(minutes=10)
EPISODES = 2
_PERSON = re.compile(r"(?i)^(kubectl|oc$|k9s|lens|headlamp|mozilla|chrome|safari|opera|firefox|edge)")
_SNIPPETS = (
    (
        "argocd",
        "in the Application: spec.ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]"
        " and syncOptions: [RespectIgnoreDifferences=true]",
    ),
    (
        "kustomize-controller",
        "leave spec.replicas out of the manifest, or annotate the object with "
        "kustomize.toolkit.fluxcd.io/reconcile: disabled",
    ),
    (
        "helm-controller",
        "in the HelmRelease: spec.driftDetection: {mode: enabled, ignore: [{paths: [/spec/replicas]}]}",
    ),
    ("kube-controller-manager", "an autoscaler sets it: autoscalers: {hpa: idle} with minReplicas of at least 1"),
    ("horizontal-pod-autoscaler", "an autoscaler sets it: autoscalers: {hpa: idle} with minReplicas of at least 1"),
)


@dataclass(frozen=True, slots=True)
class Undo:
    """One undo: by which field manager, when, and the how-manieth in a row."""

    by: str
    at: datetime
    count: int

    @property
    def text(self) -> str:
        return compact({"by": self.by, "at": format_time(self.at), "count": self.count})


@dataclass(frozen=True, slots=True)
class Contest:
    """Somebody who undoes us whenever we idle; the object is left alone."""

    by: str
    since: str


def undo_of(workload: Workload, record: Record, now: datetime) -> Undo:
    """Return how the idle that `record` tells of was undone.

    The time of the writer is an upper bound; where there is none (a write through /scale) `now` is.
    """
    writer = workload.replicas_writer
    by = writer.manager if writer is not None and writer.manager != OUR_MANAGER else ""
    at = writer.at if writer is not None and by and writer.at is not None and writer.at >= record.idled_at else now
    ours = optional_instant(workload.annotations, SCALE_TIME) or record.idled_at
    quick = at - max(ours, record.idled_at) <= QUICK
    former = _former(workload.annotations)
    again = quick and bool(by) and former is not None and former[0] == by
    return Undo(by or "unknown", at, former[1] + 1 if again and former is not None else 1)


def _former(annotations: Mapping[str, str]) -> tuple[str, int] | None:
    value = _json(annotations, UNDONE)
    by, count = value.get("by"), value.get("count")
    return (by, count) if isinstance(by, str) and isinstance(count, int) else None


def _json(annotations: Mapping[str, str], key: str) -> dict[str, Any]:
    if key not in annotations:
        return {}
    try:
        value = parsed(annotations[key], key)
    except AnnotationError:
        return {}
    return value if isinstance(value, dict) else {}


def is_contest(undo: Undo) -> bool:
    """Return whether `undo` is one too many: not by a person's tool, and not the first in a row."""
    return undo.count >= EPISODES and undo.by != "unknown" and not _PERSON.match(undo.by)


def contest_text(undo: Undo, policy: IdlingPolicy | None) -> str:
    """Return the annotation that says that the object is contested, as long as `policy` stays as it is."""
    said = {"by": undo.by, "since": format_time(undo.at)}
    return compact(said if policy is None else {**said, "policy": fingerprint(policy)})


def contest_of(workload: Workload, policy: IdlingPolicy | None) -> Contest | None:
    """Return who contests `workload`, None where nobody does, or where `policy` changed since."""
    if CONTESTED not in workload.annotations:
        return None
    value = _json(workload.annotations, CONTESTED)
    then = value.get("policy")
    if then is not None and policy is not None and then != fingerprint(policy):
        return None
    return Contest(str(value.get("by", "unknown")), str(value.get("since", "")))


def fingerprint(policy: IdlingPolicy) -> str:
    """Return 12 hex digits that stay the same while `policy` says the same, wherever it stands in the files."""
    rest = replace(policy, place=Place(""), idle_when=AllOf(()))
    said = (rest, _said(policy.idle_when))
    return hashlib.sha256(repr(said).encode()).hexdigest()[:12]


def _said(criterion: Criterion) -> Any:
    """Return what `criterion` says, without the place of its calendar; a zone counts by its name."""
    if isinstance(criterion, ScheduleCriterion):
        calendar = criterion.calendar
        return ("schedule", calendar.zone_name, calendar.windows, calendar.exceptions)
    if isinstance(criterion, AllOf | AnyOf):
        return (type(criterion).__name__, [_said(inner) for inner in criterion.criteria])
    return criterion


def snippet_in(annotation: str) -> str:
    """Return what ends the fight with the writer that `annotation`, a value of CONTESTED, names."""
    return snippet(str(_json({CONTESTED: annotation}, CONTESTED).get("by", "unknown")))


def snippet(by: str) -> str:
    """Return what ends the fight with the writer `by`."""
    found = next((text for name, text in _SNIPPETS if by.startswith(name)), None)
    return found or f'let {by} leave spec.replicas alone, or exclude the object with reconciler/exclude: "true"'
