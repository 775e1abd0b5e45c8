"""A review as text, as Markdown for a comment, and as JSON values."""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.decide.annotations import format_time
from reconciler.errors import ReconcilerError
from reconciler.forecast.differences import Difference
from reconciler.forecast.json import held_to_dict, query_to_dict, timeline_to_dict
from reconciler.forecast.review import Review
from reconciler.forecast.review_details import Part, selected
from reconciler.forecast.review_parts import review_parts
from reconciler.model import ObjectRef
from reconciler.plan.json import plan_to_dict
from reconciler.report.markdown import LONGEST_TEXT, details, fence, joined, origin_of, prose
from reconciler.report.wording import counted
from reconciler.untrusted_text import escaped, one_line

REVIEW_VERSION = "reconciler/review/v1alpha1"
TITLE = "What this change of policies does"


def render_text(review: Review) -> str:
    """Return the review as text."""
    blocks = [[TITLE], *([escaped(line) for line in block] for part in review_parts(review) for block in _text(part))]
    return "\n".join("\n".join(block) + "\n" for block in blocks)


def _text(part: Part) -> list[list[str]]:
    head = [*([part.title] if part.title else []), *part.words]
    return [*([head] if head else []), *(listing.text() for listing in part.listings)]


def render_markdown(review: Review) -> str:
    """Return the review as Markdown of at most 60,000 characters: what stands open stays, whatever is cut."""
    first, *rest = review_parts(review)
    headline = [f"**{prose(first.words[0])}**", *(f"<br>{prose(line)}" for line in first.words[1:])]
    blocks = [[f"## {TITLE}"], headline, *(block for part in rest if not part.folded for block in _markdown(part))]
    folded = [block for part in rest if part.folded for block in _markdown(part)]
    shown = joined(blocks, LONGEST_TEXT - _ROOM)
    return f"{shown}\n{joined([*folded, origin_of(review.next_head)], LONGEST_TEXT - len(shown) - 1)}"


_ROOM = 5_000
"""Characters that are kept for what is folded, or for how much of it is left out."""
_MOST_LISTINGS = 40


def _markdown(part: Part) -> list[list[str]]:
    blocks = [*([prose(line)] for line in part.words), *(one.markdown() for one in part.listings[:_MOST_LISTINGS])]
    if len(part.listings) > _MOST_LISTINGS:
        blocks.append([f"and {len(part.listings) - _MOST_LISTINGS} more; the JSON form has them all."])
    if part.folded:
        return [details(prose(part.title), [line for block in blocks for line in (*block, "")][:-1])] if blocks else []
    return [[f"### {part.title}"], *blocks]


def render_failure(error: ReconcilerError, *, markdown: bool) -> str:
    """Return what is shown where nothing can be judged: all that is wrong."""
    problems = [str(problem) for problem in error.problems] or [str(error)]
    words = f"This change cannot be judged: {counted(len(problems), 'problem')}."
    if not markdown:
        return "\n".join([TITLE, words, *(f"  {one_line(problem)}" for problem in problems)]) + "\n"
    return joined([[f"## {TITLE}"], [f"**{prose(words)}**"], fence(escaped(problem) for problem in problems)])


def review_to_dict(review: Review) -> dict[str, Any]:
    """Return the review as JSON values."""
    changes = review.changes
    return {
        "schemaVersion": REVIEW_VERSION,
        "kind": "Review",
        "summary": list(review_parts(review)[0].words),
        "effect": review.effect,
        "replicaHours": round(sum(one.certain_hours for one in review.differences), 4),
        "replicaHoursIfMetricsStay": round(sum(one.hours for one in review.differences), 4),
        "baseReplicaHours": round(review.before_hours, 4),
        "fields": [msgspec.to_builtins(one) for one in changes.fields],
        "renamed": [msgspec.to_builtins(one) for one in changes.renamed],
        "removed": list(changes.removed),
        "added": list(changes.added),
        "owned": [
            {
                "policy": one.policy,
                "idle": one.idle,
                "unchanged": one.unchanged,
                "woken": [{"at": format_time(at), "workloads": number} for at, number in one.woken],
            }
            for one in review.owned
        ],
        "newlySelected": _names(review.newly_selected),
        "noLongerSelected": _names(review.no_longer_selected),
        "newlyProtected": _names(review.newly_protected),
        "leftOut": _names(review.left_out),
        "newlyProduction": _names(review.newly_production),
        "noLongerProduction": _names(review.no_longer_production),
        "production": _names(tuple(review.production & _touched(review))),
        "timeline": [_difference(one) for one in review.differences],
        "heldBack": [held_to_dict(one) for one in review.held_back],
        "fleetChanged": list(review.fleet_changed),
        "fleetFromBase": review.fleet_from_base,
        "next": plan_to_dict(review.next_head),
        "nextWithout": None if review.next_base is None else plan_to_dict(review.next_base),
        "unanswered": [query_to_dict(one) for one in sorted(review.next_head.unanswered)],
        "unknown": dict(review.next_head.unknown),
        "snapshotAgeSeconds": None if review.snapshot_age is None else int(review.snapshot_age.total_seconds()),
        "problem": review.problem,
    }


def _touched(review: Review) -> frozenset[ObjectRef]:
    differing = (one.ref for one in review.differences)
    selection = (refs for _, refs in selected(review))
    return frozenset(differing).union(*selection)


def _names(refs: tuple[ObjectRef, ...]) -> list[str]:
    return [str(ref) for ref in sorted(refs)]


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "object": str(one.ref),
        "production": one.production,
        "from": format_time(one.at),
        "replicaHours": round(one.hours, 4),
        "before": None if one.before is None else timeline_to_dict(one.before),
        "after": None if one.after is None else timeline_to_dict(one.after),
    }
