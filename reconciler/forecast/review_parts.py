"""A review in its six parts, as words: the same for a terminal and for a comment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import UTC, timedelta, tzinfo
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision
from reconciler.forecast.review import Difference, DifferenceKind, Owned, Review
from reconciler.forecast.text import (
    LineList,
    held_lines,
    legend,
    numbered_cells,
    ruler,
    signed,
    undecided_words,
    zone_of,
)
from reconciler.forecast.timelines import Forecast, WorkloadTimeline
from reconciler.model import ObjectRef
from reconciler.plan.model import Action, Plan
from reconciler.report.groups import Group, Line, grouped
from reconciler.report.summary import blocks_of, held_of
from reconciler.report.text import Style, block_entries, lines_of
from reconciler.report.wording import age, counted, edge, name_of, what_of
from reconciler.untrusted_text import escaped, one_line

_MOST_STEPS = 6
_SHOWN_FIELD = 400


class Part(Struct, frozen=True):
    """One part: `words` are whole sentences."""

    title: str
    words: tuple[str, ...] = ()
    listings: tuple[LineList, ...] = ()


def review_parts(review: Review) -> tuple[Part, ...]:
    """Return the parts of `review` in their order."""
    return (
        Part("", tuple(_headline(review)), tuple(_drift(review))),
        _fields(review),
        _selection(review),
        _timeline(review),
        _now(review),
        _unjudged(review),
    )


# 1. Headline


def _headline(review: Review) -> Iterator[str]:
    if review.problem:
        yield f"Only the policies of this change are shown: {review.problem}"
    if review.head is not None and review.base is not None:
        yield _effect(review, review.head)
    elif not review.problem:
        yield "Only the next run is compared: the days to come are played on a snapshot (--snapshot DIR)."
    if review.differing_outside is not None:
        yield _outside(review.differing_outside)
    if review.fleet_changed:
        fields = ", ".join(review.fleet_changed)
        base = " All of this is planned with that of the base: review it as text." if review.fleet_from_base else ""
        yield f"The Fleet is changed ({fields}).{base}"
    production = [one for one in review.differences if one.production]
    if production:
        runs = _do(len(production), "runs", "run")
        yield f"Production: {counted(len(production), 'workload')} of it {runs} in another way."
    if review.held_back:
        yield f"Limits hold back what this change would do, {counted(len(review.held_back), 'time')}; see the timeline."


def _outside(number: int) -> str:
    more = f": {counted(number, 'more workload')} {_do(number, 'runs', 'run')} in another way" if number else ""
    return f"Only what the filters leave is shown{more}."


def _effect(review: Review, head: Forecast) -> str:
    days = counted(round((head.end - head.start) / timedelta(days=1)), "day")
    found = review.differences
    if not found:
        others = _new(review.next_base, review.next_head)
        if others:
            return f"No workload runs more or less in the next {days}; the next run differs (below)."
        return f"No effect in the next {days}."
    first = edge(min(one.at for one in found), zone_of(head))
    return f"From {first}: {'; '.join(_counts(review))}. {_hours(review)} in {days}."


def _counts(review: Review) -> Iterator[str]:
    found = Counter(one.kind for one in review.differences)
    dark, more, less = found["not woken"], found["idles"], found["idles no longer"]
    if dark:
        wakes, stays = _do(dark, "wakes", "wake"), _do(dark, "stays", "stay")
        yield f"{counted(dark, 'idle workload')} that {wakes} today {stays} idle"
    if more:
        namespaces = {(one.ref.cluster, one.ref.namespace) for one in review.differences if one.kind == "idles"}
        where = counted(len(namespaces), "namespace")
        yield f"{counted(more, 'workload')} in {where} {_idle(more)} that {_do(more, 'does', 'do')} not today"
    if less:
        who = str(less) if more else f"{counted(less, 'workload')} that {_idle(less)} today"
        yield f"{who} no longer {_do(less, 'does', 'do')}"
    for kind, one, many in _KINDS:
        number = found[kind]
        if number:
            yield f"{counted(number, 'workload')} {_do(number, one, many)}"


_KINDS: tuple[tuple[DifferenceKind, str, str], ...] = (
    ("goes lower", "goes down to fewer replicas than today", "go down to fewer replicas than today"),
    ("stays higher", "goes down to more replicas than today", "go down to more replicas than today"),
    ("runs more", "runs more replicas", "run more replicas"),
    ("created", "is created", "are created"),
    ("not created", "is not created any more", "are not created any more"),
    ("at other times", "runs at other times", "run at other times"),
)


def _do(number: int, one: str, many: str) -> str:
    """Return the verb for so many."""
    return one if number == 1 else many


def _idle(number: int) -> str:
    return _do(number, "idles or runs fewer replicas", "idle or run fewer replicas")


def _hours(review: Review) -> str:
    certain = sum(one.certain_hours for one in review.differences)
    all_of_it = sum(one.hours for one in review.differences)
    words = _percented(certain, review.before_hours)
    if round(certain) == round(all_of_it):
        return words
    assumed = f"{_percented(all_of_it, review.before_hours)} if metrics stay as recorded"
    return f"{words}, {assumed}," if round(certain) else f"{assumed},"


def _percented(hours: float, before: float) -> str:
    share = f" ({signed(100 * hours / before)} %)" if before else ""
    return f"{signed(hours)} replica-hours{share}"


def _drift(review: Review) -> Iterator[LineList]:
    base = review.next_base
    if base is None:
        return
    known = {_identity(action.decision) for action in base.actions}
    same = [action for action in review.next_head.actions if _identity(action.decision) in known]
    if same:
        words = f"{counted(len(same), 'change')} that the next run makes with this change or without it"
        yield LineList(words, tuple(_lines(grouped(review.next_head, same))), folded=True)


# 2. Fields changed


def _fields(review: Review) -> Part:
    changes = review.changes
    if review.problem:
        return Part("Fields changed", ("There is nothing to compare with.",))
    if changes.none:
        return Part("Fields changed", ("No policy says anything else.",))
    owned = {one.policy: one for one in review.owned}
    zone = UTC if review.head is None else zone_of(review.head)
    listings = [
        LineList(f"{one.before} is now called {one.after}", tuple(_owned(owned.get(one.before), zone)))
        for one in changes.renamed
    ]
    listings += [LineList(f"{name} is removed", tuple(_owned(owned.get(name), zone))) for name in changes.removed]
    listings += [LineList(f"{name} is new") for name in changes.added]
    by_policy: dict[str, list[str]] = {}
    for one in changes.fields:
        by_policy.setdefault(one.policy, []).append(f"{one.field}: {_cut(one.before)} -> {_cut(one.after)}")
    if "metadata.name" in (one.field for one in changes.fields if one.policy == "Fleet"):
        by_policy["Fleet"] += _left_by_the_fleet(review)
    listings += [LineList(name, tuple(lines)) for name, lines in by_policy.items()]
    return Part("Fields changed", (), tuple(listings))


def _left_by_the_fleet(review: Review) -> Iterator[str]:
    """What a Fleet that is renamed keeps idle is left as it is by every run from then on."""
    idle = len({one.ref for one in review.base.first.explanations if one.idled is not None}) if review.base else 0
    if idle:
        words = f"{counted(idle, 'workload')} idled under the former name {_do(idle, 'stays', 'stay')} idle"
        yield f"{words}; first run `reconciler restore --all --hold 12h`"


def _owned(owned: Owned | None, zone: tzinfo) -> Iterator[str]:
    if owned is None or not owned.idle:
        return
    left = owned.idle - owned.unchanged - sum(number for _, number in owned.woken)
    of_all = f"of the {counted(owned.idle, 'workload')} it keeps idle"
    if owned.unchanged:
        yield f"{owned.unchanged} {of_all} {_do(owned.unchanged, 'runs', 'run')} as without this change"
    yield from (f"{number} {of_all} {_do(number, 'wakes', 'wake')} on {edge(at, zone)}" for at, number in owned.woken)
    if left:
        yield f"{left} {of_all} {_do(left, 'stays', 'stay')} idle"


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHOWN_FIELD else f"{line[:_SHOWN_FIELD]}... ({len(line)} characters)"


# 3. Selection


def _selection(review: Review) -> Part:
    title = "Newly selected, no longer selected, now protected"
    found = (
        ("newly selected", review.newly_selected),
        ("no longer selected", review.no_longer_selected),
        ("now protected", review.newly_protected),
    )
    listings = [listing for words, refs in found for listing in _refs(words, refs, review.production)]
    if not listings:
        return Part(title, ("The same objects are selected as before.",))
    return Part(title, (), tuple(sorted(listings, key=lambda one: one.folded)))


def _refs(words: str, refs: Sequence[ObjectRef], production: frozenset[ObjectRef]) -> Iterator[LineList]:
    named = [name_of(ref) for ref in sorted(refs) if ref in production]
    others = [name_of(ref) for ref in sorted(refs) if ref not in production]
    if named:
        yield LineList(f"Production: {counted(len(named), 'object')} {words}", tuple(named))
    if others:
        yield LineList(f"{counted(len(others), 'object')} {words}", tuple(others), folded=True)


# 4. Timeline


def _timeline(review: Review) -> Part:
    if review.head is None or review.base is None:
        return Part("Timeline", ("There is no other forecast to compare with.",))
    found = review.differences
    if not found and not review.held_back:
        return Part("Timeline", ("The same as before.",))
    zone = zone_of(review.head)
    listings = list(_limits(review, review.head, zone))
    for production in (True, False):
        some = [one for one in found if one.production is production]
        if some:
            who = f"{'Production: ' if production else ''}{counted(len(some), 'workload')}"
            words = f"{who} that {_do(len(some), 'runs', 'run')} in another way"
            listings.append(LineList(words, tuple(_pictures(some, review.base, review.head))))
            listings.append(LineList("When, step by step", tuple(_steps(some, zone)), folded=not production))
    return Part("Timeline", (), tuple(listings))


def _limits(review: Review, head: Forecast, zone: tzinfo) -> Iterator[LineList]:
    lines = list(chain.from_iterable(held_lines(review.held_back, head.end, zone)))
    if lines:
        yield LineList("Held back by limits with this change", tuple(lines))


def _alike(found: Sequence[Difference]) -> list[list[Difference]]:
    """Return the workloads of a namespace that differ in the same way together, in order."""
    groups: dict[tuple[object, ...], list[Difference]] = {}
    for one in found:
        steps = (
            one.before and (one.before.without, one.before.steps),
            one.after and (one.after.without, one.after.steps),
        )
        groups.setdefault((one.ref.cluster, one.ref.namespace, *steps), []).append(one)
    return list(groups.values())


def _pictures(found: Sequence[Difference], base: Forecast, head: Forecast) -> Iterator[str]:
    """Yield two rows for all workloads that differ in the same way, before and after, below what they are called.

    A week stands in fewer than 100 columns, which is what the page of a code host shows without cutting.
    """
    zone = zone_of(head)
    yield f"{'':7}{ruler(head, zone)}".rstrip()
    for some in _alike(found):
        yield _called(some)
        yield f"before {_cells(some[0].before, base)}".rstrip()
        yield f"after  {_cells(some[0].after, head)}".rstrip()
    yield f"({legend(blocks=False)};"
    yield f" a number where replicas change; 2 hours each, days in {zone})"


def _called(found: Sequence[Difference]) -> str:
    first = found[0].ref
    return name_of(first) if len(found) == 1 else f"{one_line(f'{first.cluster}/{first.namespace}')} ({len(found)})"


def _cells(one: WorkloadTimeline | None, made: Forecast) -> str:
    if one is None:
        return ""
    return numbered_cells(one, made)


def _steps(found: Sequence[Difference], zone: tzinfo) -> Iterator[str]:
    for some in _alike(found):
        for one in some:
            yield f"{name_of(one.ref)}  {signed(one.hours)} replica-hours"
        yield from _runs(some[0], zone)


def _runs(one: Difference, zone: tzinfo) -> Iterator[str]:
    for words, timeline in (("before", one.before), ("after", one.after)):
        if timeline is None:
            yield f"  {words:6}  not there"
            continue
        steps = [f"{edge(at, zone)} {replicas}" for at, replicas in timeline.steps]
        more = f", and {len(steps) - _MOST_STEPS} more" if len(steps) > _MOST_STEPS else ""
        assumes = next((one_line(segment.assumes) for segment in timeline.segments if segment.assumes), "")
        resting = f" (assumes {assumes})" if assumes else ""
        yield f"  {words:6}  {', '.join(steps[:_MOST_STEPS])}{more}{resting}"


# 5. Now


def _identity(decision: Decision) -> Hashable:
    """What makes a change of base and one of head the same: the object and what becomes of it, whatever the reason."""
    return (decision.ref, decision.verb, what_of(decision))


def _new(base: Plan | None, head: Plan) -> tuple[list[Action], list[Action]] | None:
    """Return what only the next run of head does, and what only that of base does; None: the same."""
    if base is None:
        return None
    known = {_identity(action.decision) for action in base.actions}
    wanted = {_identity(action.decision) for action in head.actions}
    new = [action for action in head.actions if _identity(action.decision) not in known]
    changed = {action.ref for action in new}
    gone = [action for action in base.actions if _identity(action.decision) not in wanted and action.ref not in changed]
    return (new, gone) if new or gone else None


def _now(review: Review) -> Part:
    title = "Now"
    if review.next_base is None:
        found = grouped(review.next_head, review.next_head.actions)
        words = "What the next run does with these policies:" if found else "The next run does nothing."
        return Part(title, (words,), (*_groups(found), *_said(review.next_head)))
    differing = _new(review.next_base, review.next_head)
    if differing is None:
        words = "The next run does exactly what it would do without this change."
        return Part(title, (words,), tuple(_said(review.next_head)))
    new, gone = differing
    instead = {action.ref: what_of(action.decision) for action in review.next_base.actions}
    listings = [*_groups(_beside(group, instead) for group in grouped(review.next_head, new))]
    if gone:
        lines = _lines(grouped(review.next_base, gone))
        listings.append(LineList(f"{counted(len(gone), 'change')} no longer made", tuple(lines)))
    return Part(title, (), (*listings, *_said(review.next_head)))


def _said(made: Plan) -> Iterator[LineList]:
    """Yield what else the next run says."""
    for held in held_of(made):
        yield LineList(f"Held back: {held.what}", (held.where,) if held.where else ())
    for block in blocks_of(made):
        yield LineList(block.title, (*block_entries(block), *_lines(block.groups)), folded=True)


def _beside(group: Group, instead: dict[ObjectRef, str]) -> Group:
    """Return `group` with what its lines replace."""
    return replace(group, lines=tuple(_instead(line, instead) for line in group.lines))


def _instead(line: Line, instead: dict[ObjectRef, str]) -> Line:
    former = instead.get(line.action.ref)
    return line if former is None else replace(line, reason=f"{line.reason} (instead of {former})".lstrip())


def _groups(groups: Iterable[Group]) -> Iterator[LineList]:
    updates: list[Line] = []
    for group in groups:
        updates += group.updates
        if group.lines:
            yield LineList(group.heading, tuple(lines_of(group.lines, None, _PLAIN)))
    if updates:
        yield LineList(counted(len(updates), "metadata update"), tuple(lines_of(updates, None, _PLAIN)), folded=True)


def _lines(groups: Iterable[Group]) -> Iterator[str]:
    for group in groups:
        yield group.heading
        yield from lines_of((*group.lines, *group.updates), None, _PLAIN)


_PLAIN = Style()


# 6. Could not be judged


def _unjudged(review: Review) -> Part:
    title = "Could not be judged"
    lines = [*review.notes]
    if review.head is not None:
        lines += undecided_words(review.head)
    else:
        lines += [f"{one_line(name)}: {one_line(why)}" for name, why in review.next_head.unknown.items()]
    rows = [
        "  ".join(filter(None, (key.cluster, key.policy, key.template, key.window)))
        for key in sorted(review.next_head.unanswered)
    ]
    words = [_recorded(review)] if review.head is not None else []
    listings = []
    if rows:
        queries, them = (counted(len(rows), "query", "queries"), "it" if len(rows) == 1 else "them")
        missing = f"The snapshot holds no answer to {queries}; what depends on {them} is not decided here"
        listings.append(LineList(missing, tuple(escaped(row) for row in rows)))
    if lines:
        listings.append(LineList("What is unknown", tuple(lines)))
    if not listings and not review.next_head.undecided:
        words.append("Every query of the policies has an answer, and every cluster was read.")
    return Part(title, tuple(words), tuple(listings))


def _recorded(review: Review) -> str:
    if review.snapshot_age is None:
        return "The snapshot does not say when it was recorded: it may be of any age."
    return f"The snapshot is {age(review.snapshot_age)} old."
