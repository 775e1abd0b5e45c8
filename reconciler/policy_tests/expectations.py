"""What runs did to a workload, whether that is what was expected, and what no case covered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.outcomes import OutcomeStatus
from reconciler.decide.decisions import KIND_OF_JOB, Decision, PolicyExplanation, Verb, policy_title
from reconciler.decide.limit_amounts import spellings_of
from reconciler.forecast.policy_reach import selecting_policies
from reconciler.forecast.simulation import Step
from reconciler.messages import nearest
from reconciler.model import ObjectRef
from reconciler.policy.kinds.fields import given
from reconciler.policy.kinds.policy_test import ExpectFields
from reconciler.policy.policy_kinds import policies_of
from reconciler.policy.types import Place, PolicySet
from reconciler.policy_tests.cases import Expectation, Moment
from reconciler.report.change_words import name_of, verb_of
from reconciler.report.times import reasons_in
from reconciler.workload_kinds import names_kind

Touched = tuple[str, str, str]
"""Kind and name of a policy that selects a judged workload, and what a run did with that, "" for nothing."""


class Unmet(Struct, frozen=True):
    """What was not as expected: of which workload, when, and the reasons that the run gave."""

    place: Place
    at: datetime
    subject: str
    expected: str
    got: str
    reasons: tuple[str, ...] = ()


class _Run(Struct, frozen=True):
    """A run by workload: what its policies say of it, what is planned for it, which policies may idle or lower it, and
    which are idle after it.
    """

    step: Step
    explained: Mapping[ObjectRef, tuple[PolicyExplanation, ...]]
    planned: Mapping[ObjectRef, tuple[Decision, ...]]
    selecting: Mapping[ObjectRef, tuple[str, ...]]
    idle: frozenset[ObjectRef]

    @classmethod
    def of(cls, step: Step) -> _Run:
        explained: dict[ObjectRef, tuple[PolicyExplanation, ...]] = {}
        for explanation in step.plan.explanations:
            explained[explanation.ref] = (*explained.get(explanation.ref, ()), explanation)
        planned: dict[ObjectRef, tuple[Decision, ...]] = {}
        for decision in (*(action.decision for action in step.plan.actions), *step.plan.observed):
            planned[decision.ref] = (*planned.get(decision.ref, ()), decision)
        return cls(step, explained, planned, selecting_policies(step.plan), frozenset(_idle_after(step)))


def _idle_after(step: Step) -> set[ObjectRef]:
    """Return the workloads that stand at their idle replicas because of a policy once `step` is done.

    What KEDA scales is idle where its ScaledObject is; a CronJob has no replicas, and is idle all the same.
    """
    idle = {explanation.ref for explanation in step.plan.explanations if explanation.idled is not None}
    done = {outcome.action for outcome in step.outcomes if outcome.status is OutcomeStatus.APPLIED}
    for action in step.plan.actions:
        decision = action.decision
        if action.id not in done or decision.job != "idling":
            continue
        ref = step.targets.get(decision.ref, decision.ref)
        if decision.verb is Verb.IDLE:
            idle.add(ref)
        elif decision.verb in (Verb.WAKE, Verb.RELEASE):
            idle.discard(ref)
    return idle


def judged(moment: Moment, steps: Sequence[Step]) -> tuple[list[Unmet], set[Touched]]:
    """Return what is not as `moment` expects in its runs, of which there is at least one, and what was looked at."""
    runs = [_Run.of(step) for step in steps]
    names = {ref: [ref] for ref in steps[0].replicas}
    for autoscaler, target in steps[0].targets.items():
        if target in names:
            names[target].append(autoscaler)
    failures: list[Unmet] = []
    touched: set[Touched] = set()
    for expectation in moment.expected:
        refs = [ref for ref, known in names.items() if any(_is_meant(one, expectation.fields) for one in known)]
        failures += _failures(expectation, refs, moment, runs) if refs else [_nobody(expectation, steps[0])]
        failures += _unread(expectation, steps[0])
        touched |= {row for run in runs for ref in refs for row in _rows(run, ref)}
    return failures, touched


def _is_meant(ref: ObjectRef, fields: ExpectFields) -> bool:
    named, kinds = given(fields.object), given(fields.kinds)
    if named is not None:
        cluster, namespace, kind, name = named.split("/", 3)
        return (ref.cluster, ref.namespace, ref.name) == (cluster, namespace, name) and names_kind(kind, ref.kind)
    return (
        any(fnmatchcase(ref.namespace, pattern) for pattern in given(fields.namespaces) or ())
        and _is_on(ref.cluster, fields)
        and (kinds is None or any(names_kind(kind, ref.kind) for kind in kinds))
    )


def _is_on(cluster: str, fields: ExpectFields) -> bool:
    return any(fnmatchcase(cluster, pattern) for pattern in given(fields.clusters) or ("*",))


def _nobody(expectation: Expectation, step: Step) -> Unmet:
    """Return that no workload is meant: an expectation of nothing would always hold."""
    named = given(expectation.fields.object)
    subject = named or f"namespaces {', '.join(given(expectation.fields.namespaces) or ())}"
    near = nearest(named, [name_of(ref) for ref in step.replicas]) if named else ""
    return Unmet(expectation.place, step.at, subject, "a workload", f"none of that name{near}")


def _unread(expectation: Expectation, step: Step) -> Iterator[Unmet]:
    """Yield the clusters that are meant by a pattern and could not be read: nobody knows what holds there."""
    if given(expectation.fields.object) is not None:
        return  # it is missing then
    for cluster, why in step.plan.unknown_clusters.items():
        if _is_on(cluster, expectation.fields):
            yield Unmet(expectation.place, step.at, f"cluster {cluster}", "a cluster that can be read", why)


def _failures(one: Expectation, refs: Sequence[ObjectRef], moment: Moment, runs: Sequence[_Run]) -> list[Unmet]:
    """Return the first failure of those of all `refs`, and how many more there are."""
    found = [failure for ref in refs if (failure := _failure(one, ref, moment, runs)) is not None]
    if len(found) < 2:
        return found
    first = min(found, key=lambda failure: failure.at)
    return [replace(first, subject=f"{first.subject}, and {len(found) - 1} more,")]


def _failure(one: Expectation, ref: ObjectRef, moment: Moment, runs: Sequence[_Run]) -> Unmet | None:
    name = name_of(ref)
    for run in _looked_at(one, moment, runs):
        wrong = [(expected, got) for expected, got, holds in _checks(one.fields, ref, run) if not holds]
        if wrong:
            until = f" until {reasons_in(run.step.plan).time(one.until)}" if one.until is not None else ""
            expected = ", ".join(expected for expected, _ in wrong) + until
            got = ", ".join(got for _, got in wrong)
            return Unmet(one.place, run.step.at, name, expected, got, _lines(run, ref))
    last = next(run for run in reversed(runs) if one.ended is None or run.step.at < one.ended)
    checks = list(_checks(one.fields, ref, last))
    if one.until is None or not all(holds for *_, holds in checks):
        return None
    expected = f"{', '.join(words for words, *_ in checks)} until {reasons_in(last.step.plan).time(one.until)}"
    return Unmet(one.place, last.step.at, name, expected, "it still holds", _lines(last, ref))


def _looked_at(expectation: Expectation, moment: Moment, runs: Sequence[_Run]) -> Iterator[_Run]:
    """Yield the runs in which `expectation` must hold: the first, those before its end, or all of a period."""
    for run in runs:
        at = run.step.at
        if at == moment.start or moment.is_period or (expectation.until is not None and at < expectation.until):
            yield run


def _checks(fields: ExpectFields, ref: ObjectRef, run: _Run) -> Iterator[tuple[str, str, bool]]:
    """Yield for each thing that is expected what that is, what there is, and whether it holds."""
    replicas, policy, reason = given(fields.replicas), given(fields.policy), given(fields.reason)
    state, never = given(fields.state), given(fields.never)
    now = "idle" if ref in run.idle else "awake"
    if replicas is not None:
        found = run.step.replicas.get(ref)
        yield f"replicas {replicas}", f"replicas {'unknown' if found is None else found}", found == replicas
    if state is not None:
        yield state, now, now == state
    if never == "selected":
        selecting = run.selecting.get(ref, ())
        yield "never selected", f"selected by {', '.join(selecting) or 'none'}", not selecting
    elif never is not None:
        yield f"never {never}", now, now != never
    if policy is not None:
        names = sorted({one.policy for one in run.explained.get(ref, ()) if one.selected}) or ["none"]
        yield f"policy {policy}", f"policy {', '.join(names)}", any(policy in spellings_of(name) for name in names)
    if reason is not None:
        codes = list(dict.fromkeys(code for _, said in _reasons(run, ref) for code in said))
        yield f"reason {reason}", f"reason {', '.join(codes) or 'none'}", reason in codes


def _lines(run: _Run, ref: ObjectRef) -> tuple[str, ...]:
    return tuple(line for line, _ in _reasons(run, ref))


def _reasons(run: _Run, ref: ObjectRef) -> Iterator[tuple[str, list[str]]]:
    """Yield what each policy says of a workload, with its file and line, and the codes of its reasons; what changes it
    comes first.
    """
    plan = run.step.plan
    clock = reasons_in(plan)

    def name(job: str, policy: str) -> str:
        name = policy_title(job, policy)
        return f"{name} ({plan.places[name]})" if name in plan.places else name

    for decision in run.planned.get(ref, ()):
        cause = decision.cause
        words = f"{name(decision.job, decision.policy)}: {verb_of(decision)}: {clock.reason(cause.reasons)}"
        yield words, [why.code for why in cause.reasons]
    for held in plan.held_back:
        for decision in held.decisions:
            if decision.ref == ref:
                yield f"{name(decision.job, decision.policy)}: {verb_of(decision)} is held back: {held.why}", []
    for one in run.explained.get(ref, ()):
        words = f"{name(one.job, one.policy)}: {one.outcome}: {clock.reason(one.reasons)}"
        yield words, [reason.code for reason in one.reasons]


def _rows(run: _Run, ref: ObjectRef) -> Iterator[Touched]:
    for explanation in run.explained.get(ref, ()):
        if explanation.selected:
            yield KIND_OF_JOB[explanation.job], explanation.policy, ""
    for decision in run.planned.get(ref, ()):
        yield KIND_OF_JOB[decision.job], decision.policy, verb_of(decision)


_DECISIONS = {
    "IdlingPolicy": ("idle", "wake"),
    "DownscalePolicy": ("scale down",),
    "FederatedReplicaSet": ("scale up", "scale down"),
}
_SAME = {"move in": "scale up", "move out": "scale down", "create": "scale up"}


class PolicyCoverage(Struct, frozen=True):
    """One policy: whether a workload that it selects was judged, and which decisions were seen and not seen there."""

    kind: str
    name: str
    place: Place
    is_touched: bool
    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def coverage(policies: PolicySet, touched: Collection[Touched]) -> tuple[PolicyCoverage, ...]:
    """Return the coverage of each policy, in the order of kinds and names."""
    found: dict[tuple[str, str], set[str]] = {}
    for kind, name, decision in touched:
        found.setdefault((kind, name), set()).add(_SAME.get(decision, decision))
    return tuple(
        PolicyCoverage(
            kind,
            name,
            policy.place,
            (kind, name) in found,
            tuple(one for one in decisions if one in found.get((kind, name), ())),
            tuple(one for one in decisions if one not in found.get((kind, name), ())),
        )
        for kind, decisions in _DECISIONS.items()
        for policy in policies_of(policies, kind)
        for name in (getattr(policy, "key", policy.name),)  # as plans call it
    )
