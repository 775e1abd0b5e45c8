"""The seed's form of a DownscalePolicy: a plain Deployment whose spec says which pod picker is asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.downscale_policy import (
    DownscalePolicy,
    DownscalePolicyDocument,
    DownscalePolicySpec,
    downscale_policy_of,
)
from reconciler.policy.kinds.federated_replica_set import NAMESPACE
from reconciler.policy.kinds.fields import KIND, Fields, MetadataFields, Name, NamespaceName
from reconciler.policy.kinds.pod_picker import PodPickerFields
from reconciler.policy.kinds.selector import NamespaceSelectorFields, WorkloadSelectorFields, WorkloadsOnlyFields

PICKER = ("spec", "downscalePodPicker")


class DeploymentMetadataFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The name of a Deployment. All fields of Kubernetes are allowed."""

    name: Name
    """name is the name of the Deployment."""
    namespace: Annotated[NamespaceName, NAMESPACE] = "default"


class DeploymentFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The spec of a Deployment. All fields of Kubernetes are allowed; the reconciler does not read them."""

    downscale_pod_picker: PodPickerFields
    """downscalePodPicker is asked which pods to delete when a run scales the Deployment down."""


class DeploymentDocument(Fields, frozen=True, kw_only=True):
    """A Deployment with a pod picker is another form of a DownscalePolicy, for the Deployment of that name on every
    cluster.

    Its replicas are not read: it says which pods are deleted first, not how many run.
    """

    api_version: Literal["apps/v1"]
    """apiVersion is that of a Deployment."""
    kind: Annotated[Literal["Deployment"], KIND]
    metadata: DeploymentMetadataFields
    """metadata names the Deployment."""
    spec: DeploymentFields
    """spec states which pod picker is asked."""
    status: Any = None
    """Set by the API server. It is ignored."""


def deployment_of(document: PolicyDocument, fields: DeploymentDocument) -> DownscalePolicy:
    """Return the policy, called `deployment.NAMESPACE.NAME`; `document` gets the spec of a DownscalePolicy.

    Source: seed downscale-pod-picker.md, "K8S API Changes": DeploymentSpec has the field as ReplicaSetSpec has.
    """
    metadata = fields.metadata
    spec = DownscalePolicySpec(
        selector=WorkloadsOnlyFields(
            namespaces=NamespaceSelectorFields(include=(metadata.namespace,)),
            workloads=WorkloadSelectorFields(include=(metadata.name,), kinds=("Deployment",)),
        ),
        pod_picker=fields.spec.downscale_pod_picker,
    )
    named = MetadataFields(name=f"deployment.{metadata.namespace}.{metadata.name}")
    policy = DownscalePolicyDocument(
        api_version="reconciler/v1alpha1", kind="DownscalePolicy", metadata=named, spec=spec
    )
    document.spec = spec
    return downscale_policy_of(document, policy, PICKER)
