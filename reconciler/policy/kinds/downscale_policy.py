"""DownscalePolicy: which pods are deleted first when a run scales a workload down, and to how many it is scaled."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from reconciler.connection_settings import PodPicker
from reconciler.messages import Path
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import (
    KIND,
    ApiVersionField,
    Fields,
    LabelKey,
    MetadataField,
    Query,
    Replicas,
    ReplicasLimits,
    Whole,
    from_fields,
    given,
)
from reconciler.policy.kinds.pod_picker import PodPickerFields, check_pickable, pod_picker_of
from reconciler.policy.kinds.selector import (
    Selector,
    WorkloadExclusionFields,
    WorkloadsOnlyFields,
    exclusions_of,
    selector_of,
)
from reconciler.untrusted_text import LARGEST

MODE = Meta(
    description="mode is Enforce, or Observe. Changes of a policy in mode Observe are planned and reported, but never "
    "applied."
)
PRIORITY = (
    "priority decides which of two policies applies to a workload that both select: the one with the higher priority. "
    "If both are equal,"
)


class DownscaleTarget(Fields, frozen=True):
    """A number of replicas, from query or replicas."""

    query: Annotated[
        Query | UnsetType,
        Meta(
            description="query is a PromQL query with a single value, which the Prometheus of the cluster answers. "
            "{{ cluster }} and {{ policy }} are replaced by their values. A value that is negative or not finite is "
            "unknown. Required if replicas is not set."
        ),
    ] = UNSET
    replicas: Annotated[
        Replicas | UnsetType, Meta(description="replicas is a fixed number. Required if query is not set.")
    ] = UNSET
    minimum: Annotated[
        Replicas, Meta(description="min is the least number of replicas, whatever the query returns.")
    ] = field(name="min", default=0)
    maximum: Annotated[
        Replicas | None,
        Meta(description="max is the greatest number of replicas, whatever the query returns. null means no maximum."),
    ] = field(name="max", default=None)
    direction: Annotated[
        Literal["Down", "Both"],
        Meta(description="direction is Down, or Both: the policy may also add replicas."),
    ] = "Down"

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [{"required": ["query"]}, {"required": ["replicas"]}],
        "x-expected": 'either "query" or "replicas"',
    }


class Logarithm(Fields, frozen=True):
    """How the ages of pods are compared."""

    base: Annotated[
        Annotated[int, Meta(gt=1, le=LARGEST)] | Annotated[float, Meta(gt=1, le=LARGEST)],
        Meta(description="base is the base of the logarithm. The ReplicaSet controller uses 2."),
    ] = 2


class ZoneBalanced(Fields, frozen=True):
    """What a zone is."""

    topology_key: Annotated[
        LabelKey, Meta(description="topologyKey is the label of nodes whose values are the zones.")
    ] = "topology.kubernetes.io/zone"


class DownscalePolicySpec(Fields, frozen=True, kw_only=True):
    """The selection and the order of a downscale."""

    mode: Annotated[Literal["Enforce", "Observe"], MODE] = "Enforce"
    priority: Annotated[Whole, Meta(description=f"{PRIORITY} the workload is not changed.")] = 0
    selector: Annotated[WorkloadsOnlyFields, Meta(description="selector selects the workloads of the policy.")]
    production: Annotated[
        bool,
        Meta(
            description="production is true if target may change what is production. Without it, production keeps "
            "its replicas; which pods are deleted first is decided there all the same."
        ),
    ] = False
    exclude: Annotated[
        tuple[WorkloadExclusionFields, ...],
        Meta(
            description="exclude lists what this policy does not select although selector does. Other policies may "
            "still select it."
        ),
    ] = ()
    target: Annotated[
        DownscaleTarget | UnsetType,
        Meta(
            description="target is the number of replicas that a workload should have. If it is not set, the policy "
            "only orders the pods when something else scales the workload down."
        ),
    ] = UNSET
    pod_picker: Annotated[
        PodPickerFields | UnsetType,
        Meta(description="podPicker is asked which pods to delete. It takes precedence over strategy."),
    ] = UNSET
    strategy: Annotated[
        Literal["Logarithmic", "NewestFirst", "ZoneBalanced"],
        Meta(
            description="strategy orders the pods. Logarithmic leaves the order to the controller and predicts it. "
            "NewestFirst keeps that order, but of pods that only their age tells apart the youngest are deleted first. "
            "ZoneBalanced keeps the numbers of pods of the zones within one of each other."
        ),
    ] = "Logarithmic"
    logarithm: Annotated[
        Logarithm,
        Meta(
            description="logarithm tells how ages are compared. With another base than that of the controller, the "
            "pods to delete are annotated before the workload is scaled."
        ),
    ] = Logarithm()
    zone_balanced: Annotated[
        ZoneBalanced, Meta(description="zoneBalanced defines zones for the strategy ZoneBalanced.")
    ] = ZoneBalanced()
    on_foreign_cost: Annotated[
        Literal["Skip", "Override"],
        Meta(
            description="onForeignCost is what happens if pods have a deletion cost that something else set: Skip does "
            "not scale the workload down, Override replaces the cost."
        ),
    ] = "Skip"
    settle_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=60)] | Annotated[float, Meta(ge=0, le=60)],
        Meta(
            description="settleSeconds is the time that the controller gets to observe the annotations of the pods "
            "before the workload is scaled."
        ),
    ] = 2
    verify_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=600)] | Annotated[float, Meta(ge=0, le=600)],
        Meta(description="verifySeconds is the time to wait until the pods are deleted."),
    ] = 30
    limits: Annotated[
        ReplicasLimits,
        Meta(
            description="limits is the limit of this policy, in all clusters together. It applies instead of "
            "limits.default of the Fleet."
        ),
    ] = ReplicasLimits()


class DownscalePolicyDocument(Fields, frozen=True, kw_only=True):
    """A DownscalePolicy states which pods are deleted first when a run scales a workload down, and to how many."""

    api_version: ApiVersionField
    kind: Annotated[Literal["DownscalePolicy"], KIND]
    metadata: MetadataField
    spec: Annotated[DownscalePolicySpec, Meta(description="spec states what is scaled down, and in which order.")]


class DownscalePolicy(DownscalePolicySpec, frozen=True, kw_only=True):
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


def downscale_policy_of(
    document: PolicyDocument, fields: DownscalePolicyDocument, pod_picker: Path = POD_PICKER
) -> DownscalePolicy:
    """Return the policy; its problems are gathered in `document`, which has the pod picker at `pod_picker`."""
    spec = fields.spec
    policy = from_fields(
        DownscalePolicy,
        spec,
        name=fields.metadata.name,
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
    if (query is None) == (replicas is None):
        what = "has neither query nor replicas" if query is None else "has query and replicas"
        document.add(path, f"{what}, expected exactly one of the two")
    if most is not None and most < least:
        document.add((*path, "max"), f'is "{most}", expected at least min, which is "{least}"')
    if replicas is not None and replicas < least:
        document.add((*path, "replicas"), f'is "{replicas}", expected at least min, which is "{least}"')
    if replicas is not None and most is not None and replicas > most:
        document.add((*path, "replicas"), f'is "{replicas}", expected at most max, which is "{most}"')
    if query is not None:
        document.check_query((*path, "query"), query, ("cluster", "policy"))
