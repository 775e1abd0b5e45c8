"""Objects with a scale -> `Workload`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields

from reconciler.backends.decode import shapes
from reconciler.backends.decode.metadata import (
    CustomManagedFields,
    CustomMetadata,
    FieldsV1,
    ManagedFields,
    Metadata,
    OwnedMetadata,
    controller_of,
)
from reconciler.backends.decode.mismatches import json_words
from reconciler.backends.decode.shapes import WholeTemplate
from reconciler.backends.decode.values import Instant, Wire, datetime_of, decoded_value
from reconciler.backends.patched_values import value_below
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.model import NOTHING, Condition, FieldWriter, ObjectRef, OwnerReference, Switch, Workload
from reconciler.pod_requests import NO_REQUESTS, PodRequests, requests_of
from reconciler.untrusted_text import MOST_REPLICAS
from reconciler.workload_kinds import BY_KIND, CRON_JOB, Ready, WorkloadKind, same_scalar

W = TypeVar("W", bound=Wire)

STATUS_COUNTS = ("readyReplicas", "availableReplicas", "updatedReplicas")
_LONGEST_COUNT = 10  # digits: counts have 31 bits
_BEFORE_ALL = Instant(-(2**63))


def workload_of(ref: ObjectRef, decoded: Any, api_version: str, scale: WorkloadKind | None) -> Workload:
    """Return the decoded object `ref` as a workload; `scale` says where its replicas are, None: nowhere is known."""
    metadata: OwnedMetadata | CustomMetadata = decoded.metadata
    path = ("spec", "replicas") if scale is None else scale.replicas_path
    return Workload(
        ref=ref,
        uid=metadata.uid or "",
        api_version=api_version,
        labels=metadata.labels or NOTHING,
        annotations=metadata.annotations or NOTHING,
        created_at=datetime_of(metadata.creation_timestamp),
        generation=metadata.generation,
        owner=_owner(metadata),
        replicas_writer=writer_of(metadata.managed_fields or (), path),
        replicas_path=path,
        has_annotations=metadata.annotations is not None,
        has_labels=bool(metadata.labels),
        terminating=metadata.deletion_timestamp is not None,
        **_SPECIFIC[type(decoded)](decoded, scale),
    )


def _template_labels(template: shapes.PodTemplate | shapes.CustomTemplate | None) -> Mapping[str, str]:
    if template is None or template.metadata is None:
        return NOTHING
    return template.metadata.labels or NOTHING


def _default_selector(labels: Mapping[str, str]) -> LabelSelector | None:
    """The old API versions and ReplicationControllers take the template's labels where no selector is given."""
    return LabelSelector(tuple(sorted(labels.items()))) if labels else None


def _status(status: shapes.WorkloadStatus | None, *, rolls: bool = False) -> dict[str, Any]:
    """Return what a controller says; `rolls`: it counts the replicas of the newest template too.

    The API server leaves out a count of 0, of which a status says nothing that no controller wrote.
    """
    if status is None:
        return {}
    absent = None if status.observed_generation is None else 0
    return {
        "status_replicas": absent if status.replicas is None else status.replicas,
        "ready_replicas": absent if status.ready_replicas is None else status.ready_replicas,
        "available_replicas": absent if status.available_replicas is None else status.available_replicas,
        "updated_replicas": absent if rolls and status.updated_replicas is None else status.updated_replicas,
        "observed_generation": status.observed_generation,
        "conditions": _conditions(status.conditions),
    }


def _scaled(
    decoded: Any, template: shapes.PodTemplate | None, selector: LabelSelector | None, status: dict[str, Any]
) -> dict[str, Any]:
    """Return what the built-in kinds with replicas say alike. Only a manifest in a file is without spec."""
    labels = _template_labels(template)
    if decoded.spec is None:
        return status | {"no_place": _missing_parent({}, ("spec", "replicas"), "replicas")}
    return status | {
        "replicas": decoded.spec.replicas,
        "selector": selector or _default_selector(labels),
        "template_labels": labels,
        "requests": _pod_requests(template),
    }


def _pod_requests(template: shapes.PodTemplate | None) -> PodRequests:
    if template is None or template.spec is None:
        return NO_REQUESTS
    return _remembered_requests(msgspec.json.encode(template.spec))


@lru_cache(4096)  # most pods request what others do
def _remembered_requests(spec: bytes) -> PodRequests:
    return requests_of(msgspec.json.decode(spec))


