"""The shapes of the objects that are read.

A shape is named as the API names its kind, as the type in model.py is that it becomes; they are `shapes.Pod` and `Pod`.

Source: kubernetes/api apps/v1, core/v1, batch/v1, autoscaling/v2, discovery/v1, events/v1, apiextensions/v1 types.go;
kedacore/keda apis/keda/v1alpha1 ScaledObject.
"""

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Literal

import msgspec

from reconciler.backends.decode.metadata import CustomMetadata, Object, OwnedMetadata, controller_of
from reconciler.backends.decode.values import (
    Count,
    Instant,
    NonEmptyText,
    StringMap,
    Wire,
    datetime_of,
    decoded_value,
    shared,
    shared_text,
)


class _Requirement(Wire):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: StringMap | None = None
    match_expressions: list[_Requirement] | None = None

    def __post_init__(self) -> None:
        self.match_labels = shared(self.match_labels)


class _TemplateMetadata(Wire):
    labels: StringMap | None = None

    def __post_init__(self) -> None:
        self.labels = shared(self.labels)


_Quantities = dict[str, str | int | float | None]


class _ContainerResources(Wire):
    requests: _Quantities | None = None
    limits: _Quantities | None = None


class _TemplateContainer(Wire):
    restart_policy: str | None = None
    resources: _ContainerResources | None = None


class _TemplateSpec(Wire):
    """What a pod requests. Nothing else of it is read: `env`, `args` and the like may hold secrets."""

    containers: list[_TemplateContainer] | None = None
    init_containers: list[_TemplateContainer] | None = None
    resources: _ContainerResources | None = None
    overhead: _Quantities | None = None

    @property
    def states_resources(self) -> bool:
        parts = (self, *(self.containers or ()), *(self.init_containers or ()))
        return bool(self.overhead) or any(part.resources is not None for part in parts)


class PodTemplate(Wire):
    metadata: _TemplateMetadata | None = None
    spec: _TemplateSpec | None = None

    def __post_init__(self) -> None:
        if self.spec is not None and not self.spec.states_resources:
            self.spec = None


class CustomTemplate(Wire):
    """That of a custom resource, which may hold anything but labels in a form of its own."""

    metadata: _TemplateMetadata | None = None


class StatusCondition(Wire):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: Instant | None = None

    def __post_init__(self) -> None:
        self.type, self.status = intern(self.type), intern(self.status)
        self.reason, self.message = shared_text(self.reason), shared_text(self.message)


class WorkloadStatus(Wire):
    replicas: Count | None = None
    ready_replicas: Count | None = None
    available_replicas: Count | None = None
    updated_replicas: Count | None = None
    observed_generation: int | None = None
    conditions: list[StatusCondition] | None = None


class ConditionsStatus(Wire):
    """Of the status of a custom resource or an autoscaler its conditions."""

    conditions: list[StatusCondition] | None = None


class RollingUpdate(Wire):
    partition: Count | None = None


class UpdateStrategy(Wire):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class ClaimRetention(Wire):
    when_scaled: str | None = None


class Ordinals(Wire):
    start: Count | None = None


class WorkloadSpec(Wire):
    replicas: Count | None = None
    selector: LabelSelector | None = None
    template: PodTemplate | None = None
    update_strategy: UpdateStrategy | None = None  # StatefulSet only, and so are those that follow
    ordinals: Ordinals | None = None
    volume_claim_templates: list[Wire] | None = None
    persistent_volume_claim_retention_policy: ClaimRetention | None = None


class AppsWorkload(Wire):
    """Deployment and StatefulSet."""

    metadata: OwnedMetadata
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class WholeTemplate:
    """A pod template with everything in it, `raw` (None: nobody asks for it), and the `part` that is read."""

    __slots__ = ("part", "raw")

    def __init__(self, raw: dict[str, Any] | None, part: PodTemplate) -> None:
        self.raw = raw
        self.part = part

    @staticmethod
    def read(value: Any) -> "WholeTemplate":
        """Raises ValueError, msgspec.ValidationError: `value` is no template."""
        if not isinstance(value, dict):
            raise ValueError("no WholeTemplate")
        return WholeTemplate(value, decoded_value(PodTemplate, value))


