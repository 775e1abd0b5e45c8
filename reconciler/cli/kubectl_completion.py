"""The program kubectl_complete-reconciler: kubectl calls it to complete `kubectl reconciler ...`.

Source: kubernetes/kubectl pkg/cmd/plugin/plugin_completion.go, and the directives of spf13/cobra completions.go.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from click.shell_completion import CompletionItem, ShellComplete

from reconciler.cli.app import COMPLETE, cli
from reconciler.cli.output import show_rows
from reconciler.cli.streams import flush_streams, mend_streams

_NO_FILES, _FILES, _FOLDERS = 4, 0, 16
_DIRECTIVES = {"plain": _NO_FILES, "file": _FILES, "dir": _FOLDERS}


def main() -> None:
    """Print what may stand in place of the last argument: a line for each, and what kind of paths else."""
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
    directive = next((_DIRECTIVES[item.type] for item in items if item.type != "plain"), _NO_FILES)
    yield (f":{directive}",)
