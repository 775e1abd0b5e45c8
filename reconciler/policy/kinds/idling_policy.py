"""IdlingPolicy: when workloads are idled, and when they are woken."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from reconciler.policy.kinds.calendar import Calendar
from reconciler.policy.kinds.criteria import (
    AllOf,
    CriterionFields,
    MetricCriterion,
    ScheduleCriterion,
    WakeCriterionFields,
    WakeMetric,
    criteria_at,
    leaves,
    wake_when_of,
)
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import (
    PRIORITY,
    PRODUCTION,
    Duration,
    Fields,
    Limits,
    Mode,
    OwnDocument,
    Replicas,
    Whole,
    from_fields,
    given,
)
from reconciler.policy.kinds.selector import ExclusionFields, Selector, SelectorFields, exclusions_of, selector_of
from reconciler.untrusted_text import LARGEST
from reconciler.workload_kinds import workload_kind


class WakeOrder(Fields, frozen=True):
    """The order of wakes."""

    group: Annotated[str, Meta(min_length=1, max_length=253)] | UnsetType = UNSET
    """group is the name of a group. Policies of the same group wake in the order of their tiers. The default is the
    name of the policy."""
    tier: Annotated[int, Meta(ge=0, le=LARGEST)] = 10
    """tier is the place in the group. In each namespace lower tiers wake first."""
    per_run: Annotated[int, Meta(ge=1, le=LARGEST)] | None = None
    """perRun limits how many workloads of the policy wake in one run in each cluster. Policies of the same group with
    the same number share it. Namespaces take turns."""


class Autoscalers(Fields, frozen=True):
    """Autoscalers of workloads that are idled."""

    hpa: Literal["Idle", "LowerMinimum", "Leave"] = "Idle"
    """hpa is Idle: a HorizontalPodAutoscaler is idled together with its target; LowerMinimum: its minReplicas are
    lowered to idleReplicas, and it goes on scaling its target, which is not scaled otherwise; or Leave: a workload that
    has one is not idled. Of several policies Leave wins over LowerMinimum, and that over Idle."""
    keda: Literal["Pause", "Leave"] = "Pause"
    """keda is Pause: a ScaledObject is paused while its target is idle; or Leave: a workload that has one is not idled.
    """


class GitOps(Fields, frozen=True):
    """GitOps tools that manage workloads that are idled."""

    flux: Literal["Leave", "Pause"] = "Leave"
    """flux is Pause: while a workload that a Kustomization of Flux manages is idle, it carries
    kustomize.toolkit.fluxcd.io/reconcile: disabled, so that Flux changes nothing of it; so does its
    HorizontalPodAutoscaler while its bounds are held. A wake removes that, if it was not there before. Leave: Flux is
    not paused."""


class _IdlingPolicySpec(Fields, frozen=True, kw_only=True):
    """The selection and the criteria of an IdlingPolicy."""

    mode: Mode = "Enforce"
    priority: Annotated[
        Whole,
        Meta(
            description=f"{PRIORITY} the workload is not newly idled, and an idle one wakes as soon as one of the two "
            "says so."
        ),
    ] = 0
    selector: SelectorFields
    """selector selects the workloads of the policy. At least one of services and workloads is required. If both are
    set, the policy applies to what either of them selects."""
    production: Annotated[bool, PRODUCTION] = False
    exclude: tuple[ExclusionFields, ...] = ()
    """exclude lists what this policy does not select although selector does. Other policies may still select it. A
    Service with an excluded workload behind it is not idled while that runs."""
    idle_when: Annotated[tuple[CriterionFields, ...], Meta(min_length=1)]
    """idleWhen lists criteria. A workload is idled when all of them are met."""
    min_age: Duration = Duration(hours=1)
    """minAge is the least age of a workload. Younger workloads are not idled."""
    min_awake: Duration = Duration(hours=2)
    """minAwake is the least time that a workload stays awake after it was woken."""
    idle_replicas: Replicas = 0
    """idleReplicas is the number of replicas of an idle workload."""
    wake_when: tuple[WakeCriterionFields, ...] = ()
    """wakeWhen lists criteria that wake, in addition to requests to idle Services."""
    wake: Literal["Automatic", "OnSignal"] = "Automatic"
    """wake is Automatic: a workload wakes when a criterion of idleWhen is no longer met; or OnSignal: a workload wakes
    only on a request to its Service, or if someone wakes it."""
    wake_order: WakeOrder = WakeOrder()
    """wakeOrder is the order in which policies of a group wake."""
    autoscalers: Autoscalers = Autoscalers()
    """autoscalers states what happens to autoscalers of idle workloads."""
    mark_endpoints: bool = False
    """markEndpoints writes the idling annotations on Endpoints too, for proxies that read them there."""
    mark_prefix: Literal["kubernetes", "openshift"] = "kubernetes"
    """markPrefix is kubernetes: the idling annotations begin with idling.kubernetes.io/; or openshift: Services and
    Endpoints have them with idling.alpha.openshift.io/ too, as `oc idle` writes them, so that the unidling of the
    platform sees what is idle, and wakes it."""
    on_revert: Literal["Yield", "Insist"] = "Yield"
    """onRevert states what happens if another tool scales up an idle workload, resumes a CronJob or unpauses a
    ScaledObject. Yield: the workload stays awake, and is left alone from the second time in a row on. Insist: it is
    idled again, once in each run, and always reported. What a person scales up stays awake."""
    git_ops: GitOps = GitOps()
    """gitOps states what happens to GitOps tools while a workload is idle."""
    limits: Limits = Limits()
    """limits are the limits of this policy, in all clusters together. Each applies instead of limits.default of the
    Fleet. Replicas of idled workloads count only if replicas is stated."""


class IdlingPolicyDocument(OwnDocument[Literal["IdlingPolicy"]], frozen=True, kw_only=True):
    """An IdlingPolicy states when workloads are idled and when they are woken."""

    spec: _IdlingPolicySpec
    """spec states what is idled, and when."""


class IdlingPolicy(_IdlingPolicySpec, frozen=True, kw_only=True):
    """An IdlingPolicy as it is decided by: all that its spec states, and what is made of selectors and criteria."""

    name: str
    place: Place
    limits_place: Place | None = None
    selector: Selector  # type: ignore[assignment]
    exclude: tuple[Selector, ...] = ()  # type: ignore[assignment]  # not selected where any of them matches
    idle_when: AllOf  # type: ignore[assignment]
    wake_when: tuple[WakeMetric, ...] = ()  # type: ignore[assignment]
    tenant: str = ""  # whose it is, "" for the platform's; `name` begins with it: "a/sleep"

    @property
    def rank(self) -> tuple[int, bool]:
        """What it wins by: its priority, and of the same priority the platform's win over those of tenants."""
        return (self.priority, not self.tenant)

    @property
    def metrics(self) -> tuple[MetricCriterion, ...]:
        """The metrics that it is idle by."""
        return tuple(one for one in leaves(self.idle_when) if isinstance(one, MetricCriterion))

    @property
    def asked(self) -> tuple[MetricCriterion | WakeMetric, ...]:
        """The same, and those that wake it."""
        return (*self.metrics, *self.wake_when)

    @property
    def calendars(self) -> tuple[Calendar, ...]:
        """The calendars of its schedules."""
        return tuple(one.calendar for one in leaves(self.idle_when) if isinstance(one, ScheduleCriterion))

    @property
    def queries(self) -> Iterator[tuple[str, str]]:
        """The template and the window of every query."""
        yield from ((metric.query, metric.window) for metric in self.wake_when)
        for metric in self.metrics:
            yield metric.query, metric.window
            if metric.coverage:
                yield metric.coverage, metric.window


