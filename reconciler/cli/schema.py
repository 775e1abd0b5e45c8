"""`reconciler schema`: the JSON Schema of a kind, and a catalog of schemas for editors."""

from __future__ import annotations

import re

import click

from reconciler.cli.options import option, output_option, verb
from reconciler.cli.output import as_text, show
from reconciler.errors import UsageError
from reconciler.policy.schemas import load_schema, schema_of

_ADDRESS = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")


@verb("schema")
@click.argument("kind")
@option("--url", metavar="URL", help="With KIND catalog: the address of the folder that the schemas are served from.")
@output_option("json", "yaml")
def command(kind: str, output: str, url: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of KIND: a kind of policies, PolicyTest, Plan or Report.

    Policy is the schema of files with policies of any kind. catalog is no schema, but a catalog in the form of
    SchemaStore, which tells editors which schema is for which file.
    """
    if kind.lower() == "catalog":
        show(as_text(_catalog(url), output), output)
        return
    if url is not None:
        raise UsageError("--url: stands beside a kind, expected it beside catalog")
    found = load_schema("Policy") if kind.lower() == "policy" else schema_of(kind)
    show(as_text(found, output), output)


def _catalog(url: str | None) -> dict[str, object]:
    from reconciler.policy.kinds.json_schema import schema_catalog

    if url is None or not _ADDRESS.fullmatch(url):
        found = "is missing" if url is None else "is no address of a folder"
        raise UsageError(f"--url: {found}, expected where the schemas are served, like https://example.com/schemas")
    return schema_catalog(url.rstrip("/"))
