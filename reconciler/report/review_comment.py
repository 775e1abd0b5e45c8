"""The review of a change of policies as the comment on its pull request, never longer than a comment may be."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.messages import counted
from reconciler.report.markdown import code, details, fence, in_code, joined

_PROBLEMS_OF_BASE = 10
_LINES = 20
_LONGEST_LINE = 300
_CUT = "The rest is left out, because a comment holds no more."


class ReviewComment(Struct, frozen=True):
    """What is known of a change. `plan` is the Markdown of its plan, "" where there is none; `failure` says why.

    `problems` are those of the change, `base_problems` those of what it changes, where that cannot be used.
    """

    path: str
    problems: Sequence[Problem] = ()
    base_problems: Sequence[Problem] = ()
    plan: str = ""
    failure: Sequence[str] = ()


def marker_of(path: str) -> str:
    """Return the hidden line with which the comment on the policies below `path` begins."""
    return f"<!-- reconciler review of {quote(path).replace('-', '%2D')} -->"


def render_review(review: ReviewComment, longest: int) -> str:
    """Return `review` as Markdown of at most `longest` characters; it begins with what keeps the change from a plan."""
    blocks = [*_problems(review), *_base(review), *_failure(review)]
    text = joined(blocks) if blocks else ""
    return shortened(_without_commands("\n".join(part for part in (text, review.plan) if part)), longest)


def _problems(review: ReviewComment) -> list[list[str]]:
    if not review.problems:
        return []
    words = f"**The policies in {code(review.path)} cannot be used: {counted(len(review.problems), 'problem')}.**"
    return [["## Policies"], [words, "", *fence(map(str, review.problems))]]


def _base(review: ReviewComment) -> list[list[str]]:
    if not review.base_problems:
        return []
    words = "**The policies of the base cannot be used, so nothing is compared: this is the plan of the change alone.**"
    found = [str(problem)[:_LONGEST_LINE] for problem in review.base_problems]
    left = len(found) - _PROBLEMS_OF_BASE
    more = [f"and {left} more"] if left > 0 else []
    summary = f"{counted(len(found), 'problem')} of the base"
    return [[words], details(summary, fence([*found[:_PROBLEMS_OF_BASE], *more]))]


def _failure(review: ReviewComment) -> list[list[str]]:
    if not review.failure:
        return []
    lines = [line[:_LONGEST_LINE] for line in review.failure[:_LINES]]
    return [["**There is no plan of this change.**", "", *fence(lines)]]


def _without_commands(text: str) -> str:
    """Return `text` where no line begins with a slash, outside of code: GitLab takes `/approve` for a quick action."""
    return "\n".join(
        f"&#47;{line.lstrip()[1:]}" if not end and line.lstrip().startswith("/") else line
        for _, end, line in in_code(text.split("\n"))
    )


def shortened(text: str, longest: int) -> str:
    """Return `text`, Markdown, cut behind a line where it is longer than `longest`: what is open there is closed."""
    if len(text) <= longest:
        return text
    room = longest - len(_CUT) - 200  # for what closes blocks
    kept: list[str] = []
    open_code, folds = "", 0
    for _, end, line in in_code(text.split("\n")):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
        open_code = "" if line == end else end
        folds += 0 if end else line.count("<details>") - line.count("</details>")
    return "\n".join([*kept, *([open_code] if open_code else []), "", *["</details>"] * folds, "", _CUT, ""])
