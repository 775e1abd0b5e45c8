"""`reconciler diff`: what would change now, as a unified diff of YAML."""

from __future__ import annotations

from reconciler.cli.exit_of_run import exit_of_plan
from reconciler.cli.options import verb
from reconciler.cli.output import show
from reconciler.cli.progress import TrackedRun, planned_run
from reconciler.cli.run_options import OF_PLANS, PROGRESS, WORLD, RunOptions
from reconciler.exit_codes import ExitCode
from reconciler.report.diff import render_diff


@verb("diff", RunOptions, "path", "context", *WORLD, *OF_PLANS, "color_choice", *PROGRESS)
def diff_command(options: RunOptions) -> int:
    """Show what the policies below PATH would change now, as a unified diff of YAML.

    The diff has the fields of each object that the plan reads or writes, annotations included, and created objects
    whole. Values of environment variables are masked. Exit codes are those of plan.
    """

    def shown(run: TrackedRun[RunOptions]) -> ExitCode:
        plan = run.planned()
        show(render_diff(plan, color=options.color), color=options.color)
        return exit_of_plan(plan, options.fail_on, detailed=options.detailed_exitcode)

    return planned_run("diff", options, shown)
