"""What a review has folded away: fields, all names, the next run, what could not be judged; as words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.forecast.review import (
    ChangedWorkload,
    Owned,
    Review,
    SelectionChange,
    identity_of,
    idle_in,
    next_run_differs,
)
from reconciler.forecast.text import MOST_CLUSTERS, LineList, undecided_words, wake_lines
from reconciler.messages import counted
from reconciler.model import ObjectRef, by_key
from reconciler.plan.model import Plan
from reconciler.report.change_words import name_of, what_of
from reconciler.report.groups import Line, PolicyGroup, blocks_of, grouped
from reconciler.report.summary import held_of
from reconciler.report.text import block_entries, lines_of
from reconciler.report.times import age, weekday_and_time
from reconciler.untrusted_text import escaped, one_line

T = TypeVar("T")
_SHOWN_FIELD = 400


class ReviewPart(Struct, frozen=True):
    """One part: `words` are whole sentences. `folded`: a comment shows it only when asked to."""

    title: str
    words: tuple[str, ...] = ()
    listings: tuple[LineList, ...] = ()
    folded: bool = False


def details_of(review: Review) -> Iterator[ReviewPart]:
    """Yield what is folded away; where nothing can be compared the next run is not."""
    compared = review.head is not None and review.base is not None
    for part in (_fields, _selection, _names, _capacity, _now, _unjudged, _drift):
        yield replace(part(review), folded=compared or part is not _now)


_SELECTION_WORDS = {
    SelectionChange.NEWLY_SELECTED: "newly selected",
    SelectionChange.NO_LONGER_SELECTED: "no longer selected",
    SelectionChange.NEWLY_PROTECTED: "now protected",
    SelectionChange.NO_LONGER_PRODUCTION: "no longer production",
    SelectionChange.NEWLY_PRODUCTION: "now production",
    SelectionChange.LEFT_OUT: "left out, because no policy that selects them says production: true",
}


def selected(review: Review) -> Iterator[tuple[str, frozenset[ObjectRef]]]:
    """Yield which workloads become selected or production, or no longer are, each in words."""
    yield from ((words, refs) for change, words in _SELECTION_WORDS.items() if (refs := review.selection.get(change)))


def verb(number: int, one: str, many: str) -> str:
    """Return the verb for so many."""
    return one if number == 1 else many


def called(refs: Sequence[ObjectRef]) -> str:
    """Return what some workloads are called: one by its name, several by where they are and their number."""
    if len(refs) == 1:
        return name_of(refs[0])
    clusters, spaces = ({getattr(ref, part) for ref in refs} for part in ("cluster", "namespace"))
    where = f"{len(spaces)} namespaces" if len(spaces) > 1 else one_line(f"{refs[0].namespace}")
    if len(clusters) == 1:
        own = one_line(refs[0].cluster)
        return f"{own}/{where} ({len(refs)})" if len(spaces) == 1 else f"{where} of {own} ({len(refs)})"
    return f"{where} in {len(clusters)} clusters ({len(refs)})"


def alike(alike: Sequence[ChangedWorkload], most: int) -> list[list[ChangedWorkload]]:
    """Return the workloads that differ in the same way together, those first that change most.

    A group is of one namespace. Where there would be more than `most`, it is of all namespaces.
    """

    def steps(difference: ChangedWorkload) -> Hashable:
        return tuple(some and (some.without, some.steps, some.end) for some in (difference.before, difference.after))

    groups = by_place(alike, lambda difference: difference.ref, steps)
    if len(groups) > most:
        groups = _together(alike, steps)
    return sorted(groups, key=lambda some: (-abs(sum(difference.hours for difference in some)), some[0].ref))


def by_place(found: Sequence[T], ref_of: Callable[[T], ObjectRef], kind_of: Callable[[T], Hashable]) -> list[list[T]]:
    """Return what is of one kind, cluster and namespace together; clusters are told apart up to MOST_CLUSTERS."""
    several = len({ref_of(item).cluster for item in found}) > MOST_CLUSTERS
    return _together(found, lambda one: ("" if several else ref_of(one).cluster, ref_of(one).namespace, kind_of(one)))


def _together(found: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    return list(by_key((key(item), item) for item in found).values())


def _fields(review: Review) -> ReviewPart:
    changes = review.changes
    if review.problem:
        return ReviewPart("Fields changed", ("There is nothing to compare with.",))
    if changes.none:
        return ReviewPart("Fields changed", ("No policy says anything else.",))
    owned = {kept.policy: kept for kept in review.owned}
    zone = review.zone
    listings = [
        LineList(f"{renamed.before} is now called {renamed.after}", tuple(_owned(owned.get(renamed.before), zone)))
        for renamed in changes.renamed
    ]
    listings += [LineList(f"{name} is removed", tuple(_owned(owned.get(name), zone))) for name in changes.removed]
    listings += [LineList(f"{name} is new") for name in changes.added]
    fields = ((one.policy, f"{one.field}: {_cut(one.before)} -> {_cut(one.after)}") for one in changes.fields)
    by_policy = by_key(fields)
    if left := [*_left_idle(review)]:
        by_policy.setdefault("Fleet", []).extend(left)
    listings += [LineList(name, tuple(lines)) for name, lines in by_policy.items()]
    return ReviewPart("Fields changed", (), tuple(listings))


def _left_idle(review: Review) -> Iterator[str]:
    """What the Fleet keeps idle under another name, with another switch or on another cluster is never woken."""
    if review.base is None or review.head is None:
        return
    idle = idle_in(review.base)
    left = idle - idle_in(review.head)
    if left:
        words = f"{counted(len(left), 'idle workload')} {verb(len(left), 'stays', 'stay')} idle, as no run wakes what"
        which = "--all" if left == idle else "OBJECT"
        yield f"{words} the former Fleet idled; first run `reconciler restore {which} --hold 12h`"


def _owned(owned: Owned | None, zone: tzinfo) -> Iterator[str]:
    if owned is None or not owned.idle:
        return
    left = owned.idle - owned.unchanged - sum(number for _, number in owned.woken)
    of_all = f"of the {counted(owned.idle, 'workload')} it keeps idle"
    if owned.unchanged:
        yield f"{owned.unchanged} {of_all} {verb(owned.unchanged, 'runs', 'run')} as without this change"
    yield from (
        f"{number} {of_all} {verb(number, 'wakes', 'wake')} on {weekday_and_time(at, zone)}"
        for at, number in owned.woken
    )
    if left:
        yield f"{left} {of_all} {verb(left, 'stays', 'stay')} idle"


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHOWN_FIELD else f"{line[:_SHOWN_FIELD]}... ({len(line)} characters)"


def _selection(review: Review) -> ReviewPart:
    listings = [
        LineList(f"{counted(len(refs), 'workload')} {words}", tuple(name_of(ref) for ref in sorted(refs)))
        for words, refs in selected(review)
    ]
    return ReviewPart("Selection", (), tuple(listings))


def _names(review: Review) -> ReviewPart:
    named = {ref for _, refs in selected(review) for ref in refs}
    groups = [[difference.ref for difference in some] for some in alike(review.differences, len(review.differences))]
    some = [refs for refs in groups if len(refs) > 1 and not named.issuperset(refs)]
    return ReviewPart("Names", (), tuple(LineList(called(refs), tuple(map(name_of, refs))) for refs in some))


def _capacity(review: Review) -> ReviewPart:
    title = "Capacity needed again with this change"
    if review.head is None or review.base is None:
        return ReviewPart(title)
    before, lines = (wake_lines(forecast) for forecast in (review.base, review.head))
    return ReviewPart(title, (), (LineList("", tuple(lines)),) if lines and lines != before else ())


def _now(review: Review) -> ReviewPart:
    title = "Now"
    if review.next_base is None:
        found = grouped(review.next_head, review.next_head.actions)
        words = "What the next run does with these policies:" if found else "The next run does nothing."
        return ReviewPart(title, (words,), (*_groups(found), *_said(review.next_head)))
    differing = next_run_differs(review)
    if differing is None:
        words = "The next run does exactly what it would do without this change."
        return ReviewPart(title, (words,), tuple(_said(review.next_head)))
    new, gone = differing
    instead = {action.ref: what_of(action.decision) for action in review.next_base.actions}
    listings = [*_groups(_beside(group, instead) for group in grouped(review.next_head, new))]
    if gone:
        lines = _lines(grouped(review.next_base, gone))
        listings.append(LineList(f"{counted(len(gone), 'change')} no longer made", tuple(lines)))
    return ReviewPart(title, (), (*listings, *_said(review.next_head)))


def _said(plan: Plan) -> Iterator[LineList]:
    """Yield what else the next run says."""
    for held in held_of(plan):
        yield LineList(f"Held back: {held.what}", (held.where,) if held.where else ())
    for block in blocks_of(plan):
        yield LineList(block.title, (*block_entries(block), *_lines(block.groups)))


def _beside(group: PolicyGroup, instead: Mapping[ObjectRef, str]) -> PolicyGroup:
    """Return `group` with what its lines replace."""
    lines = [
        replace(line, reason=f"{line.reason} (instead of {instead[line.action.ref]})".lstrip())
        if line.action.ref in instead
        else line
        for line in group.lines
    ]
    return replace(group, lines=tuple(lines))


def _groups(groups: Iterable[PolicyGroup]) -> Iterator[LineList]:
    updates: list[Line] = []
    for group in groups:
        updates += group.updates
        if group.lines:
            yield LineList(group.heading, tuple(lines_of(group.lines)))
    if updates:
        yield LineList(counted(len(updates), "metadata update"), tuple(lines_of(updates)))


def _lines(groups: Iterable[PolicyGroup]) -> Iterator[str]:
    for group in groups:
        yield group.heading
        yield from lines_of((*group.lines, *group.updates))


def _unjudged(review: Review) -> ReviewPart:
    title = "Could not be judged"
    if review.head is not None:
        lines = list(undecided_words(review.head))
    else:
        lines = [f"{one_line(name)}: {one_line(why)}" for name, why in review.next_head.unknown.items()]
    rows = [
        "  ".join(filter(None, (key.cluster, key.policy, key.template, key.window)))
        for key in sorted(review.next_head.unanswered)
    ]
    words = []
    if review.head is not None:
        old = f"is {age(review.snapshot_age)} old" if review.snapshot_age is not None else ""
        words.append(f"The snapshot {old or 'does not say when it was recorded: it may be of any age'}.")
    listings = []
    if rows:
        queries, them = (counted(len(rows), "query", "queries"), "it" if len(rows) == 1 else "them")
        missing = f"The snapshot holds no answer to {queries}; what depends on {them} is not decided here"
        listings.append(LineList(missing, tuple(escaped(row) for row in rows)))
    if lines:
        listings.append(LineList("What is unknown", tuple(lines)))
    if not listings and not review.next_head.undecided:
        words.append("Every query of the policies has an answer, and every cluster was read.")
    return ReviewPart(title, tuple(words), tuple(listings))


def _drift(review: Review) -> ReviewPart:
    title, base = "What the next run does with this change or without it", review.next_base
    known = set() if base is None else {identity_of(action.decision) for action in base.actions}
    same = [action for action in review.next_head.actions if identity_of(action.decision) in known]
    lines = tuple(_lines(grouped(review.next_head, same)))
    return ReviewPart(title, (), (LineList(counted(len(same), "change"), lines),) if same else ())
