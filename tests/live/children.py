"""What a forked process does: call the command line, its streams in files.

Importing this imports all that a run needs.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

import kubernetes.client
import kubernetes.config

import reconciler.cli.apply
import reconciler.cli.plan
import reconciler.report.text
from reconciler.cli.app import run

__all__ = ["called", "kubernetes", "reconciler"]


def called(folder: str, arguments: tuple[str, ...], out: str, err: str) -> None:
    """Call the command line in `folder`; the process ends with its exit code."""
    os.chdir(folder)
    with Path(out).open("w") as standard, Path(err).open("w") as talk:
        sys.stdout, sys.stderr = standard, talk
        faulthandler.enable(talk)
        code = run(arguments)
        standard.flush()
        talk.flush()
    os._exit(code)
