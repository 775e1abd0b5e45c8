"""`reconciler plan` and `reconciler diff`: what would change now, and the same as a unified diff of YAML."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.exit_codes import exit_of_plan
from reconciler.cli.options import (
    color_option,
    context_option,
    days_option,
    detailed_exitcode_option,
    duration,
    fail_on_option,
    filter_options,
    option,
    output_option,
    path_argument,
    run_options,
    shard_option,
    style_options,
    tenant_option,
    tick_option,
    together,
    verb,
    world_options,
)
from reconciler.cli.output import FORMATS, show
from reconciler.cli.progress import TrackedRun, planned_run, progress_options
from reconciler.cli.run import RunOptions, check_out, save
from reconciler.errors import ExitCode, UsageError, first_exit_code

_of_clusters = together(path_argument(), context_option, world_options)
_of_plans = together(detailed_exitcode_option, fail_on_option, filter_options, shard_option, tenant_option, run_options)
REVIEW_OUTPUTS = ("text", "json", "yaml", "markdown")


@verb("plan")
@_of_clusters
@output_option(*FORMATS)
@option("--out", metavar="FILE", help="Save the plan there too, for `reconciler apply FILE`.")
@option("--base", metavar="PATH", help="Compare with these policies, over the coming days: what a change of them does.")
@option(
    "--fleet-from",
    type=click.Choice(["head", "base"]),
    default="head",
    help="With --base: which Fleet names clusters and connections; base for untrusted pull requests.",
)
@days_option("With --base and --snapshot: how many days to compare.")
@tick_option
@option(
    "--max-snapshot-age",
    type=duration(),
    default="24h",
    help="With --base: refuse a snapshot that was recorded longer before --now.",
)
@option("--call-pickers", is_flag=True, help="Call the pod pickers; apply calls them again.")
@_of_plans
@style_options
@progress_options
def plan_command(path: str, output: str, base: str | None, **flags: Any) -> int:
    """Show what the policies below PATH would change now.

    Nothing is written, and no lock is taken.
    """
    options = RunOptions.of(path, flags)
    if base is not None and output not in REVIEW_OUTPUTS:
        raise UsageError(f"--base: compares as {', '.join(REVIEW_OUTPUTS)}, expected -o with one of them")
    if base is None and options.fleet_from == "base":
        raise UsageError("--fleet-from: there is no base to take the Fleet from, expected it beside --base")
    if flags["out"] is not None and base is not None and options.snapshot is not None:
        raise UsageError(
            "--out: a comparison on a snapshot counts its metrics as fresh, so its plan is none to apply, expected no "
            "--out beside --base and --snapshot; save one with `reconciler plan --out` alone"
        )
    if flags["out"] is not None and options.shard is not None:
        raise UsageError("--out: a saved plan is of the whole Fleet, expected no --shard beside it")
    if base is not None and options.shard is not None:
        raise UsageError("--base: compares the whole Fleet, expected no --shard beside it")
    if flags["out"] is not None:
        check_out(flags["out"])
    return planned_run("plan", options, lambda run: _planned(run, output, base, flags))


def _planned(run: TrackedRun, output: str, base: str | None, flags: dict[str, Any]) -> ExitCode:
    options = run.options
    if base is not None:
        from reconciler.cli.review import reviewed

        return reviewed(run, output, base, flags)
    made = run.planned()
    saved = save(made, flags["out"])
    show(FORMATS[output](made, None, options.style), output, color=options.color)
    return first_exit_code([saved, exit_of_plan(made, options.fail_on, detailed=flags["detailed_exitcode"])])


@verb("diff")
@_of_clusters
@_of_plans
@color_option
@progress_options
def diff_command(path: str, detailed_exitcode: bool, **flags: Any) -> int:
    """Show what the policies below PATH would change now, as a unified diff of YAML.

    The diff has the fields of each object that the plan reads or writes, annotations included, and created objects
    whole. Values of environment variables are masked. Exit codes are those of plan.
    """

    def shown(run: TrackedRun) -> ExitCode:
        from reconciler.report.diff import render_diff

        made = run.planned()
        show(render_diff(made, color=run.options.color), color=run.options.color)
        return exit_of_plan(made, run.options.fail_on, detailed=detailed_exitcode)

    return planned_run("diff", RunOptions.of(path, flags), shown)
