"""FederatedReplicaSet: how many replicas run in which cluster."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from reconciler.connection_settings import PodPicker
from reconciler.messages import Path, shown
from reconciler.model import NOTHING
from reconciler.policy.globs import matches_any
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import (
    Annotations,
    ApiVersion,
    ClusterOrAll,
    Duration,
    Fields,
    Kind,
    Labels,
    Name,
    NamespaceName,
    ObjectName,
    OwnDocument,
    Replicas,
    ReplicasLimits,
    Text,
    expected,
    from_fields,
    given,
)
from reconciler.policy.kinds.pod_picker import PodPickerFields, check_pickable, pod_picker_of
from reconciler.policy.kinds.selector import LabelSelectorFields, kind_fault, label_selector
from reconciler.untrusted_text import LARGEST
from reconciler.workload_kinds import workload_kind

_BOOKKEEPING = (
    "reconciler/",
    "idling.kubernetes.io/",
    "federation.kubernetes.io/",
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
)
"""Starts of annotations that must not be copied: a copy of them would be taken for the object they are about."""


class ClusterPreference(Fields, frozen=True):
    """The replicas that a cluster may have."""

    min_replicas: Replicas = 0
    """minReplicas is the least number of replicas."""
    max_replicas: Replicas | None = None
    """maxReplicas is the greatest number of replicas."""
    weight: Annotated[int, Meta(ge=0, le=LARGEST)] = 0
    """weight is the part of the remaining replicas that the cluster gets, relative to the weights of the other
    clusters."""


class Preferences(Fields, frozen=True, kw_only=True):
    """How replicas are spread over the clusters."""

    rebalance: bool = False
    """rebalance allows running replicas to be moved to come closer to the preferences."""
    clusters: Annotated[
        dict[ClusterOrAll, ClusterPreference],
        Meta(min_length=1, extra_json_schema=expected('at least one cluster, or "*"')),
    ] = field(default_factory=lambda: {"*": ClusterPreference(weight=1)})
    """clusters are the preferences by the name of the cluster. "*" stands for every cluster that is not listed. Without
    "*" those clusters get no replicas."""


class _PodMetadataFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Labels and annotations of pods."""

    labels: Labels | UnsetType = UNSET
    """labels are the labels of the pods. The selector must match them."""
    annotations: Annotations | UnsetType = UNSET
    """annotations are the annotations of the pods."""


class _ContainerFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A container. All fields of Kubernetes are allowed."""

    name: Text
    """name is the name of the container."""


class _PodSpecFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A pod. All fields of Kubernetes are allowed."""

    containers: Annotated[tuple[_ContainerFields, ...], Meta(min_length=1)]
    """containers lists containers."""


class PodTemplateFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A pod template as in a ReplicaSet."""

    metadata: _PodMetadataFields | UnsetType = UNSET
    """metadata holds the labels and annotations of the pods."""
    spec: _PodSpecFields
    """spec is the pod. All fields of Kubernetes are allowed."""


class TargetRef(Fields, frozen=True):
    """A reference to workloads that something else creates."""

    api_version: ApiVersion
    """apiVersion is the apiVersion of the workload."""
    kind: Kind
    """kind is the kind of the workload."""
    name: ObjectName
    """name is the name of the workload. Its namespace is that of the policy."""


REPLICAS = Meta(description="replicas is the number of replicas in all clusters together.")
MIN_READY_SECONDS = Meta(
    description="minReadySeconds is how long a new pod must be ready before it is available, in seconds."
)
NAMESPACE = Meta(description="namespace is the namespace of the local workloads.")
POD_PICKER = Meta(
    description="downscalePodPicker is asked which pods to delete when a local workload is scaled down. If it is "
    "not set, the controller chooses the pods."
)


class FederatedReplicaSetSpec(Fields, frozen=True, kw_only=True):
    """The replicas of a FederatedReplicaSet, and their clusters."""

    replicas: Annotated[Replicas, REPLICAS]
    min_ready_seconds: Annotated[Replicas, MIN_READY_SECONDS] = 0
    preferences: Preferences = Preferences()
    """preferences states how the replicas are spread over the clusters."""
    production: bool = False
    """production is true if "*" stands for clusters where it is production too, and if targetRef may take running
    replicas away there. Without it, such clusters keep what they run."""
    rounding: Literal["Fair", "KubeFed"] = "Fair"
    """rounding is how shares become whole numbers: Fair, or KubeFed, which rounds like the planner of KubeFed."""
    paused: bool = False
    """paused stops all changes. Only the status is updated."""
    unschedulable_after: Duration = Duration(minutes=5)
    """unschedulableAfter is how long a pod may be pending before it counts as unschedulable."""
    waiting_replicas: Replicas = 2
    """waitingReplicas is the number of unschedulable replicas that stay in a full cluster, to find out when it has
    capacity again."""
    cluster_grace_period: Duration = Duration(minutes=10)
    """clusterGracePeriod is how long a cluster may not answer before its replicas are created in other clusters."""
    progress_deadline: Duration = Duration(minutes=10)
    """progressDeadline is how long a move waits until its new replicas are available."""
    on_conflict: Literal["Overwrite", "Abort"] = "Overwrite"
    """onConflict is what happens if a ReplicaSet with this name exists that the reconciler does not manage: Overwrite,
    or Abort."""
    on_delete: Literal["Orphan", "Delete"] = "Orphan"
    """onDelete is what happens to the local ReplicaSets when the policy is removed: Orphan keeps them, Delete deletes
    them."""
    selector: LabelSelectorFields | UnsetType = UNSET
    """selector selects the pods, as in a ReplicaSet. Required if targetRef is not set."""
    template: PodTemplateFields | UnsetType = UNSET
    """template is the pod template of a ReplicaSet, with all fields of Kubernetes. Required if targetRef is not set."""
    target: TargetRef | UnsetType = field(name="targetRef", default=UNSET)
    """targetRef refers to workloads that something else creates. Only their replicas are changed."""
    pod_picker: Annotated[PodPickerFields | UnsetType, POD_PICKER] = field(name="downscalePodPicker", default=UNSET)
    limits: ReplicasLimits = ReplicasLimits()
    """limits is the limit of this policy, in all clusters together. Moves, drains and fewer replicas count. It applies
    instead of limits.default of the Fleet."""

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": ["targetRef"], "properties": {"selector": False, "template": False}},
            {"required": ["selector", "template"], "properties": {"targetRef": False}},
        ],
        "x-expected": 'either "targetRef", or "selector" and "template"',
    }


class FederatedMetadataFields(Fields, frozen=True, kw_only=True):
    """The name of a FederatedReplicaSet, and what its local ReplicaSets get."""

    name: Name
    """name is the name of the local ReplicaSets too."""
    namespace: Annotated[NamespaceName, NAMESPACE] = "default"
    labels: Labels = field(default_factory=dict)
    """labels are set on the local ReplicaSets that are created from the template."""
    annotations: Annotations = field(default_factory=dict)
    """annotations are set on the local ReplicaSets that are created from the template. Those of kubectl, Argo CD, Flux,
    Helm and the reconciler are not."""


class FederatedReplicaSetDocument(OwnDocument[Literal["FederatedReplicaSet"]], frozen=True, kw_only=True):
    """A FederatedReplicaSet states how many replicas of a workload run in which cluster."""

    metadata: FederatedMetadataFields  # type: ignore[assignment]
    """metadata names the policy and its ReplicaSets."""
    spec: FederatedReplicaSetSpec
    """spec states how many replicas run where."""


class FederatedReplicaSet(FederatedReplicaSetSpec, frozen=True, kw_only=True):
    """A FederatedReplicaSet as it is decided by: all that its spec states. `selector` and `template` are parts of
    manifests as they are written, both None when `target` is set.
    """

    name: str
    namespace: str
    place: Place
    limits_place: Place | None = None  # None: its kind states none
    selector: Mapping[str, Any] | None = None  # type: ignore[assignment]
    template: Mapping[str, Any] | None = None  # type: ignore[assignment]
    target: TargetRef | None = None  # type: ignore[assignment]
    pod_picker: PodPicker | None = None  # type: ignore[assignment]
    labels: Mapping[str, str] = NOTHING  # kept on the local ReplicaSets
    annotations: Mapping[str, str] = NOTHING  # the same; those of other tools' bookkeeping and our own are left out
    digest: str = ""  # first 12 hex digits of the SHA-256 of the validated document
    tenant: str = ""  # whose it is, "" for the platform's; namespace and name are unique without it
    within: tuple[str, ...] = ()  # globs of the clusters of the tenant: elsewhere it does not exist; () is no bound
    unnamed: tuple[str, ...] = ()  # clusters of its tenant that have a preference only by "*"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def rebalance(self) -> bool:
        return self.preferences.rebalance

    @property
    def clusters(self) -> Mapping[str, ClusterPreference]:
        """What each cluster may have, never empty; "*" is the default entry."""
        return self.preferences.clusters

    def is_on(self, cluster: str) -> bool:
        """Return whether it says anything of `cluster`: with a target, only of those that its preferences name."""
        if self.target is not None and self.preference(cluster) is None:
            return False
        return self.is_within(cluster)

    def is_within(self, cluster: str) -> bool:
        """Return whether its tenant has `cluster`."""
        return not self.within or matches_any(cluster, self.within)

    def is_named(self, cluster: str) -> bool:
        """Return whether its preferences name `cluster` itself, not only by "*"."""
        return cluster in self.clusters and cluster not in self.unnamed

    def preference(self, cluster: str) -> ClusterPreference | None:
        """Return the preference for `cluster`: its own entry, else "*"; None where there is neither."""
        clusters = self.preferences.clusters
        own = clusters.get(cluster)
        return clusters.get("*") if own is None else own


def federated_replica_set_of(document: PolicyDocument, fields: FederatedReplicaSetDocument) -> FederatedReplicaSet:
    """Return the policy; its problems are gathered in `document`."""
    check_preferences(document, ("spec", "preferences", "clusters"), fields.spec.preferences)
    return policy_of(document, fields.metadata, fields.spec, document.source.value)


def policy_of(
    document: PolicyDocument, metadata: FederatedMetadataFields, spec: FederatedReplicaSetSpec, stated: Any
) -> FederatedReplicaSet:
    """Return the policy that either form of a federated ReplicaSet states; its problems are gathered in `document`.

    `stated` are the values of the document of which its digest is made, whatever their layout.
    """
    policy = from_fields(
        FederatedReplicaSet,
        spec,
        name=metadata.name,
        namespace=metadata.namespace or "default",
        place=document.place,
        limits_place=document.limits_place() if document.kind == "FederatedReplicaSet" else None,
        selector=document.get(("spec", "selector")),
        template=document.get(("spec", "template")),
        target=given(spec.target),
        labels=metadata.labels,
        annotations={key: text for key, text in metadata.annotations.items() if not key.startswith(_BOOKKEEPING)},
        pod_picker=pod_picker_of(document, ("spec", "downscalePodPicker"), spec.pod_picker),
        digest=hashlib.sha256(json.dumps(stated, sort_keys=True, default=str).encode()).hexdigest()[:12],
    )
    _check_form(document, policy, spec)
    if document.is_readable(("spec", "replicas")):
        _warn_of_bounds(document, policy)
    return policy


def _warn_of_bounds(document: PolicyDocument, policy: FederatedReplicaSet) -> None:
    least = sum(preference.min_replicas for preference in policy.clusters.values())
    bounds = [preference.max_replicas for preference in policy.clusters.values()]
    most = sum(bound for bound in bounds if bound is not None)
    if least > policy.replicas:
        words = f"fewer than all minReplicas together, {least}: not every cluster gets its minimum"
        document.warn(("spec", "replicas"), f"is {policy.replicas}, {words}")
    if most < policy.replicas and None not in bounds and "*" not in policy.clusters:
        words = f"more than all maxReplicas together, {most}: the rest runs nowhere"
        document.warn(("spec", "replicas"), f"is {policy.replicas}, {words}")


def check_preferences(document: PolicyDocument, path: Path, preferences: Preferences) -> None:
    """Add what is wrong, or probably a mistake, in what each cluster may have, to `document`, whose `path` has it."""
    stated = preferences.clusters
    for name, preference in stated.items():
        least, most = preference.min_replicas, preference.max_replicas
        if most is not None and most < least:
            words = f'is "{most}", expected at least minReplicas, which is "{least}"'
            document.add((*path, name, "maxReplicas"), words)
    if not any(one.weight or one.min_replicas for one in stated.values()) and document.is_readable(path):
        document.warn(path, "gives no cluster a weight or a minimum, so no replica will run anywhere")
    if "*" in stated and stated["*"].weight:
        for name in document.get(path) or ():
            if document.get((*path, name, "weight")) is None and document.is_readable((*path, name)):
                document.warn((*path, name), "has no weight beside a * that has one, so it holds its minimum only")


def _check_target(document: PolicyDocument, path: Path, kind: str) -> None:
    fault = kind_fault(kind)
    if not workload_kind(kind).counts:
        fault = "expected a kind whose replicas can be spread, like Deployment"
    if fault is not None:
        document.add(path, f"is {shown(kind)}, {fault}")


def _check_form(document: PolicyDocument, policy: FederatedReplicaSet, spec: FederatedReplicaSetSpec) -> None:
    own = [name for name in ("selector", "template") if document.get(("spec", name)) is not None]
    if policy.target is not None:
        _check_target(document, ("spec", "targetRef", "kind"), policy.target.kind)
        if policy.pod_picker is not None:
            check_pickable(document, ("spec", "targetRef", "kind"), policy.target.kind, "downscalePodPicker")
        for name in own[:1]:
            words = "is beside targetRef, expected either targetRef, or selector and template"
            document.add(("spec", name), words, key=True)
        return
    for name in ("selector", "template"):
        if name not in own:
            document.add(("spec", name), "is missing, expected selector and template, or targetRef")
    selector, template = given(spec.selector), given(spec.template)
    if selector is not None and template is not None:
        _check_template(document, selector, template)


def _check_template(document: PolicyDocument, fields: LabelSelectorFields, template: PodTemplateFields) -> None:
    selector = label_selector(document, ("spec", "selector"), fields)
    metadata = given(template.metadata)
    labels = (None if metadata is None else given(metadata.labels)) or {}
    if selector.empty:
        document.add(("spec", "selector"), "selects everything, expected labels of the template")
    elif not selector.matches(labels):
        document.add(
            ("spec", "template", "metadata", "labels"), "do not match spec.selector, expected labels that it selects"
        )