class ReplicaSetSpec(Wire):
    replicas: Count | None = None
    min_ready_seconds: Count | None = None
    selector: LabelSelector | None = None
    template: WholeTemplate | None = None


class ReplicaSet(Wire):
    """One that a Deployment controls has no raw template: there are many, and only those we make are compared."""

    metadata: OwnedMetadata
    spec: ReplicaSetSpec | None = None
    status: WorkloadStatus | None = None

    def __post_init__(self) -> None:
        if self.spec is not None and self.spec.template is not None and controller_of(self.metadata) is not None:
            self.spec.template = WholeTemplate(None, self.spec.template.part)


class ReplicationControllerSpec(Wire):
    replicas: Count | None = None
    selector: StringMap | None = None
    template: PodTemplate | None = None


class ReplicationController(Wire):
    metadata: OwnedMetadata
    spec: ReplicationControllerSpec | None = None
    status: WorkloadStatus | None = None


class _JobSpec(Wire):
    template: PodTemplate | None = None


class _JobTemplate(Wire):
    spec: _JobSpec | None = None


class CronJobSpec(Wire):
    suspend: bool | None = None
    starting_deadline_seconds: int | None = None
    job_template: _JobTemplate | None = None


class CronJob(Wire):
    metadata: OwnedMetadata
    spec: CronJobSpec | None = None


class _ScaleTarget(Wire):
    name: str  # "" on a ScaledObject is nobody's; KEDA until 2.19 lets it in
    kind: str | None = None


class _ScaledObjectSpec(Wire):
    scale_target_ref: _ScaleTarget


class ScaledObject(Wire):
    metadata: CustomMetadata  # whose annotation the scale is
    spec: _ScaledObjectSpec


class Custom(Wire):
    """A custom resource with a scale: where its replicas are is in its CustomResourceDefinition."""

    metadata: CustomMetadata
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class _MetricSpec(Wire):
    type: str | None = None


class _AutoscalerSpec(Wire):
    scale_target_ref: _ScaleTarget
    max_replicas: Count
    min_replicas: Count | None = None
    metrics: list[_MetricSpec] | None = None
    behavior: dict[str, dict[str, Any] | None] | None = None  # whole: what is changed in it is restored as it was


class HorizontalPodAutoscaler(Wire):
    metadata: CustomMetadata
    spec: _AutoscalerSpec
    status: ConditionsStatus | None = None


class ServicePort(Wire):
    protocol: str | None = None


class ServiceSpec(Wire):
    selector: StringMap | None = None
    type: str | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None
    ports: list[ServicePort] | None = None

    def __post_init__(self) -> None:
        self.selector = shared(self.selector)

    @property
    def unheld(self) -> str:
        """Return why no activator can hold the Service's connections, "" where one can."""
        if self.type == "ExternalName":
            return "its type is ExternalName, so clients do not pass the cluster's proxy"
        if self.cluster_ip == "None":
            return "it is headless, so clients look its pods up themselves"
        if self.internal_traffic_policy == "Local":
            return "internalTrafficPolicy is Local, so only pods of the client's own node are asked"
        if self.type in ("NodePort", "LoadBalancer") and self.external_traffic_policy == "Local":
            return "externalTrafficPolicy is Local, so only pods of the node that is asked answer"
        unknown = sorted({port.protocol or "TCP" for port in self.ports or ()} - {"TCP", "UDP"})
        return f"it has ports for {', '.join(unknown)}, and only TCP and UDP can be held" if unknown else ""


class Service(Object):
    spec: ServiceSpec | None = None


class ObjectReference(Wire):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class Endpoint(Wire):
    target_ref: ObjectReference | None = None


class _EndpointSubset(Wire):
    addresses: list[Endpoint] | None = None
    not_ready_addresses: list[Endpoint] | None = None


