"""`reconciler completion`: the script with which a shell completes verbs, options and their values."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class, shell_complete

from reconciler.cli.options import verb
from reconciler.cli.output import show

COMPLETE = "_RECONCILER_COMPLETE"
"""The variable in which a shell's script asks for completions."""

_NAME = "reconciler"


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes verbs, options and their values in SHELL."""
    found = get_completion_class(shell)
    assert found is not None
    script = found(click.Group(_NAME), {}, _NAME, COMPLETE)
    show(script.source_template % script.source_vars())


def complete(group: click.Group) -> int:
    """Print what a shell asks for in the variable COMPLETE; return the exit code."""
    return shell_complete(group, {}, _NAME, COMPLETE, os.environ[COMPLETE])
