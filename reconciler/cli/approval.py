"""Asking before anything is written, and holding the run to what was approved."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import click

from reconciler.cli.rendering import rendered
from reconciler.cli.running import Call
from reconciler.cli.stopping import interruptible
from reconciler.cli.talk import say
from reconciler.decide.types import Phase
from reconciler.plan.actions import Action, Plan
from reconciler.plan.plan import doable


@dataclass
class Approval:
    """Remembers what a person said yes to. Without `ask` the plan made under the locks is printed and done."""

    output: str
    call: Call
    ask: bool
    _approved: frozenset[Any] | None = field(default=None, init=False)

    def approve(self, plan: Plan) -> bool:
        """Return whether the run may go on; on a terminal a person decides, after reading `plan`."""
        if not self.ask:
            return True
        say(self._text(plan), nl=False)
        say("Apply these changes? Only yes is accepted: ", nl=False)
        self._approved = frozenset(_change_of(action) for action in plan.actions)
        with interruptible():
            return sys.stdin.readline().strip() == "yes"

    def choose(self, plan: Plan) -> tuple[Action, ...]:
        """Return what may be done of the plan made under the locks: what was approved, and wakes."""
        if self._approved is None:
            if not self.call.quiet and self.ask is False and plan.actions:
                say(self._text(plan), nl=False)
            return plan.actions
        allowed = [
            action
            for action in plan.actions
            if action.decision.phase is Phase.WAKE or _change_of(action) in self._approved
        ]
        if len(allowed) < len(plan.actions):
            click.echo(
                f"{len(plan.actions) - len(allowed)} changed since you approved; left to the next run.", err=True
            )
        return doable(allowed)

    def _text(self, plan: Plan) -> str:
        return rendered(plan, None, "text", color=self.call.color, verbose=self.call.verbose)


def _change_of(action: Action) -> Any:
    return (action.ref, repr(sorted(action.before.items())), repr(sorted(action.after.items())))
