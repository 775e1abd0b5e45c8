"""`reconciler compile`: the rules after all defaults, offline."""

from __future__ import annotations

from reconciler.cli.options import output_option, path_argument, verb
from reconciler.cli.output import as_text, show
from reconciler.policy.compiled import compile_policies
from reconciler.policy.load import read_policies


@verb("compile")
@path_argument()
@output_option("yaml", "json")
def command(path: str, output: str) -> None:
    """Print the policies below PATH with all defaults filled in. No cluster is read."""
    rules = compile_policies(read_policies(path))
    show(as_text(rules, output), output)
