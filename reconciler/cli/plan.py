"""`reconciler plan` and `reconciler diff`: what would change now."""

from __future__ import annotations

from reconciler.cli.exit_codes import exit_of_plan, tracked
from reconciler.cli.options import verb
from reconciler.cli.output import FORMATS, show
from reconciler.cli.plan_file import PlanOptions, check_out, save
from reconciler.cli.progress import TrackedRun
from reconciler.cli.run_options import OF_PLANS, PROGRESS, STYLE, WORLD, RunOptions
from reconciler.errors import ExitCode, UsageError, first_exit_code
from reconciler.report.diff import render_diff


@verb("plan", PlanOptions, "path", "context", *WORLD, "tick", *OF_PLANS, *STYLE, *PROGRESS)
def plan_command(options: PlanOptions) -> int:
    """Show what the policies below PATH would change now.

    Nothing is written, and no lock is taken.

    # Show what would change on the clusters of the Fleet
    plan
    # Plan from a snapshot as of a time, and save the plan
    plan --snapshot DIR --now 2026-11-20T22:00:00Z --out plan.json
    """
    based = options.base is not None
    if based:
        from reconciler.cli.review import FORMATS as COMPARED

        if options.output not in COMPARED:
            raise UsageError(f"--base: compares as {', '.join(COMPARED)}, expected -o with one of them")
    if not based and options.fleet_from == "base":
        raise UsageError("--fleet-from: there is no base to take the Fleet from, expected it beside --base")
    if options.out is not None and based and options.snapshot is not None:
        raise UsageError(
            "--out: a comparison on a snapshot counts its metrics as fresh, so its plan is none to apply, expected no "
            "--out beside --base and --snapshot; save one with `reconciler plan --out` alone"
        )
    if options.out is not None and options.shard is not None:
        raise UsageError("--out: a saved plan is of the whole Fleet, expected no --shard beside it")
    if based and options.shard is not None:
        raise UsageError("--base: compares the whole Fleet, expected no --shard beside it")
    if options.out is not None:
        check_out(options.out)
    return tracked("plan", options, _planned)


def _planned(run: TrackedRun[PlanOptions]) -> ExitCode:
    options = run.options
    if options.base is not None:
        from reconciler.cli.review import reviewed

        return reviewed(run, options.base)
    plan = run.planned(call_pickers=options.call_pickers)
    saved = save(plan, options.out)
    show(FORMATS[options.output](plan, None, options.style), options.output, color=options.color)
    return first_exit_code([saved, exit_of_plan(plan, options.fail_on, detailed=options.detailed_exitcode)])


@verb("diff", RunOptions, "path", "context", *WORLD, *OF_PLANS, "color_choice", *PROGRESS)
def diff_command(options: RunOptions) -> int:
    """Show what the policies below PATH would change now, as a unified diff of YAML.

    The diff has the fields of each object that the plan reads or writes, annotations included, and created objects
    whole. Values of environment variables are masked. Exit codes are those of plan.

    # Show each field that would change
    diff
    # Show one policy's changes, and end with 2 where there are any
    diff --policy idle-dev --detailed-exitcode
    """

    def shown(run: TrackedRun[RunOptions]) -> ExitCode:
        plan = run.planned()
        show(render_diff(plan, color=options.color), color=options.color)
        return exit_of_plan(plan, options.fail_on, detailed=options.detailed_exitcode)

    return tracked("diff", options, shown)
