"""The times at which a run may decide differently although nobody changed anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain

from reconciler.decide.annotations import OUR_ANNOTATIONS, Key, parse_kube_downscaler_time, parse_time
from reconciler.decide.downscale.journal import LIFE
from reconciler.decide.idling.conditions import TIMED_CONDITIONS
from reconciler.decide.idling.criteria import CriterionResult, evaluator_of
from reconciler.decide.limit_amounts import DAY, policy_names
from reconciler.decide.placement.pod_counts import ON_ITS_WAY
from reconciler.decide.query_answers import Answers
from reconciler.decide.removal_guard import PATIENCE
from reconciler.decide.schedule import open_periods
from reconciler.decide.selectors import SelectorIndex, namespace_labels
from reconciler.model import (
    NOTHING,
    Endpoints,
    HorizontalPodAutoscaler,
    Namespace,
    ObservedCluster,
    ObservedState,
    Service,
    Workload,
)
from reconciler.policy.types import Calendar, Fleet, IdlingPolicy, PolicySet

Durations = Set[timedelta]

_AT, _AFTER = timedelta(), timedelta(seconds=1)
_AT_ONCE: Durations = frozenset({_AT})
_AND_AFTER: Durations = frozenset({_AT, _AFTER})
"""Of what counts at its very moment, and not after it: a request that nobody idle is waiting for."""
_JOURNAL = _AT_ONCE | {LIFE}
_KNOWN: Mapping[str, Durations] = {
    Key.AWAKE_SINCE: frozenset(),  # only what may be idled waits for it
    Key.WAKE_REQUESTED_AT: _AND_AFTER,
    Key.ORPHANED_SINCE: frozenset({PATIENCE}),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def calendar_edges(policies: PolicySet, start: datetime, end: datetime) -> tuple[datetime, ...]:
    """Return when an idle period of the policies begins or ends, after `start` and before `end`, in order."""
    calendars: dict[Calendar, None] = dict.fromkeys(
        calendar for policy in policies.idling for calendar in policy.calendars
    )
    edges = {edge for calendar in calendars for period in open_periods(calendar, start, end) for edge in period}
    return tuple(sorted(edge for edge in edges if start < edge < end))


def recorded_moments(
    policies: PolicySet, state: ObservedState, after: datetime, lifted: Collection[str] = ()
) -> frozenset[datetime]:
    """Return the moments after `after` that times recorded on the clusters of `state` lead to.

    No limit counts the policies that are called as in `lifted`.
    """
    limits = frozenset() if policy_names(policies) <= set(lifted) else _AT_ONCE | {DAY}
    waits = {
        wait
        for one in policies.federated
        for wait in (_AT, one.unschedulable_after, one.progress_deadline, one.cluster_grace_period, ON_ITS_WAY)
    }
    clusters = (*state.clusters.values(), *state.wakes_only.values())
    recorded = (_of_cluster(cluster, {**_KNOWN, Key.LAST_IDLED: limits}, waits, policies.fleet) for cluster in clusters)
    found = {moment for moments in recorded for moment in moments if moment > after}
    idles = {moment for cluster in clusters for moment in _of_idles(policies, cluster, after)}
    return frozenset(found | idles)


def _of_idles(policies: PolicySet, cluster: ObservedCluster, after: datetime) -> Iterator[datetime]:
    """Yield when something is old enough, or was awake for long enough, to be idled, where a policy may do that."""
    waits = [
        (
            one.since,
            frozenset(max(one.longest((policy,)), _AFTER if one.strictly else _AT) for policy in policies.idling),
        )
        for one in TIMED_CONDITIONS
    ]
    labels = namespace_labels(cluster)
    objects: list[Workload | Service | HorizontalPodAutoscaler]
    objects = [*cluster.workloads, *cluster.services, *cluster.autoscalers]
    waiting: dict[str, set[datetime]] = {}
    for one in objects:
        moments = waiting.setdefault(one.ref.namespace, set())
        created_at = None if isinstance(one, HorizontalPodAutoscaler) else one.created_at
        for since, durations in waits:
            recorded = _times_in(one.annotations.get(since, "")) if since else (created_at,)
            moments |= set(_later((at for at in recorded if at is not None), durations))
    known = policies.fleet.cluster(cluster.name)
    reaching: SelectorIndex[IdlingPolicy] = SelectorIndex(
        (one.selector.namespaces, one)
        for one in policies.idling
        if known is None or one.selector.selects_cluster(known)
    )
    for namespace, moments in waiting.items():
        later = [moment for moment in moments if moment > after]
        inside = reaching.matching(namespace, labels.get(namespace, NOTHING)) if later else []
        yield from (moment for moment in later if not all(is_kept_awake_by_schedule(one, moment) for one in inside))


def is_kept_awake_by_schedule(policy: IdlingPolicy, at: datetime) -> bool:
    """Return whether `policy` idles nothing at `at`, whatever metrics say."""
    blind = evaluator_of(policy, Answers("", policy.name, NOTHING, at))
    return blind("", None).result is CriterionResult.BUSY


def _of_cluster(
    cluster: ObservedCluster, known: Mapping[str, Durations], placement: Durations, fleet: Fleet
) -> Iterator[datetime]:
    """Yield what times lead to that are recorded on a cluster: so long after those in the annotations that are `known`
    something happens, and so long after others of `placement`.
    """
    annotated: list[Workload | Service | Endpoints | HorizontalPodAutoscaler | Namespace]
    annotated = [*cluster.workloads, *cluster.services, *cluster.endpoints, *cluster.autoscalers, *cluster.namespaces]
    for key, text in ((key, text) for one in annotated for key, text in one.annotations.items()):
        if key in known:
            yield from _later(_times_in(text), known[key])
        elif key.startswith(OUR_ANNOTATIONS):
            yield from _times_in(text)
        elif key == Key.DOWNSCALER_EXCLUDE_UNTIL and fleet.honors_kube_downscaler:
            yield from filter(None, (parse_kube_downscaler_time(text),))
    for config_map in cluster.config_maps:
        for text in (*config_map.data.values(), *config_map.annotations.values()):
            yield from _later(_times_in(text), _JOURNAL | placement)
    yield from _later((event.at for event in cluster.events if event.at is not None), _AND_AFTER)
    if placement:
        yield from _of_placement(cluster, placement)


def _of_placement(cluster: ObservedCluster, waits: Durations) -> Iterator[datetime]:
    for workload in cluster.workloads:
        writer = workload.replicas_writer
        since = [condition.since for condition in workload.conditions]
        since += [workload.created_at, None if writer is None else writer.at]
        yield from _later((at for at in since if at is not None), waits)
    for pod in chain.from_iterable(cluster.pods.values()):
        stamps = (pod.created_ns, pod.ready_since_ns, pod.unscheduled_since_ns)
        yield from _later((_EPOCH + timedelta(microseconds=at // 1000) for at in stamps if at is not None), waits)


def _later(times: Iterable[datetime], waits: Durations) -> Iterator[datetime]:
    return (at + wait for at in times for wait in waits)


@lru_cache(maxsize=65536)
def _times_in(text: str) -> tuple[datetime, ...]:
    """Return the times in an annotation: the whole of it, as people write them, or those in a JSON of ours."""
    whole = parse_time(text)
    if whole is not None:
        return (whole,)
    return tuple(at for at in map(parse_time, _TIME.findall(text)) if at is not None)
