"""Tests of policies, `*_test.yaml`: clusters, cases with times, and what is expected of workloads."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from reconciler.policy.kinds.fields import (
    AnnotationKey,
    ClusterName,
    ClusterPattern,
    Duration,
    Fields,
    Kind,
    NamespacePattern,
    Number,
    Replicas,
    Text,
    matching,
)

_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})"
Time = Annotated[str, matching(rf"^{_TIME}\Z", 'a time with a zone, like "2026-11-23T07:00:00+01:00"')]
_ObjectPath = Annotated[str, matching(r"^[^/]+/[^/]+/[^/]+/[^/]+\Z", "an object: CLUSTER/NAMESPACE/KIND/NAME")]


class SampleFields(Fields, frozen=True, kw_only=True):
    """One series of an answer."""

    labels: dict[str, str] = field(default_factory=dict)
    """labels are those of the series."""
    value: Number
    """value is the value of the series."""


class SeriesFields(SampleFields, frozen=True, kw_only=True):
    """One series of the answer to a query."""

    query: Text
    """query is the query as the policy has it, its variables filled in."""
    cluster: ClusterName | UnsetType = UNSET
    """cluster is the cluster that is asked. By default all are."""


class _PeriodFields(Fields, frozen=True, kw_only=True):
    """A period of time."""

    from_: Time = field(name="from")
    """from is the start of the period."""
    days: Annotated[int, Meta(ge=1, le=31)]
    """days is the length of the period, from 1 to 31 days."""


class GivenFields(Fields, frozen=True, kw_only=True):
    """Something that happens before the run. One of annotate, scale, patch and query is set."""

    annotate: _ObjectPath | UnsetType = UNSET
    """annotate is the object that gets annotations."""
    wake_requested_at: Annotated[str, matching(rf"^(now|{_TIME})\Z", 'a time with a zone, or "now"')] | UnsetType = (
        field(name="wake-requested-at", default=UNSET)
    )
    """wake-requested-at is the value of reconciler/wake-requested-at: a time, or now."""
    annotations: dict[AnnotationKey, str | None] | UnsetType = UNSET
    """annotations are the annotations that are set; null takes one off."""
    scale: _ObjectPath | UnsetType = UNSET
    """scale is the workload that somebody scales to replicas."""
    replicas: Replicas | UnsetType = UNSET
    """replicas is what scale scales to."""
    patch: _ObjectPath | UnsetType = UNSET
    """patch is the object that is changed as fields say."""
    fields: dict[str, Any] | UnsetType = UNSET
    """fields is a JSON merge patch of the object."""
    query: Text | UnsetType = UNSET
    """query is the query of which the answer becomes series."""
    cluster: ClusterName | UnsetType = UNSET
    """cluster is the cluster that is asked query. By default all are."""
    series: tuple[SampleFields, ...] | UnsetType = UNSET
    """series are the labels and value of each series of the answer."""


class ExpectFields(Fields, frozen=True, kw_only=True):
    """What is expected of one workload, or of each in some namespaces."""

    object: _ObjectPath | UnsetType = UNSET
    """object is the workload, or what autoscales it. Either object or namespaces is set."""
    namespaces: Annotated[tuple[NamespacePattern, ...], Meta(min_length=1)] | UnsetType = UNSET
    """namespaces are patterns of namespaces. Each workload in them is meant, at least one."""
    clusters: tuple[ClusterPattern, ...] | UnsetType = UNSET
    """clusters are patterns of clusters, beside namespaces. By default all."""
    kinds: tuple[Kind, ...] | UnsetType = UNSET
    """kinds are the kinds meant, or kubectl's short names, beside namespaces. By default all."""
    replicas: Replicas | UnsetType = UNSET
    """replicas is the number of replicas after the run. A CronJob has 1, suspended 0."""
    state: Literal["idle", "awake"] | UnsetType = UNSET
    """state says whether the workload is idle because of a policy after the run."""
    never: Literal["idle", "awake", "selected"] | UnsetType = UNSET
    """never is a state that is never reached, or selected: no IdlingPolicy selects the workload, and no DownscalePolicy
    with a target, whether a limit holds that back or not."""
    policy: Text | UnsetType = UNSET
    """policy is the name of the policy that selects the workload, or none."""
    reason: Text | UnsetType = UNSET
    """reason is the code of one of the reasons, as reasonCode in a plan's JSON."""
    until: Time | UnsetType = UNSET
    """until is when this ends to hold: it holds in every run before, and not in the run then."""


class StepFields(Fields, frozen=True, kw_only=True):
    """A time of a case. Either at or during is set."""

    at: Time | UnsetType = UNSET
    """at is the time of a run."""
    during: _PeriodFields | UnsetType = UNSET
    """during is a period: what is expected holds in every run of it."""
    given: tuple[GivenFields, ...] = ()
    """given is what happens before the run."""
    expect: Annotated[tuple[ExpectFields, ...], Meta(min_length=1)]
    """expect is what must hold."""


class CaseFields(StepFields, frozen=True, kw_only=True):
    """A case: one time, or several that follow one another."""

    name: Text
    """name says what the case shows."""
    start: Time | UnsetType = UNSET
    """start is when the runs before the first time begin. By default that of the file."""
    then: tuple[StepFields, ...] = ()
    """then are later times of the same case, in their order."""


class PolicyTestDocument(Fields, frozen=True, kw_only=True):
    """A PolicyTest plays runs on clusters and compares what comes of them with what is expected."""

    snapshot: Text | UnsetType = UNSET
    """snapshot is the folder of a snapshot, relative to this file. Either snapshot or clusters."""
    clusters: dict[ClusterName, tuple[dict[str, Any], ...]] | UnsetType = UNSET
    """clusters are the manifests of each cluster, in place of a snapshot."""
    series: tuple[SeriesFields, ...] = ()
    """series are answers to queries, in place of those of the snapshot."""
    start: Time | UnsetType = UNSET
    """start is when the runs before the first time of a case begin. By default they do not: the first run is at the
    first time."""
    tick: Duration = Duration(minutes=10)
    """tick is how often the cron runs."""
    cases: Annotated[tuple[CaseFields, ...], Meta(min_length=1)]
    """cases are independent of each other."""

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [{"required": ["snapshot"]}, {"required": ["clusters"]}],
        "x-expected": '"cases", and either "snapshot" or "clusters"',
    }