def _apps(decoded: shapes.AppsWorkload, _: WorkloadKind | None) -> dict[str, Any]:
    spec = decoded.spec or _NO_SPEC
    update, claims = spec.update_strategy, spec.persistent_volume_claim_retention_policy
    first = (0 if spec.ordinals is None else spec.ordinals.start) or 0
    found = _scaled(decoded, spec.template, decoded_selector(spec.selector), _status(decoded.status, rolls=True))
    if update is not None:  # a partition is an ordinal
        partition = (0 if update.rolling_update is None else update.rolling_update.partition) or 0
        found["partition"] = None if update.type == "OnDelete" else max(0, partition - first)
    if first:
        found["first_ordinal"] = first
    if claims is not None:
        found["loses_volumes"] = claims.when_scaled == "Delete" and bool(spec.volume_claim_templates)
    return found


_NO_SPEC = shapes.WorkloadSpec()


def _replica_set(decoded: shapes.ReplicaSet, _: WorkloadKind | None) -> dict[str, Any]:
    spec = decoded.spec or shapes.ReplicaSetSpec()
    template = spec.template or WholeTemplate(None, shapes.PodTemplate())
    return _scaled(decoded, template.part, decoded_selector(spec.selector), _status(decoded.status)) | {
        "min_ready_seconds": spec.min_ready_seconds,
        "template": template.raw,
    }


def _replication_controller(decoded: shapes.ReplicationController, _: WorkloadKind | None) -> dict[str, Any]:
    spec = decoded.spec or shapes.ReplicationControllerSpec()
    return _scaled(decoded, spec.template, _default_selector(spec.selector or {}), _status(decoded.status))


def _cron_job(decoded: shapes.CronJob, _: WorkloadKind | None) -> dict[str, Any]:
    spec = decoded.spec or shapes.CronJobSpec()
    job = spec.job_template.spec if spec.job_template is not None else None
    return {
        "switch": Switch(CRON_JOB, spec.suspend),
        "starting_deadline": spec.starting_deadline_seconds,
        "template_labels": _template_labels(job.template if job is not None else None),
    }


def _scaled_object(decoded: shapes.ScaledObject, _: WorkloadKind | None) -> dict[str, Any]:
    target = decoded.spec.scale_target_ref
    return {"scale_target": (target.kind or "Deployment", target.name)}


def _custom(decoded: shapes.Custom, scale: WorkloadKind | None) -> dict[str, Any]:
    """What is called as in the built-in kinds is read like there, where it also looks like there."""
    if scale is not None and scale.is_switch:
        return _switched(decoded, scale)
    spec, status = decoded.spec or {}, decoded.status or {}
    conditions = if_shaped(shapes.ConditionsStatus, status)
    paths = scale or WorkloadKind("", "", "", "")
    known = BY_KIND.get(paths.kind, paths)
    is_like_deployment = known.pods == "ReplicaSets" and known.group == paths.group  # whatever its definition says
    observed = number_at(status, ("observedGeneration",))
    absent = None if observed is None else 0  # servers leave a 0 out

    def count(field: str) -> int | None:
        has_it = is_like_deployment or field in paths.status_counts
        return count_at(status, (field,), absent if has_it else None)

    replicas = count_at({"status": status}, paths.status_path, absent if is_like_deployment else None)
    if is_like_deployment:  # that of /scale of a blue-green Rollout counts those with traffic
        replicas = count_at(status, ("replicas",), replicas)
    return {
        "replicas": count_at({"spec": spec}, paths.replicas_path),
        "no_place": _no_place({} if decoded.spec is None else {"spec": spec}, paths.replicas_path),
        "status_replicas": replicas,
        "ready_replicas": count("readyReplicas"),
        "available_replicas": count("availableReplicas"),
        "updated_replicas": count("updatedReplicas"),
        "observed_generation": observed,
        "partition": _partition({"spec": spec}, count_at({"spec": spec}, paths.replicas_path, 1)),
        "conditions": _conditions(conditions.conditions if conditions is not None else None),
        "selector": decoded_selector(custom_selector(spec)),
        "template_labels": _template_labels(if_shaped(shapes.CustomTemplate, spec.get("template"))),
        "requests": _pod_requests(if_shaped(shapes.PodTemplate, spec.get("template"))),
    }


EVERY = "*"
"""In a path: each entry of a mapping or a list."""
_UPDATE_TYPE = ("spec", "updateStrategy", "type")
_PARTITIONS = (
    ("spec", "updateStrategy", "partition"),
    ("spec", "updateStrategy", "rollingUpdate", "partition"),
    ("spec", "rolloutStrategy", "rollingUpdateConfiguration", "partition"),
)
_WHOLE = 100


