"""A report beside its changes: its heading, what became of each change, what is held back, and the last lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.decisions import LimitUse
from reconciler.decide.limit_amounts import FLEET_DEFAULT
from reconciler.messages import counted
from reconciler.model import ObjectRef
from reconciler.plan.effects import Effect, added, effect_of
from reconciler.plan.model import Action, Plan
from reconciler.plan.order import numbered_actions
from reconciler.report.change_words import counted_changes
from reconciler.report.groups import Line, PolicyGroup, bracketed, grouped, made_at, updates_of
from reconciler.report.times import age
from reconciler.untrusted_text import one_line

NOT_APPROVED = "not approved"


def went_well(action: Action, outcomes: Mapping[int, Outcome] | None) -> bool:
    """Return whether there is nothing to say of `action`: it was applied as planned, or not tried yet (None)."""
    if outcomes is None:
        return True
    found = outcomes.get(action.id)
    as_planned = found is not None and not (found.message or found.missed or found.substituted)
    return as_planned and found is not None and found.status is OutcomeStatus.APPLIED


def outcome_word(outcome: Outcome | None) -> str:
    """Return the word for what became of a change; None: it was planned, but not chosen."""
    return NOT_APPROVED if outcome is None else str(outcome.status)


def words_of(outcome: Outcome | None) -> Iterator[str]:
    """Yield what became of a change and why, and how many of the chosen pods were deleted."""
    message = one_line(outcome.message) if outcome is not None else ""
    yield f"{outcome_word(outcome)}: {message}" if message else outcome_word(outcome)
    chosen = 0 if outcome is None else outcome.hit + outcome.missed
    if outcome is not None and chosen:
        words = [f"deleted {outcome.hit} of {counted(chosen, 'chosen pod')}"]
        words += [f"{outcome.missed} still there"] if outcome.missed else []
        words += [f"{counted(outcome.substituted, 'other pod')} deleted instead"] if outcome.substituted else []
        yield ", ".join(words)


_UNSETTLED = ("frozen", "aboveShare", "equalPriorities", "unknownQuery")
_FEWER = (Effect.IDLE, Effect.DOWN, Effect.DELETE)
_COUNTED_VERBS = (
    *("create", "delete", "idle", "wake", "scale up", "scale down", "move", "overwrite", "adopt", "release"),
    *("autoscaler", "update"),
)


class Held(Struct, frozen=True):
    """What limits hold back of one policy, or a guard: `what` is too much, and what lets it through, `where` it is."""

    what: str
    where: str
    groups: tuple[PolicyGroup, ...]

    @property
    def number(self) -> int:
        """Return how many changes these are, metadata updates aside where there are others."""
        return sum(len(group.lines) for group in self.groups) or sum(len(group.updates) for group in self.groups)


class Report(Struct, frozen=True):
    """What every form shows of a plan, or of its apply: `title` and `source` stand around the Fleet's name.

    `outcomes` are those of an apply, by change, None of a plan alone; `last` are its last lines.
    """

    title: str
    source: str
    groups: tuple[PolicyGroup, ...]
    outcomes: Mapping[int, Outcome] | None
    last: tuple[str, ...]


def report_of(
    plan: Plan, outcomes: Sequence[Outcome] | None, *, everything: bool = True, title: str = "", nothing: str = ""
) -> Report:
    """Return what is shown of `plan`, or with `outcomes` of its apply.

    `title` takes the place of the usual words. Without `everything` the last lines say how metadata updates are shown.
    `nothing` is what they say where nothing is to be done, "" for that the clusters match the policies.
    """
    by_action = None if outcomes is None else {outcome.action: outcome for outcome in outcomes}
    groups = grouped(plan, plan.actions, lambda action: not went_well(action, by_action))
    if outcomes is None or not plan.actions:
        last = _plan_summary(plan, groups, everything, nothing)
    else:
        last = _apply_summary(plan, outcomes)
    usual = "Plan for Fleet" if outcomes is None else "Apply to Fleet"
    return Report(title or usual, source_of(plan), groups, by_action, last)


def source_of(plan: Plan) -> str:
    """Return in brackets of what clusters `plan` is, and when it was made."""
    source = "snapshot" if plan.source == "snapshot" else "live"
    return f"({f'shard {plan.shard}, ' if plan.shard else ''}{source}, {made_at(plan)})"


def held_of(plan: Plan) -> tuple[Held, ...]:
    """Return what limits and guards hold back."""
    found = []
    for held in plan.held_back:
        groups = grouped(plan, numbered_actions(held.decisions))
        where = _where([line.decision.ref for group in groups for line in group.lines])
        found.append(Held(one_line(held.why), where, groups))
    return tuple(found)


def held_title(held: Sequence[Held]) -> str:
    """Return the heading above what is held back."""
    return f"Held back: {counted(sum(limited.number for limited in held), 'change')}"


def _where(refs: Sequence[ObjectRef]) -> str:
    """Return how many objects lie where: by namespace, with its cluster where there are several."""
    several = len({ref.cluster for ref in refs}) > 1
    found = Counter(f"{ref.cluster}/{ref.namespace}" if several else ref.namespace for ref in refs)
    return one_line(", ".join(f"{name} {count}" for name, count in sorted(found.items())))


def _plan_summary(plan: Plan, groups: Sequence[PolicyGroup], everything: bool, nothing: str) -> tuple[str, ...]:
    lines = [line for group in groups for line in group.lines]
    updates = sum(len(group.updates) for group in groups)
    shown = f"{updates_of(updates)}{'' if everything else ' (-v)'}." if updates else ""
    rest = _joined((sum(held.number for held in held_of(plan)), "held back"), (len(plan.undecided), "undecided"))
    rest = ", ".join(filter(None, [rest, _joined((len(plan.unknown), "unknown"))]))
    dropped = [f"{counted(plan.dropped, 'change')} excluded by filters."] if plan.dropped else []
    last = (*_without_workloads(plan), *dropped)
    if not lines and not rest:
        first = f"No scale changes. {shown}" if shown else _nothing(plan, nothing)
        return (" ".join([first, *_kept_up(plan)]), *last)
    first = f"Plan: {_numbers(lines)}{f'; {rest}' if rest else ''}."
    if not plan.clusters:
        first = f"No cluster can be read. {first}"
    down = any(line.decision.removed > 0 or effect_of(line.decision) in _FEWER for line in lines)
    limits = _limits(plan.limits) if plan.held_back or down else ()
    return (first, f"{_replicas(lines)} {shown}".rstrip(), *limits, *last)


def _nothing(plan: Plan, words: str) -> str:
    """Return what a plan without changes says: that all is well only where nothing else is to be said."""
    if plan.observed:
        return f"No changes; {counted_changes(plan.observed)} observed only, never applied (mode: Observe)."
    drained = [one_line(notice.subject) for notice in plan.notices if notice.kind == "drainKeeps"]
    if drained:
        return f"No changes. The drain is not finished: {', '.join(drained)}."
    settled = not plan.dropped and not any(said.partial or said.kind in _UNSETTLED for said in plan.notices)
    if words and settled:
        return words if not plan.notices else f"{words.partition(':')[0]}."
    if not settled or plan.kept_up or plan.without_workloads or plan.only_production:
        return "No changes."
    return "No changes. The clusters match the policies."


def _without_workloads(plan: Plan) -> Iterator[str]:
    for where, some in (("", plan.without_workloads), (" outside production", plan.only_production)):
        named = [one_line(f"{name}{bracketed(plan.places.get(name, ''))}") for name in some]
        if named:
            yield f"No workload{where} is selected by {', '.join(named)}."


def _kept_up(plan: Plan) -> Iterator[str]:
    """Yield how many workloads only time or a rollout keeps from being idled, and how long: who has just made,
    changed or woken them wonders.
    """
    for kept in plan.kept_up:
        number, by = counted(kept.number, "workload"), one_line(kept.by)
        if kept.until is None:
            yield f"{number} {'stays' if kept.number == 1 else 'stay'} awake because of {by}."
        else:
            verb, longest = ("waits", "") if kept.number == 1 else ("wait", ", the last")
            yield f"{number} {verb} for {by}{longest} for another {age(kept.until - plan.made_at)}."


def _apply_summary(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    from reconciler.report.json import totals_of  # the JSON documents are not loaded for a plan as text

    totals = totals_of(plan, outcomes)
    groups = grouped(plan, plan.actions)
    lines = [line for group in groups for line in group.lines]
    updates = [line for group in groups for line in group.updates]
    applied = {outcome.action for outcome in outcomes if outcome.status is OutcomeStatus.APPLIED}
    done = [line for line in lines if line.action.id in applied]
    rest = _joined(
        (totals.stale, "stale"),
        (totals.failed, "failed"),
        (totals.skipped, "skipped"),
        (totals.deferred, "deferred"),
        (totals.not_chosen, "not approved"),
    )
    words = [f"{len(done)} of {counted(len(lines), 'change')}" + (f" ({_kinds(done)})" if done else "")] * bool(lines)
    words += [f"{sum(line.action.id in applied for line in updates)} of {updates_of(len(updates))}"] * bool(updates)
    return (f"Applied: {', '.join(words)}{f'; {rest}' if rest else ''}.", _replicas(done))


def _numbers(lines: Sequence[Line]) -> str:
    signs = Counter(line.verb if line.verb in ("create", "delete") else "change" for line in lines)
    kinds = _kinds([line for line in lines if line.verb not in ("create", "delete")])
    changed = f"{signs['change']} to change{f' ({kinds})' if kinds else ''}"
    return f"{signs['create']} to create, {changed}, {signs['delete']} to delete"


def _kinds(lines: Iterable[Line]) -> str:
    verbs: Counter[str] = Counter()
    for line in lines:
        is_of_hpa = line.decision.ref.kind == "HorizontalPodAutoscaler" and effect_of(line.decision) is Effect.UPDATE
        verbs["autoscaler" if is_of_hpa else "move" if line.verb.startswith("move") else line.verb] += 1
    return _joined(*((verbs[verb], verb) for verb in _COUNTED_VERBS))


def _joined(*counts: tuple[int, str]) -> str:
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def _replicas(lines: Sequence[Line]) -> str:
    fewer, more = Counter[str](), Counter[str]()
    for decision in (line.decision for line in lines):
        fewer[decision.ref.cluster] += decision.removed
        more[decision.ref.cluster] += added(decision)
    pairs = ((+fewer, "fewer"), (+more, "more"))
    words = []
    for found, word in pairs:
        several = ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
        words += [f"{found.total()} {word} ({several if len(found) > 1 else next(iter(found))})"] if found else []
    return one_line(f"Replicas: {', '.join(words) or 'no change'}.")


def _limits(limits: Sequence[LimitUse]) -> Iterator[str]:
    """Yield how much of each limit is used; of the Fleet's default that is shown which comes nearest to its end.

    Beyond a limit nothing is used, but held back, or allowed for once.
    """
    nearest: dict[tuple[str, str], LimitUse] = {}
    for use in sorted(limits, key=lambda use: -use.used / max(1, use.allowed)):
        if use.used:
            nearest.setdefault((use.name, use.unit), use)
    words = []
    for use in sorted(nearest.values(), key=lambda use: (use.name, use.unit == "replicas")):
        where = f"in {use.cluster or 'all clusters'}" if use.name == FLEET_DEFAULT else f"of {use.name}"
        words.append(one_line(f"{counted(use.used, use.unit.removesuffix('s'))} {where}, limit {use.allowed}"))
    if words:
        yield f"Limits: {'; '.join(words)}."
