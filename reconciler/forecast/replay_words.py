"""What a replay says beyond what a forecast does, in words and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from reconciler.forecast.idle_periods import PolicyReplay, Replay, Waiting
from reconciler.forecast.savings import Savings, grouped_savings, savings_of
from reconciler.forecast.timelines import Forecast
from reconciler.messages import counted, first_of
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.report.change_words import name_of
from reconciler.report.times import DAYS
from reconciler.untrusted_text import one_line

ALL = "all policies"
_NAMED = 3
_MOST_NIGHTS = 5


def replay_lines(replay: Replay, tick: timedelta) -> Iterator[str]:
    """Yield what each policy did to those who called: a line for each, and what belongs to it below."""
    for one in replay.policies:
        nothing = _not_known(one) if one.unknown else "nothing was scaled to zero"
        yield f"{one_line(one.policy)}: {', '.join(night_words(one)) if one.nights else nothing}"
        if one.nights and one.unknown:
            yield f"  {_not_known(one)}"
        if one.nights:
            yield from (f"  {line}" for line in _details(one, tick))


def _not_known(policy: PolicyReplay) -> str:
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
            yield one.policy, (_not_known(one),)
            continue
        own = by_policy.get(one.policy, Savings()).saved.replicas
        waited = "" if one.waiting is None else f"{_waited(one.waiting, one.unit)} waited"
        yield one.policy, (f"{own:z,.0f} replica-hours saved", *night_words(one), waited or "who called is not known")


def replay_to_dict(replay: Replay) -> dict[str, Any]:
    """Return the same as JSON values; times are in seconds, `requests` null where no query counts them."""
    return {"policies": [_policy(one) for one in replay.policies], "notes": list(replay.notes)}


def _policy(policy: PolicyReplay) -> dict[str, Any]:
    waiting = policy.waiting
    return {
        "policy": policy.policy,
        "idles": policy.idles,
        "wakesByTraffic": policy.wakes,
        "thrash": policy.thrash,
        "unit": policy.unit,
        "waited": None if waiting is None else round(waiting.requests, 2),
        "waitedSeconds": None if waiting is None else round(waiting.total.total_seconds(), 1),
        "longestSeconds": None if waiting is None else round(waiting.longest.total_seconds(), 1),
        "nights": policy.nights,
        "wrongNights": [{"night": f"{day}", "objects": list(map(str, refs))} for day, refs in policy.wrong.items()],
        "idleShareWithoutSeries": round(policy.missing, 4),
        "startSeconds": [round(policy.starts[0].total_seconds(), 1), round(policy.starts[1].total_seconds(), 1)],
        "startsMeasured": policy.starts[2],
        "unknownIn": list(policy.unknown),
    }
