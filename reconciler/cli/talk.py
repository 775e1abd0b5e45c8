"""What is said on stderr beside the artefact."""

from __future__ import annotations

from contextlib import suppress

import click


def say(text: str, *, nl: bool = True) -> None:
    """Say `text` on stderr. Nobody may be listening any more; that is no reason to stop half-way."""
    with suppress(OSError):
        click.echo(text, err=True, nl=nl)
