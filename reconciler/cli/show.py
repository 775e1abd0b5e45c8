"""`reconciler show`: a saved plan or report in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reconciler.cli.options import argument, output_option, verb
from reconciler.cli.output import FORMATS, show
from reconciler.cli.run_options import STYLE, RunOptions
from reconciler.errors import PlanFileError
from reconciler.plan.allowed_changes import check_allowed
from reconciler.untrusted_text import parse_json


def json_in_file(file: str) -> Any:
    """Return the JSON value in `file`.

    Raises:
        PlanFileError: it cannot be read, or holds no JSON.
    """
    try:
        return parse_json(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanFileError(f"{file}: {error.strerror}, expected a saved plan") from error
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{file}: is not JSON ({error}), expected a saved plan") from error


class ShowOptions(RunOptions):
    file: str = argument("FILE", type=click.Path())
    output: str = output_option(*FORMATS)


@verb("show", ShowOptions, *STYLE)
def show_command(options: ShowOptions) -> None:
    """Show the plan or report saved in FILE."""
    from reconciler.report.json import plan_and_outcomes

    plan, outcomes = plan_and_outcomes(json_in_file(options.file), where=options.file)
    check_allowed(plan, options.file, None)
    show(FORMATS[options.output](plan, outcomes, options.style), options.output, color=options.color)
