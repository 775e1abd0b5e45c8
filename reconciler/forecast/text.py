"""A forecast in words, the same in every form: title, totals, table, the picture of the week; as text and Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta

from msgspec import Struct

from reconciler.forecast.expected_savings import Savings, grouped_savings, grouping, savings_of
from reconciler.forecast.idle_periods import PolicyReplay, Replay, Waiting
from reconciler.forecast.picture import legend, week
from reconciler.forecast.timelines import LOWER_MINIMUM, Forecast, HeldBackPeriod, Wake, WorkloadTimeline, total
from reconciler.messages import counted, first_of
from reconciler.model import ObjectRef, by_key
from reconciler.pod_requests import Hours
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import Prices
from reconciler.report.calendar import Span, recurring
from reconciler.report.change_words import name_of
from reconciler.report.groups import columns
from reconciler.report.markdown import details, fence, joined, prose, table
from reconciler.report.times import DAYS, time_and_zone, weekday_and_time
from reconciler.untrusted_text import escaped, one_line

WAKES = 5
"""How many of the moments at which most is needed again are named; those that are alike count as one."""

WITHIN = timedelta(hours=1)
"""Wakes that follow one another so closely are one moment: a wake order goes over several runs."""


class LineList(Struct, frozen=True):
    """Lines under `words`, "" for none. `wrapped`: a comment shows them as a list, which fits any page."""

    words: str
    lines: tuple[str, ...] = ()
    wrapped: bool = False

    def text(self) -> list[str]:
        return [*([self.words] if self.words else []), *(f"  {line}" for line in self.lines)]

    def markdown(self) -> list[str]:
        words = [f"**{prose(self.words)}**", ""] if self.words else []
        if self.wrapped:
            return [*words, *(f"- {prose(line)}" for line in self.lines)]
        return [*words, *fence(escaped(line) for line in self.lines)] if self.lines else words[:1]


class ForecastStyle(Struct, frozen=True):
    """How a forecast is shown: grouped `by`, priced, with block characters or plain ones, all steps where `verbose`."""

    by: str = "policy"
    prices: Prices = Prices()
    blocks: bool = False
    verbose: bool = False


def render_text(forecast: Forecast, style: ForecastStyle) -> str:
    (head, *rows), lines = table_rows(forecast, style), week(forecast, blocks=style.blocks)
    signs = [f"({legend(forecast, blocks=style.blocks)})"] if lines else []
    blocks = [
        [title(forecast), *summary(forecast, style.prices)],
        [f"  {line}" for line in columns(head, rows, numbers=True)] if forecast.selected else [],
        [f"  {line}" for line in (*lines, *signs)],
        _steps(forecast) if style.verbose else [],
        *(found.text() for found in _lists(forecast)),
    ]
    return "\n".join("\n".join(block) + "\n" for block in blocks if block)


def title(forecast: Forecast) -> str:
    what = "Forecast" if forecast.replay is None else "Replay"
    start = time_and_zone(forecast.start, forecast.zone)
    return f"{what} for Fleet {one_line(forecast.first.fleet)}, {forecast.length} from {start}"


def summary(forecast: Forecast, prices: Prices) -> list[str]:
    """Return the headline: what the policies save for certain, and below it what they save if metrics stay so."""
    found = savings_of(forecast.selected)
    others = len(forecast.timelines) - found.workloads
    selected = f"{counted(found.workloads, 'workload')} selected by policies, {others} by none."
    if not found.workloads:
        return ["No policy selects a workload."]
    measured = "" if forecast.replay is None else " with what was measured"
    unknown = not_known_in_all(forecast.replay)
    if unknown and not round(found.saved.replicas):
        return [f"What would have been saved is {unknown}. {selected}"]
    lines = [f"{_change(found, found.saved)} replica-hours{_money(found.saved, prices)}{measured}. {selected}"]
    if unknown:
        lines.append(f"What else would have been saved is {unknown}.")
    if found.assumed.replicas:
        change, money = _change(found, found.possible), _money(found.possible, prices)
        lines.append(f"{change} replica-hours{money} if metrics stay as they were recorded.")
    return lines


def _change(savings: Savings, saved: Hours) -> str:
    return f"{signed(-saved.replicas)} ({signed(-savings.percent(saved))} %)"


def signed(number: float) -> str:
    """Return a number with its sign and thousands apart; 0 has none."""
    return f"{number:+,.0f}" if round(number) else "0"


def _money(saved: Hours, prices: Prices) -> str:
    return f", {0 - prices.cost(saved):+,.2f} in money" if prices.known else ""


_HEAD = ("workloads", "replica-hours", "without", "saved")
_RESOURCES = {"CPU-hours": "cpu", "GiB-hours": "memory"}


def table_rows(forecast: Forecast, style: ForecastStyle) -> list[tuple[str, ...]]:
    """Return the table of savings by group, its head first, the sum last; of resources those that are requested."""
    in_all = savings_of(forecast.selected)
    stated = [name for name, field in _RESOURCES.items() if getattr(in_all.without.requests, field)]
    head = (style.by, *_HEAD, *(word for name in stated for word in (name, "saved")))
    groups = [*grouped_savings(forecast, style.by), ("all", in_all)]
    body = [(*_group(name, found), *_resources(found, stated)) for name, found in groups]
    if style.prices.known:
        head = (*head, "money saved")
        costs = ((style.prices.cost(found.saved), style.prices.cost(found.possible)) for _, found in groups)
        body = [(*row, _range(*cost, digits=2)) for row, cost in zip(body, costs, strict=True)]
    unknown = _not_known(forecast, style.by)
    rows = zip(groups, body, strict=True)
    known = (0, 1, 1 + _HEAD.index("without"))  # what there is, and what runs without policies
    return [
        head,
        *(
            tuple(cell if place in known or name not in unknown else "?" for place, cell in enumerate(row))
            for (name, _), row in rows
        ),
    ]


def _not_known(forecast: Forecast, by: str) -> set[str]:
    """Return the groups in which nothing was saved that is known, because the history lacks queries of policies."""
    lacking = () if forecast.replay is None else forecast.replay.lacking
    unknown = {(one.policy, cluster) for one in lacking for cluster in one.unknown}
    group = grouping(by)
    found = {group(one) for one in forecast.selected if (one.policy, one.ref.cluster) in unknown}
    groups = [*grouped_savings(forecast, by), ("all", savings_of(forecast.selected))] if found else []
    return {name for name, saved in groups if name in {*found, "all"} and not round(saved.saved.replicas)}


def _group(name: str, savings: Savings) -> tuple[str, ...]:
    hours = _range(savings.least.replicas, savings.most.replicas)
    saved = f"{_range(savings.percent(savings.saved), savings.percent(savings.possible))} %"
    return one_line(name), str(savings.workloads), hours, f"{savings.without.replicas:,.0f}", saved


def _resources(savings: Savings, stated: Sequence[str]) -> Iterator[str]:
    for name in stated:
        for hours in ((savings.least, savings.most), (savings.saved, savings.possible)):
            low, high = (getattr(one.requests, _RESOURCES[name]) for one in hours)
            yield _range(low, high)


def _range(low: float, high: float, *, digits: int = 0) -> str:
    first, last = f"{low:z,.{digits}f}", f"{high:z,.{digits}f}"
    return first if first == last else f"{first} to {last}"


def _steps(forecast: Forecast) -> list[str]:
    lines = ["Steps"]
    for timeline in forecast.selected:
        lines.append(f"  {name_of(timeline.ref)}  without policies {timeline.without}, {one_line(timeline.policy)}")
        lines += [f"    {words}" for words in step_words(timeline, forecast)]
    return lines


def step_words(timeline: WorkloadTimeline, forecast: Forecast) -> Iterator[str]:
    """Yield when its replicas change, and what that rests on, and when it is deleted."""
    before: int | None = None
    for segment in timeline.segments:
        assumes = (
            f"  assumes {one_line(segment.assumes)}" if segment.assumes and segment.replicas < timeline.without else ""
        )
        if before != segment.replicas or assumes:
            arrow = f"{segment.replicas}" if before in (None, segment.replicas) else f"{before} -> {segment.replicas}"
            yield f"{weekday_and_time(segment.start, forecast.zone)}  {arrow}{assumes}"
        before = segment.replicas
    if timeline.end < forecast.end:
        yield f"{weekday_and_time(timeline.end, forecast.zone)}  deleted"


def _lists(forecast: Forecast) -> Iterator[LineList]:
    """Yield what stands below the picture, where there is any of it."""
    replay = forecast.replay
    lists = {
        "Wakes and waiting": [] if replay is None else list(replay_lines(replay, forecast.tick)),
        "Measured": [] if replay is None else list(map(one_line, replay.notes)),
        "Held back by limits": [line for lines in held_lines(forecast.held_back, forecast) for line in lines],
        "Capacity needed again": wake_lines(forecast),
        "Could not be judged": list(unknown_words(forecast)),
    }
    yield from (LineList(words, tuple(lines)) for words, lines in lists.items() if lines)


def when(spans: Iterable[Span], forecast: Forecast) -> str:
    """Return `spans` of a forecast in words: "each weekday 20:00-07:00"."""
    return ", ".join(recurring(spans, (forecast.start, forecast.end), forecast.zone))


def held_lines(periods: Iterable[HeldBackPeriod], forecast: Forecast) -> Iterator[tuple[str, ...]]:
    """Yield for each policy, or guard, how much limits hold back and when, and below it what would let it through."""
    by_name = by_key((period.policy, period) for period in periods)
    for name, some in by_name.items():
        objects = objects_words([ref for period in some for ref in period.refs])
        spans = when({(period.start, period.end) for period in some}, forecast)
        why = list(dict.fromkeys(one_line(period.why) for period in some))
        more = len(why) - (MOST_CLUSTERS if len(why) <= MOST_CLUSTERS else 1)
        yield (
            f"{one_line(name) or 'removed policies'}: {objects}, {spans}",
            *(f"  {words}" for words in (why if more <= 0 else why[:1])),
            *([f"  and {more} more like it"] if more > 0 else []),
        )


MOST_CLUSTERS = 4
"""Of how many clusters each is named: from one more on they are counted."""


def objects_words(refs: Collection[ObjectRef]) -> str:
    """Return how many objects `refs` are, and on which clusters."""
    number = len(set(refs))
    clusters = sorted({one_line(ref.cluster) for ref in refs})
    where = ", ".join(clusters) if len(clusters) <= MOST_CLUSTERS else counted(len(clusters), "cluster")
    return f"{counted(number, 'workload')} in {where}"


def wake_lines(forecast: Forecast) -> list[str]:
    """Return the moments at which most pods wake, the largest first; those that are alike are one."""
    moments = by_key((_wake_words(wake), (wake.at, wake.at)) for wake in total(forecast.wakes, WITHIN))
    return [f"{when(spans, forecast)}: {words}" for words, spans in list(moments.items())[:WAKES]]


def _wake_words(wake: Wake) -> str:
    needed = f"{wake.requests.cpu:,.1f} cores, {wake.requests.memory:,.1f} GiB"
    some = len(wake.clusters) <= MOST_CLUSTERS
    pods = ", ".join(f"{one_line(name)} {number}" for name, number in sorted(wake.clusters.items()))
    where = pods if some else counted(len(wake.clusters), "cluster")
    tiers = [f"tier {tier}: {counted(number, 'workload')}" for tier, number in wake.tiers]
    order = ", then ".join(tiers) if len(tiers) > 1 else ""
    return f"{counted(wake.pods, 'pod')} ({needed}; {where}){f'; {order}' if order else ''}"


def undecided_words(forecast: Forecast) -> Iterator[str]:
    """Yield what could not be read, or not be decided at some time."""
    yield from (f"{one_line(name)}: {one_line(why)}" for name, why in forecast.first.unknown.items())
    yield from (
        f"{one_line(subject)}: {one_line(why)}"
        for subject, why in forecast.undecided.items()
        if subject not in forecast.first.unknown
    )


def unknown_words(forecast: Forecast) -> Iterator[str]:
    """Yield what the forecast could not know."""
    yield from undecided_words(forecast)
    unstated = savings_of(timeline for timeline in forecast.selected if timeline.runs).unstated
    if unstated:
        do = "requests" if unstated == 1 else "request"
        yield f"{counted(unstated, 'workload')} {do} no CPU and no memory: only replica-hours are counted"
    lowered = sum(any(LOWER_MINIMUM in part.assumes for part in timeline.segments) for timeline in forecast.selected)
    if lowered:
        number = counted(lowered, "autoscaler")
        yield f"{number} at a lower minimum: at most the difference of the minimums is saved, and counted as assumed"


# The same as Markdown.


def render_markdown(forecast: Forecast, style: ForecastStyle) -> str:
    """Return the forecast as Markdown of at most 60,000 characters."""
    first, *rest = summary(forecast, style.prices)
    lines = [line.rstrip() for line in week(forecast, blocks=True, most=80)]
    signs = f"<sub>{prose(legend(forecast, blocks=True))}</sub>"
    head, *rows = ([prose(cell) for cell in row] for row in table_rows(forecast, style))
    return joined(
        [
            [f"## {prose(title(forecast))}"],
            [f"**{prose(first)}**", *(f"<br>{prose(line)}" for line in rest)],
            table(head, rows),
            [*details("The week", fence(lines)), "", signs] if lines else [],
            *(found.markdown() for found in _lists(forecast)),
        ]
    )


# What a replay says beyond what a forecast does.


ALL = "all policies"
_NAMED = 3
_MOST_NIGHTS = 5


def replay_lines(replay: Replay, tick: timedelta) -> Iterator[str]:
    """Yield what each policy did to those who called: a line for each, and what belongs to it below."""
    for one in replay.policies:
        nothing = _unknown_in(one) if one.unknown else "nothing was scaled to zero"
        yield f"{one_line(one.policy)}: {', '.join(night_words(one)) if one.nights else nothing}"
        if one.nights and one.unknown:
            yield f"  {_unknown_in(one)}"
        if one.nights:
            yield from (f"  {line}" for line in _details(one, tick))


def _unknown_in(policy: PolicyReplay) -> str:
    return _lacking_in(policy.unknown, "it")


def _lacking_in(clusters: Iterable[str], of: str) -> str:
    return f"not known in {', '.join(clusters)}, whose history lacks a query of {of}"


def not_known_in_all(replay: Replay | None) -> str:
    """Return where which part of a replay is not known, "" where all of it is."""
    lacking = () if replay is None else replay.lacking
    clusters = dict.fromkeys(name for one in lacking for name in one.unknown)
    of = f"{len(lacking)} policies" if len(lacking) > 1 else "".join(one_line(one.policy) for one in lacking)
    return _lacking_in(clusters, of) if lacking else ""


def night_words(policy: PolicyReplay) -> tuple[str, str]:
    """Return how many nights were quiet, and how often traffic woke something."""
    quiet = policy.nights - len(policy.wrong)
    woken = f"woken by traffic {counted(policy.wakes, 'time')}" if policy.wakes else "never woken by traffic"
    return f"quiet in {quiet} of {counted(policy.nights, 'night')}", woken


def _details(policy: PolicyReplay, tick: timedelta) -> Iterator[str]:
    for day, refs in list(policy.wrong.items())[:_MOST_NIGHTS]:
        yield f"wrong on {DAYS[day.weekday()]} {day}: {first_of(list(map(name_of, refs)), _NAMED)}"
    if len(policy.wrong) > _MOST_NIGHTS:
        yield f"and on {counted(len(policy.wrong) - _MOST_NIGHTS, 'other night')}"
    yield waiting_words(policy, tick)
    if policy.thrash:
        yield f"{counted(policy.thrash, 'time')} woken by traffic within an hour after it went idle"
    if round(100 * policy.missing):
        share = f"{100 * policy.missing:.0f} %"
        yield f"{share} of its idle hours without a series, which may be no traffic or no measurement"


def waiting_words(policy: PolicyReplay, tick: timedelta) -> str:
    """Return how many would have waited for how long, and what that is reckoned with."""
    if policy.waiting is None:
        return "no query counts what arrives: whether somebody called is not known"
    low, high, measured, of = policy.starts
    span = spelt_duration(low) if low == high else f"{spelt_duration(low)} to {spelt_duration(high)}"
    source = f"measured of {measured} of {counted(of, 'workload')}" if measured else "assumed: no pods were recorded"
    reckoned = f"pods start in {span}, {source}"
    if not policy.waiting.requests:
        return f"no {policy.unit} waited"
    number = f"{_waited(policy.waiting, policy.unit)} waited"
    mean, longest = policy.waiting.total / policy.waiting.requests, policy.waiting.longest
    seen = f", each scraped within {spelt_duration(2 * policy.delay)}" if policy.delay else ""
    first = "a signal wakes at once" if policy.held else f"a run each {spelt_duration(tick)}{seen}"
    return f"{number}, {_short(mean)} on average, {_short(longest)} at most ({first}; {reckoned})"


def _waited(waiting: Waiting, unit: str) -> str:
    return counted(max(1, round(waiting.requests)) if waiting.requests else 0, unit)


def _short(length: timedelta) -> str:
    return spelt_duration(timedelta(seconds=round(length.total_seconds())))


def compared_replays(base: Forecast | None, head: Forecast) -> Iterator[str]:
    """Yield where the past would have been another one with the policies of the head than with those of the base."""
    before, after = ({} if one is None else dict(_by_policy(one)) for one in (base, head))
    for name in sorted({*before, *after}, key=lambda one: (one != ALL, one)):
        old, new = before.get(name, ()), after.get(name, ())
        if old != new:
            if old and new and len(old) != len(new):  # one of them is not known
                old, new = ("; ".join(old),), ("; ".join(new),)
            both = zip(old, new, strict=True) if old and new else ((one, one) for one in old or new)
            parts = (was if was == now else f"{was} -> {now}" for was, now in both)
            there = "" if base is None or (old and new) else "is new: " if new else "is gone: "
            yield f"{one_line(name)}: {there}{'; '.join(parts)}"


def _by_policy(forecast: Forecast) -> Iterator[tuple[str, tuple[str, ...]]]:
    saved, policies = savings_of(forecast.selected), () if forecast.replay is None else forecast.replay.policies
    unknown = not_known_in_all(forecast.replay)
    hours = f"{saved.saved.replicas:z,.0f} replica-hours saved ({saved.percent(saved.saved):z.0f} %)"
    parts = ([hours] if round(saved.saved.replicas) or not unknown else []) + ([unknown] if unknown else [])
    yield ALL, (", ".join(parts),)
    by_policy = dict(grouped_savings(forecast, "policy"))
    for one in policies:
        if one.unknown:
            yield one.policy, (_unknown_in(one),)
            continue
        own = by_policy.get(one.policy, Savings()).saved.replicas
        waited = "" if one.waiting is None else f"{_waited(one.waiting, one.unit)} waited"
        yield one.policy, (f"{own:z,.0f} replica-hours saved", *night_words(one), waited or "who called is not known")
