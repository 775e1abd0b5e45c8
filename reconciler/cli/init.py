"""`reconciler init`: what may sleep, and the policy tests that keep production from being selected by mistake."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from reconciler.cli.forecast import opened_snapshot
from reconciler.cli.options import now_option, option, path_argument, verb
from reconciler.cli.output import say, show_lines
from reconciler.cli.run import RunOptions
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode, UsageError
from reconciler.forecast.reach import ClusterReach, guards, left_out_by, left_out_lines, reach_lines, reach_of
from reconciler.forecast.simulation import Simulation
from reconciler.report.wording import counted
from reconciler.yaml.files import is_inside, spelt, write_new
from reconciler.yaml.writer import block_text

FILE = "production_test.yaml"
_HEAD = """\
# No policy may select production: what a limit holds back today, it may not hold back tomorrow.
# A change that selects production on purpose says so here too. Run: reconciler test
"""


@verb("init")
@path_argument()
@option("--snapshot", metavar="DIR", help="A snapshot of the clusters; `reconciler snapshot DIR` writes it.")
@option("--overwrite", is_flag=True, help=f"Replace {FILE}.")
@now_option
def init_command(path: str, overwrite: bool, **flags: Any) -> int:
    """Show what may sleep by the policies below PATH, and write production_test.yaml there.

    The tests in it fail once a policy selects what is production now. Nothing else is written, and no cluster is read.
    """
    options = RunOptions.of(path, flags)
    target = os.path.join(path, FILE)
    _check(path, target, options.snapshot, overwrite)
    policies = options.policies()
    simulation = Simulation(policies, opened_snapshot(options, policies))
    step = next(iter(simulation.play(options.now, options.now + timedelta(seconds=1))))
    reaches = reach_of(policies.fleet, step)
    show_lines([*reach_lines(reaches), *left_out_lines(left_out_by(step.plan), step.plan.places)])
    expected = guards(policies.fleet, reaches)
    if expected:
        case = {"name": "production is not selected", "at": format_time(options.now), "expect": expected}
        snapshot = os.path.relpath(str(options.snapshot), path).replace(os.sep, "/")
        if overwrite and os.path.lexists(target):
            os.unlink(target)
        write_new(target, f"{_HEAD}{block_text({'snapshot': snapshot, 'cases': [case]})}", 0o644)
    show_lines(_written(target, reaches, written=bool(expected)))
    for name, why in sorted(step.plan.unknown.items()):
        say(f"warning: {name}: {why}; nothing is known of it")
    return ExitCode.PARTIAL if step.plan.unknown else ExitCode.DONE


def _written(target: str, reaches: Sequence[ClusterReach], *, written: bool) -> Iterator[str]:
    free = sum(len(one.production - one.selected) for one in reaches)
    if written:
        yield f"{spelt(target)}: written, guards {counted(free, 'workload')} of production; run: reconciler test"
    else:
        yield "Nothing to guard: say what is production in the Fleet (clusters[].production: true, or spec.production)."


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
