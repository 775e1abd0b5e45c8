"""Everything that is printed: the artefact on stdout, what is said beside it on stderr. Nothing else prints.

Names and texts in it come from clusters, policies, files and the command line. A control character among them would
move a terminal's cursor or hide a line, and a line that begins with `::` is a command to GitHub's runners.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress

import click

from reconciler.untrusted_text import escaped, one_line

_COLOR = re.compile(r"(\x1b\[(?:0|1|2|31|32|33|36|1;33)m)")
_VALUES = ("json", "yaml")
_COMMAND = re.compile(r"^(\s*):(?=:)")
_OLD_COMMAND = "##["
"""Runners of GitHub read a command of the older form anywhere in a line."""


def show(text: str, output: str = "text", *, color: bool = False) -> None:
    """Print the artefact in the form `output` on stdout; with `color` its colours are ours."""
    click.echo(_values(text) if output in _VALUES else _text(text, color=color), nl=False, color=color)


def show_lines(lines: Iterable[str]) -> None:
    """Print each of `lines` on stdout, as one line whatever it holds."""
    show("".join(f"{escaped(line)}\n" for line in lines))


def show_command(command: str, properties: dict[str, object], message: str) -> None:
    """Print a command to GitHub's runners, which puts `message` beside a line of a file.

    Source: actions/toolkit packages/core/src/command.ts, escapeData, escapeProperty.
    """
    named = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    click.echo(_bare(f"::{command} {named}::{escaped(_data(message))}"))


def say(text: str, *, nl: bool = True) -> None:
    """Say `text` on stderr, on one line. Nobody may be listening any more; that is no reason to stop half-way."""
    _say(_text(one_line(text)), nl=nl)


def say_json(value: object) -> None:
    """Say `value` on stderr as one line of JSON."""
    _say(_values(json.dumps(value, ensure_ascii=False)), nl=True)


def say_text(text: str, *, color: bool = False) -> None:
    """Say the lines of `text` on stderr, each as it is."""
    _say(_text(text, color=color), nl=False, color=color)


def _say(text: str, *, nl: bool, color: bool = False) -> None:
    with suppress(OSError):
        click.echo(text, err=True, nl=nl, color=color)


def _text(text: str, *, color: bool = False) -> str:
    return "\n".join(_line(line, color=color) for line in text.split("\n"))


def _line(line: str, *, color: bool = False) -> str:
    parts = _COLOR.split(line) if color else [line]
    safe = "".join(part if color and _COLOR.fullmatch(part) else escaped(part) for part in parts)
    return _bare(_COMMAND.sub(r"\1\\x3a", safe))


def _bare(line: str) -> str:
    return line.replace(_OLD_COMMAND, "#\\x23[")


def _values(text: str) -> str:
    """Return JSON or YAML; what is not printable stands inside strings only, and there an escape means the same."""
    text = text.replace(_OLD_COMMAND, "#\\u0023[")
    if text.replace("\n", "").isprintable():
        return text
    return "".join(part if part.isprintable() or part == "\n" else json.dumps(part)[1:-1] for part in text)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return escaped(_data(text).replace(":", "%3A").replace(",", "%2C"))
