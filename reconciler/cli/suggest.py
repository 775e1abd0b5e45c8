"""`reconciler suggest`: an IdlingPolicy and a Calendar that fit what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta, tzinfo
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from reconciler.backends.protocols import NAMESPACES, SERVICES, Cluster
from reconciler.backends.snapshot.recorded_metrics import one_spaced
from reconciler.cli.forecast import SimulatedSnapshot, past_snapshot
from reconciler.cli.option_values import LONGEST_PAST, duration, is_duration, utf8
from reconciler.cli.options import is_on_command_line, option, verb
from reconciler.cli.output import show
from reconciler.cli.run_options import REQUESTS, RunOptions
from reconciler.errors import PolicyError, SnapshotError, UsageError
from reconciler.forecast.expected_savings import savings_of
from reconciler.forecast.idle_periods import Traffic
from reconciler.forecast.measurements import ReplayedMetrics, traffic_of
from reconciler.forecast.query_history import QueryHistory
from reconciler.forecast.suggest import (
    FEWEST,
    NAME,
    Suggestion,
    Window,
    before_working_days,
    documents_of,
    nights_of,
    suggestion_of,
    window_of,
)
from reconciler.forecast.text import replay_lines
from reconciler.forecast.timelines import Forecast
from reconciler.messages import counted, nearest
from reconciler.model import NOTHING, ObjectRef
from reconciler.policy.kinds.fields import render_query, spelt_duration
from reconciler.policy.load import check_documents
from reconciler.policy.policy_files import load
from reconciler.policy.types import FleetCluster, PolicySet
from reconciler.report.times import common_zone, time_and_zone
from reconciler.untrusted_text import one_line
from reconciler.yaml.reader import read_documents
from reconciler.yaml.writer import block_text

_Nights = Callable[[Iterable[Traffic]], Mapping[date, int]]
_SHORTEST = timedelta(days=8)  # of less, there is hardly a working day twice
_NAMED = 5


class _SuggestOptions(RunOptions):
    snapshot: str | None = option("A snapshot with a history of queries, in place of live clusters.", metavar="DIR")
    past: timedelta = option(
        "How much of the past to learn from.",
        "--since",
        type=duration(_SHORTEST, LONGEST_PAST),
        default=timedelta(days=30),
        elsewhere=is_duration,
    )
    query: str | None = option(
        "Who is called: a query as in an IdlingPolicy, with the labels namespace and service.",
        type=utf8,
        metavar="PROMQL",
        default_words="the first metric of the IdlingPolicies",
    )
    window: timedelta = option("The window of --query.", type=duration(), default=timedelta(minutes=30))
    time_zone: str | None = option(
        "The zone of the hours.", metavar="ZONE", default_words="that of the calendars, or UTC"
    )
    namespace: tuple[str, ...] = option(
        "Only Services of these namespaces; may be repeated.", "-n", "--namespace", multiple=True, metavar="GLOB"
    )


@verb("suggest", _SuggestOptions, "path", *REQUESTS, "now", "tick", "quiet")
def suggest_command(options: _SuggestOptions) -> None:
    """Print an IdlingPolicy and a Calendar for the Services that nobody calls at certain hours, with their replay.

    They are learned from what was measured, once: read them, and put them into the folder of the policies. Of calls at
    all hours, it says that it found no window.

    # Learn from the last month of the clusters and their Prometheus
    suggest
    # Learn from a snapshot with a history
    suggest --snapshot DIR --time-zone Europe/Paris > suggested.yaml
    """
    if options.query is None and is_on_command_line("window"):
        raise UsageError("--window: is that of --query, expected --query beside it; a metric has a window of its own")
    known, path, past = options.policies(), options.path, options.past
    zone, metric = _zone(options.time_zone, known), _metric(known, options.query, options.window)
    draft = _policies_with(path, [_draft(metric)])
    with past_snapshot(options, past, draft) as with_history:
        played = SimulatedSnapshot(with_history, draft)
        _check_recorded(draft, played.recorded(past), played.top)
        nights = {name: _nights(history, past, zone) for name, history in played.histories.items()}
        windows = _windows(draft, played, nights, options.namespace)
        suggestion = suggestion_of(windows)
        if suggestion is None:
            most = max(len(before_working_days(measured(()))) for measured in nights.values())
            has_more = options.snapshot is None or any(one.end - one.start > past for one in played.histories.values())
            show(_without_window(len(windows), most, options.namespace, has_more))
            return
        clusters = sorted({ref.cluster for ref in suggestion.services})  # others may not be readable
        services = (service.ref for name in clusters for service in played.measured[name].list(SERVICES))
        documents = documents_of(suggestion, services, str(zone), metric)
        found = played.replay(_policies_with(path, documents), past)
    show("\n".join(_comment(suggestion, found, zone)) + "\n" + "---\n".join(map(block_text, documents)))


def _zone(name: str | None, policies: PolicySet) -> tzinfo:
    if name is None:
        return common_zone(policies.time_zones)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f'--time-zone: "{name}" is not a time zone, expected one like Europe/Paris') from None


def _metric(policies: PolicySet, query: str | None, window: timedelta) -> dict[str, Any]:
    """Return the metric that says whether a Service is called, as an IdlingPolicy states it."""
    if query is not None:
        if not query.strip():
            raise UsageError("--query: is empty, expected a query for who is called")
        return {"query": query, "window": spelt_duration(window), "noSeries": "Zero"}
    for policy in policies.idling:
        for one in policy.metrics:
            return {"query": one.query, "window": one.window, "atMost": one.at_most, "noSeries": one.no_series}
    raise UsageError("--query: is not given, and no IdlingPolicy has a metric, expected a query for who is called")


def _draft(metric: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy that asks the query about everything."""
    always = {"timeZone": "UTC", "downtime": ["00:00-24:00"]}
    spec = {
        "selector": {"namespaces": {"include": ["*"]}, "services": {}},
        "idleWhen": [{"schedule": always}, {"metric": dict(metric)}],
    }
    return {"apiVersion": "reconciler/v1alpha1", "kind": "IdlingPolicy", "metadata": {"name": NAME}, "spec": spec}


