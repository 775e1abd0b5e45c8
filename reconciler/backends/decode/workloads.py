"""Objects with a scale, on the wire.

Source: kubernetes/api apps/v1, core/v1, batch/v1 types.go; kedacore/keda apis/keda/v1alpha1 ScaledObject.
"""

from __future__ import annotations

from sys import intern
from typing import Any, Literal

from reconciler.backends.decode.instants import Instant
from reconciler.backends.decode.metadata import (
    Count,
    CustomMetadata,
    Labels,
    Name,
    ScalableMetadata,
    Wire,
    controller_of,
    shared,
    shared_text,
)


class Requirement(Wire):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class Selector(Wire):
    match_labels: Labels | None = None
    match_expressions: list[Requirement] | None = None

    def __post_init__(self) -> None:
        self.match_labels = shared(self.match_labels)


class TemplateMetadata(Wire):
    labels: Labels | None = None

    def __post_init__(self) -> None:
        self.labels = shared(self.labels)


class PodTemplate(Wire):
    metadata: TemplateMetadata | None = None


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


class CustomStatus(Wire):
    conditions: list[StatusCondition] | None = None


class WorkloadSpec(Wire):
    replicas: Count | None = None
    selector: Selector | None = None
    template: PodTemplate | None = None


class AppsWorkload(Wire):
    """Deployment and StatefulSet."""

    metadata: ScalableMetadata
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class WholeTemplate:
    """A pod template with everything in it, `raw` (None: nobody asks for it), and the part that is read, `read`."""

    __slots__ = ("raw", "read")

    def __init__(self, raw: dict[str, Any] | None, read: PodTemplate) -> None:
        self.raw = raw
        self.read = read


class ReplicaSetSpec(Wire):
    replicas: Count | None = None
    min_ready_seconds: Count | None = None
    selector: Selector | None = None
    template: WholeTemplate | None = None


class ReplicaSet(Wire):
    """One that a Deployment controls has no raw template: there are many, and only those we make are compared."""

    metadata: ScalableMetadata
    spec: ReplicaSetSpec | None = None
    status: WorkloadStatus | None = None

    def __post_init__(self) -> None:
        if self.spec is not None and self.spec.template is not None and controller_of(self.metadata) is not None:
            self.spec.template = WholeTemplate(None, self.spec.template.read)


class ReplicationControllerSpec(Wire):
    replicas: Count | None = None
    selector: Labels | None = None
    template: PodTemplate | None = None


class ReplicationController(Wire):
    metadata: ScalableMetadata
    spec: ReplicationControllerSpec | None = None
    status: WorkloadStatus | None = None


class JobSpec(Wire):
    template: PodTemplate | None = None


class JobTemplate(Wire):
    spec: JobSpec | None = None


class CronJobSpec(Wire):
    suspend: bool | None = None
    starting_deadline_seconds: int | None = None
    job_template: JobTemplate | None = None


class CronJob(Wire):
    metadata: ScalableMetadata
    spec: CronJobSpec | None = None


class ScaleTarget(Wire):
    name: Name
    kind: str | None = None


class ScaledObjectSpec(Wire):
    scale_target_ref: ScaleTarget


class ScaledObject(Wire):
    metadata: ScalableMetadata
    spec: ScaledObjectSpec


class Custom(Wire):
    """A custom resource with a scale: where its replicas are is in its CustomResourceDefinition."""

    metadata: CustomMetadata
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
