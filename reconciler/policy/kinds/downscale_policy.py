"""DownscalePolicy: which pods are deleted first when a run scales a workload down, and to how many it is scaled."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from reconciler.connection_settings import PodPicker
from reconciler.messages import Path
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.federated_replica_set import NAMESPACE
from reconciler.policy.kinds.fields import (
    KIND,
    PRIORITY,
    Fields,
    LabelKey,
    Mode,
    Name,
    NamespaceName,
    OwnDocument,
    Query,
    Replicas,
    ReplicasLimits,
    Whole,
    either,
    from_fields,
    given,
)
from reconciler.policy.kinds.pod_picker import PodPickerFields, check_pickable, pod_picker_of
from reconciler.policy.kinds.selector import (
    NamespaceSelectorFields,
    Selector,
    WorkloadExclusionFields,
    WorkloadSelectorFields,
    WorkloadsOnlyFields,
    exclusions_of,
    selector_of,
)
from reconciler.untrusted_text import LARGEST


class DownscaleTarget(Fields, frozen=True):
    """A number of replicas, from query or replicas."""

    query: Query | UnsetType = UNSET
    """query is a PromQL query with a single value, which the Prometheus of the cluster answers. {{ cluster }} and {{
    policy }} are replaced by their values. A value that is negative or not finite is unknown. Required if replicas is
    not set."""
    replicas: Replicas | UnsetType = UNSET
    """replicas is a fixed number. Required if query is not set."""
    minimum: Replicas = field(name="min", default=0)
    """min is the least number of replicas, whatever the query returns."""
    maximum: Replicas | None = field(name="max", default=None)
    """max is the greatest number of replicas, whatever the query returns."""
    direction: Literal["Down", "Both"] = "Down"
    """direction is Down, or Both: the policy may also add replicas."""

    json_schema: ClassVar[dict[str, Any]] = either("query", "replicas")


class Logarithm(Fields, frozen=True):
    """How the ages of pods are compared."""

    base: Annotated[int, Meta(gt=1, le=LARGEST)] | Annotated[float, Meta(gt=1, le=LARGEST)] = 2
    """base is the base of the logarithm. The ReplicaSet controller uses 2."""


class ZoneBalanced(Fields, frozen=True):
    """What a zone is."""

    topology_key: LabelKey = "topology.kubernetes.io/zone"
    """topologyKey is the label of nodes whose values are the zones."""


class _DownscalePolicySpec(Fields, frozen=True, kw_only=True):
    """The selection and the order of a downscale."""

    mode: Mode = "Enforce"
    priority: Annotated[Whole, Meta(description=f"{PRIORITY} the workload is not changed.")] = 0
    selector: WorkloadsOnlyFields
    """selector selects the workloads of the policy."""
    production: bool = False
    """production is true if target may change what is production. Without it, production keeps its replicas; which pods
    are deleted first is decided there all the same."""
    exclude: tuple[WorkloadExclusionFields, ...] = ()
    """exclude lists what this policy does not select although selector does. Other policies may still select it."""
    target: DownscaleTarget | UnsetType = UNSET
    """target is the number of replicas that a workload should have. If it is not set, the policy only orders the pods
    when something else scales the workload down."""
    pod_picker: PodPickerFields | UnsetType = UNSET
    """podPicker is asked which pods to delete. It takes precedence over strategy."""
    strategy: Literal["Logarithmic", "NewestFirst", "ZoneBalanced"] = "Logarithmic"
    """strategy orders the pods. Logarithmic leaves the order to the controller and predicts it. NewestFirst keeps that
    order, but of pods that only their age tells apart the youngest are deleted first. ZoneBalanced keeps the numbers of
    pods of the zones within one of each other."""
    logarithm: Logarithm = Logarithm()
    """logarithm tells how ages are compared. With another base than that of the controller, the pods to delete are
    annotated before the workload is scaled."""
    zone_balanced: ZoneBalanced = ZoneBalanced()
    """zoneBalanced defines zones for the strategy ZoneBalanced."""
    on_foreign_cost: Literal["Skip", "Override"] = "Skip"
    """onForeignCost is what happens if pods have a deletion cost that something else set: Skip does not scale the
    workload down, Override replaces the cost. Costs that Karpenter set are always replaced, and restored."""
    settle_seconds: Annotated[int, Meta(ge=0, le=60)] | Annotated[float, Meta(ge=0, le=60)] = 2
    """settleSeconds is the time that the controller gets to observe the annotations of the pods before the workload is
    scaled."""
    verify_seconds: Annotated[int, Meta(ge=0, le=600)] | Annotated[float, Meta(ge=0, le=600)] = 30
    """verifySeconds is the time to wait until the pods are deleted."""
    limits: ReplicasLimits = ReplicasLimits()
    """limits is the limit of this policy, in all clusters together. It applies instead of limits.default of the Fleet.
    """


class DownscalePolicyDocument(OwnDocument[Literal["DownscalePolicy"]], frozen=True, kw_only=True):
    """A DownscalePolicy states which pods are deleted first when a run scales a workload down, and to how many."""

    spec: _DownscalePolicySpec
    """spec states what is scaled down, and in which order."""


class DownscalePolicy(_DownscalePolicySpec, frozen=True, kw_only=True):
    """A DownscalePolicy as it is decided by: all that its spec states, and what is made of selectors and pod picker."""

    name: str
    place: Place
    limits_place: Place | None = None  # None: its kind states none
    selector: Selector  # type: ignore[assignment]
    exclude: tuple[Selector, ...] = ()  # type: ignore[assignment]  # not selected where any of them matches
    target: DownscaleTarget | None = None  # type: ignore[assignment]
    pod_picker: PodPicker | None = None  # type: ignore[assignment]  # wins over `strategy`
    tenant: str = ""  # whose it is, "" for the platform's; `name` begins with it: "a/batch"

    @property
    def rank(self) -> tuple[int, bool]:
        """What it wins by, as for an IdlingPolicy."""
        return (self.priority, not self.tenant)


POD_PICKER: Path = ("spec", "podPicker")


def downscale_policy_of(document: PolicyDocument, fields: DownscalePolicyDocument) -> DownscalePolicy:
    """Return the policy; its problems are gathered in `document`."""
    return _policy_of(document, fields.metadata.name, fields.spec, POD_PICKER)


def _policy_of(document: PolicyDocument, name: str, spec: _DownscalePolicySpec, pod_picker: Path) -> DownscalePolicy:
    policy = from_fields(
        DownscalePolicy,
        spec,
        name=name,
        place=document.place,
        selector=selector_of(document, spec.selector),
        exclude=exclusions_of(document, spec.exclude),
        target=given(spec.target),
        pod_picker=pod_picker_of(document, pod_picker, spec.pod_picker),
        limits_place=document.limits_place() if pod_picker == POD_PICKER else None,
    )
    if policy.target is not None:
        _check_target(document, ("spec", "target"), policy.target)
    chooser = _chooser(policy)
    for position, kind in enumerate(spec.selector.workloads.kinds if chooser else ()):
        check_pickable(document, ("spec", "selector", "workloads", "kinds", position), kind, chooser)
    if policy.pod_picker is not None and policy.strategy != "Logarithmic":
        document.warn(("spec", "strategy"), "counts for nothing beside podPicker")
    return policy


def _chooser(policy: DownscalePolicy) -> str:
    """Return what of `policy` chooses other victims than the controller would, "" where nothing does."""
    if policy.pod_picker is not None:
        return "podPicker"
    if policy.strategy != "Logarithmic":
        return policy.strategy
    return "" if policy.logarithm.base == 2 else "logarithm.base"


def _check_target(document: PolicyDocument, path: Path, target: DownscaleTarget) -> None:
    query, replicas, least, most = given(target.query), given(target.replicas), target.minimum, target.maximum
    document.check_either(path, query=query, replicas=replicas)
    if most is not None and most < least:
        document.add((*path, "max"), f'is "{most}", expected at least min, which is "{least}"')
    if replicas is not None and replicas < least:
        document.add((*path, "replicas"), f'is "{replicas}", expected at least min, which is "{least}"')
    if replicas is not None and most is not None and replicas > most:
        document.add((*path, "replicas"), f'is "{replicas}", expected at most max, which is "{most}"')
    if query is not None:
        document.check_query((*path, "query"), query, ("cluster", "policy"))


# The seed's form of it: a plain Deployment whose spec says which pod picker is asked.


PICKER = ("spec", "downscalePodPicker")


class _DeploymentMetadataFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The name of a Deployment. All fields of Kubernetes are allowed."""

    name: Name
    """name is the name of the Deployment."""
    namespace: Annotated[NamespaceName, NAMESPACE] = "default"


class _DeploymentFields(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
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
    metadata: _DeploymentMetadataFields
    """metadata names the Deployment."""
    spec: _DeploymentFields
    """spec states which pod picker is asked."""
    status: Any = None
    """Set by the API server. It is ignored."""


def name_of_deployment(namespace: str, name: str) -> str:
    """Return what the policy of a Deployment is called; a DownscalePolicy may have that name, too."""
    return f"deployment.{namespace}.{name}"


def deployment_of(document: PolicyDocument, fields: DeploymentDocument) -> DownscalePolicy:
    """Return the policy; `document` gets the spec of a DownscalePolicy.

    Source: seed downscale-pod-picker.md, "K8S API Changes": DeploymentSpec has the field as ReplicaSetSpec has.
    """
    metadata = fields.metadata
    spec = _DownscalePolicySpec(
        selector=WorkloadsOnlyFields(
            namespaces=NamespaceSelectorFields(include=(metadata.namespace,)),
            workloads=WorkloadSelectorFields(include=(metadata.name,), kinds=("Deployment",)),
        ),
        pod_picker=fields.spec.downscale_pod_picker,
    )
    document.spec = spec
    return _policy_of(document, name_of_deployment(metadata.namespace, metadata.name), spec, PICKER)
