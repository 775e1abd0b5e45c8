"""Test cases, run: earlier runs, the given events, the runs at their times, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from msgspec import Struct, structs

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.protocols import MetricsSource
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.backends.snapshot.recorded_metrics import SnapshotMetrics
from reconciler.decide.annotations import Key, format_time
from reconciler.errors import ClusterError, SnapshotError
from reconciler.forecast.simulation import Simulation
from reconciler.model import QueryAnswer, Sample
from reconciler.policy.kinds.fields import given
from reconciler.policy.kinds.policy_test import GivenFields, SampleFields, SeriesFields
from reconciler.policy.types import PolicySet
from reconciler.policy_tests.cases import Case, CaseFile, runs_before
from reconciler.policy_tests.expectations import Touched, Unmet, judged
from reconciler.report.change_words import name_of
from reconciler.report.times import common_zone
from reconciler.workload_kinds import WorkloadKind, same_scalar, workload_kind
from reconciler.world import victim_order

Answers = dict[tuple[str, str], tuple[Sample, ...]]
"""What queries are answered, by cluster, "" for each, and query; it may change between two runs."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CaseResult(Struct, frozen=True):
    """What came of a case: it passed where nothing failed. Its times are shown in `zone`."""

    case: Case
    zone: tzinfo
    failures: tuple[Unmet, ...]
    touched: frozenset[Touched]


def case_results(file: CaseFile, policies: PolicySet) -> Iterator[CaseResult]:
    """Yield the result of each case; none changes what another one begins with.

    Raises:
        SnapshotError: the clusters cannot be read.
    """
    opened, zone = _opened(file, policies), common_zone(policies.time_zones)
    for case in file.cases:
        answers = _answers(file.series)
        backends = {
            name: structs.replace(backend, metrics=_GivenMetrics(name, answers, backend.metrics))
            for name, backend in opened.backends.items()
        }
        yield _played(case, Simulation(policies, Opened(backends), file.tick), answers, zone)


def _played(case: Case, simulation: Simulation, answers: Answers, zone: tzinfo) -> CaseResult:
    failures: list[Unmet] = []
    touched: set[Touched] = set()
    at = case.start
    for moment in case.moments:
        for begin in runs_before(moment, at, simulation.tick):
            for _ in simulation.play(begin, moment.start):
                pass
        for place, event in moment.given:
            if words := _happened(event, moment.start, simulation, answers):
                failures.append(Unmet(place, moment.start, *words))
        wrong, looked_at = judged(moment, list(simulation.play(moment.start, moment.end)))
        failures += wrong
        touched |= looked_at
        at = moment.end
    return CaseResult(case, zone, tuple(failures), frozenset(touched))


def _opened(file: CaseFile, policies: PolicySet) -> Opened:
    names = [cluster.name for cluster in policies.fleet.clusters]
    switches = policies.fleet.switch_kinds
    order = victim_order(lambda: _EPOCH)  # what is played has that of its own time
    if file.snapshot:
        return open_snapshot(file.snapshot, names, order, switches=switches)
    try:
        made = {name: MemoryCluster.of_manifests(name, file.clusters.get(name, ()), order, switches) for name in names}
    except SnapshotError as error:
        found = [structs.replace(problem, file=file.place.file, line=file.place.line) for problem in error.problems]
        raise SnapshotError.of(found) from error
    return Opened({name: Backend(name, cluster=one, metrics=SnapshotMetrics(name, {})) for name, one in made.items()})


def _happened(
    event: GivenFields, now: datetime, simulation: Simulation, answers: Answers
) -> tuple[str, str, str] | None:
    """Let `event` happen; where it cannot, return its object, what was expected, and why it cannot."""
    query = given(event.query)
    if query is not None:
        answers[given(event.cluster) or "", query] = tuple(map(_sample, given(event.series) or ()))
        return None
    named = given(event.annotate) or given(event.scale) or given(event.patch) or ""
    ref = simulation.find(*named.split("/"))
    if ref is None:
        return named, "an object", "none of that name"
    try:
        scaled = simulation.clusters[ref.cluster].workload(ref)
        if scaled is None and given(event.scale) is not None:
            return name_of(ref), "a workload", f"a {ref.kind}"
        kind = workload_kind(ref.kind) if scaled is None else scaled.kind
        simulation.change(ref, _change(event, kind, now))
    except ClusterError as error:
        return name_of(ref), "the change is possible", str(error)
    return None


def _change(event: GivenFields, kind: WorkloadKind, now: datetime) -> Mapping[str, object]:
    """Return what happens to an object, as a merge patch."""
    replicas, fields = given(event.replicas), given(event.fields)
    if replicas is not None:
        value: Any = kind.value_at(replicas)
        if replicas and kind.is_switch and same_scalar(value, kind.off):
            value = "1"  # off without a value: any other one is on, as far as is known here
        for key in reversed(kind.replicas_path):
            value = {key: value}
        return value  # type: ignore[no-any-return]
    if fields is not None:
        return fields
    annotations: dict[str, str | None] = dict(given(event.annotations) or {})
    requested = given(event.wake_requested_at)
    if requested is not None:
        annotations[Key.WAKE_REQUESTED_AT] = format_time(now) if requested == "now" else requested
    return {"metadata": {"annotations": annotations}}


def _answers(series: Iterable[SeriesFields]) -> Answers:
    found: Answers = {}
    for one in series:
        key = (given(one.cluster) or "", one.query)
        found[key] = (*found.get(key, ()), _sample(one))
    return found


def _sample(fields: SampleFields) -> Sample:
    return Sample(dict(fields.labels), float(fields.value))


class _GivenMetrics(Struct, frozen=True):
    """The metrics source of one cluster: what is not given was recorded."""

    cluster: str
    answers: Answers
    recorded: MetricsSource

    def query(self, text: str) -> QueryAnswer:
        for key in ((self.cluster, text), ("", text)):
            if key in self.answers:
                return QueryAnswer(self.answers[key])
        return self.recorded.query(text)
