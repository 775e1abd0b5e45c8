"""A review as text and as Markdown: the parts of both, what is to be decided first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from reconciler.errors import ReconcilerError
from reconciler.forecast.picture import legend, numbered_cells, ruler
from reconciler.forecast.review import ChangedWorkload, DifferenceKind, Review, next_run_differs, stretches
from reconciler.forecast.review_details import ReviewPart, alike, by_place, called, details_of, selected, verb
from reconciler.forecast.text import LineList, held_lines, objects_words, signed, when
from reconciler.forecast.timelines import Forecast
from reconciler.messages import counted, first_of
from reconciler.report.calendar import Span
from reconciler.report.change_words import name_of
from reconciler.report.markdown import LONGEST_TEXT, MOST_ROWS, details, fence, joined, origin_of, prose
from reconciler.report.times import weekday_and_time
from reconciler.untrusted_text import escaped, one_line

_MOST_GROUPS = 12
"""Of how many groups of workloads that run alike the picture stands open."""
_MOST_ROWS = 20
_MOST_CHANGES = 4
_MOST_NAMES = 10
_MOST_LISTINGS = 40
_ROOM = 5_000
"""Characters that are kept for what is folded, or for how much of it is left out."""
TITLE = "What this change of policies does"


def review_parts(review: Review) -> tuple[ReviewPart, ...]:
    """Return the parts of `review` in their order: what is to be decided stands first and open."""
    parts = (
        ReviewPart("", tuple(_headline(review))),
        ReviewPart("Production", (), tuple(_production(review))),
        ReviewPart("Held back", (), tuple(_held_back(review))),
        *(_changes(review, review.base, review.head) if review.base is not None and review.head is not None else ()),
        *(() if review.replayed is None else (_replayed(review.past, review.replayed[1]),)),
        *details_of(review),
    )
    return tuple(part for part in parts if part.words or part.listings)


# What is said first


def _headline(review: Review) -> Iterator[str]:
    if review.problem:
        yield f"Only the policies of this change are shown: {review.problem}"
    yield from _production_words(review)
    yield from _held_words(review)
    if review.head is not None and review.base is not None:
        yield _effect(review, review.head)
    elif not review.problem:
        yield "Only the next run is compared: the days to come are played on a snapshot (--snapshot DIR)."
    if review.replayed is not None and review.past:
        yield f"The last {review.replayed[1].span} replayed: {review.past[0]}."
    number = review.differing_outside
    if number is not None:
        more = f": {counted(number, 'more workload')} {verb(number, 'runs', 'run')} in another way" if number else ""
        replayed = " What was replayed is of everything." if review.replayed else ""
        yield f"Only what the filters leave is shown{more}.{replayed}"
    if review.fleet_changed:
        fields = ", ".join(review.fleet_changed)
        base = " All of this is planned with that of the base: review it as text." if review.fleet_from_base else ""
        yield f"The Fleet is changed ({fields}).{base}"
    missing = len(review.next_head.unknown)  # the queries without an answer are among them
    if missing:
        what = counted(missing, "cluster, list or query", "clusters, lists or queries")
        yield f"{what} could not be judged; see below."
    yield f"Times are in {review.zone}."


def _production_words(review: Review) -> Iterator[str]:
    found = [(words, refs & review.production) for words, refs in selected(review)]
    running = frozenset(difference.ref for difference in review.differences if difference.production)
    found.append((f"{verb(len(running), 'runs', 'run')} in another way", running))
    words = [f"{objects_words(refs)} {words}" for words, refs in found if refs]
    if words:
        yield f"Production: {'; '.join(words)}."


def _held_words(review: Review) -> Iterator[str]:
    periods = review.held_back
    if not periods:
        return
    if len({period.why for period in periods}) == 1:
        yield f"Held back: {one_line(periods[0].why)}."
        return
    names = list(dict.fromkeys(one_line(period.policy) for period in periods))
    objects = objects_words({ref for period in periods for ref in period.refs})
    yield f"Held back: {objects} ({first_of(names, _MOST_CHANGES)})."


def _effect(review: Review, head: Forecast) -> str:
    ahead, found = head.span, review.differences
    if found:
        first = weekday_and_time(min(difference.at for difference in found), review.zone)
        return f"From {first}: {'; '.join(_counts(review))}. {_hours(review)} in {head.length}."
    selection = [f"{counted(len(refs), 'workload')} {words}" for words, refs in selected(review)]
    if selection:
        return f"{', '.join(selection)}; none runs more or less in the next {ahead}."
    if review.held_back or next_run_differs(review):
        differs = "; the next run differs" if next_run_differs(review) else ""
        return f"No workload runs more or less in the next {ahead}{differs}."
    if head.held_back:
        return f"Nothing changes in the next {ahead}: limits hold back what they hold back without this change."
    if review.without_its_fleet:
        return f"With the Fleet of the base nothing changes in the next {ahead}."
    return f"No effect in the next {ahead}."


def _counts(review: Review) -> Iterator[str]:
    found = Counter(difference.kind for difference in review.differences)
    dark, more, less = found["not woken"], found["idles"], found["idles no longer"]
    if dark:
        wakes, stays = verb(dark, "wakes", "wake"), verb(dark, "stays", "stay")
        yield f"{counted(dark, 'idle workload')} that {wakes} today {stays} idle"
    if more:
        namespaces = {(one.ref.cluster, one.ref.namespace) for one in review.differences if one.kind == "idles"}
        where = counted(len(namespaces), "namespace")
        yield f"{counted(more, 'workload')} in {where} {_idle(more)} that {verb(more, 'does', 'do')} not today"
    if less:
        who = str(less) if more else f"{counted(less, 'workload')} that {_idle(less)} today"
        yield f"{who} no longer {verb(less, 'does', 'do')}"
    for kind, singular, many in _KINDS:
        number = found[kind]
        if number:
            yield f"{counted(number, 'workload')} {verb(number, singular, many)}"


_KINDS: tuple[tuple[DifferenceKind, str, str], ...] = (
    ("goes lower", "goes down to fewer replicas than today", "go down to fewer replicas than today"),
    ("stays higher", "goes down to more replicas than today", "go down to more replicas than today"),
    ("runs more", "runs more replicas", "run more replicas"),
    ("created", "is created", "are created"),
    ("not created", "is not created any more", "are not created any more"),
    ("deleted", "is deleted", "are deleted"),
    ("deleted no longer", "is deleted no longer", "are deleted no longer"),
    ("at other times", "runs at other times", "run at other times"),
)


def _idle(number: int) -> str:
    return verb(number, "idles or runs fewer replicas", "idle or run fewer replicas")


def _hours(review: Review) -> str:
    certain = sum(difference.certain_hours for difference in review.differences)
    all_of_it = sum(difference.hours for difference in review.differences)
    words = _percented(certain, review.before_hours)
    if round(certain) == round(all_of_it):
        return words
    assumed = f"{_percented(all_of_it, review.before_hours)} if metrics stay as recorded"
    return f"{words}, {assumed}," if round(certain) else f"{assumed},"


def _percented(hours: float, before: float) -> str:
    share = f" ({signed(100 * hours / before)} %)" if before else ""
    return f"{signed(hours)} replica-hours{share}"


# What stands open: production, what is held back, workloads with old and new replicas, the timeline


def _production(review: Review) -> Iterator[LineList]:
    for words, refs in selected(review):
        named = sorted(refs & review.production)
        if named:
            groups = by_place(named, lambda ref: ref, lambda _: "") if len(named) > _MOST_NAMES else None
            lines = map(name_of, named) if groups is None else map(called, groups)
            yield LineList(f"{objects_words(named)} {words}", tuple(lines))


def _held_back(review: Review) -> Iterator[LineList]:
    if review.head is not None:
        for words, *lines in held_lines(review.held_back, review.head):
            yield LineList(words, tuple(line.strip() for line in lines), wrapped=True)
    else:
        yield from (LineList(one_line(period.why), (), wrapped=True) for period in review.held_back)


def _changes(review: Review, base: Forecast, head: Forecast) -> Iterator[ReviewPart]:
    """Yield the workloads that run in another way: production first, as a list and as the picture of the days."""
    rows: list[LineList] = []
    pictures: list[LineList] = []
    for production in (True, False):
        some = [difference for difference in review.differences if difference.production is production]
        groups, most = alike(some, _MOST_ROWS), MOST_ROWS if production else _MOST_ROWS
        if groups:
            who = f"{'Production: ' if production else ''}{counted(len(some), 'workload')}"
            lines = [_row(some, head) for some in groups[:most]]
            lines += [f"and {_counted_in(groups[most:])} more; the JSON form has them all"] if groups[most:] else []
            rows.append(LineList(f"{who}, replicas before -> after", tuple(lines), wrapped=True))
            pictures.append(LineList(who, tuple(_pictures(groups, review.zone, base, head))))
    if rows:
        yield ReviewPart("Workloads that change", (), tuple(rows))
        yield ReviewPart("Timeline", (), tuple(pictures))


def _replayed(lines: tuple[str, ...], head: Forecast) -> ReviewPart:
    shown = lines or ("With what was measured then, nothing would have been different.",)
    notes = () if head.replay is None else tuple(map(one_line, head.replay.notes))
    lists = (LineList("before -> after", shown, wrapped=True), LineList("Measured", notes, wrapped=True))
    return ReviewPart(f"The last {head.span} replayed", (), lists)


def _counted_in(groups: Iterable[Sequence[ChangedWorkload]]) -> str:
    return counted(sum(map(len, groups)), "workload")


def _row(alike: Sequence[ChangedWorkload], head: Forecast) -> str:
    """Return the old and the new replicas of workloads that differ in the same way, and how many hours that is."""
    first, changes = alike[0], []
    for pair, spans in _replica_changes(first).items():
        old, new = ("not there" if number is None else str(number) for number in pair)
        changes.append(f"{old} -> {new}: {when(spans, head)}")
    if len(changes) > _MOST_CHANGES:
        changes[_MOST_CHANGES:] = [f"and {len(changes) - _MOST_CHANGES} other numbers"]
    known = [segment for one in (first.before, first.after) if one is not None for segment in one.segments]
    assumes = next((f" (assumes {one_line(segment.assumes)})" for segment in known if segment.assumes), "")
    hours = f"{signed(sum(difference.hours for difference in alike))} replica-hours"
    return f"{called([difference.ref for difference in alike])}: {'; '.join(changes)}{assumes}; {hours}"


def _replica_changes(difference: ChangedWorkload) -> dict[tuple[int | None, int | None], list[Span]]:
    """Return when it runs with how many replicas and, with the change, with how many; None: it is not there."""
    found: dict[tuple[int | None, int | None], list[Span]] = {}
    for start, end, was, now in stretches(difference.before, difference.after):
        if was != now:
            spans = found.setdefault((was, now), [])
            first = spans.pop()[0] if spans and spans[-1][1] == start else start
            spans.append((first, end))
    return found


def _pictures(
    groups: Sequence[Sequence[ChangedWorkload]], zone: tzinfo, base: Forecast, head: Forecast
) -> Iterator[str]:
    """Yield two rows for all workloads that differ in the same way, before and after, below what they are called.

    A week stands in fewer than 100 columns, which is what the page of a code host shows without cutting.
    """
    yield f"{'':7}{ruler(head, zone)}"
    for some in groups[:_MOST_GROUPS]:
        yield called([difference.ref for difference in some])
        yield f"before {numbered_cells(some[0].before, base)}".rstrip()
        yield f"after  {numbered_cells(some[0].after, head)}".rstrip()
    if len(groups) > _MOST_GROUPS:
        yield f"and {_counted_in(groups[_MOST_GROUPS:])} more, which change less"
    signs, _, length = legend(head, blocks=False).rpartition("; ")
    yield f"({signs};"
    yield f" a number where replicas change; {length}, days in {zone})"


# The parts as text and as Markdown


def render_text(review: Review) -> str:
    blocks = [[TITLE]]
    for part in review_parts(review):
        blocks += [[*filter(None, [part.title]), *part.words], *(listing.text() for listing in part.listings)]
    return "\n".join("\n".join(map(escaped, block)) + "\n" for block in blocks)


def render_markdown(review: Review) -> str:
    """Return the review as Markdown of at most 60,000 characters: what stands open stays, whatever is cut."""
    first, *rest = review_parts(review)
    headline = [f"**{prose(first.words[0])}**", *(f"<br>{prose(line)}" for line in first.words[1:])]
    blocks = [[f"## {TITLE}"], headline, *(block for part in rest if not part.folded for block in _markdown(part))]
    folded = [block for part in rest if part.folded for block in _markdown(part)]
    shown = joined(blocks, LONGEST_TEXT - _ROOM)
    return f"{shown}\n{joined([*folded, origin_of(review.next_head)], LONGEST_TEXT - len(shown) - 1)}"


def _markdown(part: ReviewPart) -> list[list[str]]:
    blocks = [*([prose(line)] for line in part.words), *(one.markdown() for one in part.listings[:_MOST_LISTINGS])]
    if len(part.listings) > _MOST_LISTINGS:
        blocks.append([f"and {len(part.listings) - _MOST_LISTINGS} more; the JSON form has them all."])
    if part.folded:
        return [details(prose(part.title), [line for block in blocks for line in (*block, "")][:-1])] if blocks else []
    return [[f"### {part.title}"], *blocks]


def render_failure(error: ReconcilerError, *, markdown: bool) -> str:
    """Return what is shown where nothing can be judged: all that is wrong."""
    problems = [str(problem) for problem in error.problems] or [str(error)]
    words = f"This change cannot be judged: {counted(len(problems), 'problem')}."
    if not markdown:
        return "\n".join([TITLE, words, *(f"  {one_line(problem)}" for problem in problems)]) + "\n"
    return joined([[f"## {TITLE}"], [f"**{prose(words)}**"], fence(escaped(problem) for problem in problems)])