class Endpoints(Object):
    subsets: list[_EndpointSubset] | None = None


class EndpointSlice(Object):
    endpoints: list[Endpoint] | None = None


class _EventSeries(Wire):
    last_observed_time: Instant | None = None


class Event(Object):
    """Core and events.k8s.io: the latter calls the involved object `regarding`."""

    reason: str | None = None
    involved_object: ObjectReference | None = None
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    event_time: Instant | None = None
    first_timestamp: Instant | None = None
    last_timestamp: Instant | None = None
    deprecated_last_timestamp: Instant | None = None
    series: _EventSeries | None = None


class ConfigMap(Object):
    data: StringMap | None = None
    binary_data: StringMap | None = None


class LeaseSpec(Wire):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: Instant | None = None
    lease_transitions: int | None = None

    @property
    def renewed_at(self) -> datetime | None:
        return datetime_of(self.renew_time)


class Lease(Object):
    spec: LeaseSpec | None = None


class Secret(Object):
    data: StringMap | None = None
    string_data: StringMap | None = None


class _PodSpecContainer(Wire):
    name: str | None = None
    restart_policy: str | None = None


class PodSpec(Wire):
    node_name: str | None = None
    init_containers: list[_PodSpecContainer] | None = None


class ContainerStatus(Wire):
    name: str | None = None
    restart_count: int | None = None


class PodStatus(Wire):
    phase: str | None = None
    conditions: list[StatusCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Wire):
    metadata: OwnedMetadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class _ScaleSubresource(Wire):
    spec_replicas_path: str
    status_replicas_path: str


class Subresources(Wire):
    scale: _ScaleSubresource | None = None


class _StatusSchema(Wire):
    properties: dict[str, Any] | None = None


class _ObjectProperties(Wire):
    status: _StatusSchema | None = None


class _ObjectSchema(Wire):
    properties: _ObjectProperties | None = None


class CustomSchema(Wire):
    """Of the schema of a kind what its status has."""

    whole: _ObjectSchema | None = msgspec.field(default=None, name="openAPIV3Schema")

    @property
    def status_fields(self) -> Mapping[str, Any]:
        properties = (self.whole or _ObjectSchema()).properties or _ObjectProperties()
        return (properties.status or _StatusSchema()).properties or {}


class _CustomVersion(Wire):
    name: NonEmptyText
    served: bool | None = None
    storage: bool | None = None
    subresources: Subresources | None = None
    schema: CustomSchema | None = None


class _CustomNames(Wire):
    kind: NonEmptyText
    plural: NonEmptyText


class _CustomResourceDefinitionSpec(Wire):
    group: NonEmptyText
    names: _CustomNames
    scope: str | None = None
    versions: list[_CustomVersion] | None = None


class CustomResourceDefinition(Object):
    spec: _CustomResourceDefinitionSpec


SHAPES: dict[tuple[str, str], type[Wire]] = {
    ("apps", "Deployment"): AppsWorkload,
    ("apps", "StatefulSet"): AppsWorkload,
    ("apps", "ReplicaSet"): ReplicaSet,
    ("", "ReplicationController"): ReplicationController,
    ("batch", "CronJob"): CronJob,
    ("keda.sh", "ScaledObject"): ScaledObject,
    ("autoscaling", "HorizontalPodAutoscaler"): HorizontalPodAutoscaler,
    ("", "Service"): Service,
    ("", "Endpoints"): Endpoints,
    ("discovery.k8s.io", "EndpointSlice"): EndpointSlice,
    ("", "Namespace"): Object,
    ("", "Node"): Object,
    ("", "Event"): Event,
    ("", "ConfigMap"): ConfigMap,
    ("", "Secret"): Secret,
    ("", "Pod"): Pod,
    ("coordination.k8s.io", "Lease"): Lease,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): CustomResourceDefinition,
}
"""(group, kind) -> the shape of those objects. Kinds with a scale that are not here are `Custom`."""
