"""`reconciler show`: a saved plan or report, in another form."""

from __future__ import annotations

import click

from reconciler.cli.options import (
    color_option,
    colored,
    output_option,
    summary_option,
    text_width,
    verb,
    verbose_option,
)
from reconciler.cli.output import rendered, show
from reconciler.cli.plan_file import json_in_file
from reconciler.plan.allowed_changes import check_allowed
from reconciler.report.json import plan_and_outcomes
from reconciler.report.text import Style


@verb("show")
@click.argument("file", type=click.Path())
@output_option("text", "json", "yaml", "markdown", "html")
@color_option
@verbose_option
@summary_option
def command(file: str, output: str, color: str, verbose: bool, summary: bool) -> None:
    """Show the plan or report saved in FILE."""
    made, outcomes = plan_and_outcomes(json_in_file(file), where=file)
    check_allowed(made, file)
    style = Style(colored(color), verbose, summary, text_width())
    show(rendered(made, outcomes, output, style), output, color=style.color)
