"""The bar on a terminal. Imported only where one is drawn: rich is slow to load."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Drawing
from rich.table import Column

from reconciler.apply.outcomes import Outcome
from reconciler.cli.progress import Progress, ReadSoFar, reading_words
from reconciler.pipeline import Stage
from reconciler.plan.model import Action
from reconciler.untrusted_text import one_line


class Bar(Progress):
    """Draws on stderr while something is read or written, and wipes it off again."""

    def __init__(self) -> None:
        super().__init__()
        self._drawing: Drawing | None = None

    def show_stage(self, stage: Stage) -> None:
        if stage is not Stage.OBSERVE:
            self.hide()

    def show_reading(self, read: Sequence[ReadSoFar]) -> None:
        if self._drawing is None:
            self._draw(SpinnerColumn(), _words(), TimeElapsedColumn())
        self._update(reading_words(read))

    def show_writing(self, action: Action, outcome: Outcome) -> None:
        if self._drawing is None:
            self._draw(BarColumn(bar_width=24), MofNCompleteColumn(), _words(), TimeElapsedColumn())
        self._update(f"{action.verb} {action.ref} {outcome.status}")

    def close(self) -> None:
        with self._lock:
            self.hide()

    def _draw(self, *columns: SpinnerColumn | BarColumn | MofNCompleteColumn | TextColumn | TimeElapsedColumn) -> None:
        self._drawing = Drawing(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._drawing.start()
        self._drawing.add_task("", total=self._chosen or None)

    def _update(self, words: str) -> None:
        if self._drawing is not None:
            self._drawing.update(self._drawing.task_ids[0], description=one_line(words), completed=self._written)

    def hide(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
        self._drawing = None


def _words() -> TextColumn:
    return TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
