"""What the policies ask of metrics sources, and what those say."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.backends.protocols import NO_METRICS, MetricsSource
from reconciler.errors import reason_of
from reconciler.model import QueryAnswer, QueryKey
from reconciler.observe.sources import Source
from reconciler.policy.queries import render_query
from reconciler.policy.types import AllOf, AnyOf, Criterion, IdlingPolicy, MetricCriterion, PolicySet


def ask(name: str, source: Source, policies: PolicySet) -> dict[QueryKey, QueryAnswer]:
    """Return the answers of one cluster; each distinct query text is sent once."""
    texts = {key: rendered(key) for key in query_keys(name, policies)}
    if source.metrics is None:
        return {key: QueryAnswer(error=NO_METRICS) for key in texts}
    said = {text: _answer(source.metrics, text) for text in sorted(set(texts.values()))}
    return {key: said[text] for key, text in texts.items()}


def unanswered(name: str, policies: PolicySet) -> dict[QueryKey, QueryAnswer]:
    """Return what one cluster's queries are answered with while its metrics source does not."""
    return dict.fromkeys(query_keys(name, policies), QueryAnswer(error="the metrics source did not answer in time"))


def _answer(metrics: MetricsSource, text: str) -> QueryAnswer:
    try:
        return metrics.query(text)
    except Exception as error:  # noqa: BLE001 - the one place where a query fails: it alone has no answer
        return QueryAnswer(error=reason_of(error))


def rendered(key: QueryKey) -> str:
    """Return the query text that goes to the metrics source for `key`."""
    return render_query(key.template, window=key.window, cluster=key.cluster, policy=key.policy)


def query_keys(cluster: str, policies: PolicySet) -> tuple[QueryKey, ...]:
    """Return every query of the policies that may concern `cluster`, sorted."""
    fleet_cluster = policies.fleet.cluster(cluster)
    if fleet_cluster is None:
        return ()
    idling = {
        QueryKey(cluster, policy.name, template, window)
        for policy in policies.idling
        if policy.selector.selects_cluster(fleet_cluster)
        for template, window in _queries_of(policy)
    }
    targets = {
        QueryKey(cluster, policy.name, policy.target.query)
        for policy in policies.downscale
        if policy.target is not None
        and policy.target.query is not None
        and policy.selector.selects_cluster(fleet_cluster)
    }
    return tuple(sorted(idling | targets))


def _queries_of(policy: IdlingPolicy) -> Iterator[tuple[str, str]]:
    yield from ((metric.query, metric.window) for metric in policy.wake_when)
    yield from _criterion_queries(policy.idle_when)


def _criterion_queries(criterion: Criterion) -> Iterator[tuple[str, str]]:
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from _criterion_queries(inner)
    elif isinstance(criterion, MetricCriterion):
        yield (criterion.query, criterion.window)
        if criterion.coverage is not None:
            yield (criterion.coverage, criterion.window)
