"""`reconciler diff`: the plan as a unified diff of YAML."""

from __future__ import annotations

from typing import Any

from reconciler.cli.metrics import metrics_options
from reconciler.cli.options import (
    color_option,
    context_option,
    detailed_exitcode_option,
    filter_options,
    now_option,
    path_argument,
    quiet_option,
    run_options,
    tenant_option,
    verb,
    world_options,
)
from reconciler.cli.output import show
from reconciler.cli.progress import TrackedRun, planned_run, progress_option
from reconciler.cli.run import RunOptions, exit_of_plan
from reconciler.errors import ExitCode
from reconciler.pipeline import plan


@verb("diff")
@path_argument()
@context_option
@world_options
@now_option
@detailed_exitcode_option
@filter_options
@tenant_option
@run_options
@color_option
@quiet_option
@progress_option
@metrics_options
def command(path: str, detailed_exitcode: bool, **flags: Any) -> int:
    """Show what the policies below PATH would change now, as a unified diff of YAML.

    The diff has the fields of each object that the plan reads or writes, annotations included, and created objects
    whole. Values of environment variables are masked. Exit codes are those of plan.
    """

    def shown(run: TrackedRun) -> ExitCode:
        from reconciler.report.diff import render_diff

        options = run.options
        policies = options.policies(partly=True)
        made = plan(policies, run.metrics.opened(options.world(policies.fleet)), options.request())
        run.metrics.decided(made)
        run.progress.close()
        show(render_diff(made, color=options.color), color=options.color)
        return exit_of_plan(made, detailed=detailed_exitcode)

    return planned_run("diff", RunOptions.of(path, flags), flags, shown)