def _policies_with(path: str, documents: list[Any]) -> PolicySet:
    """Return the Fleet below `path` with `documents` as its only policies.

    Raises:
        PolicyError: they are invalid; the query is the one thing in them that a person wrote.
    """
    loaded = load(path)
    fleet = [one for one in loaded.documents if isinstance(one.value, dict) and one.value.get("kind") == "Fleet"]
    read = read_documents("--query", "---\n".join(map(block_text, documents)))
    chosen = replace(loaded, documents=(*fleet, *read.found), problems=tuple(read.problems), complete=True)
    found, problems = check_documents(chosen)
    if found is None:
        raise PolicyError.of(problems)
    return found


def _check_namespaces(patterns: Sequence[str], clusters: Iterable[Cluster]) -> None:
    """Refuse a pattern that no namespace with a Service has: a typo must not pass for "no window"."""
    known = {service.ref.namespace for cluster in clusters for service in cluster.list(SERVICES)}
    for pattern in patterns:
        if not any(fnmatchcase(space, pattern) for space in known):
            words = f'--namespace: "{pattern}" matches none of {len(known)} with a Service'
            raise UsageError(words + nearest(pattern, known))


def _check_recorded(draft: PolicySet, histories: Mapping[str, QueryHistory], top: Path) -> None:
    """Raises SnapshotError: no cluster has an answer to the query."""
    why: list[str] = []
    for name, history in histories.items():
        text = next(one_spaced(render_query(key)) for key in draft.query_keys(name))
        answer = history.answers.get(text)
        if answer is not None and not answer.error:
            return
        failed = "" if answer is None else f"{top / name}: the query failed: {text}: {answer.error}; record it anew"
        why.append(
            failed
            or f"{top / name}: does not hold the past of {text}, expected it; "
            "record it anew with an IdlingPolicy that asks it (mode: Observe)"
        )
    raise SnapshotError("\n".join(why))


