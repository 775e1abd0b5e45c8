"""Approval before anything is written. The run then does only what was approved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Set

from msgspec.structs import replace

from reconciler.cli.output import FORMATS, say, say_each, say_text, show
from reconciler.cli.progress import Progress
from reconciler.cli.run_options import RunOptions
from reconciler.cli.run_time_limit import interruptible
from reconciler.decide.decisions import Phase
from reconciler.errors import PlanFileError, ReconcilerError
from reconciler.pipeline import Applied, Control
from reconciler.plan.model import Action, Plan
from reconciler.plan.order import doable
from reconciler.report.change_words import what_of
from reconciler.report.text import change_of, render_changed, render_text
from reconciler.saved_plan.differences import NO_POLICIES, Compared

DECLINED = "declined at the prompt; nothing was done"


def is_approved(question: str) -> bool:
    """Return whether the person at the terminal says yes to `question`."""
    say(f"{question} Only yes is accepted: ", nl=False)
    with interruptible():
        return sys.stdin.readline().strip() == "yes"


class Approval:
    """Shows each plan of a run once, before its first write, and remembers what a person said yes to.

    With `ask` somebody has to. Text goes to stdout as the first part of the report; beside another form, and to whoever
    is asked while stdout goes elsewhere, it goes to stderr.
    """

    def __init__(self, output: str, options: RunOptions, *, ask: bool) -> None:
        self.ask = ask
        self._output = output
        self.options = options
        self._approved: Plan | None = None
        self._shown = False

    def control(self, progress: Progress) -> Control:
        """Return how a run is carried out: as it is approved here, and shown by `progress`."""
        choose = progress.counted(self.choose)
        return Control(choose, progress.writing, self.approve, wakes_early=not self.ask)

    def approve(self, plan: Plan) -> bool:
        """Return whether the run may go on; on a terminal a person decides, after reading `plan`."""
        if not self.ask:
            return True
        self._show(render_text(plan, None, self.options.style))
        self._approved = plan
        return is_approved("Apply these changes?")

    def choose(self, plan: Plan) -> tuple[Action, ...]:
        """Return what may be done of the plan made under the locks: what was approved, and wakes."""
        if self._approved is None:
            return self.choose_all(plan)
        approved = frozenset(map(change_of, self._approved.actions))
        chosen = doable(
            [action for action in plan.actions if action.decision.phase is Phase.WAKE or change_of(action) in approved]
        )
        changed = render_changed(self._approved, plan, [action.id for action in chosen], self.options.style)
        if changed:
            self._show(changed)
        return chosen

    def choose_all(self, plan: Plan) -> tuple[Action, ...]:
        """Return every action, once the plan was shown."""
        if plan.actions and self._approved is None:
            self._show(render_text(plan, None, self.options.style))
        return plan.actions

    def _show(self, text: str) -> None:
        self._shown = True
        if self._output == "text":
            try:
                show(f"{text}\n", color=self.options.color)
            except OSError as error:
                if self.ask:
                    raise
                # Nobody reads it before the run goes on, and a full disk must not keep down what is to wake. The report
                # of the run goes the same way, and what is wrong there is the error that the run ends with.
                words = f"{error.strerror or error}, expected a place for the plan"
                say_each("warning", [f"standard output: {words}; the run goes on"])
        unseen = self._output != "text" or not sys.stdout.isatty()
        if unseen and (self.ask or (self._output != "text" and not self.options.quiet)):
            say_text(text, color=self.options.color)

    def report(self, applied: Applied) -> None:
        """Print the report of an apply; as text without what was shown already.

        Raises:
            ReconcilerError: somebody said no at the prompt.
        """
        if applied.declined:
            raise ReconcilerError(DECLINED)
        say_each("warning", applied.lost)
        style = replace(self.options.style, changes=not self._shown)
        show(FORMATS[self._output](applied.plan, applied.outcomes, style), self._output, color=self.options.color)


def approved_differences(plan: Plan, file: str, compare: Callable[[], Compared], *, ask: bool, known: bool) -> Set[int]:
    """Return what of the saved `plan` in `file` is to be done although a fresh plan would not do it, as somebody says
    on a terminal; `known`: there are policies.

    Raises:
        ReconcilerError: somebody said no. PlanFileError: there are no policies, and nobody can be asked.
    """
    if not ask or not sys.stdin.isatty():
        if not known:
            raise PlanFileError(
                f"{file}: {NO_POLICIES}, expected --policies PATH; or --approve-differences, once somebody has read it"
            )
        return frozenset()
    found = compare()
    if found.differing:
        tell_differences(plan, file, found)
        if not is_approved("Do these too?"):
            raise ReconcilerError(DECLINED)
    return found.differing.keys()


def tell_differences(plan: Plan, file: str, found: Compared) -> None:
    """Say what of the saved `plan` in `file` a fresh plan would not do."""
    for action in plan.actions:
        if action.id in found.differing:
            numbers = f" {what_of(action.decision)}"
            where = f"warning: {file}: action {action.id}"
            say(f"{where} ({action.ref}{numbers}): {found.differing[action.id]}")
            for difference in found.fields.get(action.id, ()):
                say(f"{where}: {difference}")
