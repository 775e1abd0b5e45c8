"""Carries out deploy/Dockerfile without a container engine, on a folder that is the root of a Debian.

For a look at what comes out: `python -m tests.release.image BASE FOLDER`, as root.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import ROOT

BASE = f"debian@sha256:{'0' * 64}"
"""What the Dockerfile is told that the base is; its digest is the container engine's to compare."""


@dataclass
class Image:
    """A stage of the Dockerfile: its root, and what was said about how it runs."""

    root: Path
    folder: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"})

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start the image as a container engine does: its user, its variables, its root read-only."""
        mounts = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
        script = f'{mounts} && user=$1 && shift && exec chroot --userspec="$user" "$0" "$@"'
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        inside = [str(self.root), self.user, "/usr/bin/env", "-i", *variables, *self.entrypoint, *arguments]
        call = ["unshare", "--mount", "sh", "-c", script, *inside]
        return subprocess.run(call, capture_output=True, text=True, check=False, timeout=600)


def build(base: Path, folder: Path) -> Image:
    """Carry out the Dockerfile of this checkout on copies of `base` below `folder`; return the last stage."""
    stages: dict[str, Image] = {}
    image = Image(folder)
    for line in (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines():
        instruction, _, words = line.partition(" ")
        match instruction:
            case "" | "#" | "ARG":
                pass
            case "FROM":
                name = words.partition(" AS ")[2]
                image = Image(folder / (name or "image"))
                subprocess.run(["cp", "-a", str(base), str(image.root)], check=True, timeout=600)
                stages[name] = image
            case "WORKDIR":
                image.folder = words
                (image.root / words.lstrip("/")).mkdir(parents=True)
            case "COPY":
                _copy(image, stages, shlex.split(words))
            case "RUN":
                _run(image, words)
            case "ENV":
                path = image.variables["PATH"]
                pairs = (pair.partition("=") for pair in shlex.split(words))
                image.variables |= {name: value.replace("$PATH", path) for name, _, value in pairs}
            case "USER":
                image.user = words
            case "ENTRYPOINT":
                image.entrypoint = json.loads(words)
            case _:
                raise AssertionError(f"{line}: an instruction that is not known here")
    return image


def _copy(image: Image, stages: dict[str, Image], words: list[str]) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    *names, target = words
    for name in names:
        place = image.root / os.path.join(image.folder, target).lstrip("/")
        if target.endswith("/"):
            place = place / Path(name).name
        place.parent.mkdir(parents=True, exist_ok=True)
        copied = source / name.lstrip("/")
        if copied.is_dir():
            shutil.copytree(copied, place, symlinks=True)
        else:
            shutil.copy2(copied, place)


def _run(image: Image, script: str) -> None:
    """Run a script in the stage, with what package clients need of this machine: names, certificates, variables."""
    shutil.copy("/etc/resolv.conf", image.root / "etc" / "resolv.conf")
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", image.root / "etc" / "ssl" / "certs" / "ca-certificates.crt")
    asked = {name: value for name, value in os.environ.items() if "PIP_" in name or "proxy" in name.lower()}
    asked.pop("PIP_FIND_LINKS", None)  # a folder of this machine
    variables = {**asked, **image.variables, "PYTHON": BASE, "HOME": "/root"}
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    call = [chroot, str(image.root), "sh", "-c", f"cd {shlex.quote(image.folder)} && {script}"]
    subprocess.run(call, env=variables, check=True, timeout=1800)


if __name__ == "__main__":
    made = build(Path(sys.argv[1]), Path(sys.argv[2]))
    print(made.run("--version"), subprocess.run(["du", "-sm", made.root, made.root / "opt"], check=False))
