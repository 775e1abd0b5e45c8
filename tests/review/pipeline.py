"""The steps of action.yml, run as a runner of GitHub does: expressions become variables, then the shell runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.review.code_hosts import REPOSITORY, TOKEN

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")
_SECONDS = 120


@dataclass(frozen=True)
class StepResult:
    """How one step ended."""

    name: str
    code: int
    said: str


@dataclass
class Runner:
    """A machine with a checkout of the pull request, and nothing of ours but the action."""

    action: Path
    checkout: Path
    temp: Path
    api: str
    event: Mapping[str, Any]
    token: str = TOKEN
    variables: dict[str, str] = field(default_factory=dict)
    results: list[StepResult] = field(default_factory=list)

    def run(self, *, without: str | tuple[str, ...] = (), **inputs: str) -> int:
        """Run the steps until one fails, and return its exit code; leave out those that are called `without`."""
        self.results.clear()
        self.temp.mkdir(exist_ok=True)
        described = yaml.safe_load((self.action / "action.yml").read_text())
        given = {name: str(one.get("default", "")) for name, one in described["inputs"].items()} | inputs
        outputs: dict[str, dict[str, str]] = {}
        for step in described["runs"]["steps"]:
            if step["name"] in ((without,) if isinstance(without, str) else without):
                continue
            context = self._context(given, outputs)
            result, told = self._step(step, context)
            self.results.append(result)
            if "id" in step:
                outputs[step["id"]] = told
            if result.code:
                return result.code
        return 0

    @property
    def said(self) -> str:
        return "".join(result.said for result in self.results)

    @property
    def summary(self) -> str:
        file = self.temp / "summary.md"
        return file.read_text() if file.exists() else ""

    def _context(self, inputs: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """The values of the expressions that the action uses; another one is a KeyError."""
        request = self.event.get("pull_request")
        base = request["base"]["sha"] if request else self.event.get("merge_group", {}).get("base_sha", "")
        head = request["head"]["sha"] if request else ""
        later = self.event["workflow_run"]["base_sha"] if "workflow_run" in self.event else ""
        known = {
            "github.action_path": str(self.action),
            "github.token": self.token,
            "github.server_url": "https://github.com",
            "github.event.pull_request.head.sha": head,
            "github.event.pull_request.base.sha || github.event.merge_group.base_sha"
            " || (github.event_name == 'workflow_run' && github.sha) || ''": base or later,
        }
        known |= {f"inputs.{name}": _EXPRESSION.sub(lambda one: known[one[1]], text) for name, text in inputs.items()}
        return known | {
            f"steps.{step}.outputs.{name}": text for step, told in outputs.items() for name, text in told.items()
        }

    def _step(self, step: Mapping[str, Any], context: Mapping[str, str]) -> tuple[StepResult, dict[str, str]]:
        assert not _EXPRESSION.search(step["run"])
        (self.temp / "event.json").write_text(json.dumps(self.event))
        output = self.temp / "output"
        output.write_text("")
        variables = {name: _EXPRESSION.sub(lambda one: context[one[1]], text) for name, text in step["env"].items()}
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            [step["shell"], "-e", str(script)],
            cwd=self.checkout,
            env={**self._machine(), "GITHUB_OUTPUT": str(output), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
        told = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return StepResult(step["name"], done.returncode, done.stdout.decode()), told

    def _machine(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.temp),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.api,
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "RECONCILER_DAYS": "1",
            "RECONCILER_NOW": "2026-11-20T22:00:00Z",
            **self.variables,
        }


def git(folder: Path, *arguments: str) -> str:
    """Run git in `folder`, as somebody, and return what it prints."""
    who = {f"GIT_{role}_{what}": "x@example" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, capture_output=True, timeout=_SECONDS, check=True
    )
    return done.stdout.decode().strip()
