"""Asking a run to stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Stop:
    """Set from outside: no new writes. What is in flight is finished."""

    event: threading.Event = field(default_factory=threading.Event)
    why: str = ""

    def ask(self, why: str) -> None:
        self.why = why
        self.event.set()

    @property
    def asked(self) -> bool:
        return self.event.is_set()
