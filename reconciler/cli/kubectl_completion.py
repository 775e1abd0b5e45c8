"""The program kubectl_complete-reconciler: kubectl calls it to complete `kubectl reconciler ...`.

Source: kubernetes/kubectl pkg/cmd/plugin/plugin_completion.go, and the directives of spf13/cobra completions.go.
"""

from __future__ import annotations

import sys

from click.shell_completion import CompletionItem, ShellComplete

from reconciler.cli.app import COMPLETE, cli
from reconciler.cli.streams import flush_streams, mend_streams

_NO_FILES, _FILES, _FOLDERS = 4, 0, 16
_DIRECTIVES = {"plain": _NO_FILES, "file": _FILES, "dir": _FOLDERS}


def main() -> None:
    """Print what may stand in place of the last argument: a line for each, and what kind of paths else."""
    mend_streams()
    *before, begun = sys.argv[1:] or [""]
    items = ShellComplete(cli, {}, "kubectl reconciler", COMPLETE).get_completions(before, begun)
    sys.stdout.write(_as_cobra_reads(items))
    flush_streams()


def _as_cobra_reads(items: list[CompletionItem]) -> str:
    """Return a line for each item, with its description after a tab, and last the number that tells what else."""
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in items if item.type == "plain"]
    directive = next((_DIRECTIVES[item.type] for item in items if item.type != "plain"), _NO_FILES)
    return "".join(f"{line}\n" for line in [*lines, f":{directive}"])
