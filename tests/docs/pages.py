"""Pages of the documentation, run: the files that a page shows, and its consoles with what they print.

A page begins in an empty folder, or in a copy of the folder of this repository that `<!-- folder: PATH -->` names. A
block with a `title` is a file of that name, written when its turn comes. In a `console` block a line that begins with
`$ ` is a command (it goes on in the next line after a backslash), and what follows is what the command prints. Commands
end with 0, or the next command is `echo $?`.

`python -m tests.docs` writes into the pages what their commands print now.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from reconciler.cli.app import run
from tests.pipeline.calls import Folder, inside

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_NOW = "2026-11-20T22:00:00Z"
_FOLDER = re.compile(r"^<!-- folder: (\S+) -->$", re.M)
_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>\w*)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.M | re.S,
)
_TITLE = re.compile(r'title="([^"]+)"')
_EXPORT = re.compile(r"export (\w+)=(\S*)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: what it says without its indentation, and the file that it is, if any."""

    language: str
    title: str | None
    text: str
    indent: str
    start: int
    end: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in their order; `start` and `end` are those of the text within."""
    for found in _BLOCK.finditer(page):
        indent, title = found["indent"], _TITLE.search(found["info"])
        text = "".join(line.removeprefix(indent) for line in found["text"].splitlines(keepends=True))
        yield Block(found["language"], title and title[1], text, indent, found.start("text"), found.end("text"))


@dataclass
class Reader:
    """Somebody who follows a page: a folder, a shell with variables, and how the last command ended."""

    folder: Folder
    variables: dict[str, str] = field(default_factory=dict)
    code: int = 0

    def follow(self, page: str) -> str:
        """Do all that a page says, and return the page with what its commands print."""
        parts, done = [], 0
        for block in blocks(page):
            if block.language == "console":
                parts += [page[done : block.start], indented(self.console(block.text), block.indent)]
                done = block.end
            elif block.title:
                self.folder.write(block.title, block.text)
        return "".join([*parts, page[done:]])

    def console(self, text: str) -> str:
        shown = said = ""
        commands = list(commands_of(text))
        for command, after in zip(commands, [*commands[1:], ""], strict=True):
            gap = "\n" if said and command != "echo $?" else ""
            said = self.command(command)
            assert self.code == 0 or after == "echo $?", f"$ {command}\n{said}\nends with {self.code}, unsaid"
            shown += f"{gap}$ {command}\n{said}"
        return shown

    def command(self, command: str) -> str:
        """Return what the command prints, stdout and stderr together, with a newline at its end unless it is empty."""
        if command == "echo $?":
            code, self.code = self.code, 0
            return f"{code}\n"
        exported = _EXPORT.fullmatch(command)
        if exported:
            self.variables[exported[1]] = exported[2]
            return ""
        environment = {**bare(), **self.variables}
        if command.startswith("reconciler ") and not set(command) & set("|&;<>$`\\\n"):
            with mock.patch.dict(os.environ, environment, clear=True):
                said, self.code = self.reconciler(shlex.split(command)[1:])
        else:
            done = subprocess.run(
                ["bash", "-c", f"exec 2>&1\n{command}"],
                cwd=self.folder.path,
                env=environment,
                capture_output=True,
                check=False,
            )
            said, self.code = done.stdout.decode(), done.returncode
        return said.rstrip("\n") + "\n" if said.strip() else ""

    def reconciler(self, arguments: list[str]) -> tuple[str, int]:
        said = io.StringIO()
        with inside(self.folder.path), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run(arguments)
        return said.getvalue(), code


def bare() -> dict[str, str]:
    """The variables of a shell in which nobody set anything, but the clock and what only a terminal shows."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        "PATH": path,
        "HOME": "/nonexistent",
        "COLUMNS": "120",
        "RECONCILER_NOW": _NOW,
        "RECONCILER_PROGRESS": "none",
    }


def commands_of(console: str) -> Iterator[str]:
    """Yield the commands of a console; one that goes on in the next line keeps its line break."""
    lines = iter(console.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            while command.endswith("\\"):
                command += "\n" + next(lines)
            yield command


def indented(text: str, indent: str) -> str:
    return "".join(indent + line if line.strip() else line for line in text.splitlines(keepends=True))


def followed(page: Path) -> str:
    """Return the page with what its commands print, done in a fresh folder."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "folder"
        begin = _FOLDER.search(text)
        reader = Reader(Folder.copied(ROOT / begin[1], place) if begin else Folder(place))
        place.mkdir(exist_ok=True)
        return reader.follow(text)
