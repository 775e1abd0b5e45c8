"""IdlingPolicy: when workloads are idled, and when they are woken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from reconciler.messages import Path, nearest, shown
from reconciler.policy.kinds.calendar import STATED, HoursFields, calendar_of
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.downscale_policy import MODE, PRIORITY
from reconciler.policy.kinds.fields import (
    KIND,
    ApiVersionField,
    Duration,
    Fields,
    LimitsFields,
    MetadataField,
    Number,
    PositiveDuration,
    Query,
    Replicas,
    Text,
    Whole,
    given,
    limits_of,
)
from reconciler.policy.kinds.selector import ExclusionFields, SelectorFields, exclusions_of, selector_of
from reconciler.policy.types import (
    AllOf,
    AnyOf,
    Calendar,
    Criterion,
    IdlingPolicy,
    MetricCriterion,
    ScheduleCriterion,
    WakeMetric,
    WakeOrder,
    leaves,
)
from reconciler.untrusted_text import LARGEST

QUERY = Meta(
    description="query is a PromQL query. The labels namespace and service of a result name the Service that it is "
    "about. {{ window }}, {{ cluster }} and {{ policy }} are replaced by their values."
)
WINDOW = Meta(description="window is the range that replaces {{ window }} in the query.")


class MetricFields(Fields, frozen=True, kw_only=True):
    """A Service is idle while the value of a query is at or below atMost."""

    query: Annotated[Query, QUERY]
    at_most: Annotated[Number, Meta(description="atMost is the greatest value that is idle.")] = 0
    window: Annotated[PositiveDuration, WINDOW] = "30m"
    coverage: Annotated[
        Query | UnsetType,
        Meta(description="coverage is a PromQL query for how much was measured. It requires coverageAtLeast."),
    ] = UNSET
    coverage_at_least: Annotated[
        Number | UnsetType,
        Meta(description="coverageAtLeast is the least coverage. With less, the result of the criterion is unknown."),
    ] = UNSET
    no_series: Annotated[
        Literal["Unknown", "Zero"],
        Meta(
            description="noSeries is the value of a Service that has no series. A Service is not idled while the "
            "result is Unknown. If the answer has series but none of them names a selected Service, the"
            " result is unknown in any case."
        ),
    ] = "Unknown"

    json_schema: ClassVar[dict[str, Any]] = {
        "dependentRequired": {"coverage": ["coverageAtLeast"], "coverageAtLeast": ["coverage"]}
    }


class ScheduleFields(HoursFields, frozen=True, kw_only=True):
    """Idle during the downtime of a Calendar, or during the downtime that is stated here."""

    calendar: Annotated[
        Text | UnsetType,
        Meta(
            description="calendar is the name of a Calendar. If it is not set, timeZone and one of downtime and uptime "
            "are required."
        ),
    ] = UNSET

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {
                "required": ["calendar"],
                "properties": {"timeZone": False, "downtime": False, "uptime": False, "exceptions": False},
            },
            {"required": ["timeZone", "downtime"], "properties": {"calendar": False, "uptime": False}},
            {"required": ["timeZone", "uptime"], "properties": {"calendar": False, "downtime": False}},
        ],
        "x-expected": 'either "calendar", or "timeZone" and one of "downtime" and "uptime"',
    }


class CriterionFields(Fields, frozen=True, kw_only=True):
    """A criterion, with exactly one of metric, schedule, anyOf and allOf."""

    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=63)] | UnsetType,
        Meta(description="name is what reasons call a metric. The default is metric."),
    ] = UNSET
    metric: Annotated[
        MetricFields | UnsetType, Meta(description="metric is met while the value of a query is at most atMost.")
    ] = UNSET
    schedule: Annotated[ScheduleFields | UnsetType, Meta(description="schedule is met during downtime.")] = UNSET
    any_of: Annotated[
        Annotated[tuple[CriterionFields, ...], Meta(min_length=1)] | UnsetType,
        Meta(description="anyOf is met if at least one of its criteria is met."),
    ] = UNSET
    all_of: Annotated[
        Annotated[tuple[CriterionFields, ...], Meta(min_length=1)] | UnsetType,
        Meta(description="allOf is met if all of its criteria are met."),
    ] = UNSET

    json_schema: ClassVar[dict[str, Any]] = {
        "minProperties": 1,
        "maxProperties": 2,
        "x-expected": 'exactly one of "metric", "schedule", "anyOf" and "allOf"',
        "oneOf": [{"required": [name]} for name in ("metric", "schedule", "anyOf", "allOf")],
    }


class WakeMetricFields(Fields, frozen=True, kw_only=True):
    """A Service is woken while the value of a query is above a bound."""

    query: Annotated[Query, QUERY]
    above: Annotated[Number, Meta(description="above is the greatest value that does not wake.")] = 0
    window: Annotated[PositiveDuration, WINDOW] = "5m"


class WakeCriterionFields(Fields, frozen=True, kw_only=True):
    """A criterion that wakes."""

    metric: Annotated[
        WakeMetricFields, Meta(description="metric is met while the value of a query is greater than above.")
    ]


class WakeOrderFields(Fields, frozen=True, kw_only=True):
    """The order of wakes."""

    group: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | UnsetType,
        Meta(
            description="group is the name of a group. Policies of the same group wake in the order of their tiers."
            " The default is the name of the policy."
        ),
    ] = UNSET
    tier: Annotated[
        int,
        Meta(ge=0, le=LARGEST, description="tier is the place in the group. In each namespace lower tiers wake first."),
    ] = 10
    per_run: Annotated[
        Annotated[int, Meta(ge=1, le=LARGEST)] | None,
        Meta(
            description="perRun limits how many workloads of the policy wake in one run in each cluster. Policies "
            "of the same group with the same number share it. Namespaces take turns. null means no "
            "limit."
        ),
    ] = None


class AutoscalersFields(Fields, frozen=True, kw_only=True):
    """Autoscalers of workloads that are idled."""

    hpa: Annotated[
        Literal["Idle", "Leave"],
        Meta(
            description="hpa is Idle: a HorizontalPodAutoscaler is idled together with its target; or Leave: a "
            "workload that has one is not idled."
        ),
    ] = "Idle"
    keda: Annotated[
        Literal["Pause", "Leave"],
        Meta(
            description="keda is Pause: a ScaledObject is paused while its target is idle; or Leave: a workload "
            "that has one is not idled."
        ),
    ] = "Pause"


class GitOpsFields(Fields, frozen=True, kw_only=True):
    """GitOps tools that manage workloads that are idled."""

    flux: Annotated[
        Literal["Leave", "Pause"],
        Meta(
            description="flux is Pause: while a workload that a Kustomization of Flux manages is idle, it carries "
            "kustomize.toolkit.fluxcd.io/reconcile: disabled, so that Flux changes nothing of it; so does its "
            "HorizontalPodAutoscaler while its bounds are held. A wake removes that, if it was not there before. "
            "Leave: Flux is not paused."
        ),
    ] = "Leave"


class IdlingPolicyFields(Fields, frozen=True, kw_only=True):
    """The selection and the criteria of an IdlingPolicy."""

    mode: Annotated[Literal["Enforce", "Observe"], MODE] = "Enforce"
    priority: Annotated[
        Whole,
        Meta(
            description=f"{PRIORITY} the workload is not newly idled, and an idle one wakes as soon as one of the two "
            "says so."
        ),
    ] = 0
    selector: Annotated[
        SelectorFields,
        Meta(
            description="selector selects the workloads of the policy. At least one of services and workloads is "
            "required. If both are set, the policy applies to what either of them selects."
        ),
    ]
    exclude: Annotated[
        tuple[ExclusionFields, ...],
        Meta(
            description="exclude lists what this policy does not select although selector does. Other policies may "
            "still select it. A Service with an excluded workload behind it is not idled while that runs."
        ),
    ] = ()
    idle_when: Annotated[
        tuple[CriterionFields, ...],
        Meta(min_length=1, description="idleWhen lists criteria. A workload is idled when all of them are met."),
    ]
    min_age: Annotated[
        Duration, Meta(description="minAge is the least age of a workload. Younger workloads are not idled.")
    ] = Duration(hours=1)
    min_awake: Annotated[
        Duration, Meta(description="minAwake is the least time that a workload stays awake after it was woken.")
    ] = Duration(hours=2)
    idle_replicas: Annotated[
        Replicas, Meta(description="idleReplicas is the number of replicas of an idle workload.")
    ] = 0
    wake_when: Annotated[
        tuple[WakeCriterionFields, ...],
        Meta(description="wakeWhen lists criteria that wake, in addition to requests to idle Services."),
    ] = ()
    wake: Annotated[
        Literal["Automatic", "OnSignal"],
        Meta(
            description="wake is Automatic: a workload wakes when a criterion of idleWhen is no longer met; or "
            "OnSignal: a workload wakes only on a request to its Service, or if someone wakes it."
        ),
    ] = "Automatic"
    wake_order: Annotated[
        WakeOrderFields, Meta(description="wakeOrder is the order in which policies of a group wake.")
    ] = WakeOrderFields()
    autoscalers: Annotated[
        AutoscalersFields, Meta(description="autoscalers states what happens to autoscalers of idle workloads.")
    ] = AutoscalersFields()
    mark_endpoints: Annotated[
        bool,
        Meta(
            description="markEndpoints writes the idling annotations on Endpoints too, for proxies that read them "
            "there."
        ),
    ] = False
    on_revert: Annotated[
        Literal["Yield", "Insist"],
        Meta(
            description="onRevert states what happens if another tool scales up an idle workload, resumes a CronJob or "
            "unpauses a ScaledObject. Yield: the workload stays awake, and is left alone from the second time in a row "
            "on. Insist: it is idled again, once in each run, and always reported. What a person scales up stays awake."
        ),
    ] = "Yield"
    git_ops: Annotated[
        GitOpsFields, Meta(description="gitOps states what happens to GitOps tools while a workload is idle.")
    ] = GitOpsFields()
    limits: Annotated[
        LimitsFields,
        Meta(
            description="limits are limits of this policy. They apply instead of those of the Fleet. The base of a "
            "share is what the policy selects, in all clusters."
        ),
    ] = LimitsFields()


class IdlingPolicyDocument(Fields, frozen=True, kw_only=True):
    """An IdlingPolicy states when workloads are idled and when they are woken."""

    api_version: ApiVersionField
    kind: Annotated[Literal["IdlingPolicy"], KIND]
    metadata: MetadataField
    spec: Annotated[IdlingPolicyFields, Meta(description="spec states what is idled, and when.")]


class Calendars(Struct, frozen=True):
    """The Calendar documents by name, None for those that are broken themselves.

    `complete` False: some document could not be read, and may be one more.
    """

    named: Mapping[str, Calendar | None]
    complete: bool = True


def idling_policy_of(document: PolicyDocument, fields: IdlingPolicyDocument, calendars: Calendars) -> IdlingPolicy:
    """Return the policy; its problems are gathered in `document`."""
    spec = fields.spec
    criteria = _Criteria(document, calendars)
    policy = IdlingPolicy(
        name=fields.metadata.name,
        place=document.place,
        selector=selector_of(document, spec.selector),
        exclude=exclusions_of(document, spec.exclude),
        idle_when=AllOf(criteria.all_at(("spec", "idleWhen"), spec.idle_when)),
        mode=spec.mode,
        priority=spec.priority,
        min_age=+spec.min_age,
        min_awake=+spec.min_awake,
        idle_replicas=spec.idle_replicas,
        wake_when=tuple(_wake_metric(document, n, one.metric) for n, one in enumerate(spec.wake_when)),
        wake=spec.wake,
        wake_order=WakeOrder(
            given(spec.wake_order.group) or fields.metadata.name, spec.wake_order.tier, spec.wake_order.per_run
        ),
        hpa=spec.autoscalers.hpa,
        keda=spec.autoscalers.keda,
        mark_endpoints=spec.mark_endpoints,
        on_revert=spec.on_revert,
        pauses_flux=spec.git_ops.flux == "Pause",
        limits=limits_of(spec.limits),
    )
    _check(document, policy, broken=criteria.broken)
    return policy


class _Criteria:
    """The criteria of one policy; `broken` where one of them is not known."""

    def __init__(self, document: PolicyDocument, calendars: Calendars) -> None:
        self._document = document
        self._calendars = calendars
        self.broken = False

    def all_at(self, path: Path, fields: tuple[CriterionFields, ...]) -> tuple[Criterion, ...]:
        found = [self._criterion((*path, position), one) for position, one in enumerate(fields)]
        self.broken = self.broken or None in found
        return tuple(criterion for criterion in found if criterion is not None)

    def _criterion(self, path: Path, fields: CriterionFields) -> Criterion | None:
        kinds = {"metric": fields.metric, "schedule": fields.schedule, "anyOf": fields.any_of, "allOf": fields.all_of}
        stated = {kind: value for kind, value in kinds.items() if value is not UNSET}
        if len(stated) != 1:
            what = f"has {' and '.join(stated)}" if stated else "is empty"
            self._document.add(path, f"{what}, expected exactly one of metric, schedule, anyOf and allOf")
            return None
        ((kind, value),) = stated.items()
        name = given(fields.name) or ""
        if isinstance(value, MetricFields):
            return self._metric((*path, kind), value, name)
        if name:
            self._document.add((*path, "name"), f"stands beside {kind}, expected it beside a metric", key=True)
        if isinstance(value, ScheduleFields):
            return self._schedule((*path, kind), value)
        inside = value if isinstance(value, tuple) else ()
        return (AnyOf if kind == "anyOf" else AllOf)(self.all_at((*path, kind), inside))

    def _metric(self, path: Path, fields: MetricFields, name: str) -> MetricCriterion:
        coverage, least = given(fields.coverage), given(fields.coverage_at_least)
        if (coverage is None) != (least is None):
            missing = "coverageAtLeast" if least is None else "coverage"
            self._document.add((*path, missing), "is missing, expected coverage and coverageAtLeast together")
        self._document.check_query((*path, "query"), fields.query)
        if coverage is not None:
            self._document.check_query((*path, "coverage"), coverage)
        self._document.check_duration((*path, "window"), fields.window)
        return MetricCriterion(
            query=fields.query,
            at_most=fields.at_most,
            window=fields.window,
            coverage=coverage,
            coverage_at_least=least,
            no_series=fields.no_series,
            name=name,
        )

    def _schedule(self, path: Path, fields: ScheduleFields) -> ScheduleCriterion | None:
        name, named = given(fields.calendar), self._calendars.named
        own = [field for field in ("timeZone", *STATED) if self._is_given((*path, field))]
        if name is not None and own:
            self._document.add(path, "has a calendar and hours of its own, expected one of the two")
            return None
        if name is None:
            return self._own_calendar(path, fields, own)
        if name not in named and self._calendars.complete:
            self._document.add(
                (*path, "calendar"), f"is {shown(name)}, expected the name of a Calendar{nearest(name, named)}"
            )
        found = named.get(name)
        return None if found is None else ScheduleCriterion(found)

    def _is_given(self, path: Path) -> bool:
        """Return whether there is a value, or was one with a problem of its own."""
        return self._document.get(path) is not None or path in self._document.source.taken_out

    def _own_calendar(self, path: Path, fields: ScheduleFields, own: list[str]) -> ScheduleCriterion | None:
        missing = "timeZone" if "timeZone" not in own else "downtime" if len(own) == 1 else ""
        if missing:
            self._document.add(
                (*path, missing), "is missing, expected a calendar by name, or timeZone and downtime or uptime here"
            )
            return None
        return ScheduleCriterion(calendar_of(self._document, path, fields))


def _wake_metric(document: PolicyDocument, position: int, fields: WakeMetricFields) -> WakeMetric:
    path: Path = ("spec", "wakeWhen", position, "metric")
    document.check_query((*path, "query"), fields.query)
    document.check_duration((*path, "window"), fields.window)
    return WakeMetric(fields.query, fields.above, fields.window)


def _check(document: PolicyDocument, policy: IdlingPolicy, *, broken: bool) -> None:
    document.check_name(policy.name)
    if policy.wake == "OnSignal" and policy.wake_when:
        document.warn(("spec", "wakeWhen"), "wakes nothing beside wake: OnSignal, it only keeps things awake")
    if policy.selector.services is not None and policy.selector.workloads is not None:
        document.warn(
            ("spec", "selector"),
            "has services and workloads, which add up: what workloads selects is idled, and what is behind a selected "
            "Service too, whether workloads selects that or not",
        )
    if broken:
        return
    inside = list(leaves(policy.idle_when))
    has_metric = any(isinstance(criterion, MetricCriterion) for criterion in inside)
    has_schedule = any(isinstance(criterion, ScheduleCriterion) for criterion in inside)
    if policy.selector.services is None:
        _check_without_services(document, policy, has_metric=has_metric)
    if has_metric and not has_schedule and not policy.wake_when and policy.wake == "Automatic":
        document.add(
            ("spec", "idleWhen"),
            "has a metric criterion that idle pods can never turn busy, expected a schedule or wakeWhen beside it, "
            "or wake: OnSignal",
        )


def _check_without_services(document: PolicyDocument, policy: IdlingPolicy, *, has_metric: bool) -> None:
    if policy.selector.workloads is None:
        document.add(("spec", "selector"), "selects nothing, expected services, workloads or both")
    only = "expected only schedules for workloads that are selected without a Service"
    if has_metric:
        document.add(("spec", "idleWhen"), f"has a metric criterion, {only}")
    if policy.wake_when:
        document.add(("spec", "wakeWhen"), f"names no Service of these workloads, {only}", key=True)
