"""The forecast as timelines: the replicas of each workload over time, what they depend on, limits, wakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Job, Verb, policy_title
from reconciler.decide.idling.criteria import CriterionResult, evaluator_of
from reconciler.decide.idling.records import readable_part
from reconciler.decide.limit_amounts import scalable_workloads
from reconciler.decide.query_answers import Answers, value_for
from reconciler.decide.selectors import namespace_labels
from reconciler.forecast.idle_periods import Replay
from reconciler.forecast.simulation import Simulation, Step
from reconciler.messages import counted
from reconciler.model import NOTHING, ObjectRef, Workload
from reconciler.plan.model import Plan
from reconciler.pod_requests import PodRequests
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import IdlingPolicy, PolicySet
from reconciler.report.change_words import is_metadata
from reconciler.report.times import common_zone

LOWER_MINIMUM = "its autoscaler goes to its lower minimum"
"""What is assumed where only that is lowered: at most the difference is saved."""

_HOUR = timedelta(hours=1)
_JOBS: tuple[Job, ...] = ("idling", "placement", "downscale")


class Segment(Struct, frozen=True):
    """From `start` to before `end` the workload asks for `replicas`.

    `assumes` says on which recorded value of a metric that rests, "" where on none.
    """

    start: datetime
    end: datetime
    replicas: int
    assumes: str = ""

    @property
    def hours(self) -> float:
        return (self.end - self.start) / _HOUR


class WorkloadTimeline(Struct, frozen=True):
    """One workload over the coming days.

    `policy` is the kind and name of the policy that selects it, "" for none. `without` are its replicas without any
    policy: what it asks for at the start or, where that is idle, what it had before. `requests` are those of one pod.
    """

    ref: ObjectRef
    policy: str
    without: int
    segments: tuple[Segment, ...]
    requests: PodRequests = PodRequests()
    labels: Mapping[str, str] = NOTHING
    runs: bool = True  # its replicas are pods; what has a switch, such as a CronJob, has none of its own

    @property
    def steps(self) -> tuple[tuple[datetime, int], ...]:
        """When the replicas change, and to what; the first is what they are at the start."""
        found: list[tuple[datetime, int]] = []
        for segment in self.segments:
            if not found or found[-1][1] != segment.replicas:
                found.append((segment.start, segment.replicas))
        return tuple(found)

    @property
    def end(self) -> datetime:
        """Until when it is there: the end of the forecast, or when it is deleted."""
        return self.segments[-1].end

    def at(self, moment: datetime) -> Segment | None:
        """Return how it runs at `moment`, None: it is not there."""
        return next((segment for segment in self.segments if segment.start <= moment < segment.end), None)


class HeldBackPeriod(Struct, frozen=True):
    """What a limit or guard keeps from being done from `start` to before `end`: `number` changes, of `refs`.

    `policy` is the name that --allow-exceed takes, "" of a guard; `why` says too what lets it through.
    """

    start: datetime
    end: datetime
    policy: str
    why: str
    refs: frozenset[ObjectRef]
    number: int

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters on which it is held back."""
        return tuple(sorted({ref.cluster for ref in self.refs}))


def held_back_in(plan: Plan, start: datetime, end: datetime) -> dict[Hashable, HeldBackPeriod]:
    """Return what `plan` holds back, by what is the same from run to run: from `start` to before `end`."""
    found: dict[Hashable, HeldBackPeriod] = {}
    for held in plan.held_back:
        acted = [decision for decision in held.decisions if not is_metadata(decision)] or held.decisions
        refs = frozenset(decision.ref for decision in acted)
        period = HeldBackPeriod(start, end, held.policy, held.why, refs, len(held.decisions))
        jobs = frozenset(one.job for one in held.decisions if held.policy in ("", one.policy))  # kinds may share a name
        found[(held.policy, jobs, period.clusters)] = period
    return found


class Wake(Struct, frozen=True):
    """Capacity that is needed again at one moment: `pods`, and what they request.

    `clusters` has the pods by cluster; `tiers` the workloads by wake tier, in the order in which they wake.
    """

    at: datetime
    pods: int
    requests: PodRequests
    clusters: Mapping[str, int]
    tiers: tuple[tuple[int, int], ...] = ()


class Forecast(Struct, frozen=True):
    """The coming days, from `start` to before `end`; `first` is the plan of the run at `start`, `runs` were played."""

    start: datetime
    end: datetime
    tick: timedelta
    runs: int
    first: Plan
    timelines: tuple[WorkloadTimeline, ...]
    held_back: tuple[HeldBackPeriod, ...] = ()
    wakes: tuple[Wake, ...] = ()
    undecided: Mapping[str, str] = NOTHING  # object -> why, at any time
    replay: Replay | None = None  # what was measured, where the days are of the past

    @property
    def selected(self) -> tuple[WorkloadTimeline, ...]:
        """The workloads that a policy selects."""
        return tuple(timeline for timeline in self.timelines if timeline.policy)

    @property
    def length(self) -> str:
        """How long it is: days, or what is no whole day as a duration."""
        length, day = self.end - self.start, timedelta(days=1)
        return spelt_duration(length) if length % day and length < 3 * day else counted(round(length / day), "day")

    @property
    def span(self) -> str:
        """`length` behind "the next", without a number where it is one."""
        return self.length.removeprefix("1 ")

    @property
    def zone(self) -> tzinfo:
        """The zone in which times are shown: that of the calendars, where they have one, else UTC."""
        return common_zone(self.first.time_zones)