def _windows(
    draft: PolicySet, played: SimulatedSnapshot, nights: Mapping[str, _Nights], namespaces: Sequence[str]
) -> dict[ObjectRef, Window | None]:
    """Return the Services that are measured and may be idled, of all `namespaces` or these, each with its window."""
    sources = played.measured
    _check_namespaces(namespaces, sources.values())
    return {
        service: window_of(nights[cluster.name](traffic))
        for cluster in draft.fleet.clusters
        if cluster.name in sources
        for service, traffic in _traffic(draft, cluster, sources[cluster.name], played.histories[cluster.name])
        if not namespaces or any(fnmatchcase(service.namespace, pattern) for pattern in namespaces)
    }


def _traffic(
    draft: PolicySet, cluster: FleetCluster, source: Cluster, history: QueryHistory
) -> Iterator[tuple[ObjectRef, list[Traffic]]]:
    """Yield the Services of a cluster that are measured and may be idled, each with what was measured."""
    services = source.list(SERVICES)
    names = frozenset((service.ref.namespace, service.ref.name) for service in services)
    metrics = ReplayedMetrics(cluster.name, history, frozenset(space for space, _ in names), names)
    labels = {namespace.ref.name: namespace.labels for namespace in source.list(NAMESPACES)}
    for service in services:
        space = service.ref.namespace
        production = draft.fleet.production.why(cluster, space, labels.get(space, NOTHING), service.labels)
        traffic = traffic_of(metrics, draft.idling[0], (space, service.ref.name))
        if traffic and not production and space not in draft.fleet.protected:
            yield service.ref, traffic


def _nights(history: QueryHistory, past: timedelta, zone: tzinfo) -> _Nights:
    """Return what finds the nights of traffic in so much of the `past`."""
    places = range(max(0, history.count - past // history.step), history.count)
    return partial(nights_of, gaps=history.gaps, times=(history.start, places, history.step), zone=zone)


def _without_window(number: int, nights: int, namespaces: Sequence[str], has_more: bool) -> str:
    if not number:
        where = f" in {', '.join(namespaces)}" if namespaces else ""
        return (
            f"# No window found: the query has no series that names a Service{where} by the labels namespace and "
            "service, of those that are not protected or production.\n"
        )
    if nights < FEWEST:
        return (
            f"# No window found: {counted(nights, 'night')} from Monday to Thursday measured as a whole, "
            f"expected {FEWEST} or more; {'--since looks further back' if has_more else 'the history has no more'}.\n"
        )
    which = "the one Service that is measured" if number == 1 else f"each of {number} Services that are measured"
    return f"# No window found: {which} is called at all hours, or nearly never (then its metric alone is enough).\n"


def _comment(suggestion: Suggestion, forecast: Forecast, zone: tzinfo) -> Iterator[str]:
    what = counted(len(suggestion.services), "Service")
    yield f"# Suggested from {forecast.length} until {time_and_zone(forecast.end, zone)}, for {what}."
    saved = savings_of(forecast.selected)
    yield "# In these days it would have done this:"
    yield f"#   {saved.saved.replicas:,.0f} of {saved.without.replicas:,.0f} replica-hours saved"
    if forecast.replay is not None:
        yield from (f"#   {line}" for line in replay_lines(forecast.replay, forecast.tick))
        yield from (f"#   {one_line(note)}" for note in forecast.replay.notes)
    for ref, window in list(suggestion.others.items())[:_NAMED]:
        yield f"# Another window: {_named(ref)}: {', '.join(window.downtime)}"
    if len(suggestion.others) > _NAMED:
        more = counted(len(suggestion.others) - _NAMED, "other Service")
        yield f"# and {more} with other windows (-n looks at one namespace)"
    if without := suggestion.without:
        names = ", ".join(map(_named, without[:_NAMED])) + (", ..." if len(without) > _NAMED else "")
        yield f"# No window: {counted(len(without), 'Service')}, called at all hours or nearly never ({names})"


def _named(ref: ObjectRef) -> str:
    return one_line(f"{ref.cluster}/{ref.namespace}/{ref.name}")