def paths_read(kind: WorkloadKind) -> Iterator[tuple[str, ...]]:
    """Yield where everything stands that is read of the spec and the status of a custom resource, but for what looks
    as in the built-in kinds: its selector and its template.
    """
    yield from (("status", "conditions", EVERY, field.encode_name) for field in fields(shapes.StatusCondition))
    yield from (("status", "observedGeneration"), kind.replicas_path)
    if kind.is_switch:
        ready = kind.ready or Ready()
        yield from (kind.instead, ready.path, ready.same_as)
        if kind.in_map:
            yield (*kind.replicas_path[:-1], EVERY)
        return
    yield from (("status", count) for count in ("replicas", *STATUS_COUNTS))
    yield from (kind.status_path, _UPDATE_TYPE, *_PARTITIONS)


def _partition(value: Mapping[str, Any], replicas: int | None) -> int | None:
    """Return how many pods keep their template, as StatefulSets, the kinds of OpenKruise and LeaderWorkerSets say it;
    None: all do. Of less than 100 % at least one does not.

    Source: openkruise/kruise apis/apps/v1alpha1 cloneset_types.go, CloneSetUpdateStrategy; statefulset_types.go;
    kubernetes-sigs/lws api/leaderworkerset/v1 leaderworkerset_types.go, RollingUpdateConfiguration.
    """
    if value_below(value, _UPDATE_TYPE) == "OnDelete":
        return None
    found = next(filter(None, (value_below(value, path) for path in _PARTITIONS)), 0)
    if isinstance(found, str) and found.endswith("%"):
        share = count_at(found[:-1], ()) or 0
        kept = -(-(replicas or 0) * share // 100)
        return kept if share >= _WHOLE else max(0, min(kept, (replicas or 0) - 1))
    return count_at(found, (), 0)


def _switched(decoded: shapes.Custom, kind: WorkloadKind) -> dict[str, Any]:
    """Return what is read of what has a switch. Its pods are not counted: it is ready, or it is not."""
    value = _switch_tree(decoded)
    *parents, key = kind.replicas_path
    holder = value_below(value, parents)
    found = holder.get(key) if isinstance(holder, Mapping) else None
    is_null = isinstance(holder, Mapping) and key in holder and found is None
    strange = is_null or not isinstance(found, bool | int | str | None)
    is_alike = found == kind.off and not same_scalar(found, kind.off)  # false for 0: nobody knows whether it is off
    strange |= is_alike
    other = value_below(value, kind.instead) if kind.instead else None
    missing = "" if kind.in_map and holder is None else _missing_parent(value, kind.replicas_path, "switch")
    beyond = _missing_parent(value, parents, "switch") if kind.in_map and parents[0] == "spec" else ""
    expected = f"{json_words(kind.off)} where it is off" if is_alike else "a text, a whole number, true or false"
    problem = _unexpected(kind.replicas_path, found, expected) if strange else missing or beyond
    observed = number_at(decoded.status, ("observedGeneration",))
    is_behind = observed is not None and observed < (decoded.metadata.generation or 0)  # its conditions are of before
    if other:
        problem = _unexpected(kind.instead, other, f"{'.'.join(kind.replicas_path)} in its place")
    return {
        "switch": Switch(
            kind,
            None if strange else found,
            has_map=holder is not None,
            alone=kind.in_map and isinstance(holder, Mapping) and holder.keys() == {key},
            finished=any(_is_ready(value, Ready(type=condition)) for condition in kind.finished),
            is_known=not strange and not other,
        ),
        "no_place": problem,
        "ready_replicas": None
        if kind.ready is None or not decoded.status
        else int(_is_ready(value, kind.ready) and not (kind.ready.type and is_behind)),
    }


def _switch_tree(decoded: shapes.Custom) -> dict[str, Any]:
    """Return the parts of a custom resource in which switches stand, and what shows that it runs."""
    metadata = {} if decoded.metadata.annotations is None else {"annotations": decoded.metadata.annotations}
    spec = {} if decoded.spec is None else {"spec": decoded.spec}
    return {"metadata": metadata, **spec, "status": decoded.status or {}}


def _is_ready(value: Any, ready: Ready) -> bool:
    """Return whether an object shows what `ready` says."""
    if ready.path:
        expected = value_below(value, ready.same_as) if ready.same_as else ready.value
        return same_scalar(value_below(value, ready.path), expected)
    conditions = value["status"].get("conditions")
    return any(
        isinstance(condition, Mapping)
        and (condition.get("type"), condition.get("status")) == (ready.type, ready.status)
        for condition in (conditions if isinstance(conditions, list) else ())
    )


def _no_place(value: Any, path: Sequence[str]) -> str:
    """Return why no replicas can be written at `path`, "" where they can: what no int32 holds is none."""
    number = number_at(value, path)
    if number is not None and count_at(value, path) is None:
        return _unexpected(path, number, f"a number from 0 to {MOST_REPLICAS}")
    return _missing_parent(value, path, "replicas")


def _missing_parent(value: Any, path: Sequence[str], what: str) -> str:
    """Return which is the first map on the way to `path` that is not there, "" where all are."""
    for depth, key in enumerate(path[:-1], start=1):
        value = value.get(key)
        if value is None:
            return f"it has no {'.'.join(path[:depth])}, where its {what} would stand"
        if not isinstance(value, Mapping):
            return _unexpected(path[:depth], value, f"a mapping with its {what}")
    return ""


def _unexpected(path: Sequence[str], value: Any, expected: str) -> str:
    return f"{'.'.join(path)} is {json_words(value)}, expected {expected}"


def custom_selector(spec: Mapping[str, Any]) -> shapes.LabelSelector | None:
    """Return the selector in the spec of a custom resource, None where it is not written as in the built-in kinds."""
    value = spec.get("selector")
    looks_alike = isinstance(value, dict) and ("matchLabels" in value or "matchExpressions" in value)
    return if_shaped(shapes.LabelSelector, value) if looks_alike else None


def if_shaped(shape: type[W], value: Any) -> W | None:
    """Return `value` as a `shape`, None where it is of another."""
    try:
        return decoded_value(shape, value)
    except msgspec.ValidationError:
        return None


def count_at(value: Any, path: Sequence[str], absent: int | None = None) -> int | None:
    """Return the number of replicas at `path` of `value`, an int32; `absent` where there is none."""
    found = number_at(value, path)
    return found if found is not None and 0 <= found <= MOST_REPLICAS else absent


def number_at(value: Any, path: Sequence[str]) -> int | None:
    """Return the whole number at `path` of `value`, None where there is none.

    Argo Rollouts writes its observedGeneration as a text.
    """
    value = value_below(value, path)
    if isinstance(value, str) and value.isdecimal() and len(value) <= _LONGEST_COUNT:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _conditions(conditions: Iterable[shapes.StatusCondition] | None) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            condition.type,
            condition.status,
            condition.reason or "",
            condition.message or "",
            datetime_of(condition.last_transition_time),
        )
        for condition in conditions or ()
    )


