"""`reconciler schema`: the JSON Schema of a kind."""

from __future__ import annotations

import click

from reconciler.cli.options import output_option, verb
from reconciler.cli.output import as_text, show
from reconciler.policy.schemas import schema_of


@verb("schema")
@click.argument("kind")
@output_option("json", "yaml")
def command(kind: str, output: str) -> None:
    """Print the JSON Schema (draft 2020-12) of KIND: a kind of policies, Plan or Report."""
    show(as_text(schema_of(kind), output), output)
