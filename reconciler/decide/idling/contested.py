"""What somebody else changed of what is idle: who reverted it (the replicas, or the bounds of an autoscaler), how
often, and when it is left alone; and who keeps it scaled down for a reason of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import IDLED, Key, compact, digest, format_time, json_object, read_time, stated
from reconciler.decide.idling.records import Record, awake_since
from reconciler.decide.idling.service_records import who_idled
from reconciler.decide.idling.subjects import IdleState, Subject, Undo
from reconciler.model import FIELD_MANAGER, ObjectRef, Workload, by_key, pointer
from reconciler.policy.types import AllOf, AnyOf, Autoscalers, Criterion, IdlingPolicy, Limits, Place, ScheduleCriterion
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import workload_kind

_EPISODES = 2
"""How often the same manager undoes us, each time that we idle, before we leave the object alone."""

_NO_TOOL = (
    r"(?i)kubectl\b.*|(oc|k9s|lens|headlamp|mozilla)(\.exe)?|node-fetch|googlecloudconsole"
    "|dashboard|rancher|argocd-server|virt-api|openshift-controller-manager"
)
"""What scales up what people use: their own tools, a browser as Mozilla, Lens as node-fetch; servers that do what they
are asked by people, such as that of virtctl; and traffic, by the unidling of OpenShift.

Source: kubevirt pkg/virt-api/rest/lifecycle.go, StartVMRequestHandler; openshift/openshift-controller-manager
pkg/unidling/controller/unidling_controller.go.
"""

AUTOSCALER = "kube-controller-manager"
"""It leaves what is idle as it is, and overwrites who scaled it up.