def _owner(metadata: Metadata) -> OwnerReference | None:
    owner = controller_of(metadata)
    if owner is None:
        return None
    return OwnerReference(owner.api_version or "", owner.kind or "", owner.name or "", owner.uid or "")


def decoded_selector(selector: shapes.LabelSelector | None) -> LabelSelector | None:
    """Return the label selector in the order of its keys, None where there is none."""
    if selector is None:
        return None
    return LabelSelector(
        match_labels=tuple(sorted((selector.match_labels or {}).items())),
        match_expressions=tuple(
            LabelRequirement(requirement.key, requirement.operator, tuple(requirement.values or ()))
            for requirement in selector.match_expressions or ()
        ),
    )


def writer_of(entries: Sequence[ManagedFields | CustomManagedFields], *paths: tuple[str, ...]) -> FieldWriter | None:
    """Return the manager that owns a field at one of `paths`, None where nobody is recorded.

    Several own them when they applied the same value, or not the same field: the one that wrote last counts. The time
    is that of the manager's last write to anything, so an upper bound; entries written through /scale have none.

    Source: structured-merge-diff fieldpath; apimachinery meta/v1 ManagedFieldsEntry; seed idling-and-unidling.md,
    scale-reason.
    """
    owners = [entry for entry in entries if any(path and _owns(entry.fields_v1, path) for path in paths)]
    if not owners:
        return None
    last = owners[0]
    if len(owners) > 1:
        last = max(owners, key=lambda entry: (_BEFORE_ALL if entry.time is None else entry.time, entry.manager or ""))
    at = None if last.time is None else last.time.as_datetime()
    return FieldWriter(last.manager or "", at, last.subresource or "")


def _owns(fields: FieldsV1 | Mapping[str, Any] | None, path: tuple[str, ...]) -> bool:
    if isinstance(fields, FieldsV1):
        return fields.owns(path)
    return value_below(fields, [f"f:{key}" for key in path]) is not None


_SPECIFIC: dict[type[Wire], Callable[[Any, WorkloadKind | None], dict[str, Any]]] = {
    shapes.AppsWorkload: _apps,
    shapes.ReplicaSet: _replica_set,
    shapes.ReplicationController: _replication_controller,
    shapes.CronJob: _cron_job,
    shapes.ScaledObject: _scaled_object,
    shapes.Custom: _custom,
}
