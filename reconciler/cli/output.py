"""Everything that is printed: the result on stdout, messages on stderr. Nothing else prints.

Names and texts in it come from clusters, policies, files and the command line. A control character among them would
move a terminal's cursor or hide a line, and a line that begins with `::` is a command to GitHub's runners. A name may
also hold a credential that its server was sent.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import click

from reconciler.apply.outcomes import Outcome
from reconciler.errors import ExitCode, Problem, ReconcilerError
from reconciler.plan.model import Plan
from reconciler.redaction import printable_without_credentials
from reconciler.report.text import Style, render_text
from reconciler.untrusted_text import escaped, one_line
from reconciler.version import OUTPUT_VERSION

_COLOR = r"(\x1b\[(?:0|1|2|31|32|33|36|1;33)m)"
_OLD_COMMAND = "##["
"""Runners of GitHub read a command of the older form anywhere in a line."""


Formats = Mapping[str, Callable[..., str | Iterable[str] | Mapping[str, Any]]]
"""What renders a result in each form that it has: as text or its lines, as JSON values, or as parts of a text. Its keys
are what -o takes, the first by default.
"""


def show(found: str | Iterable[str] | Mapping[str, Any], output: str = "text", *, color: bool = False) -> None:
    """Print on stdout what was rendered in the form `output`, with `color` colours of ours; a line of text stays one
    line whatever it holds.
    """
    if isinstance(found, Mapping):
        found = as_text(found, output)
    elif output == "text" and not isinstance(found, str):
        found = "".join(f"{escaped(line)}\n" for line in found)
    safe = _SAFE.get(output, partial(_text, color=color))
    for part in (found,) if isinstance(found, str) else found:
        _print(safe(part))


def show_rows(rows: Iterable[Sequence[str]]) -> None:
    """Print each of `rows` on stdout, as one line with tabs between its cells, whatever they hold."""
    _print("".join("\t".join(map(escaped, row)) + "\n" for row in rows))


def workflow_command(command: str, properties: dict[str, object], message: str) -> str:
    """Return a command to GitHub's runners, which puts `message` beside a line of a file, for the form "github".

    Source: actions/toolkit packages/core/src/command.ts, escapeData, escapeProperty.
    """
    texts = {name: _data(str(value)).replace(":", "%3A").replace(",", "%2C") for name, value in properties.items()}
    named = ",".join(f"{name}={escaped(text)}" for name, text in texts.items())
    return f"::{command} {named}::{escaped(_data(message))}\n"


def _print(text: str) -> None:
    """Print `text` on stdout. A reader who has enough, like head, changes neither what a run does nor its exit code."""
    with _printing, suppress(BrokenPipeError):
        draw("")
        _echo(text, nl=False)


def say(text: str, *, nl: bool = True) -> None:
    """Say `text` on stderr, on one line. Nobody may be listening any more; that is no reason to stop half-way."""
    _say(_text(one_line(text)), nl=nl)


def say_each(level: str, found: Iterable[object]) -> None:
    """Say each of `found` on stderr, on a line of its own; `level` is "error" or, which -q leaves out, "warning"."""
    context = click.get_current_context(silent=True)
    is_quiet = level == "warning" and context is not None and context.params.get("quiet")
    for one in found:  # all of them in any case: what yields warnings may do something meanwhile
        if not is_quiet:
            say(f"{level}: {one}")


def say_json(value: object) -> None:
    """Say `value` on stderr as one line of JSON."""
    _say(_values(json.dumps(value, ensure_ascii=False)), nl=True)


def say_text(text: str, *, color: bool = False) -> None:
    """Say the lines of `text` on stderr, each as it is."""
    _say(_text(text, color=color), nl=False)


_printing = threading.RLock()  # progress is drawn by a thread of its own
_drawn: list[str] = []  # the line that was drawn last, where there is one


def draw(line: str) -> None:
    """Draw `line` on the terminal that stderr is, in place of the one that was drawn before; "" draws none. What is
    printed or said takes its place too.
    """
    with _printing, suppress(OSError):
        if _drawn or line:
            _drawn[:] = [line] if line else []
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            shown = printable_without_credentials(_text(one_line(line)))[: width - 1]
            click.echo(f"\r\x1b[2K{shown}", err=True, nl=False, color=True)


def _say(text: str, *, nl: bool) -> None:
    with _printing, suppress(OSError):
        draw("")
        _echo(text, nl=nl, err=True)


def _echo(text: str, *, nl: bool, err: bool = False) -> None:
    """Write `text`, which is safe: click need not look for colours in it that are not ours."""
    click.echo(printable_without_credentials(text), err=err, nl=nl, color=True)


def _text(text: str, *, color: bool = False) -> str:
    if not color and "::" not in text and text.replace("\n", "").isprintable():
        return _bare(text)
    return "\n".join(_line(line, color=color) for line in text.split("\n"))


def _line(line: str, *, color: bool = False) -> str:
    parts = re.split(_COLOR, line) if color else [line]
    safe = "".join(part if color and re.fullmatch(_COLOR, part) else escaped(part) for part in parts)
    begun = safe.lstrip()
    if begun.startswith("::"):
        safe = f"{safe.removesuffix(begun)}\\x3a{begun[1:]}"
    return _bare(safe)


def _bare(line: str) -> str:
    return line.replace(_OLD_COMMAND, "#\\x23[")


def _values(text: str) -> str:
    """Return JSON or YAML; what is not printable stands inside strings only, and there an escape means the same."""
    text = text.replace(_OLD_COMMAND, "#\\u0023[")
    if text.replace("\n", "").isprintable():
        return text
    return "".join(part if part.isprintable() or part == "\n" else json.dumps(part)[1:-1] for part in text)


_SAFE = {"json": _values, "yaml": _values, "gitlab": _values, "sarif": _values, "github": _bare}
"""What makes the text of a form safe, where that is not `_text`."""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def as_text(value: object, output: str) -> str:
    """Return JSON values as JSON or YAML text."""
    if output == "yaml":
        from reconciler.yaml.writer import block_text

        with suppress(UnicodeEncodeError):  # half a character has no form in YAML but that of JSON, which is YAML too
            return block_text(value)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def document(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": OUTPUT_VERSION, "kind": kind, **values}


def _markdown(plan: Plan, outcomes: Sequence[Outcome] | None, style: Style) -> str:
    from reconciler.report.markdown import render_markdown

    return render_markdown(plan, outcomes, style)


def _html(plan: Plan, outcomes: Sequence[Outcome] | None, _: Style) -> str:
    from reconciler.report.html import render_html

    return render_html(plan, outcomes)


def _values_of(
    plan: Plan, outcomes: Sequence[Outcome] | None, _: Style, *, parts: bool = False
) -> Iterator[str] | dict[str, Any]:
    if outcomes is not None:
        from reconciler.report.json import report_to_dict

        return report_to_dict(plan, outcomes)
    from reconciler.plan.json import plan_in_parts, plan_to_dict

    return plan_in_parts(plan) if parts else plan_to_dict(plan)


FORMATS: Formats = {
    "text": render_text,
    "json": partial(_values_of, parts=True),
    "yaml": _values_of,
    "markdown": _markdown,
    "html": _html,
}
"""The forms of a plan, or with outcomes of the report of its apply; the style is that of text."""


def report_failure(error: Exception, arguments: Sequence[str]) -> int:
    """Print `error` and return its exit code: 64 for what is wrong with the call, an error's own code, 1 for a bug."""
    code = ExitCode.USAGE if isinstance(error, click.UsageError | click.BadParameter) else ExitCode.NOTHING_DONE
    if isinstance(error, ReconcilerError):
        code = error.exit_code
    lines = failure_lines(error)
    if wants_json(arguments):
        with suppress(OSError):  # nobody may be listening any more; the code says it all the same
            problems = error.problems if isinstance(error, ReconcilerError) else ()
            found = {"errors": lines, "problems": [problem_values(problem) for problem in problems]}
            show(document("Error", {"exitCode": int(code), **found}), "json")
    say_each("error", lines)
    return code


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the call asked for JSON, as far as is known when it could not even be read."""
    forms = [os.environ.get("RECONCILER_OUTPUT")]
    for argument, following in pairwise([*arguments, ""]):
        if argument in ("-o", "--output"):
            forms.append(following)
        elif argument.startswith(("-o", "--output=")):
            forms.append(argument.removeprefix("-o").removeprefix("--output="))
    return forms[-1] == "json"


def failure_lines(error: Exception) -> list[str]:
    """Return what follows "error: ", a line for each thing that is wrong; of a bug, how to report it."""
    if isinstance(error, click.ClickException):
        return [error.format_message()]
    if isinstance(error, ReconcilerError):
        return [str(problem) for problem in error.problems] or [str(error) or type(error).__name__]
    if isinstance(error, OSError):
        return [f"{error.filename or 'operating system'}: {error.strerror or error}"]
    if os.environ.get("RECONCILER_TRACEBACK"):
        say_text("".join(traceback.format_exception(error)))
    return [
        f"a bug: {type(error).__name__}: {' '.join(str(error).split())}; "
        "please report it, with what RECONCILER_TRACEBACK=1 prints"
    ]


def problem_values(problem: Problem) -> dict[str, Any]:
    """Return a problem of a policy file as JSON values."""
    return {name: getattr(problem, name) for name in ("file", "line", "column", "field", "message")}
