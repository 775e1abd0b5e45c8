"""Whether what a metrics source said can be used at all."""

from __future__ import annotations

from datetime import datetime, timedelta

from reconciler.decide.annotations import format_time
from reconciler.model import QueryAnswer

STALE_AFTER = timedelta(minutes=5)
"""A recorded value that is older is unknown."""


def why_unusable(answer: QueryAnswer | None, now: datetime) -> str:
    """Return why nothing in `answer` counts, "" where its samples do."""
    if answer is None:
        return "not evaluated"
    if answer.error:
        return f"failed to load: {answer.error}"
    if answer.warnings:
        return f"partial: {answer.warnings[0]}"
    if answer.at is not None and now - answer.at > STALE_AFTER:
        return f"recorded at {format_time(answer.at)}, more than 5 minutes ago"
    return ""