def forecast(policies: PolicySet, simulation: Simulation, start: datetime, end: datetime) -> Forecast:
    """Return what the runs from `start` to before `end` come to; `simulation` is played on."""
    recording = Recording(policies, simulation, end)
    for step in simulation.play(start, end):
        recording.take(step)
    return recording.result(start)


class Recording:
    """What was seen so far of a simulation."""

    def __init__(self, policies: PolicySet, simulation: Simulation, end: datetime, *, measured: bool = False) -> None:
        """`measured`: metrics have the values that they had at each time, so that nothing is assumed."""
        self._measured = measured
        self._simulation = simulation
        self._end = end
        self._assumptions = _Assumptions(policies)
        self._last: Step | None = None
        self._first: Plan | None = None
        self._runs = 0
        self._workloads: dict[ObjectRef, Workload] = {}
        self._without: dict[ObjectRef, int] = {}
        self._policy: dict[ObjectRef, tuple[int, str]] = {}
        self._states: dict[ObjectRef, list[tuple[datetime, tuple[int, str] | None]]] = {}  # since when it runs so
        self._held: dict[Hashable, HeldBackPeriod] = {}
        self._over: list[HeldBackPeriod] = []
        self._wakes: list[Wake] = []
        self._undecided: dict[str, str] = {}

    def take(self, step: Step) -> None:
        """Add what a run did; it holds until the next one, or the end."""
        self._runs += 1
        if self._first is None:
            self._first = step.plan
            for workload in scalable_workloads(step.state):
                self._without[workload.ref] = max(_without(workload, step.at), step.had.get(workload.ref, 0))
        self._workloads |= {workload.ref: workload for workload in scalable_workloads(step.state)}
        self._select(step)
        if not self._measured:
            self._assumptions.at(step)
        self._hold_back(step)
        self._undecided |= {undecided.subject: undecided.why for undecided in step.plan.undecided}
        self._wake(step)
        self._extend(step)
        self._last = step

    def _select(self, step: Step) -> None:
        for explanation in step.plan.explanations:
            if explanation.selected and explanation.policy:
                found = (_JOBS.index(explanation.job), policy_title(explanation.job, explanation.policy))
                self._policy[explanation.ref] = min(found, self._policy.get(explanation.ref, found))

    def _extend(self, step: Step) -> None:
        for ref in self._states.keys() - step.replicas.keys():
            self._note(ref, step.at, None)
        for ref, asked in step.replicas.items():
            policy, replicas = self._policy.get(ref, (0, ""))[1], max(0, asked - step.lowered.get(ref, 0))
            assumes = self._assumptions.of(ref, policy, idle=replicas < self._without.get(ref, 0))
            if ref in step.lowered:
                assumes = ", ".join(filter(None, (assumes, LOWER_MINIMUM)))
            self._note(ref, step.at, (replicas, assumes))

    def _note(self, ref: ObjectRef, at: datetime, state: tuple[int, str] | None) -> None:
        """Note how a workload runs from `at` on, where that is not how it ran before; None: it is not there."""
        states = self._states.setdefault(ref, [])
        if not states or states[-1][1] != state:
            states.append((at, state))

    def _hold_back(self, step: Step) -> None:
        now = held_back_in(step.plan, step.at, self._end)
        for key in [key for key in self._held if key not in now]:
            self._over.append(replace(self._held.pop(key), end=step.at))
        for key, held in now.items():
            known = self._held.setdefault(key, held)
            if held.number > known.number:
                self._held[key] = replace(held, start=known.start)

    def _wake(self, step: Step) -> None:
        more = {
            ref: count - step.before.get(ref, 0)
            for ref, count in step.replicas.items()
            if count > step.before.get(ref, 0) and self._has_pods(ref)
        }
        if not more:
            return
        clusters: Counter[str] = Counter()
        needed = PodRequests()
        for ref, pods in more.items():
            clusters[ref.cluster] += pods
            needed += self._simulation.requests(ref).times(pods)
        tiers = Counter(
            action.decision.order[0]
            for action in step.plan.actions
            if action.decision.verb is Verb.WAKE and action.decision.order
            if step.targets.get(action.ref, action.ref) in more
        )
        self._wakes.append(Wake(step.at, sum(more.values()), needed, clusters, tuple(sorted(tiers.items()))))

    def _has_pods(self, ref: ObjectRef) -> bool:
        workload = self._workloads.get(ref)
        return workload is None or workload.kind.counts

    def result(self, start: datetime) -> Forecast:
        first, last = self._first, self._last
        assert first is not None
        assert last is not None
        return Forecast(
            start=start,
            end=self._end,
            tick=self._simulation.tick,
            runs=self._runs,
            first=first,
            timelines=tuple(self._timelines()),
            held_back=tuple(
                sorted([*self._over, *self._held.values()], key=lambda one: (one.start, one.policy, one.clusters))
            ),
            wakes=tuple(self._wakes),
            undecided=dict(sorted(self._undecided.items())),
        )

    def _timelines(self) -> Iterator[WorkloadTimeline]:
        clusters = {} if self._last is None else self._last.state.clusters
        labels = {name: namespace_labels(cluster) for name, cluster in clusters.items()}
        for ref, states in sorted(self._states.items()):
            workload = self._workloads.get(ref)
            spans = pairwise([*states, (self._end, None)])
            own = NOTHING if workload is None else workload.labels
            yield WorkloadTimeline(
                ref=ref,
                policy=self._policy.get(ref, (0, ""))[1],
                without=self._without.get(ref, 0),
                segments=tuple(Segment(at, end, *state) for (at, state), (end, _) in spans if state is not None),
                requests=self._simulation.requests(ref),
                labels={**labels.get(ref.cluster, NOTHING).get(ref.namespace, NOTHING), **own},
                runs=self._has_pods(ref),
            )


