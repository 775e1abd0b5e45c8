"""One scenario: a folder with `scenario.yaml` (now, and what a second plan says), `policies/`, `before/`, `after/`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.pipeline.calls import Folder

HERE = Path(__file__).parent
NO_CHANGES = "No changes. The clusters match the policies."


@dataclass(frozen=True)
class Ran:
    """What came of it: the plan's text with its exit code, the files after, what a second plan says in all."""

    plan: str
    after: dict[str, str]
    again: str


@dataclass(frozen=True)
class Scenario:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def settings(self) -> dict[str, Any]:
        """`now`; `runs` (default 1): how often is applied; `again`: what a plan says in all after that (no changes)."""
        return dict(yaml.safe_load((self.path / "scenario.yaml").read_text()))

    @property
    def again(self) -> str:
        return str(self.settings.get("again", NO_CHANGES))

    @property
    def expected_plan(self) -> str:
        return (self.path / "plan.txt").read_text()

    @property
    def expected_after(self) -> dict[str, str]:
        return files_in(self.path / "after")

    def run(self, work: Path) -> Ran:
        """Plan, apply, and plan again on a copy."""
        folder = Folder(work)
        shutil.copytree(self.path / "policies", work / "policies", dirs_exist_ok=True)
        shutil.copytree(self.path / "before", work / "snapshot", dirs_exist_ok=True)
        now = str(self.settings["now"])
        planned = folder.plan(now)
        for _ in range(self.settings.get("runs", 1)):
            folder.apply(now)
        again = folder.plan(now).out
        return Ran(
            plan=f"{planned.out}{planned.err}exit {int(planned.code)}\n",
            after=files_in(work / "snapshot"),
            again=next(line for line in again.splitlines() if line.startswith(("No ", "Plan: "))),
        )


def files_in(folder: Path) -> dict[str, str]:
    """Return the files below `folder`; Events and the history tell of the run and are left out."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and not _tells_of_the_run(path.name)
    }


def _tells_of_the_run(name: str) -> bool:
    return "-event-" in name or "configmap-reconciler-history-" in name


def scenarios() -> list[Scenario]:
    return [Scenario(path.parent) for path in sorted(HERE.glob("*/scenario.yaml"))]
