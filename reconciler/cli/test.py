"""`reconciler test`: cases that are played on a snapshot, and compared with what is expected."""

from __future__ import annotations

import json
import os
from typing import Any

from reconciler.cli.options import option, output_option, path_argument, verb
from reconciler.cli.output import show, show_lines
from reconciler.errors import ExitCode, PolicyError, ReconcilerError, UsageError
from reconciler.policy.load import TESTS, read_policies
from reconciler.policy_tests.cases import CaseFile, read_case_files
from reconciler.policy_tests.coverage import coverage
from reconciler.policy_tests.play import CaseResult, played
from reconciler.policy_tests.render import Results, as_dict, as_junit, as_lines


@verb("test")
@path_argument()
@option("--coverage", is_flag=True, help="List policies, and decisions of policies, that no case looks at.")
@output_option("text", "json", "junit")
def command(path: str, output: str, **flags: Any) -> int:
    """Run the tests of policies (*_test.yaml) below PATH against the policies there.

    PATH may be one test file; the policies are those of its folder. Ends with 1 where a case fails.
    """
    folder = os.path.dirname(path) or "." if path.endswith(TESTS) else path
    files = _read(path, folder)
    policies = read_policies(folder)
    if not files:
        raise UsageError(f"{path}: has no tests, expected a file named *{TESTS[0]}")
    cases: list[CaseResult] = [result for file in files for result in played(file, policies)]
    touched = {row for result in cases for row in result.touched}
    results = Results(cases, coverage(policies, touched) if flags["coverage"] else None)
    if output == "junit":
        show(as_junit(results))
    elif output == "json":
        show(json.dumps(as_dict(results), indent=2, ensure_ascii=False) + "\n", output)
    else:
        show_lines(as_lines(results))
    return ExitCode.NOTHING_DONE if results.failed else ExitCode.DONE


def _read(path: str, folder: str) -> tuple[CaseFile, ...]:
    """Return the tests; what is wrong with the policies is told together with what is wrong with them.

    Raises:
        PolicyError: with all problems of both.
    """
    try:
        return read_case_files(path)
    except PolicyError as error:
        problems = list(error.problems)
        try:
            read_policies(folder)
        except ReconcilerError as other:
            problems += other.problems
        raise PolicyError.of(problems) from error
