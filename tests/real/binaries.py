"""The one place that finds or builds the binaries of real parts.

`binary("kube-apiserver")` is its path: from `KUBEBUILDER_ASSETS` where that has it, otherwise from
`${XDG_CACHE_HOME:-~/.cache}/reconciler-tests/MODULE-DIGEST/`, which is built first where it is missing.
The digest covers go.mod, go.sum, the platform and the build flags. A folder is built beside its place and renamed,
under a lock, so that test runs at the same time neither disturb each other nor find half a folder.

`python -m tests.real.binaries` builds everything. With `KUBERNETES=oldest` the control plane is that of the oldest
Kubernetes that is supported.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.real import toolchain

_HERE = Path(__file__).resolve().parent
_FAILED_IS_OLD_AFTER = 600  # seconds in which the workers of one test run do not try again what failed
_LAST_LINES = 15


class BinariesError(Exception):
    """A real part that is neither there nor can be built."""


@dataclass(frozen=True)
class Module:
    """A go.mod whose tools are built together."""

    name: str
    commands: tuple[str, ...]
    cold: str
    """How long a build takes on two cores when nothing is in Go's own cache."""

    tags: str = ""
    renamed: tuple[tuple[str, str], ...] = ()
    """Names of the built files, and what they are called here."""

    @property
    def folder(self) -> Path:
        return _HERE / self.name


CONTROL_PLANE = Module(
    {"newest": "control_plane", "oldest": "control_plane_oldest"}[os.environ.get("KUBERNETES") or "newest"],
    ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"),
    "7 minutes",
    renamed=(("server", "etcd"),),
)
KWOK = Module("kwok", ("kwok",), "2 minutes")
PROMETHEUS = Module("prometheus", ("prometheus", "promtool"), "3 minutes", tags="remove_all_sd")
ACTIONLINT = Module("actionlint", ("actionlint",), "20 seconds")
HELM = Module("helm", ("helm",), "3 minutes")
KREW = Module("krew", ("krew", "validate-krew-manifest"), "40 seconds")
MODULES = (CONTROL_PLANE, KWOK, PROMETHEUS, ACTIONLINT, HELM, KREW)


def binary(command: str) -> Path:
    """The path of `command`, built if it has to be.

    Raises:
        BinariesError: it cannot be built; says why and where the log is.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and command in ("etcd", "kube-apiserver") and os.access(Path(assets) / command, os.X_OK):
        return Path(assets) / command
    module = next(module for module in MODULES if command in module.commands)
    return built(module) / command


def built(module: Module, *, again: bool = False) -> Path:
    """The folder with the commands of `module`. A build that failed a short time ago is only tried `again` on demand.

    Raises:
        BinariesError: it cannot be built.
    """
    place = _place(module)
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_suffix(".lock").touch()
    except OSError as error:
        raise BinariesError(f"{place.parent}: {error}, expected a folder to write to") from error
    with _locked(place.with_suffix(".lock")):
        if place.is_dir():
            return place
        failed = place.with_suffix(".failed")
        if not again and failed.is_file() and time.time() - failed.stat().st_mtime < _FAILED_IS_OLD_AFTER:
            raise BinariesError(failed.read_text())
        try:
            _build(module, place)
        except BinariesError as error:
            failed.write_text(str(error))
            raise
        failed.unlink(missing_ok=True)
    return place


def go_program(folder: Path, command: Path, log: Path) -> Path:
    """Build the Go program in `folder`, which needs no modules of others, as `command`.

    Raises:
        BinariesError: there is no Go, or it does not build; its words are in `log`.
    """
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _locked(cache_folder() / "go.lock"):
        go = toolchain.go(cache_folder(), log)
    try:
        with log.open("ab") as output:
            arguments = [go, "build", "-buildvcs=false", "-o", str(command), "."]
            subprocess.run(arguments, cwd=folder, stdout=output, stderr=subprocess.STDOUT, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BinariesError(f"{folder.name}: {error}, expected a build; the log: {log}") from error
    return command


def cache_folder() -> Path:
    """Where everything built is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "reconciler-tests"


def kubernetes_version() -> str:
    """The release that is built, such as v1.36.3."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v[\d.]+)", (CONTROL_PLANE.folder / "go.mod").read_text(), re.M)
    assert found, "go.mod names no release of kubernetes"
    return found[1]


def _place(module: Module) -> Path:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module.folder / name).read_bytes())
    digest.update(f"{platform.system()} {platform.machine()} {_flags(module)}".encode())
    return cache_folder() / f"{module.name}-{digest.hexdigest()[:16]}"


def _flags(module: Module) -> list[str]:
    linked = "-s -w"
    if module is CONTROL_PLANE:
        version = kubernetes_version()
        major, minor, _ = version.removeprefix("v").split(".")
        for name, value in (("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)):
            linked += f" -X k8s.io/component-base/version.{name}={value}"
    return ["-trimpath", f"-ldflags={linked}", *([f"-tags={module.tags}"] if module.tags else [])]


def _build(module: Module, place: Path) -> None:
    log = place.with_suffix(".log")
    _say(f"building {', '.join(module.commands)}: up to {module.cold} on two cores, log: {log}")
    for left_behind in place.parent.glob(f"{place.name}.building-*"):
        shutil.rmtree(left_behind, ignore_errors=True)
    beside = Path(tempfile.mkdtemp(prefix=f"{place.name}.building-", dir=place.parent))
    started = time.monotonic()
    try:
        log.write_bytes(b"")
        _go_install(module, beside, log)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        ended = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:]) if log.exists() else ""
        raise BinariesError(
            f"tests/real/{module.name}: {error}, expected a build; the whole log: {log}; its end:\n{ended}"
        ) from error
    beside.chmod(0o755)
    beside.rename(place)
    _say(f"built {', '.join(module.commands)} in {time.monotonic() - started:.0f} s: {place}")


def _go_install(module: Module, target: Path, log: Path) -> None:
    with _locked(cache_folder() / "go.lock"):
        go = toolchain.go(cache_folder(), log)
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOBIN": str(target),
        "GOGC": "off",  # the compiler spends a sixth of its time on collecting garbage
        "GOMEMLIMIT": "2GiB",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    with log.open("ab") as output:
        subprocess.run(
            [go, "install", *_flags(module), "tool"],
            cwd=module.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
        )
    for name, called in module.renamed:
        (target / name).rename(target / called)
    missing = [command for command in module.commands if not (target / command).is_file()]
    if missing:
        raise FileNotFoundError(f"{', '.join(missing)} not among what was built")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Build all that is missing; 1 when something could not be built."""
    result = 0
    for module in MODULES:
        try:
            built(module, again=True)
        except BinariesError as error:
            _say(f"error: {error}")
            result = 1
    return result


if __name__ == "__main__":
    sys.exit(main())
