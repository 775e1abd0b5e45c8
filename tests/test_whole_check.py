"""What `.ci/run` calls, and with which variables; `make` and what needs root are stood in for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_MAKE = """#!/bin/sh
{ echo "$*"; env; } >"$HOME/called.$$"
case "$*" in *"$(cat "$HOME/fails")"*) exit 2 ;; esac
"""
_OTHERS = "-j2 --output-sync --keep-going others"
_KEPT = {"HOME", "PATH", "CI", "PIP_INDEX_URL"}
_OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


def checked(repository: Path, home: Path, fails: str) -> int:
    """Run the whole check with variables that somebody may have set; return how it ended."""
    commands = home / "bin"
    commands.mkdir()
    for name, text in {"make": _MAKE, **dict.fromkeys(("prometheus-pushgateway", "nft", "ip"), "#!/bin/sh\n")}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    (home / "fails").write_text(fails)
    set_here = dict.fromkeys(("PYTHONUNBUFFERED", "PYTHONPATH", "PYTEST_ADDOPTS", "RECONCILER_CONTEXT", "LANG"), "1")
    kept = {"HOME": str(home), "PATH": f"{commands}:{os.environ['PATH']}", "CI": "true", "PIP_INDEX_URL": "x"}
    done = subprocess.run(
        ["bash", str(repository / ".ci/run")],
        env={**set_here, **kept, "no_proxy": "a"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode


def test_nothing_is_kept_but_what_package_clients_need(repository, tmp_path):
    assert checked(repository, tmp_path, "nothing") == 0
    kept = {}
    for file in tmp_path.glob("called.*"):
        call, *lines = file.read_text().splitlines()
        kept[call.split(" PYTEST")[0]] = {line.partition("=")[0] for line in lines if line} - _OF_THE_SHELL
    gets = {*_KEPT, "no_proxy"}
    assert kept == {"-j2 others-ready": gets, "parts": gets, _OTHERS: _KEPT, "test": _KEPT}


@pytest.mark.parametrize("fails", ["others-ready", "parts", _OTHERS, "test"])
def test_whatever_fails_the_whole_check_does(repository, tmp_path, fails):
    assert checked(repository, tmp_path, fails) != 0
