"""`reconciler validate`: all problems, offline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from reconciler.cli.options import moment, now_option, option, output_option, path_argument, tenant_named, verb
from reconciler.cli.output import say, show, show_command, show_lines
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode, PolicyError, Problem
from reconciler.policy.load import check_policies
from reconciler.policy.tenants import part_of
from reconciler.policy.types import PolicySet
from reconciler.version import OUTPUT_VERSION

if TYPE_CHECKING:
    from reconciler.forecast.first_night import FirstNight


@verb("validate")
@path_argument()
@output_option("text", "json", "github", "gitlab", "sarif")
@option("--tenant", metavar="NAME", help="Check the files of one tenant of the Fleet, and the platform's.")
@option("--snapshot", metavar="DIR", help="Show the first night on this snapshot too.", group="Clusters")
@now_option
def command(path: str, output: str, tenant: str | None, **flags: Any) -> int:
    """Check the policy files below PATH, and print all problems. No cluster is read.

    With a snapshot it also shows the first night: how many workloads would go idle, and what limits would hold back.
    It warns of Services that a policy with wake: OnSignal selects, and whose connections an activator cannot hold.
    """
    moment(flags["now"])
    policies, problems = checked(path, tenant)
    if output in ("github", "gitlab", "sarif"):
        _show_for_code_hosts(problems, () if policies is None else policies.warnings, output)
        return ExitCode.MALFORMED if policies is None else ExitCode.DONE
    if policies is None:
        raise PolicyError.of(problems)
    night = None if flags["snapshot"] is None else _first_night(policies, path, flags)
    if output == "json":
        value = {"schemaVersion": OUTPUT_VERSION, "kind": "Validation", **_counts(policies), **_night(night)}
        show(json.dumps(value, indent=2) + "\n", output)
        return ExitCode.DONE
    for warning in (*policies.warnings, *(() if night is None else night.unheld)):
        say(f"warning: {warning}")
    counts = ", ".join(f"{count} {name}" for name, count in _counts(policies)["policies"].items() if count)
    show_lines([f"{path}: valid, {counts}", *_told(night)])
    return ExitCode.DONE


def _first_night(policies: PolicySet, path: str, flags: dict[str, Any]) -> FirstNight:
    from reconciler.cli.forecast import opened_snapshot
    from reconciler.cli.run import RunOptions
    from reconciler.forecast.first_night import first_night
    from reconciler.forecast.simulation import Simulation

    options = RunOptions.of(path, flags)
    names = [cluster.name for cluster in policies.fleet.clusters]
    opened = opened_snapshot(options, names, policies.fleet.namespace)
    return first_night(Simulation(policies, opened), options.now)


def _told(night: FirstNight | None) -> Iterable[str]:
    if night is None:
        return ()
    from reconciler.forecast.first_night import night_lines

    return night_lines(night)


def _night(night: FirstNight | None) -> dict[str, Any]:
    """Return the first night as a JSON value, nothing without a snapshot."""
    if night is None:
        return {}
    held = [{"what": one.what, "where": one.where, "allow": one.allow} for one in night.held_back]
    start = None if night.start is None else format_time(night.start)
    told = {"start": start, "workloads": night.workloads, "idle": dict(night.idle), "idleAlready": night.already}
    return {"firstNight": {**told, "heldBack": held, "unheld": list(night.unheld)}}


def checked(path: str, tenant: str | None = None) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return the policies below `path`, or None and all problems: also that there is nothing.

    Of a `tenant` the problems of others are left out, where these do not concern it.

    Raises:
        UsageError: there is no such tenant.
    """
    try:
        policies, problems = check_policies(path)
    except PolicyError as error:
        return None, error.problems
    if policies is not None and tenant is not None:
        policies = part_of(policies, tenant_named(policies.fleet, tenant))
        problems = policies.problems.get(tenant, ())
    return None if problems else policies, problems


def annotate(problems: Iterable[Problem], warnings: Iterable[Problem]) -> None:
    """Have GitHub put problems and warnings beside their lines of a pull request."""
    from reconciler.report.validation import leveled, problem_words

    for level, one in leveled(problems, warnings):
        show_command(level, {"file": one.file, "line": one.line, "col": one.column}, problem_words(one))


def _show_for_code_hosts(problems: Iterable[Problem], warnings: Iterable[Problem], output: str) -> None:
    from reconciler.report.validation import code_quality, leveled, sarif

    if output == "github":
        annotate(problems, warnings)
        return
    found = leveled(problems, warnings)
    show(sarif(found, version("reconciler")) if output == "sarif" else code_quality(found), "json")


def _counts(policies: PolicySet) -> dict[str, dict[str, int]]:
    return {
        "policies": {
            "Fleet": 1,
            "IdlingPolicy": len(policies.idling),
            "Calendar": len(policies.calendars),
            "FederatedReplicaSet": len(policies.federated),
            "DownscalePolicy": len(policies.downscale),
        }
    }