def _without(workload: Workload, at: datetime) -> int:
    record = readable_part(workload, at)
    return workload.spec_replicas if record is None else max(workload.spec_replicas, record.replicas)


def total(wakes: Iterable[Wake], within: timedelta) -> Sequence[Wake]:
    """Return `wakes` with those joined that follow one another `within` so long, the largest first."""
    joined: list[Wake] = []
    latest = datetime.min.replace(tzinfo=UTC)
    for wake in sorted(wakes, key=lambda one: one.at):
        follows, latest = wake.at - latest <= within, wake.at
        if follows:
            last = joined[-1]
            clusters = dict(sorted((Counter(last.clusters) + Counter(wake.clusters)).items()))
            tiers = tuple(sorted((Counter(dict(last.tiers)) + Counter(dict(wake.tiers))).items()))
            requests = last.requests + wake.requests
            joined[-1] = Wake(last.at, last.pods + wake.pods, requests, clusters, tiers)
        else:
            joined.append(wake)
    return sorted(joined, key=lambda one: (-one.pods, one.at))


class _Assumptions:
    """What is assumed at the time of the last run that was shown to it."""

    def __init__(self, policies: PolicySet) -> None:
        self._idling = {f"IdlingPolicy {policy.name}": policy for policy in policies.idling}
        self._downscale = {
            f"DownscalePolicy {policy.name}": policy.target.query
            for policy in policies.downscale
            if policy.target is not None and policy.target.query
        }
        self._step: Step | None = None
        self._resting: dict[str, str] = {}
        self._behind: dict[ObjectRef, tuple[ObjectRef, ...]] = {}
        self._known: dict[tuple[str, ObjectRef], str] = {}

    def at(self, step: Step) -> None:
        """Take the time, and what was measured, from `step`."""
        self._step = step
        self._resting = {name: _resting(policy, step) for name, policy in self._idling.items()}
        self._behind |= {one.ref: one.services for one in step.plan.explanations if one.job == "idling"}

    def of(self, ref: ObjectRef, policy: str, *, idle: bool) -> str:
        """Return on which recorded value the replicas of `ref` rest: "requests = 0"; "" for none."""
        if policy in self._downscale:
            return "the value of its target query"
        resting = self._resting.get(policy, "")
        if not resting or (resting == "wakeWhen" and not idle):
            return ""
        if resting == "wakeWhen":
            return "wakeWhen does not hold"
        key = (policy, ref)
        if key not in self._known:
            self._known[key] = ", ".join(self._values(ref, self._idling[policy])) or "metrics as recorded"
        return self._known[key]

    def _values(self, ref: ObjectRef, policy: IdlingPolicy) -> Iterator[str]:
        step = self._step
        assert step is not None
        answers = Answers(ref.cluster, policy.name, step.state.answers, step.at)
        services = [named.name for named in self._behind.get(ref, ())] or [ref.name]
        for metric in policy.metrics:
            series = answers.series(metric.query, metric.window)
            found = {value_for(series, ref.namespace, name) for name in services}
            values = sorted({0.0 if one is None and metric.no_series == "Zero" else one for one in found}, key=str)
            known = [f"{value:.12g}" for value in values if isinstance(value, float)]
            yield f"{metric.name or 'metric'} = {', '.join(known) or 'unknown'}"


def _resting(policy: IdlingPolicy, step: Step) -> str:
    """Return "metric" where the schedules alone do not decide, "wakeWhen" where only that could wake, "" else."""
    blind = Answers("", policy.name, NOTHING, step.at)
    said = evaluator_of(policy, blind)("", None)
    if said.result is CriterionResult.UNKNOWN:
        return "metric"
    return "wakeWhen" if said.may_wake else ""
