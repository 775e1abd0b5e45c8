"""What shells complete: `reconciler completion`, which prints the script for one, and what such a script asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from reconciler.cli.app import COMPLETE, cli
from reconciler.cli.options import Options, argument, verb
from reconciler.cli.output import show, show_rows
from reconciler.cli.streams import flush_streams, mend_streams


class _CompletionOptions(Options):
    shell: str = argument("{bash|zsh|fish}", type=click.Choice(["bash", "zsh", "fish"]))


@verb("completion", _CompletionOptions)
def completion_command(options: _CompletionOptions) -> None:
    """Print the script that completes verbs, options and their values in SHELL.

    # Complete in this bash
    source <(reconciler completion bash)
    # Complete in every fish
    completion fish > ~/.config/fish/completions/reconciler.fish
    """
    found = get_completion_class(options.shell)
    assert found is not None
    script = found(click.Group("reconciler"), {}, "reconciler", COMPLETE)
    show(script.source_template % script.source_vars())


_DIRECTIVES = {"plain": 4, "file": 0, "dir": 16}
"""The numbers with which Cobra says whether no files, files, or folders may stand there, too."""


def kubectl_complete() -> None:
    """Print what may stand in place of the last argument: a line for each, and what kind of paths else.

    The program kubectl_complete-reconciler: kubectl calls it to complete `kubectl reconciler ...`.
    """
    mend_streams()
    *before, begun = sys.argv[1:] or [""]
    items = ShellComplete(cli, {}, "kubectl reconciler", COMPLETE).get_completions(before, begun)
    show_rows(_as_cobra_reads(items))
    flush_streams()


def _as_cobra_reads(items: list[CompletionItem]) -> Iterator[Sequence[str]]:
    """Yield the value of each item, with its description where it has one, and last the number that tells what else."""
    for item in items:
        if item.type == "plain":
            yield (str(item.value), item.help) if item.help else (str(item.value),)
    directive = next((_DIRECTIVES[item.type] for item in items if item.type != "plain"), _DIRECTIVES["plain"])
    yield (f":{directive}",)
