"""How much of one cluster is read in one run, so that no cluster takes the time and the memory of the others."""

from __future__ import annotations

import threading

from reconciler.backends.kubernetes.errors import Operation
from reconciler.errors import MalformedAnswerError, ReadLimitError

MOST_PAGES = 1000
"""Of all lists of one cluster together, in one run."""

MOST_PAGES_OF_A_LIST = 400

MOST_KINDS = 200
"""Custom kinds with a scale. With more of them none is read, and what has no custom kind is read all the same."""


class ReadBudget:
    """What may still be read of one cluster; any thread may take from it."""

    def __init__(self, pages: int = MOST_PAGES) -> None:
        self._pages = pages
        self._left = pages
        self._over = ""
        self._guard = threading.Lock()

    def give_up(self, why: str) -> None:
        """Let nothing more be read: nobody waits for it."""
        self._over = why

    def check(self, operation: Operation) -> None:
        """Check that something may still be read.

        Raises:
            ReadLimitError: nobody waits for it any more.
        """
        if self._over:
            raise ReadLimitError(f"{operation}: not asked, {self._over}")

    def take_page(self, operation: Operation, number: int) -> None:
        """Count the page `number` of a list, the first is 1.

        Raises:
            MalformedAnswerError: the list has more pages than one may have. ReadLimitError: the cluster has.
        """
        self.check(operation)
        if number > MOST_PAGES_OF_A_LIST:
            raise MalformedAnswerError(f"{operation}: has more than {MOST_PAGES_OF_A_LIST} pages, expected its end")
        with self._guard:
            self._left -= 1
            if self._left < 0:
                raise ReadLimitError(f"{operation}: more than {self._pages} pages were read of this cluster")
