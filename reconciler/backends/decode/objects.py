"""The other objects that are read, on the wire.

Source: kubernetes/api core/v1, autoscaling/v2, discovery/v1, events/v1, apiextensions/v1 types.go.
"""

from __future__ import annotations

from reconciler.backends.decode.instants import Instant
from reconciler.backends.decode.metadata import Count, CustomMetadata, Labels, Name, Object, Wire
from reconciler.backends.decode.workloads import ScaleTarget, StatusCondition


class ScalingRules(Wire):
    select_policy: str | None = None


class ScalingBehavior(Wire):
    scale_down: ScalingRules | None = None


class AutoscalerSpec(Wire):
    scale_target_ref: ScaleTarget
    max_replicas: Count
    min_replicas: Count | None = None
    behavior: ScalingBehavior | None = None


class HorizontalPodAutoscaler(Wire):
    metadata: CustomMetadata
    spec: AutoscalerSpec


class ServiceSpec(Wire):
    selector: Labels | None = None
    type: str | None = None


class Service(Object):
    spec: ServiceSpec | None = None


class ObjectReference(Wire):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class Endpoint(Wire):
    target_ref: ObjectReference | None = None


class EndpointSubset(Wire):
    addresses: list[Endpoint] | None = None
    not_ready_addresses: list[Endpoint] | None = None


class Endpoints(Object):
    subsets: list[EndpointSubset] | None = None


class EndpointSlice(Object):
    endpoints: list[Endpoint] | None = None


class EventSeries(Wire):
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
    series: EventSeries | None = None


class ConfigMap(Object):
    data: Labels | None = None


class Secret(Object):
    data: Labels | None = None
    string_data: Labels | None = None


class PodSpecContainer(Wire):
    name: str | None = None
    restart_policy: str | None = None


class PodSpec(Wire):
    node_name: str | None = None
    init_containers: list[PodSpecContainer] | None = None


class ContainerStatus(Wire):
    name: str | None = None
    restart_count: int | None = None


class PodStatus(Wire):
    phase: str | None = None
    conditions: list[StatusCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Object):
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ScaleSubresource(Wire):
    spec_replicas_path: str
    status_replicas_path: str


class Subresources(Wire):
    scale: ScaleSubresource | None = None


class CustomVersion(Wire):
    name: Name
    served: bool | None = None
    storage: bool | None = None
    subresources: Subresources | None = None


class CustomNames(Wire):
    kind: Name
    plural: Name


class CustomResourceDefinitionSpec(Wire):
    """`version` and `subresources` at this level are those of apiextensions.k8s.io/v1beta1."""

    group: Name
    names: CustomNames
    scope: str | None = None
    versions: list[CustomVersion] | None = None
    version: str | None = None
    subresources: Subresources | None = None


class CustomResourceDefinition(Object):
    spec: CustomResourceDefinitionSpec
