"""The metrics of one run: plan, outcomes, durations and traffic -> OpenMetrics."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.protocols import REQUEST_SECONDS, ApiTraffic
from reconciler.decide.decisions import NoticeKind
from reconciler.model import NOTHING, ObjectRef
from reconciler.plan.effects import Effect, effect_of
from reconciler.plan.model import Action, Plan
from reconciler.pod_requests import Hours
from reconciler.report.change_words import is_metadata
from reconciler.workload_kinds import workload_kind

if TYPE_CHECKING:
    from reconciler.history.realised_savings import SavedBefore

MetricLabels = Mapping[str, str]


class Distribution(Struct):
    """How often what was seen: `buckets` counts what is up to each of the bounds and above the one before it, and last
    what is above them all.
    """

    buckets: list[int]
    total: float = 0.0

    @classmethod
    def of(cls, bounds: Sequence[float], values: Iterable[float] = ()) -> Distribution:
        """Return how `values` lie between `bounds`."""
        found = cls([0] * (len(bounds) + 1))
        for value in values:
            found.add(value, bounds)
        return found

    def add(self, value: float, bounds: Sequence[float]) -> None:
        """Count `value`; `bounds` are those of the buckets."""
        self.buckets[bisect_left(bounds, value)] += 1
        self.total += value


class Family(Struct, frozen=True):
    """Values by labels, in the order they are shown: of a gauge numbers, with `bounds` distributions between them.

    `unit` is the end of `name`, "" for none.
    """

    name: str
    explained: str
    values: Sequence[tuple[MetricLabels, float | Distribution]]
    unit: str = ""
    bounds: Sequence[float] = ()
    counts: bool = False  # its numbers only grow

    def lines(self, more: MetricLabels) -> Iterator[str]:
        """Yield what it is, and a line for each number; `more` are labels of all."""
        kind = "counter" if self.counts else "histogram" if self.bounds else "gauge"
        yield f"# TYPE {self.name} {kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escaped(self.explained)}"
        total = "_total" if self.counts else ""
        ends = [*(repr(float(bound)) for bound in self.bounds), "+Inf"]  # "1.0", as the format wants it
        for own, value in self.values:
            labels = {**own, **more}
            if not isinstance(value, Distribution):
                yield f"{self.name}{total}{_labels(labels)} {_number(value)}"
                continue
            for end, count in zip(ends, accumulate(value.buckets), strict=True):
                yield f"{self.name}_bucket{_labels({**labels, 'le': end})} {count}"
            yield f"{self.name}_count{_labels(labels)} {sum(value.buckets)}"
            yield f"{self.name}_sum{_labels(labels)} {_number(value.total)}"


def open_metrics_text(families: Iterable[Family], labels: MetricLabels = NOTHING) -> str:
    """Return `families` as one document, its end mark included; `labels` are those of all values."""
    return "".join(f"{line}\n" for family in families for line in family.lines(labels)) + "# EOF\n"


def _labels(labels: MetricLabels) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """Return whole numbers as such, so that times stay readable; others as short as they can be distinguished."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


LAST_SUCCESS = "reconciler_last_success_timestamp_seconds"
_NO_POLICY = "(none)"
"""The label of workloads that are idle because of policies that do not exist; no policy can be called so."""

