"""Asking before anything is written, and holding the run to what was approved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.cli.rendering import rendered
from reconciler.cli.running import Call
from reconciler.cli.stopping import interruptible
from reconciler.cli.talk import say, say_text
from reconciler.decide.decisions import Phase
from reconciler.errors import PlanFileError, ReconcilerError
from reconciler.plan.build import doable
from reconciler.plan.differences import NO_POLICIES, Compared
from reconciler.plan.model import Action, Plan
from reconciler.report.wording import what_of


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
        self._show(plan)
        say("Apply these changes? Only yes is accepted: ", nl=False)
        self._approved = frozenset(_change_of(action) for action in plan.actions)
        with interruptible():
            return sys.stdin.readline().strip() == "yes"

    def choose(self, plan: Plan) -> tuple[Action, ...]:
        """Return what may be done of the plan made under the locks: what was approved, and wakes."""
        if self._approved is None:
            if not self.call.quiet and self.ask is False and plan.actions:
                self._show(plan)
            return plan.actions
        allowed = [
            action
            for action in plan.actions
            if action.decision.phase is Phase.WAKE or _change_of(action) in self._approved
        ]
        if len(allowed) < len(plan.actions):
            say(f"warning: {len(plan.actions) - len(allowed)} changed since you approved; left to the next run")
        return doable(allowed)

    def _show(self, plan: Plan) -> None:
        say_text(rendered(plan, None, "text", self.call.style), color=self.call.color)


@dataclass
class Differences:
    """What of the saved plan `made` in `file` a fresh plan would not do, and who said yes to it: `everything`, or at
    the prompt.
    """

    made: Plan
    file: str
    everything: bool
    _approved: frozenset[int] = field(default=frozenset(), init=False)

    def ask(self, compare: Callable[[], Compared], *, ask: bool, known: bool) -> None:
        """On a terminal, ask whether what differs is to be done all the same; `known`: there are policies.

        Raises:
            ReconcilerError: somebody said no. PlanFileError: there are no policies, and nobody can be asked.
        """
        if self.everything:
            return
        if not ask or not sys.stdin.isatty():
            if not known:
                raise PlanFileError(
                    f"{self.file}: {NO_POLICIES}, expected --policies PATH; "
                    "or --approve-differences, once somebody has read it"
                )
            return
        found = compare()
        if not found.differing:
            return
        self._tell(found)
        say("Do these too? Only yes is accepted: ", nl=False)
        with interruptible():
            if sys.stdin.readline().strip() != "yes":
                raise ReconcilerError("declined at the prompt; nothing was done")
        self._approved = frozenset(found.differing)

    def left(self, found: Compared) -> Compared:
        """Return `found` without what was approved."""
        if self.everything:
            self._tell(found)
            return replace(found, differing={})
        return replace(found, differing={one: why for one, why in found.differing.items() if one not in self._approved})

    def _tell(self, found: Compared) -> None:
        for action in self.made.actions:
            if action.id in found.differing:
                numbers = f" {what_of(action.decision)}"
                say(f"warning: {self.file}: action {action.id} ({action.ref}{numbers}): {found.differing[action.id]}")


def _change_of(action: Action) -> Any:
    return (action.ref, repr(sorted(action.before.items())), repr(sorted(action.after.items())))
