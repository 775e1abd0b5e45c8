"""The command line, called in this process, on a folder with policies and a snapshot."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.app import run


@dataclass(frozen=True)
class Said:
    """What one call ended with."""

    code: int
    out: str
    err: str


class Terminal:
    """Somebody who does `meanwhile` before they answer."""

    def __init__(self, answer: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._answer = answer
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        self._meanwhile()
        return self._answer


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Be in `folder`, so that paths in messages are those a person would type."""
    former = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(former)


@dataclass(frozen=True)
class Folder:
    """A folder with `policies/` and `snapshot/`, where the command line is called.

    With a `kubeconfig` it finds this one, and no other variable tells it anything.
    """

    path: Path
    kubeconfig: Path | None = None

    @classmethod
    def copied(cls, example: Path, target: Path) -> Folder:
        shutil.copytree(example, target, dirs_exist_ok=True)
        return cls(target)

    def call(self, *arguments: str) -> Said:
        """Call the command line there."""
        out, err = io.StringIO(), io.StringIO()
        with (
            inside(self.path),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            self._variables(),
        ):
            code = run(arguments)
        return Said(code, out.getvalue(), err.getvalue())

    @contextlib.contextmanager
    def _variables(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as variables:
            if self.kubeconfig is not None:
                for name in [name for name in os.environ if name.startswith("RECONCILER_")]:
                    variables.delenv(name)
                variables.setenv("HOME", str(self.path))
                variables.setenv("KUBECONFIG", str(self.kubeconfig))
            yield

    def plan(self, now: str, *more: str) -> Said:
        return self.call("plan", "policies", "--snapshot", "snapshot", "--now", now, *more)

    def apply(self, now: str, *more: str) -> Said:
        return self.call(
            "apply", "policies", "--snapshot", "snapshot", "--now", now, "--auto-approve", "--progress", "none", *more
        )

    def applied(self, now: str, *more: str) -> Said:
        """Apply, and fail where the run does: one that a signal ends carries out a part, and nothing else says so."""
        said = self.apply(now, *more)
        assert said.code == 0, said
        return said

    def explain(self, what: str, now: str, *more: str) -> Said:
        return self.call("explain", what, "--snapshot", "snapshot", "--now", now, *more)

    def restore(self, now: str, *more: str) -> Said:
        at = ("--snapshot", "snapshot", "--policies", "policies", "--now", now)
        return self.call("restore", *more, *at, "--auto-approve")

    def write(self, file: str, text: str) -> None:
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def objects(self) -> dict[tuple[str, str, str, str], Any]:
        """Return every object of the snapshot by (cluster, namespace, kind, name), Events and the history aside."""
        found = {}
        for file in sorted((self.path / "snapshot").rglob("*.yaml")):
            if file.name == "metrics.yaml" or file.name.startswith("."):
                continue
            for document in yaml.safe_load_all(file.read_text()):
                for one in document.get("items", [document]) if document else ():
                    metadata = one["metadata"]
                    cluster = file.relative_to(self.path / "snapshot").parts[0]
                    if one["kind"] != "Event" and "reconciler/history" not in metadata.get("labels", {}):
                        key = (cluster, metadata.get("namespace", ""), one["kind"], metadata["name"])
                        found[key] = one
        return found

    def replicas(self, cluster: str, namespace: str, kind: str, name: str) -> int:
        return int(self.objects()[cluster, namespace, kind, name]["spec"]["replicas"])
