"""`reconciler plan --base`: what a change of policies does, from two forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.cli.exit_codes import exit_of_plan
from reconciler.cli.forecast import SimulatedSnapshot
from reconciler.cli.output import Formats, say_each, show
from reconciler.cli.plan_file import PlanOptions, save
from reconciler.cli.policy_source import only_of
from reconciler.cli.progress import TrackedRun
from reconciler.cli.second_process import beside
from reconciler.errors import ExitCode, FailOn, PolicyError, ReconcilerError, SnapshotError, first_exit_code
from reconciler.forecast.json import review_to_dict
from reconciler.forecast.review import Review, labels_in, narrowed, review_of
from reconciler.forecast.review_report import render_failure, render_markdown, render_text
from reconciler.forecast.simulation import HeldMetrics
from reconciler.forecast.timelines import Forecast
from reconciler.pipeline import plan_and_state
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import PolicySet, Tenant
from reconciler.report.times import age

if TYPE_CHECKING:
    from reconciler.world import World


FORMATS: Formats = {
    "text": render_text,
    "json": review_to_dict,
    "yaml": review_to_dict,
    "markdown": render_markdown,
}
FAILURES: Formats = {form: partial(render_failure, markdown=form == "markdown") for form in ("text", "markdown")}


def reviewed(run: TrackedRun[PlanOptions], base: str) -> ExitCode:
    """Show what the policies of this run do that those at `base` do not, and return what the run ends with.

    Raises:
        ReconcilerError: it cannot be judged; that was shown, unless as JSON.
    """
    output = run.options.output
    try:
        review, unknown = _review(run, base)
    except ReconcilerError as error:
        run.progress.close()
        if output in FAILURES:
            show(FAILURES[output](error), output)
        raise
    run.progress.close()
    saved = save(review.next_head, run.options.out)
    show(FORMATS[output](review), output)
    codes = _exit_codes(review, run.options.fail_on, detailed=run.options.detailed_exitcode)
    return first_exit_code([saved, unknown, *codes])


def _exit_codes(review: Review, fail_on: frozenset[FailOn], *, detailed: bool) -> Iterator[ExitCode]:
    """Yield the exit codes of a review; what limits hold back counts where the change does it, in any coming run.

    What is wrong with objects of the clusters does not count: no change of policies does that, and its exit code would
    hide what limits hold back.
    """
    notices = tuple(replace(notice, partial=False) for notice in review.next_head.notices)
    yield exit_of_plan(replace(review.next_head, held_back=(), notices=notices), fail_on)
    if review.held_back and FailOn.HELD_BACK in fail_on:
        yield ExitCode.HELD_BACK
    if detailed and (review.effect or review.next_head.unknown or review.next_head.unanswered):
        yield ExitCode.CHANGES_PENDING


def _review(run: TrackedRun[PlanOptions], base: str) -> tuple[Review, ExitCode]:
    options = run.options
    head = options.policies()
    before, problem = _base(options, base, head.only)
    with_fleet = head if before is None or options.fleet_from == "head" else replace(head, fleet=before.fleet)
    world = run.noted(_world(options, with_fleet), with_fleet.fleet)
    asked = replace(options.request(), call_pickers=options.call_pickers)
    state, plan = plan_and_state(with_fleet, world, asked)
    labels, run.plan = labels_in(state), plan
    if before is None:
        say_each("warning", [problem])
        played, old = _played(options, with_fleet)
        head_alone = None if played is None else played.forecast(with_fleet, options.days)
        alone = Review(head_alone, None, plan, None, snapshot_age=old, problem=problem)
        alone = replace(alone, replayed=_replayed(played, None, with_fleet))
        return narrowed(alone, options.filters, labels), ExitCode.PARTIAL
    unlifted = replace(asked, run_id="")
    state, without = plan_and_state(before, _world(options.replace(quiet=True), before), unlifted)
    labels |= labels_in(state)
    played, old = _played(options, before, with_fleet)
    found = review_of((before, head), _both(played, options.days, before, with_fleet), (without, plan), labels)
    found = narrowed(found, options.filters, labels)
    found = replace(found, fleet_from_base=options.fleet_from == "base", snapshot_age=old)
    return replace(found, replayed=_replayed(played, before, with_fleet)), ExitCode.DONE


def _world(options: PlanOptions, policies: PolicySet) -> World:
    """Return the clusters; metrics of a snapshot stay as fresh as they are in the days that are played on it."""
    world = options.world(policies.fleet)
    if options.snapshot is None:
        return world
    held = {name: replace(source, metrics=HeldMetrics(source.metrics)) for name, source in world.sources.items()}
    return replace(world, sources=held)


def _base(options: PlanOptions, path: str, tenant: Tenant | None) -> tuple[PolicySet | None, str]:
    """Return the policies of the base, the part of `tenant` where one is given, or None and why they cannot be used.

    Raises:
        PolicyError: they cannot, and the Fleet was to come from there.
    """
    try:
        found = options.read(path, partly=tenant is not None)
        return (found if tenant is None else only_of(found, found.fleet.tenant(tenant.name) or tenant)), ""
    except PolicyError as error:
        if options.fleet_from == "base":
            raise
        first = str(error.problems[0]) if error.problems else str(error)
        more = f", and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
        return None, f"those of the base cannot be used: {first}{more}"


def _played(options: PlanOptions, *sets: PolicySet) -> tuple[SimulatedSnapshot | None, timedelta | None]:
    """Return the snapshot of a run, None where it has none, and how old it is, None where that does not say.

    Raises:
        SnapshotError: it cannot be read, or is too old.
    """
    played = None if options.snapshot is None else SimulatedSnapshot(options, *sets)
    clusters = [] if played is None else [backend.cluster for backend in played.opened.backends.values()]
    recordings = [cluster.recording for cluster in clusters if isinstance(cluster, SnapshotCluster)]
    at = min((one.at for one in recordings if one is not None and one.at is not None), default=None)
    if at is not None and options.now - at > options.max_snapshot_age:
        raise SnapshotError(
            f"{options.snapshot}: was recorded {age(options.now - at)} ago, expected at most "
            f"{spelt_duration(options.max_snapshot_age)}; record it anew, or raise --max-snapshot-age"
        )
    return played, None if at is None else max(timedelta(), options.now - at)


def _both(
    played: SimulatedSnapshot | None, days: int, before: PolicySet, after: PolicySet
) -> tuple[Forecast | None, Forecast | None]:
    """Return the days to come with each, which are played at once: a process of its own plays the first."""
    if played is None:
        return None, None
    first = beside(lambda: played.forecast(before, days))
    second = played.forecast(after, days)
    return first(), second


def _replayed(
    played: SimulatedSnapshot | None, before: PolicySet | None, after: PolicySet
) -> tuple[Forecast | None, Forecast] | None:
    """Return the past with each of both, None where the snapshot does not hold what queries said then."""
    if played is None or not played.histories:
        return None
    length = max(history.end - history.start for history in played.histories.values())
    return None if before is None else played.replay(before, length), played.replay(after, length)
