"""`reconciler plan`: what would change now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click
from msgspec.structs import replace

from reconciler.cli.calendar import calendars_of
from reconciler.cli.metrics import metrics_options
from reconciler.cli.options import (
    color_option,
    context_option,
    filter_options,
    now_option,
    option,
    output_option,
    path_argument,
    quiet_option,
    run_options,
    summary_option,
    verb,
    verbose_option,
    world_options,
)
from reconciler.cli.output import rendered, say, show
from reconciler.cli.progress import TrackedRun, planned_run, progress_option
from reconciler.cli.run import RunOptions, check_out, exit_of_plan, save
from reconciler.decide.decisions import Job
from reconciler.decide.schedule import open_periods
from reconciler.errors import ExitCode, ReconcilerError, UsageError, first_exit_code
from reconciler.model import ObjectRef
from reconciler.pipeline import plan
from reconciler.plan.model import Plan
from reconciler.policy.types import Fleet, PolicySet

_AHEAD = timedelta(days=7)
_FLEET_FIELDS = {
    "clusters": "spec.clusters",
    "home": "spec.home",
    "namespace": "spec.namespace",
    "former_names": "spec.formerNames",
    "limits": "spec.limits",
    "protected_namespaces": "spec.protectedNamespaces",
    "allowed_picker_hosts": "spec.podPickers.allowedHosts",
}

Periods = tuple[tuple[datetime, datetime], ...]


def compared(base_policies: PolicySet, head_policies: PolicySet, head: Plan, options: RunOptions) -> str:
    """Return, as Markdown for a pull request, what the policies of `head` do that those of the base do not.

    `head_policies` are as they were read; `head` may have been made with the Fleet of the base.
    """
    from reconciler.report.comparison import PolicyChange, render_markdown_comparison

    unlifted = replace(options.request(), filters=options.words.filters(), run_id="")
    before = plan(base_policies, options.world(base_policies.fleet), unlifted)
    selected_before, selected_after = _selected(before), _selected(head)
    change = PolicyChange(
        newly_selected=tuple(sorted({ref for _, ref in selected_after - selected_before})),
        no_longer_selected=tuple(sorted({ref for _, ref in selected_before - selected_after})),
        windows_before=_windows(base_policies, options.now),
        windows_after=_windows(head_policies, options.now),
        zones={name: one.zone for found in (base_policies, head_policies) for name, one in calendars_of(found)},
        unanswered=head.unanswered,
        fleet_changes=fleet_changes(base_policies.fleet, head_policies.fleet),
        fleet_from_base=options.fleet_from == "base",
    )
    return render_markdown_comparison(before, head, change)


def fleet_changes(base: Fleet, head: Fleet) -> tuple[str, ...]:
    """Return which fields of a Fleet differ between two, as they are called in its file, sorted."""
    names = {"name": "metadata.name", **_FLEET_FIELDS}
    return tuple(sorted(words for name, words in names.items() if getattr(base, name) != getattr(head, name)))


def _selected(made: Plan) -> set[tuple[Job, ObjectRef]]:
    """Return the workloads that some policy selects, by job; what only carries marks of one is selected no longer."""
    return {(one.job, one.ref) for one in made.explanations if one.selected and one.ref.kind != "Service"}


def _windows(policies: PolicySet, now: datetime) -> Mapping[str, Periods]:
    return {name: open_periods(calendar, now, now + _AHEAD) for name, calendar in calendars_of(policies)}


@verb("plan")
@path_argument()
@context_option
@world_options
@now_option
@output_option("text", "json", "yaml", "markdown", "html")
@option("--out", metavar="FILE", help="Save the plan there too, for `reconciler apply FILE`.")
@option("--base", metavar="PATH", help="With -o markdown: compare with these policies.")
@option(
    "--fleet-from",
    type=click.Choice(["head", "base"]),
    default="head",
    help="With --base: which Fleet names clusters and connections; base for untrusted pull requests.",
)
@option("--call-pickers", is_flag=True, help="Call the pod pickers; apply calls them again.")
@option("--detailed-exitcode", is_flag=True, help="Exit with 2 where changes are pending.")
@filter_options
@run_options
@color_option
@verbose_option
@summary_option
@quiet_option
@progress_option
@metrics_options
def command(path: str, output: str, base: str | None, **flags: Any) -> int:
    """Show what the policies below PATH would change now.

    Nothing is written, and no lock is taken.
    """
    options = RunOptions.of(path, flags)
    if base is not None and output != "markdown":
        raise UsageError("--base: compares as Markdown only, expected -o markdown")
    if base is None and options.fleet_from == "base":
        raise UsageError("--fleet-from: there is no base to take the Fleet from, expected it beside --base")
    if flags["out"] is not None:
        check_out(flags["out"])
    return planned_run("plan", options, flags, lambda run: _planned(run, output, base, flags))


def _planned(run: TrackedRun, output: str, base: str | None, flags: dict[str, Any]) -> ExitCode:
    options = run.options
    policies = options.policies()
    before = None if base is None else options.read(base)
    with_fleet = policies if before is None or options.fleet_from == "head" else replace(policies, fleet=before.fleet)
    world = run.metrics.opened(options.world(with_fleet.fleet))
    made = plan(with_fleet, world, options.request())
    run.metrics.decided(made)
    text = rendered(made, None, output, options.style) if before is None else compared(before, policies, made, options)
    run.progress.close()
    saved = _saved(made, flags["out"])
    show(text, output, color=options.color)
    return first_exit_code([saved, exit_of_plan(made, detailed=flags["detailed_exitcode"])])


def _saved(made: Plan, file: str | None) -> ExitCode:
    """Save the plan where that was asked for; what goes wrong is told beside the plan, never instead of it."""
    try:
        if file is not None:
            save(made, file)
    except ReconcilerError as error:
        say(f"error: {error}")
        return error.exit_code
    return ExitCode.DONE
