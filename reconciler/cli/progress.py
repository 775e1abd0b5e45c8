"""Progress on stderr: a counter on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
import sys
import threading

from reconciler.apply.outcomes import Outcome
from reconciler.apply.run import Progress
from reconciler.cli.talk import say
from reconciler.plan.actions import Action


def progress_to_stderr(quiet: bool) -> Progress:
    """Return what is called after each action."""
    if quiet:
        return _nothing
    return _line if not sys.stderr.isatty() else _counter()


def _nothing(_action: Action, _outcome: Outcome) -> None:
    return


def _line(action: Action, outcome: Outcome) -> None:
    line = {"action": action.id, "verb": action.verb, "object": str(action.ref), "status": str(outcome.status)}
    if outcome.message:
        line["message"] = outcome.message
    say(json.dumps(line, ensure_ascii=False))


def _counter() -> Progress:
    lock = threading.Lock()
    done = 0

    def count(action: Action, outcome: Outcome) -> None:
        nonlocal done
        with lock:
            done += 1
            say(f"\r\x1b[K{done} done: {action.verb} {action.ref} {outcome.status}", nl=False)

    return count
