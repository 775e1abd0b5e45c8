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
    expected,
    matching,
)

Time = Annotated[
    str,
    matching(
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})\Z",
        'a time with a zone, like "2026-11-23T07:00:00+01:00"',
    ),
]
ObjectPath = Annotated[
    str,
    matching(r"^[^/]+/[^/]+/[^/]+/[^/]+\Z", "an object: CLUSTER/NAMESPACE/KIND/NAME"),
]


class SampleFields(Fields, frozen=True, kw_only=True):
    """One series of an answer."""

    labels: Annotated[dict[str, str], Meta(description="labels are those of the series.")] = field(default_factory=dict)
    value: Annotated[Number, Meta(description="value is the value of the series.")]


class SeriesFields(SampleFields, frozen=True, kw_only=True):
    """One series of the answer to a query."""

    query: Annotated[Text, Meta(description="query is the query as the policy has it, its variables filled in.")]
    cluster: Annotated[
        ClusterName | UnsetType, Meta(description="cluster is the cluster that is asked. By default all are.")
    ] = UNSET


class PeriodFields(Fields, frozen=True, kw_only=True):
    """A period of time."""

    from_: Annotated[Time, Meta(description="from is the start of the period.")] = field(name="from")
    days: Annotated[
        Annotated[int, Meta(ge=1, le=31)], Meta(description="days is the length of the period, from 1 to 31 days.")
    ]


class GivenFields(Fields, frozen=True, kw_only=True):
    """Something that happens before the run. One of annotate, scale, patch and query is set."""

    annotate: Annotated[ObjectPath | UnsetType, Meta(description="annotate is the object that gets annotations.")] = (
        UNSET
    )
    wake_requested_at: Annotated[
        Literal["now"] | Time | UnsetType,
        Meta(
            description="wake-requested-at is the value of reconciler/wake-requested-at: a time, or now.",
            extra_json_schema=expected('a time with a zone, or "now"'),
        ),
    ] = field(name="wake-requested-at", default=UNSET)
    annotations: Annotated[
        dict[AnnotationKey, str | None] | UnsetType,
        Meta(description="annotations are the annotations that are set; null takes one off."),
    ] = UNSET
    scale: Annotated[
        ObjectPath | UnsetType, Meta(description="scale is the workload that somebody scales to replicas.")
    ] = UNSET
    replicas: Annotated[Replicas | UnsetType, Meta(description="replicas is what scale scales to.")] = UNSET
    patch: Annotated[ObjectPath | UnsetType, Meta(description="patch is the object that is changed as fields say.")] = (
        UNSET
    )
    fields: Annotated[dict[str, Any] | UnsetType, Meta(description="fields is a JSON merge patch of the object.")] = (
        UNSET
    )
    query: Annotated[Text | UnsetType, Meta(description="query is the query of which the answer becomes series.")] = (
        UNSET
    )
    cluster: Annotated[
        ClusterName | UnsetType, Meta(description="cluster is the cluster that is asked query. By default all are.")
    ] = UNSET
    series: Annotated[
        tuple[SampleFields, ...] | UnsetType,
        Meta(description="series are the labels and value of each series of the answer."),
    ] = UNSET


class ExpectFields(Fields, frozen=True, kw_only=True):
    """What is expected of one workload, or of each in some namespaces."""

    object: Annotated[
        ObjectPath | UnsetType, Meta(description="object is the workload. Either object or namespaces is set.")
    ] = UNSET
    namespaces: Annotated[
        Annotated[tuple[NamespacePattern, ...], Meta(min_length=1)] | UnsetType,
        Meta(description="namespaces are patterns of namespaces. Each workload in them is meant, at least one."),
    ] = UNSET
    clusters: Annotated[
        tuple[ClusterPattern, ...] | UnsetType,
        Meta(description="clusters are patterns of clusters, beside namespaces. By default all."),
    ] = UNSET
    kinds: Annotated[
        tuple[Kind, ...] | UnsetType,
        Meta(description="kinds are the kinds meant, or kubectl's short names, beside namespaces. By default all."),
    ] = UNSET
    replicas: Annotated[
        Replicas | UnsetType,
        Meta(description="replicas is the number of replicas after the run. A CronJob has 1, suspended 0."),
    ] = UNSET
    state: Annotated[
        Literal["idle", "awake"] | UnsetType,
        Meta(description="state says whether the workload is idle because of a policy after the run."),
    ] = UNSET
    never: Annotated[
        Literal["idle", "awake", "selected"] | UnsetType,
        Meta(
            description="never is a state that is never reached, or selected: no IdlingPolicy selects the workload, "
            "and no DownscalePolicy with a target, whether a limit holds that back or not."
        ),
    ] = UNSET
    policy: Annotated[
        Text | UnsetType, Meta(description="policy is the name of the policy that selects the workload, or none.")
    ] = UNSET
    reason: Annotated[
        Text | UnsetType, Meta(description="reason is the code of one of the reasons, as reasonCode in a plan's JSON.")
    ] = UNSET
    until: Annotated[
        Time | UnsetType,
        Meta(description="until is when this ends to hold: it holds in every run before, and not in the run then."),
    ] = UNSET


class StepFields(Fields, frozen=True, kw_only=True):
    """A time of a case. Either at or during is set."""

    at: Annotated[Time | UnsetType, Meta(description="at is the time of a run.")] = UNSET
    during: Annotated[
        PeriodFields | UnsetType, Meta(description="during is a period: what is expected holds in every run of it.")
    ] = UNSET
    given: Annotated[tuple[GivenFields, ...], Meta(description="given is what happens before the run.")] = ()
    expect: Annotated[
        Annotated[tuple[ExpectFields, ...], Meta(min_length=1)], Meta(description="expect is what must hold.")
    ]


class CaseFields(StepFields, frozen=True, kw_only=True):
    """A case: one time, or several that follow one another."""

    name: Annotated[Text, Meta(description="name says what the case shows.")]
    start: Annotated[
        Time | UnsetType,
        Meta(description="start is when the runs before the first time begin. By default that of the file."),
    ] = UNSET
    then: Annotated[
        tuple[StepFields, ...], Meta(description="then are later times of the same case, in their order.")
    ] = ()


class PolicyTestDocument(Fields, frozen=True, kw_only=True):
    """A PolicyTest plays runs on clusters and compares what comes of them with what is expected."""

    snapshot: Annotated[
        Text | UnsetType,
        Meta(description="snapshot is the folder of a snapshot, relative to this file. Either snapshot or clusters."),
    ] = UNSET
    clusters: Annotated[
        dict[ClusterName, tuple[dict[str, Any], ...]] | UnsetType,
        Meta(description="clusters are the manifests of each cluster, in place of a snapshot."),
    ] = UNSET
    series: Annotated[
        tuple[SeriesFields, ...],
        Meta(description="series are answers to queries, in place of those of the snapshot."),
    ] = ()
    start: Annotated[
        Time | UnsetType,
        Meta(
            description="start is when the runs before the first time of a case begin. By default they do not: the "
            "first run is at the first time."
        ),
    ] = UNSET
    tick: Annotated[Duration, Meta(description="tick is how often the cron runs.")] = Duration(minutes=10)
    cases: Annotated[
        Annotated[tuple[CaseFields, ...], Meta(min_length=1)], Meta(description="cases are independent of each other.")
    ]

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [{"required": ["snapshot"]}, {"required": ["clusters"]}],
        "x-expected": '"cases", and either "snapshot" or "clusters"',
    }
