"""`reconciler plan`: what would change now."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.comparing import compared
from reconciler.cli.exit_codes import exit_of_plan
from reconciler.cli.options import (
    color_option,
    filter_options,
    now_option,
    option,
    output_option,
    path_argument,
    quiet_option,
    run_options,
    verbose_option,
    world_options,
)
from reconciler.cli.rendering import rendered_plan
from reconciler.cli.running import Call, save
from reconciler.errors import UsageError
from reconciler.pipeline import plan


@click.command(name="plan")
@path_argument()
@world_options
@now_option
@output_option("text", "json", "yaml", "markdown", "html")
@option("--out", metavar="FILE", help="Also save the plan there, for `apply FILE`.")
@option("--base", metavar="PATH", help="With -o markdown: compare with these policies, same clusters, same time.")
@option("--call-pickers", is_flag=True, help="Ask the pod pickers now; apply asks them again.")
@option("--detailed-exitcode", is_flag=True, help="End with 2 where changes are pending.")
@filter_options
@run_options
@color_option
@verbose_option
@quiet_option
def command(path: str, output: str, out: str | None, base: str | None, detailed_exitcode: bool, **flags: Any) -> int:
    """Show what the policies below PATH would change now. Nothing is written, no lock is taken."""
    call = Call.of(path, flags)
    if base is not None and output != "markdown":
        raise UsageError("--base: compares as Markdown only, expected -o markdown")
    policies = call.policies()
    world = call.world(policies.fleet)
    made = plan(policies, world, call.request())
    text = rendered_plan(made, output, call) if base is None else compared(base, policies, made, call)
    if out is not None:
        save(made, out)
    click.echo(text, nl=False)
    return exit_of_plan(made, detailed=detailed_exitcode)
