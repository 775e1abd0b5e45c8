"""Decoded objects -> the types of model.py, the values of Secrets, and the kinds with a scale that are defined."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar, cast

from reconciler import model
from reconciler.backends.decode import shapes
from reconciler.backends.decode.metadata import Metadata, Object, controller_of
from reconciler.backends.decode.shapes import SHAPES, CustomResourceDefinition, Subresources
from reconciler.backends.decode.values import Wire, datetime_of
from reconciler.backends.decode.workloads import STATUS_COUNTS, workload_of, writer_of
from reconciler.backends.protocols import BOUNDS, COST, Resource
from reconciler.errors import MalformedAnswerError, NotFoundError
from reconciler.model import (
    ACTIVATOR_MANAGER,
    ACTIVATOR_POD_LABEL,
    DELETION_COST,
    MANAGED_BY_LABEL,
    NEED_PODS,
    NOTHING,
    SERVICE_LABEL,
    ObjectRef,
)
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind

T = TypeVar("T")


def shape_of(resource: Resource[Any]) -> type[Wire]:
    """Return the struct that objects of `resource` decode to."""
    return SHAPES.get((resource.group, resource.kind), shapes.Custom)


def model_object(resource: Resource[T], decoded: Wire, cluster: str, scale: WorkloadKind | None = None) -> T:
    """Return `decoded`, an object of shape `shape_of(resource)`, as its type in model.py.

    `scale` says where a custom resource keeps its replicas; the built-in kinds need none.
    """
    metadata: Metadata = cast(Any, decoded).metadata
    ref = ObjectRef(cluster, metadata.namespace or "", resource.kind, metadata.name, resource.group)
    if resource.model_type is model.Workload:
        known = scale or SCALABLE_KINDS.get((resource.group, resource.kind))
        return cast(T, workload_of(ref, decoded, resource.api_version, known))
    return cast(T, _READERS[resource.model_type](ref, metadata, decoded))


def is_listed(decoded: Wire) -> bool:
    """Return whether a list of its kind shows this object: of Events only those with reason NeedPods are read."""
    return not isinstance(decoded, shapes.Event) or decoded.reason == NEED_PODS


def secret_value(secret: shapes.Secret | None, key: str, where: str) -> str:
    """Return one value as text, one trailing line break stripped; `where` names the Secret in errors.

    Raises:
        NotFoundError: no such Secret or key. MalformedAnswerError: the value is no base64 of a text.
    """
    if secret is None:
        raise NotFoundError(f"{where}: is not there, expected a Secret")
    if secret.string_data and key in secret.string_data:
        return secret.string_data[key].removesuffix("\n")
    if not secret.data or key not in secret.data:
        raise NotFoundError(f'{where}: has no key "{key}", expected it')
    try:
        return a2b_base64(secret.data[key], strict_mode=True).decode().removesuffix("\n")
    except ValueError as error:
        raise MalformedAnswerError(f'{where}: the value of "{key}" is no text in base64, expected one') from error


def _service(ref: ObjectRef, metadata: Metadata, decoded: shapes.Service) -> model.Service:
    spec = decoded.spec or shapes.ServiceSpec()
    return model.Service(
        ref=ref,
        uid=metadata.uid or "",
        labels=metadata.labels or NOTHING,
        annotations=metadata.annotations or NOTHING,
        selector=spec.selector or NOTHING,
        type=spec.type or "ClusterIP",
        created_at=datetime_of(metadata.creation_timestamp),
        has_annotations=metadata.annotations is not None,
        unheld=spec.unheld,
    )


def _endpoints(ref: ObjectRef, metadata: Metadata, decoded: shapes.Endpoints) -> model.Endpoints:
    return model.Endpoints(
        ref=ref,
        uid=metadata.uid or "",
        annotations=metadata.annotations or NOTHING,
        has_annotations=metadata.annotations is not None,
        pods=pods_named_in(decoded, ref.namespace),
    )


def _endpoint_slice(ref: ObjectRef, metadata: Metadata, decoded: shapes.EndpointSlice) -> model.EndpointSlice:
    labels = metadata.labels or NOTHING
    is_activators = labels.get(MANAGED_BY_LABEL) == ACTIVATOR_MANAGER
    return model.EndpointSlice(
        ref=ref,
        service=labels.get(SERVICE_LABEL, ""),
        pods=pods_named_in(decoded, ref.namespace),
        uid=metadata.uid or "",
        activator=labels.get(ACTIVATOR_POD_LABEL, "") if is_activators else "",
    )


def _lease(ref: ObjectRef, metadata: Metadata, decoded: shapes.Lease) -> model.Lease:
    return model.Lease(
        ref=ref,
        activator=(metadata.labels or NOTHING).get(ACTIVATOR_POD_LABEL, ""),
        renewed_at=None if decoded.spec is None else decoded.spec.renewed_at,
    )


def pods_named_in(decoded: Any, namespace: str) -> tuple[tuple[str, str], ...]:
    """Return (name, uid, "" for none) of the Pods that an EndpointSlice or Endpoints names; () for any other object.

    What is in another namespace is not behind a Service.
    """
    targets = (endpoint.target_ref for endpoint in _endpoints_in(decoded))
    return tuple(
        (target.name or "", target.uid or "")
        for target in targets
        if target is not None and target.kind == "Pod" and target.namespace in (None, "", namespace)
    )


def _endpoints_in(decoded: Any) -> Iterator[shapes.Endpoint]:
    if isinstance(decoded, shapes.EndpointSlice):
        yield from decoded.endpoints or ()
    elif isinstance(decoded, shapes.Endpoints):
        for subset in decoded.subsets or ():
            yield from chain(subset.addresses or (), subset.not_ready_addresses or ())


def _namespace(ref: ObjectRef, metadata: Metadata, _: Object) -> model.Namespace:
    """Return a Namespace with the label of its name, which the API server sets, and manifests in a snapshot lack.

    Source: kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Namespace.
    """
    labels = {**(metadata.labels or NOTHING), "kubernetes.io/metadata.name": ref.name}
    return model.Namespace(ref, metadata.uid or "", labels, metadata.annotations or NOTHING)


def _node(ref: ObjectRef, metadata: Metadata, _: Object) -> model.Node:
    return model.Node(ref, metadata.labels or NOTHING)


def _config_map(ref: ObjectRef, metadata: Metadata, decoded: shapes.ConfigMap) -> model.ConfigMap:
    return model.ConfigMap(
        ref=ref,
        uid=metadata.uid or "",
        data=decoded.data or NOTHING,
        binary_data=decoded.binary_data or NOTHING,
        labels=metadata.labels or NOTHING,
        annotations=metadata.annotations or NOTHING,
        has_annotations=metadata.annotations is not None,
    )


def _autoscaler(
    ref: ObjectRef, metadata: Metadata, decoded: shapes.HorizontalPodAutoscaler
) -> model.HorizontalPodAutoscaler:
    spec, behavior = decoded.spec, decoded.spec.behavior or NOTHING
    conditions = decoded.status.conditions if decoded.status is not None else None
    owner = controller_of(metadata)
    return model.HorizontalPodAutoscaler(
        ref=ref,
        uid=metadata.uid or "",
        target=(spec.scale_target_ref.kind or "", spec.scale_target_ref.name),
        maximum=spec.max_replicas,
        minimum=spec.min_replicas,
        annotations=metadata.annotations or NOTHING,
        scale_down_disabled=(behavior.get("scaleDown") or NOTHING).get("selectPolicy") == "Disabled",
        has_annotations=metadata.annotations is not None,
        bounds_writer=writer_of(decoded.metadata.managed_fields or (), *BOUNDS),
        minimum_writer=writer_of(decoded.metadata.managed_fields or (), BOUNDS[0]),
        labels=metadata.labels or NOTHING,
        behavior=behavior,
        scaled_to_zero=any(
            (condition.type, condition.status) == ("ScaledToZero", "True") for condition in conditions or ()
        ),
        may_be_zero=any(metric.type in ("Object", "External") for metric in spec.metrics or ()),
        made_by="" if owner is None else owner.kind or "",
    )


def _event(ref: ObjectRef, metadata: Metadata, decoded: shapes.Event) -> model.Event:
    times = (
        decoded.last_timestamp,
        decoded.deprecated_last_timestamp,
        decoded.series.last_observed_time if decoded.series is not None else None,
        decoded.event_time,
        decoded.first_timestamp,
    )
    latest = max((time for time in times if time is not None), default=metadata.creation_timestamp)
    return model.Event(
        reason=decoded.reason or "",
        namespace=ref.namespace,
        involved=_reference(decoded.involved_object or decoded.regarding, ref.namespace),
        related=_reference(decoded.related, ref.namespace),
        at=datetime_of(latest),
    )


def _reference(found: shapes.ObjectReference | None, namespace: str) -> tuple[str, str, str] | None:
    if found is None or not found.name:
        return None
    return (found.kind or "", found.namespace or namespace, found.name)


def _pod(ref: ObjectRef, metadata: Metadata, decoded: shapes.Pod) -> model.Pod:
    spec, status = decoded.spec or shapes.PodSpec(), decoded.status or shapes.PodStatus()
    conditions = {condition.type: condition for condition in reversed(status.conditions or ())}  # the first one counts
    ready, scheduled = conditions.get("Ready"), conditions.get("PodScheduled")
    is_ready = ready is not None and ready.status == "True"
    # Not "SchedulingGated": that one is queued, whatever room there is. Source: kubefed podanalyzer; KEP-3521.
    stuck = scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"
    owner = controller_of(metadata)
    cost = (metadata.annotations or NOTHING).get(DELETION_COST)
    writer = None if cost is None else writer_of(decoded.metadata.managed_fields or (), COST)
    return model.Pod(
        name=ref.name,
        uid=metadata.uid or "",
        node=spec.node_name or "",
        phase=status.phase or "",
        ready=is_ready,
        ready_since_ns=ready.last_transition_time if is_ready and ready is not None else None,
        created_ns=metadata.creation_timestamp,
        restarts=_most_restarts(status.container_statuses),
        sidecar_restarts=_sidecar_restarts(spec, status),
        deletion_cost=cost,
        cost_writer="" if writer is None else writer.manager,
        terminating=metadata.deletion_timestamp is not None,
        namespace=ref.namespace,
        cluster=ref.cluster,
        labels=metadata.labels or NOTHING,
        owner_uid=owner.uid or "" if owner is not None else "",
        owner_kind=owner.kind or "" if owner is not None else "",
        owner_name=owner.name or "" if owner is not None else "",
        unscheduled_since_ns=scheduled.last_transition_time if stuck and scheduled is not None else None,
        unschedulable=stuck,
        has_annotations=metadata.annotations is not None,
        has_labels=bool(metadata.labels),
    )


def _sidecar_restarts(spec: shapes.PodSpec, status: shapes.PodStatus) -> int:
    """A sidecar is an init container that always restarts. Source: KEP-753."""
    sidecars = {container.name for container in spec.init_containers or () if container.restart_policy == "Always"}
    return _most_restarts([status for status in status.init_container_statuses or () if status.name in sidecars])


def _most_restarts(statuses: Iterable[shapes.ContainerStatus] | None) -> int:
    return max((status.restart_count or 0 for status in statuses or ()), default=0)


_READERS: dict[type, Callable[[ObjectRef, Metadata, Any], Any]] = {
    model.Service: _service,
    model.Endpoints: _endpoints,
    model.EndpointSlice: _endpoint_slice,
    model.Namespace: _namespace,
    model.Node: _node,
    model.ConfigMap: _config_map,
    model.HorizontalPodAutoscaler: _autoscaler,
    model.Event: _event,
    model.Pod: _pod,
    model.Lease: _lease,
}


_VERSION = r"(?a)v(\d{1,18})(?:(alpha|beta)(\d{1,18}))?"
_STAGES = {"alpha": 0, "beta": 1, None: 2}


def scale_kind_of(definition: CustomResourceDefinition) -> WorkloadKind | None:
    """Return the kind with its paths of replicas and what its status counts, None where no served version has a scale.

    Of several versions with a scale the stored one counts, then the one the API server prefers (v2, v1, v1beta1, ...).

    Source: apiextensions/v1 types.go, CustomResourceSubresourceScale; apimachinery pkg/version,
    CompareKubeAwareVersionStrings.
    """
    spec = definition.spec
    scales = [(version, (version.subresources or Subresources()).scale) for version in spec.versions or ()]
    found = [(version, scale) for version, scale in scales if version.served is not False and scale is not None]
    if not found:
        return None
    version, scale = max(found, key=lambda pair: (pair[0].storage is True, _priority(pair[0].name)))
    schema = version.schema or shapes.CustomSchema()
    return WorkloadKind(
        group=spec.group,
        version=version.name,
        kind=spec.names.kind,
        plural=spec.names.plural,
        replicas_path=_path(scale.spec_replicas_path),
        status_path=_path(scale.status_replicas_path),
        status_counts=tuple(field for field in STATUS_COUNTS if field in schema.status_fields),
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.removeprefix(".").split("."))


def _priority(name: str) -> tuple[int, int, int, str]:
    found = re.fullmatch(_VERSION, name)
    if found is None:
        return (-1, 0, 0, name)
    major, stage, minor = found.groups()
    return (_STAGES[stage], int(major), int(minor or 0), name)
