"""`reconciler test`, which runs tests of policies, and `reconciler init`, which writes those that guard production."""

from __future__ import annotations

import os
from datetime import timedelta

from reconciler.cli.forecast import SimulatedSnapshot
from reconciler.cli.options import GENERAL, Options, option, output_option, path_argument, policies_option, verb
from reconciler.cli.output import Formats, say, show
from reconciler.cli.run_options import RunOptions
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode, PolicyError, Problem, UsageError
from reconciler.forecast.policy_reach import guards, left_out_by, left_out_lines, reach_lines, reach_of
from reconciler.messages import counted
from reconciler.policy.load import read_policies
from reconciler.policy.policy_files import TESTS
from reconciler.policy.types import PolicySet
from reconciler.policy_tests.case_runs import CaseResult, case_results
from reconciler.policy_tests.cases import CaseFile, read_case_files
from reconciler.policy_tests.expectations import coverage
from reconciler.policy_tests.render import Results, as_dict, as_junit, as_lines
from reconciler.yaml.files import is_inside, spelt, write_new
from reconciler.yaml.writer import block_text

FORMATS: Formats = {"text": as_lines, "json": as_dict, "junit": as_junit}


class _TestOptions(Options):
    path: str = path_argument()
    policies_path: str | None = policies_option(
        "The policies that are tested.",
        default=None,
        default_words="PATH, or the folder of the file",
        envvar=None,  # its variable is that of PATH, and would win over a PATH that is given
    )
    coverage: bool = option("List policies, and decisions of policies, that no case looks at.", default=False)
    output: str = output_option(*FORMATS)


@verb("test", _TestOptions)
def test_command(options: _TestOptions) -> int:
    """Run the tests of policies (*_test.yaml) below PATH against the policies there.

    PATH may be one test file; the policies are those of its folder. Ends with 1 where a case fails.

    # Run the tests below ./policies
    test
    # Write the results for a CI system, and list what has no case
    test --coverage -o junit > results.xml
    """
    path = options.path
    expected = f"expected a file named *{TESTS[0]}, or a folder with some"
    if not os.path.exists(path):
        raise UsageError(f"{spelt(path)}: does not exist, {expected}")
    if not os.path.isdir(path) and not path.endswith(TESTS):  # a test with nothing right in it
        raise UsageError(f"{spelt(path)}: is no test of policies, {expected}")
    folder = options.policies_path or (path if os.path.isdir(path) else os.path.dirname(path) or ".")
    files, policies = _read(path, folder)
    cases: list[CaseResult] = [result for file in files for result in case_results(file, policies)]
    touched = {row for result in cases for row in result.touched}
    results = Results(cases, coverage(policies, touched) if options.coverage else None)
    show(FORMATS[options.output](results), options.output)
    return ExitCode.NOTHING_DONE if results.failed else ExitCode.DONE


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


# Init: what may be idled, and the policy tests that keep production from being selected by mistake.


FILE = "production_test.yaml"
_HEAD = """\
# No policy may select production: what a limit holds back today, it may not hold back tomorrow.
# A change that selects production on purpose says so here too. Run: reconciler test
"""


class _InitOptions(RunOptions):
    snapshot: str | None = option(
        "A snapshot of the clusters; `reconciler snapshot DIR` writes it.", metavar="DIR", group=GENERAL
    )
    overwrite: bool = option(f"Replace {FILE}.", default=False)


@verb("init", _InitOptions, "path", "now")
def init_command(options: _InitOptions) -> int:
    """Show what may be idled by the policies below PATH, and write production_test.yaml there.

    The tests in it fail once a policy selects what is production now. Nothing else is written, and no cluster is read.

    # Write policies/production_test.yaml, from a snapshot
    init policies --snapshot ./snapshot
    # Write it again, after production changed on purpose
    init policies --snapshot ./snapshot --overwrite
    """
    path, overwrite = options.path, options.overwrite
    target = os.path.join(path, FILE)
    _check(path, target, options.snapshot, overwrite)
    policies = options.policies()
    simulation = SimulatedSnapshot(options, policies).simulation(policies)
    step = next(iter(simulation.play(options.now, options.now + timedelta(seconds=1))))
    reaches = reach_of(policies.fleet, step)
    show([*reach_lines(reaches), *left_out_lines(left_out_by(step.plan), step.plan.places)])
    expected = guards(policies.fleet, reaches)
    if expected:
        case = {"name": "production is not selected", "at": format_time(options.now), "expect": expected}
        snapshot = os.path.relpath(str(options.snapshot), path).replace(os.sep, "/")
        if overwrite and os.path.lexists(target):
            os.unlink(target)
        write_new(target, f"{_HEAD}{block_text({'snapshot': snapshot, 'cases': [case]})}", 0o644)
        guarded = counted(sum(len(reach.production - reach.selected) for reach in reaches), "workload")
        show([f"{spelt(target)}: written, guards {guarded} of production; run: reconciler test"])
    else:
        words = "say what is production in the Fleet (clusters[].production: true, or spec.production)"
        show([f"Nothing to guard: {words}."])
    for name, why in sorted(step.plan.unknown.items()):
        say(f"warning: {name}: {why}; nothing is known of it")
    return ExitCode.PARTIAL if step.plan.unknown else ExitCode.DONE


def _check(path: str, target: str, snapshot: str | None, overwrite: bool) -> None:
    """Check that the test file can be written, and that `reconciler test` may read its snapshot.

    Raises:
        UsageError: there is no snapshot, it is outside of the working directory, or the file is there already.
    """
    if snapshot is None:
        raise UsageError("--snapshot: is missing, expected a snapshot; write one: reconciler snapshot ./snapshot")
    if not os.path.isdir(path):
        raise UsageError(f"{spelt(path)}: is no folder, expected one with policies")
    if not is_inside(snapshot, os.path.realpath(".")):
        raise UsageError(f"--snapshot: {spelt(snapshot)} is elsewhere, expected a folder below the working directory")
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{spelt(target)}: exists, expected no such file; replace it with --overwrite")
