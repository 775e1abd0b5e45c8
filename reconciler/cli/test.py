"""`reconciler test`: test cases, run on a snapshot and compared with what they expect."""

from __future__ import annotations

import os
from typing import Any

from reconciler.cli.options import option, output_option, path_argument, policies_option, verb
from reconciler.cli.output import as_text, show, show_lines
from reconciler.errors import ExitCode, PolicyError, Problem, UsageError
from reconciler.policy.load import read_policies
from reconciler.policy.policy_files import TESTS
from reconciler.policy.types import PolicySet
from reconciler.policy_tests.cases import CaseFile, read_case_files
from reconciler.policy_tests.expectations import coverage
from reconciler.policy_tests.play import CaseResult, case_results
from reconciler.policy_tests.render import Results, as_dict, as_junit, as_lines
from reconciler.yaml.files import spelt


@verb("test")
@path_argument()
@policies_option(
    default=None,
    default_words="PATH, or the folder of the file",
    help="The policies that are tested.",
    envvar=None,  # its variable is that of PATH, and would win over a PATH that is given
)
@option("--coverage", is_flag=True, help="List policies, and decisions of policies, that no case looks at.")
@output_option("text", "json", "junit")
def test_command(path: str, output: str, **flags: Any) -> int:
    """Run the tests of policies (*_test.yaml) below PATH against the policies there.

    PATH may be one test file; the policies are those of its folder. Ends with 1 where a case fails.
    """
    _check_path(path)
    folder = flags["policies"] or (path if os.path.isdir(path) else os.path.dirname(path) or ".")
    files, policies = _read(path, folder)
    cases: list[CaseResult] = [result for file in files for result in case_results(file, policies)]
    touched = {row for result in cases for row in result.touched}
    results = Results(cases, coverage(policies, touched) if flags["coverage"] else None)
    if output == "junit":
        show(as_junit(results))
    elif output == "json":
        show(as_text(as_dict(results), output), output)
    else:
        show_lines(as_lines(results))
    return ExitCode.NOTHING_DONE if results.failed else ExitCode.DONE


def _check_path(path: str) -> None:
    """Check that `path` can hold tests: what is in another file would be called a test with nothing right in it.

    Raises:
        UsageError: it is a file of another name, or there is nothing.
    """
    expected = f"expected a file named *{TESTS[0]}, or a folder with some"
    if not os.path.exists(path):
        raise UsageError(f"{spelt(path)}: does not exist, {expected}")
    if not os.path.isdir(path) and not path.endswith(TESTS):
        raise UsageError(f"{spelt(path)}: is no test of policies, {expected}")


def _read(path: str, folder: str) -> tuple[tuple[CaseFile, ...], PolicySet]:
    """Return the tests and the policies; problems of both are reported together.

    Raises:
        PolicyError: with all problems of both. UsageError: there are no tests.
    """
    policies: PolicySet | None = None
    problems: list[Problem] = []
    try:
        policies = read_policies(folder)
    except PolicyError as error:
        problems += error.problems
    try:
        files = read_case_files(path, None if policies is None else [one.name for one in policies.fleet.clusters])
    except PolicyError as error:
        raise PolicyError.of([*problems, *error.problems]) from error
    if not files:
        raise UsageError(f"{spelt(path)}: has no tests, expected a file named *{TESTS[0]}")
    if policies is None:
        raise PolicyError.of(problems)
    return files, policies
