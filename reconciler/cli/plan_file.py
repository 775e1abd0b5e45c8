"""Plans as files: the options of `reconciler plan`, the file that --out writes, and `show`, which reads one."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import click

from reconciler.cli.option_values import duration
from reconciler.cli.options import argument, days_option, option, output_option, verb
from reconciler.cli.output import FORMATS, say, show
from reconciler.cli.run_options import STYLE, RunOptions
from reconciler.errors import ExitCode, PlanFileError, UsageError
from reconciler.plan.model import Plan
from reconciler.untrusted_text import parse_json
from reconciler.yaml.files import plain_path, write_private


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
    path = plain_path(file)
    folder = os.path.dirname(path) or "."
    if os.path.islink(path):
        raise UsageError(f"--out: {file} is a symbolic link, expected a file")
    if os.path.isdir(path):
        raise UsageError(f"--out: {file} is a folder, expected a file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"--out: {file} is not a regular file, expected one")
    if not os.path.isdir(folder):
        raise UsageError(f"--out: {folder} is not a directory, expected one that exists")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"--out: {file} may not be written, expected a file that can be")


# A plan or a report that was saved.


def is_saved_plan(path: str) -> bool:
    """Return whether `path` is a file that holds JSON, as saved plans do; one that is named so need not be there."""
    is_named_so = os.path.splitext(plain_path(path))[1] == ".json"
    if is_named_so or not os.path.isfile(path):
        return is_named_so and not os.path.isdir(path)
    with open(path, "rb") as stream:
        return stream.read(64).lstrip().startswith(b"{")


def json_in_file(file: str) -> Any:
    """Return the JSON value in `file`.

    Raises:
        PlanFileError: it cannot be read, or holds no JSON.
    """
    try:
        with open(file, encoding="utf-8") as stream:
            return parse_json(stream.read())
    except OSError as error:
        raise PlanFileError(f"{file}: {error.strerror}, expected a saved plan") from error
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{file}: is not JSON ({error}), expected a saved plan") from error


class _ShowOptions(RunOptions):
    file: str = argument("FILE", type=click.Path())
    output: str = output_option(*FORMATS)


@verb("show", _ShowOptions, *STYLE)
def show_command(options: _ShowOptions) -> None:
    """Show the plan or report saved in FILE.

    # Read a saved plan
    show plan.json
    # Turn a report into a page
    show report.json -o html > report.html
    """
    from reconciler.report.json import plan_and_outcomes
    from reconciler.saved_plan.allowed_changes import check_allowed

    plan, outcomes = plan_and_outcomes(json_in_file(options.file), where=options.file)
    check_allowed(plan, options.file, None)
    show(FORMATS[options.output](plan, outcomes, options.style), options.output, color=options.color)
