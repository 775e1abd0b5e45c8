"""Commands that pages only name have verbs and options that there are; those in consoles are run by test_pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from reconciler.cli.app import cli
from tests.docs.pages import PAGES, ROOT

_CALL = re.compile(r"(?:^ *(?:\$ |- run: )?|`)(reconciler [a-z][^`\n|>#]*)", re.M)
NAMED = [
    *PAGES,
    ROOT / "SECURITY.md",
    *sorted((ROOT / "deploy").rglob("*.yaml")),
    *sorted((ROOT / "policies").rglob("*.md")),
]


def calls_in(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of `reconciler` that a page names; a usage line is no call."""
    for found in _CALL.finditer(text):
        words = shlex.split(found[1].replace("$(date -u +%F)", "2026-11-20"))[1:]
        command = cli.get_command(click.Context(cli), words[0])
        if command is not None and not usage_of(command).startswith(" ".join(words[1:])):
            yield words


def usage_of(command: click.Command) -> str:
    """Return the arguments as the reference has them: "TOOL [PATH]..."."""
    return " ".join(piece for piece in command.collect_usage_pieces(click.Context(command)) if piece != "[OPTIONS]")


def test_every_command_that_is_named_can_be_called() -> None:
    wrong = []
    for verb, *arguments in (call for page in NAMED for call in calls_in(page.read_text()) if len(call) > 1):
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        try:
            command.make_context(verb, arguments)
        except click.UsageError as error:
            wrong.append((verb, arguments, error.format_message()))
        except click.exceptions.Exit:  # --help
            pass
    assert wrong == []