_FAULTS: tuple[NoticeKind, ...] = ("setAside", "excludedUnreadable", "unreadableSignal", "unproven")
AGE_RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Source: kubernetes/kubernetes pkg/controller/replicaset/metrics/metrics.go, SortingDeletionAgeRatio."""


class Measured(Struct, frozen=True):
    """What is known of a run at its end. `plan` None: it failed before there was one; nothing is said of clusters then.

    `last_success` is the time of the last run that ended well, this one or an earlier one, in seconds since the epoch;
    None: none is known. `stages` are seconds. `shard` is the index of the shard whose run it was, None: of all.
    `saved` is what idling saved in the periods that ended until then, as the history knows it.
    """

    plan: Plan | None = None
    outcomes: Sequence[Outcome] = ()
    stages: Mapping[str, float] = NOTHING
    traffic: Mapping[str, ApiTraffic] = NOTHING
    last_success: float | None = None
    shard: int | None = None
    saved: Sequence[SavedBefore] = ()


def render_metrics(measured: Measured) -> str:
    """Return the metrics of a run as OpenMetrics text. Those of a shard say which one it is."""
    labels = {} if measured.shard is None else {"shard": str(measured.shard)}
    return open_metrics_text(_families(measured), labels)


def last_success_in(text: str) -> float | None:
    """Return the time of the last run that ended well, as metrics written earlier say it; None where they do not."""
    values = [
        line.rpartition(" ")[2]
        for line in text.splitlines()
        if line.startswith((f"{LAST_SUCCESS} ", f"{LAST_SUCCESS}{{"))
    ]
    try:
        return float(values[-1]) if values else None
    except ValueError:
        return None


def _families(measured: Measured) -> Iterator[Family]:
    if measured.last_success is not None:
        words = "When a run ended well last."
        yield Family(LAST_SUCCESS, words, [({}, measured.last_success)], unit="seconds")
    yield Family(
        "reconciler_stage_duration_seconds",
        "How long the stages of the last run took.",
        [({"stage": stage}, seconds) for stage, seconds in measured.stages.items()],
        unit="seconds",
    )
    yield Family(
        "reconciler_request_duration_seconds",
        "How long the requests of the last run to each cluster took.",
        [
            ({"cluster": name}, Distribution(list(traffic.buckets), traffic.seconds))
            for name, traffic in sorted(measured.traffic.items())
            if traffic.requests
        ],
        unit="seconds",
        bounds=REQUEST_SECONDS,
    )
    if measured.plan is not None:
        yield from _saved(measured.saved, _known_policies(measured.plan))
        yield _picker_failures(measured.plan, measured.outcomes)
        yield _forbidden_to_tenants(measured.plan, measured.outcomes)
        yield from _of_plan(measured.plan, measured.outcomes)


def _saved(saved: Iterable[SavedBefore], known: Collection[str]) -> Iterator[Family]:
    """Yield what idling saved by cluster, policy and tenant; policies that are not there count together."""
    found: dict[tuple[str, str, str], Hours] = {}
    for before in saved:
        key = before.cluster, before.policy if before.policy in known else _NO_POLICY, before.tenant
        found[key] = found.get(key, Hours()) + before.hours
    labels = [{"cluster": cluster, "policy": policy, "tenant": tenant} for cluster, policy, tenant in found]
    for name, explained, values in (
        ("replica_hours", "Replica-hours that workloads did not run while idle.", [h.replicas for h in found.values()]),
        ("cpu_core_hours", "Core-hours that these request.", [h.requests.cpu for h in found.values()]),
        ("memory_gib_hours", "GiB-hours that these request.", [h.requests.memory for h in found.values()]),
    ):
        yield Family(f"reconciler_saved_{name}", explained, list(zip(labels, values, strict=True)), counts=True)


def _picker_failures(plan: Plan, outcomes: Iterable[Outcome]) -> Family:
    refs = {action.id: action.ref for action in plan.actions}
    failed = {str(refs[outcome.action]) for outcome in outcomes if outcome.picker_failed and outcome.action in refs}
    return Family(
        "reconciler_picker_failures",
        "Workloads whose pod picker gave no usable answer in the last run.",
        _by_cluster(plan, failed | _subjects(plan, "picker")),
    )


def _forbidden_to_tenants(plan: Plan, outcomes: Iterable[Outcome]) -> Family:
    clusters = {action.id: action.ref.cluster for action in plan.actions}
    counts = Counter(
        (clusters[outcome.action], outcome.tenant)
        for outcome in outcomes
        if outcome.tenant and outcome.failure and outcome.action in clusters
    )
    return Family(
        "reconciler_tenant_forbidden_changes",
        "Changes that the ServiceAccount of a tenant may not make, and that were not made.",
        [({"cluster": cluster, "tenant": tenant}, count) for (cluster, tenant), count in sorted(counts.items())],
    )


def _of_plan(plan: Plan, outcomes: Iterable[Outcome]) -> Iterator[Family]:
    done = {outcome.action: outcome.status is OutcomeStatus.APPLIED for outcome in outcomes}
    applied = [action for action in plan.actions if done.get(action.id)]
    not_done = [action for action in plan.actions if done.get(action.id) is False]
    yield Family(
        "reconciler_replicas",
        "Replicas of federated ReplicaSets: desired by policy, in spec after this run, current and running before it.",
        list(_replicas(plan)),
    )
    if plan.explanations:  # a saved plan does not say who is idle already
        yield from _idled(plan, applied)
    yield Family(
        "reconciler_held_back_workloads",
        "Workloads that a limit or a guard left as they are in the last run.",
        _held_back(plan),
    )
    yield Family(
        "reconciler_unknown_clusters",
        "Clusters that did not answer in the last run.",
        [({}, len(plan.unknown_clusters))],
    )
    yield Family(
        "reconciler_policy_conflicts",
        "Sets of policies that select the same workloads with equal priority.",
        [({}, len(_subjects(plan, "equalPriorities")))],
    )
    asleep = {str(action.ref) for action in not_done if effect_of(action.decision) is Effect.WAKE}
    asleep |= _subjects(plan, "overdueWake")
    runs = {str(one.written): str(one.ref) for one in plan.explanations if one.written is not None} if asleep else {}
    yield Family(
        "reconciler_overdue_wakes",
        "Workloads that should be awake and are not.",
        _by_cluster(plan, {runs.get(subject, subject) for subject in asleep}),  # a ScaledObject and its target are one
    )
    yield Family("reconciler_contested", "Workloads left alone because somebody undoes us.", _told(plan, "contested"))
    yield Family(
        "reconciler_object_faults",
        "Objects whose annotations for us cannot be read, or are borne out by nothing; their scale stays as it is.",
        _told(plan, *_FAULTS),
    )
    yield Family(
        "reconciler_cluster_unknown_seconds",
        "For how long a cluster has not answered; 0 for one that answers.",
        list(_unknown(plan)),
        unit="seconds",
    )
    victims = [action.decision.victims for action in applied if action.decision.victims is not None]
    ratios = [ratio for forecast in victims for ratio in forecast.age_ratios if ratio is not None]
    yield Family(
        "sorting_deletion_age_ratio",
        "Of each victim that the controller chooses by age: its age over that of the youngest Ready pod left then.",
        [({}, Distribution.of(AGE_RATIOS, ratios))],
        bounds=AGE_RATIOS,
    )


def _replicas(plan: Plan) -> Iterator[tuple[dict[str, str], float]]:
    """A saved plan may come from anywhere; a series must not be there twice."""
    for key, view in {view.key: view for view in plan.placements}.items():
        namespace, _, name = key.partition("/")
        for row in {row.cluster: row for row in view.rows}.values():
            known = {"desired": row.desired, "spec": row.spec_replicas, "current": row.current, "running": row.running}
            for state, replicas in known.items():
                if replicas is not None:
                    yield {"cluster": row.cluster, "namespace": namespace, "name": name, "state": state}, replicas


def _idled(plan: Plan, applied: Iterable[Action]) -> Iterator[Family]:
    """Yield what is idle after this run by cluster and policy; 0 where a policy selects awake ones.

    That of policies that are not there is counted together.
    """
    known = _known_policies(plan)
    workloads, replicas = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for ref, (policy, asleep) in _idle_after(plan, applied).items():
        key = ref.cluster, policy if policy in known else _NO_POLICY
        workloads[key] += 1
        replicas[key] += asleep
    selecting = {(one.ref.cluster, one.policy) for one in plan.explanations if one.job == "idling"}
    keys = sorted({key for key in selecting if key[1] in known} | workloads.keys())
    for name, explained, counts in (
        ("reconciler_idled_workloads", "Workloads that stand at their idled count because of a policy.", workloads),
        ("reconciler_idled_replicas", "Replicas that idle workloads have fewer than before they were idled.", replicas),
    ):
        yield Family(name, explained, [({"cluster": key[0], "policy": key[1]}, counts[key]) for key in keys])


def _idle_after(plan: Plan, applied: Iterable[Action]) -> dict[ObjectRef, tuple[str, int]]:
    """Return what is idle after this run: by which policy, and how many replicas fewer it has for that."""
    found = {one.idled[0]: (one.idled[1], one.asleep) for one in plan.explanations if one.policy and one.idled}
    for action in applied:
        effect = effect_of(action.decision)
        if effect is Effect.IDLE:
            has_switch = workload_kind(action.ref.kind).is_switch
            found[action.ref] = action.policy, 0 if has_switch else action.decision.removed
        elif effect is Effect.WAKE:
            found.pop(action.ref, None)
    return found


def _held_back(plan: Plan) -> list[tuple[dict[str, str], float]]:
    """Return how many workloads are held back by cluster and policy; what only our records change is none of them."""
    known = _known_policies(plan)
    held = (decision for held in plan.held_back for decision in held.decisions if not is_metadata(decision))
    found = {(one.ref.cluster, one.policy if one.policy in known else _NO_POLICY, one.ref) for one in held}
    counts = Counter((cluster, policy) for cluster, policy, _ in found)
    return [({"cluster": cluster, "policy": policy}, counts[cluster, policy]) for cluster, policy in sorted(counts)]


def _known_policies(plan: Plan) -> set[str]:
    """Return the names of the policies that there are: who may write annotations can name any policy in them."""
    return {
        name for kind, _, name in (title.partition(" ") for title in plan.places) if kind not in ("Fleet", "Tenant")
    }


def _told(plan: Plan, *kinds: NoticeKind) -> list[tuple[dict[str, str], float]]:
    """Return how many objects the notices of `kinds` are about, by cluster."""
    return _by_cluster(plan, _subjects(plan, *kinds))


def _subjects(plan: Plan, *kinds: NoticeKind) -> set[str]:
    return {notice.subject for notice in plan.notices if notice.kind in kinds}


def _by_cluster(plan: Plan, objects: Iterable[str]) -> list[tuple[dict[str, str], float]]:
    """Return how many of `objects` there are, by cluster; 0 for one with none."""
    counts = Counter(subject.partition("/")[0] for subject in objects)
    return [({"cluster": cluster}, counts[cluster]) for cluster in sorted({*plan.clusters, *counts})]


def _unknown(plan: Plan) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the seconds; at least one for a cluster that does not answer, whatever is known of its past."""
    for name in sorted({*plan.clusters, *plan.unknown_since}):
        since = plan.unknown_since.get(name)
        yield {"cluster": name}, 0.0 if since is None else max(1.0, (plan.made_at - since).total_seconds())
