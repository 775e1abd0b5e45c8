"""What code hosts show of a change of policies: problems beside its lines, and the review as a comment."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.messages import counted
from reconciler.report.markdown import code, details, fence, in_code, joined
from reconciler.untrusted_text import short

Found = Sequence[tuple[str, Problem]]
"""Problems with their level, "error" or "warning"."""

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    "error": (
        "invalid-policy",
        "A policy file that cannot be used.",
        "No policy is applied until all files are valid. The message says what was found, and what was expected.",
    ),
    "warning": (
        "doubtful-policy",
        "A policy that is valid, and probably a mistake.",
        "The policy is applied as it is. The message says what it does not do.",
    ),
}
_SEVERITIES = {"error": "major", "warning": "minor"}


def leveled(problems: Iterable[Problem], warnings: Iterable[Problem], root: str = ".") -> Found:
    """Return both with their level, problems first; their files are relative to `root`, that of the repository."""
    found = [*(("error", problem) for problem in problems), *(("warning", problem) for problem in warnings)]
    return [(level, replace(one, file=os.path.relpath(os.path.realpath(one.file), root))) for level, one in found]


def problem_words(problem: Problem) -> str:
    """Return what is wrong without the place, on one line."""
    return short(f"{problem.field}: {problem.message}" if problem.field else problem.message)


def sarif(found: Found, version: str) -> str:
    """Return a SARIF 2.1.0 log of one run. Columns count characters; files are relative to the root of the sources.

    Source: OASIS SARIF 2.1.0, sections 3.14 (run), 3.27 (result), 3.29 (physicalLocation), 3.30 (region); GitHub
    documentation, "SARIF support for code scanning", reportingDescriptor object.
    """
    rules = [
        {
            "id": name,
            "shortDescription": {"text": words},
            "fullDescription": {"text": f"{words} {effect}"},
            "help": {"text": f"{effect} Run `reconciler validate` to see all problems at once."},
            "defaultConfiguration": {"level": level},
        }
        for level, (name, words, effect) in _RULES.items()
    ]
    run = {
        "tool": {"driver": {"name": "reconciler", "semanticVersion": version, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(level, problem, mark) for (level, problem), mark in zip(found, _fingerprints(found), strict=True)
        ],
    }
    return _text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def code_quality(found: Found) -> str:
    """Return a Code Quality report of GitLab: a list, empty where nothing is wrong.

    Source: GitLab documentation, ci/testing/code_quality.md, "Code Quality report format".
    """
    return _text(
        [
            {
                "description": problem_words(problem),
                "check_name": _RULES[level][0],
                "fingerprint": mark,
                "severity": _SEVERITIES[level],
                "location": {"path": problem.file, "lines": {"begin": problem.line}},
            }
            for (level, problem), mark in zip(found, _fingerprints(found), strict=True)
        ]
    )


def _result(level: str, problem: Problem, fingerprint: str) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(problem.file, errors="surrogateescape")},
        "region": {"startLine": problem.line, "startColumn": problem.column},
    }
    return {
        "ruleId": _RULES[level][0],
        "level": level,
        "message": {"text": problem_words(problem)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"problem/v1": fingerprint},
    }


def _fingerprints(found: Found) -> Iterator[str]:
    """Yield what stays the same while lines move, and is another one for each of several equal problems."""
    seen: dict[str, int] = {}
    for level, problem in found:
        text = "\0".join((level, problem.file, problem.field, problem.message))
        seen[text] = seen.get(text, 0) + 1
        yield hashlib.sha256(f"{text}\0{seen[text]}".encode(errors="surrogateescape")).hexdigest()


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


# The review as the comment on its pull request, never longer than a comment may be.


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
    blocks: list[list[str]] = []
    if review.problems:
        words = f"**The policies in {code(review.path)} cannot be used: {counted(len(review.problems), 'problem')}.**"
        blocks += [["## Policies"], [words, "", *fence(map(str, review.problems))]]
    if review.base_problems:
        words = "The policies of the base cannot be used, so nothing is compared: this is the plan of the change alone."
        found = [str(problem)[:_LONGEST_LINE] for problem in review.base_problems]
        left = len(found) - _PROBLEMS_OF_BASE
        lines = fence([*found[:_PROBLEMS_OF_BASE], *([f"and {left} more"] if left > 0 else [])])
        blocks += [[f"**{words}**"], details(f"{counted(len(found), 'problem')} of the base", lines)]
    if review.failure:
        lines = fence(line[:_LONGEST_LINE] for line in review.failure[:_LINES])
        blocks.append(["**There is no plan of this change.**", "", *lines])
    text = "\n".join(part for part in (joined(blocks) if blocks else "", review.plan) if part)
    # No line begins with a slash outside of code: GitLab takes `/approve` for a quick action.
    quiet = (
        f"&#47;{line.lstrip()[1:]}" if not end and line.lstrip().startswith("/") else line
        for _, end, line in in_code(text.split("\n"))
    )
    return shortened("\n".join(quiet), longest)


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
