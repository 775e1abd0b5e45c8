"""The results of tests of policies as text, as JSON and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any
from xml.etree import ElementTree

from msgspec import Struct

from reconciler.decide.annotations import format_time
from reconciler.messages import counted
from reconciler.policy_tests.case_runs import CaseResult
from reconciler.policy_tests.expectations import PolicyCoverage, Unmet
from reconciler.report.times import time_and_zone
from reconciler.untrusted_text import escaped
from reconciler.version import OUTPUT_VERSION


class Results(Struct, frozen=True):
    """`covered` is None where nobody asked for it."""

    cases: Sequence[CaseResult]
    covered: Sequence[PolicyCoverage] | None = None

    @property
    def failed(self) -> int:
        return sum(bool(result.failures) for result in self.cases)


def as_lines(results: Results) -> Iterator[str]:
    """Yield a line for each case, below it why it failed, and the counts."""
    for result in results.cases:
        yield f"{'FAIL' if result.failures else 'PASS'}  {result.case.place}  {result.case.name}"
        for failure in result.failures:
            yield from (f"  {line}" for line in _failure_lines(failure, result.zone))
    yield ""
    if results.covered is not None:
        yield from _coverage_lines(results.covered)
        yield ""
    passed = len(results.cases) - results.failed
    yield f"{counted(len(results.cases), 'case')}: {passed} passed, {results.failed} failed."


def _failure_lines(failure: Unmet, zone: tzinfo) -> Iterator[str]:
    yield f"{failure.place}: {failure.subject} at {time_and_zone(failure.at, zone)}"
    yield f"  expected  {failure.expected}"
    yield f"  got       {failure.got}"
    for reason in failure.reasons[:1]:
        yield f"  because   {reason}"


def _coverage_lines(covered: Sequence[PolicyCoverage]) -> Iterator[str]:
    touched = sum(policy.is_touched for policy in covered)
    yield f"Coverage: cases for {touched} of {counted(len(covered), 'policy', 'policies')}."
    for policy in covered:
        if policy.unseen:
            words = f"no {' and no '.join(policy.unseen)}" if policy.is_touched else "no case"
            yield f"  {policy.kind} {policy.name} ({policy.place}): {words}"


def as_dict(results: Results) -> dict[str, Any]:
    """Return all of it as JSON values."""
    found: dict[str, Any] = {
        "schemaVersion": OUTPUT_VERSION,
        "kind": "PolicyTestResults",
        "passed": len(results.cases) - results.failed,
        "failed": results.failed,
        "cases": [
            {
                "name": result.case.name,
                "file": result.case.place.file,
                "line": result.case.place.line,
                "passed": not result.failures,
                "failures": [_failure_dict(failure) for failure in result.failures],
            }
            for result in results.cases
        ],
    }
    if results.covered is not None:
        found["coverage"] = [
            {"kind": one.kind, "name": one.name, "hasCase": one.is_touched, "seen": one.seen, "unseen": one.unseen}
            for one in results.covered
        ]
    return found


def _failure_dict(failure: Unmet) -> dict[str, Any]:
    return {
        "file": failure.place.file,
        "line": failure.place.line,
        "at": format_time(failure.at),
        "object": failure.subject,
        "expected": failure.expected,
        "got": failure.got,
        "reasons": list(failure.reasons),
    }


def as_junit(results: Results) -> str:
    """Return JUnit XML as CI systems read it: a suite for each file, a testcase for each case."""
    root = ElementTree.Element("testsuites", _counts(results.cases))
    for file in dict.fromkeys(result.case.place.file for result in results.cases):
        cases = [result for result in results.cases if result.case.place.file == file]
        suite = ElementTree.SubElement(root, "testsuite", {"name": escaped(file), **_counts(cases)})
        for result in cases:
            place = {"file": escaped(file), "line": str(result.case.place.line)}
            names = {"classname": escaped(file), "name": escaped(result.case.name)}
            case = ElementTree.SubElement(suite, "testcase", {**names, **place})
            if result.failures:
                words = f"expected {result.failures[0].expected}, got {result.failures[0].got}"
                failure = ElementTree.SubElement(case, "failure", {"message": escaped(words)})
                failure.text = "\n".join(
                    escaped(line) for each in result.failures for line in _failure_lines(each, result.zone)
                )
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    failed = sum(bool(result.failures) for result in cases)
    return {"tests": str(len(cases)), "failures": str(failed), "errors": "0", "skipped": "0"}
