"""The first night of policies on a snapshot: when it begins, what goes idle, and what limits hold back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.idling.activators import UNHELD
from reconciler.decide.idling.notices import MISSED_RUN
from reconciler.decide.limit_bases import scalable_workloads
from reconciler.forecast.production import left_out_by, left_out_lines
from reconciler.forecast.simulation import Simulation, Step
from reconciler.model import NOTHING
from reconciler.plan.model import Plan
from reconciler.policy.types import PolicySet
from reconciler.report.summary import Held, held_of
from reconciler.report.wording import common_zone, counted, time_and_zone
from reconciler.untrusted_text import one_line

NIGHT = timedelta(hours=12)
SEARCHED = timedelta(days=8)
"""A schedule of a week has begun by then."""


class FirstNight(Struct, frozen=True):
    """`start` is the first run that idles something, or would, None where nothing goes idle in the coming days.

    `idle` are workloads by policy, of `workloads` in all, `places` the file:line of the policies. `already` are those
    that are idle when the night begins: they do not count as going idle, even if a request wakes them for a while.
    `held_back` has each line about a policy of which something is held back once. `left_out` are the workloads of
    production that a policy leaves out, by policy. `warnings` say which policies select nothing, or far less than their
    limit, which Services wait for signals that no activator can give, and which CronJobs may start a missed run.
    """

    start: datetime | None = None
    time_zones: tuple[str, ...] = ()
    workloads: int = 0
    idle: Mapping[str, int] = NOTHING
    already: int = 0
    places: Mapping[str, str] = NOTHING
    held_back: tuple[Held, ...] = ()
    left_out: Mapping[str, int] = NOTHING
    warnings: tuple[str, ...] = ()


def first_night(simulation: Simulation, policies: PolicySet, now: datetime) -> FirstNight:
    """Return the first night of `policies` from `now` on; their `simulation` is played."""
    steps: list[Step] = []
    warnings: dict[str, None] = {}
    left_out: dict[str, int] = {}
    places: dict[str, str] = {}
    for number, step in enumerate(simulation.play(now, now + SEARCHED)):
        if steps and step.at >= steps[0].at + NIGHT:
            break
        left_out, places = {**left_out_by(step.plan), **left_out}, {**places, **step.plan.places}
        warnings |= dict.fromkeys(one.text for one in step.plan.notices if one.kind in (UNHELD, MISSED_RUN))
        warnings |= dict.fromkeys(() if number else _wide_limits(policies, step.plan))
        for name in () if number else [one for one in step.plan.without_workloads if one not in left_out]:
            warnings[f"{step.plan.places.get(name, '')}: {name} selects no workload of the snapshot"] = None
        if steps or _idles(step.plan) or step.plan.held_back:
            steps.append(step)
    found = _of(steps) if steps else FirstNight()
    return replace(found, places=places, left_out=left_out, warnings=tuple(warnings))


def _wide_limits(policies: PolicySet, made: Plan) -> Iterator[str]:
    """Yield which limits are so far above what is selected that they hold nothing back."""
    selected = {(one.policy, one.ref) for one in made.explanations if one.job == "idling" and one.selected}
    counts = Counter(policy for policy, _ in selected)
    for policy in policies.idling:
        stated, number = policy.limits.of("workloads"), counts[policy.name]
        if stated is not None and stated > 2 * number > 0:
            what = f"limits.workloads of IdlingPolicy {policy.name} is {stated}, and it selects {number}"
            yield f"{policy.limits_place}: {what}, expected at most twice as many"


def _of(steps: Sequence[Step]) -> FirstNight:
    first = steps[0]
    already = {str(one.idled[0]) for one in first.plan.explanations if one.idled is not None}
    owners = {ref: policy for step in steps for ref, policy in _idles(step.plan).items() if ref not in already}
    counts = Counter(owners.values())
    held = {one.what: one for step in steps for one in held_of(step.plan)}
    return FirstNight(
        start=first.at,
        time_zones=first.plan.time_zones,
        workloads=len(scalable_workloads(first.state)),
        idle=dict(sorted(counts.items())),
        already=len(already),
        held_back=tuple(held[what] for what in sorted(held)),
    )


def _idles(made: Plan) -> dict[str, str]:
    return {str(one.ref): f"IdlingPolicy {one.policy}" for one in made.actions if one.decision.idles}


def night_lines(night: FirstNight) -> Iterator[str]:
    """Yield the lines about the first night, and about production that is left out."""
    yield from _first_lines(night)
    yield from left_out_lines(night.left_out, night.places)


def _first_lines(night: FirstNight) -> Iterator[str]:
    if night.start is None:
        yield f"First night: nothing goes idle in {SEARCHED.days} days"
        return
    total = sum(night.idle.values())
    verb = "goes" if total == 1 else "go"
    already = f", {night.already} {'is' if night.already == 1 else 'are'} idle already" if night.already else ""
    start = time_and_zone(night.start, common_zone(night.time_zones))
    yield f"First night ({start}): {total} of {counted(night.workloads, 'workload')} {verb} idle{already}"
    for policy, number in night.idle.items():
        yield f"  {one_line(policy)} ({night.places.get(policy, '')}): {counted(number, 'workload')}"
    for held in night.held_back:
        yield f"  held back: {held.what}"
