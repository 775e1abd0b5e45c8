"""The problems of policy files, in the forms that code hosts show beside the lines of a change."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from reconciler.errors import Problem
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


def leveled(problems: Iterable[Problem], warnings: Iterable[Problem]) -> Found:
    """Return both with their level, problems first."""
    return [*(("error", problem) for problem in problems), *(("warning", problem) for problem in warnings)]


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
                "location": {"path": posixpath.normpath(problem.file), "lines": {"begin": problem.line}},
            }
            for (level, problem), mark in zip(found, _fingerprints(found), strict=True)
        ]
    )


def _result(level: str, problem: Problem, fingerprint: str) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(posixpath.normpath(problem.file), errors="surrogateescape")},
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
        text = "\0".join((level, posixpath.normpath(problem.file), problem.field, problem.message))
        seen[text] = seen.get(text, 0) + 1
        yield hashlib.sha256(f"{text}\0{seen[text]}".encode(errors="surrogateescape")).hexdigest()


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
