"""`reconciler plan`: what would change now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from reconciler.cli.comparing import compared
from reconciler.cli.exit_codes import exit_of_plan
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
from reconciler.cli.progress import progress_option
from reconciler.cli.rendering import rendered_plan
from reconciler.cli.running import Call, check_out, save
from reconciler.cli.talk import say, show
from reconciler.cli.watching import Watched, planned_run
from reconciler.errors import ExitCode, ReconcilerError, UsageError, first_exit_code
from reconciler.pipeline import plan
from reconciler.plan.model import Plan


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
    help="With --base: which Fleet names clusters and connections; base for policies of strangers.",
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
    call = Call.of(path, flags)
    if base is not None and output != "markdown":
        raise UsageError("--base: compares as Markdown only, expected -o markdown")
    if base is None and call.fleet_from == "base":
        raise UsageError("--fleet-from: there is no base to take the Fleet from, expected it beside --base")
    if flags["out"] is not None:
        check_out(flags["out"])
    return planned_run("plan", call, flags, lambda run: _planned(run, output, base, flags))


def _planned(run: Watched, output: str, base: str | None, flags: dict[str, Any]) -> ExitCode:
    call = run.call
    policies = call.policies()
    before = None if base is None else call.read(base)
    with_fleet = policies if before is None or call.fleet_from == "head" else replace(policies, fleet=before.fleet)
    world = run.measuring.opened(call.world(with_fleet.fleet))
    made = plan(with_fleet, world, call.request())
    run.measuring.decided(made)
    text = rendered_plan(made, output, call) if before is None else compared(before, policies, made, call)
    run.progress.close()
    saved = _saved(made, flags["out"])
    show(text, output, color=call.color)
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