Source: kubernetes pkg/controller/podautoscaler/horizontal.go, reconcileAutoscaler.
"""

_ADVICE = (
    (
        "argocd",
        "in the Application: spec.ignoreDifferences: [{{group: {group}, kind: {kind}, jsonPointers: [{pointers}]}}]"
        " and syncOptions: [RespectIgnoreDifferences=true]",
    ),
    (
        "kustomize-controller",
        "{leave}in the Kustomization: spec.ignore: [{{paths: [{pointers}], target: {{kind: {kind}}}}}], "
        "or annotate the {kind} with kustomize.toolkit.fluxcd.io/reconcile: disabled",
    ),
    (
        "helm-controller",
        "in the HelmRelease: spec.driftDetection: {{mode: enabled, ignore: [{{paths: [{pointers}]}}]}}",
    ),
    ("helm", "let the values of the chart leave {fields} out, many do with autoscaling.enabled: true"),
)
_ARGO_CD = "argocd"
_TOOLS = (_ARGO_CD, "kustomize-controller", "helm")
_ANY = 'let {by} leave {fields} alone, or exclude the object with reconciler/exclude: "true"'
_NO_BOUNDS = "; idleReplicas: 0 needs no other bounds"


class _Contest(Struct, frozen=True):
    """Somebody who undoes us whenever we idle; the object is left alone. `autoscaler` as in `Undo`."""

    by: str
    since: str
    autoscaler: str = ""


def reason_of_others(workload: Workload, record: Record) -> str | None:
    """Return the reason for which somebody else scaled `workload` since `record` was written on it, "" where they
    cleared ours, None where nobody did.

    Ours stands there with a time. Without either nothing can be said, nor where all of it came back from the past
    (`kubectl rollout undo`): a record from before the last wake is no news.

    Source: seed idling-and-unidling.md, scale-reason.
    """
    annotations, woken = workload.annotations, awake_since(workload)
    if Key.IDLED_AT not in annotations or (woken is not None and record.idled_at < woken):
        return None
    reason = annotations.get(Key.SCALE_REASON)
    if reason == IDLED or (reason is None and Key.SCALE_TIME not in annotations):
        return None
    return reason or ""


def scaled_down_by_others(workload: Workload) -> tuple[int, str] | None:
    """Return the replicas of what idling released because somebody else scaled it down, and by whom or for what reason;
    None once they scaled it up again.

    It lasts until its writer scales it up again: where they gave no reason, to any number of replicas.
    """
    annotations = workload.annotations
    previous = whole_number_in(annotations.get(Key.SCALE_PREVIOUS, ""))
    reason = annotations.get(Key.SCALE_REASON, "")
    if previous is None or reason == IDLED or Key.IDLED_AT in annotations or workload.spec_replicas >= previous:
        return None
    return (previous, reason or who_idled(None)) if reason or workload.spec_replicas == 0 else None


def scaled_at(workload: Workload, record: Record) -> datetime:
    """Return when we scaled `workload` last while `record` stood on it: its scale-time, moved by a new idled count."""
    return max(record.idled_at, read_time(workload.annotations.get(Key.SCALE_TIME)) or record.idled_at)


def is_restored_by_others(subject: Subject, record: Record) -> bool:
    """Return whether somebody put the bounds of its autoscaler back, which held it at the idled count of `record`."""
    since = scaled_at(subject.scale.written, record)
    return subject.autoscaler is not None and subject.autoscaler.is_restored_by_others(record.idled_to, since)


def undo_of(subject: Subject, now: datetime) -> Undo | None:
    """Return how the idling was undone that the record of `subject` describes, None where it was not.

    The time of the writer is an upper bound; where there is none (a write through /scale) `now` is.
    """
    record, workload, autoscaler = subject.record, subject.scale.written, ""
    if record is None or subject.state not in (IdleState.MANUALLY_SCALED, IdleState.HPA_CHANGED):
        return None
    writer = subject.scale.runs.replicas_writer if subject.scale.is_scaled_meanwhile else workload.replicas_writer
    if subject.autoscaler is not None and is_restored_by_others(subject, record):
        writer, autoscaler = subject.autoscaler.hpa.bounds_writer, subject.autoscaler.hpa.ref.name
    by = writer.manager if writer is not None and writer.manager not in (FIELD_MANAGER, AUTOSCALER) else ""
    at = writer.at if writer is not None and by and writer.at is not None and writer.at >= record.idled_at else now
    former = json_object(workload.annotations.get(Key.UNDONE))
    count = former.get("count") if by and former.get("by") == by else 0
    return Undo(by or "unknown", at, count + 1 if isinstance(count, int) else 1, autoscaler)


def is_contested(subject: Subject, undo: Undo) -> bool:
    """Return whether `undo` is one too many, so that `subject` is left alone: by a tool, and not the first in a row.

    Where no policy decides about it, nobody knows when that would end, nor whether its policy insists: it only counts.
    """
    return subject.verdict.policy is not None and undo.count >= _EPISODES and is_by_tool(undo)


def is_by_tool(undo: Undo) -> bool:
    """Return whether it is known that no person did it, nor traffic."""
    return undo.by != "unknown" and _is_tool(undo.by)


def _is_tool(manager: str) -> bool:
    return not re.fullmatch(_NO_TOOL, manager)


def insisted(subject: Subject) -> Undo | None:
    """Return the last of several undos in a row that we did not yield to, None where there are not several."""
    annotations = subject.scale.written.annotations
    if Key.UNDONE not in annotations or not subject.verdict.insists:
        return None
    found = json_object(annotations[Key.UNDONE])
    by, at, count = found.get("by"), read_time(found.get("at")), found.get("count")
    if not isinstance(by, str) or at is None or not isinstance(count, int) or count < _EPISODES:
        return None
    undo = Undo(by, at, count)
    return undo if is_by_tool(undo) else None


def contest_text(undo: Undo, policy: IdlingPolicy | None) -> str:
    """Return the annotation that says that the object is contested, as long as `policy` stays as it is."""
    said = {"by": undo.by, "since": format_time(undo.at)}
    said |= {"autoscaler": undo.autoscaler} if undo.autoscaler else {}
    return compact(said if policy is None else {**said, "policy": fingerprint(policy)})


def contest_of(workload: Workload, policy: IdlingPolicy | None) -> _Contest | None:
    """Return who contests `workload`, None where nobody does, or where `policy` changed since."""
    if Key.CONTESTED not in workload.annotations:
        return None
    then = json_object(workload.annotations.get(Key.CONTESTED)).get("policy")
    if then is not None and policy is not None and then != fingerprint(policy):
        return None
    return _contest_in(workload.annotations)


def _contest_in(annotations: Mapping[str, str]) -> _Contest:
    value = json_object(annotations.get(Key.CONTESTED))
    return _Contest(str(value.get("by", "unknown")), str(value.get("since", "")), str(value.get("autoscaler", "")))


def fingerprint(policy: IdlingPolicy) -> str:
    """Return 12 hex digits that stay the same while `policy` says the same, wherever it stands in the files."""
    git_ops = replace(policy.git_ops, flux="Leave")
    elsewhere = {"place": Place(""), "limits": Limits(), "limits_place": None}
    rest = replace(policy, **elsewhere, idle_when=AllOf(()), autoscalers=Autoscalers(), git_ops=git_ops)
    flux = {"pauses_flux": True} if policy.git_ops.flux == "Pause" else {}  # so it is called in digests on clusters
    return digest([{**stated(rest), **stated(policy.autoscalers), **flux}, _criterion_values(policy.idle_when)], 12)


def _criterion_values(criterion: Criterion) -> Any:
    """Return `criterion` as comparable values, without the place of its calendar; a zone counts by its name."""
    if isinstance(criterion, ScheduleCriterion):
        calendar = criterion.calendar
        awake = [(window.start, window.end) for window in (*calendar.exceptions, *calendar.awake)]
        return ("schedule", calendar.zone_name, stated(calendar.windows), awake)
    if isinstance(criterion, AllOf | AnyOf):
        return (type(criterion).__name__, [_criterion_values(inner) for inner in criterion.criteria])
    return stated(criterion)


def advice_in(annotation: str, ref: ObjectRef, path: Sequence[str]) -> str:
    """Return advice that ends the contest about `ref`; `annotation` is the value of CONTESTED; `path`: see `advice`."""
    contest = _contest_in({Key.CONTESTED: annotation})
    return advice(contest.by, ref, contest.autoscaler, path)


def advice(by: str, ref: ObjectRef, autoscaler: str = "", path: Sequence[str] = ()) -> str:
    """Return advice that ends the contest with `by` about the scale of `ref`, or the bounds of its `autoscaler`.

    `path` is where the object has its scale; () is where its kind has it.
    """
    text = next((text for name, text in _ADVICE if by.startswith(name)), _ANY)
    group, kind, paths = ref.group, ref.kind, [path or workload_kind(ref.kind).replicas_path]
    if autoscaler:
        group, kind = "autoscaling", "HorizontalPodAutoscaler"
        paths = [("spec", "minReplicas"), ("spec", "maxReplicas")]
    pointers, fields = ", ".join(map(pointer, paths)), " and ".join(map(_field, paths))
    said = {"by": by, "group": group or '""', "kind": kind, "pointers": pointers, "fields": fields}
    said["leave"] = "" if autoscaler else f"leave {said['fields']} out of the manifest, or "  # maxReplicas is required
    return text.format(**said) + _NO_BOUNDS * bool(autoscaler)


def tools_of(workloads: Iterable[Workload]) -> dict[str, tuple[Workload, ...]]:
    """Return by field manager what tools wrote the scale of last: not people, not we, and not the autoscalers."""
    written = ((one.replicas_writer.manager, one) for one in workloads if one.replicas_writer is not None)
    found = by_key((by, one) for by, one in written if by.startswith(_TOOLS) and _is_tool(by))
    return {by: tuple(sorted(found[by], key=lambda workload: workload.ref)) for by in sorted(found)}


def remedy(by: str, workloads: Iterable[Workload]) -> str:
    """Return advice that lets us scale all `workloads`, which `by` writes too: each kind once, for Argo CD as one."""
    kinds = {(workload.ref.group, workload.ref.kind): workload for workload in workloads}
    texts = [advice(by, kinds[key].ref, path=kinds[key].replicas_path) for key in sorted(kinds)]
    if not by.startswith(_ARGO_CD):
        return "; ".join(texts)
    before, _, _ = texts[0].partition("[{")
    entries = (text[len(before) + 1 :].partition("}]")[0] for text in texts)
    return f"{before}[{', '.join(f'{entry}}}' for entry in entries)}]{texts[0].partition('}]')[2]}"


def _field(path: Sequence[str]) -> str:
    """Return a field as people write it; a key with dots is quoted."""
    *parents, last = path
    return ".".join(parents) + (f'["{last}"]' if "." in last else f".{last}")
