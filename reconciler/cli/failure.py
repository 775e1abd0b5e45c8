"""Whatever goes wrong, told in one line each, and as one JSON document where JSON was asked for."""

from __future__ import annotations

import difflib
import json
import os
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import click

from reconciler.cli.talk import say, say_text, show
from reconciler.errors import ExitCode, ReconcilerError


def report_failure(error: Exception, arguments: Sequence[str]) -> int:
    """Print `error` and return the exit code that belongs to it."""
    code = exit_code_of(error)
    lines = failure_lines(error)
    if wants_json(arguments):
        with suppress(OSError):  # nobody may be listening any more; the code says it all the same
            show(json.dumps(_document(error, lines, code), indent=2, ensure_ascii=False) + "\n", "json")
    for line in lines:
        say(f"error: {line}")
    return code


def exit_code_of(error: Exception) -> int:
    """Return 64 for what is wrong with the call, an error's own code, and 1 for a bug."""
    if isinstance(error, click.UsageError | click.BadParameter):
        return ExitCode.USAGE
    if isinstance(error, ReconcilerError):
        return error.exit_code
    return ExitCode.NOTHING_DONE


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the call asked for JSON, as far as can be told when it could not even be read."""
    pairs = pairwise([*arguments, ""])
    asked = any(
        argument in ("-ojson", "--output=json") or (argument in ("-o", "--output") and following == "json")
        for argument, following in pairs
    )
    return asked or os.environ.get("RECONCILER_OUTPUT") == "json"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `, did you mean "plan"?`, or "" where nothing is near."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f', did you mean "{found[0]}"?' if found else ""


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


def _document(error: Exception, lines: Sequence[str], code: int) -> dict[str, Any]:
    problems = error.problems if isinstance(error, ReconcilerError) else ()
    return {
        "schemaVersion": "reconciler/v1alpha1",
        "kind": "Error",
        "exitCode": int(code),
        "errors": list(lines),
        "problems": [
            {
                "file": problem.file,
                "line": problem.line,
                "column": problem.column,
                "field": problem.field,
                "message": problem.message,
            }
            for problem in problems
        ],
    }
