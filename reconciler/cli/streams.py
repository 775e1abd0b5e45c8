"""stdout and stderr of the process: closed, broken, or with an encoding that cannot show every character."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


def mend_streams() -> None:
    """Let a stream that is closed go nowhere, and show text that no terminal can show as escapes."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_streams() -> None:
    """Write out what both streams hold; what nobody reads is dropped.

    Otherwise the interpreter tries it again when it ends, and then replaces the exit code by 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
