"""The options of `reconciler plan`, and the file that --out names."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import click

from reconciler.cli.option_values import duration
from reconciler.cli.options import days_option, option, output_option
from reconciler.cli.output import FORMATS, say
from reconciler.cli.run_options import RunOptions
from reconciler.errors import UsageError
from reconciler.exit_codes import ExitCode
from reconciler.plan.model import Plan
from reconciler.yaml.files import write_private

REVIEW_OUTPUTS = ("text", "json", "yaml", "markdown")


class PlanOptions(RunOptions):
    output: str = output_option(*FORMATS)
    out: str | None = option("Save the plan there too, for `reconciler apply FILE`.", metavar="FILE")
    base: str | None = option(
        "Compare with these policies, over the coming days: what a change of them does.", metavar="PATH"
    )
    fleet_from: str = option(
        "With --base: which Fleet names clusters and connections; base for untrusted pull requests.",
        type=click.Choice(["head", "base"]),
        default="head",
    )
    days: int = days_option("With --base and --snapshot: how many days to compare.")
    max_snapshot_age: timedelta = option(
        "With --base: refuse a snapshot that was recorded longer before --now.",
        type=duration(),
        default=timedelta(hours=24),
        default_words="24h",
    )
    call_pickers: bool = option("Call the pod pickers; apply calls them again.", default=False)


def save(plan: Plan, file: str | None) -> ExitCode:
    """Write `plan` for a later `apply FILE`; only we may read it, because pod templates may hold what is private.

    None: that was not asked for. What goes wrong is reported beside what is shown, never instead of it.
    """
    try:
        if file is not None:
            from reconciler.plan.json import plan_in_parts

            write_private(file, plan_in_parts(plan))
    except OSError as error:
        say(f"error: --out: {file}: {error.strerror}, expected a file that can be written")
        return ExitCode.NOTHING_DONE
    return ExitCode.DONE


def check_out(file: str) -> None:
    """Refuse a file that `save` could not write, as far as can be seen before there is a plan.

    Raises:
        UsageError: it is there and no regular file, its folder is not there, or one of them may not be written.
    """
    path = Path(file)
    if path.is_symlink():
        raise UsageError(f"--out: {file} is a symbolic link, expected a file")
    if path.is_dir():
        raise UsageError(f"--out: {file} is a folder, expected a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"--out: {file} is not a regular file, expected one")
    if not path.parent.is_dir():
        raise UsageError(f"--out: {path.parent} is not a directory, expected one that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--out: {file} may not be written, expected a file that can be")