def idling_policy_of(document: PolicyDocument, fields: IdlingPolicyDocument) -> IdlingPolicy:
    """Return the policy; its problems are gathered in `document`."""
    spec = fields.spec
    criteria = criteria_at(document, ("spec", "idleWhen"), spec.idle_when)
    policy = from_fields(
        IdlingPolicy,
        spec,
        name=fields.metadata.name,
        place=document.place,
        limits_place=document.limits_place(),
        selector=selector_of(document, spec.selector),
        exclude=exclusions_of(document, spec.exclude),
        idle_when=AllOf(criteria or ()),
        wake_when=wake_when_of(document, spec.wake_when),
        wake_order=replace(spec.wake_order, group=given(spec.wake_order.group) or fields.metadata.name),
    )
    _check(document, policy, broken=criteria is None)
    return policy


def _check(document: PolicyDocument, policy: IdlingPolicy, *, broken: bool) -> None:
    if policy.wake == "OnSignal" and policy.wake_when:
        document.warn(("spec", "wakeWhen"), "wakes nothing beside wake: OnSignal, it only keeps things awake")
    if policy.selector.services is not None and policy.selector.workloads is not None:
        document.warn(
            ("spec", "selector"),
            "has services and workloads, which add up: what workloads selects is idled, and what is behind a selected "
            "Service too, whether workloads selects that or not",
        )
    if policy.autoscalers.hpa == "LowerMinimum":
        _check_lower_minimum(document, policy)
    if broken:
        return
    if policy.selector.services is None:
        _check_without_services(document, policy)
    if policy.metrics and not policy.calendars and not policy.wake_when and policy.wake == "Automatic":
        document.add(
            ("spec", "idleWhen"),
            "has a metric criterion that idle pods can never turn busy, expected a schedule or wakeWhen beside it, "
            "or wake: OnSignal",
        )


def _check_lower_minimum(document: PolicyDocument, policy: IdlingPolicy) -> None:
    path, workloads = ("spec", "autoscalers", "hpa"), policy.selector.workloads
    kinds = () if workloads is None or policy.selector.services is not None else workloads.kinds
    if kinds and not any(workload_kind(kind).counts for kind in kinds):
        words = f"no autoscaler scales {' and '.join(kinds)}, expected a selector of other kinds"
        document.add(path, f'is "LowerMinimum", and {words}')
    if policy.idle_replicas == 0 and document.get(("spec", "idleReplicas")) is None:
        at_zero = "or 0 for autoscalers with an Object or External metric, which Kubernetes scales to zero since 1.37"
        document.add(path, f'is "LowerMinimum" without idleReplicas, expected at least 1 there, {at_zero}')
    elif policy.idle_replicas == 0:
        document.warn(
            ("spec", "idleReplicas"),
            "is 0, which the API server takes as a minimum only with HPAScaleToZero (on since Kubernetes 1.37), and of "
            "an autoscaler with an Object or External metric; others keep their minimum",
        )


def _check_without_services(document: PolicyDocument, policy: IdlingPolicy) -> None:
    if policy.selector.workloads is None:
        document.add(("spec", "selector"), "selects nothing, expected services, workloads or both")
    only = "expected only schedules for workloads that are selected without a Service"
    if policy.metrics:
        document.add(("spec", "idleWhen"), f"has a metric criterion, {only}")
    if policy.wake_when:
        document.add(("spec", "wakeWhen"), f"names no Service of these workloads, {only}", key=True)
